// Roles, layouts and descriptions of convolutions.
#include "runtime/cpu/conv_pass.h"

#include <string.h>

#include "runtime/cpu/team.h"

delta_conv_pass_t delta_conv_pass_of(const delta_graph_t *graph, const delta_node_t *node) {
  delta_conv_pass_t pass = {
      .op = node->op, .attrs = node->attrs, .bias = delta_node_input(graph, node, 2), .algorithm = dnnl_convolution_direct};
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
  pass.layouts[DELTA_CONV_X] = pass.attrs->x_layout;
  pass.layouts[DELTA_CONV_Y] = pass.attrs->y_layout;
  for (int role = 0; role < DELTA_CONV_ROLES; ++role)
    delta_layout_plain(pass.layouts[role], pass.attrs->window.spatial, &pass.tensors[role]->shape, &pass.shapes[role]);
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
  delta_shape_t x = pass->shapes[DELTA_CONV_X], y = pass->shapes[DELTA_CONV_Y];
  x.dims[0] = y.dims[0] = images;
  DELTA_RETURN_IF_ERROR(delta_onednn_layout(&x, pass->layouts[DELTA_CONV_X], &out_layouts[DELTA_CONV_X]));
  DELTA_RETURN_IF_ERROR(delta_onednn_layout(&y, pass->layouts[DELTA_CONV_Y], &out_layouts[DELTA_CONV_Y]));
  return weight_layout(&pass->shapes[DELTA_CONV_W], pass->attrs->group, &out_layouts[DELTA_CONV_W]);
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
    out.pads_end[d] = exact_pad_end(window, d, pass->shapes[DELTA_CONV_X].dims[d + 2], pass->shapes[DELTA_CONV_Y].dims[d + 2]);
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
      &descriptor, dnnl_forward_training, pass->algorithm, &layouts[DELTA_CONV_X], &layouts[DELTA_CONV_W], has_bias ? &bias : NULL,
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
        &descriptor, pass->algorithm, &layouts[DELTA_CONV_X], &layouts[DELTA_CONV_W], NULL, &layouts[DELTA_CONV_Y], window.strides,
        window.dilations, window.pads_begin, window.pads_end));
  } else {
    status = DELTA_ONEDNN(dnnl_dilated_convolution_backward_data_desc_init(&descriptor, pass->algorithm, &layouts[DELTA_CONV_X],
                                                                           &layouts[DELTA_CONV_W], &layouts[DELTA_CONV_Y], window.strides,
                                                                           window.dilations, window.pads_begin, window.pads_end));
  }
  if (!status) status = delta_onednn_describe(primitive, &descriptor, hint, out_description);
cleanup:
  if (hint) dnnl_primitive_desc_destroy(hint);
  return status;
}

// The result of a transposed convolution as runs of `size` elements: a plane of one channel (plain), or the channels of one position, or of a block of
// them (other layouts).
typedef struct delta_conv_bias {
  const float *bias;
  float *y;
  int64_t runs_per_block; // runs that have the same channels, one after the other
  int64_t blocks;         // of channels, after which they begin again
  int64_t size;
  bool along; // the channels lie along a run
} delta_conv_bias_t;

// Items are runs.
static void add_bias_runs(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_conv_bias_t *add = context;
  for (int64_t run = begin; run < end; ++run) {
    float *y = add->y + run * add->size;
    const float *bias = add->bias + run / add->runs_per_block % add->blocks * (add->along ? add->size : 1);
    for (int64_t i = 0; i < add->size; ++i) y[i] += bias[add->along ? i : 0];
  }
}

void delta_conv_pass_add_bias(const delta_conv_pass_t *pass, const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  if (!pass->bias) return;
  const delta_shape_t *shape = &pass->shapes[pass->result];
  const delta_layout_t layout = pass->layouts[pass->result];
  const int64_t channels = shape->dims[1], spatial = delta_shape_count_range(shape, 2, shape->rank), block = delta_layout_block(layout);
  delta_conv_bias_t add = {.bias = buffers->inputs[2], .y = buffers->outputs[0], .along = layout != DELTA_LAYOUT_PLAIN};
  add.size = !add.along ? spatial : block ? block : channels;
  add.runs_per_block = add.along ? spatial : 1;
  add.blocks = add.along ? channels / add.size : channels;
  delta_team_run(kernel->threads, delta_shape_count(shape) / add.size, 2 * add.size * (int64_t)sizeof(float), add_bias_runs, &add);
}
