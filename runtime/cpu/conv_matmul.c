// Convolutions with windows of one element as products of matrices: of the weights with each image's [channels, positions]. Forward and by data; unlike the
// library's convolution for these, its product allocates nothing to speak of.
#include "runtime/cpu/conv_pass.h"

const char *delta_cpu_conv_matmul_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_conv_plain_refuse(graph, node);
  if (reason) return reason;
  const delta_conv_attrs_t *attrs = node->attrs;
  const delta_window_t *window = &attrs->window;
  if (attrs->group != 1) return "there are groups";
  for (int32_t d = 0; d < window->spatial; ++d) {
    if (window->kernel[d] != 1 || window->strides[d] != 1) return "the windows are not the elements themselves";
    if (window->pads_begin[d] != 0 || window->pads_end[d] != 0) return "there is padding";
  }
  return NULL;
}

// A tensor [images, channels, positions...] as one matrix for each image.
static delta_status_t images_layout(const delta_shape_t *shape, dnnl_memory_desc_t *out_layout) {
  const int64_t dims[] = {shape->dims[0], shape->dims[1], delta_shape_count_range(shape, 2, shape->rank)};
  return delta_onednn_dense(dims, 3, out_layout);
}

// Weights [m, c], or transposed.
static delta_status_t weights_layout(const delta_shape_t *shape, bool transposed, dnnl_memory_desc_t *out_layout) {
  int64_t rows = shape->dims[0], columns = shape->dims[1];
  const int64_t dims[] = {1, transposed ? columns : rows, transposed ? rows : columns};
  const int64_t strides[] = {rows * columns, transposed ? 1 : columns, transposed ? columns : 1};
  return delta_onednn_strided(dims, strides, 3, out_layout);
}

// What the weights are multiplied with.
static delta_conv_role_t operand_of(const delta_conv_pass_t *pass) { return pass->op == DELTA_CORE_CONV ? DELTA_CONV_X : DELTA_CONV_Y; }

delta_status_t delta_cpu_conv_matmul_prepare(delta_kernel_t *kernel) {
  const delta_conv_pass_t pass = delta_conv_pass_of(kernel->graph, kernel->node);
  delta_onednn_primitive_t *primitive = NULL;
  dnnl_memory_desc_t weights, operand, result;
  dnnl_matmul_desc_t descriptor;
  dnnl_primitive_desc_t description = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_onednn_open(kernel, &primitive), cleanup);
  DELTA_GOTO_IF_ERROR(status, weights_layout(&pass.tensors[DELTA_CONV_W]->shape, pass.op != DELTA_CORE_CONV, &weights), cleanup);
  DELTA_GOTO_IF_ERROR(status, images_layout(&pass.tensors[operand_of(&pass)]->shape, &operand), cleanup);
  DELTA_GOTO_IF_ERROR(status, images_layout(&pass.tensors[pass.result]->shape, &result), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ONEDNN(dnnl_matmul_desc_init(&descriptor, &weights, &operand, NULL, &result)), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_describe(primitive, &descriptor, NULL, &description), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_SRC, &weights), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_WEIGHTS, &operand), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_DST, &result), cleanup);
  status = delta_onednn_build(kernel, description);
cleanup:
  if (description) dnnl_primitive_desc_destroy(description);
  return status;
}

delta_status_t delta_cpu_conv_matmul_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_conv_pass_t pass = delta_conv_pass_of(kernel->graph, kernel->node);
  const void *tensors[DELTA_CONV_ROLES];
  delta_conv_pass_addresses(&pass, buffers, tensors);
  const void *addresses[] = {tensors[DELTA_CONV_W], tensors[operand_of(&pass)], tensors[pass.result]};
  DELTA_RETURN_IF_ERROR(delta_onednn_execute(kernel, addresses, buffers->workspace));
  delta_conv_pass_add_bias(&pass, kernel, buffers);
  return DELTA_OK;
}
