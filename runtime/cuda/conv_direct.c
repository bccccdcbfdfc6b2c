// CONV, CONV_DATA and CONV_WEIGHT without a library: rows for any layout, and for what the library refuses.
#include "runtime/cuda/conv_direct.h"

#include "onnx/graph/plain_node.h"
#include "onnx/graph/window.h"
#include "runtime/cuda/kernel.h"

const char *delta_cuda_conv_direct_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  if (delta_cuda_refuse_unless_float(graph, node)) return "an operand is not of a float type";
  const delta_dtype_t dtype = delta_node_output(graph, node, 0)->dtype;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, node, k);
    if (input && input->dtype != dtype) return "operands are of different types";
  }
  return NULL;
}

static delta_cuda_conv_strides_t strides_of(delta_layout_t layout, const delta_shape_t *plain) {
  const int64_t channels = plain->dims[1], positions = delta_shape_count_range(plain, 2, plain->rank);
  const int64_t block = delta_layout_block(layout);
  if (layout == DELTA_LAYOUT_CHANNELS_LAST) return (delta_cuda_conv_strides_t){channels * positions, 0, 1, channels, channels};
  if (block) return (delta_cuda_conv_strides_t){channels * positions, block * positions, 1, block, block};
  return (delta_cuda_conv_strides_t){channels * positions, positions, 0, 1, 1};
}

// The plain shapes of the convolution's x and y.
static delta_status_t find_shapes(const delta_kernel_t *kernel, delta_shape_t *out_x, delta_shape_t *out_y) {
  const delta_conv_attrs_t *attrs = kernel->node->attrs;
  const delta_tensor_t *first = delta_kernel_input(kernel, 0), *output = delta_kernel_output(kernel, 0);
  const bool by_data = kernel->node->op == DELTA_CORE_CONV_DATA, by_weight = kernel->node->op == DELTA_CORE_CONV_WEIGHT;
  const delta_tensor_t *x = by_data ? output : first, *y = by_data ? first : by_weight ? delta_kernel_input(kernel, 1) : output;
  if (delta_layout_plain(attrs->x_layout, attrs->window.spatial, &x->shape, out_x) &&
      delta_layout_plain(attrs->y_layout, attrs->window.spatial, &y->shape, out_y))
    return DELTA_OK;
  return delta_status_make(INTERNAL, "a tensor does not lie in the layout that its node names");
}

delta_status_t delta_cuda_conv_direct_prepare(delta_kernel_t *kernel) {
  const delta_conv_attrs_t *attrs = kernel->node->attrs;
  delta_shape_t x = {0}, y = {0};
  DELTA_RETURN_IF_ERROR(find_shapes(kernel, &x, &y));
  delta_cuda_conv_t *conv = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &conv));
  kernel->state = conv;
  const delta_window_geometry_t window = delta_window_geometry(&attrs->window, attrs->data_spatial, y.dims + 2);
  *conv = (delta_cuda_conv_t){.dtype = delta_kernel_output(kernel, 0)->dtype,
                              .images = x.dims[0],
                              .channels = x.dims[1],
                              .out_channels = y.dims[1],
                              .groups = attrs->group,
                              .x = strides_of(attrs->x_layout, &x),
                              .y = strides_of(attrs->y_layout, &y)};
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) {
    conv->kernel[d] = window.kernel[d];
    conv->strides[d] = window.strides[d];
    conv->dilations[d] = window.dilations[d];
    conv->pads[d] = window.pads[d];
    conv->data[d] = window.data[d];
    conv->out[d] = window.out[d];
  }
  return DELTA_OK;
}

delta_status_t delta_cuda_conv_direct_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  return DELTA_CUDA_CHECK(delta_cuda_conv_launch(kernel->state, buffers->inputs[0], buffers->inputs[1],
                                                 delta_kernel_input_data(kernel, buffers, 2), buffers->outputs[0], stream));
}

delta_status_t delta_cuda_conv_data_direct_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  return DELTA_CUDA_CHECK(delta_cuda_conv_data_launch(kernel->state, buffers->inputs[0], buffers->inputs[1],
                                                      delta_kernel_input_data(kernel, buffers, 2), buffers->outputs[0], stream));
}

delta_status_t delta_cuda_conv_weight_direct_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  return DELTA_CUDA_CHECK(
      delta_cuda_conv_weight_launch(kernel->state, buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], stream));
}
