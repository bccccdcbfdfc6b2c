// Convolutions without a library. Results are threads of their own; a weight's gradient, which sums over all images and positions, is a block's.
#include "runtime/cuda/conv_direct.h"

#include "runtime/cuda/grid.h"

static __device__ int64_t conv_offset(const delta_cuda_conv_strides_t &strides, int64_t image, int64_t channel, int64_t position) {
  const int64_t block = channel / strides.block;
  return image * strides.image + block * strides.channel_block + (channel - block * strides.block) * strides.channel +
         position * strides.position;
}

static __device__ int64_t count_of(const int64_t *sizes) { return sizes[0] * sizes[1] * sizes[2]; }
static __device__ int64_t number_in(const int64_t *sizes, const int64_t *at) { return (at[0] * sizes[1] + at[1]) * sizes[2] + at[2]; }
static __device__ void place_in(const int64_t *sizes, int64_t number, int64_t *at) {
  at[2] = number % sizes[2];
  at[1] = number / sizes[2] % sizes[1];
  at[0] = number / sizes[2] / sizes[1];
}

// The position of the data that window element k of an output reads; -1 in the padding.
static __device__ int64_t read_position(const delta_cuda_conv_t &conv, const int64_t *out, const int64_t *k) {
  int64_t at[DELTA_CUDA_CONV_DIMS];
  for (int d = 0; d < DELTA_CUDA_CONV_DIMS; ++d) {
    at[d] = out[d] * conv.strides[d] - conv.pads[d] + k[d] * conv.dilations[d];
    if (at[d] < 0 || at[d] >= conv.data[d]) return -1;
  }
  return number_in(conv.data, at);
}

// The output whose window element k reads a position of the data; -1 when there is none.
static __device__ int64_t reading_output(const delta_cuda_conv_t &conv, const int64_t *at, const int64_t *k) {
  int64_t out[DELTA_CUDA_CONV_DIMS];
  for (int d = 0; d < DELTA_CUDA_CONV_DIMS; ++d) {
    const int64_t from = at[d] + conv.pads[d] - k[d] * conv.dilations[d];
    out[d] = from / conv.strides[d];
    if (from < 0 || out[d] * conv.strides[d] != from || out[d] >= conv.out[d]) return -1;
  }
  return number_in(conv.out, out);
}

template <typename T>
static __global__ void conv_kernel(delta_cuda_conv_t conv, const T *x, const T *weights, const T *bias, T *y) {
  const int64_t out_count = count_of(conv.out), kernel_count = count_of(conv.kernel);
  const int64_t in_group = conv.channels / conv.groups, out_group = conv.out_channels / conv.groups;
  DELTA_EACH_ITEM(i, conv.images * conv.out_channels * out_count) {
    const int64_t position = (int64_t)i % out_count, channel = (int64_t)i / out_count % conv.out_channels;
    const int64_t image = (int64_t)i / out_count / conv.out_channels, first = channel / out_group * in_group;
    int64_t out[DELTA_CUDA_CONV_DIMS];
    place_in(conv.out, position, out);
    double sum = bias ? delta_read<double>(bias[channel]) : 0;
    for (int64_t k = 0; k < kernel_count; ++k) {
      int64_t element[DELTA_CUDA_CONV_DIMS];
      place_in(conv.kernel, k, element);
      const int64_t from = read_position(conv, out, element);
      if (from < 0) continue;
      for (int64_t c = 0; c < in_group; ++c)
        sum += delta_read<double>(x[conv_offset(conv.x, image, first + c, from)]) *
               delta_read<double>(weights[(channel * in_group + c) * kernel_count + k]);
    }
    y[conv_offset(conv.y, image, channel, position)] = delta_write<T>(sum);
  }
}

template <typename T>
static __global__ void conv_data_kernel(delta_cuda_conv_t conv, const T *dy, const T *weights, const T *bias, T *dx) {
  const int64_t data_count = count_of(conv.data), kernel_count = count_of(conv.kernel);
  const int64_t in_group = conv.channels / conv.groups, out_group = conv.out_channels / conv.groups;
  DELTA_EACH_ITEM(i, conv.images * conv.channels * data_count) {
    const int64_t position = (int64_t)i % data_count, channel = (int64_t)i / data_count % conv.channels;
    const int64_t image = (int64_t)i / data_count / conv.channels, group = channel / in_group;
    int64_t at[DELTA_CUDA_CONV_DIMS];
    place_in(conv.data, position, at);
    double sum = bias ? delta_read<double>(bias[channel]) : 0;
    for (int64_t k = 0; k < kernel_count; ++k) {
      int64_t element[DELTA_CUDA_CONV_DIMS];
      place_in(conv.kernel, k, element);
      const int64_t from = reading_output(conv, at, element);
      if (from < 0) continue;
      for (int64_t m = group * out_group; m < (group + 1) * out_group; ++m)
        sum += delta_read<double>(dy[conv_offset(conv.y, image, m, from)]) *
               delta_read<double>(weights[(m * in_group + channel - group * in_group) * kernel_count + k]);
    }
    dx[conv_offset(conv.x, image, channel, position)] = delta_write<T>(sum);
  }
}

template <typename T>
static __global__ void conv_weight_kernel(delta_cuda_conv_t conv, uint64_t weights, const T *x, const T *dy, T *dweights) {
  __shared__ double shared[delta_block_team::SHARED];
  const int64_t out_count = count_of(conv.out), kernel_count = count_of(conv.kernel);
  const int64_t in_group = conv.channels / conv.groups, out_group = conv.out_channels / conv.groups;
  for (uint64_t i = blockIdx.x; i < weights; i += gridDim.x) {
    const int64_t k = (int64_t)i % kernel_count, c = (int64_t)i / kernel_count % in_group, m = (int64_t)i / kernel_count / in_group;
    const int64_t channel = m / out_group * in_group + c;
    int64_t element[DELTA_CUDA_CONV_DIMS];
    place_in(conv.kernel, k, element);
    double sum = 0;
    for (int64_t n = threadIdx.x; n < conv.images * out_count; n += DELTA_BLOCK_THREADS) {
      const int64_t image = n / out_count, position = n - image * out_count;
      int64_t out[DELTA_CUDA_CONV_DIMS];
      place_in(conv.out, position, out);
      const int64_t from = read_position(conv, out, element);
      if (from < 0) continue;
      sum += delta_read<double>(x[conv_offset(conv.x, image, channel, from)]) *
             delta_read<double>(dy[conv_offset(conv.y, image, m, position)]);
    }
    sum = delta_block_team::all(sum, delta_add(), shared);
    if (threadIdx.x == 0) dweights[i] = delta_write<T>(sum);
  }
}

template <typename T>
static __global__ void add_bias_kernel(uint64_t count, delta_divisor_t by_inner, delta_divisor_t by_channels, const T *bias, T *y) {
  typedef typename delta_types<T>::work work;
  DELTA_EACH_ITEM(i, count) {
    const uint64_t line = delta_divide(i, by_inner), channel = line - delta_divide(line, by_channels) * by_channels.divisor;
    y[i] = delta_write<T>(delta_read<work>(y[i]) + delta_read<work>(bias[channel]));
  }
}

static uint64_t product_of(const int64_t *sizes) { return (uint64_t)(sizes[0] * sizes[1] * sizes[2]); }

cudaError_t delta_cuda_conv_launch(const delta_cuda_conv_t *self, const void *x, const void *weights, const void *bias, void *y,
                                   cudaStream_t stream) {
  const uint64_t count = (uint64_t)(self->images * self->out_channels) * product_of(self->out);
  if (count == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                                    \
  case id:                                                                                                                                \
    DELTA_CUDA_LAUNCH_FREE(conv_kernel<T>, delta_blocks(count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *self, (const T *)x, \
                           (const T *)weights, (const T *)bias, (T *)y);                                                                  \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}

cudaError_t delta_cuda_conv_data_launch(const delta_cuda_conv_t *self, const void *dy, const void *weights, const void *bias, void *dx,
                                        cudaStream_t stream) {
  const uint64_t count = (uint64_t)(self->images * self->channels) * product_of(self->data);
  if (count == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                           \
  case id:                                                                                                                       \
    DELTA_CUDA_LAUNCH_FREE(conv_data_kernel<T>, delta_blocks(count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *self, \
                           (const T *)dy, (const T *)weights, (const T *)bias, (T *)dx);                                         \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}

cudaError_t delta_cuda_conv_weight_launch(const delta_cuda_conv_t *self, const void *x, const void *dy, void *dweights,
                                          cudaStream_t stream) {
  const uint64_t count = (uint64_t)(self->out_channels * (self->channels / self->groups)) * product_of(self->kernel);
  if (count == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                           \
  case id:                                                                                                                       \
    DELTA_CUDA_LAUNCH(conv_weight_kernel<T>, delta_blocks(count, 1), DELTA_BLOCK_THREADS, 0, stream, *self, count, (const T *)x, \
                      (const T *)dy, (T *)dweights);                                                                             \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}

cudaError_t delta_cuda_add_bias_launch(delta_dtype_t dtype, int64_t outer, int64_t channels, int64_t inner, const void *bias, void *y,
                                       cudaStream_t stream) {
  const uint64_t count = (uint64_t)(outer * channels * inner);
  if (count == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                             \
  case id:                                                                                                                         \
    DELTA_CUDA_LAUNCH_FREE(add_bias_kernel<T>, delta_blocks(count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, count,    \
                           delta_divisor_of((uint64_t)inner, count), delta_divisor_of((uint64_t)channels, count), (const T *)bias, \
                           (T *)y);                                                                                                \
    break;
  DELTA_CUDA_SWITCH(dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}
