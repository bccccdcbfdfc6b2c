// Reading of sliding windows: see window.h.
#include "onnx/lower/window.h"

// A list attribute with one value for each spatial dimension, all at least `least`; `fallback` where it is absent.
static void read_list(delta_lower_t *lower, const char *name, int32_t spatial, int64_t least, int64_t fallback, int64_t *values) {
  int64_t stated[2 * DELTA_MAX_SPATIAL];
  size_t count = delta_lower_ints(lower, name, stated, 2 * DELTA_MAX_SPATIAL);
  bool given = delta_lower_has(lower, name);
  if (given && count != (size_t)spatial && delta_emit_ok(&lower->emit)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute '%s' has %zu values; %d are needed", name, count, spatial);
  }
  for (int32_t d = 0; d < spatial; ++d) {
    values[d] = given && count == (size_t)spatial ? stated[d] : fallback;
    if (values[d] < least) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute '%s' has %lld; it must be at least %lld", name, (long long)values[d],
                             (long long)least);
    }
  }
}

static void read_kernel(delta_lower_t *lower, const int64_t *kernel, delta_window_t *window) {
  if (kernel == NULL && !delta_lower_has(lower, "kernel_shape")) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'kernel_shape' is required and left out");
    return;
  }
  read_list(lower, "kernel_shape", window->spatial, 1, 1, window->kernel);
  for (int32_t d = 0; kernel != NULL && d < window->spatial; ++d) {
    if (!delta_lower_has(lower, "kernel_shape")) window->kernel[d] = kernel[d];
    if (window->kernel[d] != kernel[d] || kernel[d] < 1) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED,
                             "kernel dimension %d is %lld in the weight and %lld in attribute 'kernel_shape'", d, (long long)kernel[d],
                             (long long)window->kernel[d]);
    }
  }
}

static void read_pads(delta_lower_t *lower, delta_window_t *window) {
  int64_t pads[2 * DELTA_MAX_SPATIAL] = {0};
  size_t count = delta_lower_ints(lower, "pads", pads, 2 * DELTA_MAX_SPATIAL);
  if (delta_lower_has(lower, "pads") && count != 2 * (size_t)window->spatial) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'pads' has %zu values; %d are needed", count, 2 * window->spatial);
    return;
  }
  for (int32_t d = 0; d < window->spatial; ++d) {
    window->pads_begin[d] = pads[d];
    window->pads_end[d] = pads[window->spatial + d];
    if (window->pads_begin[d] < 0 || window->pads_end[d] < 0) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED,
                             "attribute 'pads' has %lld and %lld for spatial dimension %d; they must not be negative",
                             (long long)window->pads_begin[d], (long long)window->pads_end[d], d);
    }
  }
}

// Extent of the dilated kernel. False on overflow.
static bool kernel_extent(const delta_window_t *window, int32_t d, int64_t *out_extent) {
  return delta_int64_mul(window->kernel[d] - 1, window->dilations[d], out_extent) && delta_int64_add(*out_extent, 1, out_extent);
}

// auto_pad "same": as much padding as makes ceil(size / stride) outputs; an odd element goes to the end (upper) or the beginning (lower).
static void pad_same(delta_lower_t *lower, delta_window_t *window, const delta_shape_t *shape, bool upper) {
  for (int32_t d = 0; d < window->spatial && delta_emit_ok(&lower->emit); ++d) {
    int64_t size = shape->dims[d + 2];
    int64_t steps = size > 0 ? (size - 1) / window->strides[d] : 0;
    int64_t extent = 0, needed = 0;
    if (!kernel_extent(window, d, &extent) || !delta_int64_add(steps * window->strides[d] - size, extent, &needed)) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "spatial dimension %d: kernel and dilation are too large", d);
      return;
    }
    if (needed < 0) needed = 0;
    window->pads_begin[d] = upper ? needed / 2 : needed - needed / 2;
    window->pads_end[d] = needed - window->pads_begin[d];
  }
}

static void read_auto_pad(delta_lower_t *lower, delta_window_t *window, const delta_shape_t *shape) {
  enum { NOTSET, VALID, SAME_UPPER, SAME_LOWER, MODE_COUNT };
  static const char *const names[MODE_COUNT] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
  size_t mode = delta_lower_choice(lower, "auto_pad", delta_lower_string(lower, "auto_pad", "NOTSET"), names, MODE_COUNT);
  if (mode == NOTSET) return;
  for (int32_t d = 0; d < window->spatial; ++d) {
    if (window->pads_begin[d] == 0 && window->pads_end[d] == 0) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "has attribute 'pads' and auto_pad '%s'; only one of them can be meant",
                           names[mode]);
    return;
  }
  if (mode != VALID) pad_same(lower, window, shape, mode == SAME_UPPER);
}

bool delta_lower_window_lists(delta_lower_t *lower, const delta_shape_t *shape, const int64_t *kernel, delta_window_t *out_window) {
  *out_window = (delta_window_t){.spatial = shape->rank - 2};
  if (!delta_emit_ok(&lower->emit)) return false;
  if (shape->rank < 3 || shape->rank > DELTA_MAX_SPATIAL + 2) {
    (void)delta_lower_fail(lower, shape->rank < 3 ? DELTA_STATUS_MALFORMED : DELTA_STATUS_UNSUPPORTED,
                           "the input has rank %d; batch, channels and 1 to %d spatial dimensions are supported", shape->rank,
                           DELTA_MAX_SPATIAL);
    return false;
  }
  read_kernel(lower, kernel, out_window);
  read_list(lower, "strides", out_window->spatial, 1, 1, out_window->strides);
  read_list(lower, "dilations", out_window->spatial, 1, 1, out_window->dilations);
  read_pads(lower, out_window);
  return delta_emit_ok(&lower->emit);
}

bool delta_lower_window(delta_lower_t *lower, const delta_shape_t *shape, const int64_t *kernel, delta_window_t *out_window) {
  if (delta_lower_window_lists(lower, shape, kernel, out_window)) read_auto_pad(lower, out_window, shape);
  return delta_emit_ok(&lower->emit);
}

bool delta_lower_window_out(delta_lower_t *lower, const delta_window_t *window, const delta_shape_t *shape, bool ceil_mode,
                            int64_t out_spatial[DELTA_MAX_SPATIAL]) {
  for (int32_t d = 0; d < window->spatial; ++d) {
    int64_t size = shape->dims[d + 2], extent = 0, padded = 0;
    bool fits = kernel_extent(window, d, &extent) && delta_int64_add(size, window->pads_begin[d], &padded) &&
                delta_int64_add(padded, window->pads_end[d], &padded);
    if (!fits || padded < extent) {
      (void)delta_lower_fail(
          lower, DELTA_STATUS_MALFORMED,
          "spatial dimension %d: a kernel of %lld with dilation %lld is larger than %lld elements with pads %lld and %lld", d,
          (long long)window->kernel[d], (long long)window->dilations[d], (long long)size, (long long)window->pads_begin[d],
          (long long)window->pads_end[d]);
      return false;
    }
    int64_t stride = window->strides[d];
    int64_t free_steps = padded - extent;
    out_spatial[d] = free_steps / stride + 1;
    // One more window, unless it would start in the padding at the end.
    if (ceil_mode && free_steps % stride != 0 && out_spatial[d] * stride < size + window->pads_begin[d]) out_spatial[d] += 1;
  }
  return true;
}
