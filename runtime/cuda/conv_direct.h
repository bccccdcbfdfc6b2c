// Launches of convolutions without a library: any float type, any layout, any padding; and of what is done around the library's.
#ifndef DELTA_RUNTIME_CUDA_CONV_DIRECT_H_
#define DELTA_RUNTIME_CUDA_CONV_DIRECT_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "base/dtype.h"
#include "runtime/cuda/index.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_CUDA_CONV_DIMS = 3 };

// A tensor [images, channels, spatial..] by the distances of its elements: blocks of `block` channels lie `channel_block` apart, and their channels `channel` apart.
typedef struct delta_cuda_conv_strides {
  int64_t image, channel_block, channel, position;
  int64_t block;
} delta_cuda_conv_strides_t;

// A convolution and its two gradients: x and y are those of the forward pass. Weights are [out_channels, channels of a group, kernel..].
typedef struct delta_cuda_conv {
  delta_dtype_t dtype; // a float type
  int64_t images, channels, out_channels, groups;
  int64_t kernel[DELTA_CUDA_CONV_DIMS], strides[DELTA_CUDA_CONV_DIMS], dilations[DELTA_CUDA_CONV_DIMS], pads[DELTA_CUDA_CONV_DIMS];
  int64_t data[DELTA_CUDA_CONV_DIMS], out[DELTA_CUDA_CONV_DIMS];
  delta_cuda_conv_strides_t x, y;
} delta_cuda_conv_t;

// `bias` may be NULL.
cudaError_t delta_cuda_conv_launch(const delta_cuda_conv_t *self, const void *x, const void *weights, const void *bias, void *y,
                                   cudaStream_t stream);
cudaError_t delta_cuda_conv_data_launch(const delta_cuda_conv_t *self, const void *dy, const void *weights, const void *bias, void *dx,
                                        cudaStream_t stream);
cudaError_t delta_cuda_conv_weight_launch(const delta_cuda_conv_t *self, const void *x, const void *dy, void *dweights,
                                          cudaStream_t stream);

// y[outer, channel, inner] += bias[channel]
cudaError_t delta_cuda_add_bias_launch(delta_dtype_t dtype, int64_t outer, int64_t channels, int64_t inner, const void *bias, void *y,
                                       cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_CONV_DIRECT_H_
