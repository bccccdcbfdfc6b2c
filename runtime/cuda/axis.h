// Launches of what goes along one axis of [outer, size, inner] beside softmax: CUMSUM, ARG_REDUCE and TOPK.
#ifndef DELTA_RUNTIME_CUDA_AXIS_H_
#define DELTA_RUNTIME_CUDA_AXIS_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct delta_cuda_axis {
  delta_dtype_t dtype;
  int64_t outer, size, inner;
} delta_cuda_axis_t;

cudaError_t delta_cuda_cumsum_launch(const delta_cuda_axis_t *self, bool exclusive, bool reverse, const void *x, void *y,
                                     cudaStream_t stream);
// Lines are not empty.
cudaError_t delta_cuda_arg_reduce_launch(const delta_cuda_axis_t *self, bool smallest, bool select_last, const void *x, int64_t *indices,
                                         cudaStream_t stream);
// Either output may be NULL.
cudaError_t delta_cuda_topk_launch(const delta_cuda_axis_t *self, int64_t k, bool smallest, const void *x, void *values, int64_t *indices,
                                   cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_AXIS_H_
