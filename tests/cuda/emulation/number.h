// Numbers as libraries see them: elements of several types as double, and what the fast matrix units leave of a float.
#ifndef DELTA_TESTS_CUDA_NUMBER_H_
#define DELTA_TESTS_CUDA_NUMBER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// float32 or float64.
typedef struct delta_emulated_elements {
  void *data;
  bool is_double;
  bool is_rounded; // to TF32 when read: 10 bits of fraction
} delta_emulated_elements_t;

static inline float delta_emulated_to_tf32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x0fffu + (bits >> 13 & 1)) & ~0x1fffu;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline double delta_emulated_load(const delta_emulated_elements_t *elements, int64_t at) {
  if (elements->is_double) return ((const double *)elements->data)[at];
  const float value = ((const float *)elements->data)[at];
  return elements->is_rounded ? delta_emulated_to_tf32(value) : value;
}

static inline void delta_emulated_store(const delta_emulated_elements_t *elements, int64_t at, double value) {
  if (elements->is_double) {
    ((double *)elements->data)[at] = value;
  } else {
    ((float *)elements->data)[at] = (float)value;
  }
}

static inline size_t delta_emulated_element_bytes(const delta_emulated_elements_t *elements) { return elements->is_double ? 8 : 4; }

// A factor that a call points to, in the type of its elements.
static inline double delta_emulated_factor(const void *factor, bool is_double) {
  return is_double ? *(const double *)factor : *(const float *)factor;
}

#endif // DELTA_TESTS_CUDA_NUMBER_H_
