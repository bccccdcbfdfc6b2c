// Tiles of attention in device code: products of blocks of rows, with 16 by 16 threads, each of which has MICRO by MICRO neighbouring elements of the result. C++.
#ifndef DELTA_RUNTIME_CUDA_ATTENTION_TILE_H_
#define DELTA_RUNTIME_CUDA_ATTENTION_TILE_H_

#include "runtime/cuda/attention.h"
#include "runtime/cuda/grid.h"
#include "runtime/cuda/philox.h"

// Sizes for elements of type T: so that what a block shares stays below 48 KiB.
template <typename T>
struct attention_sizes {
  typedef typename delta_types<T>::work work;
  enum { TILE = sizeof(work) == 8 ? 32 : 64, SIDE = 16, MICRO = TILE / SIDE, DEPTH = 16 };
};

// What the threads of a block share.
template <typename T>
struct attention_shared {
  typedef attention_sizes<T> sizes;
  typename sizes::work left[sizes::TILE][sizes::DEPTH + 1], right[sizes::TILE][sizes::DEPTH + 1];
  typename sizes::work tile[sizes::TILE][sizes::TILE + 1];
  typename sizes::work rows[sizes::DEPTH][sizes::TILE + 1];
};

// MICRO by MICRO elements of one thread.
template <typename T>
struct attention_micro {
  typedef attention_sizes<T> sizes;
  typename sizes::work at[sizes::MICRO][sizes::MICRO];
  __device__ void clear() {
    for (int r = 0; r < sizes::MICRO; ++r)
      for (int c = 0; c < sizes::MICRO; ++c) at[r][c] = 0;
  }
};

// One matrix of a tensor, from some row on: `left` rows of `width` elements are there.
template <typename T>
struct attention_rows {
  const T *data;
  int64_t step, left, width;
};

static __device__ int tile_row() { return threadIdx.x / 16; }
static __device__ int tile_column() { return threadIdx.x % 16; }

// Where matrix m of a tensor with `rows` rows begins.
static __device__ int64_t matrix_start(const delta_cuda_attention_t &a, int64_t m, int64_t rows, int64_t width) {
  const int64_t outer = m / a.heads;
  return (outer * rows * a.heads + (m - outer * a.heads)) * width;
}

template <typename T>
static __device__ attention_rows<T> rows_of(const delta_cuda_attention_t &a, const T *tensor, int64_t m, int64_t rows, int64_t width,
                                            int64_t first) {
  const int64_t step = a.heads * width;
  const attention_rows<T> result = {tensor + matrix_start(a, m, rows, width) + first * step, step, rows - first, width};
  return result;
}

// sum = a b': every row of a tile of one with every row of a tile of the other.
template <typename T>
static __device__ void multiply_rows(const attention_rows<T> &a, const attention_rows<T> &b, attention_shared<T> *shared,
                                     attention_micro<T> *sum) {
  typedef attention_sizes<T> sizes;
  typedef typename sizes::work work;
  sum->clear();
  for (int64_t first = 0; first < a.width; first += sizes::DEPTH) {
    __syncthreads();
    for (int t = threadIdx.x; t < sizes::TILE * sizes::DEPTH; t += DELTA_BLOCK_THREADS) {
      const int row = t / sizes::DEPTH, d = t % sizes::DEPTH;
      const bool is_inside = first + d < a.width;
      shared->left[row][d] = is_inside && row < a.left ? delta_read<work>(a.data[row * a.step + first + d]) : (work)0;
      shared->right[row][d] = is_inside && row < b.left ? delta_read<work>(b.data[row * b.step + first + d]) : (work)0;
    }
    __syncthreads();
    DELTA_UNROLL_4
    for (int d = 0; d < sizes::DEPTH; ++d) {
      work x[sizes::MICRO], y[sizes::MICRO];
      for (int r = 0; r < sizes::MICRO; ++r) x[r] = shared->left[tile_row() * sizes::MICRO + r][d];
      for (int c = 0; c < sizes::MICRO; ++c) y[c] = shared->right[tile_column() * sizes::MICRO + c][d];
      for (int r = 0; r < sizes::MICRO; ++r)
        for (int c = 0; c < sizes::MICRO; ++c) sum->at[r][c] += x[r] * y[c];
    }
  }
}

// Puts a tile where all threads see it.
template <typename T>
static __device__ void share_tile(const attention_micro<T> &micro, attention_shared<T> *shared) {
  typedef attention_sizes<T> sizes;
  __syncthreads();
  for (int r = 0; r < sizes::MICRO; ++r)
    for (int c = 0; c < sizes::MICRO; ++c) shared->tile[tile_row() * sizes::MICRO + r][tile_column() * sizes::MICRO + c] = micro.at[r][c];
}

// sum += tile b, or with `turned` tile' b: the shared tile with the columns [first_column, + TILE) of b's rows.
template <typename T>
static __device__ void multiply_tile(bool turned, const attention_rows<T> &b, int64_t first_column, attention_shared<T> *shared,
                                     attention_micro<T> *sum) {
  typedef attention_sizes<T> sizes;
  typedef typename sizes::work work;
  for (int first = 0; first < sizes::TILE && first < b.left; first += sizes::DEPTH) {
    __syncthreads();
    for (int t = threadIdx.x; t < sizes::TILE * sizes::DEPTH; t += DELTA_BLOCK_THREADS) {
      const int row = t / sizes::TILE, column = t % sizes::TILE;
      const bool is_inside = first + row < b.left && first_column + column < b.width;
      shared->rows[row][column] = is_inside ? delta_read<work>(b.data[(first + row) * b.step + first_column + column]) : (work)0;
    }
    __syncthreads();
    DELTA_UNROLL_4
    for (int k = 0; k < sizes::DEPTH; ++k) {
      work x[sizes::MICRO], y[sizes::MICRO];
      for (int r = 0; r < sizes::MICRO; ++r) {
        const int row = tile_row() * sizes::MICRO + r;
        x[r] = turned ? shared->tile[first + k][row] : shared->tile[row][first + k];
      }
      for (int c = 0; c < sizes::MICRO; ++c) y[c] = shared->rows[k][tile_column() * sizes::MICRO + c];
      for (int r = 0; r < sizes::MICRO; ++r)
        for (int c = 0; c < sizes::MICRO; ++c) sum->at[r][c] += x[r] * y[c];
    }
  }
}

// Stores the tile's rows [first_row, ..) and columns [first_column, ..) of a matrix, multiplied.
template <typename T>
static __device__ void store_tile(const delta_cuda_attention_t &a, T *tensor, int64_t m, int64_t rows, int64_t width, int64_t first_row,
                                  int64_t first_column, const attention_micro<T> &micro, typename delta_types<T>::work factor) {
  typedef attention_sizes<T> sizes;
  const int64_t start = matrix_start(a, m, rows, width), step = a.heads * width;
  for (int r = 0; r < sizes::MICRO; ++r)
    for (int c = 0; c < sizes::MICRO; ++c) {
      const int64_t row = first_row + tile_row() * sizes::MICRO + r, column = first_column + tile_column() * sizes::MICRO + c;
      if (row < rows && column < width) tensor[start + row * step + column] = delta_write<T>(micro.at[r][c] * factor);
    }
}

// Where the mask of a matrix begins.
static __device__ int64_t mask_start(const delta_cuda_attention_t &a, int64_t m) {
  int64_t start = 0;
  uint64_t rest = (uint64_t)m;
  for (int d = a.all.rank - 1; d >= 0; --d) {
    const uint64_t above = delta_divide(rest, a.all.dims[d]);
    start += (int64_t)(rest - above * a.all.dims[d].divisor) * a.all.mask_strides[d];
    rest = above;
  }
  return start;
}

// The scores of a tile: scaled products and the mask; minus infinity where there is no key.
template <typename T>
static __device__ void score_tile(const delta_cuda_attention_t &a, const T *query, const T *key, const T *mask, int64_t m, int64_t i0,
                                  int64_t j0, attention_shared<T> *shared, attention_micro<T> *scores) {
  typedef attention_sizes<T> sizes;
  typedef typename sizes::work work;
  multiply_rows(rows_of(a, query, m, a.queries, a.size, i0), rows_of(a, key, m, a.keys, a.size, j0), shared, scores);
  const int64_t start = mask ? mask_start(a, m) : 0;
  for (int r = 0; r < sizes::MICRO; ++r)
    for (int c = 0; c < sizes::MICRO; ++c) {
      const int64_t i = i0 + tile_row() * sizes::MICRO + r, j = j0 + tile_column() * sizes::MICRO + c;
      work score = (work)a.scale * scores->at[r][c];
      if (mask && i < a.queries && j < a.keys) score += delta_read<work>(mask[start + i * a.mask_row + j * a.mask_column]);
      scores->at[r][c] = j < a.keys ? score : -(work)INFINITY;
    }
}

// What dropout multiplies the probabilities of a tile's thread with.
template <typename T>
static __device__ void drop_tile(const delta_cuda_attention_t &a, uint64_t key, int64_t m, int64_t i0, int64_t j0,
                                 attention_micro<T> *factors) {
  typedef attention_sizes<T> sizes;
  typedef typename sizes::work work;
  for (int r = 0; r < sizes::MICRO; ++r) {
    const int64_t i = i0 + tile_row() * sizes::MICRO + r, j = j0 + tile_column() * sizes::MICRO;
    const uint64_t index = a.first + (uint64_t)((m * a.queries + i) * a.keys + j);
    delta_words_t words = delta_draw_words(key, index / 4, 0);
    uint64_t counter = index / 4;
    for (int c = 0; c < sizes::MICRO; ++c) {
      const uint64_t at = index + (uint64_t)c;
      if (at / 4 != counter) {
        counter = at / 4;
        words = delta_draw_words(key, counter, 0);
      }
      factors->at[r][c] = (words.word[at % 4] >> 8) >= a.threshold ? (work)a.kept_factor : (work)0;
    }
  }
}

// Of the 16 threads that share a tile's row, which are half a warp.
template <typename Value, typename Step>
static __device__ Value all_of_row(Value value, Step step) {
  DELTA_UNROLL
  for (int bits = 8; bits > 0; bits /= 2) value = step(value, __shfl_xor_sync(0xffffffffu, value, bits));
  return value;
}

#endif // DELTA_RUNTIME_CUDA_ATTENTION_TILE_H_
