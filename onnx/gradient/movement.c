// Gradients of operators that move elements by a fixed rule: each goes the other way.
#include "onnx/gradient/rule.h"

delta_status_t delta_gradient_view(const delta_gradient_args_t *args) {
  if (args->wanted[0]) args->input_gradients[0] = delta_emit_view(args->emit, args->output_gradients[0], delta_rule_input_shape(args, 0));
  return DELTA_OK;
}

delta_status_t delta_gradient_transpose(const delta_gradient_args_t *args) {
  const delta_transpose_attrs_t *attrs = args->node->attrs;
  if (!args->wanted[0]) return DELTA_OK;
  int32_t inverse[DELTA_MAX_RANK] = {0};
  for (int32_t d = 0; d < delta_rule_input_shape(args, 0)->rank; ++d) inverse[attrs->permutation[d]] = d;
  args->input_gradients[0] = delta_emit_transpose(args->emit, args->output_gradients[0], inverse);
  return DELTA_OK;
}

delta_status_t delta_gradient_slice(const delta_gradient_args_t *args) {
  const delta_slice_attrs_t *attrs = args->node->attrs;
  if (args->wanted[0]) args->input_gradients[0] = DELTA_EMIT(args->emit, SLICE_GRAD, *attrs, args->output_gradients[0]);
  return DELTA_OK;
}

delta_status_t delta_gradient_slice_grad(const delta_gradient_args_t *args) {
  const delta_slice_attrs_t *attrs = args->node->attrs;
  if (args->wanted[0]) args->input_gradients[0] = DELTA_EMIT(args->emit, SLICE, *attrs, args->output_gradients[0]);
  return DELTA_OK;
}

// The gradients of the parts side by side, with zeros for parts that lead nowhere.
delta_status_t delta_gradient_split(const delta_gradient_args_t *args) {
  const delta_split_attrs_t *attrs = args->node->attrs;
  delta_emit_t *emit = args->emit;
  if (!args->wanted[0]) return DELTA_OK;
  delta_tensor_id_t *parts = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(emit->graph->allocator, args->node->output_count, &parts));
  const delta_dtype_t dtype = delta_rule_input_dtype(args, 0);
  for (uint32_t k = 0; k < args->node->output_count; ++k) {
    delta_shape_t shape = *delta_rule_input_shape(args, 0);
    shape.dims[attrs->axis] = attrs->sizes[k];
    parts[k] = args->output_gradients[k];
    if (delta_tensor_is_none(parts[k])) parts[k] = delta_emit_fill(emit, dtype, &shape, 0.0);
  }
  args->input_gradients[0] = delta_emit_concat(emit, parts, args->node->output_count, attrs->axis);
  delta_release(emit->graph->allocator, parts);
  return DELTA_OK;
}

// Each input takes its range of the gradient: one split when all want theirs, single ranges otherwise.
delta_status_t delta_gradient_concat(const delta_gradient_args_t *args) {
  const delta_split_attrs_t *attrs = args->node->attrs;
  delta_emit_t *emit = args->emit;
  const uint32_t count = args->node->input_count;
  int64_t *sizes = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(emit->graph->allocator, count, &sizes));
  bool all = true;
  for (uint32_t k = 0; k < count; ++k) {
    sizes[k] = delta_rule_input_shape(args, k)->dims[attrs->axis];
    all = all && args->wanted[k];
  }
  if (all) delta_emit_split(emit, args->output_gradients[0], attrs->axis, sizes, count, args->input_gradients);
  int64_t begin = 0;
  for (uint32_t k = 0; k < count && !all; begin += sizes[k++]) {
    if (!args->wanted[k]) continue;
    args->input_gradients[k] = delta_emit_range(emit, args->output_gradients[0], attrs->axis, begin, begin + sizes[k]);
  }
  delta_release(emit->graph->allocator, sizes);
  return DELTA_OK;
}

delta_status_t delta_gradient_pad(const delta_gradient_args_t *args) {
  const delta_pad_attrs_t *attrs = args->node->attrs;
  if (args->wanted[0]) args->input_gradients[0] = DELTA_EMIT(args->emit, PAD_GRAD, *attrs, args->output_gradients[0]);
  return DELTA_OK;
}

delta_status_t delta_gradient_trilu(const delta_gradient_args_t *args) {
  const delta_trilu_attrs_t *attrs = args->node->attrs;
  if (args->wanted[0]) args->input_gradients[0] = DELTA_EMIT(args->emit, TRILU, *attrs, args->output_gradients[0]);
  return DELTA_OK;
}

// Element i is in the sums at and after i, so its gradient sums those from the other end.
delta_status_t delta_gradient_cumsum(const delta_gradient_args_t *args) {
  delta_cumsum_attrs_t attrs = *(const delta_cumsum_attrs_t *)args->node->attrs;
  attrs.reverse = !attrs.reverse;
  if (args->wanted[0]) args->input_gradients[0] = DELTA_EMIT(args->emit, CUMSUM, attrs, args->output_gradients[0]);
  return DELTA_OK;
}
