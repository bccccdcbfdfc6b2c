// Lowering of operators that rearrange space: DepthToSpace, SpaceToDepth, CenterCropPad, MaxUnpool.
#include <string.h>

#include "onnx/lower/window.h"

// The attribute blocksize and the shape of an image batch; false after an error.
static bool read_blocks(delta_lower_t *lower, delta_shape_t *out_shape, int64_t *out_size) {
  *out_shape = *delta_emit_shape(&lower->emit, delta_lower_required(lower, 0));
  *out_size = delta_lower_int(lower, "blocksize", 0);
  if (delta_emit_ok(&lower->emit) && (out_shape->rank != 4 || *out_size < 1 || *out_size > INT32_MAX)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input has rank %d and attribute 'blocksize' is %lld", out_shape->rank,
                           (long long)*out_size);
  }
  return delta_emit_ok(&lower->emit);
}

// x seen as `apart`, with its dimensions reordered, seen as `joined`.
static delta_tensor_id_t regroup(delta_lower_t *lower, const delta_shape_t *apart, const int32_t *permutation,
                                 const delta_shape_t *joined) {
  delta_tensor_id_t x = delta_emit_view(&lower->emit, lower->inputs[0], apart);
  return delta_emit_view(&lower->emit, delta_emit_transpose(&lower->emit, x, permutation), joined);
}

static delta_status_t too_large(delta_lower_t *lower) {
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the result is too large");
  return DELTA_OK;
}

delta_status_t delta_lower_depth_to_space(delta_lower_t *lower) {
  static const char *const modes[] = {"DCR", "CRD"};
  static const int32_t depth_first[6] = {0, 3, 4, 1, 5, 2}, column_first[6] = {0, 1, 4, 2, 5, 3};
  bool by_column = delta_lower_choice(lower, "mode", delta_lower_string(lower, "mode", "DCR"), modes, 2) == 1;
  delta_shape_t shape;
  int64_t size = 0;
  if (!read_blocks(lower, &shape, &size)) return DELTA_OK;
  const int64_t n = shape.dims[0], c = shape.dims[1], h = shape.dims[2], w = shape.dims[3];
  const int64_t blocks = size * size;
  if (c % blocks != 0) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "%lld channels are no multiple of %lld blocks", (long long)c, (long long)blocks);
    return DELTA_OK;
  }
  const int64_t depth = c / blocks;
  int64_t height = 0, width = 0;
  if (!delta_int64_mul(h, size, &height) || !delta_int64_mul(w, size, &width)) return too_large(lower);
  const delta_shape_t blocks_outside = {.rank = 6, .dims = {n, size, size, depth, h, w}},
                      blocks_inside = {.rank = 6, .dims = {n, depth, size, size, h, w}};
  const delta_shape_t joined = {.rank = 4, .dims = {n, depth, height, width}};
  lower->outputs[0] = regroup(lower, by_column ? &blocks_inside : &blocks_outside, by_column ? column_first : depth_first, &joined);
  return DELTA_OK;
}

delta_status_t delta_lower_space_to_depth(delta_lower_t *lower) {
  static const int32_t permutation[6] = {0, 3, 5, 1, 2, 4};
  delta_shape_t shape;
  int64_t size = 0;
  if (!read_blocks(lower, &shape, &size)) return DELTA_OK;
  const int64_t n = shape.dims[0], c = shape.dims[1], h = shape.dims[2], w = shape.dims[3];
  if (h % size != 0 || w % size != 0) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "an image of %lld by %lld does not divide into blocks of %lld", (long long)h,
                           (long long)w, (long long)size);
    return DELTA_OK;
  }
  int64_t depth = 0;
  if (!delta_int64_mul(c, size * size, &depth)) return too_large(lower);
  const delta_shape_t apart = {.rank = 6, .dims = {n, c, h / size, size, w / size, size}};
  const delta_shape_t joined = {.rank = 4, .dims = {n, depth, h / size, w / size}};
  lower->outputs[0] = regroup(lower, &apart, permutation, &joined);
  return DELTA_OK;
}

// Each axis is cut or filled with zeros on both sides, the odd element at the end.
delta_status_t delta_lower_center_crop_pad(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  delta_pad_attrs_t attrs = {.mode = DELTA_PAD_CONSTANT, .data_shape = *delta_emit_shape(&lower->emit, x)};
  int64_t sizes[DELTA_MAX_RANK], axes[DELTA_MAX_RANK];
  size_t count = 0;
  if (!delta_lower_known_ints(lower, 1, sizes, DELTA_MAX_RANK, &count)) return DELTA_OK;
  bool given = delta_lower_has(lower, "axes"), changes = false;
  size_t axis_count = given ? delta_lower_ints(lower, "axes", axes, DELTA_MAX_RANK) : (size_t)attrs.data_shape.rank;
  if (axis_count != count) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "has %zu sizes for %zu axes", count, axis_count);
  }
  for (size_t k = 0; k < count && delta_emit_ok(&lower->emit); ++k) {
    int32_t axis = given ? delta_lower_axis(lower, "an axis", axes[k], attrs.data_shape.rank) : (int32_t)k;
    if (sizes[k] < 0) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "size %zu is %lld", k, (long long)sizes[k]);
    int64_t missing = (sizes[k] > 0 ? sizes[k] : 0) - attrs.data_shape.dims[axis];
    attrs.begin[axis] = missing / 2;
    attrs.end[axis] = missing - missing / 2;
    changes = changes || missing != 0;
  }
  lower->outputs[0] = changes ? DELTA_EMIT(&lower->emit, PAD, attrs, x) : x;
  return DELTA_OK;
}

// The size before pooling: (size - 1) * stride + kernel - pads.
static void unpooled_shape(delta_lower_t *lower, const delta_window_t *window, delta_shape_t *shape) {
  for (int32_t d = 0; d < window->spatial; ++d) {
    int64_t size = 0;
    bool fits = delta_int64_mul(shape->dims[d + 2] - 1, window->strides[d], &size) && delta_int64_add(size, window->kernel[d], &size);
    fits = fits && delta_int64_sub(size, window->pads_begin[d], &size) && delta_int64_sub(size, window->pads_end[d], &size);
    if (!fits || size < 1) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "spatial dimension %d of the result would be empty", d);
    shape->dims[d + 2] = size;
  }
}

// Zeros, with each element of x at its flat position in the whole. Positions are those of the size that the window gives; a larger output_shape adds
// zeros at the end.
delta_status_t delta_lower_max_unpool(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0), indices = delta_lower_required(lower, 1);
  delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  const delta_shape_t list = {.rank = 1, .dims = {delta_shape_count(&shape)}};
  delta_window_t window;
  if (!delta_lower_window_lists(lower, &shape, NULL, &window)) return DELTA_OK;
  unpooled_shape(lower, &window, &shape);
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&shape, delta_dtype_bytes(delta_emit_dtype(&lower->emit, x)), "the result"));
  const delta_shape_t flat = {.rank = 1, .dims = {delta_shape_count(&shape)}};
  const delta_scatter_attrs_t scatter = {.axis = 0, .kind = DELTA_SCATTER_NONE};
  delta_tensor_id_t zeros = delta_emit_fill(&lower->emit, delta_emit_dtype(&lower->emit, x), &flat, 0.0);
  delta_tensor_id_t places = delta_emit_view(&lower->emit, indices, &list), elements = delta_emit_view(&lower->emit, x, &list);
  delta_tensor_id_t y = DELTA_EMIT(&lower->emit, SCATTER_ELEMENTS, scatter, zeros, places, elements);
  y = delta_emit_view(&lower->emit, y, &shape);
  if (!delta_tensor_is_none(delta_lower_input(lower, 2))) {
    delta_pad_attrs_t attrs = {.mode = DELTA_PAD_CONSTANT, .data_shape = shape};
    int64_t sizes[DELTA_MAX_RANK];
    size_t count = 0;
    if (!delta_lower_known_ints(lower, 2, sizes, DELTA_MAX_RANK, &count)) return DELTA_OK;
    if (count != (size_t)shape.rank) return delta_status_make(MALFORMED, "has %zu output sizes; %d are needed", count, shape.rank);
    for (int32_t d = 0; d < shape.rank; ++d) {
      if (sizes[d] < 0) return delta_status_make(MALFORMED, "output size %d is %lld", d, (long long)sizes[d]);
      attrs.end[d] = sizes[d] - shape.dims[d];
    }
    y = DELTA_EMIT(&lower->emit, PAD, attrs, y);
  }
  lower->outputs[0] = y;
  return DELTA_OK;
}
