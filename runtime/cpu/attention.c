// Attention forward in float32, and what both directions share. Threads take neighbouring blocks of queries.
#include "runtime/cpu/attention.h"

#include <math.h>
#include <string.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/vector_math.h"
#include "runtime/cpu/words.h"

// A mask at or below this hides a key beside any that is not hidden: no score is large enough to show it.
static const float hiding_mask = -1e30f;

const char *delta_cpu_attention_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const uint32_t first = node->op == DELTA_CORE_ATTENTION ? 0 : DELTA_ATTENTION_GRAD_INPUTS;
  if (delta_node_input(graph, node, first)->dtype != DELTA_DTYPE_FLOAT32) return "an input is not float32";
  const delta_attention_dims_t dims = delta_attention_dims_of(graph, node);
  const bool empty = dims.matrices == 0 || dims.queries == 0 || dims.keys == 0 || dims.size == 0 || dims.value_size == 0;
  return empty ? "an operand has no elements" : NULL;
}

delta_attention_launch_t delta_attention_launch(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const uint32_t first = kernel->node->op == DELTA_CORE_ATTENTION ? 0 : DELTA_ATTENTION_GRAD_INPUTS;
  const void *const *inputs = buffers->inputs + first;
  delta_attention_launch_t launch = {.kernel = kernel,
                                     .buffers = buffers,
                                     .attrs = kernel->node->attrs,
                                     .dims = delta_attention_dims_of(kernel->graph, kernel->node),
                                     .query = inputs[DELTA_ATTENTION_QUERY],
                                     .key = inputs[DELTA_ATTENTION_KEY],
                                     .value = inputs[DELTA_ATTENTION_VALUE]};
  launch.score_row = delta_attention_score_row(&launch.dims);
  const delta_tensor_t *mask = delta_node_input(kernel->graph, kernel->node, first + DELTA_ATTENTION_MASK);
  if (mask) {
    launch.mask = inputs[DELTA_ATTENTION_MASK];
    launch.mask_layout = delta_attention_mask(&launch.dims, &mask->shape);
  }
  launch.drops = delta_node_input(kernel->graph, kernel->node, first + DELTA_ATTENTION_SEED) != NULL && launch.attrs->ratio > 0.0;
  if (launch.drops) {
    const delta_kernel_launch_t of_node = {kernel, buffers};
    launch.stream_key = delta_words_key(&of_node, first + DELTA_ATTENTION_SEED, launch.attrs->stream);
  }
  return launch;
}

int64_t delta_attention_block_count(const delta_attention_dims_t *dims) {
  return (dims->queries + DELTA_ATTENTION_ROWS - 1) / DELTA_ATTENTION_ROWS;
}

// Whether any of up to 16 neighbouring mask values shows its key. NaN shows.
static bool shows_any(const float *mask, int64_t count) {
  int shown = 0;
  for (int64_t j = 0; j < count; ++j) shown |= !(mask[j] <= hiding_mask);
  return shown != 0;
}

// Widens [*begin, *end), in panels of keys, to those that a row of the mask shows; false when it shows none.
static bool widen_visible(const float *mask, int64_t keys, int64_t *begin, int64_t *end) {
  enum { COLUMNS = DELTA_PRODUCT_COLUMNS };
  const int64_t panels = (keys + COLUMNS - 1) / COLUMNS;
  int64_t first = 0, last = panels;
  while (first < panels && !shows_any(mask + first * COLUMNS, keys - first * COLUMNS < COLUMNS ? keys - first * COLUMNS : COLUMNS)) ++first;
  if (first == panels) return false;
  while (!shows_any(mask + (last - 1) * COLUMNS, keys - (last - 1) * COLUMNS < COLUMNS ? keys - (last - 1) * COLUMNS : COLUMNS)) --last;
  if (first < *begin) *begin = first;
  if (last > *end) *end = last;
  return true;
}

delta_attention_block_t delta_attention_block(const delta_attention_launch_t *launch, int64_t matrix, int64_t index) {
  const delta_attention_dims_t *dims = &launch->dims;
  delta_attention_block_t block = {.matrix = matrix, .first_query = index * DELTA_ATTENTION_ROWS, .keys = dims->keys};
  block.queries = dims->queries - block.first_query < DELTA_ATTENTION_ROWS ? dims->queries - block.first_query : DELTA_ATTENTION_ROWS;
  if (!launch->mask || launch->mask_layout.column != 1) return block;
  const int64_t row = launch->mask_layout.row, mask_rows = row ? block.queries : 1;
  const float *mask = launch->mask + delta_attention_mask_start(dims, &launch->mask_layout, matrix) + block.first_query * row;
  int64_t begin = INT64_MAX, end = 0;
  for (int64_t i = 0; i < mask_rows; ++i) {
    // A row that sees nothing weighs hidden keys against each other.
    if (!widen_visible(mask + i * row, dims->keys, &begin, &end)) return block;
  }
  block.first_key = begin * DELTA_PRODUCT_COLUMNS;
  block.keys = (end * DELTA_PRODUCT_COLUMNS < dims->keys ? end * DELTA_PRODUCT_COLUMNS : dims->keys) - block.first_key;
  return block;
}

void delta_attention_pack_keys(const delta_attention_launch_t *launch, int64_t matrix, float *panels) {
  const delta_attention_dims_t *dims = &launch->dims;
  delta_product_pack(dims->size, dims->keys, launch->key + delta_attention_start(dims, matrix, dims->keys, dims->size), 1,
                     delta_attention_step(dims, dims->size), panels);
}

DELTA_CPU_CLONES static void scale_row(float *scores, int64_t count, float scale, const float *mask, int64_t mask_step) {
  if (!mask) {
    for (int64_t j = 0; j < count; ++j) scores[j] *= scale;
  } else if (mask_step == 1) {
    for (int64_t j = 0; j < count; ++j) scores[j] = scores[j] * scale + mask[j];
  } else {
    for (int64_t j = 0; j < count; ++j) scores[j] = scores[j] * scale + mask[0];
  }
}

void delta_attention_scores(const delta_attention_launch_t *launch, const delta_attention_block_t *block, const float *key_panels,
                            float *scores) {
  const delta_attention_dims_t *dims = &launch->dims;
  const int64_t step = delta_attention_step(dims, dims->size), row = launch->mask_layout.row, column = launch->mask_layout.column;
  const delta_product_t product = {
      .rows = block->queries,
      .columns = block->keys,
      .depth = dims->size,
      .a = launch->query + delta_attention_start(dims, block->matrix, dims->queries, dims->size) + block->first_query * step,
      .a_row = step,
      .a_depth = 1,
      .panels = key_panels + block->first_key * dims->size,
      .panel_step = DELTA_PRODUCT_COLUMNS * dims->size,
      .c = scores,
      .c_row = launch->score_row};
  delta_product_run(&product);
  const float *mask = launch->mask;
  if (mask)
    mask += delta_attention_mask_start(dims, &launch->mask_layout, block->matrix) + block->first_query * row + block->first_key * column;
  for (int64_t i = 0; i < block->queries; ++i) {
    scale_row(scores + i * launch->score_row, block->keys, (float)launch->attrs->scale, mask ? mask + i * row : NULL, column);
  }
}

DELTA_CPU_CLONES static void words_to_factors(const uint32_t *words, uint32_t threshold, float kept, int64_t count, float *factors) {
  for (int64_t j = 0; j < count; ++j) factors[j] = (words[j] >> 8) >= threshold ? kept : 0.0f;
}

void delta_attention_factors(const delta_attention_launch_t *launch, const delta_attention_block_t *block, int64_t i, float *factors) {
  const double ratio = launch->attrs->ratio;
  const uint32_t threshold = (uint32_t)ceil(ratio * 0x1p24); // uniform >= ratio, with both sides times 2^24: exact
  const float kept = ratio < 1.0 ? (float)(1.0 / (1.0 - ratio)) : 0.0f;
  const int64_t row = block->matrix * launch->dims.queries + block->first_query + i;
  uint64_t at = (uint64_t)(launch->attrs->first + row * launch->dims.keys + block->first_key);
  for (int64_t j = 0; j < block->keys;) {
    uint32_t words[DELTA_WORDS_TILE];
    const int64_t skipped = (int64_t)(at % 4);
    const int64_t drawn = DELTA_WORDS_TILE - skipped, count = block->keys - j < drawn ? block->keys - j : drawn;
    delta_words_draw(launch->stream_key, at / 4, words);
    words_to_factors(words + skipped, threshold, kept, count, factors + j);
    at += (uint64_t)count;
    j += count;
  }
}

DELTA_CPU_CLONES static float largest_of(const float *x, int64_t count) {
  enum { LANES = 16 };
  float lanes[LANES], largest = -INFINITY;
  int64_t j = 0;
  for (int lane = 0; lane < LANES; ++lane) lanes[lane] = -INFINITY;
  for (; j + LANES <= count; j += LANES) {
    for (int lane = 0; lane < LANES; ++lane) lanes[lane] = x[j + lane] > lanes[lane] ? x[j + lane] : lanes[lane];
  }
  for (; j < count; ++j) largest = x[j] > largest ? x[j] : largest;
  for (int lane = 0; lane < LANES; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
  return largest;
}

// x[j] = exp(x[j] - largest), and the sum of these.
DELTA_CPU_CLONES static double exp_row(float *x, int64_t count, float largest) {
  enum { LANES = 16 };
  float lanes[LANES] = {0};
  double sum = 0;
  int64_t j = 0;
  for (; j + LANES <= count; j += LANES) {
    for (int lane = 0; lane < LANES; ++lane) {
      x[j + lane] = delta_vector_exp(x[j + lane] - largest);
      lanes[lane] += x[j + lane];
    }
  }
  for (; j < count; ++j) {
    x[j] = delta_vector_exp(x[j] - largest);
    sum += (double)x[j];
  }
  for (int lane = 0; lane < LANES; ++lane) sum += (double)lanes[lane];
  return sum;
}

DELTA_CPU_CLONES static void weigh_row(float *x, int64_t count, float weight) {
  for (int64_t j = 0; j < count; ++j) x[j] *= weight;
}
DELTA_CPU_CLONES static void drop_row(float *restrict x, int64_t count, const float *restrict factors) {
  for (int64_t j = 0; j < count; ++j) x[j] *= factors[j];
}

float delta_attention_normalise(const delta_attention_launch_t *launch, float *row, int64_t keys) {
  const float largest = largest_of(row, keys);
  if (largest == -INFINITY && launch->attrs->hidden_rows_zero) {
    memset(row, 0, (size_t)keys * sizeof *row);
    return INFINITY;
  }
  const double sum = exp_row(row, keys, largest);
  weigh_row(row, keys, (float)(1.0 / sum));
  return (float)((double)largest + log(sum));
}

// What a thread works with: key panels, value panels, scores of a block, dropout factors of a row.
typedef struct forward_parts {
  int64_t keys, values, scores, factors, total; // floats before each part
} forward_parts_t;
static forward_parts_t forward_parts(const delta_attention_dims_t *dims) {
  forward_parts_t parts = {0};
  const int64_t row = delta_attention_score_row(dims);
  parts.values = parts.keys + row * dims->size;
  parts.scores = parts.values + delta_product_padded(dims->value_size) * dims->keys;
  parts.factors = parts.scores + DELTA_ATTENTION_ROWS * row;
  parts.total = parts.factors + row;
  return parts;
}

static void forward_block(const delta_attention_launch_t *launch, const delta_attention_block_t *block, float *work) {
  const delta_attention_dims_t *dims = &launch->dims;
  const forward_parts_t parts = forward_parts(dims);
  const int64_t step = delta_attention_step(dims, dims->value_size);
  float *scores = work + parts.scores;
  float *log_sums = launch->kernel->node->output_count > 1 ? launch->buffers->outputs[1] : NULL;
  delta_attention_scores(launch, block, work + parts.keys, scores);
  for (int64_t i = 0; i < block->queries; ++i) {
    float *row = scores + i * launch->score_row;
    const float log_sum = delta_attention_normalise(launch, row, block->keys);
    if (launch->drops) {
      delta_attention_factors(launch, block, i, work + parts.factors);
      drop_row(row, block->keys, work + parts.factors);
    }
    if (log_sums) log_sums[block->matrix * dims->queries + block->first_query + i] = log_sum;
  }
  const delta_product_t product = {.rows = block->queries,
                                   .columns = dims->value_size,
                                   .depth = block->keys,
                                   .a = scores,
                                   .a_row = launch->score_row,
                                   .a_depth = 1,
                                   .panels = work + parts.values + block->first_key * DELTA_PRODUCT_COLUMNS,
                                   .panel_step = DELTA_PRODUCT_COLUMNS * dims->keys,
                                   .c = (float *)launch->buffers->outputs[0] +
                                        delta_attention_start(dims, block->matrix, dims->queries, dims->value_size) +
                                        block->first_query * step,
                                   .c_row = step};
  delta_product_run(&product);
}

// Items are blocks, those of one matrix side by side.
static void forward_blocks(const void *context, int64_t begin, int64_t end, int32_t thread) {
  const delta_attention_launch_t *launch = context;
  const delta_attention_dims_t *dims = &launch->dims;
  const forward_parts_t parts = forward_parts(dims);
  const int64_t blocks = delta_attention_block_count(dims);
  float *work = (float *)launch->buffers->workspace + thread * parts.total;
  int64_t packed = -1;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t matrix = item / blocks;
    if (matrix != packed) {
      delta_attention_pack_keys(launch, matrix, work + parts.keys);
      delta_product_pack(dims->keys, dims->value_size, launch->value + delta_attention_start(dims, matrix, dims->keys, dims->value_size),
                         delta_attention_step(dims, dims->value_size), 1, work + parts.values);
      packed = matrix;
    }
    const delta_attention_block_t block = delta_attention_block(launch, matrix, item % blocks);
    forward_block(launch, &block, work);
  }
}

delta_status_t delta_cpu_attention_prepare(delta_kernel_t *kernel) {
  const delta_attention_dims_t dims = delta_attention_dims_of(kernel->graph, kernel->node);
  kernel->workspace_bytes = (size_t)(forward_parts(&dims).total * kernel->threads) * sizeof(float);
  return DELTA_OK;
}

delta_status_t delta_cpu_attention_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_attention_launch_t launch = delta_attention_launch(kernel, buffers);
  const delta_attention_dims_t *dims = &launch.dims;
  delta_team_run(kernel->threads, dims->matrices * delta_attention_block_count(dims),
                 DELTA_ATTENTION_ROWS * launch.score_row * (int64_t)sizeof(float), forward_blocks, &launch);
  return DELTA_OK;
}
