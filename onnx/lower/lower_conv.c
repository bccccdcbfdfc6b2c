// Lowering of convolution.
#include "onnx/lower/window.h"

delta_status_t delta_lower_conv(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  delta_tensor_id_t w = delta_lower_required(lower, 1);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  const delta_shape_t *weight = delta_emit_shape(&lower->emit, w);
  if (delta_emit_ok(&lower->emit) && weight->rank != shape.rank) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the weight has rank %d, the input %d; they must be equal", weight->rank,
                           shape.rank);
  }
  delta_conv_attrs_t attrs = {.group = delta_lower_int(lower, "group", 1)};
  if (!delta_lower_window(lower, &shape, weight->dims + 2, &attrs.window)) return DELTA_OK;
  for (int32_t d = 0; d < attrs.window.spatial; ++d) attrs.data_spatial[d] = shape.dims[d + 2];
  const delta_tensor_id_t inputs[3] = {x, w, delta_lower_input(lower, 2)};
  lower->outputs[0] = delta_emit_one(&lower->emit, DELTA_CORE_CONV, &attrs, sizeof attrs, inputs, delta_tensor_is_none(inputs[2]) ? 2 : 3);
  return DELTA_OK;
}
