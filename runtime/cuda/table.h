// Table: host data that kernels read, brought to the device when a kernel is prepared. Outside the arena, so for what is small.
#ifndef DELTA_RUNTIME_CUDA_TABLE_H_
#define DELTA_RUNTIME_CUDA_TABLE_H_

#include "runtime/cuda/device.h"

// Copies `size_bytes` (0: gives NULL) to memory of the device; it is there when the call returns.
DELTA_MUST_USE delta_status_t delta_cuda_table_make(delta_device_t *device, const void *data, size_t size_bytes, void **out_table);
void delta_cuda_table_free(void *table); // NULL is fine.

#endif // DELTA_RUNTIME_CUDA_TABLE_H_
