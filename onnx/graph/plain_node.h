// Plain node: a node whose attributes name layouts, seen with the plain shapes its operands mean. Inference and the reference kernels work on that.
#ifndef DELTA_ONNX_GRAPH_PLAIN_NODE_H_
#define DELTA_ONNX_GRAPH_PLAIN_NODE_H_

#include "onnx/graph/graph.h"

enum { DELTA_PLAIN_NODE_OPERANDS = 3 }; // inputs or outputs of an operator with layouts, at most

// The layout of input or output k.
delta_layout_t delta_node_input_layout(const delta_node_t *node, uint32_t k);
delta_layout_t delta_node_output_layout(const delta_node_t *node, uint32_t k);
bool delta_node_has_layouts(const delta_node_t *node);
// Spatial dimensions of a node that may have layouts.
int32_t delta_node_spatial(const delta_node_t *node);

// The node between tensors of its own: inputs first, then outputs.
typedef struct delta_plain_node {
  delta_graph_t graph; // its tensors are those below; it owns nothing
  delta_node_t node;
  delta_tensor_t tensors[2 * DELTA_PLAIN_NODE_OPERANDS];
  delta_tensor_id_t inputs[DELTA_PLAIN_NODE_OPERANDS], outputs[DELTA_PLAIN_NODE_OPERANDS];
} delta_plain_node_t;

// Fills `plain` for a node with layouts; what it points at stays inside it, so it must not move. With `outputs` their tensors are there too, as in
// `graph`. MALFORMED names a tensor that cannot lie in its layout.
DELTA_MUST_USE delta_status_t delta_plain_node_init(delta_plain_node_t *plain, const delta_graph_t *graph, const delta_node_t *node,
                                                    bool outputs);

#endif // DELTA_ONNX_GRAPH_PLAIN_NODE_H_
