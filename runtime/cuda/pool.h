// Launches of pooling and its gradients.
#ifndef DELTA_RUNTIME_CUDA_POOL_H_
#define DELTA_RUNTIME_CUDA_POOL_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "base/dtype.h"
#include "runtime/cuda/index.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_CUDA_POOL_DIMS = 3 };
// What the index of a maximum is, in the order of delta_pool_index_t.
typedef enum delta_cuda_pool_index { DELTA_CUDA_POOL_WINDOW, DELTA_CUDA_POOL_FLAT, DELTA_CUDA_POOL_FLAT_COLUMN } delta_cuda_pool_index_t;

// Data lies as [images, spatial.., channels]: plain tensors have one channel of each of their planes, blocked ones the channels of a block.
typedef struct delta_cuda_pool {
  delta_dtype_t dtype;
  delta_cuda_pool_index_t index;
  bool count_include_pad;
  int32_t kernel[DELTA_CUDA_POOL_DIMS], strides[DELTA_CUDA_POOL_DIMS], dilations[DELTA_CUDA_POOL_DIMS];
  int32_t pads[DELTA_CUDA_POOL_DIMS], pads_end[DELTA_CUDA_POOL_DIMS];
  int32_t data[DELTA_CUDA_POOL_DIMS], out[DELTA_CUDA_POOL_DIMS];
  int64_t data_count, out_count; // of one plane
  uint64_t data_elements, out_elements;
  delta_divisor_t by_channels, by_data[DELTA_CUDA_POOL_DIMS], by_out[DELTA_CUDA_POOL_DIMS];
} delta_cuda_pool_t;

// `index` may be NULL: uint8 for WINDOW, else int64.
cudaError_t delta_cuda_max_pool_launch(const delta_cuda_pool_t *self, const void *x, void *y, void *index, cudaStream_t stream);
cudaError_t delta_cuda_max_pool_grad_launch(const delta_cuda_pool_t *self, const void *dy, const void *index, void *dx,
                                            cudaStream_t stream);
cudaError_t delta_cuda_average_pool_launch(const delta_cuda_pool_t *self, const void *x, void *y, cudaStream_t stream);
cudaError_t delta_cuda_average_pool_grad_launch(const delta_cuda_pool_t *self, const void *dy, void *dx, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_POOL_H_
