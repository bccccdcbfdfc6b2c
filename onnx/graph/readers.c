// Counting readers.
#include "onnx/graph/readers.h"

static void add(delta_readers_t *readers, delta_tensor_id_t tensor, delta_node_id_t node) {
  if (delta_tensor_is_none(tensor)) return;
  delta_tensor_readers_t *of_tensor = &readers->tensors[tensor.index];
  if (of_tensor->count < DELTA_READERS_KEPT) of_tensor->nodes[of_tensor->count] = node;
  of_tensor->count++;
}

delta_status_t delta_readers_init(delta_graph_t *graph, delta_readers_t *out_readers) {
  *out_readers = (delta_readers_t){.graph = graph};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(graph->allocator, graph->tensors.count, &out_readers->tensors));
  for (uint32_t n = 0; n < graph->nodes.count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    for (uint32_t k = 0; k < node->input_count; ++k) add(out_readers, node->inputs[k], (delta_node_id_t){n});
  }
  for (size_t k = 0; k < graph->outputs.count; ++k) add(out_readers, graph->outputs.items[k].tensor, DELTA_NODE_NONE);
  for (size_t k = 0; k < graph->states.count; ++k) add(out_readers, graph->states.items[k].next, DELTA_NODE_NONE);
  return DELTA_OK;
}

void delta_readers_deinit(delta_readers_t *readers) { delta_release(readers->graph->allocator, readers->tensors); }

delta_node_t *delta_readers_only(const delta_readers_t *readers, delta_tensor_id_t tensor) {
  const delta_tensor_readers_t *of_tensor = &readers->tensors[tensor.index];
  if (of_tensor->count != 1 || of_tensor->nodes[0].index == DELTA_NODE_NONE.index) return NULL;
  return &readers->graph->nodes.items[of_tensor->nodes[0].index];
}

delta_node_t *delta_readers_producer(const delta_readers_t *readers, delta_tensor_id_t tensor) {
  const delta_tensor_t *value = delta_graph_tensor(readers->graph, tensor);
  return value->role == DELTA_ROLE_COMPUTED ? &readers->graph->nodes.items[value->producer.index] : NULL;
}
