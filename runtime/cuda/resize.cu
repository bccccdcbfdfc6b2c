// RESIZE and RESIZE_GRAD: a thread for each result, over the product of its axes' lists.
#include "runtime/cuda/resize.h"

#include "runtime/cuda/grid.h"

template <typename T>
static __global__ void resize_kernel(delta_cuda_resize_t self, const T *from, T *to) {
  DELTA_EACH_ITEM(i, self.count) {
    int64_t begin[DELTA_CUDA_RESIZE_RANK], length[DELTA_CUDA_RESIZE_RANK], turn[DELTA_CUDA_RESIZE_RANK], base = 0, total = 1;
    bool is_outside = false;
    uint64_t rest = i;
    for (int d = self.rank - 1; d >= 0; --d) {
      const delta_cuda_resize_axis_t &axis = self.axes[d];
      const uint64_t above = delta_divide(rest, self.dims[d]);
      const int64_t coordinate = (int64_t)(rest - above * self.dims[d].divisor);
      begin[d] = axis.starts ? axis.starts[coordinate] : 0;
      length[d] = axis.starts ? axis.starts[coordinate + 1] - begin[d] : 1;
      if (!axis.starts) base += coordinate * self.from_strides[d];
      if (axis.outside) is_outside = is_outside || axis.outside[coordinate];
      total *= length[d];
      turn[d] = 0;
      rest = above;
    }
    double sum = 0;
    for (int64_t n = 0; n < total; ++n) {
      int64_t at = base;
      double weight = 1;
      for (int d = 0; d < self.rank; ++d) {
        const delta_cuda_resize_axis_t &axis = self.axes[d];
        if (!axis.starts) continue;
        at += axis.indices[begin[d] + turn[d]] * self.from_strides[d];
        weight *= axis.weights[begin[d] + turn[d]];
      }
      sum += weight * delta_read<double>(from[at]);
      for (int d = self.rank - 1; d >= 0 && ++turn[d] == length[d]; --d) turn[d] = 0;
    }
    to[i] = delta_write<T>(is_outside ? self.extrapolation_value : sum);
  }
}

cudaError_t delta_cuda_resize_launch(const delta_cuda_resize_t *self, const void *from, void *to, cudaStream_t stream) {
  if (self->count == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                              \
  case id:                                                                                                                          \
    DELTA_CUDA_LAUNCH_FREE(resize_kernel<T>, delta_blocks(self->count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *self, \
                           (const T *)from, (T *)to);                                                                               \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
#undef OF_TYPE
}
