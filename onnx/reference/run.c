// Run: one reference kernel after the other, each output in its own buffer.
#include "onnx/reference/run.h"

#include <string.h>

static delta_status_t hold(delta_reference_values_t *values, delta_tensor_id_t id) {
  if (values->buffers[id.index]) return DELTA_OK;
  const delta_tensor_t *tensor = delta_graph_tensor(values->graph, id);
  return delta_status_annotate(delta_allocate(values->allocator, delta_tensor_bytes(tensor), 1, &values->buffers[id.index]),
                               "value of tensor '%s'", tensor->name ? tensor->name : "");
}

static delta_status_t hold_given(delta_reference_values_t *values) {
  const delta_graph_t *graph = values->graph;
  for (size_t i = 0; i < graph->inputs.count; ++i) DELTA_RETURN_IF_ERROR(hold(values, graph->inputs.items[i]));
  for (size_t i = 0; i < graph->states.count; ++i) {
    const delta_state_t *state = &graph->states.items[i];
    if (delta_tensor_is_none(state->current)) continue;
    DELTA_RETURN_IF_ERROR(hold(values, state->current));
    if (state->initializer != DELTA_INDEX_NONE) continue;
    int64_t count = delta_shape_count(&state->shape);
    for (int64_t j = 0; j < count; ++j)
      delta_element_store_double(values->buffers[state->current.index], state->dtype, (size_t)j, state->initial_value);
  }
  return DELTA_OK;
}

delta_status_t delta_reference_values_init(const delta_graph_t *graph, delta_allocator_t allocator, delta_reference_values_t *out_values) {
  *out_values = (delta_reference_values_t){.allocator = allocator, .graph = graph, .count = graph->tensors.count};
  delta_status_t status = DELTA_ALLOCATE(allocator, out_values->count, &out_values->buffers);
  if (!status) status = hold_given(out_values);
  if (status) delta_reference_values_deinit(out_values);
  return status;
}

void delta_reference_values_deinit(delta_reference_values_t *values) {
  if (values->buffers) {
    for (size_t i = 0; i < values->count; ++i) delta_release(values->allocator, values->buffers[i]);
    delta_release(values->allocator, values->buffers);
  }
  *values = (delta_reference_values_t){0};
}

void *delta_reference_value(const delta_reference_values_t *values, delta_tensor_id_t id) {
  return id.index < values->count ? values->buffers[id.index] : NULL;
}

static delta_status_t collect_inputs(const delta_reference_values_t *values, const delta_node_t *node, const void **inputs) {
  for (uint32_t k = 0; k < node->input_count; ++k) {
    inputs[k] = delta_reference_value(values, node->inputs[k]);
    if (!inputs[k] && !delta_tensor_is_none(node->inputs[k]))
      return delta_status_make(INTERNAL, "node '%s': input %u has no value", node->name, (unsigned)k);
  }
  return DELTA_OK;
}

static delta_status_t hold_outputs(delta_reference_values_t *values, const delta_node_t *node, void **outputs) {
  for (uint32_t k = 0; k < node->output_count; ++k) {
    outputs[k] = NULL;
    if (delta_tensor_is_none(node->outputs[k])) continue;
    DELTA_RETURN_IF_ERROR(hold(values, node->outputs[k]));
    outputs[k] = values->buffers[node->outputs[k].index];
  }
  return DELTA_OK;
}

static delta_status_t run_by_reference(void *self, const delta_reference_args_t *args) {
  (void)self;
  return delta_reference_node(args);
}

delta_status_t delta_reference_run_graph(delta_reference_values_t *values) {
  return delta_reference_run_graph_by(values, run_by_reference, NULL);
}

delta_status_t delta_reference_run_graph_by(delta_reference_values_t *values, delta_run_node_t *run_node, void *self) {
  const delta_graph_t *graph = values->graph;
  size_t most_inputs = 1, most_outputs = 1;
  for (size_t i = 0; i < graph->nodes.count; ++i) {
    const delta_node_t *node = &graph->nodes.items[i];
    if (node->input_count > most_inputs) most_inputs = node->input_count;
    if (node->output_count > most_outputs) most_outputs = node->output_count;
  }
  const void **inputs = NULL;
  void **outputs = NULL;
  delta_status_t status = DELTA_ALLOCATE(values->allocator, most_inputs, &inputs);
  if (status) goto cleanup;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(values->allocator, most_outputs, &outputs), cleanup);
  for (size_t i = 0; i < graph->nodes.count; ++i) {
    const delta_node_t *node = &graph->nodes.items[i];
    DELTA_GOTO_IF_ERROR(status, collect_inputs(values, node, inputs), cleanup);
    DELTA_GOTO_IF_ERROR(status, hold_outputs(values, node, outputs), cleanup);
    const delta_reference_args_t args = {graph, node, inputs, outputs, values->allocator};
    DELTA_GOTO_IF_ERROR(status, run_node(self, &args), cleanup);
  }
cleanup:
  delta_release(values->allocator, (void *)inputs);
  delta_release(values->allocator, outputs);
  return status;
}

delta_status_t delta_reference_advance_states(delta_reference_values_t *values) {
  const delta_graph_t *graph = values->graph;
  void **next_values = NULL;
  delta_status_t status = DELTA_ALLOCATE(values->allocator, graph->states.count, &next_values);
  if (status) goto cleanup;
  for (size_t i = 0; i < graph->states.count; ++i) {
    const delta_state_t *state = &graph->states.items[i];
    const void *next = delta_reference_value(values, state->next);
    if (!next || delta_tensor_is_none(state->current)) continue;
    size_t size_bytes = delta_tensor_bytes(delta_graph_tensor(graph, state->current));
    DELTA_GOTO_IF_ERROR(status, delta_allocate(values->allocator, size_bytes, 1, &next_values[i]), cleanup);
    memcpy(next_values[i], next, size_bytes);
  }
  for (size_t i = 0; i < graph->states.count; ++i) {
    if (!next_values[i]) continue;
    delta_tensor_id_t current = graph->states.items[i].current;
    memcpy(values->buffers[current.index], next_values[i], delta_tensor_bytes(delta_graph_tensor(graph, current)));
  }
cleanup:
  for (size_t i = 0; next_values && i < graph->states.count; ++i) delta_release(values->allocator, next_values[i]);
  delta_release(values->allocator, next_values);
  return status;
}
