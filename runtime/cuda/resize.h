// Launch of a resize, or of its gradient: along each axis a result is a weighted sum of a list of elements.
#ifndef DELTA_RUNTIME_CUDA_RESIZE_H_
#define DELTA_RUNTIME_CUDA_RESIZE_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "base/dtype.h"
#include "runtime/cuda/index.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_CUDA_RESIZE_RANK = 8 };

// Lists of one axis, on the device: result i takes elements indices[k] times weights[k] for k from starts[i] to starts[i + 1].
typedef struct delta_cuda_resize_axis {
  const int64_t *starts; // NULL: each result is its own element
  const int64_t *indices;
  const double *weights;
  const uint8_t *outside; // results that take the extrapolation value; NULL: none does
} delta_cuda_resize_axis_t;

typedef struct delta_cuda_resize {
  delta_dtype_t dtype;
  int32_t rank;
  uint64_t count; // of results
  delta_divisor_t dims[DELTA_CUDA_RESIZE_RANK];
  int64_t from_strides[DELTA_CUDA_RESIZE_RANK];
  delta_cuda_resize_axis_t axes[DELTA_CUDA_RESIZE_RANK];
  double extrapolation_value;
} delta_cuda_resize_t;

cudaError_t delta_cuda_resize_launch(const delta_cuda_resize_t *self, const void *from, void *to, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_RESIZE_H_
