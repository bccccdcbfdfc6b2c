// Expressions: the builder (sharing equal instructions, folding constants), the checks, and evaluation through one table of functions
// per compute type. The tables are the definition of every instruction; kernels of devices are compared with them.
#include "onnx/graph/expr.h"

#include <math.h>
#include <string.h>

#include "onnx/graph/expr_math.h"

static const delta_expr_op_info_t op_infos[DELTA_EXPR_OP_COUNT] = {
#define X(id, name, arity) [DELTA_EXPR_##id] = {name, arity},
#include "onnx/graph/expr_ops.inc"
#undef X
};

const delta_expr_op_info_t *delta_expr_op_info(delta_expr_op_t op) { return &op_infos[op]; }

// The same definitions in float32 and float64.
#define REAL              float
#define REAL_NAME(name)   float_##name
#define REAL_MATH(name)   name##f
#define REAL_VECTOR(name) delta_##name##f
#define REAL_CONST(real)  ((float)(real))
#include "onnx/graph/expr_real.inc"

// In float64 by the C library's functions.
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
#define REAL              double
#define REAL_NAME(name)   double_##name
#define REAL_MATH(name)   name
#define REAL_VECTOR(name) name
#define REAL_CONST(real)  (real)
#include "onnx/graph/expr_real.inc"

// Integers wrap around: the arithmetic is done on unsigned values.
typedef int64_t (*int64_function_t)(int64_t a, int64_t b, int64_t c);
#define INT64_FUNCTION(name, expression)                         \
  static int64_t int64_##name(int64_t a, int64_t b, int64_t c) { \
    (void)a, (void)b, (void)c;                                   \
    return (expression);                                         \
  }

static int64_t int64_wrap(uint64_t bits) {
  int64_t value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

INT64_FUNCTION(add, int64_wrap((uint64_t)a + (uint64_t)b))
INT64_FUNCTION(sub, int64_wrap((uint64_t)a - (uint64_t)b))
INT64_FUNCTION(mul, int64_wrap((uint64_t)a *(uint64_t)b))
INT64_FUNCTION(neg, int64_wrap(0 - (uint64_t)a))
// A divisor of -1 is a negation, because INT64_MIN / -1 traps.
INT64_FUNCTION(div, b == 0 ? 0 : b == -1 ? int64_neg(a, 0, 0) : a / b)
INT64_FUNCTION(fmod, b == 0 || b == -1 ? 0 : a % b)
INT64_FUNCTION(mod, int64_fmod(a, b, 0) != 0 && (int64_fmod(a, b, 0) < 0) != (b < 0) ? int64_fmod(a, b, 0) + b : int64_fmod(a, b, 0))
INT64_FUNCTION(min, a < b ? a : b)
INT64_FUNCTION(max, a > b ? a : b)
INT64_FUNCTION(abs, a < 0 ? int64_neg(a, 0, 0) : a)
INT64_FUNCTION(sign, (a > 0) - (a < 0))
INT64_FUNCTION(reciprocal, int64_div(1, a, 0))
INT64_FUNCTION(relu, a > 0 ? a : 0)
INT64_FUNCTION(identity, a)
INT64_FUNCTION(eq, a == b)
INT64_FUNCTION(ne, a != b)
INT64_FUNCTION(lt, a < b)
INT64_FUNCTION(le, a <= b)
INT64_FUNCTION(gt, a > b)
INT64_FUNCTION(ge, a >= b)
INT64_FUNCTION(and, a != 0 && b != 0)
INT64_FUNCTION(or, a != 0 || b != 0)
INT64_FUNCTION(xor, (a != 0) != (b != 0))
INT64_FUNCTION(not, a == 0)
INT64_FUNCTION(bit_and, (a & b))
INT64_FUNCTION(bit_or, a | b)
INT64_FUNCTION(bit_xor, a ^ b)
INT64_FUNCTION(bit_not, ~a)
INT64_FUNCTION(select, a != 0 ? b : c)
INT64_FUNCTION(never, 0)

// By repeated squaring, wrapping; a negative exponent gives what truncating 1 / base^|exponent| gives.
static int64_t int64_pow(int64_t base, int64_t exponent, int64_t c) {
  (void)c;
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  uint64_t result = 1, power = (uint64_t)base;
  for (uint64_t rest = (uint64_t)exponent; rest != 0; rest >>= 1) {
    if (rest & 1) result *= power;
    power *= power;
  }
  return int64_wrap(result);
}

// NULL: the instruction has no meaning on integers.
static const int64_function_t int64_functions[DELTA_EXPR_OP_COUNT] = {
    [DELTA_EXPR_ADD] = int64_add,
    [DELTA_EXPR_SUB] = int64_sub,
    [DELTA_EXPR_MUL] = int64_mul,
    [DELTA_EXPR_DIV] = int64_div,
    [DELTA_EXPR_MOD] = int64_mod,
    [DELTA_EXPR_FMOD] = int64_fmod,
    [DELTA_EXPR_POW] = int64_pow,
    [DELTA_EXPR_MIN] = int64_min,
    [DELTA_EXPR_MAX] = int64_max,
    [DELTA_EXPR_NEG] = int64_neg,
    [DELTA_EXPR_ABS] = int64_abs,
    [DELTA_EXPR_SIGN] = int64_sign,
    [DELTA_EXPR_RECIPROCAL] = int64_reciprocal,
    [DELTA_EXPR_RELU] = int64_relu,
    [DELTA_EXPR_FLOOR] = int64_identity,
    [DELTA_EXPR_CEIL] = int64_identity,
    [DELTA_EXPR_ROUND] = int64_identity,
    [DELTA_EXPR_EQ] = int64_eq,
    [DELTA_EXPR_NE] = int64_ne,
    [DELTA_EXPR_LT] = int64_lt,
    [DELTA_EXPR_LE] = int64_le,
    [DELTA_EXPR_GT] = int64_gt,
    [DELTA_EXPR_GE] = int64_ge,
    [DELTA_EXPR_AND] = int64_and,
    [DELTA_EXPR_OR] = int64_or,
    [DELTA_EXPR_XOR] = int64_xor,
    [DELTA_EXPR_NOT] = int64_not,
    [DELTA_EXPR_BIT_AND] = int64_bit_and,
    [DELTA_EXPR_BIT_OR] = int64_bit_or,
    [DELTA_EXPR_BIT_XOR] = int64_bit_xor,
    [DELTA_EXPR_BIT_NOT] = int64_bit_not,
    [DELTA_EXPR_SELECT] = int64_select,
    [DELTA_EXPR_ISNAN] = int64_never,
    [DELTA_EXPR_ISINF] = int64_never,
};

// One evaluator per compute type: values[i] is instruction i's result.
#define DEFINE_EVAL(suffix, type, table, member)                                                                          \
  void delta_expr_eval_##suffix(const delta_expr_t *expr, const type *inputs, type *outputs) {                            \
    type values[DELTA_EXPR_MAX_INSTRS];                                                                                   \
    for (uint16_t i = 0; i < expr->instr_count; ++i) {                                                                    \
      const delta_expr_instr_t *instr = &expr->instrs[i];                                                                 \
      if (instr->op == DELTA_EXPR_INPUT) {                                                                                \
        values[i] = inputs[instr->operands[0]];                                                                           \
      } else if (instr->op == DELTA_EXPR_CONST) {                                                                         \
        values[i] = (type)instr->immediate.member;                                                                        \
      } else {                                                                                                            \
        /* Unused operands are 0, and instruction 0 exists: it is an input or a constant. */                              \
        values[i] = table[instr->op](values[instr->operands[0]], values[instr->operands[1]], values[instr->operands[2]]); \
      }                                                                                                                   \
    }                                                                                                                     \
    for (uint16_t k = 0; k < expr->output_count; ++k) outputs[k] = values[expr->outputs[k]];                              \
  }
DEFINE_EVAL(double, double, double_functions, real)
DEFINE_EVAL(float, float, float_functions, real)
DEFINE_EVAL(int64, int64_t, int64_functions, integer)

static bool op_computes_in(uint16_t op, delta_dtype_t compute) {
  if (op == DELTA_EXPR_INPUT || op == DELTA_EXPR_CONST) return true;
  return compute == DELTA_DTYPE_INT64 ? int64_functions[op] != NULL : double_functions[op] != NULL;
}

void delta_expr_builder_init(delta_expr_builder_t *builder, delta_dtype_t compute) {
  memset(builder, 0, sizeof *builder);
  builder->expr.compute = compute;
  builder->expr.instrs = builder->storage;
}

// The bits of immediates are compared, so that -0 and NaN keep their identity.
static bool instr_equal(const delta_expr_instr_t *a, const delta_expr_instr_t *b) {
  return a->op == b->op && memcmp(a->operands, b->operands, sizeof a->operands) == 0 &&
         memcmp(&a->immediate, &b->immediate, sizeof a->immediate) == 0;
}

static uint16_t builder_add(delta_expr_builder_t *builder, const delta_expr_instr_t *instr) {
  delta_expr_t *expr = &builder->expr;
  for (uint16_t i = 0; i < expr->instr_count; ++i) {
    if (instr_equal(&expr->instrs[i], instr)) return i;
  }
  if (expr->instr_count == DELTA_EXPR_MAX_INSTRS) {
    builder->overflow = true;
    return 0;
  }
  expr->instrs[expr->instr_count] = *instr;
  return expr->instr_count++;
}

uint16_t delta_expr_input(delta_expr_builder_t *builder, uint16_t input_index) {
  if (input_index >= DELTA_EXPR_MAX_INPUTS) {
    builder->overflow = true;
    return 0;
  }
  if (input_index >= builder->expr.input_count) builder->expr.input_count = (uint16_t)(input_index + 1);
  return builder_add(builder, &(delta_expr_instr_t){.op = DELTA_EXPR_INPUT, .operands = {input_index}});
}

uint16_t delta_expr_real(delta_expr_builder_t *builder, double value) {
  delta_expr_instr_t instr = {.op = DELTA_EXPR_CONST};
  if (builder->expr.compute == DELTA_DTYPE_INT64) {
    delta_element_store_double(&instr.immediate.integer, DELTA_DTYPE_INT64, 0, value);
  } else {
    instr.immediate.real = builder->expr.compute == DELTA_DTYPE_FLOAT32 ? (double)(float)value : value;
  }
  return builder_add(builder, &instr);
}

uint16_t delta_expr_integer(delta_expr_builder_t *builder, int64_t value) {
  if (builder->expr.compute != DELTA_DTYPE_INT64) {
    return delta_expr_real(builder, builder->expr.compute == DELTA_DTYPE_FLOAT32 ? (double)(float)value : (double)value);
  }
  return builder_add(builder, &(delta_expr_instr_t){.op = DELTA_EXPR_CONST, .immediate.integer = value});
}

// Evaluates an instruction of constants; false when an operand is not constant.
static bool fold_instr(delta_expr_builder_t *builder, const delta_expr_instr_t *instr, uint16_t *out_instr) {
  const int arity = op_infos[instr->op].arity;
  delta_expr_instr_t program[4];
  for (int k = 0; k < 3; ++k) {
    program[k] = builder->expr.instrs[instr->operands[k < arity ? k : 0]];
    if (program[k].op != DELTA_EXPR_CONST) return false;
  }
  program[3] = (delta_expr_instr_t){.op = instr->op, .operands = {0, 1, 2}};
  const delta_expr_t expr = {.compute = builder->expr.compute, .instr_count = 4, .output_count = 1, .outputs = {3}, .instrs = program};
  if (expr.compute == DELTA_DTYPE_INT64) {
    int64_t value;
    delta_expr_eval_int64(&expr, NULL, &value);
    *out_instr = delta_expr_integer(builder, value);
  } else if (expr.compute == DELTA_DTYPE_FLOAT32) {
    float value;
    delta_expr_eval_float(&expr, NULL, &value);
    *out_instr = delta_expr_real(builder, (double)value);
  } else {
    double value;
    delta_expr_eval_double(&expr, NULL, &value);
    *out_instr = delta_expr_real(builder, value);
  }
  return true;
}

static bool is_one(const delta_expr_t *expr, uint16_t instr) {
  if (expr->instrs[instr].op != DELTA_EXPR_CONST) return false;
  return expr->compute == DELTA_DTYPE_INT64 ? expr->instrs[instr].immediate.integer == 1 : expr->instrs[instr].immediate.real == 1.0;
}

// Products with 1 and quotients by 1 are exact for every value, so they are left out: gradients are full of them.
static bool drop_neutral(const delta_expr_builder_t *builder, const delta_expr_instr_t *instr, uint16_t *out_instr) {
  if (instr->op != DELTA_EXPR_MUL && instr->op != DELTA_EXPR_DIV) return false;
  if (is_one(&builder->expr, instr->operands[1])) {
    *out_instr = instr->operands[0];
    return true;
  }
  if (instr->op == DELTA_EXPR_MUL && is_one(&builder->expr, instr->operands[0])) {
    *out_instr = instr->operands[1];
    return true;
  }
  return false;
}

uint16_t delta_expr_apply(delta_expr_builder_t *builder, delta_expr_op_t op, const uint16_t operands[3]) {
  if (builder->overflow) return 0;
  delta_expr_instr_t instr = {.op = (uint16_t)op};
  memcpy(instr.operands, operands, sizeof(uint16_t) * (size_t)op_infos[op].arity);
  uint16_t result;
  if (op_computes_in(instr.op, builder->expr.compute) && fold_instr(builder, &instr, &result)) return result;
  if (drop_neutral(builder, &instr, &result)) return result;
  return builder_add(builder, &instr);
}

uint16_t delta_expr_unary(delta_expr_builder_t *builder, delta_expr_op_t op, uint16_t a) {
  return delta_expr_apply(builder, op, (const uint16_t[3]){a});
}

uint16_t delta_expr_binary(delta_expr_builder_t *builder, delta_expr_op_t op, uint16_t a, uint16_t b) {
  return delta_expr_apply(builder, op, (const uint16_t[3]){a, b});
}

uint16_t delta_expr_select(delta_expr_builder_t *builder, uint16_t condition, uint16_t a, uint16_t b) {
  return delta_expr_apply(builder, DELTA_EXPR_SELECT, (const uint16_t[3]){condition, a, b});
}

void delta_expr_output(delta_expr_builder_t *builder, uint16_t instr) {
  if (builder->expr.output_count == DELTA_EXPR_MAX_OUTPUTS) {
    builder->overflow = true;
    return;
  }
  builder->expr.outputs[builder->expr.output_count++] = instr;
}

static void mark_live(const delta_expr_t *expr, bool live[DELTA_EXPR_MAX_INSTRS]) {
  memset(live, 0, sizeof(bool) * DELTA_EXPR_MAX_INSTRS);
  for (uint16_t k = 0; k < expr->output_count; ++k) live[expr->outputs[k]] = true;
  for (uint16_t i = expr->instr_count; i-- > 0;) {
    if (!live[i]) continue;
    for (int k = 0; k < op_infos[expr->instrs[i].op].arity; ++k) live[expr->instrs[i].operands[k]] = true;
  }
}

static uint16_t copy_constant(delta_expr_builder_t *builder, delta_dtype_t compute, const delta_expr_instr_t *instr) {
  return compute == DELTA_DTYPE_INT64 ? delta_expr_integer(builder, instr->immediate.integer)
                                      : delta_expr_real(builder, instr->immediate.real);
}

// An expression on its way into a builder.
typedef struct inlining {
  delta_expr_builder_t *builder;
  const delta_expr_t *from;
  bool done[DELTA_EXPR_MAX_INSTRS];
  uint16_t mapped[DELTA_EXPR_MAX_INSTRS]; // the builder's instruction for each that is done
} inlining_t;

// Depth first, operands in their order: what results depends on what is computed alone, not on the order in which `from` was built.
static uint16_t inline_instr(inlining_t *self, const uint16_t *inputs, uint16_t i) {
  if (self->done[i]) return self->mapped[i];
  const delta_expr_instr_t *instr = &self->from->instrs[i];
  if (instr->op == DELTA_EXPR_INPUT) {
    self->mapped[i] = inputs[instr->operands[0]];
  } else if (instr->op == DELTA_EXPR_CONST) {
    self->mapped[i] = copy_constant(self->builder, self->from->compute, instr);
  } else {
    uint16_t operands[3] = {0};
    for (int k = 0; k < op_infos[instr->op].arity; ++k) operands[k] = inline_instr(self, inputs, instr->operands[k]);
    self->mapped[i] = delta_expr_apply(self->builder, (delta_expr_op_t)instr->op, operands);
  }
  self->done[i] = true;
  return self->mapped[i];
}

void delta_expr_inline(delta_expr_builder_t *builder, const delta_expr_t *from, const uint16_t *inputs, uint16_t *out_instrs) {
  inlining_t self = {.builder = builder, .from = from};
  for (uint16_t k = 0; k < from->output_count; ++k) out_instrs[k] = inline_instr(&self, inputs, from->outputs[k]);
}

void delta_expr_compact(delta_expr_builder_t *builder, uint16_t out_kept[DELTA_EXPR_MAX_INPUTS]) {
  bool live[DELTA_EXPR_MAX_INSTRS], used[DELTA_EXPR_MAX_INPUTS] = {false};
  mark_live(&builder->expr, live);
  for (uint16_t i = 0; i < builder->expr.instr_count; ++i) {
    if (live[i] && builder->expr.instrs[i].op == DELTA_EXPR_INPUT) used[builder->expr.instrs[i].operands[0]] = true;
  }
  delta_expr_builder_t compacted;
  delta_expr_builder_init(&compacted, builder->expr.compute);
  uint16_t inputs[DELTA_EXPR_MAX_INPUTS] = {0}, outputs[DELTA_EXPR_MAX_OUTPUTS], kept = 0;
  for (uint16_t k = 0; k < builder->expr.input_count; ++k) {
    if (!used[k]) continue;
    inputs[k] = delta_expr_input(&compacted, kept);
    out_kept[kept++] = k;
  }
  delta_expr_inline(&compacted, &builder->expr, inputs, outputs);
  for (uint16_t k = 0; k < builder->expr.output_count; ++k) delta_expr_output(&compacted, outputs[k]);
  const bool overflow = builder->overflow;
  *builder = compacted;
  builder->expr.instrs = builder->storage;
  builder->overflow = overflow;
}

static delta_status_t validate_instr(const delta_expr_t *expr, uint16_t i) {
  const delta_expr_instr_t *instr = &expr->instrs[i];
  if (instr->op >= DELTA_EXPR_OP_COUNT) return delta_status_make(INTERNAL, "expression: instruction %u has unknown code %u", i, instr->op);
  const delta_expr_op_info_t *info = &op_infos[instr->op];
  if (!op_computes_in(instr->op, expr->compute)) {
    return delta_status_make(INTERNAL, "expression: instruction %u (%s) has no meaning in %s", i, info->name,
                             delta_dtype_name(expr->compute));
  }
  if (instr->op == DELTA_EXPR_INPUT && instr->operands[0] >= expr->input_count) {
    return delta_status_make(INTERNAL, "expression: instruction %u reads input %u of %u", i, instr->operands[0], expr->input_count);
  }
  if (instr->op == DELTA_EXPR_INPUT || instr->op == DELTA_EXPR_CONST) return DELTA_OK;
  // Unused operands are read as well (and ignored), so they must exist too.
  for (int k = 0; k < 3; ++k) {
    if (instr->operands[k] >= i) {
      return delta_status_make(INTERNAL, "expression: instruction %u (%s) reads instruction %u, which is not before it", i, info->name,
                               instr->operands[k]);
    }
  }
  return DELTA_OK;
}

delta_status_t delta_expr_validate(const delta_expr_t *expr) {
  if (expr->compute != DELTA_DTYPE_FLOAT32 && expr->compute != DELTA_DTYPE_FLOAT64 && expr->compute != DELTA_DTYPE_INT64) {
    return delta_status_make(INTERNAL, "expression: cannot compute in type %d", (int)expr->compute);
  }
  if (expr->instr_count == 0 || expr->instr_count > DELTA_EXPR_MAX_INSTRS || expr->input_count > DELTA_EXPR_MAX_INPUTS ||
      expr->output_count == 0 || expr->output_count > DELTA_EXPR_MAX_OUTPUTS) {
    return delta_status_make(INTERNAL, "expression: %u instructions, %u inputs, %u outputs; at most %d, %d, %d", expr->instr_count,
                             expr->input_count, expr->output_count, DELTA_EXPR_MAX_INSTRS, DELTA_EXPR_MAX_INPUTS, DELTA_EXPR_MAX_OUTPUTS);
  }
  for (uint16_t i = 0; i < expr->instr_count; ++i) DELTA_RETURN_IF_ERROR(validate_instr(expr, i));
  for (uint16_t k = 0; k < expr->output_count; ++k) {
    if (expr->outputs[k] >= expr->instr_count) {
      return delta_status_make(INTERNAL, "expression: output %u is instruction %u of %u", k, expr->outputs[k], expr->instr_count);
    }
  }
  return DELTA_OK;
}

bool delta_expr_gives_bool(delta_expr_op_t op) {
  switch (op) {
    case DELTA_EXPR_EQ:
    case DELTA_EXPR_NE:
    case DELTA_EXPR_LT:
    case DELTA_EXPR_LE:
    case DELTA_EXPR_GT:
    case DELTA_EXPR_GE:
    case DELTA_EXPR_AND:
    case DELTA_EXPR_OR:
    case DELTA_EXPR_XOR:
    case DELTA_EXPR_NOT:
    case DELTA_EXPR_ISNAN:
    case DELTA_EXPR_ISINF:
      return true;
    default:
      return false;
  }
}
