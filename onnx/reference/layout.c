// Reference kernels on any layout: operands are brought to their plain shapes, the operator's plain kernel runs, and results are brought back.
#include "onnx/graph/plain_node.h"
#include "onnx/reference/element.h"

// Copies a tensor between its plain and its physical place.
static void copy_operand(delta_layout_t layout, const delta_tensor_t *plain, const void *from, void *to, bool to_plain) {
  const int32_t rank = plain->shape.rank;
  const int64_t block = delta_layout_block(layout);
  delta_shape_t physical = delta_layout_physical(layout, &plain->shape), box = plain->shape;
  delta_strided_t in_plain = {0}, in_physical = {0};
  int64_t strides[DELTA_MAX_RANK];
  delta_shape_strides(&plain->shape, in_plain.strides);
  delta_shape_strides(&physical, strides);
  for (int32_t d = 0; d < rank; ++d) in_physical.strides[d] = strides[delta_layout_dimension(layout, rank, d)];
  if (block) {
    // The channels are walked as blocks, and their insides last.
    box.dims[1] /= block;
    box.dims[box.rank++] = block;
    in_physical.strides[rank] = 1;
    in_plain.strides[rank] = in_plain.strides[1];
    in_plain.strides[1] *= block;
  }
  delta_copy_strided(&box, delta_dtype_bytes(plain->dtype), to, to_plain ? &in_plain : &in_physical, from,
                     to_plain ? &in_physical : &in_plain);
}

static delta_status_t make_plain(const delta_reference_args_t *args, const delta_tensor_t *tensor, void **out_data) {
  return delta_allocate(args->allocator, delta_tensor_bytes(tensor), 1, out_data);
}

static delta_status_t run_plain(const delta_reference_args_t *args, const delta_plain_node_t *plain, void **inputs, void **outputs) {
  const delta_node_t *node = args->node;
  const void *given[DELTA_PLAIN_NODE_OPERANDS];
  void *taken[DELTA_PLAIN_NODE_OPERANDS];
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_layout_t layout = delta_node_input_layout(node, k);
    given[k] = args->inputs[k];
    if (layout == DELTA_LAYOUT_PLAIN || !args->inputs[k]) continue;
    const delta_tensor_t *tensor = delta_node_input(&plain->graph, &plain->node, k);
    DELTA_RETURN_IF_ERROR(make_plain(args, tensor, &inputs[k]));
    copy_operand(layout, tensor, args->inputs[k], inputs[k], true);
    given[k] = inputs[k];
  }
  for (uint32_t k = 0; k < node->output_count; ++k) {
    taken[k] = args->outputs[k];
    if (delta_node_output_layout(node, k) == DELTA_LAYOUT_PLAIN || !args->outputs[k]) continue;
    DELTA_RETURN_IF_ERROR(make_plain(args, delta_node_output(&plain->graph, &plain->node, k), &outputs[k]));
    taken[k] = outputs[k];
  }
  const delta_reference_args_t plain_args = {
      .graph = &plain->graph, .node = &plain->node, .inputs = given, .outputs = taken, .allocator = args->allocator};
  DELTA_RETURN_IF_ERROR(delta_core_op_info(node->op)->reference(&plain_args));
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (!outputs[k]) continue;
    const delta_tensor_t *tensor = delta_node_output(&plain->graph, &plain->node, k);
    copy_operand(delta_node_output_layout(node, k), tensor, outputs[k], args->outputs[k], false);
  }
  return DELTA_OK;
}

delta_status_t delta_reference_node(const delta_reference_args_t *args) {
  if (!delta_node_has_layouts(args->node)) return delta_core_op_info(args->node->op)->reference(args);
  delta_plain_node_t plain;
  DELTA_RETURN_IF_ERROR(delta_plain_node_init(&plain, args->graph, args->node, true));
  void *inputs[DELTA_PLAIN_NODE_OPERANDS] = {0}, *outputs[DELTA_PLAIN_NODE_OPERANDS] = {0};
  const delta_status_t status = run_plain(args, &plain, inputs, outputs);
  for (uint32_t k = 0; k < DELTA_PLAIN_NODE_OPERANDS; ++k) {
    delta_release(args->allocator, inputs[k]);
    delta_release(args->allocator, outputs[k]);
  }
  return status;
}
