// POINTWISE: the expression, compiled.
#include "runtime/cuda/expression.h"
#include "runtime/cuda/kernel.h"

delta_status_t delta_cuda_pointwise_prepare(delta_kernel_t *kernel) {
  const delta_pointwise_attrs_t *attrs = kernel->node->attrs;
  delta_cuda_expression_spec_t spec = {.expr = &attrs->expr, .shape = &attrs->shape};
  for (uint16_t k = 0; k < attrs->expr.input_count; ++k) {
    const delta_tensor_t *input = delta_kernel_input(kernel, k);
    spec.input_shapes[k] = &input->shape;
    spec.inputs[k] = input->dtype;
  }
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) spec.outputs[k] = attrs->dtypes[k];
  delta_cuda_expression_t *expression = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &expression));
  kernel->state = expression;
  return delta_cuda_expression_prepare(delta_cuda_device(kernel->device), &spec, expression);
}

delta_status_t delta_cuda_pointwise_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  return delta_cuda_expression_run(kernel->state, buffers->inputs, buffers->outputs, buffers->workspace, stream);
}
