// Gradients of POINTWISE and REDUCE: the derivative of their expression, as one node per set of inputs that are reduced over the same axes.
// Where an input was broadcast, its gradient is a REDUCE with the derivative as prologue: the full-size product is never stored.
#include <string.h>

#include "onnx/gradient/expr_gradient.h"
#include "onnx/gradient/rule.h"

// What the derivative may read, after the node's own inputs.
enum {
  SOURCE_GRADIENT = DELTA_EXPR_MAX_INPUTS,                  // + k: gradient of output k
  SOURCE_OUTPUT = SOURCE_GRADIENT + DELTA_EXPR_MAX_OUTPUTS, // + k: output k
  SOURCE_EXTRA = SOURCE_OUTPUT + DELTA_EXPR_MAX_OUTPUTS,    // + 2k, 2k + 1: what the gradient of reduced output k needs besides
  SOURCE_COUNT = SOURCE_EXTRA + 2 * DELTA_EXPR_MAX_OUTPUTS,
};

typedef struct derivation {
  const delta_gradient_args_t *args;
  const delta_expr_t *expr;
  delta_shape_t shape;                // that all inputs broadcast to
  const delta_reduce_attrs_t *reduce; // NULL: the node is POINTWISE
  bool reads_outputs;                 // of a POINTWISE node, where a value is one of them; else all values come from the inputs
  delta_tensor_id_t sources[SOURCE_COUNT];
} derivation_t;

static void derivation_init(derivation_t *self, const delta_gradient_args_t *args, const delta_expr_t *expr, const delta_shape_t *shape,
                            const delta_reduce_attrs_t *reduce) {
  *self = (derivation_t){.args = args, .expr = expr, .shape = *shape, .reduce = reduce};
  for (int k = 0; k < SOURCE_COUNT; ++k) self->sources[k] = DELTA_TENSOR_NONE;
  for (uint32_t k = 0; k < args->node->input_count; ++k) self->sources[k] = args->node->inputs[k];
  for (uint32_t k = 0; k < args->node->output_count; ++k) {
    self->sources[SOURCE_GRADIENT + k] = args->output_gradients[k];
    self->sources[SOURCE_OUTPUT + k] = args->node->outputs[k];
  }
}

// Loads a source; scalar constants become immediates.
static uint16_t load(const derivation_t *self, delta_expr_gradient_t *gradient, uint16_t source) {
  double constant;
  if (delta_emit_constant_real(self->args->emit, self->sources[source], &constant)) return delta_expr_real(&gradient->builder, constant);
  return delta_expr_gradient_source(gradient, source);
}

static int64_t reduced_count(const delta_shape_t *shape, uint32_t axes) {
  int64_t count = 1;
  for (int32_t d = 0; d < shape->rank; ++d) {
    if ((axes >> d) & 1u) count *= shape->dims[d];
  }
  return count;
}

// Gradient of a maximum or minimum: shared evenly by all that are equal to it (torch.amax). Extra 0 is their number.
static uint16_t seed_extreme(delta_expr_gradient_t *g, uint16_t value, uint16_t y, uint16_t dy, uint16_t ties) {
  const uint16_t share = delta_expr_binary(&g->builder, DELTA_EXPR_DIV, dy, ties);
  const uint16_t hit = delta_expr_binary(&g->builder, DELTA_EXPR_EQ, value, y);
  return delta_expr_select(&g->builder, hit, share, delta_expr_real(&g->builder, 0.0));
}

// Gradient of a product, also where factors are zero: extra 0 is the product of the others, extra 1 the number of zeros.
static uint16_t seed_product(delta_expr_gradient_t *g, uint16_t value, uint16_t dy, uint16_t others, uint16_t zeros) {
  delta_expr_builder_t *b = &g->builder;
  const uint16_t zero = delta_expr_real(b, 0.0);
  const uint16_t whole = delta_expr_binary(b, DELTA_EXPR_MUL, dy, others);
  const uint16_t only_zero = delta_expr_binary(b, DELTA_EXPR_EQ, zeros, delta_expr_real(b, 1.0));
  const uint16_t at_zero = delta_expr_select(b, only_zero, whole, zero);
  const uint16_t quotient = delta_expr_binary(b, DELTA_EXPR_DIV, whole, value);
  const uint16_t no_zero = delta_expr_binary(b, DELTA_EXPR_EQ, zeros, zero);
  const uint16_t elsewhere = delta_expr_select(b, no_zero, quotient, zero);
  const uint16_t is_zero = delta_expr_binary(b, DELTA_EXPR_EQ, value, zero);
  return delta_expr_select(b, is_zero, at_zero, elsewhere);
}

static uint16_t reduced_adjoint(const derivation_t *self, delta_expr_gradient_t *g, uint16_t k) {
  const uint16_t dy = load(self, g, (uint16_t)(SOURCE_GRADIENT + k));
  const delta_reduce_kind_t kind = self->reduce->kinds[k];
  if (kind == DELTA_REDUCE_SUM) return dy;
  if (kind == DELTA_REDUCE_MEAN) {
    const double count = (double)reduced_count(&self->shape, self->reduce->axes);
    return delta_expr_binary(&g->builder, DELTA_EXPR_DIV, dy, delta_expr_real(&g->builder, count));
  }
  const uint16_t value = delta_expr_gradient_value(g, self->expr->outputs[k]);
  const uint16_t extra = delta_expr_gradient_source(g, (uint16_t)(SOURCE_EXTRA + 2 * k));
  if (kind == DELTA_REDUCE_PROD) {
    return seed_product(g, value, dy, extra, delta_expr_gradient_source(g, (uint16_t)(SOURCE_EXTRA + 2 * k + 1)));
  }
  return seed_extreme(g, value, delta_expr_gradient_source(g, (uint16_t)(SOURCE_OUTPUT + k)), dy, extra);
}

static void seed(const derivation_t *self, delta_expr_gradient_t *g) {
  delta_expr_gradient_init(g, self->expr);
  for (uint16_t k = 0; k < self->expr->output_count; ++k) {
    const uint16_t instr = self->expr->outputs[k];
    const delta_tensor_id_t output = self->sources[SOURCE_OUTPUT + k];
    const bool exact = !delta_tensor_is_none(output) && delta_emit_dtype(self->args->emit, output) == self->expr->compute;
    if (self->reads_outputs && exact) delta_expr_gradient_store(g, instr, (uint16_t)(SOURCE_OUTPUT + k));
  }
  for (uint16_t k = 0; k < self->expr->output_count; ++k) {
    if (delta_tensor_is_none(self->sources[SOURCE_GRADIENT + k])) continue;
    const uint16_t adjoint = self->reduce ? reduced_adjoint(self, g, k) : load(self, g, (uint16_t)(SOURCE_GRADIENT + k));
    delta_expr_gradient_add(g, self->expr->outputs[k], adjoint);
  }
}

// Emits the outputs of a finished builder over the derivation's shape: a REDUCE when there are axes, else POINTWISE. `kinds` and `dtypes`
// have one entry an output; no `kinds` are sums.
static void emit_builder(const derivation_t *self, delta_expr_gradient_t *g, const delta_reduce_kind_t *kinds, uint32_t axes,
                         const delta_dtype_t *dtypes, delta_tensor_id_t *outputs) {
  delta_emit_t *emit = self->args->emit;
  uint16_t kept[DELTA_EXPR_MAX_INPUTS];
  delta_expr_compact(&g->builder, kept);
  delta_expr_t expr = g->builder.expr;
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS];
  for (uint16_t k = 0; k < expr.input_count; ++k) inputs[k] = self->sources[g->sources[kept[k]]];
  if (axes != 0 && expr.input_count == 0) inputs[expr.input_count++] = self->sources[0]; // a sum of a constant; REDUCE takes an input
  void *instrs = NULL;
  const delta_status_t status = delta_region_copy(&emit->graph->region, expr.instrs, expr.instr_count, sizeof *expr.instrs, &instrs);
  if (status) {
    delta_emit_fail(emit, status);
    return;
  }
  expr.instrs = instrs;
  if (axes == 0) {
    delta_pointwise_attrs_t attrs = {.shape = self->shape, .expr = expr};
    memcpy(attrs.dtypes, dtypes, expr.output_count * sizeof *dtypes);
    delta_emit_node(emit, DELTA_CORE_POINTWISE, &attrs, sizeof attrs, inputs, expr.input_count, outputs, expr.output_count, 0);
  } else {
    delta_reduce_attrs_t attrs = {.shape = self->shape, .axes = axes, .expr = expr};
    memcpy(attrs.dtypes, dtypes, expr.output_count * sizeof *dtypes);
    for (uint16_t k = 0; k < expr.output_count; ++k) attrs.kinds[k] = DELTA_REDUCE_SUM;
    if (kinds) memcpy(attrs.kinds, kinds, expr.output_count * sizeof *kinds);
    delta_emit_node(emit, DELTA_CORE_REDUCE, &attrs, sizeof attrs, inputs, expr.input_count, outputs, expr.output_count, 0);
  }
}

// The tensor that an instruction merely loads, when it can stand for the gradient of input k as it is.
static delta_tensor_id_t passed_through(const derivation_t *self, const delta_expr_gradient_t *g, uint16_t instr, uint32_t k) {
  const delta_expr_instr_t *source = &g->builder.expr.instrs[instr];
  if (source->op != DELTA_EXPR_INPUT) return DELTA_TENSOR_NONE;
  const delta_tensor_id_t id = self->sources[g->sources[source->operands[0]]];
  const bool same = delta_shape_equal(delta_emit_shape(self->args->emit, id), &self->shape) &&
                    delta_emit_dtype(self->args->emit, id) == delta_rule_input_dtype(self->args, k);
  return same ? id : DELTA_TENSOR_NONE;
}

// The output of the new expression that gives `instr` as `dtype`, made when there is none yet.
static uint32_t output_position(delta_expr_builder_t *builder, delta_dtype_t *dtypes, uint16_t instr, delta_dtype_t dtype) {
  uint32_t p = 0;
  while (p < builder->expr.output_count && !(builder->expr.outputs[p] == instr && dtypes[p] == dtype)) ++p;
  if (p < builder->expr.output_count) return p;
  delta_expr_output(builder, instr);
  if (!builder->overflow) dtypes[p] = dtype;
  return p;
}

// Gradients of the inputs in `wanted`, all reduced over `axes`. False, and nothing emitted, when the expression would be too long.
static bool derive(const derivation_t *self, uint32_t wanted, uint32_t axes) {
  const delta_gradient_args_t *args = self->args;
  delta_expr_gradient_t g;
  uint16_t gradients[DELTA_EXPR_MAX_INPUTS];
  seed(self, &g);
  delta_expr_gradient_run(&g, wanted, gradients);
  if (g.builder.overflow) return false;
  uint32_t position[DELTA_EXPR_MAX_INPUTS] = {0}, computed = 0;
  delta_dtype_t dtypes[DELTA_EXPR_MAX_OUTPUTS] = {0};
  delta_tensor_id_t outputs[DELTA_EXPR_MAX_OUTPUTS];
  for (uint32_t k = 0; k < args->node->input_count; ++k) {
    if (!((wanted >> k) & 1u) || gradients[k] == DELTA_EXPR_NONE) continue;
    const delta_tensor_id_t same = axes == 0 ? passed_through(self, &g, gradients[k], k) : DELTA_TENSOR_NONE;
    if (!delta_tensor_is_none(same)) {
      args->input_gradients[k] = delta_emit_view(args->emit, same, delta_rule_input_shape(args, k));
    } else {
      computed |= 1u << k;
      position[k] = output_position(&g.builder, dtypes, gradients[k], delta_rule_input_dtype(args, k));
    }
  }
  if (g.builder.overflow) return false;
  if (computed == 0) return true;
  emit_builder(self, &g, NULL, axes, dtypes, outputs);
  for (uint32_t k = 0; k < args->node->input_count; ++k) {
    if (!((computed >> k) & 1u)) continue;
    args->input_gradients[k] = delta_emit_view(args->emit, outputs[position[k]], delta_rule_input_shape(args, k));
  }
  return true;
}

// One instruction of the forward expression as a node of its own.
static delta_tensor_id_t unfold_instr(const derivation_t *self, uint16_t i, const delta_tensor_id_t *values) {
  const delta_expr_instr_t *instr = &self->expr->instrs[i];
  delta_emit_t *emit = self->args->emit;
  if (instr->op == DELTA_EXPR_INPUT) return delta_emit_cast(emit, self->sources[instr->operands[0]], self->expr->compute);
  if (instr->op == DELTA_EXPR_CONST) return delta_emit_scalar(emit, self->expr->compute, instr->immediate.real);
  const delta_expr_op_t op = (delta_expr_op_t)instr->op;
  const int arity = delta_expr_op_info(op)->arity;
  delta_tensor_id_t inputs[3];
  uint16_t loads[3] = {0};
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, self->expr->compute);
  for (int k = 0; k < arity; ++k) {
    inputs[k] = values[instr->operands[k]];
    loads[k] = delta_expr_input(&builder, (uint16_t)k);
  }
  delta_expr_output(&builder, delta_expr_apply(&builder, op, loads));
  return delta_emit_expr(emit, &builder, self->expr->compute, inputs, (uint32_t)arity);
}

// The way out for expressions whose derivative is too long: the forward expression again, an instruction a node, and the gradient of that.
static delta_status_t derive_unfolded(const derivation_t *self, uint32_t input) {
  const delta_gradient_args_t *args = self->args;
  const delta_graph_mark_t before = delta_graph_mark(args->emit->graph);
  delta_tensor_id_t values[DELTA_EXPR_MAX_INSTRS], ys[DELTA_EXPR_MAX_OUTPUTS], seeds[DELTA_EXPR_MAX_OUTPUTS];
  for (uint16_t i = 0; i < self->expr->instr_count; ++i) values[i] = unfold_instr(self, i, values);
  uint32_t count = 0;
  for (uint16_t k = 0; k < self->expr->output_count; ++k) {
    if (delta_tensor_is_none(args->output_gradients[k])) continue;
    delta_tensor_id_t y = delta_emit_expand(args->emit, values[self->expr->outputs[k]], &self->shape);
    if (self->reduce) y = delta_emit_reduce(args->emit, self->reduce->kinds[k], y, self->reduce->axes);
    ys[count] = delta_emit_cast(args->emit, y, delta_emit_dtype(args->emit, args->output_gradients[k]));
    seeds[count++] = args->output_gradients[k];
  }
  const delta_tensor_id_t x = args->node->inputs[input];
  return delta_autodiff_since(args->emit, before, ys, seeds, count, &x, 1, args->levers, &args->input_gradients[input]);
}

static uint32_t broadcast_axes(const delta_shape_t *from, const delta_shape_t *to) {
  uint32_t axes = 0;
  const int32_t missing = to->rank - from->rank;
  for (int32_t d = 0; d < to->rank; ++d) {
    const int64_t size = d < missing ? 1 : from->dims[d - missing];
    if (size != to->dims[d]) axes |= 1u << d;
  }
  return axes;
}

static delta_status_t derive_each(const derivation_t *self, uint32_t wanted, uint32_t axes) {
  for (uint32_t k = 0; k < self->args->node->input_count; ++k) {
    if (!((wanted >> k) & 1u) || derive(self, 1u << k, axes)) continue;
    DELTA_RETURN_IF_ERROR(derive_unfolded(self, k));
  }
  return DELTA_OK;
}

// For each wanted input that was broadcast: the wanted input of full size with the same derivative (an activation after a bias), or NODE_INPUT_NONE. Its
// gradient is a plain sum of the other's then: the derivative is not computed twice.
enum { NODE_INPUT_NONE = UINT32_MAX };
static void find_sums(const derivation_t *self, uint32_t wanted, const uint32_t *axes, uint32_t *out_sum_of) {
  delta_expr_gradient_t g;
  uint16_t gradients[DELTA_EXPR_MAX_INPUTS];
  const uint32_t count = self->args->node->input_count;
  for (uint32_t k = 0; k < count; ++k) out_sum_of[k] = NODE_INPUT_NONE;
  seed(self, &g);
  delta_expr_gradient_run(&g, wanted, gradients);
  for (uint32_t k = 0; k < count && !g.builder.overflow; ++k) {
    for (uint32_t j = 0; j < count; ++j) {
      const bool candidates = ((wanted >> k) & 1u) && ((wanted >> j) & 1u) && axes[k] != 0 && axes[j] == 0;
      if (!candidates || gradients[k] == DELTA_EXPR_NONE || gradients[k] != gradients[j]) continue;
      if (delta_rule_input_dtype(self->args, k) == delta_rule_input_dtype(self->args, j)) out_sum_of[k] = j;
    }
  }
}

// The inputs of `pending` that are reduced over the same axes as input k.
static uint32_t with_axes_of(const uint32_t *axes, uint32_t pending, uint32_t count, uint32_t k) {
  uint32_t same = 0;
  for (uint32_t j = k; j < count; ++j) {
    if (((pending >> j) & 1u) && axes[j] == axes[k]) same |= 1u << j;
  }
  return same;
}

// One node for all inputs with the same axes; reductions first, which are the gradients of small tensors, mostly weights.
static delta_status_t derive_all(const derivation_t *self) {
  const delta_gradient_args_t *args = self->args;
  const uint32_t count = args->node->input_count;
  uint32_t axes[DELTA_EXPR_MAX_INPUTS] = {0}, sum_of[DELTA_EXPR_MAX_INPUTS];
  uint32_t pending = 0;
  for (uint32_t k = 0; k < count; ++k) {
    if (!args->wanted[k]) continue;
    axes[k] = broadcast_axes(delta_rule_input_shape(args, k), &self->shape);
    pending |= 1u << k;
  }
  find_sums(self, pending, axes, sum_of);
  for (uint32_t k = 0; k < count; ++k) {
    if (sum_of[k] != NODE_INPUT_NONE) pending &= ~(1u << k);
  }
  for (int reduced = 1; reduced >= 0; --reduced) {
    for (uint32_t k = 0; k < count; ++k) {
      if (!((pending >> k) & 1u) || (axes[k] != 0) != reduced) continue;
      const uint32_t same = with_axes_of(axes, pending, count, k);
      pending &= ~same;
      if (!derive(self, same, axes[k])) DELTA_RETURN_IF_ERROR(derive_each(self, same, axes[k]));
    }
  }
  for (uint32_t k = 0; k < count; ++k) {
    if (sum_of[k] == NODE_INPUT_NONE) continue;
    const delta_tensor_id_t full = delta_emit_view(args->emit, args->input_gradients[sum_of[k]], &self->shape);
    args->input_gradients[k] = delta_emit_sum_to(args->emit, full, delta_rule_input_shape(args, k));
  }
  return DELTA_OK;
}

// Bytes of the node's inputs and outputs that the gradients of `wanted` read; -1 when the expression would be too long.
static int64_t bytes_read(const derivation_t *self, uint32_t wanted) {
  delta_expr_gradient_t g;
  uint16_t gradients[DELTA_EXPR_MAX_INPUTS];
  seed(self, &g);
  delta_expr_gradient_run(&g, wanted, gradients);
  if (g.builder.overflow) return -1;
  int64_t bytes = 0;
  for (uint16_t k = 0; k < g.builder.expr.input_count; ++k) {
    if (g.sources[k] >= SOURCE_GRADIENT && g.sources[k] < SOURCE_OUTPUT) continue;
    bytes += (int64_t)delta_tensor_bytes(delta_emit_tensor(self->args->emit, self->sources[g.sources[k]]));
  }
  return bytes;
}

// Note [What a gradient reads]: outputs, unless the inputs that are read anyway give the same values.
static void choose_sources(derivation_t *self) {
  uint32_t wanted = 0;
  for (uint32_t k = 0; k < self->args->node->input_count; ++k) wanted |= (uint32_t)self->args->wanted[k] << k;
  self->reads_outputs = false;
  const int64_t from_inputs = bytes_read(self, wanted);
  self->reads_outputs = true;
  const int64_t from_outputs = bytes_read(self, wanted);
  self->reads_outputs = from_inputs < 0 || (from_outputs >= 0 && from_outputs <= from_inputs);
}

delta_status_t delta_gradient_pointwise(const delta_gradient_args_t *args) {
  const delta_pointwise_attrs_t *attrs = args->node->attrs;
  if (!delta_dtype_is_float(attrs->expr.compute)) return DELTA_OK;
  derivation_t self;
  derivation_init(&self, args, &attrs->expr, &attrs->shape, NULL);
  choose_sources(&self);
  return derive_all(&self);
}

// What the gradient of a maximum, minimum or product needs besides: reductions of the same prologue.
static bool prepare_extra(derivation_t *self, uint16_t k) {
  const delta_reduce_kind_t kind = self->reduce->kinds[k];
  if (kind == DELTA_REDUCE_SUM || kind == DELTA_REDUCE_MEAN) return true;
  delta_expr_gradient_t g;
  delta_expr_gradient_init(&g, self->expr);
  delta_expr_builder_t *b = &g.builder;
  const uint16_t value = delta_expr_gradient_value(&g, self->expr->outputs[k]);
  if (kind == DELTA_REDUCE_PROD) {
    const uint16_t is_zero = delta_expr_binary(b, DELTA_EXPR_EQ, value, delta_expr_real(b, 0.0));
    delta_expr_output(b, delta_expr_select(b, is_zero, delta_expr_real(b, 1.0), value));
    delta_expr_output(b, is_zero);
  } else {
    delta_expr_output(b, delta_expr_binary(b, DELTA_EXPR_EQ, value, delta_expr_gradient_source(&g, (uint16_t)(SOURCE_OUTPUT + k))));
  }
  if (b->overflow) return false;
  const delta_reduce_kind_t kinds[2] = {kind == DELTA_REDUCE_PROD ? DELTA_REDUCE_PROD : DELTA_REDUCE_SUM, DELTA_REDUCE_SUM};
  const delta_dtype_t dtypes[2] = {self->expr->compute, self->expr->compute};
  emit_builder(self, &g, kinds, self->reduce->axes, dtypes, &self->sources[SOURCE_EXTRA + 2 * k]);
  return true;
}

delta_status_t delta_gradient_reduce(const delta_gradient_args_t *args) {
  const delta_reduce_attrs_t *attrs = args->node->attrs;
  if (!delta_dtype_is_float(attrs->expr.compute)) return DELTA_OK;
  derivation_t self;
  derivation_init(&self, args, &attrs->expr, &attrs->shape, attrs);
  bool fits = true;
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) {
    if (!delta_tensor_is_none(args->output_gradients[k])) fits = fits && prepare_extra(&self, k);
  }
  if (fits) return derive_all(&self);
  for (uint32_t k = 0; k < args->node->input_count; ++k) {
    if (args->wanted[k]) DELTA_RETURN_IF_ERROR(derive_unfolded(&self, k));
  }
  return DELTA_OK;
}

// mean: dmean / n. variance: dvariance * 2 (x - mean) / n; it does not depend on x through the mean, since deviations sum to zero.
delta_status_t delta_gradient_moments(const delta_gradient_args_t *args) {
  const delta_moments_attrs_t *attrs = args->node->attrs;
  if (!args->wanted[0]) return DELTA_OK;
  delta_emit_t *emit = args->emit;
  const delta_shape_t shape = *delta_rule_input_shape(args, 0);
  const delta_dtype_t dtype = delta_rule_input_dtype(args, 0);
  const double count = (double)reduced_count(&shape, attrs->axes);
  const delta_tensor_id_t dmean = args->output_gradients[0], dvariance = args->output_gradients[1];
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  delta_tensor_id_t inputs[4];
  uint32_t input_count = 0;
  uint16_t sum = DELTA_EXPR_NONE;
  if (!delta_tensor_is_none(dmean)) {
    inputs[input_count] = dmean;
    const uint16_t load_mean = delta_expr_input(&builder, (uint16_t)input_count++);
    sum = delta_expr_binary(&builder, DELTA_EXPR_DIV, load_mean, delta_expr_real(&builder, count));
  }
  if (!delta_tensor_is_none(dvariance)) {
    const delta_tensor_id_t reads[3] = {delta_rule_input(args, 0), delta_rule_output(args, 0), dvariance};
    uint16_t loads[3];
    for (int k = 0; k < 3; ++k) {
      inputs[input_count] = reads[k];
      loads[k] = delta_expr_input(&builder, (uint16_t)input_count++);
    }
    const uint16_t deviation = delta_expr_binary(&builder, DELTA_EXPR_SUB, loads[0], loads[1]);
    const uint16_t slope = delta_expr_binary(&builder, DELTA_EXPR_MUL, loads[2], delta_expr_real(&builder, 2.0 / count));
    const uint16_t term = delta_expr_binary(&builder, DELTA_EXPR_MUL, deviation, slope);
    sum = sum == DELTA_EXPR_NONE ? term : delta_expr_binary(&builder, DELTA_EXPR_ADD, sum, term);
  }
  delta_expr_output(&builder, sum);
  const delta_tensor_id_t gradient = delta_emit_expr(emit, &builder, dtype, inputs, input_count);
  args->input_gradients[0] = delta_emit_expand(emit, gradient, &shape);
  return DELTA_OK;
}
