// Launches of softmax along one axis of [outer, size, inner].
#ifndef DELTA_RUNTIME_CUDA_SOFTMAX_H_
#define DELTA_RUNTIME_CUDA_SOFTMAX_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct delta_cuda_softmax {
  delta_dtype_t dtype; // a float type
  int64_t outer, size, inner;
  bool log_of;
} delta_cuda_softmax_t;

cudaError_t delta_cuda_softmax_launch(const delta_cuda_softmax_t *self, const void *x, void *y, cudaStream_t stream);
cudaError_t delta_cuda_softmax_grad_launch(const delta_cuda_softmax_t *self, const void *dy, const void *y, void *dx, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_SOFTMAX_H_
