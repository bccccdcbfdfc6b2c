// Pooling and its gradients: a thread for each element of the result. Gradients gather from the windows that read an element, in their order.
#include "runtime/cuda/pool.h"

#include "runtime/cuda/grid.h"

enum { NO_WINDOW_INDEX = 255, NO_FLAT_INDEX = -1 };

// An element of the data or of the windows' results.
typedef struct pool_place {
  int64_t image, channel;
  int at[DELTA_CUDA_POOL_DIMS];
} pool_place_t;

static __device__ pool_place_t place_of(const delta_cuda_pool_t &pool, const delta_divisor_t *by, uint64_t number) {
  pool_place_t place;
  uint64_t rest = delta_divide(number, pool.by_channels);
  place.channel = (int64_t)(number - rest * pool.by_channels.divisor);
  DELTA_UNROLL
  for (int d = DELTA_CUDA_POOL_DIMS - 1; d >= 0; --d) {
    const uint64_t above = delta_divide(rest, by[d]);
    place.at[d] = (int)(rest - above * by[d].divisor);
    rest = above;
  }
  place.image = (int64_t)rest;
  return place;
}

// Of an image and a channel, the element at a place that is numbered in its plane.
static __device__ int64_t element_of(const delta_cuda_pool_t &pool, const pool_place_t &place, int64_t plane_count, int64_t number) {
  return (place.image * plane_count + number) * (int64_t)pool.by_channels.divisor + place.channel;
}

// The window elements of an output, by dimension, that read between `before` elements before the data and `after` behind it.
static __device__ void clip(const delta_cuda_pool_t &pool, int d, int out, int before, int after, int *begin, int *end) {
  const int first = out * pool.strides[d] - pool.pads[d], step = pool.dilations[d];
  const int to_begin = -before - first, to_end = pool.data[d] + after - first;
  const int from = to_begin > 0 ? (to_begin - 1) / step + 1 : 0, to = to_end > 0 ? (to_end - 1) / step + 1 : 0;
  *end = to < pool.kernel[d] ? to : pool.kernel[d];
  *begin = from < *end ? from : *end;
}

static __device__ int64_t index_of(const delta_cuda_pool_t &pool, const pool_place_t &place, const int *element, const int *position) {
  if (pool.index == DELTA_CUDA_POOL_WINDOW) return (element[0] * pool.kernel[1] + element[1]) * pool.kernel[2] + element[2];
  const int64_t plane = place.image * (int64_t)pool.by_channels.divisor + place.channel;
  const int64_t row_major = ((int64_t)position[0] * pool.data[1] + position[1]) * pool.data[2] + position[2];
  const int64_t column_major = ((int64_t)position[2] * pool.data[1] + position[1]) * pool.data[0] + position[0];
  return plane * pool.data_count + (pool.index == DELTA_CUDA_POOL_FLAT ? row_major : column_major);
}

template <typename T>
static __device__ T lowest() {
  return (T)0;
}
template <>
__device__ float lowest<float>() {
  return -INFINITY;
}
template <>
__device__ double lowest<double>() {
  return -INFINITY;
}
template <>
__device__ int32_t lowest<int32_t>() {
  return -2147483647 - 1;
}
template <>
__device__ int64_t lowest<int64_t>() {
  return DELTA_INT64_LEAST;
}
template <>
__device__ delta_float16_t lowest<delta_float16_t>() {
  return delta_write<delta_float16_t>(-INFINITY);
}
template <>
__device__ delta_bfloat16_t lowest<delta_bfloat16_t>() {
  return delta_write<delta_bfloat16_t>(-INFINITY);
}
template <>
__device__ delta_bool_t lowest<delta_bool_t>() {
  return delta_write<delta_bool_t>(0.0f);
}

// Goes through the window elements inside the data: `body` sees element[] and position[].
#define EACH_WINDOW_ELEMENT(pool, begin, end, place, body)                                             \
  for (int element_0 = begin[0]; element_0 < end[0]; ++element_0)                                      \
    for (int element_1 = begin[1]; element_1 < end[1]; ++element_1)                                    \
      for (int element_2 = begin[2]; element_2 < end[2]; ++element_2) {                                \
        const int element[] = {element_0, element_1, element_2};                                       \
        int position[DELTA_CUDA_POOL_DIMS];                                                            \
        for (int d = 0; d < DELTA_CUDA_POOL_DIMS; ++d)                                                 \
          position[d] = place.at[d] * pool.strides[d] - pool.pads[d] + element[d] * pool.dilations[d]; \
        body                                                                                           \
      }

static __device__ int64_t number_in(const int *sizes, const int *at) { return ((int64_t)at[0] * sizes[1] + at[1]) * sizes[2] + at[2]; }

template <typename T>
static __global__ void max_pool_kernel(delta_cuda_pool_t pool, const T *x, T *y, void *index) {
  typedef typename delta_types<T>::work work;
  DELTA_EACH_ITEM(i, pool.out_elements) {
    const pool_place_t place = place_of(pool, pool.by_out, i);
    int begin[DELTA_CUDA_POOL_DIMS], end[DELTA_CUDA_POOL_DIMS];
    for (int d = 0; d < DELTA_CUDA_POOL_DIMS; ++d) clip(pool, d, place.at[d], 0, 0, &begin[d], &end[d]);
    T best = lowest<T>();
    bool found = false;
    int64_t best_index = pool.index == DELTA_CUDA_POOL_WINDOW ? NO_WINDOW_INDEX : NO_FLAT_INDEX;
    EACH_WINDOW_ELEMENT(pool, begin, end, place, {
      const T value = x[element_of(pool, place, pool.data_count, number_in(pool.data, position))];
      if (!found || delta_beats(false, delta_read<work>(value), delta_read<work>(best))) {
        found = true;
        best = value;
        best_index = index_of(pool, place, element, position);
      }
    })
    y[i] = best;
    if (!index) continue;
    if (pool.index == DELTA_CUDA_POOL_WINDOW)
      ((uint8_t *)index)[i] = (uint8_t)best_index;
    else
      ((int64_t *)index)[i] = best_index;
  }
}

// What the sum over a window is divided by.
static __device__ double divisor_of(const delta_cuda_pool_t &pool, const int *out) {
  double count = 1;
  for (int d = 0; d < DELTA_CUDA_POOL_DIMS; ++d) {
    int begin, end;
    clip(pool, d, out[d], pool.count_include_pad ? pool.pads[d] : 0, pool.count_include_pad ? pool.pads_end[d] : 0, &begin, &end);
    count *= end - begin;
  }
  return count > 0 ? count : 1; // a window of nothing gives 0
}

template <typename T>
static __global__ void average_pool_kernel(delta_cuda_pool_t pool, const T *x, T *y) {
  DELTA_EACH_ITEM(i, pool.out_elements) {
    const pool_place_t place = place_of(pool, pool.by_out, i);
    int begin[DELTA_CUDA_POOL_DIMS], end[DELTA_CUDA_POOL_DIMS];
    for (int d = 0; d < DELTA_CUDA_POOL_DIMS; ++d) clip(pool, d, place.at[d], 0, 0, &begin[d], &end[d]);
    double sum = 0;
    EACH_WINDOW_ELEMENT(pool, begin, end, place,
                        { sum += delta_read<double>(x[element_of(pool, place, pool.data_count, number_in(pool.data, position))]); })
    y[i] = delta_write<T>(sum / divisor_of(pool, place.at));
  }
}

// The windows [begin, end) that may read position `at` of dimension d.
static __device__ void readers(const delta_cuda_pool_t &pool, int d, int at, int *begin, int *end) {
  const int place = at + pool.pads[d], last = place / pool.strides[d] + 1, reach = place - (pool.kernel[d] - 1) * pool.dilations[d];
  *begin = reach > 0 ? (reach - 1) / pool.strides[d] + 1 : 0;
  *end = last < pool.out[d] ? last : pool.out[d];
}

// The sum over the windows that read element i of what they give it: all of dy to the maximum, a share to each of an average.
template <typename T>
static __global__ void pool_grad_kernel(delta_cuda_pool_t pool, bool of_maximum, const T *dy, const void *index, T *dx) {
  DELTA_EACH_ITEM(i, pool.data_elements) {
    const pool_place_t place = place_of(pool, pool.by_data, i);
    int begin[DELTA_CUDA_POOL_DIMS], end[DELTA_CUDA_POOL_DIMS];
    for (int d = 0; d < DELTA_CUDA_POOL_DIMS; ++d) readers(pool, d, place.at[d], &begin[d], &end[d]);
    double sum = 0;
    for (int out_0 = begin[0]; out_0 < end[0]; ++out_0)
      for (int out_1 = begin[1]; out_1 < end[1]; ++out_1)
        for (int out_2 = begin[2]; out_2 < end[2]; ++out_2) {
          const int out[] = {out_0, out_1, out_2};
          int element[DELTA_CUDA_POOL_DIMS];
          bool reads = true;
          for (int d = 0; d < DELTA_CUDA_POOL_DIMS; ++d) {
            const int distance = place.at[d] - (out[d] * pool.strides[d] - pool.pads[d]);
            element[d] = distance / pool.dilations[d];
            reads = reads && distance == element[d] * pool.dilations[d];
          }
          if (!reads) continue; // dilation passes over it
          const int64_t from = element_of(pool, place, pool.out_count, number_in(pool.out, out));
          const double value = delta_read<double>(dy[from]);
          if (!of_maximum) {
            sum += value / divisor_of(pool, out);
            continue;
          }
          const int64_t chosen =
              pool.index == DELTA_CUDA_POOL_WINDOW ? (int64_t)((const uint8_t *)index)[from] : ((const int64_t *)index)[from];
          if (chosen == index_of(pool, place, element, place.at)) sum += value;
        }
    dx[i] = delta_write<T>(sum);
  }
}

cudaError_t delta_cuda_max_pool_launch(const delta_cuda_pool_t *self, const void *x, void *y, void *index, cudaStream_t stream) {
  if (self->out_elements == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                                \
  case id:                                                                                                                            \
    DELTA_CUDA_LAUNCH_FREE(max_pool_kernel<T>, delta_blocks(self->out_elements, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, \
                           *self, (const T *)x, (T *)y, index);                                                                       \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
#undef OF_TYPE
}

cudaError_t delta_cuda_average_pool_launch(const delta_cuda_pool_t *self, const void *x, void *y, cudaStream_t stream) {
  if (self->out_elements == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                                    \
  case id:                                                                                                                                \
    DELTA_CUDA_LAUNCH_FREE(average_pool_kernel<T>, delta_blocks(self->out_elements, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, \
                           *self, (const T *)x, (T *)y);                                                                                  \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}

static cudaError_t launch_grad(const delta_cuda_pool_t *self, bool of_maximum, const void *dy, const void *index, void *dx,
                               cudaStream_t stream) {
  if (self->data_elements == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                                  \
  case id:                                                                                                                              \
    DELTA_CUDA_LAUNCH_FREE(pool_grad_kernel<T>, delta_blocks(self->data_elements, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, \
                           *self, of_maximum, (const T *)dy, index, (T *)dx);                                                           \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}

cudaError_t delta_cuda_max_pool_grad_launch(const delta_cuda_pool_t *self, const void *dy, const void *index, void *dx,
                                            cudaStream_t stream) {
  return launch_grad(self, true, dy, index, dx, stream);
}

cudaError_t delta_cuda_average_pool_grad_launch(const delta_cuda_pool_t *self, const void *dy, void *dx, cudaStream_t stream) {
  return launch_grad(self, false, dy, NULL, dx, stream);
}
