// CUMSUM, ARG_REDUCE and TOPK. Running sums are one thread's, in order, so that they have the bits of any other device; choices are a team's.
#include "runtime/cuda/axis.h"

#include "runtime/cuda/grid.h"

template <typename T>
static __global__ void cumsum_kernel(delta_line_set_t lines, bool exclusive, bool reverse, const T *x, T *y) {
  typedef typename delta_types<T>::number number;
  DELTA_EACH_ITEM(line, lines.count) {
    const int64_t start = delta_line_start(lines, line);
    number sum = 0;
    for (int64_t i = 0; i < lines.size; ++i) {
      const int64_t at = start + (reverse ? lines.size - 1 - i : i) * lines.inner;
      const number next = sum + delta_read<number>(x[at]);
      y[at] = delta_write<T>(exclusive ? sum : next);
      sum = next;
    }
  }
}

// An element in a contest; index -1: none.
template <typename Number>
struct contender {
  Number value;
  int64_t index;
};

// What teams exchange: both halves of the best so far. Rule(a, b): whether a stands before b.
template <typename Team, typename Number, typename Rule>
static __device__ contender<Number> best_of_team(contender<Number> own, const Rule &rule, Number *values, int64_t *indices) {
  if (Team::LINES == 8) { // one warp a line
    DELTA_UNROLL
    for (int bits = 16; bits > 0; bits /= 2) {
      const contender<Number> other = {__shfl_xor_sync(0xffffffffu, own.value, bits), __shfl_xor_sync(0xffffffffu, own.index, bits)};
      if (rule(other, own)) own = other;
    }
    return own;
  }
  __syncthreads();
  values[threadIdx.x] = own.value;
  indices[threadIdx.x] = own.index;
  __syncthreads();
  for (int member = 0; member < Team::SIZE; ++member) {
    const int at = Team::LINES == 1 ? member : member * Team::LINES + Team::line();
    const contender<Number> other = {values[at], indices[at]};
    if (rule(other, own)) own = other;
  }
  return own;
}

// Strictly beyond, or the first NaN; of equal ones the first, or the last.
struct extreme_rule {
  bool smallest, last;
  template <typename Number>
  __device__ bool operator()(const contender<Number> &a, const contender<Number> &b) const {
    if (a.index < 0 || b.index < 0) return b.index < 0 && a.index >= 0;
    if (delta_beats(smallest, a.value, b.value)) return true;
    if (delta_beats(smallest, b.value, a.value)) return false;
    return last ? a.index > b.index : a.index < b.index;
  }
};

// By size, a NaN being larger than all; equal ones by index.
struct order_rule {
  bool smallest;
  template <typename Number>
  static __device__ bool is_larger(Number a, Number b) {
    return a != a ? b == b : a > b;
  }
  template <typename Number>
  __device__ bool operator()(const contender<Number> &a, const contender<Number> &b) const {
    if (a.index < 0 || b.index < 0) return b.index < 0 && a.index >= 0;
    if (is_larger(a.value, b.value)) return !smallest;
    if (is_larger(b.value, a.value)) return smallest;
    return a.index < b.index;
  }
};

template <typename T, typename Team>
static __global__ void arg_reduce_kernel(delta_line_set_t lines, extreme_rule rule, const T *x, int64_t *chosen) {
  typedef typename delta_types<T>::work work;
  __shared__ work values[DELTA_BLOCK_THREADS];
  __shared__ int64_t indices[DELTA_BLOCK_THREADS];
  DELTA_EACH_ROUND(Team, block, lines) {
    const delta_line_t line = delta_line_of<Team>(lines, block);
    contender<work> best = {(work)0, -1};
    for (int64_t i = Team::member(); i < line.size; i += Team::SIZE) {
      const contender<work> other = {delta_read<work>(x[line.start + i * lines.inner]), i};
      if (rule(other, best)) best = other;
    }
    best = best_of_team<Team>(best, rule, values, indices);
    if (line.is_there && Team::member() == 0) chosen[line.number] = best.index;
  }
}

// One after the other: the best of all that stand behind the one before.
template <typename T, typename Team>
static __global__ void topk_kernel(delta_line_set_t lines, int64_t k, order_rule rule, const T *x, T *y, int64_t *chosen) {
  typedef typename delta_types<T>::work work;
  __shared__ work values[DELTA_BLOCK_THREADS];
  __shared__ int64_t indices[DELTA_BLOCK_THREADS];
  DELTA_EACH_ROUND(Team, block, lines) {
    const delta_line_t line = delta_line_of<Team>(lines, block);
    const uint64_t outer = line.is_there ? delta_divide(line.number, lines.by_inner) : 0;
    const int64_t to = (int64_t)outer * k * lines.inner + (int64_t)(line.number - outer * lines.by_inner.divisor);
    contender<work> previous = {(work)0, -1};
    for (int64_t turn = 0; turn < k; ++turn) {
      contender<work> best = {(work)0, -1};
      for (int64_t i = Team::member(); i < line.size; i += Team::SIZE) {
        const contender<work> other = {delta_read<work>(x[line.start + i * lines.inner]), i};
        if (previous.index >= 0 && !rule(previous, other)) continue;
        if (rule(other, best)) best = other;
      }
      previous = best_of_team<Team>(best, rule, values, indices);
      if (!line.is_there || Team::member() != 0) continue;
      if (y) y[to + turn * lines.inner] = x[line.start + previous.index * lines.inner];
      if (chosen) chosen[to + turn * lines.inner] = previous.index;
    }
  }
}

cudaError_t delta_cuda_cumsum_launch(const delta_cuda_axis_t *self, bool exclusive, bool reverse, const void *x, void *y,
                                     cudaStream_t stream) {
  const delta_line_set_t lines = delta_line_set(self->outer, self->size, self->inner);
  if (lines.count == 0 || lines.size == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                              \
  case id:                                                                                                                          \
    DELTA_CUDA_LAUNCH_FREE(cumsum_kernel<T>, delta_blocks(lines.count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, lines, \
                           exclusive, reverse, (const T *)x, (T *)y);                                                               \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
#undef OF_TYPE
}

#define OF_TYPE(id, T)                   \
  case id: {                             \
    typedef T type;                      \
    DELTA_CUDA_FOR_LINES(lines, LAUNCH); \
    break;                               \
  }

cudaError_t delta_cuda_arg_reduce_launch(const delta_cuda_axis_t *self, bool smallest, bool select_last, const void *x, int64_t *indices,
                                         cudaStream_t stream) {
  const delta_line_set_t lines = delta_line_set(self->outer, self->size, self->inner);
  const extreme_rule rule = {smallest, select_last};
  if (lines.count == 0 || lines.size == 0) return cudaSuccess;
#define LAUNCH(Team)                                                                                                                      \
  DELTA_CUDA_LAUNCH((arg_reduce_kernel<type, Team>), delta_blocks(lines.count, Team::LINES), DELTA_BLOCK_THREADS, 0, stream, lines, rule, \
                    (const type *)x, indices)
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
#undef LAUNCH
}

cudaError_t delta_cuda_topk_launch(const delta_cuda_axis_t *self, int64_t k, bool smallest, const void *x, void *values, int64_t *indices,
                                   cudaStream_t stream) {
  const delta_line_set_t lines = delta_line_set(self->outer, self->size, self->inner);
  const order_rule rule = {smallest};
  if (lines.count == 0 || lines.size == 0 || k == 0) return cudaSuccess;
#define LAUNCH(Team)                                                                                                                   \
  DELTA_CUDA_LAUNCH((topk_kernel<type, Team>), delta_blocks(lines.count, Team::LINES), DELTA_BLOCK_THREADS, 0, stream, lines, k, rule, \
                    (const type *)x, (type *)values, indices)
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
#undef LAUNCH
}
