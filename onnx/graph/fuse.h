// Fuse: merges pointwise work, so that fewer tensors are stored and read.
//
// Note [Fusion rules]
// What is fused evaluates to the same bits as before: an intermediate may only disappear when nothing was rounded by storing it.
// - A POINTWISE node is absorbed by the POINTWISE and REDUCE nodes that read it when its stored type is the type it computes in, or bool, both
//   compute in one type, both run over one shape (or the producer gives one value everywhere), and the limits of expressions allow it.
// - With one reader that is always done, except from forward to backward when more bytes would have to be kept for the backward pass.
//   With several readers all must absorb it, fewer bytes must be read, stored and kept, and computing it more than once must be cheap beside the passes over memory that
//   it saves.
// - Nodes over one shape of which one reads only what the other reads too, but for small things, become one node with several outputs, if they stand close together
//   (or reduce, so that their outputs are small). Small things that are made between them are made before.
// - Graph outputs and states' next values stay. Nothing that reads a state moves behind the state's update, and no update moves forward.
#ifndef DELTA_ONNX_GRAPH_FUSE_H_
#define DELTA_ONNX_GRAPH_FUSE_H_

#include "onnx/graph/graph.h"

typedef struct delta_fuse_options {
  bool within_groups; // only nodes of one group: what an eager framework runs as one operator
} delta_fuse_options_t;

// A fused copy of the graph. Dead nodes count as readers: prune first. A fused node has name, group and phase of its last part. Time is linear in
// the nodes.
DELTA_MUST_USE delta_status_t delta_graph_fuse(const delta_graph_t *graph, delta_fuse_options_t options, delta_allocator_t allocator,
                                               delta_graph_t **out_graph);

#endif // DELTA_ONNX_GRAPH_FUSE_H_
