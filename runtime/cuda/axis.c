// CUMSUM, ARG_REDUCE and TOPK: rows.
#include "runtime/cuda/axis.h"

#include "onnx/graph/access.h"
#include "runtime/cuda/kernel.h"

static delta_cuda_axis_t axis_of(const delta_kernel_t *kernel, int32_t axis) {
  const delta_tensor_t *x = delta_kernel_input(kernel, 0);
  const delta_lanes_t lanes = delta_lanes_of(&x->shape, axis);
  return (delta_cuda_axis_t){x->dtype, lanes.outer, lanes.size, lanes.inner};
}

delta_status_t delta_cuda_cumsum_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cumsum_attrs_t *attrs = kernel->node->attrs;
  const delta_cuda_axis_t axis = axis_of(kernel, attrs->axis);
  return DELTA_CUDA_CHECK(
      delta_cuda_cumsum_launch(&axis, attrs->exclusive, attrs->reverse, buffers->inputs[0], buffers->outputs[0], stream));
}

const char *delta_cuda_arg_reduce_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_arg_reduce_attrs_t *attrs = node->attrs;
  const delta_lanes_t lanes = delta_lanes_of(&delta_node_input(graph, node, 0)->shape, attrs->axis);
  return lanes.size == 0 && lanes.outer * lanes.inner > 0 ? "the dimension has no elements to choose from" : NULL;
}

delta_status_t delta_cuda_arg_reduce_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_arg_reduce_attrs_t *attrs = kernel->node->attrs;
  const delta_cuda_axis_t axis = axis_of(kernel, attrs->axis);
  return DELTA_CUDA_CHECK(
      delta_cuda_arg_reduce_launch(&axis, attrs->smallest, attrs->select_last, buffers->inputs[0], buffers->outputs[0], stream));
}

delta_status_t delta_cuda_topk_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_topk_attrs_t *attrs = kernel->node->attrs;
  const delta_cuda_axis_t axis = axis_of(kernel, attrs->axis);
  return DELTA_CUDA_CHECK(
      delta_cuda_topk_launch(&axis, attrs->k, attrs->smallest, buffers->inputs[0], buffers->outputs[0], buffers->outputs[1], stream));
}
