// Virtual tensors: put together from parts (CONCAT) and never made; who reads one is given the parts. Their values, shapes and places in the graph are those of any
// tensor: only what plans and runs the graph sees the difference.
#ifndef DELTA_ONNX_GRAPH_VIRTUAL_H_
#define DELTA_ONNX_GRAPH_VIRTUAL_H_

#include "onnx/graph/graph.h"

// The CONCAT node of a virtual tensor, whose inputs are the parts; NULL for others.
const delta_node_t *delta_virtual_node(const delta_graph_t *graph, delta_tensor_id_t id);
// Whether a node reads a virtual tensor.
bool delta_reads_virtual(const delta_graph_t *graph, const delta_node_t *node);

// Marks the CONCATs whose readers are all operators that walk their inputs element by element or channel by channel. A device may then refuse some of these readers.
DELTA_MUST_USE delta_status_t delta_graph_mark_virtual(delta_graph_t *graph);
// Makes the virtual inputs of a node ordinary tensors again.
void delta_graph_unmark_virtual(delta_graph_t *graph, const delta_node_t *reader);

#endif // DELTA_ONNX_GRAPH_VIRTUAL_H_
