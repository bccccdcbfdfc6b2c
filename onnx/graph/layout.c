// Physical shapes of layouts.
#include "onnx/graph/layout.h"

#include <string.h>

static const struct {
  const char *name;
  int64_t block;
} layout_rows[DELTA_LAYOUT_COUNT] = {
#define DELTA_LAYOUT_ROW(id, name, block) {name, block},
    DELTA_LAYOUTS(DELTA_LAYOUT_ROW)
#undef DELTA_LAYOUT_ROW
};

const char *delta_layout_name(delta_layout_t layout) { return layout_rows[layout].name; }
int64_t delta_layout_block(delta_layout_t layout) { return layout_rows[layout].block; }

bool delta_layout_find(const char *name, delta_layout_t *out_layout) {
  for (int i = 0; i < DELTA_LAYOUT_COUNT; ++i) {
    if (strcmp(layout_rows[i].name, name) != 0) continue;
    *out_layout = (delta_layout_t)i;
    return true;
  }
  return false;
}

bool delta_layout_fits(delta_layout_t layout, const delta_shape_t *plain) {
  if (plain->rank < 3 || plain->rank > 5) return false;
  const int64_t block = layout_rows[layout].block;
  return block == 0 || (plain->dims[1] > 0 && plain->dims[1] % block == 0);
}

int32_t delta_layout_dimension(delta_layout_t layout, int32_t rank, int32_t d) {
  if (layout != DELTA_LAYOUT_CHANNELS_LAST || d == 0) return d;
  return d == 1 ? rank - 1 : d - 1;
}

uint32_t delta_layout_dimensions(delta_layout_t layout, int32_t rank, uint32_t dimensions) {
  uint32_t mask = 0;
  for (int32_t d = 0; d < rank; ++d) {
    if ((dimensions >> d) & 1u) mask |= 1u << delta_layout_dimension(layout, rank, d);
  }
  if (layout_rows[layout].block && ((dimensions >> 1) & 1u)) mask |= 1u << rank;
  return mask;
}

delta_shape_t delta_layout_physical(delta_layout_t layout, const delta_shape_t *plain) {
  delta_shape_t physical = {.rank = plain->rank};
  for (int32_t d = 0; d < plain->rank; ++d) physical.dims[delta_layout_dimension(layout, plain->rank, d)] = plain->dims[d];
  const int64_t block = layout_rows[layout].block;
  if (block == 0) return physical;
  const bool is_broadcast = plain->dims[1] == 1;
  physical.dims[1] = is_broadcast ? 1 : plain->dims[1] / block;
  physical.dims[physical.rank++] = is_broadcast ? 1 : block;
  return physical;
}

bool delta_layout_plain(delta_layout_t layout, int32_t spatial, const delta_shape_t *physical, delta_shape_t *out_plain) {
  const int64_t block = layout_rows[layout].block;
  const int32_t rank = spatial + 2;
  if (spatial < 1 || spatial > 3 || physical->rank != rank + (block ? 1 : 0)) return false;
  if (block && physical->dims[rank] != block) return false;
  *out_plain = (delta_shape_t){.rank = rank};
  for (int32_t d = 0; d < rank; ++d) out_plain->dims[d] = physical->dims[delta_layout_dimension(layout, rank, d)];
  if (block) out_plain->dims[1] *= block;
  return true;
}
