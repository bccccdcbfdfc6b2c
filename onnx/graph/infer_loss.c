// Inference of losses over classes.
#include <inttypes.h>

#include "onnx/graph/infer.h"

// The shape of labels for scores of this shape: without the class axis.
static delta_shape_t without_axis(const delta_shape_t *shape, int32_t axis) {
  delta_shape_t result = {.rank = shape->rank - 1};
  for (int32_t d = 0; d < result.rank; ++d) result.dims[d] = shape->dims[d < axis ? d : d + 1];
  return result;
}

static delta_status_t check_scores(const delta_class_loss_attrs_t *attrs, const delta_shape_t *scores) {
  DELTA_RETURN_IF_ERROR(delta_infer_axis("axis", attrs->axis, scores->rank));
  if (scores->dims[attrs->axis] == attrs->classes) return DELTA_OK;
  return delta_status_make(MALFORMED, "the loss is for %" PRId64 " class%s, but axis %" PRId32 " of the scores has %" PRId64,
                           attrs->classes, attrs->classes == 1 ? "" : "es", attrs->axis, scores->dims[attrs->axis]);
}

static delta_status_t check_labels(const delta_tensor_t *labels, const delta_shape_t *wanted) {
  DELTA_RETURN_IF_ERROR(delta_infer_index("labels", labels));
  return delta_infer_same_shape("labels", &labels->shape, wanted);
}

static delta_status_t check_weights(const delta_infer_args_t *args, uint32_t k, int64_t classes, delta_dtype_t dtype) {
  const delta_tensor_t *weights = delta_infer_input(args, k);
  if (weights == NULL) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("class weights", weights, dtype));
  return delta_infer_same_shape("class weights", &weights->shape, &(delta_shape_t){.rank = 1, .dims = {classes}});
}

// Forward losses: scores, labels, weights? -> per-label outputs.
static delta_status_t infer_forward(const delta_infer_args_t *args) {
  const delta_class_loss_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_class_loss_attrs_t);
  const delta_tensor_t *scores = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_float("scores", scores));
  DELTA_RETURN_IF_ERROR(check_scores(attrs, &scores->shape));
  const delta_shape_t shape = without_axis(&scores->shape, attrs->axis);
  DELTA_RETURN_IF_ERROR(check_labels(delta_infer_input(args, 1), &shape));
  DELTA_RETURN_IF_ERROR(check_weights(args, 2, attrs->classes, scores->dtype));
  for (uint32_t k = 0; k < args->node->output_count; ++k) delta_infer_set(args, k, scores->dtype, &shape);
  return DELTA_OK;
}
delta_status_t delta_infer_cross_entropy(const delta_infer_args_t *args) { return infer_forward(args); }
delta_status_t delta_infer_nll(const delta_infer_args_t *args) { return infer_forward(args); }

delta_status_t delta_infer_cross_entropy_grad(const delta_infer_args_t *args) {
  const delta_class_loss_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_class_loss_attrs_t);
  const delta_tensor_t *gradient = delta_infer_input(args, 0), *logits = delta_infer_input(args, 1), *log_sum = delta_infer_input(args, 2);
  DELTA_RETURN_IF_ERROR(delta_infer_float("logits", logits));
  DELTA_RETURN_IF_ERROR(check_scores(attrs, &logits->shape));
  const delta_shape_t shape = without_axis(&logits->shape, attrs->axis);
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("gradient", gradient, logits->dtype));
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("gradient", &gradient->shape, &shape));
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("log_sum", log_sum, logits->dtype));
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("log_sum", &log_sum->shape, &shape));
  DELTA_RETURN_IF_ERROR(check_labels(delta_infer_input(args, 3), &shape));
  DELTA_RETURN_IF_ERROR(check_weights(args, 4, attrs->classes, logits->dtype));
  delta_infer_set(args, 0, logits->dtype, &logits->shape);
  return DELTA_OK;
}

delta_status_t delta_infer_nll_grad(const delta_infer_args_t *args) {
  const delta_class_loss_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_class_loss_attrs_t);
  const delta_tensor_t *gradient = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_float("gradient", gradient));
  DELTA_RETURN_IF_ERROR(check_labels(delta_infer_input(args, 1), &gradient->shape));
  DELTA_RETURN_IF_ERROR(check_weights(args, 2, attrs->classes, gradient->dtype));
  DELTA_RETURN_IF_ERROR(delta_infer_axis("axis", attrs->axis, gradient->shape.rank + 1));
  if (gradient->shape.rank == DELTA_MAX_RANK) return delta_status_make(UNSUPPORTED, "scores of more than %d dimensions", DELTA_MAX_RANK);
  delta_shape_t shape = {.rank = gradient->shape.rank + 1};
  for (int32_t d = 0; d < shape.rank; ++d) {
    shape.dims[d] = d == attrs->axis ? attrs->classes : gradient->shape.dims[d < attrs->axis ? d : d - 1];
  }
  delta_infer_set(args, 0, gradient->dtype, &shape);
  return DELTA_OK;
}
