// The instructions of expressions in device code, named as in onnx/graph/expr_ops.inc, with the results that onnx/graph/expr.c defines. C++, as text for what NVRTC
// compiles (sources.c), with expr_math.h before it.
#ifndef DELTA_RUNTIME_CUDA_EXPR_DEVICE_H_
#define DELTA_RUNTIME_CUDA_EXPR_DEVICE_H_

// Of both float types.
#define DELTA_REAL_1(name, result)                                        \
  DELTA_DEVICE float delta_op_##name(float a) { return (float)(result); } \
  DELTA_DEVICE double delta_op_##name(double a) { return (double)(result); }
#define DELTA_REAL_2(name, result)                                                 \
  DELTA_DEVICE float delta_op_##name(float a, float b) { return (float)(result); } \
  DELTA_DEVICE double delta_op_##name(double a, double b) { return (double)(result); }
// By a function of each type.
#define DELTA_REAL_CALL(name, single, wide)                         \
  DELTA_DEVICE float delta_op_##name(float a) { return single(a); } \
  DELTA_DEVICE double delta_op_##name(double a) { return wide(a); }
#define DELTA_REAL_CALL_2(name, single, wide)                                   \
  DELTA_DEVICE float delta_op_##name(float a, float b) { return single(a, b); } \
  DELTA_DEVICE double delta_op_##name(double a, double b) { return wide(a, b); }
#define DELTA_INTEGER_1(name, result) \
  DELTA_DEVICE int64_t delta_op_##name(int64_t a) { return (int64_t)(result); }
#define DELTA_INTEGER_2(name, result) \
  DELTA_DEVICE int64_t delta_op_##name(int64_t a, int64_t b) { return (int64_t)(result); }

DELTA_REAL_2(add, a + b)
DELTA_REAL_2(sub, a - b)
DELTA_REAL_2(mul, a *b)
DELTA_REAL_2(div, a / b)
DELTA_REAL_CALL_2(fmod, fmodf, fmod)
DELTA_REAL_CALL_2(pow, powf, pow)
DELTA_REAL_2(min, a != a ? a : b != b ? b : a < b ? a : b)
DELTA_REAL_2(max, a != a ? a : b != b ? b : a > b ? a : b)
DELTA_REAL_1(neg, -a)
DELTA_REAL_1(sign, a > 0 ? 1 : a < 0 ? -1 : a)
DELTA_REAL_1(reciprocal, 1 / a)
DELTA_REAL_1(relu, a < 0 ? 0 : a)
DELTA_REAL_2(eq, a == b)
DELTA_REAL_2(ne, a != b)
DELTA_REAL_2(lt, a < b)
DELTA_REAL_2(le, a <= b)
DELTA_REAL_2(gt, a > b)
DELTA_REAL_2(ge, a >= b)
DELTA_REAL_2(and, a != 0 && b != 0)
DELTA_REAL_2(or, a != 0 || b != 0)
DELTA_REAL_2(xor, (a != 0) != (b != 0))
DELTA_REAL_1(not, a == 0)
DELTA_REAL_1(isnan, a != a)
DELTA_REAL_1(isinf, a - a != 0 && a == a)
DELTA_REAL_CALL(exp, delta_expf, exp)
DELTA_REAL_CALL(expm1, delta_expm1f, expm1)
DELTA_REAL_CALL(log, delta_logf, log)
DELTA_REAL_CALL(log1p, delta_log1pf, log1p)
DELTA_REAL_CALL(erf, delta_erff, erf)
DELTA_REAL_CALL(tanh, delta_tanhf, tanh)
DELTA_DEVICE float delta_op_sigmoid(float a) { return delta_sigmoidf(a); }
DELTA_DEVICE double delta_op_sigmoid(double a) { return 1 / (1 + exp(-a)); }
DELTA_REAL_CALL(abs, fabsf, fabs)
DELTA_REAL_CALL(sqrt, sqrtf, sqrt)
DELTA_REAL_CALL(sin, sinf, sin)
DELTA_REAL_CALL(cos, cosf, cos)
DELTA_REAL_CALL(tan, tanf, tan)
DELTA_REAL_CALL(asin, asinf, asin)
DELTA_REAL_CALL(acos, acosf, acos)
DELTA_REAL_CALL(atan, atanf, atan)
DELTA_REAL_CALL(sinh, sinhf, sinh)
DELTA_REAL_CALL(cosh, coshf, cosh)
DELTA_REAL_CALL(asinh, asinhf, asinh)
DELTA_REAL_CALL(acosh, acoshf, acosh)
DELTA_REAL_CALL(atanh, atanhf, atanh)
DELTA_REAL_CALL(floor, floorf, floor)
DELTA_REAL_CALL(ceil, ceilf, ceil)
DELTA_REAL_CALL(round, rintf, rint)

// The remainder with the divisor's sign; a zero remainder has the divisor's sign as well.
template <typename Real>
DELTA_DEVICE Real delta_real_mod(Real a, Real b) {
  const Real remainder = delta_op_fmod(a, b);
  if (remainder == 0) return (Real)copysign(0.0, (double)b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
DELTA_DEVICE float delta_op_mod(float a, float b) { return delta_real_mod(a, b); }
DELTA_DEVICE double delta_op_mod(double a, double b) { return delta_real_mod(a, b); }

// Integers wrap around: the arithmetic is done on unsigned values. A divisor of -1 is a negation.
DELTA_INTEGER_2(add, (uint64_t)a + (uint64_t)b)
DELTA_INTEGER_2(sub, (uint64_t)a - (uint64_t)b)
DELTA_INTEGER_2(mul, (uint64_t)a *(uint64_t)b)
DELTA_INTEGER_1(neg, 0 - (uint64_t)a)
DELTA_INTEGER_2(div, b == 0 ? 0 : b == -1 ? delta_op_neg(a) : a / b)
DELTA_INTEGER_2(fmod, b == 0 || b == -1 ? 0 : a % b)
DELTA_DEVICE int64_t delta_op_mod(int64_t a, int64_t b) {
  const int64_t remainder = delta_op_fmod(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
// By repeated squaring; a negative exponent gives what truncating 1 / base^|exponent| gives.
DELTA_DEVICE int64_t delta_op_pow(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base != -1 ? 0 : exponent % 2 == 0 ? 1 : -1;
  uint64_t result = 1, power = (uint64_t)base;
  for (uint64_t rest = (uint64_t)exponent; rest != 0; rest >>= 1) {
    if (rest & 1) result *= power;
    power *= power;
  }
  return (int64_t)result;
}
DELTA_INTEGER_2(min, a < b ? a : b)
DELTA_INTEGER_2(max, a > b ? a : b)
DELTA_INTEGER_1(abs, a < 0 ? delta_op_neg(a) : a)
DELTA_INTEGER_1(sign, (a > 0) - (a < 0))
DELTA_INTEGER_1(reciprocal, delta_op_div((int64_t)1, a))
DELTA_INTEGER_1(relu, a > 0 ? a : 0)
DELTA_INTEGER_1(floor, a)
DELTA_INTEGER_1(ceil, a)
DELTA_INTEGER_1(round, a)
DELTA_INTEGER_2(eq, a == b)
DELTA_INTEGER_2(ne, a != b)
DELTA_INTEGER_2(lt, a < b)
DELTA_INTEGER_2(le, a <= b)
DELTA_INTEGER_2(gt, a > b)
DELTA_INTEGER_2(ge, a >= b)
DELTA_INTEGER_2(and, a != 0 && b != 0)
DELTA_INTEGER_2(or, a != 0 || b != 0)
DELTA_INTEGER_2(xor, (a != 0) != (b != 0))
DELTA_INTEGER_1(not, a == 0)
DELTA_INTEGER_2(bit_and, a &b)
DELTA_INTEGER_2(bit_or, a | b)
DELTA_INTEGER_2(bit_xor, a ^ b)
DELTA_INTEGER_1(bit_not, ~a)
DELTA_INTEGER_1(isnan, a != a)
DELTA_INTEGER_1(isinf, a != a)
template <typename Work>
DELTA_DEVICE Work delta_op_select(Work a, Work b, Work c) {
  return a != 0 ? b : c;
}

// Neighbouring elements of one input: GROUP from element `at` on, `left` of which are there. `stride` is that of the last dimension.
template <typename T, int GROUP>
struct alignas(sizeof(T) * GROUP < 16 ? sizeof(T) * GROUP : 16) delta_pack {
  T items[GROUP];
};
template <typename T, int GROUP, typename Work>
DELTA_DEVICE void delta_load_group(const void *data, int64_t at, int64_t stride, uint64_t left, bool aligned, Work *out) {
  const T *from = (const T *)data + at;
  if (stride == 1 && aligned && left >= GROUP) {
    const delta_pack<T, GROUP> pack = *(const delta_pack<T, GROUP> *)from;
    DELTA_UNROLL
    for (int j = 0; j < GROUP; ++j) out[j] = delta_read<Work>(pack.items[j]);
    return;
  }
  if (stride == 0) {
    const Work value = delta_read<Work>(*from);
    DELTA_UNROLL
    for (int j = 0; j < GROUP; ++j) out[j] = value;
    return;
  }
  DELTA_UNROLL
  for (int j = 0; j < GROUP; ++j) out[j] = (uint64_t)j < left ? delta_read<Work>(from[j * stride]) : (Work)0;
}

template <typename T, int GROUP, typename Work>
DELTA_DEVICE void delta_store_group(void *data, uint64_t at, uint64_t left, bool aligned, const Work *values) {
  T *to = (T *)data + at;
  if (aligned && left >= GROUP) {
    delta_pack<T, GROUP> pack;
    DELTA_UNROLL
    for (int j = 0; j < GROUP; ++j) pack.items[j] = delta_write<T>(values[j]);
    *(delta_pack<T, GROUP> *)to = pack;
    return;
  }
  DELTA_UNROLL
  for (int j = 0; j < GROUP; ++j)
    if ((uint64_t)j < left) to[j] = delta_write<T>(values[j]);
}

#endif // DELTA_RUNTIME_CUDA_EXPR_DEVICE_H_
