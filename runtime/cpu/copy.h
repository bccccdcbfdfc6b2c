// Copy: moves the elements of a box between two strided layouts. What transposes, slices, pads, splits and concatenates.
#ifndef DELTA_RUNTIME_CPU_COPY_H_
#define DELTA_RUNTIME_CPU_COPY_H_

#include "onnx/graph/access.h"

// Made once for given layouts: dimensions of 1 are dropped and neighbouring ones merged where both layouts allow it.
typedef struct delta_copy {
  size_t element_bytes; // 1, 2, 4 or 8
  int32_t rank;         // at least 1
  bool crosswise;       // the source is dense along the last but one dimension, the target along the last
  int64_t dims[DELTA_MAX_RANK];
  int64_t to_strides[DELTA_MAX_RANK], from_strides[DELTA_MAX_RANK]; // in elements
  int64_t to_start, from_start;
} delta_copy_t;

void delta_copy_init(delta_copy_t *copy, const delta_shape_t *box, size_t element_bytes, const delta_strided_t *to,
                     const delta_strided_t *from);
// Neither layout may overlap the other's bytes, and no two elements of the box the same target.
void delta_copy_run(const delta_copy_t *copy, void *to, const void *from, int32_t threads);

#endif // DELTA_RUNTIME_CPU_COPY_H_
