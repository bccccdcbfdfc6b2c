// Table: an allocation and a copy.
#include "runtime/cuda/table.h"

delta_status_t delta_cuda_table_make(delta_device_t *device, const void *data, size_t size_bytes, void **out_table) {
  *out_table = NULL;
  if (size_bytes == 0) return DELTA_OK;
  void *table = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK_BYTES(cudaMalloc(&table, size_bytes), size_bytes));
  const delta_status_t status = device->driver->write(device, table, data, size_bytes);
  if (status) {
    delta_cuda_table_free(table);
    return status;
  }
  *out_table = table;
  return DELTA_OK;
}

void delta_cuda_table_free(void *table) {
  if (table) (void)cudaFree(table);
}
