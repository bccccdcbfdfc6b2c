// Attributes of parts, by operator.
#include "onnx/parts/attrs.h"

#include <string.h>

#include "onnx/graph/attention_dims.h"

// A node, and the part of it that is made.
typedef struct part_of_node {
  const delta_part_assignment_t *assignment;
  const delta_node_t *node;
  const delta_part_node_t *made;
  uint32_t part;
} part_of_node_t;

static int64_t part_begin(const part_of_node_t *of, int64_t size) { return delta_part_begin(of->assignment, of->part, size); }

static void cut(const part_of_node_t *of, delta_shape_t *shape, int32_t axis) {
  const int64_t size = shape->dims[axis];
  shape->dims[axis] = delta_part_begin(of->assignment, of->part + 1, size) - part_begin(of, size);
}

// How many elements stand before the part in a tensor that is split along `axis`.
static int64_t elements_before(const part_of_node_t *of, const delta_shape_t *shape, int32_t axis) {
  return part_begin(of, shape->dims[axis]) * delta_shape_count_range(shape, axis + 1, shape->rank);
}

// The axis of the shape to which a node's inputs are broadcast: the results', or of those that are summed the one that an input is split along.
static int32_t broadcast_axis(const part_of_node_t *of, int32_t rank) {
  if (of->made->outputs[0] >= 0) return of->made->outputs[0];
  for (uint32_t k = 0; k < of->node->input_count; ++k) {
    if (of->made->inputs[k] < 0) continue;
    return of->made->inputs[k] + rank - delta_node_input(of->assignment->graph, of->node, k)->shape.rank;
  }
  return 0;
}

static void cut_reduce(const part_of_node_t *of, delta_reduce_attrs_t *attrs) {
  cut(of, &attrs->shape, broadcast_axis(of, attrs->shape.rank));
  // The mean is taken of the whole sum.
  for (uint32_t k = 0; of->made->outputs[0] == DELTA_PART_SUM && k < of->node->output_count; ++k) {
    if (attrs->kinds[k] == DELTA_REDUCE_MEAN) attrs->kinds[k] = DELTA_REDUCE_SUM;
  }
}

static void cut_attrs(const part_of_node_t *of, delta_part_attrs_t *attrs) {
  const delta_graph_t *graph = of->assignment->graph;
  const int32_t axis = of->made->outputs[0];
  switch (of->node->op) {
    case DELTA_CORE_VIEW:
      cut(of, &attrs->view.shape, axis);
      break;
    case DELTA_CORE_POINTWISE:
      cut(of, &attrs->pointwise.shape, axis);
      break;
    case DELTA_CORE_REDUCE:
      cut_reduce(of, &attrs->reduce);
      break;
    case DELTA_CORE_DROPOUT:
      attrs->dropout.first += elements_before(of, &delta_node_input(graph, of->node, 0)->shape, axis);
      break;
    case DELTA_CORE_ATTENTION:
    case DELTA_CORE_ATTENTION_GRAD: {
      const delta_attention_dims_t dims = delta_attention_dims_of(graph, of->node);
      if (attrs->attention.ratio > 0) attrs->attention.first += elements_before(of, &dims.scores, axis);
      break;
    }
    case DELTA_CORE_SLICE:
    case DELTA_CORE_SLICE_GRAD:
      cut(of, &attrs->slice.shape, axis);
      cut(of, &attrs->slice.data_shape, axis);
      break;
    case DELTA_CORE_PAD:
    case DELTA_CORE_PAD_GRAD:
      if (attrs->pad.data_shape.rank > 0) cut(of, &attrs->pad.data_shape, axis);
      break;
    case DELTA_CORE_GATHER_GRAD:
      if (axis >= 0) cut(of, &attrs->gather.data_shape, axis); // else of a table, which is whole
      break;
    case DELTA_CORE_RESIZE:
    case DELTA_CORE_RESIZE_GRAD:
      cut(of, &attrs->resize.out_shape, axis);
      cut(of, &attrs->resize.data_shape, axis);
      break;
    default:
      break;
  }
}

delta_status_t delta_part_attrs_make(const delta_part_assignment_t *assignment, delta_rewrite_t *rewrite, const delta_node_t *node,
                                     uint32_t part, delta_part_attrs_t *storage, const void **out_attrs) {
  const void *attrs = NULL;
  DELTA_RETURN_IF_ERROR(delta_rewrite_copy_attrs(rewrite, node, &storage->pointing, &attrs));
  if (node->attrs_bytes > sizeof *storage) {
    *out_attrs = attrs; // of an operator without shapes in them
    return DELTA_OK;
  }
  memmove(storage, attrs, node->attrs_bytes);
  const part_of_node_t of = {assignment, node, &assignment->nodes[node - assignment->graph->nodes.items], part};
  cut_attrs(&of, storage);
  *out_attrs = storage;
  return DELTA_OK;
}
