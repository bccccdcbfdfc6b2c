// Copy: element by element, or crosswise through tiles so that both sides are reached in order.
#include "runtime/cuda/copy.h"

#include "runtime/cuda/grid.h"

enum { TILE = 32, TILE_ROWS = 8 };

// The places of element `number` among the first `rank` dimensions.
static __device__ void find_places(const delta_cuda_copy_t &copy, int rank, uint64_t number, int64_t *to, int64_t *from) {
  for (int d = rank - 1; d >= 0; --d) {
    const uint64_t above = delta_divide(number, copy.dims[d]);
    const int64_t coordinate = (int64_t)(number - above * copy.dims[d].divisor);
    *to += coordinate * copy.to_strides[d];
    *from += coordinate * copy.from_strides[d];
    number = above;
  }
}

template <typename T>
static __global__ void copy_kernel(delta_cuda_copy_t copy, T *to, const T *from) {
  DELTA_EACH_ITEM(i, copy.count) {
    int64_t to_at = copy.to_start, from_at = copy.from_start;
    find_places(copy, copy.rank, i, &to_at, &from_at);
    to[to_at] = from[from_at];
  }
}

// Tiles of the last two dimensions, in shared memory. One column more than needed keeps its columns in different banks.
template <typename T>
static __global__ void copy_crosswise_kernel(delta_cuda_copy_t copy, uint64_t tiles, delta_divisor_t by_rows, delta_divisor_t by_columns,
                                             T *to, const T *from) {
  __shared__ T tile[TILE][TILE + 1];
  const int rows = copy.rank - 2, columns = copy.rank - 1;
  const int64_t row_count = (int64_t)copy.dims[rows].divisor, column_count = (int64_t)copy.dims[columns].divisor;
  for (uint64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const uint64_t line = delta_divide(number, by_columns), outer = delta_divide(line, by_rows);
    const int64_t first_column = (int64_t)(number - line * by_columns.divisor) * TILE;
    const int64_t first_row = (int64_t)(line - outer * by_rows.divisor) * TILE;
    int64_t to_start = copy.to_start, from_start = copy.from_start;
    find_places(copy, rows, outer, &to_start, &from_start);
    __syncthreads();
    for (int j = threadIdx.y; j < TILE; j += TILE_ROWS) {
      const int64_t row = first_row + threadIdx.x, column = first_column + j;
      if (row < row_count && column < column_count)
        tile[j][threadIdx.x] = from[from_start + row * copy.from_strides[rows] + column * copy.from_strides[columns]];
    }
    __syncthreads();
    for (int j = threadIdx.y; j < TILE; j += TILE_ROWS) {
      const int64_t row = first_row + j, column = first_column + threadIdx.x;
      if (row < row_count && column < column_count)
        to[to_start + row * copy.to_strides[rows] + column * copy.to_strides[columns]] = tile[threadIdx.x][j];
    }
  }
}

static uint64_t tiles_of(const delta_divisor_t &dimension) { return (dimension.divisor + TILE - 1) / TILE; }

template <typename T>
static void launch(const delta_cuda_copy_t *copy, void *to, const void *from, cudaStream_t stream) {
  if (!copy->crosswise) {
    DELTA_CUDA_LAUNCH_FREE(copy_kernel<T>, delta_blocks(copy->count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *copy, (T *)to,
                           (const T *)from);
    return;
  }
  const delta_divisor_t &rows = copy->dims[copy->rank - 2], &columns = copy->dims[copy->rank - 1];
  const uint64_t outer = copy->count / (rows.divisor * columns.divisor), tiles = outer * tiles_of(rows) * tiles_of(columns);
  DELTA_CUDA_LAUNCH(copy_crosswise_kernel<T>, delta_blocks(tiles, 1), dim3(TILE, TILE_ROWS), 0, stream, *copy, tiles,
                    delta_divisor_of(tiles_of(rows), tiles), delta_divisor_of(tiles_of(columns), tiles), (T *)to, (const T *)from);
}

cudaError_t delta_cuda_copy_launch(const delta_cuda_copy_t *copy, void *to, const void *from, cudaStream_t stream) {
  if (copy->count == 0) return cudaSuccess;
  if (copy->rank == 1 && copy->to_strides[0] == 1 && copy->from_strides[0] == 1) {
    const int64_t bytes = copy->element_bytes;
    return cudaMemcpyAsync((char *)to + copy->to_start * bytes, (const char *)from + copy->from_start * bytes,
                           copy->count * (uint64_t)bytes, cudaMemcpyDeviceToDevice, stream);
  }
#define OF_WIDTH(bytes, T)             \
  case bytes:                          \
    launch<T>(copy, to, from, stream); \
    break;
  DELTA_CUDA_SWITCH(copy->element_bytes, DELTA_CUDA_WIDTHS, OF_WIDTH);
}
