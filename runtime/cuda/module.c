// What the module exports.
#include <delta/export.h>
#include <delta/version.h>

#include "runtime/cuda/device.h"

DELTA_API extern const delta_driver_module_t delta_cuda_module;
const delta_driver_module_t delta_cuda_module =
    DELTA_DRIVER_MODULE(DELTA_VERSION_STRING, "cuda", delta_cuda_device_count, delta_cuda_device_open);
