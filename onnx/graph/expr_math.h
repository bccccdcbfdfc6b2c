// Elementary functions of float32 that compilers turn into vector code: no branches, no tables, no calls. The definition that the reference and the
// kernels share, so that their results have the same bits. C, and C++ of device code.
//
// Each computes in float64 and rounds once: the polynomials are exact to about 1e-9, so results are within 1 unit in the last place of the true ones.
// The exponents of float64 hold all float32 results, so overflow and denormal numbers come right from the rounding.
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

// x = k ln 2 + r with |r| <= ln 2 / 2: e^r - 1 by its series to r^8, and 2^k. For |x| <= 700; NaN stays NaN.
typedef struct delta_exp_parts {
  double rest;  // e^r - 1
  double power; // 2^k
} delta_exp_parts_t;

static inline delta_exp_parts_t delta_exp_parts(double x) {
  const double shift = 6755399441055744.0; // 1.5 * 2^52: adding it rounds to an integer that stands in the low bits
  double shifted = x * 1.4426950408889634 + shift;
  double r = x - (shifted - shift) * 0.6931471805599453;
  double p = 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  const delta_exp_parts_t parts = {p * r, delta_real_of_bits((delta_real_bits(shifted) - delta_real_bits(shift) + 1023) << 52)};
  return parts;
}

static inline double delta_clamp_real(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

static inline double delta_exp_real(double x) {
  delta_exp_parts_t parts = delta_exp_parts(x);
  return parts.power * parts.rest + parts.power;
}

// e^x - 1 without loss near 0.
static inline double delta_expm1_real(double x) {
  delta_exp_parts_t parts = delta_exp_parts(x);
  return parts.power * parts.rest + (parts.power - 1.0);
}

// Beyond these arguments the float32 results are infinite, or 0.
static inline float delta_expf(float x) { return (float)delta_exp_real(delta_clamp_real((double)x, -110, 90)); }

static inline float delta_expm1f(float x) {
  double result = delta_expm1_real(delta_clamp_real((double)x, -40, 90));
  return copysignf((float)result, x);
}

static inline float delta_sigmoidf(float x) { return (float)(1.0 / (1.0 + delta_exp_real(-delta_clamp_real((double)x, -110, 40)))); }

// tanh |x| = (e^2|x| - 1) / (e^2|x| + 1)
static inline float delta_tanhf(float x) {
  double e = delta_expm1_real(delta_clamp_real(2.0 * fabs((double)x), 0, 40));
  return copysignf((float)(e / (e + 2.0)), x);
}

// x = 2^k m with m from sqrt(1/2) to sqrt(2): ln m = 2 (s + s^3 / 3 + s^5 / 5 + ...) with s = (m - 1) / (m + 1). For positive normal x.
static inline double delta_log_real(double x) {
  const uint64_t half_root = 0x3FE6A09E667F3BCDu, one = 0x3FF0000000000000u; // bits of sqrt(1/2) and 1
  uint64_t exponent = (delta_real_bits(x) + (one - half_root)) >> 52;        // k + 1023
  double m = delta_real_of_bits(delta_real_bits(x) - (exponent << 52) + one);
  double k = delta_real_of_bits(0x4330000000000000u | exponent) - (4503599627370496.0 + 1023.0); // 2^52 + exponent, less both
  double s = (m - 1.0) / (m + 1.0), square = s * s;
  double p = 1.0 / 13;
  p = p * square + 1.0 / 11;
  p = p * square + 1.0 / 9;
  p = p * square + 1.0 / 7;
  p = p * square + 1.0 / 5;
  p = p * square + 1.0 / 3;
  p = p * square + 1.0;
  return k * 0.6931471805599453 + 2.0 * s * p;
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

// Below 1 by the series of erf; above, erf = 1 - e^(-x^2) q(t) with t = 1 / (1 + x / 2), q interpolated between 0.95 and 4.1 at Chebyshev's nodes.
static inline float delta_erff(float x) {
  double a = delta_clamp_real(fabs((double)x), 0, 4.1), square = a * a;
  double near = -1.0 / (39916800.0 * 23);
  near = near * square + 1.0 / (3628800.0 * 21);
  near = near * square - 1.0 / (362880.0 * 19);
  near = near * square + 1.0 / (40320.0 * 17);
  near = near * square - 1.0 / (5040.0 * 15);
  near = near * square + 1.0 / (720.0 * 13);
  near = near * square - 1.0 / (120.0 * 11);
  near = near * square + 1.0 / (24.0 * 9);
  near = near * square - 1.0 / (6.0 * 7);
  near = near * square + 1.0 / (2.0 * 5);
  near = near * square - 1.0 / 3;
  near = near * square + 1.0;
  near = near * a * 1.1283791670955126; // 2 / sqrt(pi)
  double t = 1.0 / (1.0 + 0.5 * a);
  double q = 0.12064672675088753;
  q = q * t - 0.47576265299470827;
  q = q * t + 0.5700624962514925;
  q = q * t - 0.10916296724500103;
  q = q * t + 0.35048979708498784;
  q = q * t + 0.25891756478044414;
  q = q * t + 0.28503349760753366;
  q = q * t - 0.00016221705218580237;
  double far = 1.0 - delta_exp_real(-square) * q;
  return copysignf((float)(a < 1.0 ? near : far), x);
}

#endif // DELTA_ONNX_GRAPH_EXPR_MATH_H_
