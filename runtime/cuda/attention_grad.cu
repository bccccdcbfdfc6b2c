// ATTENTION_GRAD: probabilities are computed again, tile by tile: by blocks that have a tile of keys for the gradients of keys and values, by blocks that have a tile of queries for
// those of queries, and by blocks that have a tile of the mask for its own. So each sum is one block's, in a fixed order.
#include "runtime/cuda/attention.h"

#include "runtime/cuda/attention_tile.h"

// What is known of a row before: its probabilities are exp(score - shift) * factor; `through` is dy . y.
enum { SHIFT, FACTOR, THROUGH, ROW_NUMBERS };
enum { WARPS = 8, ENOUGH_BLOCKS = 256, PART_BYTES = 256 };

template <typename T>
struct gradient_inputs {
  const T *dy, *y, *log_sums, *query, *key, *value, *mask;
};

// One warp a row. Where the sum of exponentials is so far from 0 that its logarithm does not tell probabilities, it is formed again.
template <typename T>
static __global__ void row_kernel(delta_cuda_attention_t a, gradient_inputs<T> in, typename delta_types<T>::work *rows) {
  typedef typename delta_types<T>::work work;
  const uint64_t count = (uint64_t)(a.matrices * a.queries);
  const int lane = threadIdx.x % 32;
  for (uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / 32; row < count; row += (uint64_t)gridDim.x * WARPS) {
    const int64_t m = (int64_t)row / a.queries, i = (int64_t)row - m * a.queries;
    const attention_rows<T> dy = rows_of(a, in.dy, m, a.queries, a.value_size, i), y = rows_of(a, in.y, m, a.queries, a.value_size, i);
    work through = 0, shift = delta_read<work>(in.log_sums[row]), factor = 1;
    for (int64_t d = lane; d < a.value_size; d += 32) through += delta_read<work>(dy.data[d]) * delta_read<work>(y.data[d]);
    through = delta_warp_team::all(through, delta_add(), (work *)0);
    if (shift - shift == 0 && fabs(shift) > (work)1e5) {
      const attention_rows<T> query = rows_of(a, in.query, m, a.queries, a.size, i), keys = rows_of(a, in.key, m, a.keys, a.size, 0);
      const int64_t mask = in.mask ? mask_start(a, m) + i * a.mask_row : 0;
      work largest = -(work)INFINITY, sum = 0;
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t j = lane; j < a.keys; j += 32) {
          work score = 0;
          for (int64_t d = 0; d < a.size; ++d) score += delta_read<work>(query.data[d]) * delta_read<work>(keys.data[j * keys.step + d]);
          score *= (work)a.scale;
          if (in.mask) score += delta_read<work>(in.mask[mask + j * a.mask_column]);
          if (pass == 0)
            largest = delta_larger()(largest, score);
          else
            sum += exp(score - largest);
        }
        if (pass == 0) largest = delta_warp_team::all(largest, delta_larger(), (work *)0);
      }
      shift = largest;
      factor = 1 / delta_warp_team::all(sum, delta_add(), (work *)0);
    }
    if (lane != 0) continue;
    rows[row * ROW_NUMBERS + SHIFT] = shift;
    rows[row * ROW_NUMBERS + FACTOR] = factor;
    rows[row * ROW_NUMBERS + THROUGH] = through;
  }
}

// The probabilities of a tile, as dropout leaves them, and the gradients of its scores.
template <typename T>
static __device__ void gradient_tile(const delta_cuda_attention_t &a, bool drops, uint64_t stream_key, const gradient_inputs<T> &in,
                                     const typename delta_types<T>::work *rows, int64_t m, int64_t i0, int64_t j0,
                                     attention_shared<T> *shared, attention_micro<T> *p, attention_micro<T> *dscores) {
  typedef attention_sizes<T> sizes;
  typedef typename sizes::work work;
  attention_micro<T> factors;
  score_tile(a, in.query, in.key, in.mask, m, i0, j0, shared, p);
  multiply_rows(rows_of(a, in.dy, m, a.queries, a.value_size, i0), rows_of(a, in.value, m, a.keys, a.value_size, j0), shared, dscores);
  if (drops) drop_tile(a, stream_key, m, i0, j0, &factors);
  for (int r = 0; r < sizes::MICRO; ++r) {
    const int64_t i = i0 + tile_row() * sizes::MICRO + r;
    const bool has_row = i < a.queries;
    const work *row = rows + (has_row ? m * a.queries + i : 0) * ROW_NUMBERS;
    const work shift = row[SHIFT], factor = row[FACTOR], through = row[THROUGH];
    for (int c = 0; c < sizes::MICRO; ++c) {
      const bool is_there = has_row && j0 + tile_column() * sizes::MICRO + c < a.keys;
      const work probability = is_there ? exp(p->at[r][c] - shift) * factor : (work)0;
      const work kept = drops ? factors.at[r][c] : (work)1;
      dscores->at[r][c] = is_there ? probability * (kept * dscores->at[r][c] - through) : (work)0;
      p->at[r][c] = probability * kept;
    }
  }
}

// Job numbers: matrix, tile, part of the width.
typedef struct grad_jobs {
  uint64_t count;
  delta_divisor_t by_tiles, by_parts;
} grad_jobs_t;

static grad_jobs_t jobs_of(int64_t matrices, int64_t rows, int64_t width, int64_t tile) {
  const int64_t tiles = (rows + tile - 1) / tile, parts = width > tile ? (width + tile - 1) / tile : 1;
  const uint64_t count = (uint64_t)(matrices * tiles * parts);
  const grad_jobs_t jobs = {count, delta_divisor_of((uint64_t)tiles, count), delta_divisor_of((uint64_t)parts, count)};
  return jobs;
}

static __device__ void find_job(const grad_jobs_t &jobs, uint64_t job, int64_t *m, int64_t *tile, int64_t *part) {
  const uint64_t line = delta_divide(job, jobs.by_parts), matrix = delta_divide(line, jobs.by_tiles);
  *part = (int64_t)(job - line * jobs.by_parts.divisor);
  *tile = (int64_t)(line - matrix * jobs.by_tiles.divisor);
  *m = (int64_t)matrix;
}

template <typename T>
static __global__ void key_kernel(delta_cuda_attention_t a, delta_cuda_stream_t source, grad_jobs_t jobs, gradient_inputs<T> in,
                                  const typename delta_types<T>::work *rows, T *dkey, T *dvalue) {
  typedef attention_sizes<T> sizes;
  typedef typename sizes::work work;
  __shared__ attention_shared<T> shared;
  const bool drops = source.seed != 0;
  const uint64_t stream_key = drops ? delta_stream_key(source) : 0;
  for (uint64_t job = blockIdx.x; job < jobs.count; job += gridDim.x) {
    int64_t m, tile, part;
    find_job(jobs, job, &m, &tile, &part);
    const int64_t j0 = tile * sizes::TILE, first_column = part * sizes::TILE;
    attention_micro<T> of_key, of_value, p, dscores;
    of_key.clear();
    of_value.clear();
    for (int64_t i0 = 0; i0 < a.queries; i0 += sizes::TILE) {
      gradient_tile(a, drops, stream_key, in, rows, m, i0, j0, &shared, &p, &dscores);
      share_tile(p, &shared);
      multiply_tile(true, rows_of(a, in.dy, m, a.queries, a.value_size, i0), first_column, &shared, &of_value);
      share_tile(dscores, &shared);
      multiply_tile(true, rows_of(a, in.query, m, a.queries, a.size, i0), first_column, &shared, &of_key);
    }
    store_tile(a, dkey, m, a.keys, a.size, j0, first_column, of_key, (work)a.scale);
    store_tile(a, dvalue, m, a.keys, a.value_size, j0, first_column, of_value, (work)1);
  }
}

template <typename T>
static __global__ void query_kernel(delta_cuda_attention_t a, delta_cuda_stream_t source, grad_jobs_t jobs, gradient_inputs<T> in,
                                    const typename delta_types<T>::work *rows, T *dquery) {
  typedef attention_sizes<T> sizes;
  typedef typename sizes::work work;
  __shared__ attention_shared<T> shared;
  const bool drops = source.seed != 0;
  const uint64_t stream_key = drops ? delta_stream_key(source) : 0;
  for (uint64_t job = blockIdx.x; job < jobs.count; job += gridDim.x) {
    int64_t m, tile, part;
    find_job(jobs, job, &m, &tile, &part);
    const int64_t i0 = tile * sizes::TILE, first_column = part * sizes::TILE;
    attention_micro<T> of_query, p, dscores;
    of_query.clear();
    for (int64_t j0 = 0; j0 < a.keys; j0 += sizes::TILE) {
      gradient_tile(a, drops, stream_key, in, rows, m, i0, j0, &shared, &p, &dscores);
      share_tile(dscores, &shared);
      multiply_tile(false, rows_of(a, in.key, m, a.keys, a.size, j0), first_column, &shared, &of_query);
    }
    store_tile(a, dquery, m, a.queries, a.size, i0, first_column, of_query, (work)a.scale);
  }
}

// How the mask's gradient is shared: jobs are splits of the repeated matrices, kept matrices, and the mask's own tiles.
typedef struct mask_jobs {
  uint64_t count;
  int64_t splits, query_tiles, key_tiles; // of the mask: 1 where it repeats
  uint64_t share;                         // repeated matrices of one split
} mask_jobs_t;

static int64_t tiles_of(int64_t count, int64_t tile) { return (count + tile - 1) / tile; }

static mask_jobs_t mask_jobs_of(const delta_cuda_attention_t *a, int64_t tile) {
  mask_jobs_t jobs = {0, 1, a->mask_row ? tiles_of(a->queries, tile) : 1, a->mask_column ? tiles_of(a->keys, tile) : 1, 0};
  const uint64_t own = a->kept.count * (uint64_t)(jobs.query_tiles * jobs.key_tiles);
  if (own == 0) return jobs;
  uint64_t splits = ENOUGH_BLOCKS / own;
  if (splits > a->repeated.count) splits = a->repeated.count;
  if (splits < 1) splits = 1;
  jobs.share = (a->repeated.count + splits - 1) / splits;
  jobs.splits = (int64_t)((a->repeated.count + jobs.share - 1) / jobs.share);
  jobs.count = own * (uint64_t)jobs.splits;
  return jobs;
}

// Adds what a number means in some dimensions.
static __device__ void add_matrix(const delta_cuda_mask_dims_t &dims, uint64_t number, int64_t *m, int64_t *mask) {
  for (int d = dims.rank - 1; d >= 0; --d) {
    const uint64_t above = delta_divide(number, dims.dims[d]);
    const int64_t coordinate = (int64_t)(number - above * dims.dims[d].divisor);
    *m += coordinate * dims.matrix_strides[d];
    *mask += coordinate * dims.mask_strides[d];
    number = above;
  }
}

// Sums over rows, or columns, where the mask repeats: afterwards the first has the sum.
template <typename T>
static __device__ void fold_tile(bool rows, attention_shared<T> *shared, attention_micro<T> *sum) {
  typedef attention_sizes<T> sizes;
  typedef typename sizes::work work;
  share_tile(*sum, shared);
  __syncthreads();
  for (int r = 0; r < sizes::MICRO; ++r)
    for (int c = 0; c < sizes::MICRO; ++c) {
      const int row = tile_row() * sizes::MICRO + r, column = tile_column() * sizes::MICRO + c;
      work folded = 0;
      if ((rows ? row : column) == 0)
        for (int k = 0; k < sizes::TILE; ++k) folded += rows ? shared->tile[k][column] : shared->tile[row][k];
      sum->at[r][c] = folded;
    }
}

template <typename T>
static __global__ void mask_kernel(delta_cuda_attention_t a, delta_cuda_stream_t source, mask_jobs_t jobs, gradient_inputs<T> in,
                                   const typename delta_types<T>::work *rows, typename delta_types<T>::work *partials, T *dmask) {
  typedef attention_sizes<T> sizes;
  __shared__ attention_shared<T> shared;
  const bool drops = source.seed != 0;
  const uint64_t stream_key = drops ? delta_stream_key(source) : 0;
  const int64_t query_tiles = (a.queries + sizes::TILE - 1) / sizes::TILE, key_tiles = (a.keys + sizes::TILE - 1) / sizes::TILE;
  for (uint64_t job = blockIdx.x; job < jobs.count; job += gridDim.x) {
    const int64_t key_tile = (int64_t)job % jobs.key_tiles, query_tile = (int64_t)job / jobs.key_tiles % jobs.query_tiles;
    const uint64_t line = job / (uint64_t)(jobs.key_tiles * jobs.query_tiles), kept = line % a.kept.count, split = line / a.kept.count;
    const int64_t first_query = a.mask_row ? query_tile : 0, last_query = a.mask_row ? query_tile + 1 : query_tiles;
    const int64_t first_key = a.mask_column ? key_tile : 0, last_key = a.mask_column ? key_tile + 1 : key_tiles;
    const uint64_t begin = split * jobs.share, end = begin + jobs.share < a.repeated.count ? begin + jobs.share : a.repeated.count;
    int64_t kept_matrix = 0, mask_at = 0;
    add_matrix(a.kept, kept, &kept_matrix, &mask_at);
    attention_micro<T> sum, p, dscores;
    sum.clear();
    for (uint64_t repeated = begin; repeated < end; ++repeated) {
      int64_t m = kept_matrix, none = 0;
      add_matrix(a.repeated, repeated, &m, &none);
      for (int64_t qt = first_query; qt < last_query; ++qt)
        for (int64_t kt = first_key; kt < last_key; ++kt) {
          gradient_tile(a, drops, stream_key, in, rows, m, qt * sizes::TILE, kt * sizes::TILE, &shared, &p, &dscores);
          for (int r = 0; r < sizes::MICRO; ++r)
            for (int c = 0; c < sizes::MICRO; ++c) sum.at[r][c] += dscores.at[r][c];
        }
    }
    if (!a.mask_row) fold_tile(true, &shared, &sum);
    if (!a.mask_column) fold_tile(false, &shared, &sum);
    for (int r = 0; r < sizes::MICRO; ++r)
      for (int c = 0; c < sizes::MICRO; ++c) {
        const int64_t i = query_tile * sizes::TILE + tile_row() * sizes::MICRO + r;
        const int64_t j = key_tile * sizes::TILE + tile_column() * sizes::MICRO + c;
        if (i >= (a.mask_row ? a.queries : 1) || j >= (a.mask_column ? a.keys : 1)) continue;
        const int64_t at = mask_at + i * a.mask_row + j * a.mask_column;
        if (jobs.splits > 1)
          partials[(int64_t)split * a.mask_count + at] = sum.at[r][c];
        else
          dmask[at] = delta_write<T>(sum.at[r][c]);
      }
  }
}

template <typename T>
static __global__ void add_splits_kernel(int64_t count, int64_t splits, const typename delta_types<T>::work *partials, T *dmask) {
  typedef typename delta_types<T>::work work;
  DELTA_EACH_ITEM(i, count) {
    work sum = 0;
    for (int64_t split = 0; split < splits; ++split) sum += partials[split * count + (int64_t)i];
    dmask[i] = delta_write<T>(sum);
  }
}

// ---- Launches

static size_t work_bytes(delta_dtype_t dtype) { return dtype == DELTA_DTYPE_FLOAT64 ? sizeof(double) : sizeof(float); }

static size_t rows_bytes(const delta_cuda_attention_t *self) {
  const size_t bytes = (size_t)(self->matrices * self->queries) * ROW_NUMBERS * work_bytes(self->dtype);
  return (bytes + PART_BYTES - 1) / PART_BYTES * PART_BYTES;
}

size_t delta_cuda_attention_grad_workspace(const delta_cuda_attention_t *self, bool of_mask) {
  size_t bytes = rows_bytes(self);
  if (!of_mask) return bytes;
  const mask_jobs_t jobs = mask_jobs_of(
      self, self->dtype == DELTA_DTYPE_FLOAT64 ? (int64_t)attention_sizes<double>::TILE : (int64_t)attention_sizes<float>::TILE);
  return jobs.splits > 1 ? bytes + (size_t)(jobs.splits * self->mask_count) * work_bytes(self->dtype) : bytes;
}

template <typename T>
static void launch(const delta_cuda_attention_t *self, const delta_cuda_stream_t *source, const delta_cuda_attention_gradient_t *buffers,
                   cudaStream_t stream) {
  typedef typename delta_types<T>::work work;
  const int64_t tile = attention_sizes<T>::TILE, widest = self->size > self->value_size ? self->size : self->value_size;
  const gradient_inputs<T> in = {(const T *)buffers->dy,    (const T *)buffers->y,   (const T *)buffers->log_sums,
                                 (const T *)buffers->query, (const T *)buffers->key, (const T *)buffers->value,
                                 (const T *)buffers->mask};
  work *rows = (work *)buffers->workspace, *partials = (work *)((char *)buffers->workspace + rows_bytes(self));
  const uint64_t row_count = (uint64_t)(self->matrices * self->queries);
  if (row_count > 0) DELTA_CUDA_LAUNCH(row_kernel<T>, delta_blocks(row_count, WARPS), DELTA_BLOCK_THREADS, 0, stream, *self, in, rows);
  const grad_jobs_t of_keys = jobs_of(self->matrices, self->keys, widest, tile),
                    of_queries = jobs_of(self->matrices, self->queries, self->size, tile);
  if (of_keys.count > 0)
    DELTA_CUDA_LAUNCH(key_kernel<T>, delta_blocks(of_keys.count, 1), DELTA_BLOCK_THREADS, 0, stream, *self, *source, of_keys, in, rows,
                      (T *)buffers->dkey, (T *)buffers->dvalue);
  if (of_queries.count > 0)
    DELTA_CUDA_LAUNCH(query_kernel<T>, delta_blocks(of_queries.count, 1), DELTA_BLOCK_THREADS, 0, stream, *self, *source, of_queries, in,
                      rows, (T *)buffers->dquery);
  const mask_jobs_t of_mask = mask_jobs_of(self, tile);
  if (!buffers->dmask || of_mask.count == 0) return;
  DELTA_CUDA_LAUNCH(mask_kernel<T>, delta_blocks(of_mask.count, 1), DELTA_BLOCK_THREADS, 0, stream, *self, *source, of_mask, in, rows,
                    partials, (T *)buffers->dmask);
  if (of_mask.splits > 1)
    DELTA_CUDA_LAUNCH_FREE(add_splits_kernel<T>, delta_blocks((uint64_t)self->mask_count, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0,
                           stream, self->mask_count, of_mask.splits, partials, (T *)buffers->dmask);
}

cudaError_t delta_cuda_attention_grad_launch(const delta_cuda_attention_t *self, const delta_cuda_stream_t *source,
                                             const delta_cuda_attention_gradient_t *buffers, cudaStream_t stream) {
#define OF_TYPE(id, T)                        \
  case id:                                    \
    launch<T>(self, source, buffers, stream); \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}
