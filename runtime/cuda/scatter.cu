// GATHER_ELEMENTS, SCATTER_ELEMENTS, GATHER_ND and SCATTER_ND. Updates of one place are applied in index order by one thread.
#include <string.h>

#include "runtime/cuda/gather.h"
#include "runtime/cuda/grid.h"
#include "runtime/cuda/indices.h"

template <typename T>
static __device__ T updated(delta_cuda_scatter_kind_t kind, T stored, T update) {
  typedef typename delta_types<T>::number number;
  const number old = delta_read<number>(stored), value = delta_read<number>(update);
  switch (kind) {
    case DELTA_CUDA_SCATTER_ADD:
      return delta_write<T>(old + value);
    case DELTA_CUDA_SCATTER_MUL:
      return delta_write<T>(old * value);
    case DELTA_CUDA_SCATTER_MAX:
      return delta_beats(false, value, old) ? update : stored;
    case DELTA_CUDA_SCATTER_MIN:
      return delta_beats(true, value, old) ? update : stored;
    default:
      return update;
  }
}

template <typename T>
static __global__ void gather_elements_kernel(delta_cuda_elements_t self, delta_indices_t indices, const T *x, T *y) {
  DELTA_EACH_ITEM(i, self.count) {
    uint64_t rest = i;
    int64_t at = 0;
    for (int d = self.rank - 1; d >= 0; --d) {
      const uint64_t above = delta_divide(rest, self.dims[d]);
      if (d != self.axis) at += (int64_t)(rest - above * self.dims[d].divisor) * self.data_strides[d];
      rest = above;
    }
    const int64_t index = delta_index_at(indices, i, self.axis_size);
    T value;
    memset(&value, 0, sizeof value);
    if (index >= 0) value = x[at + index * self.data_strides[self.axis]];
    y[i] = value;
  }
}

// A thread goes along one line of the indices, which leads to one line of the data.
template <typename T>
static __global__ void scatter_elements_kernel(delta_cuda_elements_t self, delta_indices_t indices, const T *updates, T *y) {
  DELTA_EACH_ITEM(line, self.line_count) {
    uint64_t rest = line;
    int64_t from = 0, to = 0;
    for (int d = self.rank - 1; d >= 0; --d) {
      if (d == self.axis) continue;
      const uint64_t above = delta_divide(rest, self.dims[d]);
      const int64_t coordinate = (int64_t)(rest - above * self.dims[d].divisor);
      from += coordinate * self.index_strides[d];
      to += coordinate * self.data_strides[d];
      rest = above;
    }
    for (int64_t i = 0; i < (int64_t)self.dims[self.axis].divisor; ++i) {
      const int64_t position = from + i * self.index_strides[self.axis];
      const int64_t index = delta_index_at(indices, (uint64_t)position, self.axis_size);
      if (index < 0) continue;
      T *place = y + to + index * self.data_strides[self.axis];
      *place = updated(self.kind, *place, updates[position]);
    }
  }
}

// Where the slice of a tuple begins; -1 when an index is outside.
static __device__ int64_t slice_start(const delta_cuda_tuples_t &self, const delta_indices_t &indices, uint64_t tuple) {
  int64_t start = (int64_t)delta_divide(tuple, self.by_batch) * self.batch_elements;
  for (int j = 0; j < self.size; ++j) {
    const int64_t index = delta_index_at(indices, tuple * (uint64_t)self.size + (uint64_t)j, self.sizes[j]);
    if (index < 0) return -1;
    start += index * self.strides[j];
  }
  return start;
}

template <typename T>
static __global__ void gather_nd_kernel(delta_cuda_tuples_t self, delta_indices_t indices, const T *x, T *y) {
  DELTA_EACH_ITEM(i, self.tuples * (uint64_t)self.slice) {
    const uint64_t tuple = delta_divide(i, self.by_slice);
    const int64_t start = slice_start(self, indices, tuple);
    T value;
    memset(&value, 0, sizeof value);
    if (start >= 0) value = x[start + (int64_t)(i - tuple * self.by_slice.divisor)];
    y[i] = value;
  }
}

static __global__ void find_places_kernel(delta_cuda_tuples_t self, delta_indices_t indices, int64_t *places) {
  DELTA_EACH_ITEM(tuple, self.tuples) places[tuple] = slice_start(self, indices, tuple);
}

// The first tuple of a place applies its own update and those of all later ones.
template <typename T>
static __global__ void scatter_nd_kernel(delta_cuda_tuples_t self, const int64_t *places, const T *updates, T *y) {
  DELTA_EACH_ITEM(i, self.tuples * (uint64_t)self.slice) {
    const uint64_t tuple = delta_divide(i, self.by_slice), element = i - tuple * self.by_slice.divisor;
    const int64_t place = places[tuple];
    bool is_first = place >= 0;
    for (uint64_t j = 0; j < tuple && is_first; ++j) is_first = places[j] != place;
    if (!is_first) continue;
    T value = y[place + (int64_t)element];
    for (uint64_t j = tuple; j < self.tuples; ++j) {
      if (places[j] == place) value = updated(self.kind, value, updates[j * (uint64_t)self.slice + element]);
    }
    y[place + (int64_t)element] = value;
  }
}

static delta_indices_t indices_of(delta_dtype_t dtype, const void *data) {
  const delta_indices_t indices = {data, dtype == DELTA_DTYPE_INT64};
  return indices;
}

cudaError_t delta_cuda_gather_elements_launch(const delta_cuda_elements_t *self, const void *x, const void *indices, void *y,
                                              cudaStream_t stream) {
  if (self->count == 0) return cudaSuccess;
#define OF_WIDTH(bytes, T)                                                                                                            \
  case bytes:                                                                                                                         \
    DELTA_CUDA_LAUNCH_FREE(gather_elements_kernel<T>, delta_blocks(self->count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, \
                           *self, indices_of(self->indices, indices), (const T *)x, (T *)y);                                          \
    break;
  DELTA_CUDA_SWITCH(self->element_bytes, DELTA_CUDA_ELEMENT_WIDTHS, OF_WIDTH);
#undef OF_WIDTH
}

cudaError_t delta_cuda_scatter_elements_launch(const delta_cuda_elements_t *self, const void *indices, const void *updates, void *y,
                                               cudaStream_t stream) {
  if (self->count == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                                                                              \
  case id:                                                                                                                          \
    DELTA_CUDA_LAUNCH_FREE(scatter_elements_kernel<T>, delta_blocks(self->line_count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, \
                           stream, *self, indices_of(self->indices, indices), (const T *)updates, (T *)y);                          \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
#undef OF_TYPE
}

cudaError_t delta_cuda_gather_nd_launch(const delta_cuda_tuples_t *self, const void *x, const void *indices, void *y, cudaStream_t stream) {
  const uint64_t count = self->tuples * (uint64_t)self->slice;
  if (count == 0) return cudaSuccess;
#define OF_WIDTH(bytes, T)                                                                                                       \
  case bytes:                                                                                                                    \
    DELTA_CUDA_LAUNCH_FREE(gather_nd_kernel<T>, delta_blocks(count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *self, \
                           indices_of(self->indices, indices), (const T *)x, (T *)y);                                            \
    break;
  DELTA_CUDA_SWITCH(self->element_bytes, DELTA_CUDA_ELEMENT_WIDTHS, OF_WIDTH);
#undef OF_WIDTH
}

cudaError_t delta_cuda_scatter_nd_launch(const delta_cuda_tuples_t *self, const void *indices, const void *updates, void *places, void *y,
                                         cudaStream_t stream) {
  const uint64_t count = self->tuples * (uint64_t)self->slice;
  if (count == 0) return cudaSuccess;
  DELTA_CUDA_LAUNCH_FREE(find_places_kernel, delta_blocks(self->tuples, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *self,
                         indices_of(self->indices, indices), (int64_t *)places);
#define OF_TYPE(id, T)                                                                                                            \
  case id:                                                                                                                        \
    DELTA_CUDA_LAUNCH_FREE(scatter_nd_kernel<T>, delta_blocks(count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *self, \
                           (const int64_t *)places, (const T *)updates, (T *)y);                                                  \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
#undef OF_TYPE
}
