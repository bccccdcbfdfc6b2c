// Forms: merging expressions, and emitting the result.
#include "onnx/graph/fuse_form.h"

#include <string.h>

bool delta_fuse_form_of(const delta_node_t *node, delta_fuse_form_t *out_form) {
  delta_fuse_form_t form = {.op = node->op};
  if (node->op == DELTA_CORE_POINTWISE) {
    const delta_pointwise_attrs_t *attrs = node->attrs;
    form.shape = attrs->shape;
    form.expr = attrs->expr;
    memcpy(form.dtypes, attrs->dtypes, sizeof form.dtypes);
  } else if (node->op == DELTA_CORE_REDUCE) {
    const delta_reduce_attrs_t *attrs = node->attrs;
    form.shape = attrs->shape;
    form.axes = attrs->axes;
    form.expr = attrs->expr;
    memcpy(form.dtypes, attrs->dtypes, sizeof form.dtypes);
    memcpy(form.kinds, attrs->kinds, sizeof form.kinds);
  } else {
    return false;
  }
  memcpy(form.inputs, node->inputs, node->input_count * sizeof *node->inputs);
  memcpy(form.outputs, node->outputs, node->output_count * sizeof *node->outputs);
  *out_form = form;
  return true;
}

// The price list: what is not named costs one addition.
static const uint16_t instr_costs[DELTA_EXPR_OP_COUNT] = {
    [DELTA_EXPR_DIV] = 4,   [DELTA_EXPR_RECIPROCAL] = 4, [DELTA_EXPR_SQRT] = 4,   [DELTA_EXPR_MOD] = 8,    [DELTA_EXPR_FMOD] = 8,
    [DELTA_EXPR_EXP] = 16,  [DELTA_EXPR_EXPM1] = 16,     [DELTA_EXPR_LOG] = 16,   [DELTA_EXPR_LOG1P] = 16, [DELTA_EXPR_SIGMOID] = 20,
    [DELTA_EXPR_TANH] = 20, [DELTA_EXPR_ERF] = 20,       [DELTA_EXPR_SIN] = 20,   [DELTA_EXPR_COS] = 20,   [DELTA_EXPR_TAN] = 24,
    [DELTA_EXPR_ASIN] = 24, [DELTA_EXPR_ACOS] = 24,      [DELTA_EXPR_ATAN] = 24,  [DELTA_EXPR_SINH] = 24,  [DELTA_EXPR_COSH] = 24,
    [DELTA_EXPR_POW] = 40,  [DELTA_EXPR_ASINH] = 32,     [DELTA_EXPR_ACOSH] = 32, [DELTA_EXPR_ATANH] = 32,
};

uint32_t delta_fuse_cost(const delta_expr_t *expr) {
  uint32_t cost = 0;
  for (uint16_t i = 0; i < expr->instr_count; ++i) {
    const uint16_t op = expr->instrs[i].op;
    if (op == DELTA_EXPR_INPUT || op == DELTA_EXPR_CONST) continue;
    cost += instr_costs[op] > 0 ? instr_costs[op] : 1;
  }
  return cost;
}

// Place of `id` in the first `count` ids; `count` when it is not there.
static uint16_t find_id(const delta_tensor_id_t *ids, uint16_t count, delta_tensor_id_t id) {
  uint16_t k = 0;
  while (k < count && !delta_tensor_same(ids[k], id)) ++k;
  return k;
}

bool delta_fuse_reads(const delta_fuse_form_t *form, delta_tensor_id_t id) {
  return find_id(form->inputs, form->expr.input_count, id) < form->expr.input_count;
}

// The merge's instruction that reads tensor `id`; equal tensors share one input.
static uint16_t merge_input(delta_fuse_merge_t *merge, delta_tensor_id_t id) {
  const uint16_t k = find_id(merge->inputs, merge->builder.expr.input_count, id);
  if (k < DELTA_EXPR_MAX_INPUTS) merge->inputs[k] = id;
  return delta_expr_input(&merge->builder, k);
}

static void merge_inputs(delta_fuse_merge_t *merge, const delta_fuse_form_t *form, uint16_t *out_instrs) {
  for (uint16_t k = 0; k < form->expr.input_count; ++k) out_instrs[k] = merge_input(merge, form->inputs[k]);
}

// Drops what became unused, and keeps the list of inputs in step.
static bool finish_merge(delta_fuse_merge_t *merge) {
  if (merge->builder.overflow) return false;
  uint16_t kept[DELTA_EXPR_MAX_INPUTS];
  delta_expr_compact(&merge->builder, kept);
  for (uint16_t k = 0; k < merge->builder.expr.input_count; ++k) merge->inputs[k] = merge->inputs[kept[k]];
  return true;
}

// What the instruction's value becomes by being stored as bool and loaded again.
static uint16_t as_bool(delta_expr_builder_t *builder, uint16_t instr) {
  if (delta_expr_gives_bool(builder->storage[instr].op)) return instr;
  return delta_expr_binary(builder, DELTA_EXPR_NE, instr, delta_expr_integer(builder, 0));
}

bool delta_fuse_absorb(const delta_fuse_form_t *reader, const delta_fuse_form_t *producer, delta_fuse_merge_t *out_merge) {
  delta_expr_builder_t *builder = &out_merge->builder;
  delta_expr_builder_init(builder, reader->expr.compute);
  uint16_t inputs[DELTA_EXPR_MAX_INPUTS] = {0}, made[DELTA_EXPR_MAX_OUTPUTS], outputs[DELTA_EXPR_MAX_OUTPUTS];
  merge_inputs(out_merge, producer, inputs);
  delta_expr_inline(builder, &producer->expr, inputs, made);
  for (uint16_t k = 0; k < reader->expr.input_count; ++k) {
    const uint16_t j = find_id(producer->outputs, producer->expr.output_count, reader->inputs[k]);
    if (j == producer->expr.output_count) {
      inputs[k] = merge_input(out_merge, reader->inputs[k]);
    } else {
      inputs[k] = producer->dtypes[j] == DELTA_DTYPE_BOOL ? as_bool(builder, made[j]) : made[j];
    }
  }
  delta_expr_inline(builder, &reader->expr, inputs, outputs);
  for (uint16_t k = 0; k < reader->expr.output_count; ++k) delta_expr_output(builder, outputs[k]);
  if (!finish_merge(out_merge)) return false;
  return reader->op == DELTA_CORE_POINTWISE || builder->expr.input_count > 0; // a reduction reads something
}

bool delta_fuse_join(const delta_fuse_form_t *first, const delta_fuse_form_t *second, delta_fuse_merge_t *out_merge) {
  if (first->expr.output_count + second->expr.output_count > DELTA_EXPR_MAX_OUTPUTS) return false;
  delta_expr_builder_init(&out_merge->builder, first->expr.compute);
  const delta_fuse_form_t *const forms[] = {first, second};
  for (size_t i = 0; i < 2; ++i) {
    uint16_t inputs[DELTA_EXPR_MAX_INPUTS] = {0}, outputs[DELTA_EXPR_MAX_OUTPUTS];
    merge_inputs(out_merge, forms[i], inputs);
    delta_expr_inline(&out_merge->builder, &forms[i]->expr, inputs, outputs);
    for (uint16_t k = 0; k < forms[i]->expr.output_count; ++k) delta_expr_output(&out_merge->builder, outputs[k]);
  }
  return finish_merge(out_merge);
}

delta_status_t delta_fuse_accept(delta_region_t *region, const delta_fuse_merge_t *merge, delta_fuse_form_t *form) {
  void *instrs = NULL;
  DELTA_RETURN_IF_ERROR(
      delta_region_copy(region, merge->builder.storage, merge->builder.expr.instr_count, sizeof *merge->builder.storage, &instrs));
  form->expr = merge->builder.expr;
  form->expr.instrs = instrs;
  memcpy(form->inputs, merge->inputs, sizeof form->inputs);
  form->changed = true;
  return DELTA_OK;
}

// Room for the attributes of either operator.
typedef union form_attrs {
  delta_pointwise_attrs_t pointwise;
  delta_reduce_attrs_t reduce;
} form_attrs_t;

static delta_status_t make_attrs(delta_region_t *region, const delta_fuse_form_t *form, form_attrs_t *attrs, size_t *out_bytes) {
  delta_expr_t expr = form->expr;
  void *instrs = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy(region, expr.instrs, expr.instr_count, sizeof *expr.instrs, &instrs));
  expr.instrs = instrs;
  if (form->op == DELTA_CORE_POINTWISE) {
    attrs->pointwise = (delta_pointwise_attrs_t){.shape = form->shape, .expr = expr};
    memcpy(attrs->pointwise.dtypes, form->dtypes, sizeof form->dtypes);
    *out_bytes = sizeof attrs->pointwise;
  } else {
    attrs->reduce = (delta_reduce_attrs_t){.shape = form->shape, .axes = form->axes, .expr = expr};
    memcpy(attrs->reduce.dtypes, form->dtypes, sizeof form->dtypes);
    memcpy(attrs->reduce.kinds, form->kinds, sizeof form->kinds);
    *out_bytes = sizeof attrs->reduce;
  }
  return DELTA_OK;
}

void delta_fuse_emit_with(delta_rewrite_t *rewrite, const delta_node_t *node, const delta_fuse_form_t *form,
                          const delta_tensor_id_t *inputs, delta_tensor_id_t *out_outputs) {
  form_attrs_t attrs;
  size_t attrs_bytes = 0;
  const delta_status_t status = make_attrs(&rewrite->to->region, form, &attrs, &attrs_bytes);
  for (uint16_t k = 0; k < form->expr.output_count; ++k) out_outputs[k] = DELTA_TENSOR_NONE;
  if (status) {
    delta_emit_fail(&rewrite->emit, status);
    return;
  }
  delta_rewrite_follow(rewrite, node);
  delta_emit_node(&rewrite->emit, form->op, &attrs, attrs_bytes, inputs, form->expr.input_count, out_outputs, form->expr.output_count, 0);
}

void delta_fuse_emit(delta_rewrite_t *rewrite, const delta_node_t *node, const delta_fuse_form_t *form) {
  if (!delta_emit_ok(&rewrite->emit)) return;
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS], outputs[DELTA_EXPR_MAX_OUTPUTS];
  for (uint16_t k = 0; k < form->expr.input_count; ++k) inputs[k] = delta_rewrite_tensor(rewrite, form->inputs[k]);
  delta_fuse_emit_with(rewrite, node, form, inputs, outputs);
  for (uint16_t k = 0; k < form->expr.output_count; ++k) delta_rewrite_bind(rewrite, form->outputs[k], outputs[k]);
}
