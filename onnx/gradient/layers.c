// Gradients of pooling, softmax, class losses, dropout and resizing: each by an operator of its own, made for it.
#include "onnx/gradient/rule.h"

delta_status_t delta_gradient_max_pool(const delta_gradient_args_t *args) {
  const delta_pool_attrs_t *attrs = args->node->attrs;
  if (!args->wanted[0] || delta_tensor_is_none(args->output_gradients[0])) return DELTA_OK;
  delta_tensor_id_t outputs[2] = {DELTA_TENSOR_NONE, delta_rule_output(args, 1)};
  if (delta_tensor_is_none(outputs[1])) {
    // The forward node kept no index: find the maxima again.
    const delta_tensor_id_t x = delta_rule_input(args, 0);
    delta_emit_node(args->emit, DELTA_CORE_MAX_POOL, attrs, sizeof *attrs, &x, 1, outputs, 2, 2);
  }
  args->input_gradients[0] = DELTA_EMIT(args->emit, MAX_POOL_GRAD, *attrs, args->output_gradients[0], outputs[1]);
  return DELTA_OK;
}

delta_status_t delta_gradient_average_pool(const delta_gradient_args_t *args) {
  const delta_pool_attrs_t *attrs = args->node->attrs;
  if (args->wanted[0]) args->input_gradients[0] = DELTA_EMIT(args->emit, AVERAGE_POOL_GRAD, *attrs, args->output_gradients[0]);
  return DELTA_OK;
}

delta_status_t delta_gradient_softmax(const delta_gradient_args_t *args) {
  const delta_softmax_attrs_t *attrs = args->node->attrs;
  if (!args->wanted[0]) return DELTA_OK;
  args->input_gradients[0] = DELTA_EMIT(args->emit, SOFTMAX_GRAD, *attrs, args->output_gradients[0], delta_rule_output(args, 0));
  return DELTA_OK;
}

// d log_sum / d logits is the softmax.
static delta_tensor_id_t log_sum_gradient(const delta_gradient_args_t *args, const delta_class_loss_attrs_t *attrs) {
  delta_emit_t *emit = args->emit;
  const delta_tensor_id_t logits = delta_rule_input(args, 0);
  delta_shape_t shape = *delta_emit_shape(emit, logits);
  shape.dims[attrs->axis] = 1;
  const delta_tensor_id_t log_sum = delta_emit_view(emit, delta_rule_output(args, 2), &shape);
  const delta_tensor_id_t gradient = delta_emit_view(emit, args->output_gradients[2], &shape);
  const delta_tensor_id_t inputs[3] = {logits, log_sum, gradient};
  const delta_dtype_t dtype = delta_emit_dtype(emit, logits);
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  const uint16_t logit = delta_expr_input(&builder, 0);
  const uint16_t difference = delta_expr_binary(&builder, DELTA_EXPR_SUB, logit, delta_expr_input(&builder, 1));
  const uint16_t probability = delta_expr_unary(&builder, DELTA_EXPR_EXP, difference);
  delta_expr_output(&builder, delta_expr_binary(&builder, DELTA_EXPR_MUL, probability, delta_expr_input(&builder, 2)));
  return delta_emit_expr(emit, &builder, dtype, inputs, 3);
}

// Labels and class weights are given, not learned; nothing flows through the `weight` output.
delta_status_t delta_gradient_cross_entropy(const delta_gradient_args_t *args) {
  const delta_class_loss_attrs_t *attrs = args->node->attrs;
  if (delta_rule_wants(args, 2)) return delta_status_make(UNSUPPORTED, "node '%s': class weights cannot be trained", args->node->name);
  if (!args->wanted[0]) return DELTA_OK;
  delta_tensor_id_t sum = DELTA_TENSOR_NONE;
  if (!delta_tensor_is_none(args->output_gradients[0])) {
    const delta_tensor_id_t inputs[5] = {args->output_gradients[0], delta_rule_input(args, 0), delta_rule_output(args, 2),
                                         delta_rule_input(args, 1), delta_rule_input(args, 2)};
    const uint32_t count = delta_tensor_is_none(inputs[4]) ? 4 : 5;
    sum = delta_emit_one(args->emit, DELTA_CORE_CROSS_ENTROPY_GRAD, attrs, sizeof *attrs, inputs, count);
  }
  if (!delta_tensor_is_none(args->output_gradients[2])) {
    const delta_tensor_id_t term = log_sum_gradient(args, attrs);
    sum = delta_tensor_is_none(sum) ? term : delta_emit_binary(args->emit, DELTA_EXPR_ADD, sum, term);
  }
  args->input_gradients[0] = sum;
  return DELTA_OK;
}

delta_status_t delta_gradient_nll(const delta_gradient_args_t *args) {
  const delta_class_loss_attrs_t *attrs = args->node->attrs;
  if (delta_rule_wants(args, 2)) return delta_status_make(UNSUPPORTED, "node '%s': class weights cannot be trained", args->node->name);
  if (!args->wanted[0] || delta_tensor_is_none(args->output_gradients[0])) return DELTA_OK;
  const delta_tensor_id_t inputs[3] = {args->output_gradients[0], delta_rule_input(args, 1), delta_rule_input(args, 2)};
  const uint32_t count = delta_tensor_is_none(inputs[2]) ? 2 : 3;
  args->input_gradients[0] = delta_emit_one(args->emit, DELTA_CORE_NLL_GRAD, attrs, sizeof *attrs, inputs, count);
  return DELTA_OK;
}

static delta_tensor_id_t apply_mask(delta_emit_t *emit, delta_tensor_id_t dy, delta_tensor_id_t mask, double ratio) {
  const delta_dtype_t dtype = delta_emit_dtype(emit, dy);
  const delta_tensor_id_t inputs[2] = {dy, mask};
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  const uint16_t gradient = delta_expr_input(&builder, 0);
  const uint16_t kept = delta_expr_binary(&builder, DELTA_EXPR_MUL, gradient, delta_expr_input(&builder, 1));
  const double scale = ratio < 1.0 ? 1.0 / (1.0 - ratio) : 0.0;
  delta_expr_output(&builder, delta_expr_binary(&builder, DELTA_EXPR_MUL, kept, delta_expr_real(&builder, scale)));
  return delta_emit_expr(emit, &builder, dtype, inputs, 2);
}

// The same mask, drawn again from the same stream; with the lever off, the stored one.
delta_status_t delta_gradient_dropout(const delta_gradient_args_t *args) {
  const delta_dropout_attrs_t *attrs = args->node->attrs;
  const delta_tensor_id_t dy = args->output_gradients[0], mask = delta_rule_output(args, 1);
  if (!args->wanted[0] || delta_tensor_is_none(dy)) return DELTA_OK;
  if (!delta_tensor_is_none(mask) && !delta_lever_is_on(args->levers, DELTA_LEVER_DROPOUT)) {
    args->input_gradients[0] = apply_mask(args->emit, dy, mask, attrs->ratio);
  } else {
    args->input_gradients[0] = DELTA_EMIT(args->emit, DROPOUT, *attrs, dy, delta_rule_input(args, 1), delta_rule_input(args, 2));
  }
  return DELTA_OK;
}

delta_status_t delta_gradient_resize(const delta_gradient_args_t *args) {
  const delta_resize_attrs_t *attrs = args->node->attrs;
  if (args->wanted[0]) args->input_gradients[0] = DELTA_EMIT(args->emit, RESIZE_GRAD, *attrs, args->output_gradients[0]);
  return DELTA_OK;
}

// RESIZE without the constant that it puts outside of its region is linear, and RESIZE_GRAD its transpose.
delta_status_t delta_gradient_resize_grad(const delta_gradient_args_t *args) {
  delta_resize_attrs_t attrs = *(const delta_resize_attrs_t *)args->node->attrs;
  attrs.extrapolation_value = 0.0;
  if (args->wanted[0]) args->input_gradients[0] = DELTA_EMIT(args->emit, RESIZE, attrs, args->output_gradients[0]);
  return DELTA_OK;
}
