// Lowering of all Reduce operators: an expression before the reduction, the reduction, an expression after it.
#include <assert.h>
#include <string.h>

#include "onnx/lower/lower.h"

typedef enum reduce_form {
  FORM_PLAIN,       // reduce(x)
  FORM_ABSOLUTE,    // reduce(|x|)
  FORM_SQUARE,      // reduce(x * x)
  FORM_NORM,        // sqrt(reduce(x * x))
  FORM_LOG,         // log(reduce(x))
  FORM_EXPONENTIAL, // log(reduce(exp(x))), shifted by the maximum
} reduce_form_t;

typedef struct reduce_row {
  const char *name;
  delta_reduce_kind_t kind;
  reduce_form_t form;
} reduce_row_t;

static const reduce_row_t reduce_rows[] = {
    {"ReduceSum", DELTA_REDUCE_SUM, FORM_PLAIN},        {"ReduceMean", DELTA_REDUCE_MEAN, FORM_PLAIN},
    {"ReduceMax", DELTA_REDUCE_MAX, FORM_PLAIN},        {"ReduceMin", DELTA_REDUCE_MIN, FORM_PLAIN},
    {"ReduceProd", DELTA_REDUCE_PROD, FORM_PLAIN},      {"ReduceL1", DELTA_REDUCE_SUM, FORM_ABSOLUTE},
    {"ReduceSumSquare", DELTA_REDUCE_SUM, FORM_SQUARE}, {"ReduceL2", DELTA_REDUCE_SUM, FORM_NORM},
    {"ReduceLogSum", DELTA_REDUCE_SUM, FORM_LOG},       {"ReduceLogSumExp", DELTA_REDUCE_SUM, FORM_EXPONENTIAL},
};

static const reduce_row_t *find_reduce_row(const char *name) {
  const reduce_row_t *row = reduce_rows;
  while (strcmp(row->name, name) != 0) {
    ++row;
    assert(row < reduce_rows + sizeof reduce_rows / sizeof *reduce_rows); // every operator with this lowering has a row
  }
  return row;
}

static delta_tensor_id_t reduce_prepared(delta_lower_t *lower, delta_tensor_id_t x, uint32_t axes, reduce_form_t form) {
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, x);
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  uint16_t value = delta_expr_input(&builder, 0);
  value =
      form == FORM_ABSOLUTE ? delta_expr_unary(&builder, DELTA_EXPR_ABS, value) : delta_expr_binary(&builder, DELTA_EXPR_MUL, value, value);
  delta_expr_output(&builder, value);
  if (axes == 0) return delta_emit_expr(&lower->emit, &builder, dtype, &x, 1);
  return delta_emit_reduce_expr(&lower->emit, DELTA_REDUCE_SUM, &builder, dtype, &x, 1, axes);
}

// An infinite maximum is no shift: exp(x) is then exact enough by itself, and inf - inf would be NaN.
static delta_tensor_id_t finite_or_zero(delta_lower_t *lower, delta_tensor_id_t x) {
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, x);
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  uint16_t value = delta_expr_input(&builder, 0);
  uint16_t infinite = delta_expr_unary(&builder, DELTA_EXPR_ISINF, value);
  delta_expr_output(&builder, delta_expr_select(&builder, infinite, delta_expr_real(&builder, 0.0), value));
  return delta_emit_expr(&lower->emit, &builder, dtype, &x, 1);
}

static delta_tensor_id_t reduce_log_sum_exp(delta_lower_t *lower, delta_tensor_id_t x, uint32_t axes) {
  if (axes == 0) return x;
  delta_tensor_id_t shift = finite_or_zero(lower, delta_emit_reduce(&lower->emit, DELTA_REDUCE_MAX, x, axes));
  const delta_tensor_id_t inputs[2] = {x, shift};
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, x);
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  uint16_t shifted = delta_expr_binary(&builder, DELTA_EXPR_SUB, delta_expr_input(&builder, 0), delta_expr_input(&builder, 1));
  delta_expr_output(&builder, delta_expr_unary(&builder, DELTA_EXPR_EXP, shifted));
  delta_tensor_id_t sum = delta_emit_reduce_expr(&lower->emit, DELTA_REDUCE_SUM, &builder, dtype, inputs, 2, axes);
  return delta_emit_binary(&lower->emit, DELTA_EXPR_ADD, delta_emit_unary(&lower->emit, DELTA_EXPR_LOG, sum), shift);
}

static delta_tensor_id_t emit_form(delta_lower_t *lower, const reduce_row_t *row, delta_tensor_id_t x, uint32_t axes) {
  switch (row->form) {
    case FORM_ABSOLUTE:
    case FORM_SQUARE:
      return reduce_prepared(lower, x, axes, row->form);
    case FORM_NORM:
      return delta_emit_unary(&lower->emit, DELTA_EXPR_SQRT, reduce_prepared(lower, x, axes, FORM_SQUARE));
    case FORM_LOG:
      return delta_emit_unary(&lower->emit, DELTA_EXPR_LOG, delta_emit_reduce(&lower->emit, row->kind, x, axes));
    case FORM_EXPONENTIAL:
      return reduce_log_sum_exp(lower, x, axes);
    case FORM_PLAIN:
      break;
  }
  return delta_emit_reduce(&lower->emit, row->kind, x, axes);
}

static delta_tensor_id_t drop_axes(delta_lower_t *lower, delta_tensor_id_t y, uint32_t axes) {
  const delta_shape_t *shape = delta_emit_shape(&lower->emit, y);
  delta_shape_t kept = {0};
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (!(axes >> d & 1u)) kept.dims[kept.rank++] = shape->dims[d];
  }
  return delta_emit_view(&lower->emit, y, &kept);
}

delta_status_t delta_lower_reduce(delta_lower_t *lower) {
  const reduce_row_t *row = find_reduce_row(lower->node->op_type);
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  int32_t rank = delta_emit_shape(&lower->emit, x)->rank;
  uint32_t axes = 0;
  bool given = delta_lower_axes(lower, 1, rank, &axes);
  // Without axes all are reduced, or none when the node says so; what is done to each element is done in any case.
  if (!given && delta_lower_int(lower, "noop_with_empty_axes", 0) == 0) axes = (1u << rank) - 1u;
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, x);
  bool needs_reals = row->form >= FORM_NORM && !delta_dtype_is_float(dtype);
  if (needs_reals) x = delta_emit_cast(&lower->emit, x, DELTA_DTYPE_FLOAT64);
  delta_tensor_id_t y = emit_form(lower, row, x, axes);
  if (needs_reals) y = delta_emit_cast(&lower->emit, y, dtype);
  lower->outputs[0] = delta_lower_int(lower, "keepdims", 1) != 0 ? y : drop_axes(lower, y, axes);
  return DELTA_OK;
}
