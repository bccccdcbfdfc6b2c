// Virtual tensors: which can be.
#include "onnx/graph/virtual.h"

const delta_node_t *delta_virtual_node(const delta_graph_t *graph, delta_tensor_id_t id) {
  if (delta_tensor_is_none(id)) return NULL;
  const delta_tensor_t *tensor = delta_graph_tensor(graph, id);
  if (tensor->role != DELTA_ROLE_COMPUTED || tensor->producer.index >= graph->nodes.count) return NULL;
  const delta_node_t *node = delta_graph_node(graph, tensor->producer);
  return node->is_virtual ? node : NULL;
}

bool delta_reads_virtual(const delta_graph_t *graph, const delta_node_t *node) {
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (delta_virtual_node(graph, node->inputs[k])) return true;
  }
  return false;
}

static bool may_read(const delta_node_t *reader) {
  return reader->op == DELTA_CORE_POINTWISE || reader->op == DELTA_CORE_REDUCE || reader->op == DELTA_CORE_MOMENTS;
}

// Whether a node's parts may stand for its output, as far as it can tell itself.
static bool may_be_virtual(const delta_graph_t *graph, const delta_node_t *node) {
  if (node->op != DELTA_CORE_CONCAT || node->input_count < 2) return false;
  if (delta_node_output(graph, node, 0)->state != DELTA_INDEX_NONE) return false;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (delta_virtual_node(graph, node->inputs[k]) || delta_shape_count(&delta_node_input(graph, node, k)->shape) == 0) return false;
  }
  return true;
}

delta_status_t delta_graph_mark_virtual(delta_graph_t *graph) {
  bool *is_read = NULL, *is_needed = NULL; // by tensor: by someone; whole
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(graph->allocator, 2 * graph->tensors.count, &is_read));
  is_needed = is_read + graph->tensors.count;
  for (size_t i = 0; i < graph->outputs.count; ++i) is_needed[graph->outputs.items[i].tensor.index] = true;
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    for (uint32_t k = 0; k < node->input_count; ++k) {
      if (!delta_tensor_is_none(node->inputs[k])) (may_read(node) ? is_read : is_needed)[node->inputs[k].index] = true;
    }
  }
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    delta_node_t *node = &graph->nodes.items[n];
    if (!may_be_virtual(graph, node)) continue;
    node->is_virtual = is_read[node->outputs[0].index] && !is_needed[node->outputs[0].index];
  }
  delta_release(graph->allocator, is_read);
  return DELTA_OK;
}

void delta_graph_unmark_virtual(delta_graph_t *graph, const delta_node_t *reader) {
  for (uint32_t k = 0; k < reader->input_count; ++k) {
    const delta_node_t *node = delta_virtual_node(graph, reader->inputs[k]);
    if (node) graph->nodes.items[node - graph->nodes.items].is_virtual = false;
  }
}
