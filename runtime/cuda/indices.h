// Index tensors in device code. C++.
#ifndef DELTA_RUNTIME_CUDA_INDICES_H_
#define DELTA_RUNTIME_CUDA_INDICES_H_

#include "runtime/cuda/element.h"

typedef struct delta_indices {
  const void *data;
  bool are_wide; // int64, else int32
} delta_indices_t;

// The index at a position, from the end when negative; -1 when it is outside of [0, size).
DELTA_DEVICE int64_t delta_index_at(const delta_indices_t &indices, uint64_t position, int64_t size) {
  int64_t index = indices.are_wide ? ((const int64_t *)indices.data)[position] : (int64_t)((const int32_t *)indices.data)[position];
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

#endif // DELTA_RUNTIME_CUDA_INDICES_H_
