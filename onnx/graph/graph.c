// Graph: construction and access. Each add reserves everything it needs before it changes anything.
#include "onnx/graph/each.h"

#include <string.h>

delta_status_t delta_graph_create(delta_allocator_t allocator, delta_graph_t **out_graph) {
  delta_graph_t *graph = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &graph));
  graph->allocator = allocator;
  delta_region_init(&graph->region, allocator);
  delta_map_init(&graph->input_names, allocator);
  delta_map_init(&graph->output_names, allocator);
  delta_map_init(&graph->state_names, allocator);
  *out_graph = graph;
  return DELTA_OK;
}

void delta_graph_free(delta_graph_t *graph) {
  if (graph == NULL) return;
  const delta_allocator_t allocator = graph->allocator;
  delta_array_deinit(allocator, &graph->nodes);
  delta_array_deinit(allocator, &graph->tensors);
  delta_array_deinit(allocator, &graph->states);
  delta_array_deinit(allocator, &graph->inputs);
  delta_array_deinit(allocator, &graph->outputs);
  delta_map_deinit(&graph->input_names);
  delta_map_deinit(&graph->output_names);
  delta_map_deinit(&graph->state_names);
  delta_region_deinit(&graph->region);
  delta_release(allocator, graph);
}

const delta_tensor_t *delta_graph_tensor(const delta_graph_t *graph, delta_tensor_id_t id) { return &graph->tensors.items[id.index]; }

const delta_node_t *delta_graph_node(const delta_graph_t *graph, delta_node_id_t id) { return &graph->nodes.items[id.index]; }

static const delta_tensor_t *tensor_or_null(const delta_graph_t *graph, const delta_tensor_id_t *ids, uint32_t count, uint32_t k) {
  return k < count && !delta_tensor_is_none(ids[k]) ? delta_graph_tensor(graph, ids[k]) : NULL;
}

const delta_tensor_t *delta_node_input(const delta_graph_t *graph, const delta_node_t *node, uint32_t k) {
  return tensor_or_null(graph, node->inputs, node->input_count, k);
}

const delta_tensor_t *delta_node_output(const delta_graph_t *graph, const delta_node_t *node, uint32_t k) {
  return tensor_or_null(graph, node->outputs, node->output_count, k);
}

size_t delta_tensor_bytes(const delta_tensor_t *tensor) {
  return (size_t)delta_shape_count(&tensor->shape) * delta_dtype_bytes(tensor->dtype);
}

// Whether an input and an output of an EACH node are of one set.
static bool are_of_one_set(const delta_node_t *node, uint32_t in, uint32_t out) {
  const delta_each_attrs_t *attrs = node->attrs;
  uint32_t set;
  return delta_each_set_of_input(attrs, in, &set) && set == out / attrs->expr.output_count;
}

bool delta_node_may_overwrite(const delta_graph_t *graph, const delta_node_t *node, uint32_t in, uint32_t out) {
  const delta_tensor_t *source = delta_node_input(graph, node, in);
  const delta_tensor_t *target = delta_node_output(graph, node, out);
  const uint32_t flags = delta_core_op_info(node->op)->flags;
  const bool allowed = (flags & DELTA_CORE_FLAG_INPLACE) || ((flags & DELTA_CORE_FLAG_ADDS) && in == 2);
  if (source == NULL || target == NULL || !allowed) return false;
  if (node->op == DELTA_CORE_EACH && !are_of_one_set(node, in, out)) return false;
  return delta_shape_equal(&source->shape, &target->shape) && delta_dtype_bytes(source->dtype) == delta_dtype_bytes(target->dtype);
}

delta_status_t delta_graph_append_tensor(delta_graph_t *graph, const delta_tensor_t *tensor, delta_tensor_id_t *out_tensor) {
  if (graph->tensors.count >= DELTA_INDEX_NONE) return delta_status_make(UNSUPPORTED, "the graph has too many tensors");
  delta_tensor_t stored = *tensor;
  const delta_tensor_id_t id = {(uint32_t)graph->tensors.count};
  if (delta_tensor_is_none(stored.storage)) stored.storage = id;
  DELTA_RETURN_IF_ERROR(delta_array_push(graph->allocator, &graph->tensors, &stored));
  *out_tensor = id;
  return DELTA_OK;
}

delta_status_t delta_graph_append_node(delta_graph_t *graph, const delta_node_t *node, delta_node_id_t *out_node) {
  if (graph->nodes.count >= DELTA_INDEX_NONE) return delta_status_make(UNSUPPORTED, "the graph has too many nodes");
  DELTA_RETURN_IF_ERROR(delta_array_push(graph->allocator, &graph->nodes, node));
  *out_node = (delta_node_id_t){(uint32_t)graph->nodes.count - 1};
  return DELTA_OK;
}

// What adding an input or a state has in common: the checks, the copied name, its entry in `names`, the tensor.
static delta_status_t add_source(delta_graph_t *graph, const char *kind, delta_map_t *names, const char *name, uint32_t index,
                                 delta_tensor_t *source, delta_tensor_id_t *out_tensor) {
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&source->shape, delta_dtype_bytes(source->dtype), name));
  if (delta_map_find(&graph->input_names, name) != DELTA_MAP_NONE || delta_map_find(&graph->state_names, name) != DELTA_MAP_NONE) {
    return delta_status_make(MALFORMED, "%s '%s': another input or state has this name", kind, name);
  }
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&graph->region, name, strlen(name), &copy));
  source->name = copy;
  source->producer = DELTA_NODE_NONE;
  source->storage = DELTA_TENSOR_NONE;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(graph->allocator, &graph->tensors, 1));
  DELTA_RETURN_IF_ERROR(delta_map_set(names, name, index));
  return delta_graph_append_tensor(graph, source, out_tensor);
}

delta_status_t delta_graph_add_input(delta_graph_t *graph, const char *name, delta_dtype_t dtype, const delta_shape_t *shape,
                                     delta_tensor_id_t *out_tensor) {
  delta_tensor_t tensor = {.dtype = dtype, .shape = *shape, .role = DELTA_ROLE_INPUT, .state = DELTA_INDEX_NONE};
  DELTA_RETURN_IF_ERROR(delta_array_reserve(graph->allocator, &graph->inputs, 1));
  DELTA_RETURN_IF_ERROR(add_source(graph, "input", &graph->input_names, name, (uint32_t)graph->inputs.count, &tensor, out_tensor));
  return delta_array_push(graph->allocator, &graph->inputs, out_tensor);
}

delta_status_t delta_graph_add_output(delta_graph_t *graph, const char *name, delta_tensor_id_t tensor) {
  if (delta_tensor_is_none(tensor) || tensor.index >= graph->tensors.count) {
    return delta_status_make(INTERNAL, "output '%s': no such tensor", name);
  }
  if (delta_map_find(&graph->output_names, name) != DELTA_MAP_NONE) {
    return delta_status_make(MALFORMED, "output '%s': another output has this name", name);
  }
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&graph->region, name, strlen(name), &copy));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(graph->allocator, &graph->outputs, 1));
  DELTA_RETURN_IF_ERROR(delta_map_set(&graph->output_names, name, (uint32_t)graph->outputs.count));
  return delta_array_push(graph->allocator, &graph->outputs, (&(delta_graph_output_t){.name = copy, .tensor = tensor}));
}

delta_status_t delta_graph_add_state(delta_graph_t *graph, const delta_state_t *state, uint32_t *out_state) {
  delta_state_t stored = *state;
  const uint32_t index = (uint32_t)graph->states.count;
  delta_tensor_t tensor = {.dtype = state->dtype, .shape = state->shape, .role = DELTA_ROLE_STATE, .state = index};
  DELTA_RETURN_IF_ERROR(delta_array_reserve(graph->allocator, &graph->states, 1));
  DELTA_RETURN_IF_ERROR(add_source(graph, "state", &graph->state_names, state->name, index, &tensor, &stored.current));
  stored.name = tensor.name;
  stored.next = DELTA_TENSOR_NONE;
  *out_state = index;
  return delta_array_push(graph->allocator, &graph->states, &stored);
}

delta_status_t delta_graph_set_next(delta_graph_t *graph, uint32_t state, delta_tensor_id_t next) {
  if (state >= graph->states.count || delta_tensor_is_none(next) || next.index >= graph->tensors.count) {
    return delta_status_make(INTERNAL, "state %u: no such state, or no such tensor for its next value", state);
  }
  delta_state_t *target = &graph->states.items[state];
  delta_tensor_t *tensor = &graph->tensors.items[next.index];
  if (!delta_tensor_is_none(target->next)) return delta_status_make(INTERNAL, "state '%s': its next value is bound twice", target->name);
  if (tensor->role != DELTA_ROLE_COMPUTED || !delta_tensor_same(tensor->storage, next) || tensor->data != NULL ||
      tensor->state != DELTA_INDEX_NONE) {
    return delta_status_make(INTERNAL, "state '%s': its next value '%s' has no bytes of its own; bind a copy", target->name, tensor->name);
  }
  if (tensor->dtype != target->dtype || !delta_shape_equal(&tensor->shape, &target->shape)) {
    char wanted[DELTA_SHAPE_TEXT_BYTES], found[DELTA_SHAPE_TEXT_BYTES];
    return delta_status_make(INTERNAL, "state '%s' is %s %s, its next value is %s %s", target->name, delta_dtype_name(target->dtype),
                             delta_shape_text(&target->shape, wanted), delta_dtype_name(tensor->dtype),
                             delta_shape_text(&tensor->shape, found));
  }
  target->next = next;
  tensor->state = state;
  return DELTA_OK;
}

// DELTA_MAP_NONE and DELTA_INDEX_NONE are the same value.
uint32_t delta_graph_find_state(const delta_graph_t *graph, const char *name) { return delta_map_find(&graph->state_names, name); }

delta_tensor_id_t delta_graph_find_output(const delta_graph_t *graph, const char *name) {
  const uint32_t index = delta_map_find(&graph->output_names, name);
  return index == DELTA_MAP_NONE ? DELTA_TENSOR_NONE : graph->outputs.items[index].tensor;
}

delta_tensor_id_t delta_graph_find_input(const delta_graph_t *graph, const char *name) {
  const uint32_t index = delta_map_find(&graph->input_names, name);
  return index == DELTA_MAP_NONE ? DELTA_TENSOR_NONE : graph->inputs.items[index];
}
