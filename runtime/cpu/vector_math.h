// Elementary functions that compilers turn into vector code: no branches, no tables, no calls.
#ifndef DELTA_RUNTIME_CPU_VECTOR_MATH_H_
#define DELTA_RUNTIME_CPU_VECTOR_MATH_H_

#include <stdint.h>
#include <string.h>

// exp(x) for x <= 88 within 2 units in the last place; below -87 it is 0. NaN stays NaN.
// x = k ln 2 + r with |r| <= ln 2 / 2: ln 2 in two parts (Cody and Waite), e^r by its series to r^7, 2^k through the exponent bits.
static inline float delta_vector_exp(float x) {
  const float shift = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer that stands in the low bits
  float clamped = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  float shifted = clamped * 1.44269504088896341f + shift;
  float k = shifted - shift;
  float r = clamped - k * 0.693359375f;
  r = r + k * 2.12194440e-4f;
  float p = 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits - 0x4B400000u + 127u) << 23;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return x < -87.0f ? 0.0f : p * scale;
}

#endif // DELTA_RUNTIME_CPU_VECTOR_MATH_H_
