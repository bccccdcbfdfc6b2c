// Conv pass: what the three convolutions (forward, by data, by weight) have in common for oneDNN. x, w and y are always those of the forward one.
#ifndef DELTA_RUNTIME_CPU_CONV_PASS_H_
#define DELTA_RUNTIME_CPU_CONV_PASS_H_

#include "runtime/cpu/onednn.h"

typedef enum delta_conv_role { DELTA_CONV_X, DELTA_CONV_W, DELTA_CONV_Y, DELTA_CONV_ROLES } delta_conv_role_t;

// A convolution node seen as a pass.
typedef struct delta_conv_pass {
  delta_core_op_t op;
  delta_conv_role_t result;
  const delta_tensor_t *tensors[DELTA_CONV_ROLES];
  delta_layout_t layouts[DELTA_CONV_ROLES]; // how they lie
  delta_shape_t shapes[DELTA_CONV_ROLES];   // their plain shapes
  int arguments[DELTA_CONV_ROLES];          // oneDNN's names
  const delta_tensor_t *bias;               // NULL: none
  const delta_conv_attrs_t *attrs;
  dnnl_alg_kind_t algorithm;
} delta_conv_pass_t;

delta_conv_pass_t delta_conv_pass_of(const delta_graph_t *graph, const delta_node_t *node);
// The address of each role's tensor in a launch.
void delta_conv_pass_addresses(const delta_conv_pass_t *pass, const delta_kernel_buffers_t *buffers, const void *out[DELTA_CONV_ROLES]);

// The layouts of `images` images; weights are plain and have their groups as a dimension of their own.
DELTA_MUST_USE delta_status_t delta_conv_pass_layouts(const delta_conv_pass_t *pass, int64_t images,
                                                      dnnl_memory_desc_t out_layouts[DELTA_CONV_ROLES]);
// The description of the pass on these layouts. The caller destroys it.
DELTA_MUST_USE delta_status_t delta_conv_pass_describe(const delta_conv_pass_t *pass, const delta_onednn_primitive_t *primitive,
                                                       const dnnl_memory_desc_t layouts[DELTA_CONV_ROLES],
                                                       dnnl_primitive_desc_t *out_description);

// Adds the bias to the result, if the node has one. Convolution primitives add that of a forward pass themselves.
void delta_conv_pass_add_bias(const delta_conv_pass_t *pass, const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers);

// Why no pass can run the node, whatever its layouts; NULL when one can.
const char *delta_cpu_conv_refuse(const delta_graph_t *graph, const delta_node_t *node);

#endif // DELTA_RUNTIME_CPU_CONV_PASS_H_
