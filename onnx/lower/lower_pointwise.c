// Lowering of operators that are one instruction, or a short chain of one instruction, per element: rows of tables by name.
// Formulas with parameters are in lower_activation.c.
#include <assert.h>
#include <string.h>

#include "onnx/lower/lower.h"

// What an operator takes and gives.
typedef enum element_rule {
  RULE_SAME,    // any type, which the result has
  RULE_FLOAT,   // a float type, which the result has
  RULE_INTEGER, // an integer type, which the result has
  RULE_TEST,    // any type; the result is bool
  RULE_LOGIC,   // bool; the result is bool
} element_rule_t;

typedef struct element_row {
  const char *name;
  delta_expr_op_t op;
  element_rule_t rule;
} element_row_t;

static const element_row_t element_rows[] = {
    // One operand.
    {"Abs", DELTA_EXPR_ABS, RULE_SAME},
    {"Acos", DELTA_EXPR_ACOS, RULE_FLOAT},
    {"Acosh", DELTA_EXPR_ACOSH, RULE_FLOAT},
    {"Asin", DELTA_EXPR_ASIN, RULE_FLOAT},
    {"Asinh", DELTA_EXPR_ASINH, RULE_FLOAT},
    {"Atan", DELTA_EXPR_ATAN, RULE_FLOAT},
    {"Atanh", DELTA_EXPR_ATANH, RULE_FLOAT},
    {"BitwiseNot", DELTA_EXPR_BIT_NOT, RULE_INTEGER},
    {"Ceil", DELTA_EXPR_CEIL, RULE_FLOAT},
    {"Cos", DELTA_EXPR_COS, RULE_FLOAT},
    {"Cosh", DELTA_EXPR_COSH, RULE_FLOAT},
    {"Erf", DELTA_EXPR_ERF, RULE_FLOAT},
    {"Exp", DELTA_EXPR_EXP, RULE_FLOAT},
    {"Floor", DELTA_EXPR_FLOOR, RULE_FLOAT},
    {"IsNaN", DELTA_EXPR_ISNAN, RULE_TEST},
    {"Log", DELTA_EXPR_LOG, RULE_FLOAT},
    {"Neg", DELTA_EXPR_NEG, RULE_SAME},
    {"Not", DELTA_EXPR_NOT, RULE_LOGIC},
    {"Reciprocal", DELTA_EXPR_RECIPROCAL, RULE_FLOAT},
    {"Relu", DELTA_EXPR_RELU, RULE_SAME},
    {"Round", DELTA_EXPR_ROUND, RULE_FLOAT},
    {"Sigmoid", DELTA_EXPR_SIGMOID, RULE_FLOAT},
    {"Sign", DELTA_EXPR_SIGN, RULE_SAME},
    {"Sin", DELTA_EXPR_SIN, RULE_FLOAT},
    {"Sinh", DELTA_EXPR_SINH, RULE_FLOAT},
    {"Sqrt", DELTA_EXPR_SQRT, RULE_FLOAT},
    {"Tan", DELTA_EXPR_TAN, RULE_FLOAT},
    {"Tanh", DELTA_EXPR_TANH, RULE_FLOAT},
    // Two operands, or a chain over many (Sum, Max, Min).
    {"Add", DELTA_EXPR_ADD, RULE_SAME},
    {"And", DELTA_EXPR_AND, RULE_LOGIC},
    {"BitwiseAnd", DELTA_EXPR_BIT_AND, RULE_INTEGER},
    {"BitwiseOr", DELTA_EXPR_BIT_OR, RULE_INTEGER},
    {"BitwiseXor", DELTA_EXPR_BIT_XOR, RULE_INTEGER},
    {"Div", DELTA_EXPR_DIV, RULE_SAME},
    {"Equal", DELTA_EXPR_EQ, RULE_TEST},
    {"Greater", DELTA_EXPR_GT, RULE_TEST},
    {"GreaterOrEqual", DELTA_EXPR_GE, RULE_TEST},
    {"Less", DELTA_EXPR_LT, RULE_TEST},
    {"LessOrEqual", DELTA_EXPR_LE, RULE_TEST},
    {"Max", DELTA_EXPR_MAX, RULE_SAME},
    {"Min", DELTA_EXPR_MIN, RULE_SAME},
    {"Mul", DELTA_EXPR_MUL, RULE_SAME},
    {"Or", DELTA_EXPR_OR, RULE_LOGIC},
    {"Sub", DELTA_EXPR_SUB, RULE_SAME},
    {"Sum", DELTA_EXPR_ADD, RULE_FLOAT},
    {"Mean", DELTA_EXPR_ADD, RULE_FLOAT},
    {"Xor", DELTA_EXPR_XOR, RULE_LOGIC},
};

static const element_row_t *find_element_row(const char *name) {
  const element_row_t *row = element_rows;
  while (strcmp(row->name, name) != 0) {
    ++row;
    assert(row < element_rows + sizeof element_rows / sizeof *element_rows); // every operator with this lowering has a row
  }
  return row;
}

// The inputs' common type, checked against the rule. DELTA_DTYPE_COUNT after an error.
static delta_dtype_t operand_type(delta_lower_t *lower, element_rule_t rule) {
  static const char *const wanted[] = {[RULE_SAME] = "a number",
                                       [RULE_FLOAT] = "of a float type",
                                       [RULE_INTEGER] = "of an integer type",
                                       [RULE_TEST] = "",
                                       [RULE_LOGIC] = "bool"};
  if (!delta_lower_same_types(lower, 0)) return DELTA_DTYPE_COUNT;
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, lower->inputs[0]);
  bool is_float = delta_dtype_is_float(dtype), is_bool = dtype == DELTA_DTYPE_BOOL;
  bool fits = rule == RULE_TEST || (rule == RULE_SAME && !is_bool) || (rule == RULE_FLOAT && is_float) ||
              (rule == RULE_INTEGER && !is_float && !is_bool) || (rule == RULE_LOGIC && is_bool);
  if (fits) return dtype;
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input is %s; it must be %s", delta_dtype_name(dtype), wanted[rule]);
  return DELTA_DTYPE_COUNT;
}

static delta_dtype_t result_type(element_rule_t rule, delta_dtype_t operand) {
  return rule == RULE_TEST || rule == RULE_LOGIC ? DELTA_DTYPE_BOOL : operand;
}

delta_status_t delta_lower_unary(delta_lower_t *lower) {
  const element_row_t *row = find_element_row(lower->node->op_type);
  delta_dtype_t dtype = operand_type(lower, row->rule);
  if (dtype == DELTA_DTYPE_COUNT) return DELTA_OK;
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  delta_expr_output(&builder, delta_expr_unary(&builder, row->op, delta_expr_input(&builder, 0)));
  lower->outputs[0] = delta_emit_expr(&lower->emit, &builder, result_type(row->rule, dtype), lower->inputs, 1);
  return DELTA_OK;
}

// An integer division whose divisor is known must not contain 0: the file would be wrong on any machine.
static void check_divisor(delta_lower_t *lower, delta_dtype_t dtype) {
  const delta_tensor_t *divisor = delta_emit_tensor(&lower->emit, lower->inputs[1]);
  if (delta_dtype_is_float(dtype) || divisor->data == NULL) return;
  int64_t count = delta_shape_count(&divisor->shape);
  for (int64_t k = 0; k < count; ++k) {
    if (delta_element_load_int64(divisor->data, dtype, (size_t)k) != 0) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the divisor contains 0");
    return;
  }
}

static delta_tensor_id_t emit_pair(delta_lower_t *lower, delta_expr_op_t op, delta_dtype_t dtype, delta_dtype_t result) {
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  uint16_t a = delta_expr_input(&builder, 0), b = delta_expr_input(&builder, 1);
  delta_expr_output(&builder, delta_expr_binary(&builder, op, a, b));
  return delta_emit_expr(&lower->emit, &builder, result, lower->inputs, 2);
}

delta_status_t delta_lower_binary(delta_lower_t *lower) {
  const element_row_t *row = find_element_row(lower->node->op_type);
  delta_dtype_t dtype = operand_type(lower, row->rule);
  if (dtype == DELTA_DTYPE_COUNT) return DELTA_OK;
  if (row->op == DELTA_EXPR_DIV) check_divisor(lower, dtype);
  lower->outputs[0] = emit_pair(lower, row->op, dtype, result_type(row->rule, dtype));
  return DELTA_OK;
}

delta_status_t delta_lower_mod(delta_lower_t *lower) {
  delta_dtype_t dtype = operand_type(lower, RULE_SAME);
  if (dtype == DELTA_DTYPE_COUNT) return DELTA_OK;
  bool sign_of_dividend = delta_lower_int(lower, "fmod", 0) != 0;
  if (!sign_of_dividend && delta_dtype_is_float(dtype)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'fmod' must be 1 for float types");
  }
  check_divisor(lower, dtype);
  lower->outputs[0] = emit_pair(lower, sign_of_dividend ? DELTA_EXPR_FMOD : DELTA_EXPR_MOD, dtype, dtype);
  return DELTA_OK;
}

// Links of a chain that fit one expression: one instruction for each input and each link, and the final factor of Mean.
enum { CHAIN_LENGTH = DELTA_EXPR_MAX_INPUTS };

// op over `count` inputs; times `factor` when it is not 1.
static delta_tensor_id_t emit_chain(delta_lower_t *lower, delta_expr_op_t op, delta_dtype_t dtype, const delta_tensor_id_t *inputs,
                                    uint32_t count, double divisor) {
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  uint16_t value = delta_expr_input(&builder, 0);
  for (uint32_t k = 1; k < count; ++k) value = delta_expr_binary(&builder, op, value, delta_expr_input(&builder, (uint16_t)k));
  if (divisor != 1.0) value = delta_expr_binary(&builder, DELTA_EXPR_DIV, value, delta_expr_real(&builder, divisor));
  delta_expr_output(&builder, value);
  return delta_emit_expr(&lower->emit, &builder, dtype, inputs, count);
}

delta_status_t delta_lower_variadic(delta_lower_t *lower) {
  const element_row_t *row = find_element_row(lower->node->op_type);
  delta_dtype_t dtype = operand_type(lower, row->rule);
  if (dtype == DELTA_DTYPE_COUNT) return DELTA_OK;
  bool mean = strcmp(row->name, "Mean") == 0;
  delta_tensor_id_t chain[CHAIN_LENGTH] = {lower->inputs[0]};
  uint32_t done = 1;
  while (done < lower->input_count) {
    uint32_t taken = lower->input_count - done < CHAIN_LENGTH - 1 ? lower->input_count - done : CHAIN_LENGTH - 1;
    memcpy(chain + 1, lower->inputs + done, taken * sizeof chain[0]);
    done += taken;
    chain[0] = emit_chain(lower, row->op, dtype, chain, taken + 1, mean && done == lower->input_count ? (double)done : 1.0);
  }
  lower->outputs[0] = chain[0];
  return DELTA_OK;
}

// x * x and x * x * x for these exponents: exact, cheaper, and with a derivative that needs no logarithm.
static uint16_t small_power(delta_expr_builder_t *builder, uint16_t base, double exponent) {
  uint16_t square = delta_expr_binary(builder, DELTA_EXPR_MUL, base, base);
  return exponent == 2.0 ? square : delta_expr_binary(builder, DELTA_EXPR_MUL, square, base);
}

delta_status_t delta_lower_pow(delta_lower_t *lower) {
  delta_tensor_id_t base = delta_lower_required(lower, 0), exponent = delta_lower_required(lower, 1);
  const delta_dtype_t types[2] = {delta_emit_dtype(&lower->emit, base), delta_emit_dtype(&lower->emit, exponent)};
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  if (types[0] == DELTA_DTYPE_BOOL || types[1] == DELTA_DTYPE_BOOL) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the inputs are %s and %s; they must be numbers", delta_dtype_name(types[0]),
                           delta_dtype_name(types[1]));
    return DELTA_OK;
  }
  double known = 0.0;
  bool scalar = delta_emit_shape(&lower->emit, exponent)->rank <= delta_emit_shape(&lower->emit, base)->rank;
  bool small = scalar && delta_emit_constant_real(&lower->emit, exponent, &known) && (known == 2.0 || known == 3.0);
  // An integer exponent adds no precision to a float base.
  bool mixed = delta_dtype_is_float(types[0]) && !delta_dtype_is_float(types[1]);
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(types, small || mixed ? 1 : 2));
  uint16_t x = delta_expr_input(&builder, 0);
  delta_expr_output(
      &builder, small ? small_power(&builder, x, known) : delta_expr_binary(&builder, DELTA_EXPR_POW, x, delta_expr_input(&builder, 1)));
  lower->outputs[0] = delta_emit_expr(&lower->emit, &builder, types[0], lower->inputs, small ? 1 : 2);
  return DELTA_OK;
}

delta_status_t delta_lower_where(delta_lower_t *lower) {
  delta_tensor_id_t condition = delta_lower_required(lower, 0);
  if (!delta_lower_same_types(lower, 1)) return DELTA_OK;
  if (delta_emit_dtype(&lower->emit, condition) != DELTA_DTYPE_BOOL) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the condition is %s; it must be bool",
                           delta_dtype_name(delta_emit_dtype(&lower->emit, condition)));
    return DELTA_OK;
  }
  lower->outputs[0] = delta_emit_select(&lower->emit, condition, lower->inputs[1], lower->inputs[2]);
  return DELTA_OK;
}

delta_status_t delta_lower_is_inf(delta_lower_t *lower) {
  delta_dtype_t dtype = operand_type(lower, RULE_FLOAT);
  if (dtype == DELTA_DTYPE_COUNT) return DELTA_OK;
  bool negative = delta_lower_int(lower, "detect_negative", 1) != 0;
  bool positive = delta_lower_int(lower, "detect_positive", 1) != 0;
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  uint16_t x = delta_expr_input(&builder, 0), zero = delta_expr_real(&builder, 0.0);
  uint16_t found = delta_expr_unary(&builder, DELTA_EXPR_ISINF, x);
  if (!negative) found = delta_expr_binary(&builder, DELTA_EXPR_AND, found, delta_expr_binary(&builder, DELTA_EXPR_GT, x, zero));
  if (!positive) found = delta_expr_binary(&builder, DELTA_EXPR_AND, found, delta_expr_binary(&builder, DELTA_EXPR_LT, x, zero));
  delta_expr_output(&builder, found);
  lower->outputs[0] = delta_emit_expr(&lower->emit, &builder, DELTA_DTYPE_BOOL, lower->inputs, 1);
  return DELTA_OK;
}

// Bounds are attributes before opset 11 and optional scalar inputs since. The upper bound wins over the lower one, and NaN stays NaN.
// At a bound the result is the bound, so that nothing flows back there: most Clip nodes are a ReLU6, whose gradient at 0 and 6 is 0.
delta_status_t delta_lower_clip(delta_lower_t *lower) {
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, delta_lower_required(lower, 0));
  delta_tensor_id_t inputs[3] = {delta_lower_input(lower, 0), delta_lower_input(lower, 1), delta_lower_input(lower, 2)};
  static const char *const names[3] = {"", "min", "max"};
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  uint16_t value = delta_expr_input(&builder, 0);
  uint32_t used = 1;
  for (uint32_t k = 1; k < 3 && delta_emit_ok(&lower->emit); ++k) {
    uint16_t bound;
    if (delta_tensor_is_none(inputs[k])) {
      if (!delta_lower_has(lower, names[k])) continue;
      bound = delta_expr_real(&builder, delta_lower_float(lower, names[k], 0.0));
    } else {
      if (delta_emit_dtype(&lower->emit, inputs[k]) != dtype || delta_shape_count(delta_emit_shape(&lower->emit, inputs[k])) != 1) {
        (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u must be one %s, as the data", k, delta_dtype_name(dtype));
        return DELTA_OK;
      }
      inputs[used] = delta_emit_view(&lower->emit, inputs[k], &(delta_shape_t){0});
      bound = delta_expr_input(&builder, (uint16_t)used++);
    }
    uint16_t beyond = delta_expr_binary(&builder, k == 1 ? DELTA_EXPR_LE : DELTA_EXPR_GE, value, bound);
    value = delta_expr_select(&builder, beyond, bound, value);
  }
  delta_expr_output(&builder, value);
  if (delta_emit_ok(&lower->emit)) lower->outputs[0] = delta_emit_expr(&lower->emit, &builder, dtype, inputs, used);
  return DELTA_OK;
}

delta_status_t delta_lower_cast(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  delta_dtype_t dtype = DELTA_DTYPE_COUNT;
  int64_t to = delta_lower_int(lower, "to", 0);
  if (to < INT32_MIN || to > INT32_MAX || !delta_dtype_from_onnx((int32_t)to, &dtype)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "attribute 'to' is %lld, which is no element type that is supported",
                           (long long)to);
    return DELTA_OK;
  }
  lower->outputs[0] = delta_emit_cast(&lower->emit, x, dtype);
  return DELTA_OK;
}

delta_status_t delta_lower_cast_like(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  lower->outputs[0] = delta_emit_cast(&lower->emit, x, delta_emit_dtype(&lower->emit, delta_lower_required(lower, 1)));
  return DELTA_OK;
}
