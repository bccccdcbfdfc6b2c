// Convolutions through oneDNN on plain layouts: the tensors as they are.
#include "runtime/cpu/conv_pass.h"

static const char *refuse_empty(const delta_graph_t *graph, const delta_node_t *node) {
  for (uint32_t i = 0; i < node->input_count; ++i) {
    const delta_tensor_t *tensor = delta_node_input(graph, node, i);
    if (tensor && delta_shape_count(&tensor->shape) == 0) return "an input has no elements";
  }
  return delta_shape_count(&delta_node_output(graph, node, 0)->shape) == 0 ? "the output has no elements" : NULL;
}

const char *delta_cpu_conv_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_refuse_unless_float32(graph, node);
  if (reason) return reason;
  const delta_window_t *window = &((const delta_conv_attrs_t *)node->attrs)->window;
  for (int32_t d = 0; d < window->spatial; ++d) {
    if (window->pads_begin[d] < 0 || window->pads_end[d] < 0) return "negative padding";
  }
  return refuse_empty(graph, node);
}

const char *delta_cpu_conv_plain_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_conv_attrs_t *attrs = node->attrs;
  if (attrs->x_layout != DELTA_LAYOUT_PLAIN || attrs->y_layout != DELTA_LAYOUT_PLAIN) return "a tensor is not in the plain layout";
  return delta_cpu_conv_refuse(graph, node);
}

delta_status_t delta_cpu_conv_prepare(delta_kernel_t *kernel) {
  const delta_conv_pass_t pass = delta_conv_pass_of(kernel->graph, kernel->node);
  delta_onednn_primitive_t *primitive = NULL;
  dnnl_memory_desc_t layouts[DELTA_CONV_ROLES], bias;
  dnnl_primitive_desc_t description = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_onednn_open(kernel, &primitive), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_conv_pass_layouts(&pass, pass.shapes[DELTA_CONV_X].dims[0], layouts), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_conv_pass_describe(&pass, primitive, layouts, &description), cleanup);
  for (int role = 0; role < DELTA_CONV_ROLES; ++role)
    DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, pass.arguments[role], &layouts[role]), cleanup);
  if (pass.op == DELTA_CORE_CONV && pass.bias) {
    DELTA_GOTO_IF_ERROR(status, delta_onednn_dense(pass.bias->shape.dims, 1, &bias), cleanup);
    DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_BIAS, &bias), cleanup);
  }
  status = delta_onednn_build(kernel, description);
cleanup:
  if (description) dnnl_primitive_desc_destroy(description);
  return status;
}

delta_status_t delta_cpu_conv_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_conv_pass_t pass = delta_conv_pass_of(kernel->graph, kernel->node);
  const void *addresses[DELTA_CONV_ROLES + 1];
  delta_conv_pass_addresses(&pass, buffers, addresses);
  addresses[DELTA_CONV_ROLES] = pass.bias ? buffers->inputs[2] : NULL;
  DELTA_RETURN_IF_ERROR(delta_onednn_execute(kernel, addresses, buffers->workspace));
  if (pass.op == DELTA_CORE_CONV_DATA) delta_conv_pass_add_bias(&pass, kernel, buffers);
  return DELTA_OK;
}
