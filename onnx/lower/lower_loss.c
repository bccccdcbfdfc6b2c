// Lowering of the losses over classes: one number per label, then the reduction. A mean divides by the sum of the labels' weights.
#include "onnx/lower/lower.h"

typedef enum loss_reduction { REDUCTION_NONE, REDUCTION_SUM, REDUCTION_MEAN, REDUCTION_COUNT } loss_reduction_t;

// Scores are [n, classes, d1, ...], labels [n, d1, ...].
static bool read_loss(delta_lower_t *lower, delta_class_loss_attrs_t *attrs, loss_reduction_t *out_reduction) {
  static const char *const names[REDUCTION_COUNT] = {"none", "sum", "mean"};
  const delta_shape_t *scores = delta_emit_shape(&lower->emit, delta_lower_required(lower, 0));
  (void)delta_lower_required(lower, 1);
  *out_reduction =
      (loss_reduction_t)delta_lower_choice(lower, "reduction", delta_lower_string(lower, "reduction", "mean"), names, REDUCTION_COUNT);
  *attrs = (delta_class_loss_attrs_t){.axis = 1,
                                      .classes = scores->rank >= 2 ? scores->dims[1] : 0,
                                      .has_ignore = delta_lower_has(lower, "ignore_index"),
                                      .ignore_index = delta_lower_int(lower, "ignore_index", 0)};
  if (delta_emit_ok(&lower->emit) && (scores->rank < 2 || attrs->classes < 1)) {
    char text[DELTA_SHAPE_TEXT_BYTES];
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "scores of shape %s have no classes in dimension 1",
                           delta_shape_text(scores, text));
  }
  return delta_emit_ok(&lower->emit);
}

static delta_tensor_id_t reduce_all(delta_lower_t *lower, delta_reduce_kind_t kind, delta_tensor_id_t x) {
  uint32_t axes = (1u << delta_emit_shape(&lower->emit, x)->rank) - 1u;
  return delta_emit_view(&lower->emit, delta_emit_reduce(&lower->emit, kind, x, axes), &(delta_shape_t){0});
}

static delta_tensor_id_t reduce_loss(delta_lower_t *lower, delta_tensor_id_t loss, delta_tensor_id_t weight, loss_reduction_t reduction,
                                     bool all_count_one) {
  if (reduction == REDUCTION_NONE) return loss;
  if (reduction == REDUCTION_SUM) return reduce_all(lower, DELTA_REDUCE_SUM, loss);
  if (all_count_one) return reduce_all(lower, DELTA_REDUCE_MEAN, loss);
  delta_tensor_id_t sum = reduce_all(lower, DELTA_REDUCE_SUM, loss);
  return delta_emit_binary(&lower->emit, DELTA_EXPR_DIV, sum, reduce_all(lower, DELTA_REDUCE_SUM, weight));
}

// Emits the loss operator on `scores` with the node's labels and class weights, and the reduction.
static delta_tensor_id_t emit_loss(delta_lower_t *lower, delta_core_op_t op, uint32_t output_count, const delta_class_loss_attrs_t *attrs,
                                   delta_tensor_id_t scores, loss_reduction_t reduction) {
  const delta_tensor_id_t inputs[3] = {scores, lower->inputs[1], delta_lower_input(lower, 2)};
  bool weighted = !delta_tensor_is_none(inputs[2]);
  delta_tensor_id_t outputs[3] = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  delta_emit_node(&lower->emit, op, attrs, sizeof *attrs, inputs, weighted ? 3 : 2, outputs, output_count, (1u << output_count) - 1u);
  return reduce_loss(lower, outputs[0], outputs[1], reduction, !weighted && !attrs->has_ignore);
}

delta_status_t delta_lower_softmax_cross_entropy_loss(delta_lower_t *lower) {
  delta_class_loss_attrs_t attrs;
  loss_reduction_t reduction;
  if (!read_loss(lower, &attrs, &reduction)) return DELTA_OK;
  bool wants_log = delta_lower_output_wanted(lower, 1);
  if (!wants_log && delta_lever_is_on(lower->options->levers, DELTA_LEVER_LOSS)) {
    lower->outputs[0] = emit_loss(lower, DELTA_CORE_CROSS_ENTROPY, 3, &attrs, lower->inputs[0], reduction);
    return DELTA_OK;
  }
  const delta_softmax_attrs_t softmax = {.axis = attrs.axis, .log = true};
  delta_tensor_id_t log_probabilities = DELTA_EMIT(&lower->emit, SOFTMAX, softmax, lower->inputs[0]);
  lower->outputs[0] = emit_loss(lower, DELTA_CORE_NLL, 2, &attrs, log_probabilities, reduction);
  if (wants_log) lower->outputs[1] = log_probabilities;
  return DELTA_OK;
}

delta_status_t delta_lower_negative_log_likelihood_loss(delta_lower_t *lower) {
  delta_class_loss_attrs_t attrs;
  loss_reduction_t reduction;
  if (!read_loss(lower, &attrs, &reduction)) return DELTA_OK;
  lower->outputs[0] = emit_loss(lower, DELTA_CORE_NLL, 2, &attrs, lower->inputs[0], reduction);
  return DELTA_OK;
}
