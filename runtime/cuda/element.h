// Elements in device code: the storage types of tensors and their conversions, as base/dtype.h defines them. C++, for .cu files, and as text for what NVRTC compiles
// (sources.c), which knows no headers.
#ifndef DELTA_RUNTIME_CUDA_ELEMENT_H_
#define DELTA_RUNTIME_CUDA_ELEMENT_H_

#ifdef DELTA_DEVICE_TEXT
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INFINITY __int_as_float(0x7f800000)
#define NAN      __int_as_float(0x7fffffff)
#else
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

#define DELTA_DEVICE static inline __device__
// Before a loop whose turns are known: written out, so that small arrays are registers; or four turns at a time.
#ifdef __CUDACC__
#define DELTA_UNROLL   _Pragma("unroll")
#define DELTA_UNROLL_4 _Pragma("unroll 4")
#else
#define DELTA_UNROLL
#define DELTA_UNROLL_4
#endif

typedef struct delta_float16 {
  uint16_t bits;
} delta_float16_t;
typedef struct delta_bfloat16 {
  uint16_t bits;
} delta_bfloat16_t;
typedef struct delta_bool {
  uint8_t byte;
} delta_bool_t;

// What a storage type is computed in: `work` is as wide as speed allows, `number` what sums are formed in.
template <typename T>
struct delta_types {
  typedef int64_t work;
  typedef int64_t number;
  static const bool is_real = false;
};
template <>
struct delta_types<float> {
  typedef float work;
  typedef double number;
  static const bool is_real = true;
};
template <>
struct delta_types<double> {
  typedef double work;
  typedef double number;
  static const bool is_real = true;
};
template <>
struct delta_types<delta_float16_t> : delta_types<float> {};
template <>
struct delta_types<delta_bfloat16_t> : delta_types<float> {};

DELTA_DEVICE float delta_float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// A stored value as the C type that holds it.
DELTA_DEVICE float delta_plain(float value) { return value; }
DELTA_DEVICE double delta_plain(double value) { return value; }
DELTA_DEVICE int32_t delta_plain(int32_t value) { return value; }
DELTA_DEVICE int64_t delta_plain(int64_t value) { return value; }
DELTA_DEVICE int32_t delta_plain(uint8_t value) { return value; }
DELTA_DEVICE int32_t delta_plain(delta_bool_t value) { return value.byte != 0; }
DELTA_DEVICE float delta_plain(delta_bfloat16_t value) { return delta_float_of_bits((uint32_t)value.bits << 16); }
DELTA_DEVICE float delta_plain(delta_float16_t value) {
  const uint32_t sign = (uint32_t)(value.bits & 0x8000) << 16, exponent = value.bits >> 10 & 0x1f, fraction = value.bits & 0x3ff;
  if (exponent == 0x1f) return delta_float_of_bits(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0));
  if (exponent > 0) return delta_float_of_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
  const float magnitude = (float)fraction * 5.9604644775390625e-8f; // 2^-24; exact
  return sign ? -magnitude : magnitude;
}

// Rounds to a float of 16 bits with `mantissa_bits` to nearest even: 10 for half, 7 for bfloat16.
DELTA_DEVICE uint16_t delta_round_to_16_bits(double value, unsigned mantissa_bits) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = (uint32_t)(bits >> 63) << 15;
  const uint32_t infinity = (0x7fffu >> mantissa_bits) << mantissa_bits;
  const int bias = (int)(0x3fffu >> mantissa_bits);
  const uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
  const int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  if (value != value) return (uint16_t)(sign | infinity | 1u << (mantissa_bits - 1) | (uint32_t)(fraction >> (52 - mantissa_bits)));
  if (exponent > bias) return (uint16_t)(sign | infinity);
  const int smallest = 1 - bias;
  const bool subnormal = exponent < smallest;
  const unsigned shift = 52 - mantissa_bits + (subnormal ? (unsigned)(smallest - exponent) : 0);
  if (shift > 53) return (uint16_t)sign;
  const uint64_t significand = (uint64_t)1 << 52 | fraction;
  const uint64_t rest = significand & (((uint64_t)1 << shift) - 1), half = (uint64_t)1 << (shift - 1);
  uint64_t kept = significand >> shift;
  kept += rest > half || (rest == half && (kept & 1));
  const uint32_t base = subnormal ? 0 : (uint32_t)(exponent + bias - 1) << mantissa_bits;
  const uint32_t magnitude = base + (uint32_t)kept;
  return (uint16_t)(sign | (magnitude > infinity ? infinity : magnitude));
}

// The nearest integer towards zero within [least, most]; NaN gives 0.
DELTA_DEVICE int64_t delta_saturate(double value, int64_t least, int64_t most) {
  if (value != value) return 0;
  if (value <= (double)least) return least;
  if (value >= (double)most) return most;
  return (int64_t)value;
}

#define DELTA_INT64_LEAST (-9223372036854775807LL - 1)
#define DELTA_INT64_MOST  9223372036854775807LL

// From a plain value to a type that is computed in.
template <typename To>
struct delta_to {
  template <typename From>
  __device__ static To of(From value) {
    return (To)value;
  }
};
template <>
struct delta_to<int64_t> {
  __device__ static int64_t of(float value) { return delta_saturate((double)value, DELTA_INT64_LEAST, DELTA_INT64_MOST); }
  __device__ static int64_t of(double value) { return delta_saturate(value, DELTA_INT64_LEAST, DELTA_INT64_MOST); }
  __device__ static int64_t of(int32_t value) { return value; }
  __device__ static int64_t of(int64_t value) { return value; }
};

// delta_read<float>(x[i]) gives any element in a type that is computed in.
template <typename To, typename T>
DELTA_DEVICE To delta_read(T stored) {
  return delta_to<To>::of(delta_plain(stored));
}

// delta_write<T>(value) gives the element to be stored, of a float, double or int64. Floats saturate, integers wrap.
template <typename T>
struct delta_stored {
  __device__ static T of(float value) { return (T)value; }
  __device__ static T of(double value) { return (T)value; }
  __device__ static T of(int64_t value) { return (T)value; }
};
template <>
struct delta_stored<delta_float16_t> {
  template <typename From>
  __device__ static delta_float16_t of(From value) {
    const delta_float16_t stored = {delta_round_to_16_bits((double)value, 10)};
    return stored;
  }
};
template <>
struct delta_stored<delta_bfloat16_t> {
  template <typename From>
  __device__ static delta_bfloat16_t of(From value) {
    const delta_bfloat16_t stored = {delta_round_to_16_bits((double)value, 7)};
    return stored;
  }
};
template <>
struct delta_stored<delta_bool_t> {
  template <typename From>
  __device__ static delta_bool_t of(From value) {
    const delta_bool_t stored = {(uint8_t)(value != 0)};
    return stored;
  }
};
template <typename T, int64_t LEAST, int64_t MOST>
struct delta_stored_integer {
  __device__ static T of(float value) { return of((double)value); }
  __device__ static T of(double value) { return (T)delta_saturate(value, LEAST, MOST); }
  __device__ static T of(int64_t value) { return (T)value; }
};
template <>
struct delta_stored<int32_t> : delta_stored_integer<int32_t, -2147483647 - 1, 2147483647> {};
template <>
struct delta_stored<int64_t> : delta_stored_integer<int64_t, DELTA_INT64_LEAST, DELTA_INT64_MOST> {};
template <>
struct delta_stored<uint8_t> : delta_stored_integer<uint8_t, 0, 255> {};
template <typename T, typename From>
DELTA_DEVICE T delta_write(From value) {
  return delta_stored<T>::of(value);
}

// Whether `a` takes the place of `b` in a running maximum (or minimum): strictly beyond it, or the first NaN.
template <typename Number>
DELTA_DEVICE bool delta_beats(bool smallest, Number a, Number b) {
  if (b != b) return false;
  return a != a || (smallest ? a < b : a > b);
}

#endif // DELTA_RUNTIME_CUDA_ELEMENT_H_
