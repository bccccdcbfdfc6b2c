// Shape: the static dimensions of a tensor, and the index arithmetic everybody shares.
#ifndef DELTA_BASE_SHAPE_H_
#define DELTA_BASE_SHAPE_H_

#include "base/checked.h"
#include "base/status.h"

// The largest rank of a tensor; ONNX's own node tests need 7.
enum { DELTA_MAX_RANK = 8 };

typedef struct delta_shape {
  int32_t rank;                 // 0 for a scalar
  int64_t dims[DELTA_MAX_RANK]; // all >= 0; entries from rank on are 0
} delta_shape_t;

// Number of elements; 1 for a scalar. Shapes are validated when made, so this cannot overflow for them.
int64_t delta_shape_count(const delta_shape_t *shape);
bool delta_shape_equal(const delta_shape_t *a, const delta_shape_t *b);
// Product of dims[begin, end).
int64_t delta_shape_count_range(const delta_shape_t *shape, int32_t begin, int32_t end);

// Checks rank, signs and that count * element_bytes fits in 62 bits. `name` is for the message.
DELTA_MUST_USE delta_status_t delta_shape_validate(const delta_shape_t *shape, size_t element_bytes, const char *name);

// Multidirectional broadcast of two shapes by ONNX's rule. False when they do not fit.
bool delta_shape_broadcast(const delta_shape_t *a, const delta_shape_t *b, delta_shape_t *out);

// Row-major strides in elements.
void delta_shape_strides(const delta_shape_t *shape, int64_t strides[DELTA_MAX_RANK]);
// Strides of `from` when it is read broadcast as `to` (aligned at the last dimension); 0 where it repeats.
void delta_shape_broadcast_strides(const delta_shape_t *from, const delta_shape_t *to, int64_t strides[DELTA_MAX_RANK]);

// "[32, 3, 224, 224]"; `buffer` is returned.
enum { DELTA_SHAPE_TEXT_BYTES = 192 };
const char *delta_shape_text(const delta_shape_t *shape, char buffer[DELTA_SHAPE_TEXT_BYTES]);

#endif // DELTA_BASE_SHAPE_H_
