// Rewrite: how a pass makes a new graph from another. It starts with the same inputs and states; the pass then copies nodes, or emits others in
// their place and binds the results; finishing binds outputs and the states' next values.
//
//   DELTA_RETURN_IF_ERROR(delta_rewrite_begin(&rewrite, in, allocator));
//   for (size_t i = 0; i < in->nodes.count; ++i) delta_rewrite_copy_node(&rewrite, &in->nodes.items[i], UINT64_MAX);
//   return delta_rewrite_finish(&rewrite, out_graph);
//
// Errors stick in `emit`, as with emit itself.
#ifndef DELTA_ONNX_GRAPH_REWRITE_H_
#define DELTA_ONNX_GRAPH_REWRITE_H_

#include "onnx/graph/emit.h"

typedef struct delta_rewrite {
  const delta_graph_t *from; // Borrowed; outlives this.
  delta_graph_t *to;         // Owned until finished.
  delta_emit_t emit;         // into `to`; folding is off
  delta_tensor_id_t *map;    // Owned. from's ids -> to's ids; NONE: not made
  delta_map_t constants;     // where the bytes of a constant went, so that constants that share them still do
  DELTA_ARRAY(const void *) constant_data;
} delta_rewrite_t;

DELTA_MUST_USE delta_status_t delta_rewrite_begin(delta_rewrite_t *rewrite, const delta_graph_t *from, delta_allocator_t allocator);
// Adds the outputs and the states' next values and hands the graph over. Releases the rest, and on failure (also of an earlier emit) the graph.
DELTA_MUST_USE delta_status_t delta_rewrite_finish(delta_rewrite_t *rewrite, delta_graph_t **out_graph);

// The new tensor for an old one; NONE for NONE. INTERNAL sticks when it was not made.
delta_tensor_id_t delta_rewrite_tensor(delta_rewrite_t *rewrite, delta_tensor_id_t from);
// Says which new tensor stands for an old one.
void delta_rewrite_bind(delta_rewrite_t *rewrite, delta_tensor_id_t from, delta_tensor_id_t to);
// Sets name, phase and group of the nodes emitted next to those of `node`.
void delta_rewrite_follow(delta_rewrite_t *rewrite, const delta_node_t *node);
// The attributes of a node of `from` with all they point to copied into the new graph. `storage` is their place where they point to something.
typedef union delta_rewrite_attrs {
  delta_constant_attrs_t constant;
  delta_pointwise_attrs_t pointwise;
  delta_each_attrs_t each;
  delta_reduce_attrs_t reduce;
  delta_split_attrs_t split;
} delta_rewrite_attrs_t;
DELTA_MUST_USE delta_status_t delta_rewrite_copy_attrs(delta_rewrite_t *rewrite, const delta_node_t *node, delta_rewrite_attrs_t *storage,
                                                       const void **out_attrs);
// Copies a node of `from` with all it points to. Of its optional outputs only those in `wanted` (bit k) are kept.
void delta_rewrite_copy_node(delta_rewrite_t *rewrite, const delta_node_t *node, uint64_t wanted);

#endif // DELTA_ONNX_GRAPH_REWRITE_H_
