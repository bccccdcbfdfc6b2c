// Attention backward in float32. Probabilities are made again from the sums of the forward pass, block of queries by block.
//
// A thread takes whole matrices, so that the gradients of keys and values sum over the blocks in their order. Where a mask is trained and repeats over
// matrices, threads take groups of matrices that share their part of the mask; where these parts are few, each is summed in several groups and these in order. The
// groups do not depend on the number of threads.
#include <assert.h>
#include <string.h>

#include "runtime/cpu/attention.h"
#include "runtime/cpu/clones.h"
#include "runtime/cpu/vector_math.h"

// How matrices are shared out: `slices` parts of the mask (or matrices, without one that is trained), each read by `repeats` matrices in `groups` groups.
typedef struct sharing {
  int64_t slices, repeats, groups;
  int64_t slice_elements; // of the mask, when it is trained
  bool trains_mask;
} sharing_t;

// Groups that keep a usual number of threads busy.
enum { LEAST_ITEMS = 8 };

static sharing_t share(const delta_kernel_t *kernel, const delta_attention_dims_t *dims) {
  const bool trains_mask = kernel->node->output_count > 3;
  sharing_t sharing = {.slices = dims->matrices, .repeats = 1, .groups = 1, .trains_mask = trains_mask};
  if (!trains_mask) return sharing;
  const delta_attention_mask_t mask = delta_attention_mask(dims, &delta_node_output(kernel->graph, kernel->node, 3)->shape);
  for (int32_t d = 0; d + 2 < dims->scores.rank; ++d) {
    if (mask.strides[d] == 0) sharing.repeats *= dims->scores.dims[d];
  }
  sharing.slices = dims->matrices / sharing.repeats;
  sharing.groups = (LEAST_ITEMS + sharing.slices - 1) / sharing.slices;
  if (sharing.groups > sharing.repeats) sharing.groups = sharing.repeats;
  sharing.slice_elements = (mask.row ? dims->queries : 1) * (mask.column ? dims->keys : 1);
  return sharing;
}

// The matrix that reads a slice as number `repeat`.
static int64_t matrix_of(const delta_attention_launch_t *launch, const sharing_t *sharing, int64_t slice, int64_t repeat) {
  if (!sharing->trains_mask) return slice;
  int64_t matrix = 0, place = 1;
  for (int32_t d = launch->dims.scores.rank - 3; d >= 0; --d) {
    const int64_t count = launch->dims.scores.dims[d];
    int64_t *digits = launch->mask_layout.strides[d] == 0 ? &repeat : &slice;
    matrix += *digits % count * place;
    *digits /= count;
    place *= count;
  }
  return matrix;
}

// What a thread works with, in floats before each part; behind the threads' parts stand the groups' sums of mask gradients.
typedef struct backward_parts {
  int64_t keys_across, keys, values_across; // panels for products with queries, with gradients of scores, with gradients of results
  int64_t probabilities, gradients;         // of a block's scores
  int64_t queries, results;                 // panels of a block's queries and gradients of results
  int64_t factors, total;
} backward_parts_t;

static backward_parts_t backward_parts(const delta_attention_dims_t *dims) {
  enum { ROWS = DELTA_ATTENTION_ROWS };
  backward_parts_t parts = {0};
  const int64_t row = delta_attention_score_row(dims);
  const int64_t size = delta_product_padded(dims->size), value_size = delta_product_padded(dims->value_size);
  parts.keys = parts.keys_across + row * dims->size;
  parts.values_across = parts.keys + size * dims->keys;
  parts.probabilities = parts.values_across + row * dims->value_size;
  parts.gradients = parts.probabilities + ROWS * row;
  parts.queries = parts.gradients + ROWS * row;
  parts.results = parts.queries + ROWS * size;
  parts.factors = parts.results + ROWS * value_size;
  parts.total = parts.factors + row;
  return parts;
}

static void pack_matrix(const delta_attention_launch_t *launch, int64_t matrix, float *work) {
  const delta_attention_dims_t *dims = &launch->dims;
  const backward_parts_t parts = backward_parts(dims);
  delta_attention_pack_keys(launch, matrix, work + parts.keys_across);
  delta_product_pack(dims->keys, dims->size, launch->key + delta_attention_start(dims, matrix, dims->keys, dims->size),
                     delta_attention_step(dims, dims->size), 1, work + parts.keys);
  delta_product_pack(dims->value_size, dims->keys, launch->value + delta_attention_start(dims, matrix, dims->keys, dims->value_size), 1,
                     delta_attention_step(dims, dims->value_size), work + parts.values_across);
}

static float dot(const float *a, const float *b, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += (double)a[k] * (double)b[k];
  return (float)sum;
}

DELTA_CPU_CLONES static void exp_row(float *scores, int64_t count, float log_sum) {
  assert(scores);
  for (int64_t j = 0; j < count; ++j) scores[j] = delta_vector_exp(scores[j] - log_sum);
}

// From probabilities and gradients of dropped probabilities to dropped probabilities and gradients of scores.
DELTA_CPU_CLONES static void gradient_row(float *restrict probabilities, float *restrict gradients, int64_t count, float through_sum,
                                          const float *restrict factors) {
  assert(probabilities && gradients);
  if (factors) {
    for (int64_t j = 0; j < count; ++j) {
      gradients[j] = probabilities[j] * (gradients[j] * factors[j] - through_sum);
      probabilities[j] *= factors[j];
    }
  } else {
    for (int64_t j = 0; j < count; ++j) gradients[j] = probabilities[j] * (gradients[j] - through_sum);
  }
}

DELTA_CPU_CLONES static void add_row(float *restrict sums, const float *restrict x, int64_t count) {
  for (int64_t j = 0; j < count; ++j) sums[j] += x[j];
}
DELTA_CPU_CLONES static void scale_row(float *x, int64_t count, float scale) {
  assert(x);
  for (int64_t j = 0; j < count; ++j) x[j] *= scale;
}

// A row of score gradients into the gradient of the mask, of which `dmask` is the slice.
static void add_to_mask(const delta_attention_launch_t *launch, const delta_attention_block_t *block, int64_t i, const float *gradients,
                        float *dmask) {
  const int64_t column = launch->mask_layout.column;
  float *to = dmask + (block->first_query + i) * launch->mask_layout.row + block->first_key * column;
  if (column == 1) {
    add_row(to, gradients, block->keys);
  } else {
    for (int64_t j = 0; j < block->keys; ++j) to[0] += gradients[j];
  }
}

// scale * gradients of scores, and dropped probabilities, of a block.
static void score_gradients(const delta_attention_launch_t *launch, const delta_attention_block_t *block, float *work, float *dmask) {
  const delta_attention_dims_t *dims = &launch->dims;
  const backward_parts_t parts = backward_parts(dims);
  const void *const *inputs = launch->buffers->inputs;
  const int64_t step = delta_attention_step(dims, dims->value_size);
  const int64_t start = delta_attention_start(dims, block->matrix, dims->queries, dims->value_size) + block->first_query * step;
  const float *dy = (const float *)inputs[DELTA_ATTENTION_GRAD_DY] + start, *y = (const float *)inputs[DELTA_ATTENTION_GRAD_Y] + start;
  const float *log_sums = (const float *)inputs[DELTA_ATTENTION_GRAD_LOG_SUM] + block->matrix * dims->queries + block->first_query;
  float *scores = work + parts.probabilities, *gradients = work + parts.gradients, *factors = launch->drops ? work + parts.factors : NULL;
  delta_attention_scores(launch, block, work + parts.keys_across, scores);
  const delta_product_t product = {.rows = block->queries,
                                   .columns = block->keys,
                                   .depth = dims->value_size,
                                   .a = dy,
                                   .a_row = step,
                                   .a_depth = 1,
                                   .panels = work + parts.values_across + block->first_key * dims->value_size,
                                   .panel_step = DELTA_PRODUCT_COLUMNS * dims->value_size,
                                   .c = gradients,
                                   .c_row = launch->score_row};
  delta_product_run(&product);
  for (int64_t i = 0; i < block->queries; ++i) {
    float *row = gradients + i * launch->score_row, *probabilities = scores + i * launch->score_row;
    if (delta_attention_sum_is_lost((double)log_sums[i])) {
      (void)delta_attention_normalise(launch, probabilities, block->keys);
    } else {
      exp_row(probabilities, block->keys, log_sums[i]);
    }
    if (factors) delta_attention_factors(launch, block, i, factors);
    gradient_row(probabilities, row, block->keys, dot(dy + i * step, y + i * step, dims->value_size), factors);
    if (dmask) add_to_mask(launch, block, i, row, dmask);
    scale_row(row, block->keys, (float)launch->attrs->scale);
  }
}

// c[keys, width] += a' b: `a` one row of visible keys for each query, `rows` the block's rows of a tensor of `width`.
static void add_key_gradient(const delta_attention_launch_t *launch, const delta_attention_block_t *block, const float *a,
                             const float *rows, int64_t width, float *panels, float *c) {
  const int64_t step = delta_attention_step(&launch->dims, width);
  delta_product_pack(block->queries, width, rows, step, 1, panels);
  const delta_product_t product = {.rows = block->keys,
                                   .columns = width,
                                   .depth = block->queries,
                                   .a = a,
                                   .a_row = 1,
                                   .a_depth = launch->score_row,
                                   .panels = panels,
                                   .panel_step = DELTA_PRODUCT_COLUMNS * block->queries,
                                   .c = c + block->first_key * step,
                                   .c_row = step,
                                   .accumulate = true};
  delta_product_run(&product);
}

static void backward_block(const delta_attention_launch_t *launch, const delta_attention_block_t *block, float *work, float *dmask) {
  const delta_attention_dims_t *dims = &launch->dims;
  const backward_parts_t parts = backward_parts(dims);
  void *const *outputs = launch->buffers->outputs;
  const int64_t step = delta_attention_step(dims, dims->size), value_step = delta_attention_step(dims, dims->value_size);
  const int64_t query_start = delta_attention_start(dims, block->matrix, dims->queries, dims->size) + block->first_query * step;
  const int64_t result_start =
      delta_attention_start(dims, block->matrix, dims->queries, dims->value_size) + block->first_query * value_step;
  score_gradients(launch, block, work, dmask);
  add_key_gradient(launch, block, work + parts.probabilities,
                   (const float *)launch->buffers->inputs[DELTA_ATTENTION_GRAD_DY] + result_start, dims->value_size, work + parts.results,
                   (float *)outputs[2] + delta_attention_start(dims, block->matrix, dims->keys, dims->value_size));
  add_key_gradient(launch, block, work + parts.gradients, launch->query + query_start, dims->size, work + parts.queries,
                   (float *)outputs[1] + delta_attention_start(dims, block->matrix, dims->keys, dims->size));
  const delta_product_t product = {.rows = block->queries,
                                   .columns = dims->size,
                                   .depth = block->keys,
                                   .a = work + parts.gradients,
                                   .a_row = launch->score_row,
                                   .a_depth = 1,
                                   .panels = work + parts.keys + block->first_key * DELTA_PRODUCT_COLUMNS,
                                   .panel_step = DELTA_PRODUCT_COLUMNS * dims->keys,
                                   .c = (float *)outputs[0] + query_start,
                                   .c_row = step};
  delta_product_run(&product);
}

static void clear_rows(const delta_attention_dims_t *dims, int64_t matrix, int64_t width, float *data) {
  float *row = data + delta_attention_start(dims, matrix, dims->keys, width);
  for (int64_t j = 0; j < dims->keys; ++j) memset(row + j * delta_attention_step(dims, width), 0, (size_t)width * sizeof *row);
}

static void backward_matrix(const delta_attention_launch_t *launch, int64_t matrix, float *work, float *dmask) {
  const delta_attention_dims_t *dims = &launch->dims;
  pack_matrix(launch, matrix, work);
  clear_rows(dims, matrix, dims->size, launch->buffers->outputs[1]);
  clear_rows(dims, matrix, dims->value_size, launch->buffers->outputs[2]);
  for (int64_t b = 0; b < delta_attention_block_count(dims); ++b) {
    const delta_attention_block_t block = delta_attention_block(launch, matrix, b);
    backward_block(launch, &block, work, dmask);
  }
}

// Where a group sums the mask's gradient: the first in the output itself, others in the workspace behind the threads' parts.
static float *group_sums(const delta_attention_launch_t *launch, const sharing_t *sharing, int64_t slice, int64_t group) {
  if (!sharing->trains_mask) return NULL;
  if (group == 0) {
    const int64_t start = delta_attention_mask_start(&launch->dims, &launch->mask_layout, matrix_of(launch, sharing, slice, 0));
    return (float *)launch->buffers->outputs[3] + start;
  }
  float *sums = (float *)launch->buffers->workspace + backward_parts(&launch->dims).total * launch->kernel->threads;
  return sums + (slice * (sharing->groups - 1) + group - 1) * sharing->slice_elements;
}

// Items are groups, those of one slice side by side.
static void backward_groups(const void *context, int64_t begin, int64_t end, int32_t thread) {
  const delta_attention_launch_t *launch = context;
  const sharing_t sharing = share(launch->kernel, &launch->dims);
  float *work = (float *)launch->buffers->workspace + thread * backward_parts(&launch->dims).total;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t slice = item / sharing.groups, group = item % sharing.groups;
    float *dmask = group_sums(launch, &sharing, slice, group);
    if (dmask) memset(dmask, 0, (size_t)sharing.slice_elements * sizeof *dmask);
    const int64_t first = sharing.repeats * group / sharing.groups, last = sharing.repeats * (group + 1) / sharing.groups;
    for (int64_t repeat = first; repeat < last; ++repeat) backward_matrix(launch, matrix_of(launch, &sharing, slice, repeat), work, dmask);
  }
}

delta_status_t delta_cpu_attention_grad_prepare(delta_kernel_t *kernel) {
  const delta_attention_dims_t dims = delta_attention_dims_of(kernel->graph, kernel->node);
  const sharing_t sharing = share(kernel, &dims);
  const int64_t sums = sharing.slices * (sharing.groups - 1) * sharing.slice_elements;
  kernel->workspace_bytes = (size_t)(backward_parts(&dims).total * kernel->threads + sums) * sizeof(float);
  return DELTA_OK;
}

delta_status_t delta_cpu_attention_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_attention_launch_t launch = delta_attention_launch(kernel, buffers);
  const sharing_t sharing = share(kernel, &launch.dims);
  const int64_t matrix_bytes = launch.dims.queries * launch.score_row * (int64_t)sizeof(float);
  delta_team_run(kernel->threads, sharing.slices * sharing.groups, matrix_bytes, backward_groups, &launch);
  for (int64_t slice = 0; slice < sharing.slices; ++slice) {
    for (int64_t group = 1; group < sharing.groups; ++group) {
      add_row(group_sums(&launch, &sharing, slice, 0), group_sums(&launch, &sharing, slice, group), sharing.slice_elements);
    }
  }
  return DELTA_OK;
}
