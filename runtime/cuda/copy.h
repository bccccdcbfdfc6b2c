// Copy: moves the elements of a box between two strided layouts. What transposes, slices, pads, splits and concatenates.
#ifndef DELTA_RUNTIME_CUDA_COPY_H_
#define DELTA_RUNTIME_CUDA_COPY_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "runtime/cuda/index.h"

enum { DELTA_CUDA_COPY_RANK = 8 };

// Made once for given layouts: dimensions of 1 are dropped and neighbouring ones merged where both layouts allow it; neighbouring elements are one of up to 16 bytes where they
// stay together.
typedef struct delta_cuda_copy {
  int32_t element_bytes; // 1, 2, 4, 8 or 16
  int32_t rank;          // at least 1
  bool crosswise;        // the source is dense along the last but one dimension, the target along the last
  uint64_t count;        // of elements
  delta_divisor_t dims[DELTA_CUDA_COPY_RANK];
  int64_t to_strides[DELTA_CUDA_COPY_RANK], from_strides[DELTA_CUDA_COPY_RANK]; // in elements
  int64_t to_start, from_start;
} delta_cuda_copy_t;

#ifdef __cplusplus
extern "C" {
#endif
// Neither layout may overlap the other's bytes, and no two elements of the box the same target.
cudaError_t delta_cuda_copy_launch(const delta_cuda_copy_t *copy, void *to, const void *from, cudaStream_t stream);
#ifdef __cplusplus
}
#else
#include "onnx/graph/access.h"
void delta_cuda_copy_init(delta_cuda_copy_t *copy, const delta_shape_t *box, size_t element_bytes, const delta_strided_t *to,
                          const delta_strided_t *from);
#endif

#endif // DELTA_RUNTIME_CUDA_COPY_H_
