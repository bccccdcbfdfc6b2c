// CROSS_ENTROPY, NLL and their gradients: rows.
#include "runtime/cuda/class_loss.h"

#include "onnx/graph/access.h"
#include "runtime/cuda/kernel.h"

// Where a node has its operands; `weights` may be one past the inputs. scores NONE: they are output 0.
typedef struct operands {
  uint32_t scores, labels, weights;
} operands_t;
enum { NONE = UINT32_MAX };

static operands_t operands_of(delta_core_op_t op) {
  switch (op) {
    case DELTA_CORE_CROSS_ENTROPY_GRAD:
      return (operands_t){.scores = 1, .labels = 3, .weights = 4};
    case DELTA_CORE_NLL_GRAD:
      return (operands_t){.scores = NONE, .labels = 1, .weights = 2};
    default:
      return (operands_t){.scores = 0, .labels = 1, .weights = 2};
  }
}

static const delta_tensor_t *scores_of(const delta_graph_t *graph, const delta_node_t *node) {
  const operands_t operands = operands_of(node->op);
  return operands.scores == NONE ? delta_node_output(graph, node, 0) : delta_node_input(graph, node, operands.scores);
}

const char *delta_cuda_class_loss_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const operands_t operands = operands_of(node->op);
  const delta_dtype_t dtype = scores_of(graph, node)->dtype, labels = delta_node_input(graph, node, operands.labels)->dtype;
  if (!delta_dtype_is_float(dtype)) return "the scores are not of a float type";
  if (labels != DELTA_DTYPE_INT32 && labels != DELTA_DTYPE_INT64) return "the labels are neither int32 nor int64";
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, node, k);
    if (k != operands.labels && input && input->dtype != dtype) return "the inputs are of different float types";
  }
  return NULL;
}

static delta_cuda_class_loss_t class_loss_of(const delta_kernel_t *kernel) {
  const delta_class_loss_attrs_t *attrs = kernel->node->attrs;
  const delta_tensor_t *scores = scores_of(kernel->graph, kernel->node);
  const delta_lanes_t lanes = delta_lanes_of(&scores->shape, attrs->axis);
  return (delta_cuda_class_loss_t){.dtype = scores->dtype,
                                   .labels = delta_kernel_input(kernel, operands_of(kernel->node->op).labels)->dtype,
                                   .outer = lanes.outer,
                                   .classes = lanes.size,
                                   .inner = lanes.inner,
                                   .has_ignore = attrs->has_ignore,
                                   .ignore_index = attrs->ignore_index};
}

delta_status_t delta_cuda_cross_entropy_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_class_loss_t loss = class_loss_of(kernel);
  return DELTA_CUDA_CHECK(delta_cuda_cross_entropy_launch(&loss, buffers->inputs[0], buffers->inputs[1],
                                                          delta_kernel_input_data(kernel, buffers, 2), buffers->outputs[0],
                                                          buffers->outputs[1], buffers->outputs[2], stream));
}

delta_status_t delta_cuda_cross_entropy_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_class_loss_t loss = class_loss_of(kernel);
  return DELTA_CUDA_CHECK(delta_cuda_cross_entropy_grad_launch(&loss, buffers->inputs[0], buffers->inputs[1], buffers->inputs[2],
                                                               buffers->inputs[3], delta_kernel_input_data(kernel, buffers, 4),
                                                               buffers->outputs[0], stream));
}

delta_status_t delta_cuda_nll_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_class_loss_t loss = class_loss_of(kernel);
  return DELTA_CUDA_CHECK(delta_cuda_nll_launch(&loss, buffers->inputs[0], buffers->inputs[1], delta_kernel_input_data(kernel, buffers, 2),
                                                buffers->outputs[0], buffers->outputs[1], stream));
}

delta_status_t delta_cuda_nll_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_class_loss_t loss = class_loss_of(kernel);
  return DELTA_CUDA_CHECK(delta_cuda_nll_grad_launch(&loss, buffers->inputs[0], buffers->inputs[1],
                                                     delta_kernel_input_data(kernel, buffers, 2), buffers->outputs[0], stream));
}
