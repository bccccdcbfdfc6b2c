// Relayout: rewrites a graph so that the tensors of each region lie in a layout of its own choice. Convolutions and poolings get it as an attribute, other
// nodes work on physical shapes, operands that lie the same way in every layout are views, and what crosses a border is converted once.
#ifndef DELTA_ONNX_GRAPH_RELAYOUT_H_
#define DELTA_ONNX_GRAPH_RELAYOUT_H_

#include "onnx/graph/layout_regions.h"

// layouts[r] is region r's. Tensors whose channels a layout's blocks do not divide stay plain. `out_region_of_node` (may be NULL) receives a list, owned by
// the caller, that gives for each node of the new graph the region it works for, conversions included, or DELTA_INDEX_NONE.
DELTA_MUST_USE delta_status_t delta_graph_relayout(const delta_graph_t *graph, const delta_layout_regions_t *regions,
                                                   const delta_layout_t *layouts, delta_allocator_t allocator, delta_graph_t **out_graph,
                                                   uint32_t **out_region_of_node);

#endif // DELTA_ONNX_GRAPH_RELAYOUT_H_
