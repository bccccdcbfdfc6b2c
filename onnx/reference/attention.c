// ATTENTION and ATTENTION_GRAD by reference: matrix by matrix in float64, row of scores by row.
#include "base/random.h"
#include "onnx/graph/attention_dims.h"
#include "onnx/reference/element.h"

typedef struct attention {
  const delta_reference_args_t *args;
  const delta_attention_attrs_t *attrs;
  delta_attention_dims_t dims;
  uint32_t first; // the queries' input
  delta_dtype_t dtype;
  delta_attention_mask_t mask;
  const void *mask_data; // NULL: none
  bool drops;
  uint64_t key;
  double *query, *keys, *value; // Owned. One matrix each.
  double *row;                  // Owned. Probabilities of one query.
} attention_t;

static void read_stream(attention_t *a) {
  const uint32_t seed = a->first + DELTA_ATTENTION_SEED;
  a->drops = seed + 1 < a->args->node->input_count && a->args->inputs[seed] != NULL;
  if (!a->drops) return;
  uint64_t numbers[2];
  for (uint32_t k = 0; k < 2; ++k) {
    numbers[k] = (uint64_t)delta_element_load_int64(a->args->inputs[seed + k], delta_reference_input(a->args, seed + k)->dtype, 0);
  }
  a->key = delta_random_key(numbers[0], numbers[1], a->attrs->stream);
}

static void attention_deinit(attention_t *a) {
  delta_release(a->args->allocator, a->query);
  delta_release(a->args->allocator, a->keys);
  delta_release(a->args->allocator, a->value);
  delta_release(a->args->allocator, a->row);
}

static delta_status_t attention_init(const delta_reference_args_t *args, uint32_t first, attention_t *a) {
  *a = (attention_t){.args = args, .attrs = args->node->attrs, .first = first};
  a->dims = delta_attention_dims_of(args->graph, args->node);
  a->dtype = delta_reference_input(args, first)->dtype;
  const delta_tensor_t *mask = delta_reference_input(args, first + DELTA_ATTENTION_MASK);
  if (mask) {
    a->mask = delta_attention_mask(&a->dims, &mask->shape);
    a->mask_data = args->inputs[first + DELTA_ATTENTION_MASK];
  }
  read_stream(a);
  const delta_attention_dims_t *dims = &a->dims;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(args->allocator, (size_t)(dims->queries * dims->size), &a->query), failed);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(args->allocator, (size_t)(dims->keys * dims->size), &a->keys), failed);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(args->allocator, (size_t)(dims->keys * dims->value_size), &a->value), failed);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(args->allocator, (size_t)dims->keys, &a->row), failed);
  return DELTA_OK;
failed:
  attention_deinit(a);
  return status;
}

// Copies a matrix of a tensor with `rows` rows of `width` to float64, or back.
static void load_matrix(const attention_t *a, const void *data, int64_t matrix, int64_t rows, int64_t width, double *out) {
  const int64_t start = delta_attention_start(&a->dims, matrix, rows, width), step = delta_attention_step(&a->dims, width);
  for (int64_t i = 0; i < rows; ++i) {
    delta_row_load_double(data, (delta_row_t){a->dtype, start + i * step, 1}, width, out + i * width, 1);
  }
}
static void store_matrix(const attention_t *a, void *data, int64_t matrix, int64_t rows, int64_t width, const double *values) {
  const int64_t start = delta_attention_start(&a->dims, matrix, rows, width), step = delta_attention_step(&a->dims, width);
  for (int64_t i = 0; i < rows; ++i) {
    delta_row_store_double(data, (delta_row_t){a->dtype, start + i * step, 1}, width, values + i * width, 1);
  }
}

static void load_inputs(const attention_t *a, int64_t matrix) {
  const void *const *inputs = a->args->inputs + a->first;
  load_matrix(a, inputs[DELTA_ATTENTION_QUERY], matrix, a->dims.queries, a->dims.size, a->query);
  load_matrix(a, inputs[DELTA_ATTENTION_KEY], matrix, a->dims.keys, a->dims.size, a->keys);
  load_matrix(a, inputs[DELTA_ATTENTION_VALUE], matrix, a->dims.keys, a->dims.value_size, a->value);
}

static double dot(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += a[k] * b[k];
  return sum;
}

// The scores of query i.
static void row_scores(const attention_t *a, int64_t matrix, int64_t i) {
  const int64_t width = a->dims.size;
  const int64_t start = a->mask_data ? delta_attention_mask_start(&a->dims, &a->mask, matrix) + i * a->mask.row : 0;
  for (int64_t j = 0; j < a->dims.keys; ++j) {
    a->row[j] = a->attrs->scale * dot(a->query + i * width, a->keys + j * width, width);
    if (a->mask_data) a->row[j] += delta_element_load_double(a->mask_data, a->dtype, (size_t)(start + j * a->mask.column));
  }
}

// What dropout multiplies a probability with.
static double kept_factor(const attention_t *a, int64_t matrix, int64_t i, int64_t j) {
  if (!a->drops) return 1;
  const uint64_t index = (uint64_t)(a->attrs->first + (matrix * a->dims.queries + i) * a->dims.keys + j);
  const double uniform = (double)delta_random_uniform(delta_random_word(a->key, index));
  return uniform >= a->attrs->ratio ? 1 / (1 - a->attrs->ratio) : 0;
}

// Turns scores into probabilities, and returns the logarithm of the sum of their exponentials: plus infinity for a hidden row that counts as 0.
static double normalise_row(const attention_t *a) {
  double largest = -(double)INFINITY, sum = 0;
  for (int64_t j = 0; j < a->dims.keys; ++j) largest = fmax(largest, a->row[j]);
  const bool hidden = largest == -(double)INFINITY && a->attrs->hidden_rows_zero;
  for (int64_t j = 0; j < a->dims.keys; ++j) sum += a->row[j] = hidden ? 0 : exp(a->row[j] - largest);
  if (hidden) return (double)INFINITY;
  for (int64_t j = 0; j < a->dims.keys; ++j) a->row[j] /= sum;
  return largest + log(sum);
}

static void forward_row(const attention_t *a, int64_t matrix, int64_t i, double *log_sum, double *y) {
  row_scores(a, matrix, i);
  *log_sum = normalise_row(a);
  for (int64_t d = 0; d < a->dims.value_size; ++d) y[d] = 0;
  for (int64_t j = 0; j < a->dims.keys; ++j) {
    const double probability = a->row[j] * kept_factor(a, matrix, i, j);
    for (int64_t d = 0; d < a->dims.value_size; ++d) y[d] += probability * a->value[j * a->dims.value_size + d];
  }
}

delta_status_t delta_reference_attention(const delta_reference_args_t *args) {
  attention_t a;
  double *y = NULL;
  DELTA_RETURN_IF_ERROR(attention_init(args, 0, &a));
  const delta_attention_dims_t *dims = &a.dims;
  void *log_sums = args->node->output_count > 1 ? args->outputs[1] : NULL;
  delta_status_t status = DELTA_ALLOCATE(args->allocator, (size_t)(dims->queries * dims->value_size), &y);
  for (int64_t m = 0; m < dims->matrices && !status; ++m) {
    load_inputs(&a, m);
    for (int64_t i = 0; i < dims->queries; ++i) {
      double log_sum;
      forward_row(&a, m, i, &log_sum, y + i * dims->value_size);
      if (log_sums) delta_element_store_double(log_sums, a.dtype, (size_t)(m * dims->queries + i), log_sum);
    }
    store_matrix(&a, args->outputs[0], m, dims->queries, dims->value_size, y);
  }
  delta_release(args->allocator, y);
  attention_deinit(&a);
  return status;
}

// What the gradient holds of one matrix beside the inputs.
typedef struct attention_gradient {
  double *dy, *y, *dquery, *dkey, *dvalue; // Owned.
} attention_gradient_t;

static void gradient_deinit(const delta_reference_args_t *args, attention_gradient_t *g) {
  delta_release(args->allocator, g->dy);
  delta_release(args->allocator, g->y);
  delta_release(args->allocator, g->dquery);
  delta_release(args->allocator, g->dkey);
  delta_release(args->allocator, g->dvalue);
}

static delta_status_t gradient_init(const delta_reference_args_t *args, const delta_attention_dims_t *dims, attention_gradient_t *g) {
  *g = (attention_gradient_t){0};
  const struct {
    double **data;
    int64_t rows, width;
  } parts[] = {{&g->dy, dims->queries, dims->value_size},
               {&g->y, dims->queries, dims->value_size},
               {&g->dquery, dims->queries, dims->size},
               {&g->dkey, dims->keys, dims->size},
               {&g->dvalue, dims->keys, dims->value_size}};
  for (size_t k = 0; k < sizeof parts / sizeof *parts; ++k) {
    const delta_status_t status = DELTA_ALLOCATE(args->allocator, (size_t)(parts[k].rows * parts[k].width), parts[k].data);
    if (!status) continue;
    gradient_deinit(args, g);
    return status;
  }
  return DELTA_OK;
}

static void row_probabilities(const attention_t *a, int64_t matrix, int64_t i, double log_sum) {
  row_scores(a, matrix, i);
  if (delta_attention_sum_is_lost(log_sum)) {
    (void)normalise_row(a);
    return;
  }
  for (int64_t j = 0; j < a->dims.keys; ++j) a->row[j] = exp(a->row[j] - log_sum);
}

static void gradient_row(const attention_t *a, attention_gradient_t *g, int64_t matrix, int64_t i, double log_sum, double *dmask) {
  const int64_t size = a->dims.size, value_size = a->dims.value_size;
  const double *dy = g->dy + i * value_size, through_sum = dot(dy, g->y + i * value_size, value_size);
  const int64_t start = dmask ? delta_attention_mask_start(&a->dims, &a->mask, matrix) + i * a->mask.row : 0;
  row_probabilities(a, matrix, i, log_sum);
  for (int64_t j = 0; j < a->dims.keys; ++j) {
    const double probability = a->row[j], factor = kept_factor(a, matrix, i, j);
    for (int64_t d = 0; d < value_size; ++d) g->dvalue[j * value_size + d] += probability * factor * dy[d];
    const double dprobability = factor * dot(dy, a->value + j * value_size, value_size);
    const double dscore = probability * (dprobability - through_sum);
    if (dmask) dmask[start + j * a->mask.column] += dscore;
    for (int64_t d = 0; d < size; ++d) {
      g->dquery[i * size + d] += a->attrs->scale * dscore * a->keys[j * size + d];
      g->dkey[j * size + d] += a->attrs->scale * dscore * a->query[i * size + d];
    }
  }
}

static void gradient_matrix(const attention_t *a, attention_gradient_t *g, int64_t m, double *dmask) {
  const delta_attention_dims_t *dims = &a->dims;
  const void *const *inputs = a->args->inputs;
  load_inputs(a, m);
  load_matrix(a, inputs[DELTA_ATTENTION_GRAD_DY], m, dims->queries, dims->value_size, g->dy);
  load_matrix(a, inputs[DELTA_ATTENTION_GRAD_Y], m, dims->queries, dims->value_size, g->y);
  for (int64_t i = 0; i < dims->queries * dims->size; ++i) g->dquery[i] = 0;
  for (int64_t i = 0; i < dims->keys * dims->size; ++i) g->dkey[i] = 0;
  for (int64_t i = 0; i < dims->keys * dims->value_size; ++i) g->dvalue[i] = 0;
  for (int64_t i = 0; i < dims->queries; ++i) {
    const size_t at = (size_t)(m * dims->queries + i);
    gradient_row(a, g, m, i, delta_element_load_double(inputs[DELTA_ATTENTION_GRAD_LOG_SUM], a->dtype, at), dmask);
  }
  store_matrix(a, a->args->outputs[0], m, dims->queries, dims->size, g->dquery);
  store_matrix(a, a->args->outputs[1], m, dims->keys, dims->size, g->dkey);
  store_matrix(a, a->args->outputs[2], m, dims->keys, dims->value_size, g->dvalue);
}

delta_status_t delta_reference_attention_grad(const delta_reference_args_t *args) {
  attention_t a;
  attention_gradient_t g = {0};
  double *dmask = NULL;
  DELTA_RETURN_IF_ERROR(attention_init(args, DELTA_ATTENTION_GRAD_INPUTS, &a));
  void *out_dmask = args->node->output_count > 3 ? args->outputs[3] : NULL;
  const int64_t mask_count = out_dmask ? delta_shape_count(&delta_reference_output(args, 3)->shape) : 0;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, gradient_init(args, &a.dims, &g), cleanup);
  if (out_dmask) DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(args->allocator, (size_t)mask_count, &dmask), cleanup);
  for (int64_t k = 0; k < mask_count; ++k) dmask[k] = 0;
  for (int64_t m = 0; m < a.dims.matrices; ++m) gradient_matrix(&a, &g, m, dmask);
  for (int64_t k = 0; k < mask_count; ++k) delta_element_store_double(out_dmask, a.dtype, (size_t)k, dmask[k]);
cleanup:
  delta_release(args->allocator, dmask);
  gradient_deinit(args, &g);
  attention_deinit(&a);
  return status;
}
