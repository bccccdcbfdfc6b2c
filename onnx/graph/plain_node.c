// Layouts of a node's operands, by operator.
#include "onnx/graph/plain_node.h"

static bool is_pool(delta_core_op_t op) {
  return op == DELTA_CORE_MAX_POOL || op == DELTA_CORE_MAX_POOL_GRAD || op == DELTA_CORE_AVERAGE_POOL || op == DELTA_CORE_AVERAGE_POOL_GRAD;
}

// Which attribute speaks of an operand: of a convolution's x, of its y, or of neither (weights and bias).
typedef enum operand_side { SIDE_X, SIDE_Y, SIDE_PLAIN } operand_side_t;

static delta_layout_t layout_of(const delta_node_t *node, operand_side_t side) {
  if (is_pool(node->op)) return ((const delta_pool_attrs_t *)node->attrs)->layout;
  const delta_conv_attrs_t *attrs = node->attrs;
  return side == SIDE_X ? attrs->x_layout : side == SIDE_Y ? attrs->y_layout : DELTA_LAYOUT_PLAIN;
}

delta_layout_t delta_node_input_layout(const delta_node_t *node, uint32_t k) {
  if (is_pool(node->op)) return layout_of(node, SIDE_X);
  switch (node->op) {
    case DELTA_CORE_CONV:
      return layout_of(node, k == 0 ? SIDE_X : SIDE_PLAIN);
    case DELTA_CORE_CONV_DATA:
      return layout_of(node, k == 0 ? SIDE_Y : SIDE_PLAIN);
    case DELTA_CORE_CONV_WEIGHT:
      return layout_of(node, k == 0 ? SIDE_X : SIDE_Y);
    default:
      return DELTA_LAYOUT_PLAIN;
  }
}

delta_layout_t delta_node_output_layout(const delta_node_t *node, uint32_t k) {
  (void)k;
  if (is_pool(node->op)) return layout_of(node, SIDE_X);
  switch (node->op) {
    case DELTA_CORE_CONV:
      return layout_of(node, SIDE_Y);
    case DELTA_CORE_CONV_DATA:
      return layout_of(node, SIDE_X);
    default:
      return DELTA_LAYOUT_PLAIN;
  }
}

bool delta_node_has_layouts(const delta_node_t *node) {
  return delta_node_input_layout(node, 0) != DELTA_LAYOUT_PLAIN || delta_node_input_layout(node, 1) != DELTA_LAYOUT_PLAIN ||
         delta_node_output_layout(node, 0) != DELTA_LAYOUT_PLAIN;
}

int32_t delta_node_spatial(const delta_node_t *node) {
  return is_pool(node->op) ? ((const delta_pool_attrs_t *)node->attrs)->window.spatial
                           : ((const delta_conv_attrs_t *)node->attrs)->window.spatial;
}

static delta_status_t add_tensor(delta_plain_node_t *plain, const delta_graph_t *graph, delta_tensor_id_t id, delta_layout_t layout,
                                 delta_tensor_id_t *out_id) {
  *out_id = DELTA_TENSOR_NONE;
  if (delta_tensor_is_none(id)) return DELTA_OK;
  const delta_tensor_t *tensor = delta_graph_tensor(graph, id);
  delta_tensor_t *copy = &plain->tensors[plain->graph.tensors.count];
  *copy = *tensor;
  if (layout != DELTA_LAYOUT_PLAIN && !delta_layout_plain(layout, delta_node_spatial(&plain->node), &tensor->shape, &copy->shape)) {
    char text[DELTA_SHAPE_TEXT_BYTES];
    return delta_status_make(MALFORMED, "a tensor of shape %s does not lie in layout %s", delta_shape_text(&tensor->shape, text),
                             delta_layout_name(layout));
  }
  *out_id = (delta_tensor_id_t){(uint32_t)plain->graph.tensors.count++};
  return DELTA_OK;
}

delta_status_t delta_plain_node_init(delta_plain_node_t *plain, const delta_graph_t *graph, const delta_node_t *node, bool outputs) {
  *plain = (delta_plain_node_t){.node = *node};
  plain->graph.tensors.items = plain->tensors;
  plain->node.inputs = plain->inputs;
  plain->node.outputs = plain->outputs;
  for (uint32_t k = 0; k < node->input_count; ++k)
    DELTA_RETURN_IF_ERROR(add_tensor(plain, graph, node->inputs[k], delta_node_input_layout(node, k), &plain->inputs[k]));
  for (uint32_t k = 0; k < node->output_count; ++k) {
    plain->outputs[k] = DELTA_TENSOR_NONE;
    if (!outputs) continue;
    DELTA_RETURN_IF_ERROR(add_tensor(plain, graph, node->outputs[k], delta_node_output_layout(node, k), &plain->outputs[k]));
  }
  return DELTA_OK;
}
