// SOFTMAX and SOFTMAX_GRAD: rows.
#include "runtime/cuda/softmax.h"

#include "onnx/graph/access.h"
#include "runtime/cuda/kernel.h"

static delta_cuda_softmax_t softmax_of(const delta_kernel_t *kernel) {
  const delta_softmax_attrs_t *attrs = kernel->node->attrs;
  const delta_tensor_t *x = delta_kernel_input(kernel, 0);
  const delta_lanes_t lanes = delta_lanes_of(&x->shape, attrs->axis);
  return (delta_cuda_softmax_t){x->dtype, lanes.outer, lanes.size, lanes.inner, attrs->log};
}

delta_status_t delta_cuda_softmax_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_softmax_t softmax = softmax_of(kernel);
  return DELTA_CUDA_CHECK(delta_cuda_softmax_launch(&softmax, buffers->inputs[0], buffers->outputs[0], stream));
}

delta_status_t delta_cuda_softmax_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_softmax_t softmax = softmax_of(kernel);
  return DELTA_CUDA_CHECK(delta_cuda_softmax_grad_launch(&softmax, buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], stream));
}
