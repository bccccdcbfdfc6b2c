// Layout: in which order the elements of a tensor [n, c, spatial...] lie. A layout is nothing but a physical shape: what lies as NHWC is a tensor
// [n, h, w, c], and what lies in blocks of b channels a tensor [n, c / b, h, w, b]. So only operators that slide windows know layouts, by their
// attributes; all others work on physical shapes, and conversions are views and transpositions.
#ifndef DELTA_ONNX_GRAPH_LAYOUT_H_
#define DELTA_ONNX_GRAPH_LAYOUT_H_

#include "base/shape.h"

// X(identifier, name, channels in a block; 0: channels are one dimension)
#define DELTA_LAYOUTS(X)               \
  X(PLAIN, "plain", 0)                 \
  X(CHANNELS_LAST, "channels_last", 0) \
  X(BLOCKED_8, "blocked_8", 8)         \
  X(BLOCKED_16, "blocked_16", 16)
typedef enum delta_layout {
#define DELTA_LAYOUT_ENUM(id, name, block) DELTA_LAYOUT_##id,
  DELTA_LAYOUTS(DELTA_LAYOUT_ENUM)
#undef DELTA_LAYOUT_ENUM
      DELTA_LAYOUT_COUNT
} delta_layout_t;

const char *delta_layout_name(delta_layout_t layout);
bool delta_layout_find(const char *name, delta_layout_t *out_layout);
int64_t delta_layout_block(delta_layout_t layout);

// Whether a tensor of this shape has batch, channels, one to three spatial dimensions, and channels that the layout's blocks divide.
bool delta_layout_fits(delta_layout_t layout, const delta_shape_t *plain);
// The physical shape of a tensor that fits. A dimension of 1 in the place of the channels stays one: it is broadcast over blocks too.
delta_shape_t delta_layout_physical(delta_layout_t layout, const delta_shape_t *plain);
// The plain shape behind a physical one; false when no tensor of `spatial` spatial dimensions lies so.
bool delta_layout_plain(delta_layout_t layout, int32_t spatial, const delta_shape_t *physical, delta_shape_t *out_plain);
// The physical dimension of plain dimension d; for blocked channels that of the whole blocks, the last one being their inside.
int32_t delta_layout_dimension(delta_layout_t layout, int32_t rank, int32_t d);
// A mask of plain dimensions as one of physical dimensions.
uint32_t delta_layout_dimensions(delta_layout_t layout, int32_t rank, uint32_t dimensions);

#endif // DELTA_ONNX_GRAPH_LAYOUT_H_
