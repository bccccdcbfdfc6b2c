// Index arithmetic of attention.
#include "onnx/graph/attention_dims.h"

delta_attention_dims_t delta_attention_dims(const delta_attention_attrs_t *attrs, const delta_shape_t *query, const delta_shape_t *key,
                                            const delta_shape_t *value) {
  const int32_t rank = query->rank, sequence = attrs->heads_inside ? rank - 3 : rank - 2;
  delta_attention_dims_t dims = {.heads = attrs->heads_inside ? query->dims[rank - 2] : 1,
                                 .queries = query->dims[sequence],
                                 .keys = key->dims[sequence],
                                 .size = query->dims[rank - 1],
                                 .value_size = value->dims[rank - 1],
                                 .scores = *query};
  if (attrs->heads_inside) dims.scores.dims[rank - 3] = dims.heads;
  dims.scores.dims[rank - 2] = dims.queries;
  dims.scores.dims[rank - 1] = dims.keys;
  dims.matrices = delta_shape_count_range(&dims.scores, 0, rank - 2);
  return dims;
}

delta_attention_dims_t delta_attention_dims_of(const delta_graph_t *graph, const delta_node_t *node) {
  const uint32_t first = node->op == DELTA_CORE_ATTENTION ? 0 : DELTA_ATTENTION_GRAD_INPUTS;
  return delta_attention_dims(node->attrs, &delta_node_input(graph, node, first + DELTA_ATTENTION_QUERY)->shape,
                              &delta_node_input(graph, node, first + DELTA_ATTENTION_KEY)->shape,
                              &delta_node_input(graph, node, first + DELTA_ATTENTION_VALUE)->shape);
}

delta_attention_mask_t delta_attention_mask(const delta_attention_dims_t *dims, const delta_shape_t *mask) {
  delta_attention_mask_t result;
  delta_shape_broadcast_strides(mask, &dims->scores, result.strides);
  result.row = result.strides[dims->scores.rank - 2];
  result.column = result.strides[dims->scores.rank - 1];
  return result;
}

int64_t delta_attention_mask_start(const delta_attention_dims_t *dims, const delta_attention_mask_t *mask, int64_t matrix) {
  int64_t start = 0;
  for (int32_t d = dims->scores.rank - 3; d >= 0; --d) {
    start += matrix % dims->scores.dims[d] * mask->strides[d];
    matrix /= dims->scores.dims[d];
  }
  return start;
}
