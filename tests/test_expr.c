// Expressions: every instruction in every compute type, sharing, folding, checks.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "onnx/graph/expr.h"

typedef struct real_case {
  delta_expr_op_t op;
  double a, b, c, wanted;
} real_case_t;

static const real_case_t real_cases[] = {
    {DELTA_EXPR_ADD, 2, 3, 0, 5},
    {DELTA_EXPR_SUB, 2, 3, 0, -1},
    {DELTA_EXPR_MUL, 2, 3, 0, 6},
    {DELTA_EXPR_DIV, 3, 2, 0, 1.5},
    {DELTA_EXPR_DIV, 1, 0, 0, INFINITY},
    {DELTA_EXPR_MOD, -7, 3, 0, 2},
    {DELTA_EXPR_MOD, 7, -3, 0, -2},
    {DELTA_EXPR_FMOD, -7, 3, 0, -1},
    {DELTA_EXPR_POW, 2, 10, 0, 1024},
    {DELTA_EXPR_MIN, 2, NAN, 0, NAN},
    {DELTA_EXPR_MIN, NAN, 2, 0, NAN},
    {DELTA_EXPR_MIN, 2, 3, 0, 2},
    {DELTA_EXPR_MAX, NAN, 2, 0, NAN},
    {DELTA_EXPR_MAX, 2, 3, 0, 3},
    {DELTA_EXPR_NEG, 2, 0, 0, -2},
    {DELTA_EXPR_ABS, -2, 0, 0, 2},
    {DELTA_EXPR_SIGN, -4, 0, 0, -1},
    {DELTA_EXPR_SIGN, 0, 0, 0, 0},
    {DELTA_EXPR_RECIPROCAL, 4, 0, 0, 0.25},
    {DELTA_EXPR_SQRT, 9, 0, 0, 3},
    {DELTA_EXPR_EXP, 0, 0, 0, 1},
    {DELTA_EXPR_LOG, 1, 0, 0, 0},
    {DELTA_EXPR_LOG1P, 0, 0, 0, 0},
    {DELTA_EXPR_EXPM1, 0, 0, 0, 0},
    {DELTA_EXPR_ERF, 0, 0, 0, 0},
    {DELTA_EXPR_SIN, 0, 0, 0, 0},
    {DELTA_EXPR_COS, 0, 0, 0, 1},
    {DELTA_EXPR_TAN, 0, 0, 0, 0},
    {DELTA_EXPR_ASIN, 0, 0, 0, 0},
    {DELTA_EXPR_ACOS, 1, 0, 0, 0},
    {DELTA_EXPR_ATAN, 0, 0, 0, 0},
    {DELTA_EXPR_SINH, 0, 0, 0, 0},
    {DELTA_EXPR_COSH, 0, 0, 0, 1},
    {DELTA_EXPR_TANH, 0, 0, 0, 0},
    {DELTA_EXPR_ASINH, 0, 0, 0, 0},
    {DELTA_EXPR_ACOSH, 1, 0, 0, 0},
    {DELTA_EXPR_ATANH, 0, 0, 0, 0},
    {DELTA_EXPR_SIGMOID, 0, 0, 0, 0.5},
    {DELTA_EXPR_RELU, -1, 0, 0, 0},
    {DELTA_EXPR_RELU, NAN, 0, 0, NAN},
    {DELTA_EXPR_FLOOR, -1.5, 0, 0, -2},
    {DELTA_EXPR_CEIL, -1.5, 0, 0, -1},
    {DELTA_EXPR_ROUND, 2.5, 0, 0, 2},
    {DELTA_EXPR_ROUND, 3.5, 0, 0, 4},
    {DELTA_EXPR_EQ, 2, 2, 0, 1},
    {DELTA_EXPR_EQ, NAN, NAN, 0, 0},
    {DELTA_EXPR_NE, 2, 2, 0, 0},
    {DELTA_EXPR_LT, 1, 2, 0, 1},
    {DELTA_EXPR_LE, 2, 2, 0, 1},
    {DELTA_EXPR_GT, 1, 2, 0, 0},
    {DELTA_EXPR_GE, 2, 2, 0, 1},
    {DELTA_EXPR_AND, 2, 0, 0, 0},
    {DELTA_EXPR_OR, 2, 0, 0, 1},
    {DELTA_EXPR_XOR, 2, 3, 0, 0},
    {DELTA_EXPR_NOT, 0, 0, 0, 1},
    {DELTA_EXPR_SELECT, 1, 5, 6, 5},
    {DELTA_EXPR_SELECT, 0, 5, 6, 6},
    {DELTA_EXPR_ISNAN, NAN, 0, 0, 1},
    {DELTA_EXPR_ISNAN, INFINITY, 0, 0, 0},
    {DELTA_EXPR_ISINF, -INFINITY, 0, 0, 1},
    {DELTA_EXPR_ISINF, NAN, 0, 0, 0},
};

static bool same(double a, double b) { return isnan(a) ? isnan(b) : a == b; }

// An expression of one operation on inputs, or on constants (which folds it).
static void build(delta_expr_builder_t *builder, delta_dtype_t compute, delta_expr_op_t op, const double *constants) {
  delta_expr_builder_init(builder, compute);
  uint16_t operands[3] = {0};
  for (int k = 0; k < delta_expr_op_info(op)->arity; ++k) {
    operands[k] = constants ? delta_expr_real(builder, constants[k]) : delta_expr_input(builder, (uint16_t)k);
  }
  delta_expr_output(builder, delta_expr_apply(builder, op, operands));
  cr_assert_eq(delta_expr_validate(&builder->expr), DELTA_OK);
}

Test(expr, real_instructions_give_their_definition) {
  for (size_t i = 0; i < sizeof real_cases / sizeof *real_cases; ++i) {
    const real_case_t *c = &real_cases[i];
    const double reals[3] = {c->a, c->b, c->c};
    const float floats[3] = {(float)c->a, (float)c->b, (float)c->c};
    delta_expr_builder_t builder;
    double real;
    float single;
    build(&builder, DELTA_DTYPE_FLOAT64, c->op, NULL);
    delta_expr_eval_double(&builder.expr, reals, &real);
    cr_expect(same(real, c->wanted), "%s case %zu: %g", delta_expr_op_info(c->op)->name, i, real);
    build(&builder, DELTA_DTYPE_FLOAT32, c->op, NULL);
    delta_expr_eval_float(&builder.expr, floats, &single);
    cr_expect(same((double)single, c->wanted), "%s case %zu: %g", delta_expr_op_info(c->op)->name, i, (double)single);
    build(&builder, DELTA_DTYPE_FLOAT64, c->op, reals);
    const delta_expr_instr_t *folded = &builder.expr.instrs[builder.expr.outputs[0]];
    cr_expect(folded->op == DELTA_EXPR_CONST && same(folded->immediate.real, c->wanted), "%s case %zu does not fold",
              delta_expr_op_info(c->op)->name, i);
  }
}

typedef struct integer_case {
  delta_expr_op_t op;
  int64_t a, b, c, wanted;
} integer_case_t;

static const integer_case_t integer_cases[] = {
    {DELTA_EXPR_ADD, INT64_MAX, 1, 0, INT64_MIN},
    {DELTA_EXPR_SUB, INT64_MIN, 1, 0, INT64_MAX},
    {DELTA_EXPR_MUL, INT64_MAX, 2, 0, -2},
    {DELTA_EXPR_NEG, INT64_MIN, 0, 0, INT64_MIN},
    {DELTA_EXPR_ABS, INT64_MIN, 0, 0, INT64_MIN},
    {DELTA_EXPR_DIV, -7, 2, 0, -3},
    {DELTA_EXPR_DIV, 7, 0, 0, 0},
    {DELTA_EXPR_DIV, INT64_MIN, -1, 0, INT64_MIN},
    {DELTA_EXPR_MOD, -7, 3, 0, 2},
    {DELTA_EXPR_MOD, 7, -3, 0, -2},
    {DELTA_EXPR_MOD, 7, 0, 0, 0},
    {DELTA_EXPR_MOD, INT64_MIN, -1, 0, 0},
    {DELTA_EXPR_FMOD, -7, 3, 0, -1},
    {DELTA_EXPR_POW, 3, 4, 0, 81},
    {DELTA_EXPR_POW, 2, -1, 0, 0},
    {DELTA_EXPR_POW, -1, -3, 0, -1},
    {DELTA_EXPR_MIN, 2, 3, 0, 2},
    {DELTA_EXPR_MAX, 2, 3, 0, 3},
    {DELTA_EXPR_SIGN, -4, 0, 0, -1},
    {DELTA_EXPR_RELU, -4, 0, 0, 0},
    {DELTA_EXPR_FLOOR, -4, 0, 0, -4},
    {DELTA_EXPR_EQ, (INT64_C(1) << 53) + 1, INT64_C(1) << 53, 0, 0},
    {DELTA_EXPR_LT, 1, 2, 0, 1},
    {DELTA_EXPR_AND, 2, 4, 0, 1},
    {DELTA_EXPR_XOR, 2, 4, 0, 0},
    {DELTA_EXPR_NOT, 2, 0, 0, 0},
    {DELTA_EXPR_BIT_AND, 6, 3, 0, 2},
    {DELTA_EXPR_BIT_OR, 6, 3, 0, 7},
    {DELTA_EXPR_BIT_XOR, 6, 3, 0, 5},
    {DELTA_EXPR_BIT_NOT, 0, 0, 0, -1},
    {DELTA_EXPR_SELECT, 7, 1, 2, 1},
    {DELTA_EXPR_ISNAN, 7, 0, 0, 0},
};

Test(expr, integer_instructions_are_exact_and_wrap) {
  for (size_t i = 0; i < sizeof integer_cases / sizeof *integer_cases; ++i) {
    const integer_case_t *c = &integer_cases[i];
    const int64_t inputs[3] = {c->a, c->b, c->c};
    delta_expr_builder_t builder;
    int64_t value;
    build(&builder, DELTA_DTYPE_INT64, c->op, NULL);
    delta_expr_eval_int64(&builder.expr, inputs, &value);
    cr_expect_eq(value, c->wanted, "%s case %zu: %lld", delta_expr_op_info(c->op)->name, i, (long long)value);
  }
}

Test(expr, equal_instructions_are_shared) {
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, DELTA_DTYPE_FLOAT32);
  const uint16_t x = delta_expr_input(&builder, 0);
  const uint16_t first = delta_expr_binary(&builder, DELTA_EXPR_ADD, x, delta_expr_real(&builder, 2));
  const uint16_t second = delta_expr_binary(&builder, DELTA_EXPR_ADD, delta_expr_input(&builder, 0), delta_expr_real(&builder, 2));
  cr_expect_eq(first, second);
  cr_expect_eq(builder.expr.instr_count, 3);
  cr_expect_neq(delta_expr_real(&builder, 0.0), delta_expr_real(&builder, -0.0), "zeros of both signs are two constants");
}

Test(expr, neutral_factors_are_left_out) {
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, DELTA_DTYPE_FLOAT32);
  const uint16_t x = delta_expr_input(&builder, 0), one = delta_expr_real(&builder, 1);
  cr_expect_eq(delta_expr_binary(&builder, DELTA_EXPR_MUL, x, one), x);
  cr_expect_eq(delta_expr_binary(&builder, DELTA_EXPR_MUL, one, x), x);
  cr_expect_eq(delta_expr_binary(&builder, DELTA_EXPR_DIV, x, one), x);
  cr_expect_neq(delta_expr_binary(&builder, DELTA_EXPR_DIV, one, x), x);
}

Test(expr, constants_of_float32_are_rounded) {
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, DELTA_DTYPE_FLOAT32);
  const uint16_t c = delta_expr_real(&builder, 0.1);
  cr_expect_eq(builder.storage[c].immediate.real, (double)0.1F);
}

Test(expr, too_many_instructions_are_an_overflow) {
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, DELTA_DTYPE_FLOAT32);
  uint16_t x = delta_expr_input(&builder, 0);
  for (int i = 0; i < DELTA_EXPR_MAX_INSTRS; ++i) x = delta_expr_unary(&builder, DELTA_EXPR_SIN, x);
  cr_expect(builder.overflow);
  delta_expr_builder_init(&builder, DELTA_DTYPE_FLOAT32);
  delta_expr_input(&builder, DELTA_EXPR_MAX_INPUTS);
  cr_expect(builder.overflow);
}

Test(expr, compact_drops_what_no_output_needs) {
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, DELTA_DTYPE_FLOAT32);
  const uint16_t a = delta_expr_input(&builder, 0);
  delta_expr_unary(&builder, DELTA_EXPR_EXP, a);
  const uint16_t b = delta_expr_input(&builder, 2);
  delta_expr_output(&builder, delta_expr_unary(&builder, DELTA_EXPR_NEG, b));
  uint16_t kept[DELTA_EXPR_MAX_INPUTS];
  delta_expr_compact(&builder, kept);
  cr_assert_eq(builder.expr.input_count, 1);
  cr_expect_eq(kept[0], 2);
  cr_expect_eq(builder.expr.instr_count, 2);
  const float input = 3;
  float output;
  delta_expr_eval_float(&builder.expr, &input, &output);
  cr_expect_eq(output, -3);
}

// (a * 2) - exp(b), its parts made in either order.
static void build_difference(delta_expr_builder_t *builder, bool right_first) {
  delta_expr_builder_init(builder, DELTA_DTYPE_FLOAT32);
  const uint16_t a = delta_expr_input(builder, right_first ? 1 : 0), b = delta_expr_input(builder, right_first ? 0 : 1);
  const uint16_t inputs[2] = {right_first ? b : a, right_first ? a : b};
  uint16_t parts[2];
  for (int k = 0; k < 2; ++k) {
    const int part = right_first ? 1 - k : k;
    parts[part] = part == 0 ? delta_expr_binary(builder, DELTA_EXPR_MUL, inputs[0], delta_expr_real(builder, 2.0))
                            : delta_expr_unary(builder, DELTA_EXPR_EXP, inputs[1]);
  }
  delta_expr_output(builder, delta_expr_binary(builder, DELTA_EXPR_SUB, parts[0], parts[1]));
}

Test(expr, the_order_in_which_an_expression_is_built_is_forgotten) {
  delta_expr_builder_t builders[2];
  for (int k = 0; k < 2; ++k) {
    uint16_t kept[DELTA_EXPR_MAX_INPUTS];
    build_difference(&builders[k], k == 1);
    delta_expr_compact(&builders[k], kept);
  }
  cr_assert_eq(builders[0].expr.instr_count, builders[1].expr.instr_count);
  for (uint16_t i = 0; i < builders[0].expr.instr_count; ++i) {
    cr_expect_eq(builders[0].storage[i].op, builders[1].storage[i].op, "instruction %u", i);
    cr_expect_arr_eq(builders[0].storage[i].operands, builders[1].storage[i].operands, sizeof builders[0].storage[i].operands);
  }
  cr_expect_eq(builders[0].expr.outputs[0], builders[1].expr.outputs[0]);
}

typedef struct broken_case {
  const char *what;
  delta_expr_t expr;
} broken_case_t;

Test(expr, validate_finds_broken_expressions) {
  delta_expr_instr_t forward[] = {{.op = DELTA_EXPR_NEG, .operands = {1}}, {.op = DELTA_EXPR_INPUT}};
  delta_expr_instr_t input[] = {{.op = DELTA_EXPR_INPUT, .operands = {1}}};
  delta_expr_instr_t unknown[] = {{.op = DELTA_EXPR_OP_COUNT}};
  delta_expr_instr_t bits[] = {{.op = DELTA_EXPR_INPUT}, {.op = DELTA_EXPR_BIT_NOT}};
  const delta_dtype_t real = DELTA_DTYPE_FLOAT32;
  const broken_case_t cases[] = {
      {"an operand that is not before", {real, 1, 2, 1, {0}, forward}},
      {"an input beyond the last", {real, 1, 1, 1, {0}, input}},
      {"an unknown code", {real, 1, 1, 1, {0}, unknown}},
      {"bits of reals", {real, 1, 2, 1, {1}, bits}},
      {"no outputs", {DELTA_DTYPE_INT64, 1, 2, 0, {1}, bits}},
      {"an output beyond the last", {DELTA_DTYPE_INT64, 1, 2, 1, {2}, bits}},
      {"a type that does not compute", {DELTA_DTYPE_FLOAT16, 1, 2, 1, {1}, bits}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    delta_status_t status = delta_expr_validate(&cases[i].expr);
    cr_expect_eq(delta_status_code(status), DELTA_STATUS_INTERNAL, "%s", cases[i].what);
    delta_status_free(status);
  }
  cr_expect_eq(delta_expr_validate(&(delta_expr_t){DELTA_DTYPE_INT64, 1, 2, 1, {1}, bits}), DELTA_OK);
}
