// Copy: the simplest form of a box between two layouts.
#include "runtime/cuda/copy.h"

#include <string.h>

enum { MOST_ELEMENT_BYTES = 16, LEAST_TILE = 8 };

typedef struct box {
  int32_t rank;
  size_t element_bytes;
  int64_t dims[DELTA_MAX_RANK], to[DELTA_MAX_RANK], from[DELTA_MAX_RANK];
  int64_t to_start, from_start;
} box_t;

static void add_dimension(box_t *box, int64_t size, int64_t to, int64_t from) {
  const int32_t last = box->rank - 1;
  if (size == 1) return;
  if (last >= 0 && box->to[last] == to * size && box->from[last] == from * size) {
    box->dims[last] *= size;
  } else {
    box->dims[box->rank++] = size;
  }
  box->to[box->rank - 1] = to;
  box->from[box->rank - 1] = from;
}

// Whether pairs of neighbouring elements are neighbours at even places on both sides.
static bool pairs_up(const box_t *box) {
  const int32_t last = box->rank - 1;
  if (box->element_bytes >= MOST_ELEMENT_BYTES || last < 0 || box->to[last] != 1 || box->from[last] != 1) return false;
  if ((box->dims[last] | box->to_start | box->from_start) & 1) return false;
  for (int32_t d = 0; d < last; ++d) {
    if ((box->to[d] | box->from[d]) & 1) return false;
  }
  return true;
}

static void pair_up(box_t *box) {
  box->element_bytes *= 2;
  box->dims[box->rank - 1] /= 2;
  box->to_start /= 2;
  box->from_start /= 2;
  for (int32_t d = 0; d < box->rank - 1; ++d) {
    box->to[d] /= 2;
    box->from[d] /= 2;
  }
}

// Puts the dimension along which the source is dense before the last, along which the target is. False when there is no such, or it is short.
static bool turn_crosswise(box_t *box) {
  const int32_t last = box->rank - 1;
  if (last < 1 || box->to[last] != 1 || box->from[last] == 1 || box->dims[last] < LEAST_TILE) return false;
  int32_t dense = 0;
  while (dense < last && box->from[dense] != 1) ++dense;
  if (dense == last || box->dims[dense] < LEAST_TILE) return false;
  int64_t *const lists[] = {box->dims, box->to, box->from};
  for (size_t k = 0; k < sizeof lists / sizeof *lists; ++k) {
    const int64_t kept = lists[k][dense];
    memmove(lists[k] + dense, lists[k] + dense + 1, (size_t)(last - 1 - dense) * sizeof kept);
    lists[k][last - 1] = kept;
  }
  return true;
}

void delta_cuda_copy_init(delta_cuda_copy_t *copy, const delta_shape_t *shape, size_t element_bytes, const delta_strided_t *to,
                          const delta_strided_t *from) {
  box_t box = {.element_bytes = element_bytes, .to_start = to->start, .from_start = from->start};
  for (int32_t d = 0; d < shape->rank; ++d) add_dimension(&box, shape->dims[d], to->strides[d], from->strides[d]);
  while (pairs_up(&box)) pair_up(&box);
  *copy = (delta_cuda_copy_t){.crosswise = turn_crosswise(&box), .count = 1, .to_start = box.to_start, .from_start = box.from_start};
  copy->element_bytes = (int32_t)box.element_bytes;
  if (box.rank == 0) box.dims[box.rank++] = 1;
  copy->rank = box.rank;
  for (int32_t d = 0; d < box.rank; ++d) copy->count *= (uint64_t)box.dims[d];
  for (int32_t d = 0; d < box.rank; ++d) {
    copy->dims[d] = delta_divisor_of((uint64_t)box.dims[d], copy->count);
    copy->to_strides[d] = box.to[d];
    copy->from_strides[d] = box.from[d];
  }
}
