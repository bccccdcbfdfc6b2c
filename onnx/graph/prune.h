// Prune: drops what leads neither to an output nor to a state's next value.
#ifndef DELTA_ONNX_GRAPH_PRUNE_H_
#define DELTA_ONNX_GRAPH_PRUNE_H_

#include "onnx/graph/graph.h"

// A graph without dead nodes, and without optional outputs that nobody reads. All inputs and states stay. Ids are numbered anew.
DELTA_MUST_USE delta_status_t delta_graph_prune(const delta_graph_t *graph, delta_allocator_t allocator, delta_graph_t **out_graph);

#endif // DELTA_ONNX_GRAPH_PRUNE_H_
