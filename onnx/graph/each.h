// Each: the sets of an EACH node, each as the POINTWISE node that it stands for.
#ifndef DELTA_ONNX_GRAPH_EACH_H_
#define DELTA_ONNX_GRAPH_EACH_H_

#include "onnx/graph/graph.h"

uint32_t delta_each_input_count(const delta_each_attrs_t *attrs); // of the node
// Which input of the node is input k of the expression in a set.
uint32_t delta_each_input(const delta_each_attrs_t *attrs, uint32_t set, uint32_t k);
// The set whose own input `in` of the node is; false when it is shared.
bool delta_each_set_of_input(const delta_each_attrs_t *attrs, uint32_t in, uint32_t *out_set);

// A POINTWISE node between tensors of its own. What it points at stays inside it, so it must not move.
typedef struct delta_each_set {
  delta_graph_t graph; // its tensors are those below; it owns nothing
  delta_node_t node;
  delta_pointwise_attrs_t attrs;
  delta_tensor_t tensors[DELTA_EXPR_MAX_INPUTS + DELTA_EXPR_MAX_OUTPUTS];
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS], outputs[DELTA_EXPR_MAX_OUTPUTS];
} delta_each_set_t;
// `node` must have passed inference.
void delta_each_set_init(delta_each_set_t *set, const delta_graph_t *graph, const delta_node_t *node, uint32_t index);

#endif // DELTA_ONNX_GRAPH_EACH_H_
