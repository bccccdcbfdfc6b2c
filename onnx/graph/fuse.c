// Fuse: decides on the forms of nodes, then writes the new graph.
#include "onnx/graph/fuse.h"

#include "onnx/graph/fuse_share.h"
#include "onnx/graph/fuse_state.h"

static delta_status_t decide(delta_fuse_t *fuse) {
  DELTA_RETURN_IF_ERROR(delta_fuse_producers(fuse));
  return delta_fuse_siblings(fuse);
}

static void emit(const delta_fuse_t *fuse, delta_rewrite_t *rewrite, uint32_t node) {
  const delta_fuse_form_t *form = fuse->forms[node];
  if (form != NULL && form->changed) {
    delta_fuse_emit(rewrite, &fuse->graph->nodes.items[fuse->named_after[node]], form);
  } else {
    delta_rewrite_copy_node(rewrite, &fuse->graph->nodes.items[node], UINT64_MAX);
  }
}

static delta_status_t write_graph(const delta_fuse_t *fuse, delta_graph_t **out_graph) {
  delta_rewrite_t rewrite;
  DELTA_RETURN_IF_ERROR(delta_rewrite_begin(&rewrite, fuse->graph, fuse->allocator));
  for (uint32_t i = 0; i < fuse->graph->nodes.count; ++i) {
    if (fuse->node_at[i] != DELTA_INDEX_NONE) emit(fuse, &rewrite, fuse->node_at[i]);
  }
  return delta_rewrite_finish(&rewrite, out_graph);
}

static delta_status_t fuse_nodes(const delta_graph_t *graph, delta_fuse_options_t options, delta_allocator_t allocator,
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

delta_status_t delta_graph_fuse(const delta_graph_t *graph, delta_fuse_options_t options, delta_allocator_t allocator,
                                delta_graph_t **out_graph) {
  delta_graph_t *fused = NULL, *shared = NULL;
  DELTA_RETURN_IF_ERROR(fuse_nodes(graph, options, allocator, &fused));
  const delta_status_t status = options.within_groups ? DELTA_OK : delta_fuse_share(fused, allocator, &shared);
  if (shared || status) {
    delta_graph_free(fused);
    fused = NULL;
  }
  if (!status) *out_graph = shared ? shared : fused;
  return status;
}
