// What is known of inputs: rows, and ranges of integers. Range of an integer input: follows its values through what only moves or casts them, to the operators that use them as indices or class numbers.
#include "onnx/build.h"

#include <string.h>

bool delta_is_own_name(const char *name) { return strncmp(name, "delta.", strlen("delta.")) == 0; }

int64_t delta_graph_rows(const delta_graph_t *graph) {
  delta_tensor_id_t label = delta_graph_find_input(graph, DELTA_NAME_LABEL);
  if (!delta_tensor_is_none(label)) {
    const delta_shape_t *shape = &delta_graph_tensor(graph, label)->shape;
    if (shape->rank > 0) return shape->dims[0];
  }
  for (size_t i = 0; i < graph->inputs.count; ++i) {
    const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->inputs.items[i]);
    if (!delta_is_own_name(tensor->name) && tensor->shape.rank > 0) return tensor->shape.dims[0];
  }
  return 1;
}

// Whether output k of a node holds values of its carried inputs, unchanged but for order and integer type.
static bool passes_on(const delta_graph_t *graph, const delta_node_t *node, const bool *carried, uint32_t k) {
  switch (node->op) {
    case DELTA_CORE_VIEW:
    case DELTA_CORE_TRANSPOSE:
    case DELTA_CORE_SLICE:
    case DELTA_CORE_SPLIT:
    case DELTA_CORE_GATHER:
    case DELTA_CORE_GATHER_ELEMENTS:
    case DELTA_CORE_GATHER_ND:
      return carried[node->inputs[0].index];
    case DELTA_CORE_CONCAT:
      for (uint32_t i = 0; i < node->input_count; ++i) {
        if (carried[node->inputs[i].index]) return true;
      }
      return false;
    case DELTA_CORE_POINTWISE: {
      const delta_expr_t *expr = &((const delta_pointwise_attrs_t *)node->attrs)->expr;
      const delta_expr_instr_t *instr = &expr->instrs[expr->outputs[k]];
      const delta_tensor_t *output = delta_node_output(graph, node, k);
      return instr->op == DELTA_EXPR_INPUT && !delta_dtype_is_float(output->dtype) && carried[node->inputs[instr->operands[0]].index];
    }
    default:
      return false;
  }
}

// The number of values that a node admits for a carried input, or 0 when it does not restrict it.
static int64_t admitted_count(const delta_graph_t *graph, const delta_node_t *node, const bool *carried) {
  const bool indexes = node->input_count > 1 && !delta_tensor_is_none(node->inputs[1]) && carried[node->inputs[1].index];
  if (!indexes) return 0;
  switch (node->op) {
    case DELTA_CORE_GATHER:
    case DELTA_CORE_GATHER_ELEMENTS:
      return delta_node_input(graph, node, 0)->shape.dims[((const delta_gather_attrs_t *)node->attrs)->axis];
    case DELTA_CORE_CROSS_ENTROPY:
    case DELTA_CORE_NLL: {
      const delta_class_loss_attrs_t *attrs = node->attrs;
      return attrs->has_ignore ? 0 : attrs->classes; // with an ignored value the legal ones are no range
    }
    default:
      return 0;
  }
}

delta_status_t delta_graph_input_range(const delta_graph_t *graph, delta_tensor_id_t input, int64_t *out_minimum, int64_t *out_maximum) {
  *out_minimum = *out_maximum = 0;
  if (delta_dtype_is_float(delta_graph_tensor(graph, input)->dtype)) return DELTA_OK;
  bool *carried = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(graph->allocator, graph->tensors.count, &carried));
  carried[input.index] = true;
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    const int64_t count = admitted_count(graph, node, carried);
    if (count > 0 && (*out_maximum == 0 || count < *out_maximum)) *out_maximum = count;
    if (node->input_count == 0 || delta_tensor_is_none(node->inputs[0])) continue;
    for (uint32_t k = 0; k < node->output_count; ++k) {
      if (!delta_tensor_is_none(node->outputs[k]) && passes_on(graph, node, carried, k)) carried[node->outputs[k].index] = true;
    }
  }
  delta_release(graph->allocator, carried);
  return DELTA_OK;
}
