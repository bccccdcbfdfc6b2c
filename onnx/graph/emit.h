// Emit: adds core operators to a graph. Infers types and shapes, folds what is constant; views of constants share their bytes.
//
// Errors stick: after the first failure every emit is a no-op that returns DELTA_TENSOR_NONE, and the caller checks once with delta_emit_finish().
// Emits given DELTA_TENSOR_NONE for a required input fail with INTERNAL only if no earlier error is held.
#ifndef DELTA_ONNX_GRAPH_EMIT_H_
#define DELTA_ONNX_GRAPH_EMIT_H_

#include "onnx/graph/graph.h"

typedef struct delta_emit {
  delta_graph_t *graph; // Borrowed.
  delta_status_t status;
  const char *name; // name of the nodes emitted next; borrowed until then
  delta_phase_t phase;
  uint32_t group, kin;
  bool fold; // evaluate nodes whose inputs are all constant (within the limits below)
  size_t folded_bytes, folded_work;
} delta_emit_t;
// Folding is bounded, because a small file can ask for large results: bytes of one result, bytes of all, and element operations of all.
// A pointwise result above the broadcast limit stays a node when all its inputs are smaller.
enum {
  DELTA_FOLD_LIMIT_BYTES = 16 << 20,
  DELTA_FOLD_BROADCAST_BYTES = 1 << 20,
  DELTA_FOLD_TOTAL_BYTES = 256 << 20,
  DELTA_FOLD_TOTAL_WORK = 1 << 28,
};

void delta_emit_init(delta_emit_t *emit, delta_graph_t *graph);
// Takes the status out: OK or the first error.
DELTA_MUST_USE delta_status_t delta_emit_finish(delta_emit_t *emit);
// Records an error (kept only if it is the first) and returns NONE.
delta_tensor_id_t delta_emit_fail(delta_emit_t *emit, delta_status_t status);
bool delta_emit_ok(const delta_emit_t *emit);

// What is known of a tensor.
const delta_tensor_t *delta_emit_tensor(const delta_emit_t *emit, delta_tensor_id_t id); // a static empty tensor after an error; never NULL
const delta_shape_t *delta_emit_shape(const delta_emit_t *emit, delta_tensor_id_t id);
delta_dtype_t delta_emit_dtype(const delta_emit_t *emit, delta_tensor_id_t id);
// Reads a constant integer tensor (any integer or bool type) into values[0..capacity); false when it is not constant or too long.
bool delta_emit_constant_ints(const delta_emit_t *emit, delta_tensor_id_t id, int64_t *values, size_t capacity, size_t *out_count);
// Reads a constant of one element.
bool delta_emit_constant_real(const delta_emit_t *emit, delta_tensor_id_t id, double *out_value);

// The general form. attrs (attrs_bytes long) is copied; pointers inside it must live in the graph's region. outputs[] receives output_count ids;
// preset outputs[k] to DELTA_TENSOR_NONE and pass a bit in `wanted` (bit k) for optional outputs that are needed.
void delta_emit_node(delta_emit_t *emit, delta_core_op_t op, const void *attrs, size_t attrs_bytes, const delta_tensor_id_t *inputs,
                     uint32_t input_count, delta_tensor_id_t *outputs, uint32_t output_count, uint64_t wanted);
// One output, attributes by struct: DELTA_EMIT(emit, TRANSPOSE, attrs, x)
#define DELTA_EMIT(emit, op, attrs, ...)                                                                     \
  delta_emit_one((emit), DELTA_CORE_##op, &(attrs), sizeof(attrs), (const delta_tensor_id_t[]){__VA_ARGS__}, \
                 (uint32_t)(sizeof((const delta_tensor_id_t[]){__VA_ARGS__}) / sizeof(delta_tensor_id_t)))
delta_tensor_id_t delta_emit_one(delta_emit_t *emit, delta_core_op_t op, const void *attrs, size_t attrs_bytes,
                                 const delta_tensor_id_t *inputs, uint32_t input_count);

// Constants. `data` is copied.
delta_tensor_id_t delta_emit_constant(delta_emit_t *emit, delta_dtype_t dtype, const delta_shape_t *shape, const void *data);
delta_tensor_id_t delta_emit_scalar(delta_emit_t *emit, delta_dtype_t dtype, double value);
delta_tensor_id_t delta_emit_int64s(delta_emit_t *emit, const int64_t *values, int32_t count); // 1-D
// A tensor of `shape` filled with one value, without storing it as a constant.
delta_tensor_id_t delta_emit_fill(delta_emit_t *emit, delta_dtype_t dtype, const delta_shape_t *shape, double value);

// Views and casts: the input itself when nothing changes.
delta_tensor_id_t delta_emit_view(delta_emit_t *emit, delta_tensor_id_t x, const delta_shape_t *shape);
delta_tensor_id_t delta_emit_cast(delta_emit_t *emit, delta_tensor_id_t x, delta_dtype_t dtype);
// A copy under a new identity (an output that is an input, a state that takes another's value).
delta_tensor_id_t delta_emit_copy(delta_emit_t *emit, delta_tensor_id_t x);
delta_tensor_id_t delta_emit_expand(delta_emit_t *emit, delta_tensor_id_t x, const delta_shape_t *shape); // broadcast, materialised

// Pointwise. The result has the type of the operands (which must agree), bool for comparisons and logic; scalar constants become immediates.
delta_tensor_id_t delta_emit_unary(delta_emit_t *emit, delta_expr_op_t op, delta_tensor_id_t x);
delta_tensor_id_t delta_emit_binary(delta_emit_t *emit, delta_expr_op_t op, delta_tensor_id_t a, delta_tensor_id_t b);
delta_tensor_id_t delta_emit_binary_real(delta_emit_t *emit, delta_expr_op_t op, delta_tensor_id_t a, double b);
delta_tensor_id_t delta_emit_select(delta_emit_t *emit, delta_tensor_id_t condition, delta_tensor_id_t a, delta_tensor_id_t b);
// An expression of one output over inputs broadcast together; `dtype` is the output's. Builder input k is inputs[k]; inputs that are scalar constants become immediates.
delta_tensor_id_t delta_emit_expr(delta_emit_t *emit, const delta_expr_builder_t *builder, delta_dtype_t dtype,
                                  const delta_tensor_id_t *inputs, uint32_t input_count);
// The same with several outputs.
void delta_emit_exprs(delta_emit_t *emit, const delta_expr_builder_t *builder, const delta_dtype_t *dtypes, const delta_tensor_id_t *inputs,
                      uint32_t input_count, delta_tensor_id_t *outputs);
// The type an expression over these element types computes in: int64 for integers and bool, float64 if any is float64, else float32.
delta_dtype_t delta_expr_compute_type(const delta_dtype_t *dtypes, size_t count);

// Reductions over the axes in the mask, keeping the rank. An empty mask gives the input itself for SUM, MEAN, MAX, MIN, PROD.
delta_tensor_id_t delta_emit_reduce(delta_emit_t *emit, delta_reduce_kind_t kind, delta_tensor_id_t x, uint32_t axes);
// A reduction of an expression (output 0 of the builder) over broadcast inputs.
delta_tensor_id_t delta_emit_reduce_expr(delta_emit_t *emit, delta_reduce_kind_t kind, const delta_expr_builder_t *builder,
                                         delta_dtype_t dtype, const delta_tensor_id_t *inputs, uint32_t input_count, uint32_t axes);
// The same with several outputs.
void delta_emit_reduce_exprs(delta_emit_t *emit, delta_reduce_kind_t kind, const delta_expr_builder_t *builder, const delta_dtype_t *dtypes,
                             const delta_tensor_id_t *inputs, uint32_t input_count, uint32_t axes, delta_tensor_id_t *outputs);
// Sums `x` down to `shape`, to which it was broadcast from: the gradient of broadcasting.
delta_tensor_id_t delta_emit_sum_to(delta_emit_t *emit, delta_tensor_id_t x, const delta_shape_t *shape);
void delta_emit_moments(delta_emit_t *emit, delta_tensor_id_t x, uint32_t axes, delta_tensor_id_t *out_mean,
                        delta_tensor_id_t *out_variance);

// Linear algebra and movement.
delta_tensor_id_t delta_emit_matmul(delta_emit_t *emit, delta_tensor_id_t a, delta_tensor_id_t b, bool transpose_a, bool transpose_b);
// The same plus `c` of the result's shape; c NONE: the product alone.
delta_tensor_id_t delta_emit_matmul_add(delta_emit_t *emit, delta_tensor_id_t a, delta_tensor_id_t b, bool transpose_a, bool transpose_b,
                                        delta_tensor_id_t c);
delta_tensor_id_t delta_emit_transpose(delta_emit_t *emit, delta_tensor_id_t x,
                                       const int32_t *permutation); // a view where only dimensions of 1 move
delta_tensor_id_t delta_emit_concat(delta_emit_t *emit, const delta_tensor_id_t *parts, uint32_t count, int32_t axis);
void delta_emit_split(delta_emit_t *emit, delta_tensor_id_t x, int32_t axis, const int64_t *sizes, uint32_t count,
                      delta_tensor_id_t *outputs);
// One contiguous range along one axis.
delta_tensor_id_t delta_emit_range(delta_emit_t *emit, delta_tensor_id_t x, int32_t axis, int64_t begin, int64_t end);

#endif // DELTA_ONNX_GRAPH_EMIT_H_
