// How much memory the GPU can still give.
#include "runtime/cuda/device.h"

delta_status_t delta_cuda_free_bytes(delta_device_t *device, uint64_t *out_free_bytes) {
  size_t free_bytes = 0, total_bytes = 0;
  DELTA_RETURN_IF_ERROR(delta_cuda_use(delta_cuda_device(device)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes)));
  *out_free_bytes = free_bytes > device->reserve_bytes ? free_bytes - device->reserve_bytes : 0;
  return DELTA_OK;
}
