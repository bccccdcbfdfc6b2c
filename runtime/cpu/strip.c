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

enum { TILE = 256, LANES = 16 };

DELTA_CPU_CLONES static float largest_of(const float *x, int64_t count, float largest) {
  float lanes[LANES];
  for (int lane = 0; lane < LANES; ++lane) lanes[lane] = largest;
  int64_t k = 0;
  for (; k + LANES <= count; k += LANES) {
    for (int lane = 0; lane < LANES; ++lane) lanes[lane] = x[k + lane] > lanes[lane] ? x[k + lane] : lanes[lane];
  }
  for (; k < count; ++k) lanes[0] = x[k] > lanes[0] ? x[k] : lanes[0];
  for (int lane = 0; lane < LANES; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
  return largest;
}

DELTA_CPU_CLONES static void exp_tile(const float *x, float shift, float *exps, int64_t count) {
  for (int64_t k = 0; k < count; ++k) exps[k] = delta_vector_exp(x[k] - shift);
}

DELTA_CPU_CLONES static double tile_sum(const float *exps, int64_t count) {
  double lanes[LANES] = {0}, sum = 0;
  int64_t k = 0;
  for (; k + LANES <= count; k += LANES) {
    for (int lane = 0; lane < LANES; ++lane) lanes[lane] += (double)exps[k + lane];
  }
  for (; k < count; ++k) lanes[0] += (double)exps[k];
  for (int lane = 0; lane < LANES; ++lane) sum += lanes[lane];
  return sum;
}

// A NaN is never the largest, but shows in the sum.
static void one_line(const float *x, int64_t length, float *out_largest, double *out_sum, float *exps) {
  float tile[TILE], largest = largest_of(x, length, -INFINITY);
  double sum = 0;
  for (int64_t k = 0; k < length; k += TILE) {
    int64_t count = length - k < TILE ? length - k : TILE;
    float *to = exps ? exps + k : tile;
    exp_tile(x + k, largest, to, count);
    sum += tile_sum(to, count);
  }
  *out_largest = largest;
  *out_sum = sum;
}

DELTA_CPU_CLONES static void largest_side_by_side(const float *x, int64_t length, int64_t stride, int64_t width, float *largest) {
  for (int64_t w = 0; w < width; ++w) largest[w] = -INFINITY;
  for (int64_t k = 0; k < length; ++k) {
    for (int64_t w = 0; w < width; ++w) largest[w] = x[k * stride + w] > largest[w] ? x[k * stride + w] : largest[w];
  }
}

DELTA_CPU_CLONES static void exp_row(const float *x, const float *largest, int64_t width, float *exps, double *sums) {
  for (int64_t w = 0; w < width; ++w) {
    exps[w] = delta_vector_exp(x[w] - largest[w]);
    sums[w] += (double)exps[w];
  }
}

static void side_by_side(const float *x, const delta_strips_t *strips, int64_t width, float *largest, double *sums, float *exps) {
  float row[DELTA_STRIP_LINES];
  largest_side_by_side(x, strips->length, strips->stride, width, largest);
  for (int64_t w = 0; w < width; ++w) sums[w] = 0;
  for (int64_t k = 0; k < strips->length; ++k)
    exp_row(x + k * strips->stride, largest, width, exps ? exps + k * strips->stride : row, sums);
}

void delta_strip_exp_sums(const delta_strips_t *strips, const delta_strip_t *strip, const float *x, float *largest, double *sums,
                          float *exps) {
  float *to = exps ? exps + strip->start : NULL;
  if (strips->inner == 1) {
    one_line(x + strip->start, strips->length, largest, sums, to);
  } else {
    side_by_side(x + strip->start, strips, strip->width, largest, sums, to);
  }
}
