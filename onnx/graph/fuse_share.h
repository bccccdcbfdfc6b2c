// Sharing: what several nodes compute from the same two large tensors is computed once, so that both can go early.
#ifndef DELTA_ONNX_GRAPH_FUSE_SHARE_H_
#define DELTA_ONNX_GRAPH_FUSE_SHARE_H_

#include "onnx/graph/graph.h"

// A copy of the graph with shared values, which have the same bits; NULL: there are none.
DELTA_MUST_USE delta_status_t delta_fuse_share(const delta_graph_t *graph, delta_allocator_t allocator, delta_graph_t **out_graph);

#endif // DELTA_ONNX_GRAPH_FUSE_SHARE_H_
