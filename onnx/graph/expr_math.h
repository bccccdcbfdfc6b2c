// Elementary functions of float32 that compilers turn into vector code: no branches, no tables, no calls. The definition that the reference and the
// kernels share, so that their results have the same bits. C, and C++ of device code.
//
// Each computes in float64 and rounds once: polynomials and quotients of them are those of the least relative error over their range, at most about 1e-8, so
// results are within 1 unit in the last place of the true ones. Products are added in one rounding (fma), which processors do in one instruction; those that
// cannot take the library's function. The exponents of float64 hold all float32 results, so overflow and denormal numbers come
// right from the rounding.
#ifndef DELTA_ONNX_GRAPH_EXPR_MATH_H_
#define DELTA_ONNX_GRAPH_EXPR_MATH_H_

#ifndef DELTA_DEVICE_TEXT // what compiles device code while the program runs knows these without headers
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

static inline uint64_t delta_real_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline double delta_real_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// x = k ln 2 + r with |r| <= ln 2 / 2: e^r - 1 by a polynomial, and 2^k. For |x| <= 700; NaN stays NaN.
typedef struct delta_exp_parts {
  double rest;  // e^r - 1
  double power; // 2^k
} delta_exp_parts_t;

static inline delta_exp_parts_t delta_exp_parts(double x) {
  const double shift = 6755399441055744.0; // 1.5 * 2^52: adding it rounds to an integer that stands in the low bits
  double shifted = fma(x, 1.4426950408889634, shift);
  double r = fma(shifted - shift, -0.6931471805599453, x);
  double p = 0.0013887574554598713;
  p = fma(p, r, 0.0083690622676430902);
  p = fma(p, r, 0.041667152341930023);
  p = fma(p, r, 0.1666650625296155);
  p = fma(p, r, 0.4999999810400773);
  p = fma(p, r, 1.0000000106362325);
  const delta_exp_parts_t parts = {p * r, delta_real_of_bits((delta_real_bits(shifted) - delta_real_bits(shift) + 1023) << 52)};
  return parts;
}

static inline double delta_clamp_real(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

static inline double delta_exp_real(double x) {
  delta_exp_parts_t parts = delta_exp_parts(x);
  return fma(parts.power, parts.rest, parts.power);
}

// e^x - 1 without loss near 0.
static inline double delta_expm1_real(double x) {
  delta_exp_parts_t parts = delta_exp_parts(x);
  return fma(parts.power, parts.rest, parts.power - 1.0);
}

// Beyond these arguments the float32 results are infinite, or 0.
static inline float delta_expf(float x) { return (float)delta_exp_real(delta_clamp_real((double)x, -110, 90)); }

static inline float delta_expm1f(float x) {
  double result = delta_expm1_real(delta_clamp_real((double)x, -40, 90));
  return copysignf((float)result, x);
}

static inline float delta_sigmoidf(float x) { return (float)(1.0 / (1.0 + delta_exp_real(-delta_clamp_real((double)x, -110, 40)))); }

// tanh x = x p(x^2) / q(x^2); from 9.2 on it is 1 in float32.
static inline float delta_tanhf(float x) {
  double a = delta_clamp_real(fabs((double)x), 0, 9.2), square = a * a;
  double p = -1.1810516369154089e-11;
  p = fma(p, square, 3.0049393309984598e-8);
  p = fma(p, square, 2.7783100985531601e-5);
  p = fma(p, square, 0.0038571684688813472);
  p = fma(p, square, 0.13671000353110729);
  p = fma(p, square, 0.99999999811515932);
  double q = 1.2717400621655653e-6;
  q = fma(q, square, 0.00039189832761428952);
  q = fma(q, square, 0.027204967925411971);
  q = fma(q, square, 0.47004332025466527);
  q = fma(q, square, 1.0);
  return copysignf((float)(a * p / q), x);
}

// x = 2^k m with m from sqrt(1/2) to sqrt(2): ln m = 2 s p(s^2) with s = (m - 1) / (m + 1). For positive normal x.
static inline double delta_log_real(double x) {
  const uint64_t half_root = 0x3FE6A09E667F3BCDu, one = 0x3FF0000000000000u; // bits of sqrt(1/2) and 1
  uint64_t exponent = (delta_real_bits(x) + (one - half_root)) >> 52;        // k + 1023
  double m = delta_real_of_bits(delta_real_bits(x) - (exponent << 52) + one);
  double k = delta_real_of_bits(0x4330000000000000u | exponent) - (4503599627370496.0 + 1023.0); // 2^52 + exponent, less both
  double s = (m - 1.0) / (m + 1.0), square = s * s;
  double p = 0.14962837608167832;
  p = fma(p, square, 0.19987397435862839);
  p = fma(p, square, 0.33333407970042547);
  p = fma(p, square, 0.99999999931084571);
  return fma(k, 0.6931471805599453, 2.0 * s * p);
}

// The logarithm with its special values: of 0, of infinity, of what is negative or NaN.
static inline double delta_log_special(double x) {
  double result = delta_log_real(x);
  result = x == (double)INFINITY ? x : result;
  result = x > 0 ? result : (double)NAN;
  return x == 0 ? -(double)INFINITY : result;
}

static inline float delta_logf(float x) { return (float)delta_log_special((double)x); }

// Near 0 by the series, which keeps the sign of 0.
static inline float delta_log1pf(float x) {
  double wide = (double)x;
  double series = wide * (1.0 - wide * (0.5 - wide * (1.0 / 3)));
  return (float)(fabs(wide) < 1e-4 ? series : delta_log_special(1.0 + wide));
}

// erf x = x p(x^2) / q(x^2); from 4 on it is 1 in float32.
static inline float delta_erff(float x) {
  double a = delta_clamp_real(fabs((double)x), 0, 4), square = a * a;
  double p = -1.3259196737050254e-8;
  p = fma(p, square, 4.696395908127683e-6);
  p = fma(p, square, 0.0003800131158265525);
  p = fma(p, square, 0.0038493489089499233);
  p = fma(p, square, 0.054321789208294001);
  p = fma(p, square, 0.18516493998995658);
  p = fma(p, square, 1.1283791695712368);
  double q = 6.3220880784141889e-5;
  q = fma(q, square, 0.0013080617463894339);
  q = fma(q, square, 0.015462959741805041);
  q = fma(q, square, 0.11395140816256075);
  q = fma(q, square, 0.49743157418552757);
  q = fma(q, square, 1.0);
  return copysignf((float)(a * p / q), x);
}

#endif // DELTA_ONNX_GRAPH_EXPR_MATH_H_
