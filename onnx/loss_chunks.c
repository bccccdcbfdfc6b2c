// Finding the product before the loss, and emitting its chunks.
#include "onnx/loss_chunks.h"

// scores[rows, classes] = hidden weight + bias.
typedef struct score_product {
  delta_tensor_id_t hidden; // of any rank; rows of `width`
  delta_tensor_id_t weight;
  delta_tensor_id_t bias; // NONE: none
  bool transpose_weight;  // it is [classes, width]
  int64_t rows, width, classes;
} score_product_t;

static const delta_node_t *producer_of(const delta_emit_t *emit, delta_tensor_id_t id) {
  const delta_tensor_t *tensor = delta_emit_tensor(emit, id);
  return tensor->role == DELTA_ROLE_COMPUTED ? delta_graph_node(emit->graph, tensor->producer) : NULL;
}

// Behind views that keep rows whole.
static delta_tensor_id_t skip_views(const delta_emit_t *emit, delta_tensor_id_t id, int64_t width) {
  for (;;) {
    const delta_node_t *node = producer_of(emit, id);
    if (!node || node->op != DELTA_CORE_VIEW) return id;
    const delta_shape_t *shape = delta_emit_shape(emit, node->inputs[0]);
    if (shape->rank < 1 || shape->dims[shape->rank - 1] != width) return id;
    id = node->inputs[0];
  }
}

// Takes a bias of one number a class off the scores: the other operand of a lone addition, or the scores themselves.
static delta_tensor_id_t skip_bias(const delta_emit_t *emit, delta_tensor_id_t scores, int64_t classes, delta_tensor_id_t *out_bias) {
  const delta_node_t *node = producer_of(emit, scores);
  *out_bias = DELTA_TENSOR_NONE;
  if (!node || node->op != DELTA_CORE_POINTWISE || node->input_count != 2 || node->output_count != 1) return scores;
  const delta_expr_t *expr = &((const delta_pointwise_attrs_t *)node->attrs)->expr;
  if (expr->instr_count != 3 || expr->instrs[expr->outputs[0]].op != DELTA_EXPR_ADD) return scores;
  for (int k = 0; k < 2; ++k) {
    const delta_tensor_t *bias = delta_emit_tensor(emit, node->inputs[k]), *product = delta_emit_tensor(emit, node->inputs[1 - k]);
    const bool is_bias =
        bias->shape.rank >= 1 && bias->shape.dims[bias->shape.rank - 1] == classes && delta_shape_count(&bias->shape) == classes;
    if (!is_bias || !delta_shape_equal(&product->shape, delta_emit_shape(emit, scores))) continue;
    if (bias->dtype != product->dtype || product->dtype != delta_emit_dtype(emit, scores)) continue;
    *out_bias = node->inputs[k];
    return node->inputs[1 - k];
  }
  return scores;
}

static bool find_product(const delta_emit_t *emit, delta_tensor_id_t output, score_product_t *out) {
  const delta_shape_t *shape = delta_emit_shape(emit, output);
  *out = (score_product_t){.classes = shape->dims[shape->rank - 1]};
  delta_tensor_id_t scores = skip_bias(emit, skip_views(emit, output, out->classes), out->classes, &out->bias);
  const delta_node_t *node = producer_of(emit, skip_views(emit, scores, out->classes));
  if (!node || node->op != DELTA_CORE_MATMUL || delta_node_input(emit->graph, node, 2)) return false;
  if (delta_node_input(emit->graph, node, 3)) {
    if (!delta_tensor_is_none(out->bias)) return false;
    out->bias = node->inputs[3];
  }
  const delta_matmul_attrs_t *attrs = node->attrs;
  if (attrs->transpose_a || delta_emit_shape(emit, node->inputs[1])->rank != 2) return false;
  out->weight = node->inputs[1];
  out->transpose_weight = attrs->transpose_b;
  out->width = delta_emit_shape(emit, out->weight)->dims[attrs->transpose_b ? 1 : 0];
  out->hidden = skip_views(emit, node->inputs[0], out->width);
  out->rows = out->classes > 0 ? delta_shape_count(shape) / out->classes : 0;
  return out->width > 0 && out->rows > 1;
}

// The number of labels that count, from the labels alone.
static delta_tensor_id_t count_labels(delta_emit_t *emit, const delta_class_loss_attrs_t *attrs, delta_tensor_id_t labels,
                                      delta_dtype_t dtype) {
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_INT64);
  const uint16_t label = delta_expr_input(&b, 0);
  const uint16_t from_0 = delta_expr_binary(&b, DELTA_EXPR_GE, label, delta_expr_integer(&b, 0));
  const uint16_t below = delta_expr_binary(&b, DELTA_EXPR_LT, label, delta_expr_integer(&b, attrs->classes));
  const uint16_t counts = delta_expr_binary(&b, DELTA_EXPR_NE, label, delta_expr_integer(&b, attrs->ignore_index));
  delta_expr_output(&b, delta_expr_binary(&b, DELTA_EXPR_AND, delta_expr_binary(&b, DELTA_EXPR_AND, from_0, below), counts));
  const uint32_t axes = (1u << delta_emit_shape(emit, labels)->rank) - 1u;
  return delta_emit_view(emit, delta_emit_reduce_expr(emit, DELTA_REDUCE_SUM, &b, dtype, &labels, 1, axes), &(delta_shape_t){0});
}

static delta_tensor_id_t add(delta_emit_t *emit, delta_tensor_id_t sum, delta_tensor_id_t term) {
  return delta_tensor_is_none(sum) ? term : delta_emit_binary(emit, DELTA_EXPR_ADD, sum, term);
}

// What the chunks have in common, and what they sum to.
typedef struct chunking {
  delta_emit_t *emit;
  const score_product_t *product;
  delta_class_loss_attrs_t attrs;
  bool accumulates;                 // products are added to sums
  delta_tensor_id_t hidden, labels; // rows one by one
  delta_tensor_id_t seed;           // gradient of the loss of a label that counts
  delta_tensor_id_t loss, dweight, dbias;
} chunking_t;

static delta_tensor_id_t add_product(chunking_t *c, delta_tensor_id_t sum, delta_tensor_id_t a, delta_tensor_id_t b) {
  if (c->accumulates) return delta_emit_matmul_add(c->emit, a, b, true, false, sum);
  return add(c->emit, sum, delta_emit_matmul(c->emit, a, b, true, false));
}

// Rows [begin, end): adds to loss and gradients of weight and bias, and returns the gradient of the rows.
static delta_tensor_id_t emit_chunk(chunking_t *c, int64_t begin, int64_t end) {
  delta_emit_t *emit = c->emit;
  const score_product_t *product = c->product;
  emit->phase = DELTA_PHASE_LOSS;
  emit->name = "loss";
  const delta_tensor_id_t hidden = delta_emit_range(emit, c->hidden, 0, begin, end),
                          labels = delta_emit_range(emit, c->labels, 0, begin, end);
  delta_tensor_id_t scores = delta_emit_matmul(emit, hidden, product->weight, false, product->transpose_weight);
  const delta_shape_t bias_shape = {.rank = 1, .dims = {product->classes}};
  if (!delta_tensor_is_none(product->bias)) {
    scores = delta_emit_binary(emit, DELTA_EXPR_ADD, scores, delta_emit_view(emit, product->bias, &bias_shape));
  }
  delta_tensor_id_t outputs[3];
  delta_emit_node(emit, DELTA_CORE_CROSS_ENTROPY, &c->attrs, sizeof c->attrs, (const delta_tensor_id_t[]){scores, labels}, 2, outputs, 3,
                  0);
  c->loss = add(emit, c->loss, delta_emit_sum_to(emit, outputs[0], &(delta_shape_t){0}));
  emit->phase = DELTA_PHASE_BACKWARD;
  emit->name = "loss/gradient";
  const delta_shape_t rows = {.rank = 1, .dims = {end - begin}};
  const delta_tensor_id_t seeds = delta_emit_expand(emit, c->seed, &rows);
  const delta_tensor_id_t dscores = DELTA_EMIT(emit, CROSS_ENTROPY_GRAD, c->attrs, seeds, scores, outputs[2], labels);
  c->dweight = product->transpose_weight ? add_product(c, c->dweight, dscores, hidden) : add_product(c, c->dweight, hidden, dscores);
  if (!delta_tensor_is_none(product->bias)) c->dbias = add(emit, c->dbias, delta_emit_sum_to(emit, dscores, &bias_shape));
  return delta_emit_matmul(emit, dscores, product->weight, false, !product->transpose_weight);
}

// All chunks; returns the gradient of the hidden rows.
static delta_tensor_id_t emit_chunks(chunking_t *c, int64_t rows_each) {
  enum { MOST = 1024 };
  delta_tensor_id_t parts[MOST];
  uint32_t count = 0;
  const int64_t rows = c->product->rows, least = (rows + MOST - 1) / MOST;
  const int64_t step = rows_each > least ? rows_each : least;
  for (int64_t begin = 0; begin < rows; begin += step) parts[count++] = emit_chunk(c, begin, begin + step < rows ? begin + step : rows);
  return delta_emit_concat(c->emit, parts, count, 0);
}

static void add_head(delta_emit_t *emit, delta_loss_values_t *values, delta_tensor_id_t head, delta_tensor_id_t gradient) {
  if (delta_tensor_is_none(head) || !delta_emit_ok(emit)) return;
  const delta_shape_t shape = *delta_emit_shape(emit, head);
  values->heads[values->head_count] = head;
  values->head_gradients[values->head_count++] = delta_emit_view(emit, gradient, &shape);
}

static delta_status_t split(delta_emit_t *emit, const delta_build_options_t *options, bool of_sum, const score_product_t *product,
                            int64_t chunks, delta_loss_values_t *values) {
  const delta_dtype_t dtype = delta_emit_dtype(emit, values->output);
  const delta_shape_t hidden_rows = {.rank = 2, .dims = {product->rows, product->width}}, label_rows = {.rank = 1, .dims = {product->rows}};
  emit->phase = DELTA_PHASE_LOSS;
  emit->name = "loss";
  chunking_t c = {.emit = emit,
                  .product = product,
                  .attrs = {.axis = 1, .classes = product->classes, .has_ignore = true, .ignore_index = options->ignore_index},
                  .accumulates = delta_lever_is_on(options->import.levers, DELTA_LEVER_ACCUMULATE),
                  .hidden = delta_emit_view(emit, product->hidden, &hidden_rows),
                  .labels = delta_emit_view(emit, values->label, &label_rows),
                  .loss = DELTA_TENSOR_NONE,
                  .dweight = DELTA_TENSOR_NONE,
                  .dbias = DELTA_TENSOR_NONE};
  values->count = count_labels(emit, &c.attrs, c.labels, dtype);
  c.seed = of_sum ? delta_emit_scalar(emit, dtype, 1.0) : delta_emit_unary(emit, DELTA_EXPR_RECIPROCAL, values->count);
  const delta_tensor_id_t dhidden = emit_chunks(&c, (product->rows + chunks - 1) / chunks);
  emit->phase = DELTA_PHASE_LOSS;
  emit->name = "loss";
  values->sum = c.loss;
  values->mean = delta_emit_binary(emit, DELTA_EXPR_DIV, values->sum, values->count);
  add_head(emit, values, product->hidden, dhidden);
  add_head(emit, values, product->weight, c.dweight);
  add_head(emit, values, product->bias, c.dbias);
  return delta_emit_finish(emit);
}

delta_status_t delta_loss_split(delta_emit_t *emit, const delta_build_options_t *options, bool of_sum, size_t chunk_bytes,
                                delta_loss_values_t *values) {
  const uint32_t levers = options->import.levers;
  const bool on = delta_lever_is_on(levers, DELTA_LEVER_LOSS) && delta_lever_is_on(levers, DELTA_LEVER_LOSS_CHUNKS);
  if (!on || options->loss != DELTA_LOSS_CROSS_ENTROPY) return DELTA_OK;
  const size_t scores_bytes = delta_tensor_bytes(delta_emit_tensor(emit, values->output));
  if (scores_bytes <= chunk_bytes || values->class_axis != delta_emit_shape(emit, values->output)->rank - 1) return DELTA_OK;
  score_product_t product;
  if (!find_product(emit, values->output, &product)) return DELTA_OK;
  return split(emit, options, of_sum, &product, (int64_t)((scores_bytes + chunk_bytes - 1) / chunk_bytes), values);
}
