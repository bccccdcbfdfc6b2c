// Access: what kernels of every kind share in reaching the elements of dense tensors.
#ifndef DELTA_ONNX_GRAPH_ACCESS_H_
#define DELTA_ONNX_GRAPH_ACCESS_H_

#include "onnx/graph/graph.h"

// A shape seen from one axis: outer * size * inner elements.
typedef struct delta_lanes {
  int64_t outer, size, inner;
} delta_lanes_t;
static inline delta_lanes_t delta_lanes_of(const delta_shape_t *shape, int32_t axis) {
  return (delta_lanes_t){delta_shape_count_range(shape, 0, axis), shape->dims[axis], delta_shape_count_range(shape, axis + 1, shape->rank)};
}

// Where the elements of a box lie in a tensor, in elements.
typedef struct delta_strided {
  int64_t start;
  int64_t strides[DELTA_MAX_RANK];
} delta_strided_t;
delta_strided_t delta_strided_dense(const delta_shape_t *shape); // a tensor of its own
// Where the elements of a slice lie in the whole.
delta_strided_t delta_strided_slice(const delta_slice_attrs_t *attrs, const delta_shape_t *whole);

// INVALID_ARGUMENT for an index operator: element `position` of index tensor `input` is outside a dimension of `size`.
DELTA_MUST_USE delta_status_t delta_index_outside(const delta_node_t *node, uint32_t input, int64_t position, int64_t index, int64_t size);

#endif // DELTA_ONNX_GRAPH_ACCESS_H_
