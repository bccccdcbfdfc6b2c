// Emits of views, matrix products and what moves elements; each gives its input back where nothing moves.
#include <inttypes.h>

#include "onnx/graph/emit.h"

delta_tensor_id_t delta_emit_view(delta_emit_t *emit, delta_tensor_id_t x, const delta_shape_t *shape) {
  if (!delta_emit_ok(emit)) return DELTA_TENSOR_NONE;
  if (!delta_tensor_is_none(x) && delta_shape_equal(delta_emit_shape(emit, x), shape)) return x;
  const delta_view_attrs_t attrs = {.shape = *shape};
  return DELTA_EMIT(emit, VIEW, attrs, x);
}

// Whether a node exchanges the last two dimensions and nothing else.
static bool exchanges_matrix(const delta_node_t *node, int32_t rank) {
  if (node->op != DELTA_CORE_TRANSPOSE || rank < 2) return false;
  const delta_transpose_attrs_t *attrs = node->attrs;
  for (int32_t d = 0; d < rank - 2; ++d) {
    if (attrs->permutation[d] != d) return false;
  }
  return attrs->permutation[rank - 2] == rank - 1 && attrs->permutation[rank - 1] == rank - 2;
}

// An operand that is the transposed copy of another matrix is that matrix, read the other way: exporters write a linear layer's weight so.
static delta_tensor_id_t absorb_transpose(const delta_emit_t *emit, delta_tensor_id_t operand, bool *transpose) {
  const delta_tensor_t *tensor = delta_emit_tensor(emit, operand);
  if (!delta_emit_ok(emit) || delta_tensor_is_none(operand) || tensor->role != DELTA_ROLE_COMPUTED) return operand;
  const delta_node_t *node = delta_graph_node(emit->graph, tensor->producer);
  if (!exchanges_matrix(node, tensor->shape.rank)) return operand;
  *transpose = !*transpose;
  return node->inputs[0];
}

delta_tensor_id_t delta_emit_matmul(delta_emit_t *emit, delta_tensor_id_t a, delta_tensor_id_t b, bool transpose_a, bool transpose_b) {
  return delta_emit_matmul_add(emit, a, b, transpose_a, transpose_b, DELTA_TENSOR_NONE);
}

delta_tensor_id_t delta_emit_matmul_add(delta_emit_t *emit, delta_tensor_id_t a, delta_tensor_id_t b, bool transpose_a, bool transpose_b,
                                        delta_tensor_id_t c) {
  delta_matmul_attrs_t attrs = {.transpose_a = transpose_a, .transpose_b = transpose_b};
  a = absorb_transpose(emit, a, &attrs.transpose_a);
  b = absorb_transpose(emit, b, &attrs.transpose_b);
  const delta_tensor_id_t inputs[3] = {a, b, c};
  return delta_emit_one(emit, DELTA_CORE_MATMUL, &attrs, sizeof attrs, inputs, delta_tensor_is_none(c) ? 2 : 3);
}

// Whether the dimensions that are not 1 keep their order, so that the bytes do too. The permutation is known to be one.
static bool keeps_bytes(const delta_shape_t *shape, const int32_t *permutation) {
  int32_t last = -1;
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (shape->dims[permutation[d]] == 1) continue;
    if (permutation[d] < last) return false;
    last = permutation[d];
  }
  return true;
}

static bool is_permutation(const int32_t *permutation, int32_t rank) {
  uint32_t seen = 0;
  for (int32_t d = 0; d < rank; ++d) {
    if (permutation[d] < 0 || permutation[d] >= rank) return false;
    seen |= UINT32_C(1) << permutation[d];
  }
  return seen == (UINT32_C(1) << rank) - 1;
}

delta_tensor_id_t delta_emit_transpose(delta_emit_t *emit, delta_tensor_id_t x, const int32_t *permutation) {
  const delta_shape_t from = *delta_emit_shape(emit, x);
  delta_shape_t to = {.rank = from.rank};
  delta_transpose_attrs_t attrs = {0};
  for (int32_t d = 0; d < from.rank; ++d) attrs.permutation[d] = permutation[d];
  // What is no permutation goes to the node, whose inference says so.
  if (!is_permutation(permutation, from.rank) || !keeps_bytes(&from, permutation)) return DELTA_EMIT(emit, TRANSPOSE, attrs, x);
  for (int32_t d = 0; d < from.rank; ++d) to.dims[d] = from.dims[permutation[d]];
  return delta_emit_view(emit, x, &to);
}

delta_tensor_id_t delta_emit_concat(delta_emit_t *emit, const delta_tensor_id_t *parts, uint32_t count, int32_t axis) {
  if (count == 1) return parts[0];
  const delta_split_attrs_t attrs = {.axis = axis};
  return delta_emit_one(emit, DELTA_CORE_CONCAT, &attrs, sizeof attrs, parts, count);
}

void delta_emit_split(delta_emit_t *emit, delta_tensor_id_t x, int32_t axis, const int64_t *sizes, uint32_t count,
                      delta_tensor_id_t *outputs) {
  for (uint32_t k = 0; k < count; ++k) outputs[k] = DELTA_TENSOR_NONE;
  if (!delta_emit_ok(emit)) return;
  const delta_shape_t *shape = delta_emit_shape(emit, x);
  if (count == 1 && axis >= 0 && axis < shape->rank && sizes[0] == shape->dims[axis]) {
    outputs[0] = x;
    return;
  }
  void *copy = NULL;
  const delta_status_t status = delta_region_copy(&emit->graph->region, sizes, count, sizeof *sizes, &copy);
  if (status) {
    delta_emit_fail(emit, status);
    return;
  }
  const delta_split_attrs_t attrs = {.axis = axis, .sizes = copy};
  delta_emit_node(emit, DELTA_CORE_SPLIT, &attrs, sizeof attrs, &x, 1, outputs, count, 0);
}

delta_tensor_id_t delta_emit_range(delta_emit_t *emit, delta_tensor_id_t x, int32_t axis, int64_t begin, int64_t end) {
  if (!delta_emit_ok(emit)) return DELTA_TENSOR_NONE;
  const delta_shape_t shape = *delta_emit_shape(emit, x);
  if (axis < 0 || axis >= shape.rank || begin < 0 || end < begin || end > shape.dims[axis]) {
    return delta_emit_fail(emit, delta_status_make(MALFORMED, "node '%s': range [%" PRId64 ", %" PRId64 ") of axis %" PRId32 " of '%s'",
                                                   emit->name, begin, end, axis, delta_emit_tensor(emit, x)->name));
  }
  if (begin == 0 && end == shape.dims[axis]) return x;
  delta_slice_attrs_t attrs = {.shape = shape, .data_shape = shape};
  for (int32_t d = 0; d < shape.rank; ++d) attrs.steps[d] = 1;
  attrs.shape.dims[axis] = end - begin;
  attrs.starts[axis] = begin;
  return DELTA_EMIT(emit, SLICE, attrs, x);
}
