// Fuse: decides on the forms of nodes, then writes the new graph.
#include "onnx/graph/fuse.h"

#include "onnx/graph/fuse_state.h"

static delta_status_t decide(delta_fuse_t *fuse) {
  DELTA_RETURN_IF_ERROR(delta_fuse_producers(fuse));
  return delta_fuse_siblings(fuse);
}

static void emit_at(const delta_fuse_t *fuse, delta_rewrite_t *rewrite, uint32_t position, uint32_t node) {
  const delta_fuse_form_t *form = fuse->forms[node];
  if (form != NULL && form->changed) {
    delta_fuse_emit(rewrite, &fuse->graph->nodes.items[position], form);
  } else {
    delta_rewrite_copy_node(rewrite, &fuse->graph->nodes.items[node], UINT64_MAX);
  }
}

static delta_status_t write_graph(const delta_fuse_t *fuse, delta_graph_t **out_graph) {
  const uint32_t count = (uint32_t)fuse->graph->nodes.count;
  uint32_t *node_at = NULL; // the node that is emitted at a position
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(fuse->allocator, count, &node_at));
  for (uint32_t i = 0; i < count; ++i) node_at[i] = DELTA_INDEX_NONE;
  for (uint32_t i = 0; i < count; ++i) {
    if (delta_fuse_alive(fuse, i)) node_at[fuse->position[i]] = i;
  }
  delta_rewrite_t rewrite;
  delta_status_t status = delta_rewrite_begin(&rewrite, fuse->graph, fuse->allocator);
  if (status == DELTA_OK) {
    for (uint32_t i = 0; i < count; ++i) {
      if (node_at[i] != DELTA_INDEX_NONE) emit_at(fuse, &rewrite, i, node_at[i]);
    }
    status = delta_rewrite_finish(&rewrite, out_graph);
  }
  delta_release(fuse->allocator, node_at);
  return status;
}

delta_status_t delta_graph_fuse(const delta_graph_t *graph, delta_fuse_options_t options, delta_allocator_t allocator,
                                delta_graph_t **out_graph) {
  delta_fuse_t fuse;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, delta_fuse_init(&fuse, graph, options, allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, decide(&fuse), cleanup);
  status = write_graph(&fuse, out_graph);
cleanup:
  delta_fuse_deinit(&fuse);
  return status;
}
