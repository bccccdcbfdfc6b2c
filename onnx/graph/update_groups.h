// Update groups: the updates of many small states as one node (EACH), so that a device launches a few of them instead of hundreds.
//
// A group's gradients live until its last one is there. So only what is small beside the largest tensor is grouped: the peak rises by a part of 1 in DELTA_UPDATE_GROUP_PARTS at
// most. What is grouped does not depend on a budget. Every element gets the same bits as before.
#ifndef DELTA_ONNX_GRAPH_UPDATE_GROUPS_H_
#define DELTA_ONNX_GRAPH_UPDATE_GROUPS_H_

#include "onnx/graph/graph.h"

// The largest tensor's bytes over those of one state for each set of a group, all together; and the most bytes these may have, and sets.
enum { DELTA_UPDATE_GROUP_PARTS = 256, DELTA_UPDATE_GROUP_BYTES = 128 << 10, DELTA_UPDATE_GROUP_SETS = 64 };

// A copy of the graph with groups; the last pass over it.
DELTA_MUST_USE delta_status_t delta_graph_group_updates(delta_graph_t *graph, delta_allocator_t allocator, delta_graph_t **out_graph);

#endif // DELTA_ONNX_GRAPH_UPDATE_GROUPS_H_
