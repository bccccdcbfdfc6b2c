// Expression: a compiled kernel of a pointwise expression, or of one whose results are reduced, with the shapes it is run on. What POINTWISE, REDUCE and MOMENTS share.
#ifndef DELTA_RUNTIME_CUDA_EXPRESSION_H_
#define DELTA_RUNTIME_CUDA_EXPRESSION_H_

#include "runtime/cuda/device.h"
#include "runtime/cuda/expr_args.h"

typedef struct delta_cuda_expression_spec {
  const delta_expr_t *expr;
  const delta_shape_t *shape; // to which inputs broadcast
  const delta_shape_t *input_shapes[DELTA_EXPR_MAX_INPUTS];
  delta_dtype_t inputs[DELTA_EXPR_MAX_INPUTS], outputs[DELTA_EXPR_MAX_OUTPUTS];
  const delta_reduce_kind_t *kinds; // of each output; NULL: nothing is reduced
  uint32_t axes;                    // that are reduced, as a mask
} delta_cuda_expression_spec_t;

typedef struct delta_cuda_expression {
  CUfunction function, combine; // of the device; `combine` adds splits
  delta_expr_args_t args;       // without addresses
  uint32_t grid[2], block;
  uint16_t input_count, output_count;
  size_t workspace_bytes; // of partial results
} delta_cuda_expression_t;

// Compiles, unless the device has it. Nothing is to be released.
DELTA_MUST_USE delta_status_t delta_cuda_expression_prepare(delta_cuda_device_t *device, const delta_cuda_expression_spec_t *spec,
                                                            delta_cuda_expression_t *out_expression);
// Of a kernel that is one expression, which it prepares and keeps: `spec` with the shapes and types of the node's inputs, and outputs of these types.
DELTA_MUST_USE delta_status_t delta_cuda_expression_prepare_node(delta_kernel_t *kernel, const delta_cuda_expression_spec_t *spec,
                                                                 const delta_dtype_t *outputs);
// An output of NULL is not wanted.
DELTA_MUST_USE delta_status_t delta_cuda_expression_run(const delta_cuda_expression_t *expression, const void *const *inputs,
                                                        void *const *outputs, void *workspace, cudaStream_t stream);

#endif // DELTA_RUNTIME_CUDA_EXPRESSION_H_
