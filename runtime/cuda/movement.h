// Launches of what moves elements in more than one box: padding and triangles.
#ifndef DELTA_RUNTIME_CUDA_MOVEMENT_H_
#define DELTA_RUNTIME_CUDA_MOVEMENT_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "base/dtype.h"
#include "runtime/cuda/index.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_CUDA_PAD_RANK = 8 };
// The modes of PAD, in the order of delta_pad_mode_t.
typedef enum delta_cuda_pad_mode {
  DELTA_CUDA_PAD_CONSTANT,
  DELTA_CUDA_PAD_REFLECT,
  DELTA_CUDA_PAD_EDGE,
  DELTA_CUDA_PAD_WRAP
} delta_cuda_pad_mode_t;

// x is what is padded, y the padded tensor (or their gradients).
typedef struct delta_cuda_pad {
  delta_dtype_t dtype;
  int32_t element_bytes;
  delta_cuda_pad_mode_t mode;
  int32_t rank;
  uint64_t x_count, y_count;
  delta_divisor_t x_dims[DELTA_CUDA_PAD_RANK], y_dims[DELTA_CUDA_PAD_RANK];
  int64_t x_strides[DELTA_CUDA_PAD_RANK], y_strides[DELTA_CUDA_PAD_RANK];
  int64_t first[DELTA_CUDA_PAD_RANK];  // index in x of the first element that is not cut
  int64_t kept[DELTA_CUDA_PAD_RANK];   // how many are not
  int64_t before[DELTA_CUDA_PAD_RANK]; // added before it, and after the last
  int64_t after[DELTA_CUDA_PAD_RANK];
  uint64_t value; // of CONSTANT, as stored
} delta_cuda_pad_t;

cudaError_t delta_cuda_pad_launch(const delta_cuda_pad_t *self, const void *x, void *y, cudaStream_t stream);
cudaError_t delta_cuda_pad_grad_launch(const delta_cuda_pad_t *self, const void *dy, void *dx, cudaStream_t stream);

// Keeps the elements of [.., rows, columns] on or above diagonal k (below, when lower); y may be x.
typedef struct delta_cuda_triangle {
  int32_t element_bytes;
  uint64_t count;
  int64_t rows, columns, k;
  bool upper;
} delta_cuda_triangle_t;
cudaError_t delta_cuda_triangle_launch(const delta_cuda_triangle_t *self, const void *x, void *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_MOVEMENT_H_
