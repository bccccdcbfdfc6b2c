// Product: tiles of both operands go through shared memory; each thread sums one element, over k in order.
#include "runtime/cuda/product.h"

#include "runtime/cuda/grid.h"

static const int TILE = 16;
static const unsigned MOST_LAYERS = 65535;

template <typename T>
static __global__ void product_kernel(delta_cuda_product_t self, const T *a, const T *b, const T *c, const T *bias, T *y) {
  typedef typename delta_types<T>::number number;
  __shared__ number a_tile[TILE][TILE + 1], b_tile[TILE][TILE + 1];
  const int64_t row = (int64_t)blockIdx.y * TILE + threadIdx.y, column = (int64_t)blockIdx.x * TILE + threadIdx.x;
  for (uint64_t batch = blockIdx.z; batch < self.batches; batch += gridDim.z) {
    int64_t a_start = 0, b_start = 0;
    uint64_t rest = batch;
    for (int d = self.batch_rank - 1; d >= 0; --d) {
      const uint64_t above = delta_divide(rest, self.batch_dims[d]);
      const int64_t coordinate = (int64_t)(rest - above * self.batch_dims[d].divisor);
      a_start += coordinate * self.a_batch[d];
      b_start += coordinate * self.b_batch[d];
      rest = above;
    }
    number sum = 0;
    for (int64_t k = 0; k < self.depth; k += TILE) {
      const int64_t a_column = k + threadIdx.x, b_row = k + threadIdx.y;
      __syncthreads();
      a_tile[threadIdx.y][threadIdx.x] = row < self.rows && a_column < self.depth
                                             ? delta_read<number>(a[a_start + row * self.a_row + a_column * self.a_column])
                                             : (number)0;
      b_tile[threadIdx.y][threadIdx.x] = b_row < self.depth && column < self.columns
                                             ? delta_read<number>(b[b_start + b_row * self.b_row + column * self.b_column])
                                             : (number)0;
      __syncthreads();
      for (int j = 0; j < TILE; ++j) sum += a_tile[threadIdx.y][j] * b_tile[j][threadIdx.x];
    }
    if (row >= self.rows || column >= self.columns) continue;
    const int64_t at = ((int64_t)batch * self.rows + row) * self.columns + column;
    if (c) sum = delta_read<number>(c[at]) + sum;
    if (bias) sum += delta_read<number>(bias[column]);
    y[at] = delta_write<T>(sum);
  }
}

cudaError_t delta_cuda_product_launch(const delta_cuda_product_t *self, const void *a, const void *b, const void *c, const void *bias,
                                      void *y, cudaStream_t stream) {
  if (self->rows == 0 || self->columns == 0 || self->batches == 0) return cudaSuccess;
  if (self->rows > (int64_t)MOST_LAYERS * TILE) return cudaErrorInvalidValue;
  const dim3 grid((unsigned)((self->columns + TILE - 1) / TILE), (unsigned)((self->rows + TILE - 1) / TILE),
                  (unsigned)(self->batches < MOST_LAYERS ? self->batches : MOST_LAYERS));
#define OF_TYPE(id, T)                                                                                                       \
  case id:                                                                                                                   \
    DELTA_CUDA_LAUNCH(product_kernel<T>, grid, dim3(TILE, TILE), 0, stream, *self, (const T *)a, (const T *)b, (const T *)c, \
                      (const T *)bias, (T *)y);                                                                              \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
}
