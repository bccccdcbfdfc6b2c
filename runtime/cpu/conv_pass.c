// Roles, layouts and descriptions of convolutions.
#include "runtime/cpu/conv_pass.h"

#include <string.h>

#include "runtime/cpu/team.h"

delta_conv_pass_t delta_conv_pass_of(const delta_graph_t *graph, const delta_node_t *node) {
  delta_conv_pass_t pass = {.op = node->op, .attrs = node->attrs, .bias = delta_node_input(graph, node, 2)};
  const delta_tensor_t *first = delta_node_input(graph, node, 0), *second = delta_node_input(graph, node, 1);
  const delta_tensor_t *result = delta_node_output(graph, node, 0);
  switch (node->op) {
    case DELTA_CORE_CONV_DATA:
      pass.result = DELTA_CONV_X;
      memcpy(pass.tensors, (const delta_tensor_t *[]){result, second, first}, sizeof pass.tensors);
      memcpy(pass.arguments, (int[]){DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}, sizeof pass.arguments);
      break;
    case DELTA_CORE_CONV_WEIGHT:
      pass.result = DELTA_CONV_W;
      memcpy(pass.tensors, (const delta_tensor_t *[]){first, result, second}, sizeof pass.tensors);
      memcpy(pass.arguments, (int[]){DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}, sizeof pass.arguments);
      break;
    default:
      pass.result = DELTA_CONV_Y;
      memcpy(pass.tensors, (const delta_tensor_t *[]){first, second, result}, sizeof pass.tensors);
      memcpy(pass.arguments, (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, sizeof pass.arguments);
      break;
  }
  return pass;
}

void delta_conv_pass_addresses(const delta_conv_pass_t *pass, const delta_kernel_buffers_t *buffers, const void *out[DELTA_CONV_ROLES]) {
  // A node's inputs come in the order of the roles, but for the gradient by data, where dy stands before w.
  int first = pass->op == DELTA_CORE_CONV_DATA ? DELTA_CONV_Y : DELTA_CONV_X;
  int second = pass->op == DELTA_CORE_CONV_WEIGHT ? DELTA_CONV_Y : DELTA_CONV_W;
  out[first] = buffers->inputs[0];
  out[second] = buffers->inputs[1];
  out[pass->result] = buffers->outputs[0];
}

// Weights [m, c / group, kernel...] seen as [group, m / group, c / group, kernel...] when there are groups.
static delta_status_t weight_layout(const delta_shape_t *shape, int64_t group, dnnl_memory_desc_t *out_layout) {
  if (group == 1) return delta_onednn_dense(shape->dims, shape->rank, out_layout);
  int64_t dims[DELTA_MAX_RANK + 1] = {group, shape->dims[0] / group};
  memcpy(dims + 2, shape->dims + 1, (size_t)(shape->rank - 1) * sizeof *dims);
  return delta_onednn_dense(dims, shape->rank + 1, out_layout);
}

delta_status_t delta_conv_pass_layouts(const delta_conv_pass_t *pass, int64_t images, dnnl_memory_desc_t out_layouts[DELTA_CONV_ROLES]) {
  delta_shape_t x = pass->tensors[DELTA_CONV_X]->shape, y = pass->tensors[DELTA_CONV_Y]->shape;
  x.dims[0] = y.dims[0] = images;
  DELTA_RETURN_IF_ERROR(delta_onednn_dense(x.dims, x.rank, &out_layouts[DELTA_CONV_X]));
  DELTA_RETURN_IF_ERROR(delta_onednn_dense(y.dims, y.rank, &out_layouts[DELTA_CONV_Y]));
  return weight_layout(&pass->tensors[DELTA_CONV_W]->shape, pass->attrs->group, &out_layouts[DELTA_CONV_W]);
}

// A window in oneDNN's terms.
typedef struct delta_conv_window {
  dnnl_dims_t strides, dilations, pads_begin, pads_end;
} delta_conv_window_t;

// Pads at the end as oneDNN wants them: those with which the output size comes out exactly.
static int64_t exact_pad_end(const delta_window_t *window, int32_t d, int64_t input, int64_t output) {
  int64_t extent = (window->kernel[d] - 1) * window->dilations[d] + 1;
  return (output - 1) * window->strides[d] + extent - input - window->pads_begin[d];
}

static delta_conv_window_t window_of(const delta_conv_pass_t *pass) {
  const delta_window_t *window = &pass->attrs->window;
  delta_conv_window_t out = {0};
  for (int32_t d = 0; d < window->spatial; ++d) {
    out.strides[d] = window->strides[d];
    out.dilations[d] = window->dilations[d] - 1;
    out.pads_begin[d] = window->pads_begin[d];
    out.pads_end[d] =
        exact_pad_end(window, d, pass->tensors[DELTA_CONV_X]->shape.dims[d + 2], pass->tensors[DELTA_CONV_Y]->shape.dims[d + 2]);
  }
  return out;
}

static delta_status_t describe_forward(const delta_conv_pass_t *pass, const delta_conv_window_t *window,
                                       const delta_onednn_primitive_t *primitive, const dnnl_memory_desc_t *layouts,
                                       dnnl_primitive_desc_t *out_description) {
  dnnl_convolution_desc_t descriptor;
  dnnl_memory_desc_t bias;
  bool has_bias = pass->op == DELTA_CORE_CONV && pass->bias;
  if (has_bias) DELTA_RETURN_IF_ERROR(delta_onednn_dense(pass->bias->shape.dims, 1, &bias));
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(dnnl_dilated_convolution_forward_desc_init(
      &descriptor, dnnl_forward_training, dnnl_convolution_direct, &layouts[DELTA_CONV_X], &layouts[DELTA_CONV_W], has_bias ? &bias : NULL,
      &layouts[DELTA_CONV_Y], window->strides, window->dilations, window->pads_begin, window->pads_end)));
  return delta_onednn_describe(primitive, &descriptor, NULL, out_description);
}

delta_status_t delta_conv_pass_describe(const delta_conv_pass_t *pass, const delta_onednn_primitive_t *primitive,
                                        const dnnl_memory_desc_t layouts[DELTA_CONV_ROLES], dnnl_primitive_desc_t *out_description) {
  const delta_conv_window_t window = window_of(pass);
  if (pass->op == DELTA_CORE_CONV) return describe_forward(pass, &window, primitive, layouts, out_description);
  // The backward passes need the forward description as a hint.
  dnnl_primitive_desc_t hint = NULL;
  dnnl_convolution_desc_t descriptor;
  delta_status_t status = describe_forward(pass, &window, primitive, layouts, &hint);
  if (status) goto cleanup;
  if (pass->op == DELTA_CORE_CONV_WEIGHT) {
    status = DELTA_ONEDNN(dnnl_dilated_convolution_backward_weights_desc_init(
        &descriptor, dnnl_convolution_direct, &layouts[DELTA_CONV_X], &layouts[DELTA_CONV_W], NULL, &layouts[DELTA_CONV_Y], window.strides,
        window.dilations, window.pads_begin, window.pads_end));
  } else {
    status = DELTA_ONEDNN(dnnl_dilated_convolution_backward_data_desc_init(&descriptor, dnnl_convolution_direct, &layouts[DELTA_CONV_X],
                                                                           &layouts[DELTA_CONV_W], &layouts[DELTA_CONV_Y], window.strides,
                                                                           window.dilations, window.pads_begin, window.pads_end));
  }
  if (!status) status = delta_onednn_describe(primitive, &descriptor, hint, out_description);
cleanup:
  if (hint) dnnl_primitive_desc_destroy(hint);
  return status;
}

// Items are planes of the result.
static void add_bias_planes(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_shape_t *shape = &delta_node_output(launch->kernel->graph, launch->kernel->node, 0)->shape;
  const float *bias = launch->buffers->inputs[2];
  int64_t size = delta_shape_count_range(shape, 2, shape->rank);
  for (int64_t plane = begin; plane < end; ++plane) {
    float *y = (float *)launch->buffers->outputs[0] + plane * size, value = bias[plane % shape->dims[1]];
    for (int64_t i = 0; i < size; ++i) y[i] += value;
  }
}

void delta_conv_pass_add_bias(const delta_conv_pass_t *pass, const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  if (!pass->bias) return;
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_shape_t *shape = &pass->tensors[pass->result]->shape;
  delta_team_run(kernel->threads, shape->dims[0] * shape->dims[1],
                 2 * delta_shape_count_range(shape, 2, shape->rank) * (int64_t)sizeof(float), add_bias_planes, &launch);
}
