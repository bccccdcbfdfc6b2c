// Expressions as machine code: random ones over runs of all kinds, whose results are the plain definition's to the last bit.
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/random.h"
#include "tests/support/case_macros.h"

// How the inputs lie: two dense ones first, then what repeats in all ways.
typedef struct run_case {
  const char *name;
  delta_shape_t shape;
  delta_kernel_operand_t inputs[6];
} run_case_t;
enum { INPUTS = 6 };

static const run_case_t run_cases[] = {
    {"one run with a rest",
     SHAPE(20011),
     {SPECIALS(20011), SPECIALS(20011), SPECIALS(1), VALUE(F32, 0.5), OF(I64, COUNTING, 5, 1), SPECIALS(20011)}},
    {"rows", SHAPE(7, 600), {SPECIALS(7, 600), SPECIALS(7, 600), SPECIALS(7, 1), SPECIALS(600), VALUE(F32, -3), SPECIALS(7, 600)}},
    {"blocks of 16",
     SHAPE(2, 3, 5, 7, 16),
     {SPECIALS(2, 3, 5, 7, 16), SPECIALS(2, 3, 5, 7, 16), SPECIALS(1, 3, 1, 1, 16), REALS(3, 1, 1, 16), REALS(1, 3, 1, 1, 16),
      SPECIALS(2, 1, 1, 1, 1)}},
    {"blocks of 8",
     SHAPE(2, 3, 9, 9, 8),
     {SPECIALS(2, 3, 9, 9, 8), SPECIALS(2, 3, 9, 9, 8), SPECIALS(1, 3, 1, 1, 8), REALS(3, 1, 1, 8), REALS(1, 3, 1, 1, 8),
      SPECIALS(2, 3, 1, 1, 1)}},
    {"planes",
     SHAPE(2, 5, 31, 29),
     {SPECIALS(2, 5, 31, 29), SPECIALS(2, 5, 31, 29), SPECIALS(5, 1, 1), REALS(1, 5, 1, 1), REALS(2, 1, 1, 1), SPECIALS(2, 5, 31, 29)}},
};

// Instructions that have code. Functions of what repeats are computed outside of it.
static const delta_expr_op_t ops[] = {
    DELTA_EXPR_ADD,   DELTA_EXPR_SUB,    DELTA_EXPR_MUL,        DELTA_EXPR_DIV,    DELTA_EXPR_MIN,  DELTA_EXPR_MAX,   DELTA_EXPR_NEG,
    DELTA_EXPR_ABS,   DELTA_EXPR_RELU,   DELTA_EXPR_RECIPROCAL, DELTA_EXPR_SQRT,   DELTA_EXPR_CEIL, DELTA_EXPR_ROUND, DELTA_EXPR_FLOOR,
    DELTA_EXPR_EQ,    DELTA_EXPR_NE,     DELTA_EXPR_LT,         DELTA_EXPR_LE,     DELTA_EXPR_GT,   DELTA_EXPR_GE,    DELTA_EXPR_NOT,
    DELTA_EXPR_ISNAN, DELTA_EXPR_SELECT, DELTA_EXPR_SELECT,     DELTA_EXPR_SELECT, DELTA_EXPR_EXP,  DELTA_EXPR_EXPM1, DELTA_EXPR_LOG,
    DELTA_EXPR_LOG1P, DELTA_EXPR_ERF,    DELTA_EXPR_TANH,       DELTA_EXPR_SIGMOID};
enum { OPS = sizeof ops / sizeof *ops, MOST_INSTRS = 40 };

// Draws of one expression.
typedef struct draws {
  uint64_t key, count;
} draws_t;

static uint16_t draw(draws_t *draws, uint32_t limit) { return (uint16_t)(delta_random_word(draws->key, draws->count++) % limit); }

// Operands are mostly recent values, so that chains grow and few are left over.
static uint16_t draw_operand(draws_t *draws, uint16_t count) {
  const uint16_t back = draw(draws, draw(draws, 2) ? 4 : count);
  return back < count ? (uint16_t)(count - 1 - back) : 0;
}

static delta_expr_t draw_expr(draws_t *draws, delta_expr_instr_t *instrs) {
  delta_expr_t expr = {.compute = F32, .input_count = INPUTS, .output_count = (uint16_t)(1 + draw(draws, 3)), .instrs = instrs};
  for (uint16_t k = 0; k < INPUTS; ++k) instrs[expr.instr_count++] = (delta_expr_instr_t){.op = DELTA_EXPR_INPUT, .operands = {k}};
  instrs[expr.instr_count++] = (delta_expr_instr_t){.op = DELTA_EXPR_CONST, .immediate = {.real = 1.5}};
  const uint16_t count = (uint16_t)(expr.instr_count + 1 + draw(draws, MOST_INSTRS - INPUTS - 2));
  while (expr.instr_count < count) {
    delta_expr_instr_t *instr = &instrs[expr.instr_count];
    *instr = (delta_expr_instr_t){.op = (uint16_t)ops[draw(draws, OPS)]};
    const int arity = delta_expr_op_info((delta_expr_op_t)instr->op)->arity;
    for (int k = 0; k < arity; ++k) instr->operands[k] = draw_operand(draws, expr.instr_count);
    ++expr.instr_count;
  }
  for (uint16_t k = 0; k < expr.output_count; ++k) expr.outputs[k] = k == 0 ? (uint16_t)(count - 1) : draw(draws, count);
  return expr;
}

static void check(const run_case_t *run, uint64_t seed, delta_test_node_t node, uint32_t outputs, double tolerance) {
  char name[64], reason[DELTA_KERNEL_CASE_REASON_BYTES] = "";
  snprintf(name, sizeof name, "%s, expression %llu", run->name, (unsigned long long)seed);
  delta_kernel_case_t row = {.name = name, .node = node, .input_count = INPUTS, .output_count = outputs, .tolerance = tolerance};
  for (int k = 0; k < INPUTS; ++k) row.inputs[k] = run->inputs[k];
  cr_expect(delta_kernel_case_run(&row, reason), "%s", reason);
}

Test(cpu_compiled, random_expressions) {
  enum { EACH = 40 };
  for (size_t r = 0; r < sizeof run_cases / sizeof *run_cases; ++r) {
    for (uint64_t seed = 0; seed < EACH; ++seed) {
      draws_t draws = {.key = delta_random_key(seed, r, 0)};
      delta_expr_instr_t instrs[MOST_INSTRS];
      const delta_pointwise_attrs_t attrs = {run_cases[r].shape, {F32, F32, F32}, draw_expr(&draws, instrs)};
      check(&run_cases[r], seed, (delta_test_node_t)DELTA_TEST_NODE(POINTWISE, attrs), attrs.expr.output_count, 0);
    }
  }
}

// Results larger than caches are stored around them.
Test(cpu_compiled, large_results) {
  delta_expr_instr_t instrs[] = {{DELTA_EXPR_INPUT, {0}, {0}}, {DELTA_EXPR_INPUT, {1}, {0}}, {DELTA_EXPR_MUL, {0, 1}, {0}}};
  const delta_pointwise_attrs_t attrs = {SHAPE(40, 4, 40, 44, 16), {F32}, {F32, 2, 3, 1, {2}, instrs}};
  const delta_kernel_case_t rows[] = {
      {"large", DELTA_TEST_NODE(POINTWISE, attrs), 2, 1, .inputs = {REALS(40, 4, 40, 44, 16), REALS(1, 4, 1, 1, 16)}}};
  CHECK_KERNEL_CASES(rows);
}

#define BIT(d) (1u << (d))
// What a batch normalisation's gradient sums: of dy and of dy * (x - mean).
Test(cpu_compiled, sums) {
  delta_expr_instr_t instrs[] = {{DELTA_EXPR_INPUT, {0}, {0}},
                                 {DELTA_EXPR_INPUT, {1}, {0}},
                                 {DELTA_EXPR_INPUT, {2}, {0}},
                                 {DELTA_EXPR_SUB, {1, 2}, {0}},
                                 {DELTA_EXPR_MUL, {0, 3}, {0}}};
#define SUMS_OF(first, second, axes, ...)                                                                  \
  NODE(REDUCE, delta_reduce_attrs_t, __VA_ARGS__, axes, {DELTA_REDUCE_SUM, DELTA_REDUCE_MEAN}, {F32, F32}, \
       {F32, 3, 5, 2, {first, second}, instrs}),                                                           \
      3, 2
#define SUMS(shape, axes) SUMS_OF(0, 4, axes, shape)
  const delta_kernel_case_t rows[] = {
      {"blocks of 16", SUMS(SHAPE(3, 5, 9, 11, 16), BIT(0) | BIT(2) | BIT(3)),
       .inputs = {REALS(3, 5, 9, 11, 16), REALS(3, 5, 9, 11, 16), REALS(5, 1, 1, 16)}, .tolerance = 1e-5},
      {"few blocks", SUMS(SHAPE(3, 1, 60, 61, 16), BIT(0) | BIT(2) | BIT(3)),
       .inputs = {REALS(3, 1, 60, 61, 16), REALS(3, 1, 60, 61, 16), REALS(1, 1, 1, 16)}, .tolerance = 1e-5},
      {"blocks of 8", SUMS(SHAPE(3, 5, 9, 11, 8), BIT(0) | BIT(2) | BIT(3)),
       .inputs = {REALS(3, 5, 9, 11, 8), REALS(3, 5, 9, 11, 8), REALS(5, 1, 1, 8)}, .tolerance = 1e-5},
      {"more blocks than a batch", SUMS(SHAPE(5, 70, 9, 11, 8), BIT(0) | BIT(2) | BIT(3)),
       .inputs = {REALS(5, 70, 9, 11, 8), REALS(5, 70, 9, 11, 8), REALS(70, 1, 1, 8)}, .tolerance = 1e-5},
      {"what does not vary", SUMS_OF(4, 2, BIT(0) | BIT(2) | BIT(3), SHAPE(3, 5, 9, 11, 8)),
       .inputs = {REALS(3, 5, 9, 11, 8), REALS(3, 5, 9, 11, 8), REALS(5, 1, 1, 8)}, .tolerance = 1e-5},
      {"planes with a rest", SUMS(SHAPE(3, 5, 31, 29), BIT(0) | BIT(2) | BIT(3)),
       .inputs = {REALS(3, 5, 31, 29), REALS(3, 5, 31, 29), REALS(5, 1, 1)}, .tolerance = 1e-5},
      {"along rows with a rest", SUMS(SHAPE(200, 1237), BIT(0)), .inputs = {REALS(200, 1237), REALS(200, 1237), REALS(200, 1)},
       .tolerance = 1e-5},
      {"along rows of several", SUMS(SHAPE(3, 70, 600), BIT(1)), .inputs = {REALS(3, 70, 600), REALS(3, 70, 600), REALS(3, 1, 600)},
       .tolerance = 1e-5},
      {"large offsets cancel", SUMS(SHAPE(40, 600), BIT(1)), .inputs = {OF(F32, RANDOM, 1e4, 40, 600), REALS(40, 600), REALS(40, 1)},
       .tolerance = 1e-5},
  };
  CHECK_KERNEL_CASES(rows);
}
