// Convolutions through oneDNN: forward, backward by data (also transposed convolution, whose bias is added afterwards) and backward by weight, on plain
// layouts.
#include <string.h>

#include "runtime/cpu/onednn.h"
#include "runtime/cpu/team.h"

// The layouts and window of a convolution in oneDNN's terms; x, w, y are those of the forward one whichever pass runs.
typedef struct delta_conv_layouts {
  dnnl_memory_desc_t x, w, y, bias;
  dnnl_dims_t strides, dilations, pads_begin, pads_end;
} delta_conv_layouts_t;

static const char *refuse_empty(const delta_graph_t *graph, const delta_node_t *node) {
  for (uint32_t i = 0; i < node->input_count; ++i) {
    const delta_tensor_t *tensor = delta_node_input(graph, node, i);
    if (tensor && delta_shape_count(&tensor->shape) == 0) return "an input has no elements";
  }
  if (delta_shape_count(&delta_node_output(graph, node, 0)->shape) == 0) return "the output has no elements";
  return NULL;
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

// Weights [m, c / group, kernel...] seen as [group, m / group, c / group, kernel...] when there are groups.
static delta_status_t describe_weight(const delta_shape_t *shape, int64_t group, dnnl_memory_desc_t *out_layout) {
  if (group == 1) return delta_onednn_dense(shape->dims, shape->rank, out_layout);
  int64_t dims[DELTA_MAX_RANK + 1] = {group, shape->dims[0] / group};
  memcpy(dims + 2, shape->dims + 1, (size_t)(shape->rank - 1) * sizeof *dims);
  return delta_onednn_dense(dims, shape->rank + 1, out_layout);
}

// Pads at the end as oneDNN wants them: those with which the output size comes out exactly.
static int64_t exact_pad_end(const delta_window_t *window, int32_t d, int64_t input, int64_t output) {
  int64_t extent = (window->kernel[d] - 1) * window->dilations[d] + 1;
  return (output - 1) * window->strides[d] + extent - input - window->pads_begin[d];
}

static delta_status_t describe_conv(const delta_conv_attrs_t *attrs, const delta_shape_t *x, const delta_shape_t *w, const delta_shape_t *y,
                                    delta_conv_layouts_t *out) {
  const delta_window_t *window = &attrs->window;
  DELTA_RETURN_IF_ERROR(delta_onednn_dense(x->dims, x->rank, &out->x));
  DELTA_RETURN_IF_ERROR(delta_onednn_dense(y->dims, y->rank, &out->y));
  DELTA_RETURN_IF_ERROR(describe_weight(w, attrs->group, &out->w));
  for (int32_t d = 0; d < window->spatial; ++d) {
    out->strides[d] = window->strides[d];
    out->dilations[d] = window->dilations[d] - 1;
    out->pads_begin[d] = window->pads_begin[d];
    out->pads_end[d] = exact_pad_end(window, d, x->dims[d + 2], y->dims[d + 2]);
  }
  return DELTA_OK;
}

static delta_status_t describe_forward(const delta_onednn_primitive_t *primitive, const delta_conv_layouts_t *layouts, bool has_bias,
                                       dnnl_primitive_desc_t *out_description) {
  dnnl_convolution_desc_t descriptor;
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(dnnl_dilated_convolution_forward_desc_init(
      &descriptor, dnnl_forward_training, dnnl_convolution_direct, &layouts->x, &layouts->w, has_bias ? &layouts->bias : NULL, &layouts->y,
      layouts->strides, layouts->dilations, layouts->pads_begin, layouts->pads_end)));
  return delta_onednn_describe(primitive, &descriptor, NULL, out_description);
}

delta_status_t delta_cpu_conv_prepare(delta_kernel_t *kernel) {
  const delta_tensor_t *x = delta_node_input(kernel->graph, kernel->node, 0), *w = delta_node_input(kernel->graph, kernel->node, 1);
  const delta_tensor_t *bias = delta_node_input(kernel->graph, kernel->node, 2), *y = delta_node_output(kernel->graph, kernel->node, 0);
  delta_onednn_primitive_t *primitive = NULL;
  delta_conv_layouts_t layouts = {0};
  dnnl_primitive_desc_t description = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_onednn_open(kernel, &primitive), cleanup);
  DELTA_GOTO_IF_ERROR(status, describe_conv(kernel->node->attrs, &x->shape, &w->shape, &y->shape, &layouts), cleanup);
  if (bias) DELTA_GOTO_IF_ERROR(status, delta_onednn_dense(bias->shape.dims, 1, &layouts.bias), cleanup);
  DELTA_GOTO_IF_ERROR(status, describe_forward(primitive, &layouts, bias != NULL, &description), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_SRC, &layouts.x), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_WEIGHTS, &layouts.w), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_DST, &layouts.y), cleanup);
  if (bias) DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_BIAS, &layouts.bias), cleanup);
  status = delta_onednn_build(kernel, description);
cleanup:
  if (description) dnnl_primitive_desc_destroy(description);
  return status;
}

delta_status_t delta_cpu_conv_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const void *bias = kernel->node->input_count > 2 ? buffers->inputs[2] : NULL;
  const void *addresses[] = {buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], bias};
  return delta_onednn_execute(kernel, addresses, buffers->workspace);
}

// Both backward passes need the forward description as a hint.
static delta_status_t prepare_backward(delta_kernel_t *kernel, const delta_shape_t *x, const delta_shape_t *w, const delta_shape_t *y,
                                       bool by_weight) {
  delta_onednn_primitive_t *primitive = NULL;
  delta_conv_layouts_t layouts = {0};
  dnnl_primitive_desc_t hint = NULL, description = NULL;
  dnnl_convolution_desc_t descriptor;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_onednn_open(kernel, &primitive), cleanup);
  DELTA_GOTO_IF_ERROR(status, describe_conv(kernel->node->attrs, x, w, y, &layouts), cleanup);
  DELTA_GOTO_IF_ERROR(status, describe_forward(primitive, &layouts, false, &hint), cleanup);
  if (by_weight) {
    status = DELTA_ONEDNN(dnnl_dilated_convolution_backward_weights_desc_init(&descriptor, dnnl_convolution_direct, &layouts.x, &layouts.w,
                                                                              NULL, &layouts.y, layouts.strides, layouts.dilations,
                                                                              layouts.pads_begin, layouts.pads_end));
  } else {
    status = DELTA_ONEDNN(dnnl_dilated_convolution_backward_data_desc_init(&descriptor, dnnl_convolution_direct, &layouts.x, &layouts.w,
                                                                           &layouts.y, layouts.strides, layouts.dilations,
                                                                           layouts.pads_begin, layouts.pads_end));
  }
  if (status) goto cleanup;
  DELTA_GOTO_IF_ERROR(status, delta_onednn_describe(primitive, &descriptor, hint, &description), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, by_weight ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC, &layouts.x), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, by_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, &layouts.w), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_DIFF_DST, &layouts.y), cleanup);
  status = delta_onednn_build(kernel, description);
cleanup:
  if (description) dnnl_primitive_desc_destroy(description);
  if (hint) dnnl_primitive_desc_destroy(hint);
  return status;
}

delta_status_t delta_cpu_conv_data_prepare(delta_kernel_t *kernel) {
  const delta_tensor_t *dy = delta_node_input(kernel->graph, kernel->node, 0), *w = delta_node_input(kernel->graph, kernel->node, 1);
  return prepare_backward(kernel, &delta_node_output(kernel->graph, kernel->node, 0)->shape, &w->shape, &dy->shape, false);
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

delta_status_t delta_cpu_conv_data_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const void *addresses[] = {buffers->outputs[0], buffers->inputs[1], buffers->inputs[0]};
  DELTA_RETURN_IF_ERROR(delta_onednn_execute(kernel, addresses, buffers->workspace));
  if (kernel->node->input_count < 3 || !buffers->inputs[2]) return DELTA_OK;
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_shape_t *shape = &delta_node_output(kernel->graph, kernel->node, 0)->shape;
  delta_team_run(kernel->threads, shape->dims[0] * shape->dims[1],
                 2 * delta_shape_count_range(shape, 2, shape->rank) * (int64_t)sizeof(float), add_bias_planes, &launch);
  return DELTA_OK;
}

delta_status_t delta_cpu_conv_weight_prepare(delta_kernel_t *kernel) {
  const delta_tensor_t *x = delta_node_input(kernel->graph, kernel->node, 0), *dy = delta_node_input(kernel->graph, kernel->node, 1);
  return prepare_backward(kernel, &x->shape, &delta_node_output(kernel->graph, kernel->node, 0)->shape, &dy->shape, true);
}

delta_status_t delta_cpu_conv_weight_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const void *addresses[] = {buffers->inputs[0], buffers->outputs[0], buffers->inputs[1]};
  return delta_onednn_execute(kernel, addresses, buffers->workspace);
}
