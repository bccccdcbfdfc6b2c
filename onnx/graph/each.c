// Each: places of inputs, and sets as nodes.
#include "onnx/graph/each.h"

static uint32_t count_bits(uint32_t bits) {
  uint32_t count = 0;
  for (; bits != 0; bits &= bits - 1) ++count;
  return count;
}

static uint32_t own_count(const delta_each_attrs_t *attrs) { return attrs->expr.input_count - count_bits(attrs->shared); }

uint32_t delta_each_input_count(const delta_each_attrs_t *attrs) { return count_bits(attrs->shared) + attrs->count * own_count(attrs); }

uint32_t delta_each_input(const delta_each_attrs_t *attrs, uint32_t set, uint32_t k) {
  const uint32_t shared_before = count_bits(attrs->shared & ((UINT32_C(1) << k) - 1));
  if (attrs->shared >> k & 1) return shared_before;
  return count_bits(attrs->shared) + set * own_count(attrs) + (k - shared_before);
}

bool delta_each_set_of_input(const delta_each_attrs_t *attrs, uint32_t in, uint32_t *out_set) {
  const uint32_t shared = count_bits(attrs->shared);
  if (in < shared) return false;
  *out_set = (in - shared) / own_count(attrs);
  return true;
}

static delta_tensor_id_t add_tensor(delta_each_set_t *set, const delta_tensor_t *tensor) {
  const delta_tensor_id_t id = {(uint32_t)set->graph.tensors.count++};
  set->tensors[id.index] = *tensor;
  return id;
}

void delta_each_set_init(delta_each_set_t *set, const delta_graph_t *graph, const delta_node_t *node, uint32_t index) {
  const delta_each_attrs_t *attrs = node->attrs;
  const uint32_t outputs = attrs->expr.output_count;
  *set = (delta_each_set_t){.node = *node, .attrs = {.expr = attrs->expr}};
  set->graph.tensors.items = set->tensors;
  for (uint32_t k = 0; k < attrs->expr.input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, node, delta_each_input(attrs, index, k));
    set->inputs[k] = add_tensor(set, input);
    if (!(attrs->shared >> k & 1)) set->attrs.shape = input->shape;
  }
  for (uint32_t k = 0; k < outputs; ++k) {
    set->attrs.dtypes[k] = attrs->dtypes[k];
    set->outputs[k] = add_tensor(set, delta_node_output(graph, node, index * outputs + k));
  }
  set->node.op = DELTA_CORE_POINTWISE;
  set->node.inputs = set->inputs;
  set->node.input_count = attrs->expr.input_count;
  set->node.outputs = set->outputs;
  set->node.output_count = outputs;
  set->node.attrs = &set->attrs;
  set->node.attrs_bytes = sizeof set->attrs;
}
