// POINTWISE: the expression, compiled.
#include "runtime/cuda/expression.h"
#include "runtime/cuda/kernel.h"

delta_status_t delta_cuda_pointwise_prepare(delta_kernel_t *kernel) {
  const delta_pointwise_attrs_t *attrs = kernel->node->attrs;
  const delta_cuda_expression_spec_t spec = {.expr = &attrs->expr, .shape = &attrs->shape};
  return delta_cuda_expression_prepare_node(kernel, &spec, attrs->dtypes);
}

delta_status_t delta_cuda_pointwise_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  return delta_cuda_expression_run(kernel->state, buffers->inputs, buffers->outputs, buffers->workspace, stream);
}
