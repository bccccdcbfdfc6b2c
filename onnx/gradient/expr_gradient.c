// Derivative of an expression: one table of rules, and reverse-mode accumulation over the instructions.
#include "onnx/gradient/expr_gradient.h"

#include <math.h>

typedef delta_expr_builder_t builder_t;

// Instructions by short names: the rules below read as formulas. C leaves open which argument of a call is evaluated first, so at most one argument
// adds instructions (besides constants that are there already): the order of instructions, and with it a graph's hash, must not depend on the compiler.
#define UNARY(name, id) \
  static uint16_t name(builder_t *b, uint16_t x) { return delta_expr_unary(b, DELTA_EXPR_##id, x); }
#define BINARY(name, id) \
  static uint16_t name(builder_t *b, uint16_t x, uint16_t y) { return delta_expr_binary(b, DELTA_EXPR_##id, x, y); }
UNARY(negate, NEG)
UNARY(square_root, SQRT)
UNARY(exponential, EXP)
UNARY(logarithm, LOG)
UNARY(sine, SIN)
UNARY(cosine, COS)
UNARY(hyperbolic_sine, SINH)
UNARY(hyperbolic_cosine, COSH)
UNARY(sign_of, SIGN)
UNARY(floor_of, FLOOR)
UNARY(ceiling_of, CEIL)
BINARY(add, ADD)
BINARY(subtract, SUB)
BINARY(multiply, MUL)
BINARY(divide, DIV)
BINARY(power, POW)
BINARY(equal, EQ)
BINARY(less, LT)
BINARY(less_equal, LE)
BINARY(greater_equal, GE)
BINARY(both, AND)
#undef UNARY
#undef BINARY
static uint16_t real(builder_t *b, double value) { return delta_expr_real(b, value); }
static uint16_t zero(builder_t *b) { return delta_expr_real(b, 0.0); }
static uint16_t square(builder_t *b, uint16_t x) { return multiply(b, x, x); }
static uint16_t scaled(builder_t *b, uint16_t x, double factor) { return multiply(b, x, real(b, factor)); }
static uint16_t one_minus(builder_t *b, uint16_t x) { return subtract(b, real(b, 1.0), x); }
static uint16_t one_plus(builder_t *b, uint16_t x) { return add(b, x, real(b, 1.0)); }
static uint16_t choose(builder_t *b, uint16_t condition, uint16_t x, uint16_t y) { return delta_expr_select(b, condition, x, y); }

// Rules of one value v, the operand or the result: dy * f'(v).
#define RULE(name, formula) \
  static uint16_t rule_##name(builder_t *b, uint16_t dy, uint16_t v) { return formula; }
RULE(neg, ((void)v, negate(b, dy)))
RULE(abs, multiply(b, dy, sign_of(b, v)))
RULE(reciprocal, negate(b, multiply(b, dy, square(b, v))))
RULE(sqrt, divide(b, dy, multiply(b, real(b, 2.0), v)))
RULE(exp, multiply(b, dy, v))
RULE(log, divide(b, dy, v))
RULE(log1p, divide(b, dy, one_plus(b, v)))
RULE(expm1, multiply(b, dy, one_plus(b, v)))
RULE(erf, multiply(b, dy, scaled(b, exponential(b, negate(b, square(b, v))), M_2_SQRTPI)))
RULE(sin, multiply(b, dy, cosine(b, v)))
RULE(cos, multiply(b, dy, negate(b, sine(b, v))))
RULE(tan, multiply(b, dy, one_plus(b, square(b, v))))
RULE(asin, divide(b, dy, square_root(b, one_minus(b, square(b, v)))))
RULE(acos, negate(b, rule_asin(b, dy, v)))
RULE(atan, divide(b, dy, one_plus(b, square(b, v))))
RULE(sinh, multiply(b, dy, hyperbolic_cosine(b, v)))
RULE(cosh, multiply(b, dy, hyperbolic_sine(b, v)))
RULE(tanh, multiply(b, dy, one_minus(b, square(b, v))))
RULE(asinh, divide(b, dy, square_root(b, one_plus(b, square(b, v)))))
RULE(acosh, divide(b, dy, square_root(b, subtract(b, square(b, v), real(b, 1.0)))))
RULE(atanh, divide(b, dy, one_minus(b, square(b, v))))
RULE(sigmoid, multiply(b, dy, multiply(b, v, one_minus(b, v))))
RULE(relu, choose(b, less_equal(b, v, zero(b)), zero(b), dy))
#undef RULE

// Rules of several operands: the gradient by operand k of forward instruction `instr`.
typedef delta_expr_gradient_t gradient_t;
static uint16_t operand(gradient_t *g, uint16_t instr, int k) {
  return delta_expr_gradient_value(g, g->forward->instrs[instr].operands[k]);
}
static bool operand_constant(const gradient_t *g, uint16_t instr, int k, double *out_value) {
  const delta_expr_instr_t *source = &g->forward->instrs[g->forward->instrs[instr].operands[k]];
  if (source->op != DELTA_EXPR_CONST) return false;
  *out_value = source->immediate.real;
  return true;
}

static uint16_t rule_add(gradient_t *g, uint16_t instr, int k, uint16_t dy) {
  (void)g, (void)instr, (void)k;
  return dy;
}

static uint16_t rule_sub(gradient_t *g, uint16_t instr, int k, uint16_t dy) {
  (void)instr;
  return k == 0 ? dy : negate(&g->builder, dy);
}

static uint16_t rule_mul(gradient_t *g, uint16_t instr, int k, uint16_t dy) { return multiply(&g->builder, dy, operand(g, instr, 1 - k)); }

static uint16_t rule_div(gradient_t *g, uint16_t instr, int k, uint16_t dy) {
  builder_t *b = &g->builder;
  const uint16_t divisor = operand(g, instr, 1);
  if (k == 0) return divide(b, dy, divisor);
  const uint16_t quotient = divide(b, operand(g, instr, 0), divisor);
  return negate(b, multiply(b, dy, divide(b, quotient, divisor)));
}

// a - floor(a / b) * b, and with truncation: the divisor's gradient is minus that integer.
static uint16_t rule_mod(gradient_t *g, uint16_t instr, int k, uint16_t dy) {
  if (k == 0) return dy;
  builder_t *b = &g->builder;
  const uint16_t dividend = operand(g, instr, 0);
  const uint16_t quotient = divide(b, dividend, operand(g, instr, 1));
  uint16_t integer = floor_of(b, quotient);
  if (g->forward->instrs[instr].op == DELTA_EXPR_FMOD) {
    const uint16_t negative = less(b, quotient, zero(b));
    integer = choose(b, negative, ceiling_of(b, quotient), integer);
  }
  return negate(b, multiply(b, dy, integer));
}

static uint16_t pow_by_base(gradient_t *g, uint16_t instr, uint16_t dy) {
  builder_t *b = &g->builder;
  double constant;
  if (operand_constant(g, instr, 1, &constant)) {
    if (constant == 0.0) return DELTA_EXPR_NONE;
    if (constant == 1.0) return dy;
    const uint16_t base = operand(g, instr, 0);
    const uint16_t lower = constant == 2.0 ? base : power(b, base, real(b, constant - 1.0));
    return multiply(b, dy, scaled(b, lower, constant));
  }
  const uint16_t base = operand(g, instr, 0);
  const uint16_t exponent = operand(g, instr, 1);
  const uint16_t lower = power(b, base, subtract(b, exponent, real(b, 1.0)));
  const uint16_t slope = multiply(b, exponent, lower);
  const uint16_t flat = equal(b, exponent, zero(b));
  return choose(b, flat, zero(b), multiply(b, dy, slope));
}

static uint16_t rule_pow(gradient_t *g, uint16_t instr, int k, uint16_t dy) {
  if (k == 0) return pow_by_base(g, instr, dy);
  builder_t *b = &g->builder;
  const uint16_t base = operand(g, instr, 0);
  const uint16_t exponent = operand(g, instr, 1);
  const uint16_t at_zero = equal(b, base, zero(b));
  const uint16_t flat = both(b, at_zero, greater_equal(b, exponent, zero(b)));
  const uint16_t result = delta_expr_gradient_value(g, instr);
  const uint16_t slope = multiply(b, result, logarithm(b, base));
  return choose(b, flat, zero(b), multiply(b, dy, slope));
}

// The larger (smaller) operand takes the gradient. On a tie each takes half, but against a constant the other takes all.
static uint16_t rule_extreme(gradient_t *g, uint16_t instr, int k, uint16_t dy) {
  builder_t *b = &g->builder;
  const uint16_t mine = operand(g, instr, k);
  const uint16_t other = operand(g, instr, 1 - k);
  const bool is_max = g->forward->instrs[instr].op == DELTA_EXPR_MAX;
  const uint16_t lost = is_max ? less(b, mine, other) : less(b, other, mine);
  double constant;
  uint16_t won = dy;
  if (!operand_constant(g, instr, 1 - k, &constant)) {
    const uint16_t tie = equal(b, mine, other);
    won = choose(b, tie, scaled(b, dy, 0.5), dy);
  }
  return choose(b, lost, zero(b), won);
}

static uint16_t rule_select(gradient_t *g, uint16_t instr, int k, uint16_t dy) {
  builder_t *b = &g->builder;
  if (k == 0) return DELTA_EXPR_NONE;
  const uint16_t condition = operand(g, instr, 0);
  return k == 1 ? choose(b, condition, dy, zero(b)) : choose(b, condition, zero(b), dy);
}

// Instructions without a row have derivative zero: comparisons, logic, rounding, tests. Where both forms are given, the result is read only if it is stored.
typedef struct rule {
  uint16_t (*of_operand)(builder_t *b, uint16_t dy, uint16_t x); // unary, read through the operand
  uint16_t (*of_result)(builder_t *b, uint16_t dy, uint16_t y);  // unary, read through the result
  uint16_t (*of_operands)(gradient_t *g, uint16_t instr, int k, uint16_t dy);
} rule_t;

static const rule_t rules[DELTA_EXPR_OP_COUNT] = {
    [DELTA_EXPR_ADD] = {.of_operands = rule_add},
    [DELTA_EXPR_SUB] = {.of_operands = rule_sub},
    [DELTA_EXPR_MUL] = {.of_operands = rule_mul},
    [DELTA_EXPR_DIV] = {.of_operands = rule_div},
    [DELTA_EXPR_MOD] = {.of_operands = rule_mod},
    [DELTA_EXPR_FMOD] = {.of_operands = rule_mod},
    [DELTA_EXPR_POW] = {.of_operands = rule_pow},
    [DELTA_EXPR_MIN] = {.of_operands = rule_extreme},
    [DELTA_EXPR_MAX] = {.of_operands = rule_extreme},
    [DELTA_EXPR_SELECT] = {.of_operands = rule_select},
    [DELTA_EXPR_NEG] = {.of_operand = rule_neg},
    [DELTA_EXPR_ABS] = {.of_operand = rule_abs},
    [DELTA_EXPR_RECIPROCAL] = {.of_result = rule_reciprocal},
    [DELTA_EXPR_SQRT] = {.of_result = rule_sqrt},
    [DELTA_EXPR_EXP] = {.of_result = rule_exp},
    [DELTA_EXPR_LOG] = {.of_operand = rule_log},
    [DELTA_EXPR_LOG1P] = {.of_operand = rule_log1p},
    [DELTA_EXPR_EXPM1] = {.of_result = rule_expm1},
    [DELTA_EXPR_ERF] = {.of_operand = rule_erf},
    [DELTA_EXPR_SIN] = {.of_operand = rule_sin},
    [DELTA_EXPR_COS] = {.of_operand = rule_cos},
    [DELTA_EXPR_TAN] = {.of_result = rule_tan},
    [DELTA_EXPR_ASIN] = {.of_operand = rule_asin},
    [DELTA_EXPR_ACOS] = {.of_operand = rule_acos},
    [DELTA_EXPR_ATAN] = {.of_operand = rule_atan},
    [DELTA_EXPR_SINH] = {.of_operand = rule_sinh},
    [DELTA_EXPR_COSH] = {.of_operand = rule_cosh},
    [DELTA_EXPR_TANH] = {.of_result = rule_tanh},
    [DELTA_EXPR_ASINH] = {.of_operand = rule_asinh},
    [DELTA_EXPR_ACOSH] = {.of_operand = rule_acosh},
    [DELTA_EXPR_ATANH] = {.of_operand = rule_atanh},
    [DELTA_EXPR_SIGMOID] = {.of_result = rule_sigmoid},
    [DELTA_EXPR_RELU] = {.of_operand = rule_relu, .of_result = rule_relu}, // the sign of both decides alike
};

static bool has_rule(uint16_t op) { return rules[op].of_operand || rules[op].of_result || rules[op].of_operands; }

void delta_expr_gradient_init(delta_expr_gradient_t *gradient, const delta_expr_t *forward) {
  delta_expr_builder_init(&gradient->builder, forward->compute);
  gradient->forward = forward;
  for (int k = 0; k < DELTA_EXPR_MAX_INPUTS; ++k) gradient->sources[k] = DELTA_EXPR_NONE;
  for (int i = 0; i < DELTA_EXPR_MAX_INSTRS; ++i) {
    gradient->values[i] = gradient->stored[i] = gradient->adjoints[i] = DELTA_EXPR_NONE;
  }
}

void delta_expr_gradient_store(delta_expr_gradient_t *gradient, uint16_t instr, uint16_t source) { gradient->stored[instr] = source; }

uint16_t delta_expr_gradient_source(delta_expr_gradient_t *gradient, uint16_t source) {
  uint16_t k = 0;
  while (k < gradient->builder.expr.input_count && gradient->sources[k] != source) ++k;
  if (k < DELTA_EXPR_MAX_INPUTS) gradient->sources[k] = source;
  return delta_expr_input(&gradient->builder, k); // one too many: the builder overflows
}

uint16_t delta_expr_gradient_value(delta_expr_gradient_t *gradient, uint16_t instr) {
  if (gradient->values[instr] != DELTA_EXPR_NONE) return gradient->values[instr];
  const delta_expr_instr_t *forward = &gradient->forward->instrs[instr];
  builder_t *b = &gradient->builder;
  uint16_t value;
  if (forward->op == DELTA_EXPR_INPUT) {
    value = delta_expr_gradient_source(gradient, forward->operands[0]);
  } else if (forward->op == DELTA_EXPR_CONST) {
    value = real(b, forward->immediate.real);
  } else if (gradient->stored[instr] != DELTA_EXPR_NONE) {
    value = delta_expr_gradient_source(gradient, gradient->stored[instr]);
  } else {
    uint16_t operands[3] = {0};
    const delta_expr_op_t op = (delta_expr_op_t)forward->op;
    for (int k = 0; k < delta_expr_op_info(op)->arity; ++k) operands[k] = delta_expr_gradient_value(gradient, forward->operands[k]);
    value = delta_expr_apply(b, op, operands);
  }
  gradient->values[instr] = value;
  return value;
}

void delta_expr_gradient_add(delta_expr_gradient_t *gradient, uint16_t instr, uint16_t adjoint) {
  if (adjoint == DELTA_EXPR_NONE) return;
  uint16_t *sum = &gradient->adjoints[instr];
  *sum = *sum == DELTA_EXPR_NONE ? adjoint : add(&gradient->builder, *sum, adjoint);
}

// Passes the gradient of one instruction on to those of its operands that lead to a wanted input.
static void propagate(gradient_t *g, uint16_t instr, const bool *leads) {
  const delta_expr_instr_t *forward = &g->forward->instrs[instr];
  const rule_t *rule = &rules[forward->op];
  const uint16_t dy = g->adjoints[instr];
  const bool through_result = rule->of_result && (g->stored[instr] != DELTA_EXPR_NONE || !rule->of_operand);
  if (through_result) {
    delta_expr_gradient_add(g, forward->operands[0], rule->of_result(&g->builder, dy, delta_expr_gradient_value(g, instr)));
  } else if (rule->of_operand) {
    delta_expr_gradient_add(g, forward->operands[0], rule->of_operand(&g->builder, dy, operand(g, instr, 0)));
  } else if (rule->of_operands) {
    const int arity = delta_expr_op_info((delta_expr_op_t)forward->op)->arity;
    for (int k = 0; k < arity; ++k) {
      if (leads[forward->operands[k]]) delta_expr_gradient_add(g, forward->operands[k], rule->of_operands(g, instr, k, dy));
    }
  }
}

void delta_expr_gradient_run(delta_expr_gradient_t *gradient, uint32_t wanted, uint16_t *out_gradients) {
  const delta_expr_t *forward = gradient->forward;
  bool leads[DELTA_EXPR_MAX_INSTRS] = {false};
  for (uint16_t i = 0; i < forward->instr_count; ++i) {
    const delta_expr_instr_t *instr = &forward->instrs[i];
    if (instr->op == DELTA_EXPR_INPUT) leads[i] = (wanted >> instr->operands[0]) & 1u;
    if (!has_rule(instr->op)) continue;
    const int arity = delta_expr_op_info((delta_expr_op_t)instr->op)->arity;
    for (int k = 0; k < arity; ++k) leads[i] = leads[i] || leads[instr->operands[k]];
  }
  for (uint16_t k = 0; k < forward->input_count; ++k) out_gradients[k] = DELTA_EXPR_NONE;
  for (uint16_t i = forward->instr_count; i-- > 0;) {
    if (!leads[i] || gradient->adjoints[i] == DELTA_EXPR_NONE) continue;
    const delta_expr_instr_t *instr = &forward->instrs[i];
    if (instr->op != DELTA_EXPR_INPUT) {
      propagate(gradient, i, leads);
      continue;
    }
    uint16_t *out = &out_gradients[instr->operands[0]];
    *out = *out == DELTA_EXPR_NONE ? gradient->adjoints[i] : add(&gradient->builder, *out, gradient->adjoints[i]);
  }
}
