// Kernels that run expressions: POINTWISE, REDUCE, MOMENTS, compared with the reference.
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/support/case_macros.h"

#define IN(k)                    \
  {                              \
    DELTA_EXPR_INPUT, {k}, { 0 } \
  }
#define REAL_CONSTANT(value)                   \
  {                                            \
    DELTA_EXPR_CONST, {0}, { .real = (value) } \
  }
#define DO(op, ...)                       \
  {                                       \
    DELTA_EXPR_##op, {__VA_ARGS__}, { 0 } \
  }
#define INSTRUCTIONS(...) (uint16_t)(sizeof((delta_expr_instr_t[]){__VA_ARGS__}) / sizeof(delta_expr_instr_t))
#define L(...) \
  { __VA_ARGS__ }
// An expression of `inputs` inputs with the outputs at these instructions.
#define EXPRESSION(inputs, outputs, at, ...)                                                    \
  {                                                                                             \
    F32, inputs, INSTRUCTIONS(__VA_ARGS__), outputs, at, (delta_expr_instr_t[]) { __VA_ARGS__ } \
  }

// a * b + c
#define MULTIPLY_ADD EXPRESSION(3, 1, L(4), IN(0), IN(1), IN(2), DO(MUL, 0, 1), DO(ADD, 3, 2))
// a + b and a * b
#define SUM_AND_PRODUCT EXPRESSION(2, 2, L(2, 3), IN(0), IN(1), DO(ADD, 0, 1), DO(MUL, 0, 1))
#define COPY            EXPRESSION(1, 1, L(0), IN(0))
#define ADD             EXPRESSION(2, 1, L(2), IN(0), IN(1), DO(ADD, 0, 1))

Test(expression_kernels, broadcasting) {
#define POINTWISE(shape, expr, ...) NODE(POINTWISE, delta_pointwise_attrs_t, shape, {__VA_ARGS__}, expr)
  const delta_kernel_case_t rows[] = {
      {"one element", POINTWISE(SHAPE(1), ADD, F32), 2, 1, .inputs = {REALS(1), REALS(1)}},
      {"scalars", POINTWISE(SCALAR, ADD, F32), 2, 1, .inputs = {VALUE(F32, 1.5), VALUE(F32, 2.25)}},
      {"a tile less one", POINTWISE(SHAPE(255), ADD, F32), 2, 1, .inputs = {REALS(255), REALS(255)}},
      {"a tile and one", POINTWISE(SHAPE(257), ADD, F32), 2, 1, .inputs = {REALS(257), REALS(257)}},
      {"large", POINTWISE(SHAPE(333, 777), MULTIPLY_ADD, F32), 3, 1, .inputs = {REALS(333, 777), REALS(333, 777), REALS(333, 777)}},
      {"rows and columns", POINTWISE(SHAPE(70, 90), MULTIPLY_ADD, F32), 3, 1, .inputs = {REALS(70, 1), REALS(90), REALS(70, 90)}},
      {"channels", POINTWISE(SHAPE(3, 16, 9, 11), MULTIPLY_ADD, F32), 3, 1,
       .inputs = {REALS(3, 16, 9, 11), REALS(16, 1, 1), REALS(1, 16, 1, 1)}},
      {"middle", POINTWISE(SHAPE(5, 7, 33), ADD, F32), 2, 1, .inputs = {REALS(5, 1, 33), REALS(7, 1)}},
      {"checkerboard", POINTWISE(SHAPE(3, 4, 5, 6), ADD, F32), 2, 1, .inputs = {REALS(3, 1, 5, 1), REALS(1, 4, 1, 6)}},
      {"scalar input", POINTWISE(SHAPE(300), ADD, F32), 2, 1, .inputs = {REALS(300), VALUE(F32, 0.1)}},
      {"two outputs", POINTWISE(SHAPE(40, 41), SUM_AND_PRODUCT, F32, F32), 2, 2, .inputs = {REALS(40, 41), REALS(41)}},
      {"empty", POINTWISE(SHAPE(0, 5), ADD, F32), 2, 1, .inputs = {REALS(0, 5), REALS(5)}},
      {"from integers", POINTWISE(SHAPE(300), ADD, F32), 2, 1, .inputs = {OF(I64, INDICES, 1e9, 300), OF(I32, INDICES, 1e9, 300)}},
      {"from booleans and float16", POINTWISE(SHAPE(9, 300), ADD, F32), 2, 1,
       .inputs = {OF(BOOL8, COUNTING, 2, 300), OF(F16, RANDOM, 0, 9, 1)}},
      {"to integers", POINTWISE(SHAPE(300), COPY, I32), 1, 1, .inputs = {OF(F32, RANDOM, 3e9, 300)}},
      {"special values to int64", POINTWISE(SHAPE(3000), COPY, I64), 1, 1, .inputs = {SPECIALS(3000)}},
      {"to booleans", POINTWISE(SHAPE(300), COPY, BOOL8), 1, 1, .inputs = {SPECIALS(300)}},
      {"to float16", POINTWISE(SHAPE(300), COPY, F16), 1, 1, .inputs = {SPECIALS(300)}},
      {"fill", POINTWISE(SHAPE(30, 30), EXPRESSION(0, 1, L(0), REAL_CONSTANT(2.5)), F32), 0, 1, .tolerance = 0},
      {"large fill", POINTWISE(SHAPE(300, 300), EXPRESSION(0, 1, L(0), REAL_CONSTANT(0)), F32), 0, 1, .tolerance = 0},
      {"cast from integers by value", POINTWISE(SHAPE(3000), EXPRESSION(1, 1, L(2), IN(0), REAL_CONSTANT(3), DO(MUL, 0, 1)), I64), 1, 1,
       .inputs = {OF(I64, INDICES, 1e12, 3000)}},
  };
  CHECK_KERNEL_CASES(rows);
}

// Every instruction on special values, alone in an expression.
Test(expression_kernels, instructions) {
  for (int op = DELTA_EXPR_ADD; op < DELTA_EXPR_OP_COUNT; ++op) {
    if (op >= DELTA_EXPR_BIT_AND && op <= DELTA_EXPR_BIT_NOT) continue; // of integers
    const uint16_t arity = (uint16_t)delta_expr_op_info((delta_expr_op_t)op)->arity;
    delta_expr_instr_t instrs[4] = {IN(0), IN(1), IN(2), {0}};
    instrs[arity] = (delta_expr_instr_t){(uint16_t)op, {0, arity > 1, arity > 2 ? 2 : 0}, {0}};
    const delta_pointwise_attrs_t attrs = {SHAPE(4000), {F32}, {F32, arity, arity + 1, 1, {arity}, instrs}};
    const delta_kernel_case_t row = {delta_expr_op_info((delta_expr_op_t)op)->name, DELTA_TEST_NODE(POINTWISE, attrs), arity, 1,
                                     .inputs = {SPECIALS(4000), SPECIALS(4000), SPECIALS(4000)}};
    char reason[DELTA_KERNEL_CASE_REASON_BYTES] = "";
    cr_expect(delta_kernel_case_run(&row, reason), "%s", reason);
  }
}

// exp(a - b) * c and the same squared
#define PROLOGUE EXPRESSION(3, 2, L(5, 6), IN(0), IN(1), IN(2), DO(SUB, 0, 1), DO(EXP, 3), DO(MUL, 4, 2), DO(MUL, 5, 5))

Test(expression_kernels, reductions) {
#define REDUCE(shape, axes, kind, ...) \
  NODE(REDUCE, delta_reduce_attrs_t, shape, axes, {DELTA_REDUCE_##kind}, {F32}, COPY), 1, 1, .inputs = { __VA_ARGS__ }
#define FIRST  1u
#define SECOND 2u
#define THIRD  4u
#define FOURTH 8u
  const delta_kernel_case_t rows[] = {
      {"rows", REDUCE(SHAPE(33, 700), SECOND, SUM, REALS(33, 700)), 1e-6},
      {"columns", REDUCE(SHAPE(700, 33), FIRST, SUM, REALS(700, 33)), 1e-6},
      {"wide columns", REDUCE(SHAPE(300, 1000), FIRST, MEAN, REALS(300, 1000)), 1e-6},
      {"everything", REDUCE(SHAPE(100, 1001), FIRST | SECOND, SUM, REALS(100, 1001)), 1e-6},
      {"everything, small", REDUCE(SHAPE(3, 5), FIRST | SECOND, MEAN, REALS(3, 5)), 1e-6},
      {"one large line", REDUCE(SHAPE(500001), FIRST, SUM, REALS(500001)), 1e-6},
      {"few rows of many", REDUCE(SHAPE(2, 200001), SECOND, MEAN, REALS(2, 200001)), 1e-6},
      {"channels", REDUCE(SHAPE(8, 5, 30, 31), FIRST | THIRD | FOURTH, SUM, REALS(8, 5, 30, 31)), 1e-6},
      {"one channel", REDUCE(SHAPE(64, 1, 30, 31), FIRST | THIRD | FOURTH, MEAN, REALS(64, 1, 30, 31)), 1e-6},
      {"middle", REDUCE(SHAPE(9, 40, 33), SECOND, SUM, REALS(9, 40, 33)), 1e-6},
      {"outer and inner kept", REDUCE(SHAPE(3, 40, 2, 50), SECOND, MAX, REALS(3, 40, 2, 50))},
      {"alternating", REDUCE(SHAPE(7, 6, 5, 9), FIRST | THIRD, SUM, REALS(7, 6, 5, 9)), 1e-6},
      {"alternating, inner", REDUCE(SHAPE(7, 6, 5, 9), SECOND | FOURTH, SUM, REALS(7, 6, 5, 9)), 1e-6},
      {"no axes", REDUCE(SHAPE(7, 6), 0, SUM, REALS(7, 6))},
      {"axes of 1", REDUCE(SHAPE(7, 1, 6), SECOND, MEAN, REALS(7, 1, 6))},
      {"scalar", REDUCE(SCALAR, 0, SUM, VALUE(F32, 3))},
      {"largest", REDUCE(SHAPE(50, 333), SECOND, MAX, REALS(50, 333))},
      {"largest of special values", REDUCE(SHAPE(500, 9), SECOND, MAX, SPECIALS(500, 9))},
      {"smallest of special values", REDUCE(SHAPE(9, 500), FIRST, MIN, SPECIALS(9, 500))},
      {"smallest of all", REDUCE(SHAPE(300, 400), FIRST | SECOND, MIN, REALS(300, 400))},
      {"largest of all", REDUCE(SHAPE(300000), FIRST, MAX, REALS(300000))},
      {"product", REDUCE(SHAPE(50, 11), SECOND, PROD, REALS(50, 11)), 1e-6},
      {"broadcast", REDUCE(SHAPE(50, 90), FIRST, SUM, REALS(1, 90)), 1e-6},
      {"of integers", REDUCE(SHAPE(50, 90), FIRST, SUM, OF(I64, COUNTING, 100, 50, 90)), 1e-6},
      {"no result", REDUCE(SHAPE(0, 90), SECOND, SUM, REALS(0, 90)), .refused = true},
      {"of nothing", REDUCE(SHAPE(9, 0), SECOND, SUM, REALS(9, 0)), .refused = true},
      {"largest of nothing", REDUCE(SHAPE(0, 9), FIRST, MAX, REALS(0, 9)), .refused = true},
      {"prologue, rows",
       NODE(REDUCE, delta_reduce_attrs_t, SHAPE(60, 70), SECOND, L(DELTA_REDUCE_SUM, DELTA_REDUCE_MAX), L(F32, F32), PROLOGUE), 3, 2,
       .inputs = {REALS(60, 70), REALS(60, 1), REALS(70)}, .tolerance = 1e-5},
      {"prologue, columns",
       NODE(REDUCE, delta_reduce_attrs_t, SHAPE(60, 70), FIRST, L(DELTA_REDUCE_MEAN, DELTA_REDUCE_SUM), L(F32, F32), PROLOGUE), 3, 2,
       .inputs = {REALS(60, 70), REALS(60, 1), REALS(70)}, .tolerance = 1e-5},
      {"prologue, all",
       NODE(REDUCE, delta_reduce_attrs_t, SHAPE(300, 700), FIRST | SECOND, L(DELTA_REDUCE_MEAN, DELTA_REDUCE_MIN), L(F32, F32), PROLOGUE),
       3, 2, .inputs = {REALS(300, 700), REALS(300, 1), REALS(700)}, .tolerance = 1e-5},
      {"to int64", NODE(REDUCE, delta_reduce_attrs_t, SHAPE(30, 7), SECOND, L(DELTA_REDUCE_SUM), L(I64), COPY), 1, 1,
       .inputs = {OF(F32, COUNTING, 50, 30, 7)}},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(expression_kernels, moments) {
#define MOMENTS(axes) NODE(MOMENTS, delta_moments_attrs_t, axes), 1, 2
  const delta_kernel_case_t rows[] = {
      {"batch normalisation", MOMENTS(FIRST | THIRD | FOURTH), .inputs = {REALS(8, 5, 30, 31)}, .tolerance = 1e-6},
      {"batch normalisation, many channels", MOMENTS(FIRST | THIRD | FOURTH), .inputs = {REALS(3, 70, 7, 7)}, .tolerance = 1e-6},
      {"batch normalisation of vectors", MOMENTS(FIRST), .inputs = {REALS(100, 300)}, .tolerance = 1e-6},
      {"layer normalisation", MOMENTS(THIRD), .inputs = {REALS(4, 50, 257)}, .tolerance = 1e-6},
      {"instance normalisation", MOMENTS(THIRD | FOURTH), .inputs = {REALS(3, 4, 20, 20)}, .tolerance = 1e-6},
      {"all", MOMENTS(FIRST | SECOND), .inputs = {REALS(300, 401)}, .tolerance = 1e-6},
      {"one element each", MOMENTS(SECOND), .inputs = {REALS(5, 1)}, .tolerance = 1e-6},
      {"no axes", MOMENTS(0), .inputs = {REALS(5, 3)}, .tolerance = 1e-6},
      {"far from zero", MOMENTS(SECOND), .inputs = {OF(F32, RANDOM, 1e4, 20, 300)}, .tolerance = 1e-6},
      {"of nothing", MOMENTS(SECOND), .inputs = {REALS(5, 0)}, .refused = true},
      {"none", MOMENTS(SECOND), .inputs = {REALS(0, 5)}, .refused = true},
      {"float64", MOMENTS(SECOND), .inputs = {OF(F64, RANDOM, 0, 5, 6)}, .refused = true, .tolerance = 1e-14},
  };
  CHECK_KERNEL_CASES(rows);
}
