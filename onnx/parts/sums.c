// Two ways: a chain, in which no more than the sum and one part's result exist, and one expression over several results, which takes fewer steps.
#include "onnx/parts/sums.h"

// Results up to this size wait for each other.
enum { SMALL_BYTES = 64 << 10 };

static delta_tensor_id_t *slot_at(const delta_part_sum_t *sum, uint32_t output, uint32_t position) {
  const uint32_t part = delta_part_at(sum->assignment, sum->made->time.stage, position);
  return &sum->parts[(size_t)sum->node->outputs[output].index * sum->assignment->count + part];
}

static const delta_reduce_attrs_t *reduce_attrs(const delta_part_sum_t *sum) {
  return sum->node->op == DELTA_CORE_REDUCE ? sum->node->attrs : NULL;
}

// The operation that joins results of parts.
static delta_expr_op_t joining_op(const delta_part_sum_t *sum, uint32_t output) {
  const delta_reduce_attrs_t *attrs = reduce_attrs(sum);
  switch (attrs ? attrs->kinds[output] : DELTA_REDUCE_SUM) {
    case DELTA_REDUCE_MAX:
      return DELTA_EXPR_MAX;
    case DELTA_REDUCE_MIN:
      return DELTA_EXPR_MIN;
    case DELTA_REDUCE_PROD:
      return DELTA_EXPR_MUL;
    default:
      return DELTA_EXPR_ADD;
  }
}

// What a sum of all is divided by to be what the node gives.
static double divisor(const delta_part_sum_t *sum, uint32_t output) {
  const delta_reduce_attrs_t *attrs = reduce_attrs(sum);
  double count = 1;
  if (!attrs || attrs->kinds[output] != DELTA_REDUCE_MEAN) return 1;
  for (int32_t d = 0; d < attrs->shape.rank; ++d) {
    if (attrs->axes >> d & 1u) count *= (double)attrs->shape.dims[d];
  }
  return count;
}

static void finish(const delta_part_sum_t *sum, uint32_t output, delta_tensor_id_t total) {
  delta_rewrite_bind(sum->rewrite, sum->node->outputs[output], total);
  for (uint32_t p = 0; p < sum->assignment->count; ++p) *slot_at(sum, output, p) = DELTA_TENSOR_NONE;
}

static bool is_summed(const delta_part_sum_t *sum, uint32_t output) {
  return !delta_tensor_is_none(sum->node->outputs[output]) && sum->made->outputs[output] == DELTA_PART_SUM;
}

// One output's results of all parts, as an output of the expression; `first` is the first of its inputs.
static void join_output(const delta_part_sum_t *sum, uint32_t output, uint16_t first, delta_expr_builder_t *builder) {
  uint16_t total = delta_expr_input(builder, first);
  for (uint16_t p = 1; p < sum->assignment->count; ++p)
    total = delta_expr_binary(builder, joining_op(sum, output), total, delta_expr_input(builder, (uint16_t)(first + p)));
  if (divisor(sum, output) != 1) total = delta_expr_binary(builder, DELTA_EXPR_DIV, total, delta_expr_real(builder, divisor(sum, output)));
  delta_expr_output(builder, total);
}

// Joins the small results of the parts: of outputs of one type, as many by one expression as it may read.
static void join_small(const delta_part_sum_t *sum, const uint32_t *outputs, uint32_t output_count) {
  delta_emit_t *emit = &sum->rewrite->emit;
  const uint32_t count = sum->assignment->count, most = DELTA_EXPR_MAX_INPUTS / count;
  for (uint32_t done = 0, taken; done < output_count; done += taken) {
    delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS], totals[DELTA_EXPR_MAX_OUTPUTS] = {{.index = 0}};
    delta_dtype_t dtypes[DELTA_EXPR_MAX_OUTPUTS];
    delta_expr_builder_t builder;
    taken = output_count - done < most ? output_count - done : most;
    const delta_dtype_t dtype = delta_node_output(sum->assignment->graph, sum->node, outputs[done])->dtype;
    delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
    for (uint32_t i = 0; i < taken; ++i) {
      for (uint32_t p = 0; p < count; ++p) inputs[i * count + p] = *slot_at(sum, outputs[done + i], p);
      dtypes[i] = dtype;
      join_output(sum, outputs[done + i], (uint16_t)(i * count), &builder);
    }
    delta_emit_exprs(emit, &builder, dtypes, inputs, taken * count, totals);
    for (uint32_t i = 0; i < taken; ++i) finish(sum, outputs[done + i], totals[i]);
  }
}

static bool adds_itself(const delta_part_sum_t *sum) { return sum->node->op == DELTA_CORE_MATMUL && sum->assignment->options.accumulates; }

delta_tensor_id_t delta_part_sum_so_far(const delta_part_sum_t *sum) { return adds_itself(sum) ? *slot_at(sum, 0, 0) : DELTA_TENSOR_NONE; }

static void add_large(const delta_part_sum_t *sum, uint32_t output, uint32_t position) {
  delta_emit_t *emit = &sum->rewrite->emit;
  delta_tensor_id_t *total = slot_at(sum, output, 0);
  const delta_tensor_id_t latest = *slot_at(sum, output, position);
  if (position > 0) *total = adds_itself(sum) ? latest : delta_emit_binary(emit, joining_op(sum, output), *total, latest);
  if (position + 1 < sum->assignment->count) return;
  if (divisor(sum, output) != 1) *total = delta_emit_binary_real(emit, DELTA_EXPR_DIV, *total, divisor(sum, output));
  finish(sum, output, *total);
}

// Mean and variance of so many elements.
typedef struct moments {
  delta_tensor_id_t mean, variance;
  double count;
} moments_t;

// Means and variances of sets as those of all of them: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
// 1979. What is added to the variances are squared distances of means, so nothing cancels.
static moments_t join_moments(delta_emit_t *emit, const moments_t *sets, uint32_t count) {
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS], outputs[2];
  const delta_dtype_t dtype = delta_emit_dtype(emit, sets[0].mean);
  const delta_dtype_t dtypes[2] = {dtype, dtype};
  moments_t all = {.count = 0};
  if (count == 1) return sets[0];
  for (uint32_t i = 0; i < count; ++i) {
    inputs[2 * i] = sets[i].mean;
    inputs[2 * i + 1] = sets[i].variance;
    all.count += sets[i].count;
  }
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, delta_expr_compute_type(&dtype, 1));
  uint16_t mean = 0, variance = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint16_t share = delta_expr_real(&b, sets[i].count / all.count);
    const uint16_t term = delta_expr_binary(&b, DELTA_EXPR_MUL, delta_expr_input(&b, (uint16_t)(2 * i)), share);
    mean = i == 0 ? term : delta_expr_binary(&b, DELTA_EXPR_ADD, mean, term);
  }
  for (uint32_t i = 0; i < count; ++i) {
    const uint16_t distance = delta_expr_binary(&b, DELTA_EXPR_SUB, delta_expr_input(&b, (uint16_t)(2 * i)), mean);
    const uint16_t square = delta_expr_binary(&b, DELTA_EXPR_MUL, distance, distance);
    const uint16_t within = delta_expr_binary(&b, DELTA_EXPR_ADD, delta_expr_input(&b, (uint16_t)(2 * i + 1)), square);
    const uint16_t term = delta_expr_binary(&b, DELTA_EXPR_MUL, within, delta_expr_real(&b, sets[i].count / all.count));
    variance = i == 0 ? term : delta_expr_binary(&b, DELTA_EXPR_ADD, variance, term);
  }
  delta_expr_output(&b, mean);
  delta_expr_output(&b, variance);
  delta_emit_exprs(emit, &b, dtypes, inputs, 2 * count, outputs);
  all.mean = outputs[0];
  all.variance = outputs[1];
  return all;
}

// All parts' moments at once, in groups as large as an expression allows.
static void finish_moments(const delta_part_sum_t *sum) {
  enum { GROUP = DELTA_EXPR_MAX_INPUTS / 2 };
  moments_t sets[DELTA_PARTS_MAX] = {{.count = 0}};
  uint32_t count = sum->assignment->count;
  const delta_shape_t *shape = &delta_node_input(sum->assignment->graph, sum->node, 0)->shape;
  const int64_t size = shape->dims[sum->made->inputs[0]];
  for (uint32_t p = 0; p < count; ++p) {
    const uint32_t part = delta_part_at(sum->assignment, sum->made->time.stage, p);
    sets[p].mean = *slot_at(sum, 0, p);
    sets[p].variance = *slot_at(sum, 1, p);
    sets[p].count = (double)(delta_part_begin(sum->assignment, part + 1, size) - delta_part_begin(sum->assignment, part, size));
  }
  while (count > 1) {
    uint32_t groups = 0;
    for (uint32_t first = 0; first < count; first += GROUP)
      sets[groups++] = join_moments(&sum->rewrite->emit, &sets[first], count - first < GROUP ? count - first : GROUP);
    count = groups;
  }
  finish(sum, 0, sets[0].mean);
  finish(sum, 1, sets[0].variance);
}

static bool is_small(const delta_part_sum_t *sum, uint32_t output) {
  return !adds_itself(sum) && delta_tensor_bytes(delta_node_output(sum->assignment->graph, sum->node, output)) <= SMALL_BYTES;
}

// The outputs of a node with several have one shape; those of one type are joined together.
static void add_small(const delta_part_sum_t *sum) {
  const delta_node_t *node = sum->node;
  uint32_t list[DELTA_EXPR_MAX_OUTPUTS];
  uint64_t taken = 0;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (!is_summed(sum, k) || !is_small(sum, k) || taken >> k & 1) continue;
    uint32_t count = 0;
    for (uint32_t other = k; other < node->output_count && count < DELTA_EXPR_MAX_OUTPUTS; ++other) {
      if (!is_summed(sum, other) ||
          delta_node_output(sum->assignment->graph, node, other)->dtype != delta_node_output(sum->assignment->graph, node, k)->dtype)
        continue;
      list[count++] = other;
      taken |= UINT64_C(1) << other;
    }
    join_small(sum, list, count);
  }
}

void delta_part_sum_add(const delta_part_sum_t *sum, uint32_t position) {
  const delta_node_t *node = sum->node;
  const bool is_last = position + 1 == sum->assignment->count;
  if (is_last) sum->rewrite->emit.name = node->name; // what comes now is of all parts
  if (node->op == DELTA_CORE_MOMENTS) {
    if (is_last && sum->made->outputs[0] == DELTA_PART_SUM) finish_moments(sum);
    return;
  }
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (is_summed(sum, k) && !is_small(sum, k)) add_large(sum, k, position);
  }
  if (is_last) add_small(sum);
}
