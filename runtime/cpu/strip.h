// Strip: neighbouring lines along one axis of a tensor, worked on together. With the axis last a strip is one contiguous line; otherwise it is up to
// DELTA_STRIP_LINES lines whose elements stand side by side.
#ifndef DELTA_RUNTIME_CPU_STRIP_H_
#define DELTA_RUNTIME_CPU_STRIP_H_

#include "base/shape.h"

enum { DELTA_STRIP_LINES = 64 };

// How a shape is cut into strips along an axis.
typedef struct delta_strips {
  int64_t count;   // strips
  int64_t length;  // elements of a line
  int64_t stride;  // from one element of a line to the next
  int64_t inner;   // lines that stand side by side
  int64_t per_row; // strips that cover them
} delta_strips_t;

typedef struct delta_strip {
  int64_t start; // offset of the first line's first element
  int64_t line;  // index of the first line, counting lines in the order of their first elements
  int64_t width; // lines, at least 1
} delta_strip_t;

delta_strips_t delta_strips_of(const delta_shape_t *shape, int32_t axis);
delta_strip_t delta_strip_at(const delta_strips_t *strips, int64_t index);

// What a strip counts as when work is shared: its elements, several times over for their exponentials.
int64_t delta_strip_work_bytes(const delta_strips_t *strips);

// For each line of a strip: its largest element and the sum of exp(element - largest). `exps` takes these exponentials, laid out as x (and may be x);
// NULL: they are not wanted.
void delta_strip_exp_sums(const delta_strips_t *strips, const delta_strip_t *strip, const float *x, float *largest, double *sums,
                          float *exps);

#endif // DELTA_RUNTIME_CPU_STRIP_H_
