// Checks shared by the inference functions of core operators (delta_infer_NAME, declared in core_ops.h).
//
// Attributes and shapes come from files that may be hostile, so every function checks whatever its kernel will rely on. Messages name the
// attribute and its value; delta_infer_node puts the node's name and operator before them.
#ifndef DELTA_ONNX_GRAPH_INFER_H_
#define DELTA_ONNX_GRAPH_INFER_H_

#include "onnx/graph/graph.h"

// Runs the row's inference after checking the node's counts and required inputs, validates the shapes found, and names the node in errors.
DELTA_MUST_USE delta_status_t delta_infer_node(const delta_infer_args_t *args);

// Whether output k may be left out.
bool delta_core_output_optional(delta_core_op_t op, uint32_t k);

// The attribute struct of args->node.
#define DELTA_INFER_ATTRS(args, type) ((const type *)(args)->node->attrs)

const delta_tensor_t *delta_infer_input(const delta_infer_args_t *args, uint32_t k); // NULL when left out
void delta_infer_set(const delta_infer_args_t *args, uint32_t k, delta_dtype_t dtype, const delta_shape_t *shape);

DELTA_MUST_USE delta_status_t delta_infer_axis(const char *name, int64_t axis, int32_t rank);    // 0 <= axis < rank
DELTA_MUST_USE delta_status_t delta_infer_axes(const char *name, uint32_t axes, int32_t rank);   // no bit from rank on
DELTA_MUST_USE delta_status_t delta_infer_float(const char *name, const delta_tensor_t *tensor); // a float type
DELTA_MUST_USE delta_status_t delta_infer_index(const char *name, const delta_tensor_t *tensor); // int32 or int64
DELTA_MUST_USE delta_status_t delta_infer_same_type(const char *name, const delta_tensor_t *tensor, delta_dtype_t wanted);
DELTA_MUST_USE delta_status_t delta_infer_same_shape(const char *name, const delta_shape_t *shape, const delta_shape_t *wanted);
// The seed and the draw of an operator with random numbers: inputs `first` and the next.
DELTA_MUST_USE delta_status_t delta_infer_stream(const delta_infer_args_t *args, uint32_t first);

#endif // DELTA_ONNX_GRAPH_INFER_H_
