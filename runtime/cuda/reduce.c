// REDUCE and MOMENTS: expressions whose results are reduced, compiled.
#include "runtime/cuda/expression.h"
#include "runtime/cuda/kernel.h"

delta_status_t delta_cuda_reduce_prepare(delta_kernel_t *kernel) {
  const delta_reduce_attrs_t *attrs = kernel->node->attrs;
  const delta_cuda_expression_spec_t spec = {.expr = &attrs->expr, .shape = &attrs->shape, .kinds = attrs->kinds, .axes = attrs->axes};
  return delta_cuda_expression_prepare_node(kernel, &spec, attrs->dtypes);
}

delta_status_t delta_cuda_reduce_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  return delta_cuda_expression_run(kernel->state, buffers->inputs, buffers->outputs, buffers->workspace, stream);
}

// ---- Moments: the mean, as it is stored and as it was computed; then the mean of the squared distances from the latter.

typedef struct moments {
  delta_cuda_expression_t mean, variance;
  size_t mean_bytes; // of the workspace, before the partial sums
} moments_t;

static const delta_reduce_kind_t means[] = {DELTA_REDUCE_MEAN, DELTA_REDUCE_MEAN};

static delta_status_t prepare_mean(delta_kernel_t *kernel, const delta_tensor_t *x, delta_dtype_t computed, moments_t *moments) {
  delta_expr_instr_t instrs[] = {{.op = DELTA_EXPR_INPUT}};
  const delta_expr_t expr = {.compute = computed, .input_count = 1, .instr_count = 1, .output_count = 2, .instrs = instrs};
  const delta_moments_attrs_t *attrs = kernel->node->attrs;
  const delta_cuda_expression_spec_t spec = {.expr = &expr,
                                             .shape = &x->shape,
                                             .input_shapes = {&x->shape},
                                             .inputs = {x->dtype},
                                             .outputs = {x->dtype, DELTA_DTYPE_FLOAT64},
                                             .kinds = means,
                                             .axes = attrs->axes};
  return delta_cuda_expression_prepare(delta_cuda_device(kernel->device), &spec, &moments->mean);
}

static delta_status_t prepare_variance(delta_kernel_t *kernel, const delta_tensor_t *x, moments_t *moments) {
  delta_expr_instr_t instrs[] = {{.op = DELTA_EXPR_INPUT, .operands = {0}},
                                 {.op = DELTA_EXPR_INPUT, .operands = {1}},
                                 {.op = DELTA_EXPR_SUB, .operands = {0, 1}},
                                 {.op = DELTA_EXPR_MUL, .operands = {2, 2}}};
  const delta_expr_t expr = {
      .compute = DELTA_DTYPE_FLOAT64, .input_count = 2, .instr_count = 4, .output_count = 1, .outputs = {3}, .instrs = instrs};
  const delta_moments_attrs_t *attrs = kernel->node->attrs;
  delta_shape_t kept = x->shape;
  for (int32_t d = 0; d < kept.rank; ++d) {
    if (attrs->axes >> d & 1) kept.dims[d] = 1;
  }
  const delta_cuda_expression_spec_t spec = {.expr = &expr,
                                             .shape = &x->shape,
                                             .input_shapes = {&x->shape, &kept},
                                             .inputs = {x->dtype, DELTA_DTYPE_FLOAT64},
                                             .outputs = {x->dtype},
                                             .kinds = means,
                                             .axes = attrs->axes};
  return delta_cuda_expression_prepare(delta_cuda_device(kernel->device), &spec, &moments->variance);
}

delta_status_t delta_cuda_moments_prepare(delta_kernel_t *kernel) {
  const delta_tensor_t *x = delta_kernel_input(kernel, 0);
  const delta_dtype_t computed = x->dtype == DELTA_DTYPE_FLOAT64 ? DELTA_DTYPE_FLOAT64 : DELTA_DTYPE_FLOAT32;
  moments_t *moments = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &moments));
  kernel->state = moments;
  DELTA_RETURN_IF_ERROR(prepare_mean(kernel, x, computed, moments));
  DELTA_RETURN_IF_ERROR(prepare_variance(kernel, x, moments));
  moments->mean_bytes = (size_t)delta_size_round_up(moments->mean.args.count * sizeof(double), 256);
  const size_t a = moments->mean.workspace_bytes, b = moments->variance.workspace_bytes;
  kernel->workspace_bytes = moments->mean_bytes + (a > b ? a : b);
  return DELTA_OK;
}

delta_status_t delta_cuda_moments_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const moments_t *moments = kernel->state;
  void *mean = buffers->workspace, *partials = (char *)buffers->workspace + moments->mean_bytes;
  void *const means_to[] = {buffers->outputs[0], mean}, *const variance_to[] = {buffers->outputs[1]};
  const void *const x_and_mean[] = {buffers->inputs[0], mean};
  DELTA_RETURN_IF_ERROR(delta_cuda_expression_run(&moments->mean, buffers->inputs, means_to, partials, stream));
  return delta_cuda_expression_run(&moments->variance, x_and_mean, variance_to, partials, stream);
}
