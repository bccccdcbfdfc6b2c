// Formula: see formula.h.
#include "onnx/lower/formula.h"

// Longest list of positions that is kept as a constant.
enum { POSITIONS_LIMIT = 1 << 16 };

void delta_formula_init(delta_formula_t *formula, delta_emit_t *emit, const delta_tensor_id_t *inputs, uint32_t count) {
  delta_dtype_t types[DELTA_EXPR_MAX_INPUTS];
  formula->emit = emit;
  formula->input_count = count;
  for (uint32_t k = 0; k < count; ++k) {
    formula->inputs[k] = inputs[k];
    types[k] = delta_emit_dtype(emit, inputs[k]);
  }
  delta_expr_builder_init(&formula->builder, delta_expr_compute_type(types, count));
}

delta_tensor_id_t delta_formula_emit(delta_formula_t *formula, uint16_t value, delta_dtype_t dtype) {
  delta_expr_output(&formula->builder, value);
  return delta_emit_expr(formula->emit, &formula->builder, dtype, formula->inputs, formula->input_count);
}

delta_tensor_id_t delta_formula_reduce(delta_formula_t *formula, delta_reduce_kind_t kind, uint16_t value, delta_dtype_t dtype,
                                       uint32_t axes) {
  delta_expr_output(&formula->builder, value);
  return delta_emit_reduce_expr(formula->emit, kind, &formula->builder, dtype, formula->inputs, formula->input_count, axes);
}

// A long list is counted when it is needed instead of being stored.
static delta_tensor_id_t emit_counted(delta_emit_t *emit, const delta_shape_t *shape) {
  const delta_cumsum_attrs_t attrs = {.axis = 0, .exclusive = true};
  return DELTA_EMIT(emit, CUMSUM, attrs, delta_emit_fill(emit, DELTA_DTYPE_INT64, shape, 1.0));
}

delta_tensor_id_t delta_formula_positions(delta_emit_t *emit, int64_t count, int32_t after) {
  if (!delta_emit_ok(emit)) return DELTA_TENSOR_NONE;
  delta_shape_t shape = {.rank = 1 + after, .dims = {count}};
  for (int32_t d = 1; d <= after; ++d) shape.dims[d] = 1;
  if (count > POSITIONS_LIMIT) return emit_counted(emit, &shape);
  int64_t *positions = NULL;
  delta_status_t status = DELTA_REGION_ALLOCATE(&emit->graph->region, (size_t)count, &positions);
  if (status) return delta_emit_fail(emit, status);
  for (int64_t k = 0; k < count; ++k) positions[k] = k;
  return delta_emit_constant(emit, DELTA_DTYPE_INT64, &shape, positions);
}
