// Emits of pointwise operators and reductions: expressions over inputs broadcast together.
#include <string.h>

#include "onnx/graph/emit.h"

delta_dtype_t delta_expr_compute_type(const delta_dtype_t *dtypes, size_t count) {
  delta_dtype_t compute = DELTA_DTYPE_INT64;
  for (size_t i = 0; i < count; ++i) {
    if (dtypes[i] == DELTA_DTYPE_FLOAT64) return DELTA_DTYPE_FLOAT64;
    if (delta_dtype_is_float(dtypes[i])) compute = DELTA_DTYPE_FLOAT32;
  }
  return compute;
}

// An expression ready to become a node: scalar constants are immediates, inputs are distinct and all used.
typedef struct prepared_expr {
  delta_expr_builder_t builder;
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS];
  uint32_t input_count;
  delta_shape_t shape; // of all inputs given, broadcast together
} prepared_expr_t;

static bool is_scalar_constant(const delta_emit_t *emit, delta_tensor_id_t id) {
  const delta_tensor_t *tensor = delta_emit_tensor(emit, id);
  return tensor->data != NULL && delta_shape_count(&tensor->shape) == 1;
}

static uint16_t immediate(const delta_emit_t *emit, delta_expr_builder_t *builder, delta_tensor_id_t id) {
  const delta_tensor_t *tensor = delta_emit_tensor(emit, id);
  return delta_dtype_is_float(tensor->dtype) ? delta_expr_real(builder, delta_element_load_double(tensor->data, tensor->dtype, 0))
                                             : delta_expr_integer(builder, delta_element_load_int64(tensor->data, tensor->dtype, 0));
}

static delta_status_t broadcast_inputs(const delta_emit_t *emit, const delta_tensor_id_t *inputs, uint32_t count,
                                       delta_shape_t *out_shape) {
  *out_shape = (delta_shape_t){0};
  for (uint32_t k = 0; k < count; ++k) {
    if (delta_tensor_is_none(inputs[k])) return delta_status_make(INTERNAL, "node '%s': input %u is missing", emit->name, k);
    const delta_shape_t joined = *out_shape, *shape = delta_emit_shape(emit, inputs[k]);
    if (delta_shape_broadcast(&joined, shape, out_shape)) continue;
    char a[DELTA_SHAPE_TEXT_BYTES], b[DELTA_SHAPE_TEXT_BYTES];
    return delta_status_make(MALFORMED, "node '%s': shapes %s and %s do not broadcast together", emit->name, delta_shape_text(&joined, a),
                             delta_shape_text(shape, b));
  }
  return DELTA_OK;
}

// The instruction for one input: an immediate, or an input shared with earlier uses of the same tensor.
static uint16_t prepare_input(const delta_emit_t *emit, prepared_expr_t *prepared, delta_tensor_id_t id, bool immediates) {
  if (immediates && is_scalar_constant(emit, id)) return immediate(emit, &prepared->builder, id);
  uint32_t k = 0;
  while (k < prepared->input_count && !delta_tensor_same(prepared->inputs[k], id)) ++k;
  if (k == prepared->input_count) prepared->inputs[prepared->input_count++] = id;
  return delta_expr_input(&prepared->builder, (uint16_t)k);
}

static void keep_used_inputs(prepared_expr_t *prepared) {
  uint16_t kept[DELTA_EXPR_MAX_INPUTS];
  delta_expr_compact(&prepared->builder, kept);
  prepared->input_count = prepared->builder.expr.input_count;
  for (uint32_t k = 0; k < prepared->input_count; ++k) prepared->inputs[k] = prepared->inputs[kept[k]];
}

// `needs_input`: the operator must have one, even if its expression is constant.
static delta_status_t prepare(const delta_emit_t *emit, const delta_expr_builder_t *from, const delta_tensor_id_t *inputs, uint32_t count,
                              bool needs_input, prepared_expr_t *prepared) {
  if (from->overflow || count > DELTA_EXPR_MAX_INPUTS || from->expr.input_count > count) {
    return delta_status_make(UNSUPPORTED, "node '%s': an expression of more than %d instructions or %d inputs", emit->name,
                             DELTA_EXPR_MAX_INSTRS, DELTA_EXPR_MAX_INPUTS);
  }
  DELTA_RETURN_IF_ERROR(delta_status_annotate(delta_expr_validate(&from->expr), "node '%s'", emit->name));
  DELTA_RETURN_IF_ERROR(broadcast_inputs(emit, inputs, count, &prepared->shape));
  // When all inputs are scalar constants they stay inputs, and the node folds.
  bool all_scalar = count > 0;
  for (uint32_t k = 0; k < count; ++k) all_scalar = all_scalar && is_scalar_constant(emit, inputs[k]);
  delta_expr_builder_init(&prepared->builder, from->expr.compute);
  prepared->input_count = 0;
  uint16_t mapped[DELTA_EXPR_MAX_INPUTS] = {0}, outputs[DELTA_EXPR_MAX_OUTPUTS];
  for (uint32_t k = 0; k < count; ++k) mapped[k] = prepare_input(emit, prepared, inputs[k], !(all_scalar && emit->fold));
  delta_expr_inline(&prepared->builder, &from->expr, mapped, outputs);
  for (uint16_t k = 0; k < from->expr.output_count; ++k) delta_expr_output(&prepared->builder, outputs[k]);
  keep_used_inputs(prepared);
  if (prepared->input_count == 0 && count > 0 && (needs_input || (all_scalar && emit->fold))) {
    prepared->inputs[prepared->input_count++] = inputs[0];
    prepared->builder.expr.input_count = 1;
  }
  void *instrs = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&emit->graph->region, prepared->builder.storage, prepared->builder.expr.instr_count,
                                          sizeof *prepared->builder.storage, &instrs));
  prepared->builder.expr.instrs = instrs;
  return DELTA_OK;
}

static void emit_prepared(delta_emit_t *emit, const prepared_expr_t *prepared, const delta_shape_t *shape, const delta_dtype_t *dtypes,
                          delta_tensor_id_t *outputs) {
  delta_pointwise_attrs_t attrs = {.shape = *shape, .expr = prepared->builder.expr};
  memcpy(attrs.dtypes, dtypes, attrs.expr.output_count * sizeof *dtypes);
  delta_emit_node(emit, DELTA_CORE_POINTWISE, &attrs, sizeof attrs, prepared->inputs, prepared->input_count, outputs,
                  attrs.expr.output_count, 0);
}

void delta_emit_exprs(delta_emit_t *emit, const delta_expr_builder_t *builder, const delta_dtype_t *dtypes, const delta_tensor_id_t *inputs,
                      uint32_t input_count, delta_tensor_id_t *outputs) {
  for (uint16_t k = 0; k < builder->expr.output_count; ++k) outputs[k] = DELTA_TENSOR_NONE;
  if (!delta_emit_ok(emit)) return;
  prepared_expr_t prepared;
  const delta_status_t status = prepare(emit, builder, inputs, input_count, false, &prepared);
  if (status) {
    delta_emit_fail(emit, status);
  } else {
    emit_prepared(emit, &prepared, &prepared.shape, dtypes, outputs);
  }
}

delta_tensor_id_t delta_emit_expr(delta_emit_t *emit, const delta_expr_builder_t *builder, delta_dtype_t dtype,
                                  const delta_tensor_id_t *inputs, uint32_t input_count) {
  delta_tensor_id_t outputs[DELTA_EXPR_MAX_OUTPUTS];
  if (builder->expr.output_count != 1) {
    return delta_emit_fail(
        emit, delta_status_make(INTERNAL, "node '%s': %u outputs where one is wanted", emit->name, builder->expr.output_count));
  }
  delta_emit_exprs(emit, builder, &dtype, inputs, input_count, outputs);
  return outputs[0];
}

// One input as it is, stored with a type and shape: casts, copies, expansions.
static delta_tensor_id_t emit_stored_as(delta_emit_t *emit, delta_tensor_id_t x, delta_dtype_t compute, delta_dtype_t dtype,
                                        const delta_shape_t *shape) {
  if (!delta_emit_ok(emit)) return DELTA_TENSOR_NONE;
  const delta_shape_t wanted = *shape; // it may lie in the graph's list, which grows
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, compute);
  delta_expr_output(&builder, delta_expr_input(&builder, 0));
  prepared_expr_t prepared;
  const delta_status_t status = prepare(emit, &builder, &x, 1, false, &prepared);
  if (status) return delta_emit_fail(emit, status);
  delta_tensor_id_t output;
  emit_prepared(emit, &prepared, &wanted, &dtype, &output);
  return output;
}

delta_tensor_id_t delta_emit_cast(delta_emit_t *emit, delta_tensor_id_t x, delta_dtype_t dtype) {
  const delta_dtype_t from = delta_emit_dtype(emit, x);
  if (from == dtype) return x;
  // Integers go to half precision directly: through float32 they would round twice. Other pairs compute in the wider of both.
  const bool half = dtype == DELTA_DTYPE_FLOAT16 || dtype == DELTA_DTYPE_BFLOAT16;
  const delta_dtype_t compute = delta_expr_compute_type((const delta_dtype_t[]){from, dtype}, half ? 1 : 2);
  return emit_stored_as(emit, x, compute, dtype, delta_emit_shape(emit, x));
}

delta_tensor_id_t delta_emit_copy(delta_emit_t *emit, delta_tensor_id_t x) {
  const delta_dtype_t dtype = delta_emit_dtype(emit, x);
  const bool fold = emit->fold;
  emit->fold = false; // a folded copy would have no bytes of its own
  const delta_tensor_id_t copy = emit_stored_as(emit, x, delta_expr_compute_type(&dtype, 1), dtype, delta_emit_shape(emit, x));
  emit->fold = fold;
  return copy;
}

delta_tensor_id_t delta_emit_expand(delta_emit_t *emit, delta_tensor_id_t x, const delta_shape_t *shape) {
  if (!delta_emit_ok(emit) || delta_shape_equal(delta_emit_shape(emit, x), shape)) return x;
  const delta_dtype_t dtype = delta_emit_dtype(emit, x);
  return emit_stored_as(emit, x, delta_expr_compute_type(&dtype, 1), dtype, shape);
}

delta_tensor_id_t delta_emit_fill(delta_emit_t *emit, delta_dtype_t dtype, const delta_shape_t *shape, double value) {
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  delta_expr_output(&builder, delta_expr_real(&builder, value));
  if (!delta_emit_ok(emit)) return DELTA_TENSOR_NONE;
  const delta_shape_t wanted = *shape;
  prepared_expr_t prepared;
  const delta_status_t status = prepare(emit, &builder, NULL, 0, false, &prepared);
  if (status) return delta_emit_fail(emit, status);
  delta_tensor_id_t output;
  emit_prepared(emit, &prepared, &wanted, &dtype, &output);
  return output;
}

// One operation over inputs; those from `typed` on must agree in type, which is the result's.
static delta_tensor_id_t emit_operation(delta_emit_t *emit, delta_expr_op_t op, const delta_tensor_id_t *inputs, uint32_t count,
                                        uint32_t typed) {
  if (!delta_emit_ok(emit)) return DELTA_TENSOR_NONE;
  const delta_dtype_t dtype = delta_emit_dtype(emit, inputs[count - 1]);
  delta_dtype_t dtypes[3];
  for (uint32_t k = 0; k < count; ++k) {
    dtypes[k] = delta_emit_dtype(emit, inputs[k]);
    if (k < typed || dtypes[k] == dtype || delta_tensor_is_none(inputs[k])) continue;
    return delta_emit_fail(
        emit, delta_status_make(MALFORMED, "node '%s': %s of '%s' (%s) and '%s' (%s): the types must agree", emit->name,
                                delta_expr_op_info(op)->name, delta_emit_tensor(emit, inputs[k])->name, delta_dtype_name(dtypes[k]),
                                delta_emit_tensor(emit, inputs[count - 1])->name, delta_dtype_name(dtype)));
  }
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(dtypes, count));
  uint16_t operands[3] = {0};
  for (uint32_t k = 0; k < count; ++k) operands[k] = delta_expr_input(&builder, (uint16_t)k);
  delta_expr_output(&builder, delta_expr_apply(&builder, op, operands));
  return delta_emit_expr(emit, &builder, delta_expr_gives_bool(op) ? DELTA_DTYPE_BOOL : dtype, inputs, count);
}

delta_tensor_id_t delta_emit_unary(delta_emit_t *emit, delta_expr_op_t op, delta_tensor_id_t x) {
  return emit_operation(emit, op, &x, 1, 0);
}

delta_tensor_id_t delta_emit_binary(delta_emit_t *emit, delta_expr_op_t op, delta_tensor_id_t a, delta_tensor_id_t b) {
  return emit_operation(emit, op, (const delta_tensor_id_t[]){a, b}, 2, 0);
}

delta_tensor_id_t delta_emit_binary_real(delta_emit_t *emit, delta_expr_op_t op, delta_tensor_id_t a, double b) {
  const delta_dtype_t dtype = delta_emit_dtype(emit, a);
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  const uint16_t x = delta_expr_input(&builder, 0);
  delta_expr_output(&builder, delta_expr_binary(&builder, op, x, delta_expr_real(&builder, b)));
  return delta_emit_expr(emit, &builder, delta_expr_gives_bool(op) ? DELTA_DTYPE_BOOL : dtype, &a, 1);
}

delta_tensor_id_t delta_emit_select(delta_emit_t *emit, delta_tensor_id_t condition, delta_tensor_id_t a, delta_tensor_id_t b) {
  return emit_operation(emit, DELTA_EXPR_SELECT, (const delta_tensor_id_t[]){condition, a, b}, 3, 1);
}

delta_tensor_id_t delta_emit_reduce_expr(delta_emit_t *emit, delta_reduce_kind_t kind, const delta_expr_builder_t *builder,
                                         delta_dtype_t dtype, const delta_tensor_id_t *inputs, uint32_t input_count, uint32_t axes) {
  delta_tensor_id_t output = DELTA_TENSOR_NONE;
  delta_emit_reduce_exprs(emit, kind, builder, &dtype, inputs, input_count, axes, &output);
  return output;
}

void delta_emit_reduce_exprs(delta_emit_t *emit, delta_reduce_kind_t kind, const delta_expr_builder_t *builder, const delta_dtype_t *dtypes,
                             const delta_tensor_id_t *inputs, uint32_t input_count, uint32_t axes, delta_tensor_id_t *outputs) {
  const uint32_t count = builder->expr.output_count;
  if (axes == 0) {
    delta_emit_exprs(emit, builder, dtypes, inputs, input_count, outputs);
    return;
  }
  for (uint32_t k = 0; k < count; ++k) outputs[k] = DELTA_TENSOR_NONE;
  if (!delta_emit_ok(emit)) return;
  prepared_expr_t prepared;
  const delta_status_t status = prepare(emit, builder, inputs, input_count, true, &prepared);
  if (status) {
    delta_emit_fail(emit, status);
    return;
  }
  delta_reduce_attrs_t attrs = {.shape = prepared.shape, .axes = axes, .expr = prepared.builder.expr};
  for (uint32_t k = 0; k < count; ++k) {
    attrs.kinds[k] = kind;
    attrs.dtypes[k] = dtypes[k];
  }
  delta_emit_node(emit, DELTA_CORE_REDUCE, &attrs, sizeof attrs, prepared.inputs, prepared.input_count, outputs, count, 0);
}

delta_tensor_id_t delta_emit_reduce(delta_emit_t *emit, delta_reduce_kind_t kind, delta_tensor_id_t x, uint32_t axes) {
  if (axes == 0) return x;
  const delta_dtype_t dtype = delta_emit_dtype(emit, x);
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  delta_expr_output(&builder, delta_expr_input(&builder, 0));
  return delta_emit_reduce_expr(emit, kind, &builder, dtype, &x, 1, axes);
}

delta_tensor_id_t delta_emit_sum_to(delta_emit_t *emit, delta_tensor_id_t x, const delta_shape_t *shape) {
  const delta_shape_t from = *delta_emit_shape(emit, x), to = *shape;
  const int32_t extra = from.rank - to.rank;
  uint32_t axes = 0;
  for (int32_t d = 0; d < from.rank; ++d) {
    if (from.dims[d] != 1 && (d < extra || to.dims[d - extra] == 1)) axes |= UINT32_C(1) << d;
  }
  return delta_emit_view(emit, delta_emit_reduce(emit, DELTA_REDUCE_SUM, x, axes), &to);
}

void delta_emit_moments(delta_emit_t *emit, delta_tensor_id_t x, uint32_t axes, delta_tensor_id_t *out_mean,
                        delta_tensor_id_t *out_variance) {
  const delta_moments_attrs_t attrs = {.axes = axes};
  delta_tensor_id_t outputs[2];
  delta_emit_node(emit, DELTA_CORE_MOMENTS, &attrs, sizeof attrs, &x, 1, outputs, 2, 0);
  *out_mean = outputs[0];
  *out_variance = outputs[1];
}
