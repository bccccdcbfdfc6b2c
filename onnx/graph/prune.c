// Prune: marks backwards from what is wanted, then copies what is marked.
#include "onnx/graph/prune.h"

#include "onnx/graph/rewrite.h"

static bool node_live(const delta_node_t *node, const bool *live) {
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (!delta_tensor_is_none(node->outputs[k]) && live[node->outputs[k].index]) return true;
  }
  return false;
}

static void mark_live(const delta_graph_t *graph, bool *live) {
  for (size_t i = 0; i < graph->outputs.count; ++i) live[graph->outputs.items[i].tensor.index] = true;
  for (size_t i = 0; i < graph->states.count; ++i) {
    if (!delta_tensor_is_none(graph->states.items[i].next)) live[graph->states.items[i].next.index] = true;
  }
  for (size_t i = graph->nodes.count; i-- > 0;) {
    const delta_node_t *node = &graph->nodes.items[i];
    if (!node_live(node, live)) continue;
    for (uint32_t k = 0; k < node->input_count; ++k) {
      if (!delta_tensor_is_none(node->inputs[k])) live[node->inputs[k].index] = true;
    }
  }
}

static uint64_t live_outputs(const delta_node_t *node, const bool *live) {
  uint64_t wanted = 0;
  for (uint32_t k = 0; k < node->output_count && k < 64; ++k) {
    if (!delta_tensor_is_none(node->outputs[k]) && live[node->outputs[k].index]) wanted |= UINT64_C(1) << k;
  }
  return wanted;
}

delta_status_t delta_graph_prune(const delta_graph_t *graph, delta_allocator_t allocator, delta_graph_t **out_graph) {
  bool *live = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, graph->tensors.count, &live));
  mark_live(graph, live);
  delta_rewrite_t rewrite;
  delta_status_t status = delta_rewrite_begin(&rewrite, graph, allocator);
  if (status == DELTA_OK) {
    for (size_t i = 0; i < graph->nodes.count; ++i) {
      const delta_node_t *node = &graph->nodes.items[i];
      if (node_live(node, live)) delta_rewrite_copy_node(&rewrite, node, live_outputs(node, live));
    }
    status = delta_rewrite_finish(&rewrite, out_graph);
  }
  delta_release(allocator, live);
  return status;
}
