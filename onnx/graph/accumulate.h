// Accumulate: products that are only added to something are added to it as they are made, so that they are never stored apart.
#ifndef DELTA_ONNX_GRAPH_ACCUMULATE_H_
#define DELTA_ONNX_GRAPH_ACCUMULATE_H_

#include "onnx/graph/graph.h"

// What a product is added to: a value for each column, which are the biases of layers, or a tensor of its own shape.
typedef enum delta_accumulate_kind { DELTA_ACCUMULATE_BIASES, DELTA_ACCUMULATE_SUMS } delta_accumulate_kind_t;

// A copy of the graph in which an addition of a MATMUL that nobody else reads is the MATMUL's own input. Additions of phase UPDATE stay: a state's new
// value comes from a POINTWISE node. Sums are rounded once less, so bits change.
DELTA_MUST_USE delta_status_t delta_graph_accumulate(delta_graph_t *graph, delta_accumulate_kind_t kind, delta_allocator_t allocator,
                                                     delta_graph_t **out_graph);

#endif // DELTA_ONNX_GRAPH_ACCUMULATE_H_
