// SOFTMAX and SOFTMAX_GRAD: a team of threads for each line. Elements are read for the last time just before their result is stored, so outputs may have exactly the bytes of
// inputs.
#include "runtime/cuda/softmax.h"

#include "runtime/cuda/grid.h"

template <typename T, typename Team>
static __global__ void softmax_kernel(delta_line_set_t lines, bool log_of, const T *x, T *y) {
  typedef typename delta_types<T>::work work;
  __shared__ work shared[Team::SHARED];
  DELTA_EACH_ROUND(Team, block, lines) {
    const delta_line_t line = delta_line_of<Team>(lines, block);
    work largest = -INFINITY, sum = 0;
    for (int64_t i = Team::member(); i < line.size; i += Team::SIZE)
      largest = delta_larger()(largest, delta_read<work>(x[line.start + i * lines.inner]));
    largest = Team::all(largest, delta_larger(), shared);
    for (int64_t i = Team::member(); i < line.size; i += Team::SIZE)
      sum += exp(delta_read<work>(x[line.start + i * lines.inner]) - largest);
    sum = Team::all(sum, delta_add(), shared);
    const work log_sum = log(sum);
    for (int64_t i = Team::member(); i < line.size; i += Team::SIZE) {
      const int64_t at = line.start + i * lines.inner;
      const work shifted = delta_read<work>(x[at]) - largest;
      y[at] = delta_write<T>(log_of ? shifted - log_sum : exp(shifted) / sum);
    }
  }
}

template <typename T, typename Team>
static __global__ void softmax_grad_kernel(delta_line_set_t lines, bool log_of, const T *dy, const T *y, T *dx) {
  typedef typename delta_types<T>::work work;
  __shared__ work shared[Team::SHARED];
  DELTA_EACH_ROUND(Team, block, lines) {
    const delta_line_t line = delta_line_of<Team>(lines, block);
    work sum = 0;
    for (int64_t i = Team::member(); i < line.size; i += Team::SIZE) {
      const int64_t at = line.start + i * lines.inner;
      sum += delta_read<work>(dy[at]) * (log_of ? (work)1 : delta_read<work>(y[at]));
    }
    sum = Team::all(sum, delta_add(), shared);
    for (int64_t i = Team::member(); i < line.size; i += Team::SIZE) {
      const int64_t at = line.start + i * lines.inner;
      const work gradient = delta_read<work>(dy[at]), value = delta_read<work>(y[at]);
      dx[at] = delta_write<T>(log_of ? gradient - exp(value) * sum : value * (gradient - sum));
    }
  }
}

cudaError_t delta_cuda_softmax_launch(const delta_cuda_softmax_t *self, const void *x, void *y, cudaStream_t stream) {
  const delta_line_set_t lines = delta_line_set(self->outer, self->size, self->inner);
  if (lines.count == 0 || lines.size == 0) return cudaSuccess;
#define LAUNCH(Team)                                                                                                             \
  DELTA_CUDA_LAUNCH((softmax_kernel<type, Team>), delta_blocks(lines.count, Team::LINES), DELTA_BLOCK_THREADS, 0, stream, lines, \
                    self->log_of, (const type *)x, (type *)y)
#define OF_TYPE(id, T)                   \
  case id: {                             \
    typedef T type;                      \
    DELTA_CUDA_FOR_LINES(lines, LAUNCH); \
    break;                               \
  }
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef LAUNCH
}

cudaError_t delta_cuda_softmax_grad_launch(const delta_cuda_softmax_t *self, const void *dy, const void *y, void *dx, cudaStream_t stream) {
  const delta_line_set_t lines = delta_line_set(self->outer, self->size, self->inner);
  if (lines.count == 0 || lines.size == 0) return cudaSuccess;
#define LAUNCH(Team)                                                                                                                  \
  DELTA_CUDA_LAUNCH((softmax_grad_kernel<type, Team>), delta_blocks(lines.count, Team::LINES), DELTA_BLOCK_THREADS, 0, stream, lines, \
                    self->log_of, (const type *)dy, (const type *)y, (type *)dx)
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef LAUNCH
}
