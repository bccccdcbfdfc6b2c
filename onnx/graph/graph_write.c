// Writes a graph's structure: states, inputs, nodes, outputs.
#include "onnx/graph/graph_write.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void delta_graph_write(delta_graph_sink_t sink, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  const int length = vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (length > 0) sink.write(sink.self, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

static void write_text(delta_graph_sink_t sink, const char *text) { sink.write(sink.self, text, strlen(text)); }

static const char *const phase_names[] = {
    [DELTA_PHASE_FORWARD] = "forward", [DELTA_PHASE_LOSS] = "loss", [DELTA_PHASE_BACKWARD] = "backward", [DELTA_PHASE_UPDATE] = "update"};

static const char *const state_kind_names[] = {
#define DELTA_STATE_NAME(id, name) [DELTA_STATE_##id] = name,
    DELTA_STATE_KINDS(DELTA_STATE_NAME)
#undef DELTA_STATE_NAME
};

static void write_ids(delta_graph_sink_t sink, const delta_tensor_id_t *ids, uint32_t count) {
  for (uint32_t k = 0; k < count; ++k) {
    if (delta_tensor_is_none(ids[k])) {
      delta_graph_write(sink, "%s_", k ? ", " : "");
    } else {
      delta_graph_write(sink, "%s%%%" PRIu32, k ? ", " : "", ids[k].index);
    }
  }
}

static void write_type(delta_graph_sink_t sink, delta_dtype_t dtype, const delta_shape_t *shape) {
  char text[DELTA_SHAPE_TEXT_BYTES];
  delta_graph_write(sink, "%s%s", delta_dtype_name(dtype), delta_shape_text(shape, text));
}

static void write_state(delta_graph_sink_t sink, const delta_state_t *state) {
  write_text(sink, "state ");
  write_text(sink, state->name);
  delta_graph_write(sink, " (%s) ", state_kind_names[state->kind]);
  write_type(sink, state->dtype, &state->shape);
  if (state->initializer == DELTA_INDEX_NONE) delta_graph_write(sink, " initial=%a", state->initial_value);
  write_text(sink, ": ");
  write_ids(sink, &state->current, 1);
  write_text(sink, " -> ");
  write_ids(sink, &state->next, 1);
  write_text(sink, "\n");
}

static void write_node(delta_graph_sink_t sink, const delta_graph_t *graph, const delta_node_t *node, bool names) {
  write_ids(sink, node->outputs, node->output_count);
  write_text(sink, " = ");
  write_text(sink, delta_core_op_info(node->op)->name);
  write_text(sink, "(");
  write_ids(sink, node->inputs, node->input_count);
  write_text(sink, ")");
  for (uint32_t k = 0; k < node->output_count; ++k) {
    const delta_tensor_t *output = delta_node_output(graph, node, k);
    if (output == NULL) continue;
    write_text(sink, " ");
    write_type(sink, output->dtype, &output->shape);
  }
  delta_graph_write(sink, " %s", phase_names[node->phase]);
  delta_graph_write_attrs(sink, node);
  if (node->is_virtual) write_text(sink, " virtual");
  if (names) {
    delta_graph_write(sink, " #%" PRIu32 " ", node->group);
    write_text(sink, node->name);
  }
  write_text(sink, "\n");
}

void delta_graph_write_all(delta_graph_sink_t sink, const delta_graph_t *graph, bool names) {
  for (size_t i = 0; i < graph->states.count; ++i) write_state(sink, &graph->states.items[i]);
  for (size_t i = 0; i < graph->inputs.count; ++i) {
    const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->inputs.items[i]);
    write_text(sink, "input ");
    write_text(sink, tensor->name);
    write_text(sink, " ");
    write_type(sink, tensor->dtype, &tensor->shape);
    delta_graph_write(sink, ": %%%" PRIu32 "\n", graph->inputs.items[i].index);
  }
  for (size_t i = 0; i < graph->nodes.count; ++i) write_node(sink, graph, &graph->nodes.items[i], names);
  for (size_t i = 0; i < graph->outputs.count; ++i) {
    write_text(sink, "output ");
    write_text(sink, graph->outputs.items[i].name);
    delta_graph_write(sink, ": %%%" PRIu32 "\n", graph->outputs.items[i].tensor.index);
  }
}
