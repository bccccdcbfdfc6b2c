// Padding, its gradient and triangles: one thread an element of the result. The gradient of padding gathers: for each element, from all places it was repeated at, so that
// sums have a fixed order.
#include "runtime/cuda/movement.h"

#include <string.h>

#include "runtime/cuda/grid.h"

// The index in dimension d of x that `index` of y repeats; -1 where the constant stands.
static __device__ int64_t pad_source(const delta_cuda_pad_t &pad, int d, int64_t index) {
  const int64_t kept = pad.kept[d], offset = index - pad.before[d];
  if (offset >= 0 && offset < kept) return pad.first[d] + offset;
  if (pad.mode == DELTA_CUDA_PAD_CONSTANT || kept <= 0) return -1;
  if (pad.mode == DELTA_CUDA_PAD_EDGE || kept == 1) return pad.first[d] + (offset < 0 ? 0 : kept - 1);
  // Reflection repeats with the period of one way there and back, without the ends twice.
  const int64_t period = pad.mode == DELTA_CUDA_PAD_WRAP ? kept : 2 * (kept - 1);
  const int64_t phase = (offset % period + period) % period;
  return pad.first[d] + (phase < kept ? phase : period - phase);
}

template <typename T>
static __global__ void pad_kernel(delta_cuda_pad_t pad, const T *x, T *y) {
  T value;
  memcpy(&value, &pad.value, sizeof value);
  DELTA_EACH_ITEM(i, pad.y_count) {
    uint64_t rest = i;
    int64_t at = 0;
    for (int d = pad.rank - 1; d >= 0; --d) {
      const uint64_t above = delta_divide(rest, pad.y_dims[d]);
      const int64_t source = pad_source(pad, d, (int64_t)(rest - above * pad.y_dims[d].divisor));
      at = source < 0 || at < 0 ? -1 : at + source * pad.x_strides[d];
      rest = above;
    }
    y[i] = at < 0 ? value : x[at];
  }
}

// The places in one dimension of y that repeat an element: two progressions of one step.
typedef struct repeats {
  int64_t start[2], count[2], step;
} repeats_t;

static __device__ repeats_t repeats_of(const delta_cuda_pad_t &pad, int d, int64_t index) {
  const int64_t kept = pad.kept[d], place = index - pad.first[d], before = pad.before[d], after = pad.after[d];
  repeats_t repeats = {{0, 0}, {0, 0}, 1};
  if (place < 0 || place >= kept) return repeats;
  if (pad.mode == DELTA_CUDA_PAD_CONSTANT || pad.mode == DELTA_CUDA_PAD_EDGE || kept == 1) {
    const bool spreads = pad.mode != DELTA_CUDA_PAD_CONSTANT;
    const int64_t begin = spreads && place == 0 ? -before : place, end = spreads && place == kept - 1 ? kept + after : place + 1;
    repeats.start[0] = begin + before;
    repeats.count[0] = end - begin;
    return repeats;
  }
  const bool wraps = pad.mode == DELTA_CUDA_PAD_WRAP;
  repeats.step = wraps ? kept : 2 * (kept - 1);
  const int64_t phases[2] = {place, repeats.step - place};
  const int ways = wraps || place == 0 || place == kept - 1 ? 1 : 2;
  for (int way = 0; way < ways; ++way) {
    const int64_t start = (phases[way] + before) % repeats.step; // in y: the first place of this phase
    const int64_t size = before + kept + after;
    repeats.start[way] = start;
    repeats.count[way] = start < size ? (size - 1 - start) / repeats.step + 1 : 0;
  }
  return repeats;
}

template <typename T>
static __global__ void pad_grad_kernel(delta_cuda_pad_t pad, const T *dy, T *dx) {
  typedef typename delta_types<T>::number number;
  DELTA_EACH_ITEM(i, pad.x_count) {
    repeats_t repeats[DELTA_CUDA_PAD_RANK];
    int64_t turn[DELTA_CUDA_PAD_RANK], total = 1;
    uint64_t rest = i;
    for (int d = pad.rank - 1; d >= 0; --d) {
      const uint64_t above = delta_divide(rest, pad.x_dims[d]);
      repeats[d] = repeats_of(pad, d, (int64_t)(rest - above * pad.x_dims[d].divisor));
      total *= repeats[d].count[0] + repeats[d].count[1];
      turn[d] = 0;
      rest = above;
    }
    number sum = 0;
    for (int64_t n = 0; n < total; ++n) {
      int64_t at = 0;
      for (int d = 0; d < pad.rank; ++d) {
        const repeats_t &r = repeats[d];
        const int way = turn[d] >= r.count[0];
        at += (r.start[way] + (turn[d] - (way ? r.count[0] : 0)) * r.step) * pad.y_strides[d];
      }
      sum += delta_read<number>(dy[at]);
      for (int d = pad.rank - 1; d >= 0 && ++turn[d] == repeats[d].count[0] + repeats[d].count[1]; --d) turn[d] = 0;
    }
    dx[i] = delta_write<T>(sum);
  }
}

template <typename T>
static __global__ void triangle_kernel(delta_cuda_triangle_t self, delta_divisor_t by_columns, delta_divisor_t by_rows, const T *x, T *y) {
  T zero;
  memset(&zero, 0, sizeof zero);
  DELTA_EACH_ITEM(i, self.count) {
    const uint64_t line = delta_divide(i, by_columns);
    const int64_t column = (int64_t)(i - line * by_columns.divisor);
    const int64_t row = (int64_t)(line - delta_divide(line, by_rows) * by_rows.divisor);
    y[i] = (self.upper ? column - row >= self.k : column - row <= self.k) ? x[i] : zero;
  }
}

cudaError_t delta_cuda_pad_launch(const delta_cuda_pad_t *self, const void *x, void *y, cudaStream_t stream) {
  if (self->y_count == 0) return cudaSuccess;
#define OF_WIDTH(bytes, T)                                                                                                         \
  case bytes:                                                                                                                      \
    DELTA_CUDA_LAUNCH_FREE(pad_kernel<T>, delta_blocks(self->y_count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *self, \
                           (const T *)x, (T *)y);                                                                                  \
    break;
  DELTA_CUDA_SWITCH(self->element_bytes, DELTA_CUDA_ELEMENT_WIDTHS, OF_WIDTH);
#undef OF_WIDTH
}

cudaError_t delta_cuda_pad_grad_launch(const delta_cuda_pad_t *self, const void *dy, void *dx, cudaStream_t stream) {
  if (self->x_count == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                                  \
  case id:                                                                                                                              \
    DELTA_CUDA_LAUNCH_FREE(pad_grad_kernel<T>, delta_blocks(self->x_count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *self, \
                           (const T *)dy, (T *)dx);                                                                                     \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
#undef OF_TYPE
}

cudaError_t delta_cuda_triangle_launch(const delta_cuda_triangle_t *self, const void *x, void *y, cudaStream_t stream) {
  if (self->count == 0) return cudaSuccess;
  const delta_divisor_t by_columns = delta_divisor_of((uint64_t)self->columns, self->count);
  const delta_divisor_t by_rows = delta_divisor_of((uint64_t)self->rows, self->count);
#define OF_WIDTH(bytes, T)                                                                                                            \
  case bytes:                                                                                                                         \
    DELTA_CUDA_LAUNCH_FREE(triangle_kernel<T>, delta_blocks(self->count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *self, \
                           by_columns, by_rows, (const T *)x, (T *)y);                                                                \
    break;
  DELTA_CUDA_SWITCH(self->element_bytes, DELTA_CUDA_ELEMENT_WIDTHS, OF_WIDTH);
#undef OF_WIDTH
}
