// Lowering of Softmax, LogSoftmax and Hardmax. Before opset 13 they flatten their input to two dimensions at the axis.
#include "onnx/lower/formula.h"
#include "onnx/lower/lower.h"

// One along the axis where the first maximum is, else zero.
static delta_tensor_id_t emit_hardmax(delta_lower_t *lower, delta_tensor_id_t x, int32_t axis) {
  const delta_arg_reduce_attrs_t attrs = {.axis = axis};
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  delta_tensor_id_t inputs[2];
  inputs[0] = DELTA_EMIT(&lower->emit, ARG_REDUCE, attrs, x);
  inputs[1] = delta_formula_positions(&lower->emit, shape.dims[axis], shape.rank - 1 - axis);
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, DELTA_DTYPE_INT64);
  uint16_t chosen = delta_expr_input(&builder, 0), position = delta_expr_input(&builder, 1);
  delta_expr_output(&builder, delta_expr_binary(&builder, DELTA_EXPR_EQ, chosen, position));
  return delta_emit_expr(&lower->emit, &builder, delta_emit_dtype(&lower->emit, x), inputs, 2);
}

static delta_tensor_id_t emit_softmax(delta_lower_t *lower, delta_tensor_id_t x, int32_t axis, bool log) {
  const delta_softmax_attrs_t attrs = {.axis = axis, .log = log};
  return DELTA_EMIT(&lower->emit, SOFTMAX, attrs, x);
}

typedef enum softmax_form { FORM_SOFTMAX, FORM_LOG_SOFTMAX, FORM_HARDMAX } softmax_form_t;

static delta_status_t lower_softmax_form(delta_lower_t *lower, softmax_form_t form) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  bool flattens = lower->opset < 13;
  int32_t axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", flattens ? 1 : -1), shape.rank);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  if (flattens && axis != shape.rank - 1) {
    const delta_shape_t flat = {.rank = 2,
                                .dims = {delta_shape_count_range(&shape, 0, axis), delta_shape_count_range(&shape, axis, shape.rank)}};
    x = delta_emit_view(&lower->emit, x, &flat);
    axis = 1;
  }
  delta_tensor_id_t y = form == FORM_HARDMAX ? emit_hardmax(lower, x, axis) : emit_softmax(lower, x, axis, form == FORM_LOG_SOFTMAX);
  lower->outputs[0] = delta_emit_view(&lower->emit, y, &shape);
  return DELTA_OK;
}

delta_status_t delta_lower_softmax(delta_lower_t *lower) { return lower_softmax_form(lower, FORM_SOFTMAX); }
delta_status_t delta_lower_log_softmax(delta_lower_t *lower) { return lower_softmax_form(lower, FORM_LOG_SOFTMAX); }
delta_status_t delta_lower_hardmax(delta_lower_t *lower) { return lower_softmax_form(lower, FORM_HARDMAX); }
