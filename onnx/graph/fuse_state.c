// Fusion's view of the graph: made once, kept in step by the passes.
#include "onnx/graph/fuse_state.h"

static delta_status_t allocate_tables(delta_fuse_t *fuse) {
  const size_t nodes = fuse->graph->nodes.count, tensors = fuse->graph->tensors.count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(fuse->allocator, nodes, &fuse->forms));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(fuse->allocator, nodes, &fuse->position));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(fuse->allocator, nodes, &fuse->node_at));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(fuse->allocator, nodes, &fuse->owner));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(fuse->allocator, nodes, &fuse->named_after));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(fuse->allocator, tensors, &fuse->last_use));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(fuse->allocator, tensors, &fuse->pinned));
  return DELTA_ALLOCATE(fuse->allocator, tensors, &fuse->first_reader);
}

static delta_status_t add_node(delta_fuse_t *fuse, uint32_t index) {
  const delta_node_t *node = &fuse->graph->nodes.items[index];
  fuse->position[index] = fuse->owner[index] = fuse->node_at[index] = fuse->named_after[index] = index;
  delta_fuse_form_t form;
  if (delta_fuse_form_of(node, &form)) {
    void *copy = NULL;
    DELTA_RETURN_IF_ERROR(delta_region_copy(&fuse->region, &form, 1, sizeof form, &copy));
    fuse->forms[index] = copy;
  }
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (delta_tensor_is_none(node->inputs[k])) continue;
    DELTA_RETURN_IF_ERROR(delta_fuse_add_reader(fuse, node->inputs[k], index));
    fuse->last_use[delta_graph_tensor(fuse->graph, node->inputs[k])->storage.index] = index;
  }
  return DELTA_OK;
}

static void pin(delta_fuse_t *fuse, delta_tensor_id_t id) {
  fuse->pinned[id.index] = true;
  fuse->last_use[delta_graph_tensor(fuse->graph, id)->storage.index] = DELTA_INDEX_NONE;
}

static delta_status_t fill_tables(delta_fuse_t *fuse) {
  const delta_graph_t *graph = fuse->graph;
  for (size_t i = 0; i < graph->tensors.count; ++i) fuse->first_reader[i] = DELTA_INDEX_NONE;
  for (uint32_t i = 0; i < graph->nodes.count; ++i) DELTA_RETURN_IF_ERROR(add_node(fuse, i));
  for (size_t i = 0; i < graph->outputs.count; ++i) pin(fuse, graph->outputs.items[i].tensor);
  for (size_t i = 0; i < graph->states.count; ++i) {
    if (!delta_tensor_is_none(graph->states.items[i].next)) pin(fuse, graph->states.items[i].next);
  }
  return DELTA_OK;
}

delta_status_t delta_fuse_init(delta_fuse_t *fuse, const delta_graph_t *graph, delta_fuse_options_t options, delta_allocator_t allocator) {
  *fuse = (delta_fuse_t){.graph = graph, .options = options, .allocator = allocator};
  delta_region_init(&fuse->region, allocator);
  DELTA_RETURN_IF_ERROR(allocate_tables(fuse));
  return fill_tables(fuse);
}

void delta_fuse_deinit(delta_fuse_t *fuse) {
  delta_array_deinit(fuse->allocator, &fuse->readers);
  delta_release(fuse->allocator, fuse->first_reader);
  delta_release(fuse->allocator, fuse->pinned);
  delta_release(fuse->allocator, fuse->last_use);
  delta_release(fuse->allocator, fuse->owner);
  delta_release(fuse->allocator, fuse->node_at);
  delta_release(fuse->allocator, fuse->named_after);
  delta_release(fuse->allocator, fuse->position);
  delta_release(fuse->allocator, fuse->forms);
  delta_region_deinit(&fuse->region);
}

delta_status_t delta_fuse_add_reader(delta_fuse_t *fuse, delta_tensor_id_t tensor, uint32_t node) {
  const delta_fuse_reader_t reader = {.node = node, .next = fuse->first_reader[tensor.index]};
  DELTA_RETURN_IF_ERROR(delta_array_push(fuse->allocator, &fuse->readers, &reader));
  fuse->first_reader[tensor.index] = (uint32_t)fuse->readers.count - 1;
  return DELTA_OK;
}

uint32_t delta_fuse_next_reader(const delta_fuse_t *fuse, uint32_t *cursor) {
  while (*cursor != DELTA_INDEX_NONE) {
    const delta_fuse_reader_t *reader = &fuse->readers.items[*cursor];
    *cursor = reader->next;
    const uint32_t node = fuse->owner[reader->node];
    if (delta_fuse_alive(fuse, node)) return node;
  }
  return DELTA_INDEX_NONE;
}
