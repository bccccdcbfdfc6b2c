// ATTENTION: a block has a tile of queries and goes through the keys tile by tile, with the running maximum and sum of each row.
// M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018; T. Dao and others, "FlashAttention", 2022.
//
// Values wider than a tile are made by several blocks, each of which computes the scores again.
#include "runtime/cuda/attention.h"

#include "runtime/cuda/attention_tile.h"

template <typename T>
static __global__ void attention_kernel(delta_cuda_attention_t a, delta_cuda_stream_t source, uint64_t jobs, delta_divisor_t by_tiles,
                                        delta_divisor_t by_parts, const T *query, const T *key, const T *value, const T *mask, T *y,
                                        T *log_sums) {
  typedef attention_sizes<T> sizes;
  typedef typename sizes::work work;
  __shared__ attention_shared<T> shared;
  const bool drops = source.seed != 0;
  const uint64_t stream_key = drops ? delta_stream_key(source) : 0;
  for (uint64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
    const uint64_t tile = delta_divide(job, by_parts);
    const int64_t first_column = (int64_t)(job - tile * by_parts.divisor) * sizes::TILE;
    const int64_t m = (int64_t)delta_divide(tile, by_tiles), i0 = (int64_t)(tile - (uint64_t)m * by_tiles.divisor) * sizes::TILE;
    attention_micro<T> result;
    work largest[sizes::MICRO], sum[sizes::MICRO];
    result.clear();
    for (int r = 0; r < sizes::MICRO; ++r) {
      largest[r] = -(work)INFINITY;
      sum[r] = 0;
    }
    for (int64_t j0 = 0; j0 < a.keys; j0 += sizes::TILE) {
      attention_micro<T> p, factors;
      score_tile(a, query, key, mask, m, i0, j0, &shared, &p);
      if (drops) drop_tile(a, stream_key, m, i0, j0, &factors);
      for (int r = 0; r < sizes::MICRO; ++r) {
        work beyond = largest[r], added = 0;
        for (int c = 0; c < sizes::MICRO; ++c) beyond = delta_larger()(beyond, p.at[r][c]);
        beyond = all_of_row(beyond, delta_larger());
        const work shift = beyond == -(work)INFINITY ? (work)0 : beyond, shrink = exp(largest[r] - shift);
        for (int c = 0; c < sizes::MICRO; ++c) {
          const bool is_there = j0 + tile_column() * sizes::MICRO + c < a.keys;
          p.at[r][c] = is_there ? exp(p.at[r][c] - shift) : (work)0;
          added += p.at[r][c];
          if (drops) p.at[r][c] *= factors.at[r][c];
          result.at[r][c] *= shrink;
        }
        largest[r] = beyond;
        sum[r] = sum[r] * shrink + all_of_row(added, delta_add());
      }
      share_tile(p, &shared);
      multiply_tile(false, rows_of(a, value, m, a.keys, a.value_size, j0), first_column, &shared, &result);
    }
    for (int r = 0; r < sizes::MICRO; ++r) {
      // A row that sees nothing: 0 where that is asked for or there are no keys, else what the division by 0 gives.
      const bool sees_nothing = largest[r] == -(work)INFINITY, is_zero = sees_nothing && (a.hidden_rows_zero || a.keys == 0);
      const work log_sum = !sees_nothing        ? largest[r] + log(sum[r])
                           : a.hidden_rows_zero ? (work)INFINITY
                           : a.keys == 0        ? -(work)INFINITY
                                                : (work)NAN;
      for (int c = 0; c < sizes::MICRO; ++c) result.at[r][c] = is_zero ? (work)0 : sees_nothing ? (work)NAN : result.at[r][c] / sum[r];
      const int64_t i = i0 + tile_row() * sizes::MICRO + r;
      if (log_sums && first_column == 0 && tile_column() == 0 && i < a.queries) log_sums[m * a.queries + i] = delta_write<T>(log_sum);
    }
    store_tile(a, y, m, a.queries, a.value_size, i0, first_column, result, (work)1);
  }
}

template <typename T>
static void launch(const delta_cuda_attention_t *self, const delta_cuda_stream_t *source, const void *query, const void *key,
                   const void *value, const void *mask, void *y, void *log_sums, cudaStream_t stream) {
  const int64_t tile = attention_sizes<T>::TILE, tiles = (self->queries + tile - 1) / tile;
  const int64_t parts = self->value_size > tile ? (self->value_size + tile - 1) / tile : 1;
  const uint64_t jobs = (uint64_t)(self->matrices * tiles * parts);
  DELTA_CUDA_LAUNCH(attention_kernel<T>, delta_blocks(jobs, 1), DELTA_BLOCK_THREADS, 0, stream, *self, *source, jobs,
                    delta_divisor_of((uint64_t)tiles, jobs), delta_divisor_of((uint64_t)parts, jobs), (const T *)query, (const T *)key,
                    (const T *)value, (const T *)mask, (T *)y, (T *)log_sums);
}

cudaError_t delta_cuda_attention_launch(const delta_cuda_attention_t *self, const delta_cuda_stream_t *source, const void *query,
                                        const void *key, const void *value, const void *mask, void *y, void *log_sums,
                                        cudaStream_t stream) {
  if (self->matrices == 0 || self->queries == 0) return cudaSuccess;
#define OF_TYPE(id, T)                                                     \
  case id:                                                                 \
    launch<T>(self, source, query, key, value, mask, y, log_sums, stream); \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}
