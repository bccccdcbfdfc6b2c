// Cutting into strips, and the sums that softmax and cross entropy share.
#include "runtime/cpu/strip.h"

#include <math.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/vector_math.h"

delta_strips_t delta_strips_of(const delta_shape_t *shape, int32_t axis) {
  delta_strips_t strips = {.length = shape->dims[axis], .inner = delta_shape_count_range(shape, axis + 1, shape->rank)};
  int64_t outer = delta_shape_count_range(shape, 0, axis);
  strips.stride = strips.inner;
  strips.per_row = strips.inner == 1 ? 1 : (strips.inner + DELTA_STRIP_LINES - 1) / DELTA_STRIP_LINES;
  strips.count = outer * strips.per_row;
  return strips;
}

delta_strip_t delta_strip_at(const delta_strips_t *strips, int64_t index) {
  int64_t outer = index / strips->per_row, first = index % strips->per_row * DELTA_STRIP_LINES;
  int64_t left = strips->inner - first;
  return (delta_strip_t){
      .start = outer * strips->length * strips->inner + first,
      .line = outer * strips->inner + first,
      .width = left < DELTA_STRIP_LINES ? left : DELTA_STRIP_LINES,
  };
}

int64_t delta_strip_work_bytes(const delta_strips_t *strips) {
  int64_t width = strips->inner < DELTA_STRIP_LINES ? strips->inner : DELTA_STRIP_LINES;
  return 4 * strips->length * width * (int64_t)sizeof(float);
}

// A NaN is never the largest, but shows in the sum.
DELTA_CPU_CLONES static void one_line(const float *x, int64_t length, float *out_largest, double *out_sum) {
  enum { LANES = 16 };
  float largest = -INFINITY;
  for (int64_t k = 0; k < length; ++k) largest = x[k] > largest ? x[k] : largest;
  double sums[LANES] = {0};
  int64_t k = 0;
  for (; k + LANES <= length; k += LANES) {
    for (int lane = 0; lane < LANES; ++lane) sums[lane] += (double)delta_vector_exp(x[k + lane] - largest);
  }
  for (; k < length; ++k) sums[0] += (double)delta_vector_exp(x[k] - largest);
  double sum = 0;
  for (int lane = 0; lane < LANES; ++lane) sum += sums[lane];
  *out_largest = largest;
  *out_sum = sum;
}

DELTA_CPU_CLONES static void side_by_side(const float *x, int64_t length, int64_t stride, int64_t width, float *largest, double *sums) {
  for (int64_t w = 0; w < width; ++w) {
    largest[w] = -INFINITY;
    sums[w] = 0;
  }
  for (int64_t k = 0; k < length; ++k) {
    for (int64_t w = 0; w < width; ++w) largest[w] = x[k * stride + w] > largest[w] ? x[k * stride + w] : largest[w];
  }
  for (int64_t k = 0; k < length; ++k) {
    for (int64_t w = 0; w < width; ++w) sums[w] += (double)delta_vector_exp(x[k * stride + w] - largest[w]);
  }
}

void delta_strip_exp_sums(const delta_strips_t *strips, const delta_strip_t *strip, const float *x, float *largest, double *sums) {
  if (strips->inner == 1) {
    one_line(x + strip->start, strips->length, largest, sums);
  } else {
    side_by_side(x + strip->start, strips->length, strips->stride, strip->width, largest, sums);
  }
}
