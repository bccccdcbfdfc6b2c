// What the kernels of matrix products share: the operands as oneDNN sees them.
#ifndef DELTA_RUNTIME_CPU_MATMUL_H_
#define DELTA_RUNTIME_CPU_MATMUL_H_

#include "runtime/cpu/onednn.h"

typedef struct delta_matmul_layouts {
  dnnl_memory_desc_t a, b, bias, y;
  bool has_bias;
} delta_matmul_layouts_t;

bool delta_matmul_is_single(const delta_shape_t *shape); // one matrix, leading dimensions of 1 aside
// Plain layouts; a transposed operand is one with exchanged strides.
DELTA_MUST_USE delta_status_t delta_matmul_layouts(const delta_kernel_t *kernel, delta_matmul_layouts_t *out_layouts);
// Describes the product, which is added to what the result holds where the node has a third input. The caller destroys the description.
DELTA_MUST_USE delta_status_t delta_matmul_describe(const delta_kernel_t *kernel, const delta_onednn_primitive_t *primitive,
                                                    const delta_matmul_layouts_t *layouts, dnnl_primitive_desc_t *out_description);
// Adds the layout of the bias, where there is one, as the primitive's last argument.
DELTA_MUST_USE delta_status_t delta_matmul_add_bias(delta_onednn_primitive_t *primitive, const delta_matmul_layouts_t *layouts);
// The buffer of that argument; NULL where there is none.
const void *delta_matmul_bias(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers);
// Brings what the product is added to into the result, where it is not there already.
void delta_matmul_begin_sum(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers);

#endif // DELTA_RUNTIME_CPU_MATMUL_H_
