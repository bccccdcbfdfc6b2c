// Formula: shorthand for one pointwise step over a few tensors. Values are instructions of the expression; the type it computes in follows from the
// tensors. Private to onnx/lower.
#ifndef DELTA_ONNX_LOWER_FORMULA_H_
#define DELTA_ONNX_LOWER_FORMULA_H_

#include "onnx/graph/emit.h"

typedef struct delta_formula {
  delta_emit_t *emit; // Borrowed.
  delta_expr_builder_t builder;
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS];
  uint32_t input_count;
} delta_formula_t;

// A formula over at most DELTA_EXPR_MAX_INPUTS tensors, none of them NONE unless an error is held.
void delta_formula_init(delta_formula_t *formula, delta_emit_t *emit, const delta_tensor_id_t *inputs, uint32_t count);
// The step itself: `value` as a tensor of type `dtype`.
delta_tensor_id_t delta_formula_emit(delta_formula_t *formula, uint16_t value, delta_dtype_t dtype);
// The value summed (or otherwise reduced) over the axes of the mask, keeping the rank.
delta_tensor_id_t delta_formula_reduce(delta_formula_t *formula, delta_reduce_kind_t kind, uint16_t value, delta_dtype_t dtype,
                                       uint32_t axes);

// The numbers 0 to count - 1 as [count, 1, ...] with `after` dimensions of 1: what a formula compares positions along an axis with.
delta_tensor_id_t delta_formula_positions(delta_emit_t *emit, int64_t count, int32_t after);

static inline uint16_t delta_formula_input(delta_formula_t *formula, uint16_t k) { return delta_expr_input(&formula->builder, k); }
static inline uint16_t delta_formula_real(delta_formula_t *formula, double value) { return delta_expr_real(&formula->builder, value); }
static inline uint16_t delta_formula_unary(delta_formula_t *formula, delta_expr_op_t op, uint16_t a) {
  return delta_expr_unary(&formula->builder, op, a);
}
static inline uint16_t delta_formula_binary(delta_formula_t *formula, delta_expr_op_t op, uint16_t a, uint16_t b) {
  return delta_expr_binary(&formula->builder, op, a, b);
}
static inline uint16_t delta_formula_add(delta_formula_t *formula, uint16_t a, uint16_t b) {
  return delta_expr_binary(&formula->builder, DELTA_EXPR_ADD, a, b);
}
static inline uint16_t delta_formula_sub(delta_formula_t *formula, uint16_t a, uint16_t b) {
  return delta_expr_binary(&formula->builder, DELTA_EXPR_SUB, a, b);
}
static inline uint16_t delta_formula_mul(delta_formula_t *formula, uint16_t a, uint16_t b) {
  return delta_expr_binary(&formula->builder, DELTA_EXPR_MUL, a, b);
}
static inline uint16_t delta_formula_div(delta_formula_t *formula, uint16_t a, uint16_t b) {
  return delta_expr_binary(&formula->builder, DELTA_EXPR_DIV, a, b);
}
static inline uint16_t delta_formula_select(delta_formula_t *formula, uint16_t condition, uint16_t a, uint16_t b) {
  return delta_expr_select(&formula->builder, condition, a, b);
}

#endif // DELTA_ONNX_LOWER_FORMULA_H_
