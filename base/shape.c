// Shape: counting, comparing, broadcasting and printing of dimensions.
#include "base/shape.h"

#include <stdio.h>
#include <string.h>

int64_t delta_shape_count_range(const delta_shape_t *shape, int32_t begin, int32_t end) {
  int64_t count = 1;
  for (int32_t i = begin; i < end; ++i) count *= shape->dims[i];
  return count;
}

int64_t delta_shape_count(const delta_shape_t *shape) { return delta_shape_count_range(shape, 0, shape->rank); }

bool delta_shape_equal(const delta_shape_t *a, const delta_shape_t *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

delta_status_t delta_shape_validate(const delta_shape_t *shape, size_t element_bytes, const char *name) {
  if (shape->rank < 0 || shape->rank > DELTA_MAX_RANK) {
    return delta_status_make(UNSUPPORTED, "'%s' has rank %d; at most %d is supported", name, (int)shape->rank, (int)DELTA_MAX_RANK);
  }
  char text[DELTA_SHAPE_TEXT_BYTES];
  // A dimension of 0 counts as 1, so that no product of some of the dimensions can overflow either.
  int64_t size_bytes = (int64_t)element_bytes;
  for (int32_t i = 0; i < shape->rank; ++i) {
    const int64_t dim = shape->dims[i];
    if (dim < 0) return delta_status_make(MALFORMED, "'%s' has a negative dimension in %s", name, delta_shape_text(shape, text));
    if (!delta_int64_mul(size_bytes, dim > 0 ? dim : 1, &size_bytes) || size_bytes >= INT64_C(1) << 62) {
      return delta_status_make(UNSUPPORTED, "'%s' of shape %s with %zu bytes per element is larger than 4 EiB", name,
                               delta_shape_text(shape, text), element_bytes);
    }
  }
  return DELTA_OK;
}

// The dimension of `shape` that stands at position `i` of a shape of rank `rank`, aligned at the last; 1 where there is none.
static int64_t aligned_dim(const delta_shape_t *shape, int32_t rank, int32_t i) {
  const int32_t own = i - (rank - shape->rank);
  return own < 0 ? 1 : shape->dims[own];
}

bool delta_shape_broadcast(const delta_shape_t *a, const delta_shape_t *b, delta_shape_t *out) {
  delta_shape_t result = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (int32_t i = 0; i < result.rank; ++i) {
    const int64_t left = aligned_dim(a, result.rank, i), right = aligned_dim(b, result.rank, i);
    if (left != right && left != 1 && right != 1) return false;
    result.dims[i] = left == 1 ? right : left;
  }
  *out = result;
  return true;
}

void delta_shape_strides(const delta_shape_t *shape, int64_t strides[DELTA_MAX_RANK]) {
  memset(strides, 0, sizeof *strides * DELTA_MAX_RANK);
  int64_t stride = 1;
  for (int32_t i = shape->rank - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape->dims[i];
  }
}

void delta_shape_broadcast_strides(const delta_shape_t *from, const delta_shape_t *to, int64_t strides[DELTA_MAX_RANK]) {
  int64_t own[DELTA_MAX_RANK];
  delta_shape_strides(from, own);
  memset(strides, 0, sizeof *strides * DELTA_MAX_RANK);
  const int32_t offset = to->rank - from->rank;
  for (int32_t i = 0; i < from->rank; ++i) {
    strides[i + offset] = from->dims[i] == 1 && to->dims[i + offset] != 1 ? 0 : own[i];
  }
}

const char *delta_shape_text(const delta_shape_t *shape, char buffer[DELTA_SHAPE_TEXT_BYTES]) {
  size_t length = 1;
  buffer[0] = '[';
  for (int32_t i = 0; i < shape->rank && i < DELTA_MAX_RANK; ++i) {
    length += (size_t)snprintf(buffer + length, DELTA_SHAPE_TEXT_BYTES - length, "%s%lld", i ? ", " : "", (long long)shape->dims[i]);
  }
  snprintf(buffer + length, DELTA_SHAPE_TEXT_BYTES - length, "]");
  return buffer;
}
