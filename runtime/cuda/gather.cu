// GATHER and its gradient.
#include "runtime/cuda/gather.h"

#include <string.h>

#include "runtime/cuda/grid.h"
#include "runtime/cuda/indices.h"

template <typename T>
static __global__ void gather_kernel(uint64_t total, delta_divisor_t by_inner, delta_divisor_t by_count, int64_t size,
                                     delta_indices_t indices, const T *x, T *y) {
  DELTA_EACH_ITEM(n, total) {
    const uint64_t line = delta_divide(n, by_inner), outer = delta_divide(line, by_count);
    const int64_t inner = (int64_t)(n - line * by_inner.divisor);
    const int64_t index = delta_index_at(indices, line - outer * by_count.divisor, size);
    T value;
    memset(&value, 0, sizeof value);
    if (index >= 0) value = x[((int64_t)outer * size + index) * (int64_t)by_inner.divisor + inner];
    y[n] = value;
  }
}

// The sum of all slices of one index, in their order, by one block: it looks through the indices, a block's width at a time, lists those that match, and its threads
// add these slices, each in columns of its own.
//
// Either there is a job for each place of the data (`by_place`), or for each index, which does nothing unless it is the first of its kind; the data is then
// zeroed before. Which of the two looks at fewer indices decides.
enum { COLUMNS = 4, WARPS = DELTA_BLOCK_THREADS / 32 };

typedef struct match_list {
  int32_t items[DELTA_BLOCK_THREADS]; // distances from the first index looked at
  int32_t warp_counts[WARPS];
  int32_t is_late;
} match_list_t;

// Lists which of the block's next indices match, in order; returns how many. The list may be read until the next call, whose first barrier all threads have to come to before it is
// written.
static __device__ int list_matches(match_list_t *list, bool matches) {
  const unsigned votes = __ballot_sync(0xffffffffu, matches);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) list->warp_counts[warp] = __popc(votes);
  __syncthreads();
  int before = __popc(votes & ((1u << lane) - 1)), total = 0;
  for (int w = 0; w < WARPS; ++w) {
    if (w < warp) before += list->warp_counts[w];
    total += list->warp_counts[w];
  }
  if (matches) list->items[before] = threadIdx.x;
  __syncthreads();
  return total;
}

// Whether an earlier index leads to the same place.
static __device__ bool is_repeated(match_list_t *list, const delta_indices_t &indices, int64_t number, int64_t place, int64_t size) {
  __syncthreads();
  if (threadIdx.x == 0) list->is_late = 0;
  __syncthreads();
  bool found = false;
  for (int64_t j = threadIdx.x; j < number && !found; j += DELTA_BLOCK_THREADS) found = delta_index_at(indices, (uint64_t)j, size) == place;
  if (found) atomicOr(&list->is_late, 1);
  __syncthreads();
  return list->is_late != 0;
}

template <typename T>
static __global__ void gather_grad_kernel(delta_cuda_gather_t self, uint64_t jobs, bool by_place, delta_divisor_t by_jobs,
                                          delta_indices_t indices, const T *dy, T *dx) {
  typedef typename delta_types<T>::number number;
  __shared__ match_list_t list;
  for (uint64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
    const uint64_t outer = delta_divide(job, by_jobs);
    const int64_t own = (int64_t)(job - outer * by_jobs.divisor);
    const int64_t place = by_place ? own : delta_index_at(indices, (uint64_t)own, self.size);
    if (place < 0 || (!by_place && is_repeated(&list, indices, own, place, self.size))) continue;
    for (int64_t first_column = 0; first_column < self.inner; first_column += COLUMNS * DELTA_BLOCK_THREADS) {
      number sums[COLUMNS] = {0};
      for (int64_t first = by_place ? 0 : own; first < self.count; first += DELTA_BLOCK_THREADS) {
        const int64_t j = first + threadIdx.x;
        const int total = list_matches(&list, j < self.count && delta_index_at(indices, (uint64_t)j, self.size) == place);
        for (int m = 0; m < total; ++m) {
          const int64_t from = ((int64_t)outer * self.count + first + list.items[m]) * self.inner;
          DELTA_UNROLL
          for (int c = 0; c < COLUMNS; ++c) {
            const int64_t column = first_column + c * DELTA_BLOCK_THREADS + threadIdx.x;
            if (column < self.inner) sums[c] += delta_read<number>(dy[from + column]);
          }
        }
      }
      DELTA_UNROLL
      for (int c = 0; c < COLUMNS; ++c) {
        const int64_t column = first_column + c * DELTA_BLOCK_THREADS + threadIdx.x;
        if (column < self.inner) dx[((int64_t)outer * self.size + place) * self.inner + column] = delta_write<T>(sums[c]);
      }
    }
  }
}

cudaError_t delta_cuda_gather_launch(const delta_cuda_gather_t *self, int32_t element_bytes, const void *x, const void *indices, void *y,
                                     cudaStream_t stream) {
  int64_t inner = self->inner;
  while (element_bytes < 16 && inner % 2 == 0 && inner > 0) {
    inner /= 2;
    element_bytes *= 2;
  }
  const uint64_t total = (uint64_t)self->outer * (uint64_t)self->count * (uint64_t)inner;
  if (total == 0) return cudaSuccess;
  const delta_indices_t list = {indices, self->indices == DELTA_DTYPE_INT64};
#define OF_WIDTH(bytes, T)                                                                                                             \
  case bytes:                                                                                                                          \
    DELTA_CUDA_LAUNCH_FREE(gather_kernel<T>, delta_blocks(total, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, total,          \
                           delta_divisor_of((uint64_t)inner, total), delta_divisor_of((uint64_t)self->count, total), self->size, list, \
                           (const T *)x, (T *)y);                                                                                      \
    break;
  DELTA_CUDA_SWITCH(element_bytes, DELTA_CUDA_WIDTHS, OF_WIDTH);
#undef OF_WIDTH
}

cudaError_t delta_cuda_gather_grad_launch(const delta_cuda_gather_t *self, const void *indices, const void *dy, void *dx,
                                          cudaStream_t stream) {
  if (self->outer * self->size * self->inner == 0) return cudaSuccess;
  const bool by_place = self->size <= self->count;
  const uint64_t each = (uint64_t)(by_place ? self->size : self->count), jobs = (uint64_t)self->outer * each;
  if (!by_place) {
    const size_t bytes = (size_t)(self->outer * self->size * self->inner) * delta_cuda_dtype_bytes(self->dtype);
    const cudaError_t error = cudaMemsetAsync(dx, 0, bytes, stream);
    if (error != cudaSuccess || jobs == 0) return error;
  }
  const delta_indices_t list = {indices, self->indices == DELTA_DTYPE_INT64};
#define OF_TYPE(id, T)                                                                                                     \
  case id:                                                                                                                 \
    DELTA_CUDA_LAUNCH(gather_grad_kernel<T>, delta_blocks(jobs, 1), DELTA_BLOCK_THREADS, 0, stream, *self, jobs, by_place, \
                      delta_divisor_of(each, jobs), list, (const T *)dy, (T *)dx);                                         \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
#undef OF_TYPE
}
