// One function of code per function of expr_math.h, in the same order of operations. Registers are named by their place in the writer's list.
#include "runtime/cpu/compiled_math.h"

#include <math.h>

#include "onnx/graph/expr_math.h"

enum { LESS = 0x11, GREATER = 0x1E, EQUAL = 0x00 }; // predicates that do not signal
enum { SHIFT_RIGHT = 2, SHIFT_LEFT = 6 };
enum { MANTISSA_BITS = 52 };

typedef enum place { R0, R1, R2, R3, R4, R5 } place_t;

static delta_vector_operand_t constant_of(const delta_math_writer_t *writer, double value) {
  return writer->constant(writer->self, delta_real_bits(value));
}

static delta_vector_operand_t bits_of(const delta_math_writer_t *writer, uint64_t bits) { return writer->constant(writer->self, bits); }
static delta_vector_operand_t in(const delta_math_writer_t *writer, place_t place) { return delta_in_register(writer->registers[place]); }

// out = a op b
static void put(const delta_math_writer_t *writer, delta_vector_op_id_t op, place_t out, place_t a, delta_vector_operand_t b) {
  delta_assemble_vector(writer->assembler, op, writer->registers[out], writer->registers[a], b);
}

static void put_registers(const delta_math_writer_t *writer, delta_vector_op_id_t op, place_t out, place_t a, place_t b) {
  put(writer, op, out, a, in(writer, b));
}

static void put_constant(const delta_math_writer_t *writer, delta_vector_op_id_t op, place_t out, place_t a, double b) {
  put(writer, op, out, a, constant_of(writer, b));
}

static void put_copy(const delta_math_writer_t *writer, place_t out, delta_vector_operand_t from) {
  delta_assemble_vector(writer->assembler, DELTA_VECTOR_LOAD, writer->registers[out], 0, from);
}

// out = a op b
static void put_after_constant(const delta_math_writer_t *writer, delta_vector_op_id_t op, place_t out, double a, place_t b) {
  const delta_vector_operand_t first = constant_of(writer, a);
  if (first.is_memory) delta_assemble_vector(writer->assembler, DELTA_VECTOR_LOAD, DELTA_MATH_TEMPORARY, 0, first);
  delta_assemble_vector(writer->assembler, op, writer->registers[out], first.is_memory ? DELTA_MATH_TEMPORARY : first.reg, in(writer, b));
}

// out = a shifted by the bits of a mantissa
static void put_shift(const delta_math_writer_t *writer, uint8_t way, place_t out, place_t a) {
  delta_assemble_vector(writer->assembler, DELTA_VECTOR_SHIFT_INTEGER, way, writer->registers[out], in(writer, a));
  delta_assemble_immediate(writer->assembler, MANTISSA_BITS);
}

// out = a compares with b ? yes : no
static void put_choice(const delta_math_writer_t *writer, place_t out, place_t a, uint8_t predicate, double b, delta_vector_operand_t yes,
                       place_t no) {
  delta_assembler_t *assembler = writer->assembler;
  const uint8_t condition = assembler->wide ? DELTA_MATH_MASK : DELTA_MATH_TEMPORARY;
  delta_assemble_vector(assembler, DELTA_VECTOR_COMPARE_DOUBLE, condition, writer->registers[a], constant_of(writer, b));
  delta_assemble_immediate(assembler, predicate);
  if (assembler->wide) {
    delta_assemble_masked(assembler, DELTA_VECTOR_BLEND_MASKED_DOUBLE, writer->registers[out], writer->registers[no], yes, condition,
                          false);
  } else {
    put(writer, DELTA_VECTOR_BLEND_BY_SIGN_DOUBLE, out, no, yes);
    delta_assemble_immediate(assembler, DELTA_MATH_TEMPORARY << 4);
  }
}

// place = low where it is below, high where it is above; NaN stays.
static void put_clamp(const delta_math_writer_t *writer, place_t place, double low, double high) {
  put_after_constant(writer, DELTA_VECTOR_MAX_DOUBLE, place, low, place);
  put_after_constant(writer, DELTA_VECTOR_MIN_DOUBLE, place, high, place);
}

static void put_absolute(const delta_math_writer_t *writer, place_t out, place_t a) {
  put(writer, DELTA_VECTOR_AND, out, a, bits_of(writer, ~(UINT64_C(1) << 63)));
}

static void put_negative(const delta_math_writer_t *writer, place_t out, place_t a) {
  put(writer, DELTA_VECTOR_XOR, out, a, bits_of(writer, UINT64_C(1) << 63));
}

// out = the polynomial with these coefficients, the highest first, at x
static void put_polynomial(const delta_math_writer_t *writer, place_t out, place_t x, const double *coefficients, size_t count) {
  put_copy(writer, out, constant_of(writer, coefficients[0]));
  for (size_t k = 1; k < count; ++k) put_constant(writer, DELTA_VECTOR_MULTIPLY_ADD, out, x, coefficients[k]);
}
#define COUNT(list)                                  (sizeof(list) / sizeof *(list))
#define PUT_POLYNOMIAL(writer, out, x, coefficients) put_polynomial(writer, out, x, coefficients, COUNT(coefficients))

// delta_exp_parts of x, which is lost.
static void put_exp_parts(const delta_math_writer_t *writer, place_t x, place_t rest, place_t power) {
  static const double series[] = {0.0013887574554598713, 0.0083690622676430902, 0.041667152341930023,
                                  0.1666650625296155,    0.4999999810400773,    1.0000000106362325};
  const double shift = 6755399441055744.0;
  put_copy(writer, power, constant_of(writer, shift));
  put_constant(writer, DELTA_VECTOR_ADD_PRODUCT, power, x, 1.4426950408889634);
  put_constant(writer, DELTA_VECTOR_SUB_DOUBLE, rest, power, shift);
  put_constant(writer, DELTA_VECTOR_ADD_PRODUCT, x, rest, -0.6931471805599453);
  PUT_POLYNOMIAL(writer, rest, x, series);
  put_registers(writer, DELTA_VECTOR_MUL_DOUBLE, rest, rest, x);
  put(writer, DELTA_VECTOR_ADD_INTEGER, power, power, bits_of(writer, 1023 - delta_real_bits(shift)));
  put_shift(writer, SHIFT_LEFT, power, power);
}

// x = e^x
static void put_exp_real(const delta_math_writer_t *writer, place_t x, place_t rest, place_t power) {
  put_exp_parts(writer, x, rest, power);
  put_copy(writer, x, in(writer, power));
  put_registers(writer, DELTA_VECTOR_ADD_PRODUCT, x, power, rest);
}

// x = e^x - 1
static void put_expm1_real(const delta_math_writer_t *writer, place_t x, place_t rest, place_t power) {
  put_exp_parts(writer, x, rest, power);
  put_constant(writer, DELTA_VECTOR_SUB_DOUBLE, x, power, 1.0);
  put_registers(writer, DELTA_VECTOR_ADD_PRODUCT, x, power, rest);
}

static void put_exp(const delta_math_writer_t *writer) {
  put_clamp(writer, R0, -110, 90);
  put_exp_real(writer, R0, R1, R2);
}

static void put_expm1(const delta_math_writer_t *writer) {
  put_clamp(writer, R0, -40, 90);
  put_expm1_real(writer, R0, R1, R2);
}

static void put_sigmoid(const delta_math_writer_t *writer) {
  put_clamp(writer, R0, -110, 40);
  put_negative(writer, R0, R0);
  put_exp_real(writer, R0, R1, R2);
  put_constant(writer, DELTA_VECTOR_ADD_DOUBLE, R0, R0, 1.0);
  put_after_constant(writer, DELTA_VECTOR_DIV_DOUBLE, R0, 1.0, R0);
}

// R2 = delta_log_real(x); R1, R3 and R4 are lost.
static void put_log_real(const delta_math_writer_t *writer, place_t x) {
  static const double series[] = {0.14962837608167832, 0.19987397435862839, 0.33333407970042547, 0.99999999931084571};
  const uint64_t half_root = 0x3FE6A09E667F3BCDu, one = 0x3FF0000000000000u;
  const place_t exponent = R1, mantissa = R2, sum = R3, square = R4;
  put(writer, DELTA_VECTOR_ADD_INTEGER, exponent, x, bits_of(writer, one - half_root));
  put_shift(writer, SHIFT_RIGHT, exponent, exponent);
  put_shift(writer, SHIFT_LEFT, sum, exponent);
  put_registers(writer, DELTA_VECTOR_SUB_INTEGER, mantissa, x, sum);
  put(writer, DELTA_VECTOR_ADD_INTEGER, mantissa, mantissa, bits_of(writer, one));
  // The exponent's bits and those of 2^52 do not meet.
  put(writer, DELTA_VECTOR_XOR, exponent, exponent, bits_of(writer, 0x4330000000000000u));
  put_constant(writer, DELTA_VECTOR_SUB_DOUBLE, exponent, exponent, 4503599627370496.0 + 1023.0);
  put_constant(writer, DELTA_VECTOR_ADD_DOUBLE, sum, mantissa, 1.0);
  put_constant(writer, DELTA_VECTOR_SUB_DOUBLE, mantissa, mantissa, 1.0);
  put_registers(writer, DELTA_VECTOR_DIV_DOUBLE, mantissa, mantissa, sum);
  put_registers(writer, DELTA_VECTOR_MUL_DOUBLE, square, mantissa, mantissa);
  PUT_POLYNOMIAL(writer, sum, square, series);
  put_constant(writer, DELTA_VECTOR_MUL_DOUBLE, mantissa, mantissa, 2.0);
  put_registers(writer, DELTA_VECTOR_MUL_DOUBLE, mantissa, mantissa, sum);
  put_constant(writer, DELTA_VECTOR_ADD_PRODUCT, mantissa, exponent, 0.6931471805599453);
}

// x = delta_log_special(x); R1 to R4 are lost.
static void put_log_special(const delta_math_writer_t *writer, place_t x) {
  put_log_real(writer, x);
  put_choice(writer, R1, x, EQUAL, (double)INFINITY, in(writer, x), R2);
  // What is not above 0 is NaN, but for 0.
  put_copy(writer, R2, constant_of(writer, (double)NAN));
  put_choice(writer, R1, x, GREATER, 0, in(writer, R1), R2);
  put_choice(writer, x, x, EQUAL, 0, constant_of(writer, -(double)INFINITY), R1);
}

static void put_log(const delta_math_writer_t *writer) { put_log_special(writer, R0); }

static void put_log1p(const delta_math_writer_t *writer) {
  const double near = 1e-4;
  put_constant(writer, DELTA_VECTOR_ADD_DOUBLE, R5, R0, 1.0);
  put_log_special(writer, R5);
  put_constant(writer, DELTA_VECTOR_MUL_DOUBLE, R1, R0, 1.0 / 3);
  put_after_constant(writer, DELTA_VECTOR_SUB_DOUBLE, R1, 0.5, R1);
  put_registers(writer, DELTA_VECTOR_MUL_DOUBLE, R1, R0, R1);
  put_after_constant(writer, DELTA_VECTOR_SUB_DOUBLE, R1, 1.0, R1);
  put_registers(writer, DELTA_VECTOR_MUL_DOUBLE, R1, R0, R1);
  put_absolute(writer, R2, R0);
  put_choice(writer, R0, R2, LESS, near, in(writer, R1), R5);
}

// R0 = |R0|, `most` at most, times the quotient of two polynomials at its square
static void put_quotient(const delta_math_writer_t *writer, double most, const double *above, size_t above_count, const double *below,
                         size_t below_count) {
  put_absolute(writer, R0, R0);
  put_clamp(writer, R0, 0, most);
  put_registers(writer, DELTA_VECTOR_MUL_DOUBLE, R1, R0, R0);
  put_polynomial(writer, R2, R1, above, above_count);
  put_polynomial(writer, R3, R1, below, below_count);
  put_registers(writer, DELTA_VECTOR_MUL_DOUBLE, R0, R0, R2);
  put_registers(writer, DELTA_VECTOR_DIV_DOUBLE, R0, R0, R3);
}

static void put_tanh(const delta_math_writer_t *writer) {
  static const double above[] = {-1.1810516369154089e-11, 3.0049393309984598e-8, 2.7783100985531601e-5,
                                 0.0038571684688813472,   0.13671000353110729,   0.99999999811515932};
  static const double below[] = {1.2717400621655653e-6, 0.00039189832761428952, 0.027204967925411971, 0.47004332025466527, 1.0};
  put_quotient(writer, 9.2, above, COUNT(above), below, COUNT(below));
}

static void put_erf(const delta_math_writer_t *writer) {
  static const double above[] = {-1.3259196737050254e-8, 4.696395908127683e-6, 0.0003800131158265525, 0.0038493489089499233,
                                 0.054321789208294001,   0.18516493998995658,  1.1283791695712368};
  static const double below[] = {6.3220880784141889e-5, 0.0013080617463894339, 0.015462959741805041,
                                 0.11395140816256075,   0.49743157418552757,   1.0};
  put_quotient(writer, 4, above, COUNT(above), below, COUNT(below));
}

typedef struct math_row {
  int registers;
  bool copies_sign;
  void (*put)(const delta_math_writer_t *writer);
} math_row_t;

static const math_row_t math_rows[DELTA_EXPR_OP_COUNT] = {
    [DELTA_EXPR_EXP] = {3, false, put_exp},         [DELTA_EXPR_EXPM1] = {3, true, put_expm1}, [DELTA_EXPR_LOG] = {5, false, put_log},
    [DELTA_EXPR_LOG1P] = {6, false, put_log1p},     [DELTA_EXPR_ERF] = {4, true, put_erf},     [DELTA_EXPR_TANH] = {4, true, put_tanh},
    [DELTA_EXPR_SIGMOID] = {3, false, put_sigmoid},
};

int delta_math_register_count(delta_expr_op_t op) { return math_rows[op].registers; }
bool delta_math_copies_sign(delta_expr_op_t op) { return math_rows[op].copies_sign; }
void delta_math_write(delta_math_writer_t *writer, delta_expr_op_t op) { math_rows[op].put(writer); }
