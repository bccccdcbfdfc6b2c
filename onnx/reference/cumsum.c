// CUMSUM by reference: running sums along one axis.
#include "onnx/reference/element.h"

delta_status_t delta_reference_cumsum(const delta_reference_args_t *args) {
  const delta_cumsum_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0);
  bool real = delta_dtype_is_float(x->dtype);
  delta_lanes_t lanes = delta_lanes_of(&x->shape, attrs->axis);
  for (int64_t lane = 0; lane < lanes.outer * lanes.inner; ++lane) {
    int64_t start = lane / lanes.inner * lanes.size * lanes.inner + lane % lanes.inner;
    delta_number_t sum = delta_number_from(real, 0);
    for (int64_t i = 0; i < lanes.size; ++i) {
      int64_t at = start + (attrs->reverse ? lanes.size - 1 - i : i) * lanes.inner;
      delta_number_t next = delta_number_add(real, sum, delta_number_load(args->inputs[0], x->dtype, at));
      delta_number_store(args->outputs[0], x->dtype, at, real, attrs->exclusive ? sum : next);
      sum = next;
    }
  }
  return DELTA_OK;
}
