// Attention: recognises it in exports, written as a product of queries and keys, scales, masks, a softmax, dropout and a product with the values.
//
// Exporters differ in where the scale stands (before or after the mask, on queries and keys, halved by a root on each), in masks (added, chosen by Where,
// through other shapes of the leading dimensions), in a guard of Where and IsNaN behind the softmax, and in the transposes around it all. What is not
// understood stays as it is.
#ifndef DELTA_ONNX_ATTENTION_H_
#define DELTA_ONNX_ATTENTION_H_

#include "onnx/graph/graph.h"

// A copy of the graph with ATTENTION nodes in the place of what computes the same. Nodes that only those read are gone.
DELTA_MUST_USE delta_status_t delta_attention_recognise(delta_graph_t *graph, delta_allocator_t allocator, delta_graph_t **out_graph);

#endif // DELTA_ONNX_ATTENTION_H_
