// The full walk over a graph's links. Passes promise these; tests and debug builds look.
#include <inttypes.h>

#include "onnx/graph/infer.h"

static delta_status_t fault(const delta_node_t *node, const char *text, uint32_t k) {
  return delta_status_make(INTERNAL, "graph: node '%s' (%s): %s %" PRIu32, node->name, delta_core_op_info(node->op)->name, text, k);
}

static bool known_id(const delta_graph_t *graph, delta_tensor_id_t id) { return id.index < graph->tensors.count; }

static delta_status_t check_links(const delta_graph_t *graph, uint32_t index) {
  const delta_node_t *node = &graph->nodes.items[index];
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (delta_tensor_is_none(node->inputs[k])) continue;
    if (!known_id(graph, node->inputs[k])) return fault(node, "unknown tensor as input", k);
    const delta_tensor_t *input = delta_graph_tensor(graph, node->inputs[k]);
    if (input->role == DELTA_ROLE_COMPUTED && input->producer.index >= index) return fault(node, "runs before what computes input", k);
  }
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (delta_tensor_is_none(node->outputs[k])) {
      if (!delta_core_output_optional(node->op, k)) return fault(node, "leaves out required output", k);
      continue;
    }
    if (!known_id(graph, node->outputs[k])) return fault(node, "unknown tensor as output", k);
    const delta_tensor_t *output = delta_graph_tensor(graph, node->outputs[k]);
    if (output->role != DELTA_ROLE_COMPUTED || output->producer.index != index || output->producer_output != k) {
      return fault(node, "is not the producer of output", k);
    }
    const delta_tensor_id_t storage = node->op == DELTA_CORE_VIEW ? graph->tensors.items[node->inputs[0].index].storage : node->outputs[k];
    if (!delta_tensor_same(output->storage, storage)) return fault(node, "wrong storage of output", k);
    const void *data = node->op == DELTA_CORE_CONSTANT ? ((const delta_constant_attrs_t *)node->attrs)->data : NULL;
    if (output->data != data) return fault(node, "wrong data of output", k);
  }
  return DELTA_OK;
}

static delta_status_t check_inferred(const delta_graph_t *graph, const delta_node_t *node, delta_dtype_t *types, delta_shape_t *shapes) {
  const delta_infer_args_t args = {.graph = graph, .node = node, .types = types, .shapes = shapes};
  DELTA_RETURN_IF_ERROR(delta_infer_node(&args));
  for (uint32_t k = 0; k < node->output_count; ++k) {
    const delta_tensor_t *output = delta_node_output(graph, node, k);
    if (output != NULL && (output->dtype != types[k] || !delta_shape_equal(&output->shape, &shapes[k]))) {
      return fault(node, "other type or shape than inferred for output", k);
    }
  }
  return DELTA_OK;
}

static delta_status_t check_node(const delta_graph_t *graph, uint32_t index) {
  const delta_node_t *node = &graph->nodes.items[index];
  if ((unsigned)node->op >= DELTA_CORE_OP_COUNT) return delta_status_make(INTERNAL, "graph: node %" PRIu32 " has no operator", index);
  DELTA_RETURN_IF_ERROR(check_links(graph, index));
  delta_dtype_t *types = NULL;
  delta_shape_t *shapes = NULL;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(graph->allocator, node->output_count, &types), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(graph->allocator, node->output_count, &shapes), cleanup);
  status = check_inferred(graph, node, types, shapes);
cleanup:
  delta_release(graph->allocator, shapes);
  delta_release(graph->allocator, types);
  return status;
}

// Roles other than COMPUTED stand in exactly one list, at the place they say; computed tensors are their producer's.
static delta_status_t check_tensor(const delta_graph_t *graph, uint32_t index) {
  const delta_tensor_t *tensor = &graph->tensors.items[index];
  bool sound = known_id(graph, tensor->storage);
  if (tensor->role == DELTA_ROLE_COMPUTED) {
    sound = sound && tensor->producer.index < graph->nodes.count;
    if (sound) {
      const delta_node_t *node = delta_graph_node(graph, tensor->producer);
      sound = tensor->producer_output < node->output_count && node->outputs[tensor->producer_output].index == index;
    }
    if (sound && tensor->state != DELTA_INDEX_NONE) {
      sound = tensor->state < graph->states.count && graph->states.items[tensor->state].next.index == index;
    }
  } else if (tensor->role == DELTA_ROLE_STATE) {
    sound = sound && tensor->state < graph->states.count && graph->states.items[tensor->state].current.index == index;
  } else {
    sound = sound && delta_graph_find_input(graph, tensor->name).index == index;
  }
  if (sound && tensor->role != DELTA_ROLE_COMPUTED) sound = tensor->storage.index == index && tensor->data == NULL;
  if (sound) return DELTA_OK;
  return delta_status_make(INTERNAL, "graph: tensor %" PRIu32 " '%s' has broken links", index, tensor->name);
}

static delta_status_t check_state(const delta_graph_t *graph, uint32_t index) {
  const delta_state_t *state = &graph->states.items[index];
  const delta_tensor_id_t ids[] = {state->current, state->next};
  for (size_t k = 0; k < 2; ++k) {
    if (delta_tensor_is_none(ids[k])) continue;
    const delta_tensor_t *tensor = known_id(graph, ids[k]) ? delta_graph_tensor(graph, ids[k]) : NULL;
    const delta_tensor_role_t role = k == 0 ? DELTA_ROLE_STATE : DELTA_ROLE_COMPUTED;
    if (tensor == NULL || tensor->role != role || tensor->state != index || tensor->dtype != state->dtype ||
        !delta_shape_equal(&tensor->shape, &state->shape)) {
      return delta_status_make(INTERNAL, "graph: state '%s': its %s tensor is of another role, type or shape", state->name,
                               k == 0 ? "current" : "next");
    }
  }
  return DELTA_OK;
}

delta_status_t delta_graph_check(const delta_graph_t *graph) {
  for (uint32_t i = 0; i < graph->nodes.count; ++i) DELTA_RETURN_IF_ERROR(check_node(graph, i));
  for (uint32_t i = 0; i < graph->tensors.count; ++i) DELTA_RETURN_IF_ERROR(check_tensor(graph, i));
  for (uint32_t i = 0; i < graph->states.count; ++i) DELTA_RETURN_IF_ERROR(check_state(graph, i));
  for (uint32_t i = 0; i < graph->inputs.count; ++i) {
    if (!known_id(graph, graph->inputs.items[i]) || delta_graph_tensor(graph, graph->inputs.items[i])->role != DELTA_ROLE_INPUT) {
      return delta_status_make(INTERNAL, "graph: input %" PRIu32 " is no input tensor", i);
    }
  }
  for (uint32_t i = 0; i < graph->outputs.count; ++i) {
    if (!known_id(graph, graph->outputs.items[i].tensor)) {
      return delta_status_make(INTERNAL, "graph: output '%s' is no tensor", graph->outputs.items[i].name);
    }
  }
  return DELTA_OK;
}
