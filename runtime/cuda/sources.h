// Sources: CUDA C++ text compiled while the program runs (NVRTC), each text once per device, and kept on disk by hash for the next run.
//
// Compiled code lies in the user's cache folder (runtime/cache.h), named by the hash of text, options, compiler and architecture; with its own hash before it, so that
// what is damaged is made again. Where there is no such folder everything is compiled each time. Products and sums are not fused into one rounding, so that
// expressions have the bits that they have on other devices.
#ifndef DELTA_RUNTIME_CUDA_SOURCES_H_
#define DELTA_RUNTIME_CUDA_SOURCES_H_

#include "runtime/cuda/device.h"

// The function `name` of the text, compiled and loaded; lives as long as the device. INTERNAL has the compiler's messages.
DELTA_MUST_USE delta_status_t delta_cuda_source_function(delta_cuda_device_t *device, const char *text, const char *name,
                                                         CUfunction *out_function);

#endif // DELTA_RUNTIME_CUDA_SOURCES_H_
