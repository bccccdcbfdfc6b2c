// Problem of a graph: storages become tensors, nodes that work become steps. The only file of the planning side that reads graphs.
//
// Class of a tensor, for reports: states by their kind (accumulators count as gradients, counters as other); what the caller feeds is an input; what
// phases forward and loss compute, and backward values that only other backward nodes read, are activations; backward values that the update phase
// reads are gradients; what the update phase computes, and constants, are other; a state's new value is what the state is.
#include "base/checked.h"
#include "onnx/graph/virtual.h"
#include "plans/plan.h"
#include "plans/problem.h"

typedef struct problem_builder {
  const delta_graph_t *graph;
  const delta_problem_graph_options_t *options;
  delta_problem_t *problem;
  uint32_t *tensor_of_storage; // by graph tensor
} problem_builder_t;

static uint32_t storage_index(const delta_graph_t *graph, delta_tensor_id_t tensor) {
  return delta_graph_tensor(graph, tensor)->storage.index;
}

static delta_tensor_class_t class_of_tensor(const delta_graph_t *graph, const delta_tensor_t *tensor) {
  if (tensor->role == DELTA_ROLE_INPUT) return DELTA_CLASS_INPUTS;
  if (tensor->role == DELTA_ROLE_STATE) return delta_class_of_state(graph->states.items[tensor->state].kind);
  const delta_node_t *producer = delta_graph_node(graph, tensor->producer);
  const bool is_other = producer->op == DELTA_CORE_CONSTANT || producer->phase == DELTA_PHASE_UPDATE;
  return is_other ? DELTA_CLASS_OTHER : DELTA_CLASS_ACTIVATIONS;
}

static delta_status_t copy_name(problem_builder_t *builder, const char *name, const char **out_name) {
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_format(&builder->problem->region, &copy, "%s", name));
  *out_name = copy;
  return DELTA_OK;
}

static delta_status_t add_tensor(problem_builder_t *builder, const char *name, size_t data_bytes, uint32_t flags, delta_tensor_class_t kind,
                                 uint32_t *out_index) {
  delta_problem_tensor_t tensor = {.flags = flags, .kind = kind, .becomes_state = DELTA_PROBLEM_NONE};
  DELTA_RETURN_IF_ERROR(copy_name(builder, name, &tensor.name));
  if (!delta_problem_buffer_bytes(data_bytes, builder->options->alignment_bytes, &tensor.size_bytes)) {
    return delta_status_make(UNSUPPORTED, "tensor '%s': %zu bytes are more than memory can address", name, data_bytes);
  }
  *out_index = builder->problem->tensor_count;
  builder->problem->tensors[builder->problem->tensor_count++] = tensor;
  return DELTA_OK;
}

static delta_status_t add_storages(problem_builder_t *builder) {
  const delta_graph_t *graph = builder->graph;
  for (uint32_t i = 0; i < graph->tensors.count; ++i) {
    const delta_tensor_t *tensor = &graph->tensors.items[i];
    builder->tensor_of_storage[i] = DELTA_PROBLEM_NONE;
    if (tensor->storage.index != i || delta_virtual_node(graph, (delta_tensor_id_t){i})) continue;
    const char *name = tensor->role == DELTA_ROLE_STATE ? graph->states.items[tensor->state].name : tensor->name;
    uint32_t flags = 0;
    if (tensor->role == DELTA_ROLE_STATE) flags |= DELTA_TENSOR_STATE;
    if (tensor->role == DELTA_ROLE_INPUT) flags |= DELTA_TENSOR_INPUT;
    DELTA_RETURN_IF_ERROR(add_tensor(builder, name ? name : "(unnamed)", delta_tensor_bytes(tensor), flags, class_of_tensor(graph, tensor),
                                     &builder->tensor_of_storage[i]));
  }
  for (uint32_t i = 0; i < graph->tensors.count; ++i) {
    builder->tensor_of_storage[i] = builder->tensor_of_storage[graph->tensors.items[i].storage.index];
  }
  for (size_t i = 0; i < graph->outputs.count; ++i) {
    builder->problem->tensors[builder->tensor_of_storage[graph->outputs.items[i].tensor.index]].flags |= DELTA_TENSOR_OUTPUT;
  }
  return DELTA_OK;
}

// Binds a state's new value to the state. A state that the program writes without reading gets a tensor here.
static delta_status_t bind_state(problem_builder_t *builder, const delta_state_t *state) {
  const delta_graph_t *graph = builder->graph;
  if (delta_tensor_is_none(state->next)) return DELTA_OK;
  const uint32_t next = storage_index(graph, state->next);
  delta_problem_tensor_t *tensor = &builder->problem->tensors[builder->tensor_of_storage[next]];
  if (graph->tensors.items[next].role != DELTA_ROLE_COMPUTED || tensor->becomes_state != DELTA_PROBLEM_NONE) {
    return delta_status_make(INTERNAL, "state '%s': its new value '%s' is not a value of its own", state->name, tensor->name);
  }
  uint32_t current;
  if (!delta_tensor_is_none(state->current)) {
    current = builder->tensor_of_storage[state->current.index];
  } else {
    const size_t data_bytes = (size_t)delta_shape_count(&state->shape) * delta_dtype_bytes(state->dtype);
    DELTA_RETURN_IF_ERROR(add_tensor(builder, state->name, data_bytes, DELTA_TENSOR_STATE, delta_class_of_state(state->kind), &current));
  }
  tensor->becomes_state = current;
  tensor->kind = delta_class_of_state(state->kind);
  return DELTA_OK;
}

// Adds a tensor to a list unless it is there.
static void add_once(uint32_t *items, uint32_t *inout_count, uint32_t tensor) {
  for (uint32_t k = 0; k < *inout_count; ++k) {
    if (items[k] == tensor) return;
  }
  items[(*inout_count)++] = tensor;
}

// Of a virtual tensor its parts.
static delta_status_t list_tensors(problem_builder_t *builder, const delta_tensor_id_t *ids, uint32_t id_count, uint32_t **out_items,
                                   uint32_t *out_count) {
  size_t most = id_count;
  for (uint32_t k = 0; k < id_count; ++k) {
    const delta_node_t *parts = delta_virtual_node(builder->graph, ids[k]);
    most += parts ? parts->input_count : 0;
  }
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&builder->problem->region, most, out_items));
  *out_count = 0;
  for (uint32_t k = 0; k < id_count; ++k) {
    const delta_node_t *parts = delta_virtual_node(builder->graph, ids[k]);
    for (uint32_t p = 0; parts && p < parts->input_count; ++p)
      add_once(*out_items, out_count, builder->tensor_of_storage[parts->inputs[p].index]);
    if (!parts && !delta_tensor_is_none(ids[k])) add_once(*out_items, out_count, builder->tensor_of_storage[ids[k].index]);
  }
  return DELTA_OK;
}

// Whether a storage is a part of a virtual tensor that the node reads.
static bool is_part(const problem_builder_t *builder, const delta_node_t *node, uint32_t tensor) {
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_node_t *parts = delta_virtual_node(builder->graph, node->inputs[k]);
    for (uint32_t p = 0; parts && p < parts->input_count; ++p) {
      if (builder->tensor_of_storage[parts->inputs[p].index] == tensor) return true;
    }
  }
  return false;
}

// Whether output `out` may have the bytes of storage `tensor`: every input that lies there must allow it, since one may be a view that is read in another
// order. False when no input lies there.
static bool may_overwrite_storage(const problem_builder_t *builder, const delta_node_t *node, uint32_t tensor, uint32_t out) {
  bool found = false;
  if (is_part(builder, node, tensor)) return false;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (delta_tensor_is_none(node->inputs[k]) || builder->tensor_of_storage[node->inputs[k].index] != tensor) continue;
    if (!delta_node_may_overwrite(builder->graph, node, k, out)) return false;
    found = true;
  }
  return found;
}

// The problem tensor of output `out`; false when that is left out.
static bool find_output(const problem_builder_t *builder, const delta_node_t *node, uint32_t out, uint32_t *out_tensor) {
  if (delta_tensor_is_none(node->outputs[out])) return false;
  *out_tensor = builder->tensor_of_storage[node->outputs[out].index];
  return true;
}

// A step that writes a state while it reads its old value does so element by element, or not at all.
static delta_status_t check_update(const problem_builder_t *builder, const delta_node_t *node, const delta_problem_step_t *step) {
  for (uint32_t out = 0; out < node->output_count; ++out) {
    uint32_t tensor;
    if (!find_output(builder, node, out, &tensor)) continue;
    const uint32_t state = builder->problem->tensors[tensor].becomes_state;
    if (state == DELTA_PROBLEM_NONE) continue;
    for (uint32_t k = 0; k < step->input_count; ++k) {
      if (step->inputs[k] != state || may_overwrite_storage(builder, node, state, out)) continue;
      return delta_status_make(INTERNAL, "node '%s' reads state '%s' in another order than it writes it", node->name,
                               builder->problem->tensors[state].name);
    }
  }
  return DELTA_OK;
}

static delta_status_t list_inplace_pairs(problem_builder_t *builder, const delta_node_t *node, delta_problem_step_t *step) {
  const delta_problem_tensor_t *tensors = builder->problem->tensors;
  const size_t most = (size_t)step->input_count * step->output_count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&builder->problem->region, most, &step->inplace));
  for (uint32_t out = 0; out < node->output_count; ++out) {
    uint32_t output;
    if (!find_output(builder, node, out, &output)) continue;
    for (uint32_t k = 0; k < step->input_count; ++k) {
      const delta_problem_tensor_t *input = &tensors[step->inputs[k]];
      const bool is_update = tensors[output].becomes_state == step->inputs[k];
      const bool has_state = delta_problem_tensor_is_state(input) || delta_problem_tensor_is_state(&tensors[output]);
      if ((has_state && !is_update) || (input->flags & DELTA_TENSOR_OUTPUT)) continue;
      if (!may_overwrite_storage(builder, node, step->inputs[k], out)) continue;
      step->inplace[step->inplace_count++] = (delta_inplace_pair_t){.input = step->inputs[k], .output = output};
    }
  }
  return DELTA_OK;
}

// Whether the tensors of a list may lie one behind another: each a storage of its own, of which all but the last end where the next can begin.
static bool may_lie_in_row(const problem_builder_t *builder, const delta_tensor_id_t *ids, uint32_t count, uint32_t banned_flags) {
  for (uint32_t k = 0; k < count; ++k) {
    if (delta_tensor_is_none(ids[k])) return false;
    const delta_problem_tensor_t *tensor = &builder->problem->tensors[builder->tensor_of_storage[ids[k].index]];
    const size_t data_bytes = delta_tensor_bytes(delta_graph_tensor(builder->graph, ids[k]));
    if ((tensor->flags & banned_flags) || tensor->becomes_state != DELTA_PROBLEM_NONE || data_bytes == 0) return false;
    if (tensor->size_bytes != data_bytes && k + 1 < count) return false;
  }
  return true;
}

// A tensor that is listed twice has one place only.
static bool works_in_row(const problem_builder_t *builder, const delta_node_t *node, const delta_problem_step_t *step) {
  const bool is_offered = builder->options->in_row && builder->options->costs[step->node].works_in_row;
  if (!is_offered || step->input_count != node->input_count || step->output_count != node->output_count) return false;
  return step->input_count + step->output_count > 2 &&
         may_lie_in_row(builder, node->inputs, node->input_count, DELTA_TENSOR_STATE | DELTA_TENSOR_OUTPUT) &&
         may_lie_in_row(builder, node->outputs, node->output_count, 0);
}

static bool node_works(const delta_graph_t *graph, const delta_node_t *node) {
  if (node->is_virtual) return false;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (!delta_tensor_is_none(node->outputs[k]) && storage_index(graph, node->outputs[k]) == node->outputs[k].index) return true;
  }
  return false;
}

static void mark_gradients(problem_builder_t *builder, const delta_node_t *node) {
  if (node->phase != DELTA_PHASE_UPDATE) return;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (delta_tensor_is_none(node->inputs[k]) || delta_virtual_node(builder->graph, node->inputs[k])) continue;
    const delta_tensor_t *storage = &builder->graph->tensors.items[storage_index(builder->graph, node->inputs[k])];
    if (storage->role != DELTA_ROLE_COMPUTED) continue;
    if (delta_graph_node(builder->graph, storage->producer)->phase != DELTA_PHASE_BACKWARD) continue;
    delta_problem_tensor_t *tensor = &builder->problem->tensors[builder->tensor_of_storage[node->inputs[k].index]];
    if (tensor->becomes_state == DELTA_PROBLEM_NONE) tensor->kind = DELTA_CLASS_GRADIENTS;
  }
}

static uint32_t flags_of_node(const delta_node_t *node) {
  if (node->phase != DELTA_PHASE_FORWARD) return DELTA_STEP_PURE;
  return DELTA_STEP_PURE | (node->op == DELTA_CORE_CONV ? DELTA_STEP_CONVOLUTION : 0) |
         (node->op == DELTA_CORE_MATMUL ? DELTA_STEP_PRODUCT : 0);
}

static delta_status_t add_step(problem_builder_t *builder, uint32_t index) {
  const delta_node_t *node = &builder->graph->nodes.items[index];
  if (!node_works(builder->graph, node)) return DELTA_OK;
  const delta_node_cost_t *cost = &builder->options->costs[index];
  delta_problem_step_t *step = &builder->problem->steps[builder->problem->step_count++];
  *step = (delta_problem_step_t){.node = index, .seconds = cost->seconds, .flags = flags_of_node(node)};
  DELTA_RETURN_IF_ERROR(copy_name(builder, node->name ? node->name : "(unnamed)", &step->name));
  if (!delta_size_align(cost->workspace_bytes, builder->options->alignment_bytes, &step->workspace_bytes)) {
    return delta_status_make(UNSUPPORTED, "node '%s': a workspace of %zu bytes", step->name, cost->workspace_bytes);
  }
  DELTA_RETURN_IF_ERROR(list_tensors(builder, node->inputs, node->input_count, &step->inputs, &step->input_count));
  DELTA_RETURN_IF_ERROR(list_tensors(builder, node->outputs, node->output_count, &step->outputs, &step->output_count));
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (builder->problem->tensors[step->outputs[k]].becomes_state != DELTA_PROBLEM_NONE) step->flags = DELTA_STEP_UPDATE;
  }
  if (works_in_row(builder, node, step)) step->flags |= DELTA_STEP_IN_ROW;
  mark_gradients(builder, node);
  if (step->flags & DELTA_STEP_UPDATE) DELTA_RETURN_IF_ERROR(check_update(builder, node, step));
  return builder->options->inplace ? list_inplace_pairs(builder, node, step) : DELTA_OK;
}

// Closes the rings of tensors that nodes of one kin make.
static delta_status_t link_kin(problem_builder_t *builder) {
  enum { OUTPUTS = 8 };
  const delta_graph_t *graph = builder->graph;
  delta_problem_tensor_t *tensors = builder->problem->tensors;
  uint32_t kin_count = 0, *latest = NULL;
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    if (graph->nodes.items[n].kin > kin_count) kin_count = graph->nodes.items[n].kin;
  }
  // By kin and output: 1 + the tensor that was made last.
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(builder->problem->allocator, OUTPUTS * ((size_t)kin_count + 1), &latest));
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    for (uint32_t k = 0; node->kin > 0 && !node->is_virtual && k < node->output_count && k < OUTPUTS; ++k) {
      if (delta_tensor_is_none(node->outputs[k]) || storage_index(graph, node->outputs[k]) != node->outputs[k].index) continue;
      const uint32_t tensor = builder->tensor_of_storage[node->outputs[k].index];
      uint32_t *before = &latest[node->kin * OUTPUTS + k];
      tensors[tensor].next_kin = *before > 0 ? tensors[*before - 1].next_kin : tensor + 1;
      if (*before > 0) tensors[*before - 1].next_kin = tensor + 1;
      *before = tensor + 1;
    }
  }
  delta_release(builder->problem->allocator, latest);
  return DELTA_OK;
}

static delta_status_t build_problem(problem_builder_t *builder) {
  const delta_graph_t *graph = builder->graph;
  delta_problem_t *problem = builder->problem;
  problem->alignment_bytes = builder->options->alignment_bytes;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&problem->region, graph->tensors.count, &builder->tensor_of_storage));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&problem->region, graph->tensors.count + graph->states.count, &problem->tensors));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&problem->region, graph->nodes.count, &problem->steps));
  DELTA_RETURN_IF_ERROR(add_storages(builder));
  for (size_t i = 0; i < graph->states.count; ++i) DELTA_RETURN_IF_ERROR(bind_state(builder, &graph->states.items[i]));
  for (uint32_t i = 0; i < graph->nodes.count; ++i) DELTA_RETURN_IF_ERROR(add_step(builder, i));
  DELTA_RETURN_IF_ERROR(link_kin(builder));
  return delta_problem_check(problem);
}

delta_status_t delta_problem_from_graph(const delta_graph_t *graph, const delta_problem_graph_options_t *options,
                                        delta_allocator_t allocator, delta_problem_t **out_problem,
                                        const uint32_t **out_tensor_of_storage) {
  problem_builder_t builder = {.graph = graph, .options = options};
  DELTA_RETURN_IF_ERROR(delta_problem_create(allocator, &builder.problem));
  delta_status_t status = build_problem(&builder);
  if (status) {
    delta_problem_free(builder.problem);
    return status;
  }
  *out_problem = builder.problem;
  *out_tensor_of_storage = builder.tensor_of_storage;
  return DELTA_OK;
}
