// Access: dense tensors, and the message about an index that leads outside.
#include "onnx/graph/access.h"

delta_strided_t delta_strided_dense(const delta_shape_t *shape) {
  delta_strided_t layout = {0};
  delta_shape_strides(shape, layout.strides);
  return layout;
}

delta_strided_t delta_strided_slice(const delta_slice_attrs_t *attrs, const delta_shape_t *whole) {
  delta_strided_t layout = delta_strided_dense(whole);
  for (int32_t d = 0; d < whole->rank; ++d) {
    layout.start += attrs->starts[d] * layout.strides[d];
    layout.strides[d] *= attrs->steps[d];
  }
  return layout;
}

delta_status_t delta_index_outside(const delta_node_t *node, uint32_t input, int64_t position, int64_t index, int64_t size) {
  return delta_status_make(INVALID_ARGUMENT, "node '%s' (%s): index %lld at position %lld of input %u is outside a dimension of %lld",
                           node->name, delta_core_op_info(node->op)->name, (long long)index, (long long)position, (unsigned)input,
                           (long long)size);
}
