// Indices in kernels: a linear number becomes coordinates, with divisions by multiplication. Shared by C, which prepares, and device code, which divides; also
// text for what NVRTC compiles (sources.c).
#ifndef DELTA_RUNTIME_CUDA_INDEX_H_
#define DELTA_RUNTIME_CUDA_INDEX_H_

#ifndef DELTA_DEVICE_TEXT
#include <stdint.h>
#ifdef __cplusplus
#include <cuda_runtime.h>
#endif
#endif

// A divisor of numbers below 2^31, by the product's high word; with multiplier 0 of any number, by a division.
// T. Granlund and P. L. Montgomery, "Division by invariant integers using multiplication", 1994.
typedef struct delta_divisor {
  uint64_t divisor;
  uint32_t multiplier, shift;
} delta_divisor_t;

#ifdef __cplusplus
static inline __device__ uint64_t delta_divide(uint64_t number, const delta_divisor_t &by) {
  if (by.multiplier == 0) return number / by.divisor;
  const uint32_t low = (uint32_t)number;
  return ((uint32_t)((uint64_t)low * by.multiplier >> 32) + low) >> by.shift;
}
#endif

// For numbers up to `largest`.
static inline delta_divisor_t delta_divisor_of(uint64_t divisor, uint64_t largest) {
  delta_divisor_t by = {divisor, 0, 0};
  if (divisor == 0 || largest >> 31 != 0 || divisor >> 31 != 0) return by;
  while (((uint64_t)1 << by.shift) < divisor) ++by.shift;
  by.multiplier = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << by.shift) - divisor)) / divisor + 1);
  return by;
}

#endif // DELTA_RUNTIME_CUDA_INDEX_H_
