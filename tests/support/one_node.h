// One node: runs a single core operator by its reference kernel on tensors given as float64 values. For tests of kernels.
#ifndef DELTA_TESTS_SUPPORT_ONE_NODE_H_
#define DELTA_TESTS_SUPPORT_ONE_NODE_H_

#include "onnx/graph/graph.h"

typedef struct delta_test_tensor {
  delta_dtype_t dtype;
  delta_shape_t shape;
  double *values; // Owned; every type as float64 (tests keep to numbers that float64 holds)
} delta_test_tensor_t;

delta_test_tensor_t delta_test_tensor_of(delta_dtype_t dtype, const delta_shape_t *shape, const double *values); // NULL: zeros
// Normal-like values in about [-2, 2], the same for the same `stream`.
delta_test_tensor_t delta_test_tensor_random(delta_dtype_t dtype, const delta_shape_t *shape, uint64_t stream);
void delta_test_tensor_free(delta_test_tensor_t *tensor);
double delta_test_dot(const delta_test_tensor_t *a, const delta_test_tensor_t *b);

typedef struct delta_test_node {
  delta_core_op_t op;
  const void *attrs;
  size_t attrs_bytes;
} delta_test_node_t;
#define DELTA_TEST_NODE(op, attrs) ((delta_test_node_t){DELTA_CORE_##op, &(attrs), sizeof(attrs)})

// Adds the node, with outputs as inferred, to a graph that has its inputs.
DELTA_MUST_USE delta_status_t delta_test_add_node(delta_graph_t *graph, const delta_test_node_t *node, delta_tensor_id_t *inputs,
                                                  uint32_t input_count, delta_tensor_id_t *outputs, uint32_t output_count);

// Infers and runs the node; the caller frees outputs[0..output_count), which are zeroed on failure. An input of NULL is left out. Both the
// inference's and the kernel's errors come back.
DELTA_MUST_USE delta_status_t delta_test_run_node(const delta_test_node_t *node, const delta_test_tensor_t *const *inputs,
                                                  uint32_t input_count, delta_test_tensor_t *outputs, uint32_t output_count);

// The same, with the values and the kernel's temporaries from `allocator`.
DELTA_MUST_USE delta_status_t delta_test_run_node_with(delta_allocator_t allocator, const delta_test_node_t *node,
                                                       const delta_test_tensor_t *const *inputs, uint32_t input_count,
                                                       delta_test_tensor_t *outputs, uint32_t output_count);

#endif // DELTA_TESTS_SUPPORT_ONE_NODE_H_
