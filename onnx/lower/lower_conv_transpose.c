// Lowering of transposed convolution to the gradient of a convolution by its data.
#include "onnx/lower/window.h"

// Sizes and pads of the result along one dimension: (size - 1) * stride + extent + output_padding - pads.
typedef struct transpose_padding {
  int64_t output_padding[DELTA_MAX_SPATIAL];
  int64_t output_shape[DELTA_MAX_SPATIAL];
  bool has_output_shape;
} transpose_padding_t;

static size_t spatial_list(delta_lower_t *lower, const char *name, int32_t spatial, int64_t *values) {
  size_t count = delta_lower_ints(lower, name, values, DELTA_MAX_SPATIAL);
  if (count != 0 && count != (size_t)spatial) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute '%s' has %zu values; %d are needed", name, count, spatial);
  }
  for (size_t k = 0; k < count; ++k) {
    if (values[k] < 0) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute '%s' has %lld", name, (long long)values[k]);
  }
  return count;
}

// The size before anything is cut off. False on overflow.
static bool full_size(const delta_window_t *window, int32_t d, int64_t size, int64_t output_padding, int64_t *out_full) {
  int64_t extent = 0;
  return delta_int64_mul(window->kernel[d] - 1, window->dilations[d], &extent) && delta_int64_add(extent, 1, &extent) &&
         delta_int64_mul(size - 1, window->strides[d], out_full) && delta_int64_add(*out_full, extent, out_full) &&
         delta_int64_add(*out_full, output_padding, out_full);
}

// Whether all sizes of one dimension are small enough for their sums to stay in range.
static bool sizes_are_sane(const delta_window_t *window, int32_t d, const transpose_padding_t *padding, int64_t full, int64_t wanted) {
  const int64_t limit = INT64_MAX / 8;
  return full > -limit && full < limit && wanted < limit && window->pads_begin[d] < limit && window->pads_end[d] < limit &&
         padding->output_padding[d] < limit && padding->output_shape[d] >= 0 && padding->output_shape[d] < limit;
}

// Pads that leave `wanted` of `full` elements; the odd one goes to the end for SAME_UPPER, else to the beginning. What is missing is added at the end.
static void set_pads(delta_window_t *window, int32_t d, int64_t full, int64_t wanted, bool upper, int64_t *output_padding) {
  int64_t total = full - wanted;
  if (total < 0) *output_padding -= total;
  if (total < 0) total = 0;
  window->pads_begin[d] = upper ? total / 2 : total - total / 2;
  window->pads_end[d] = total - window->pads_begin[d];
}

// Whether the padding goes to the end where it is odd, and whether the output is size * stride.
static void read_auto_pad(delta_lower_t *lower, bool *out_upper, bool *out_same) {
  enum { NOTSET, VALID, SAME_UPPER, SAME_LOWER, MODE_COUNT };
  static const char *const names[MODE_COUNT] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
  size_t mode = delta_lower_choice(lower, "auto_pad", delta_lower_string(lower, "auto_pad", "NOTSET"), names, MODE_COUNT);
  *out_upper = mode == SAME_UPPER;
  *out_same = mode == SAME_UPPER || mode == SAME_LOWER;
}

// The output's size along one dimension; pads are set where the node states sizes instead of them.
static int64_t resolve_dimension(delta_lower_t *lower, delta_window_t *window, int32_t d, int64_t size, transpose_padding_t *padding) {
  bool upper = false, same = false;
  int64_t full = 0, wanted = 0;
  read_auto_pad(lower, &upper, &same);
  if (!delta_emit_ok(&lower->emit)) return 0;
  if (!full_size(window, d, size, padding->output_padding[d], &full) || !delta_int64_mul(size, window->strides[d], &wanted) ||
      !sizes_are_sane(window, d, padding, full, wanted)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "spatial dimension %d of the result has no sensible size", d);
    return 0;
  }
  if (padding->has_output_shape) wanted = padding->output_shape[d];
  if (padding->has_output_shape || same) {
    set_pads(window, d, full, wanted, upper, &padding->output_padding[d]);
    return wanted;
  }
  return full - window->pads_begin[d] - window->pads_end[d];
}

// Elements that no window reaches are made by cutting less off the end. What is then left must be shorter than a stride, or a convolution over the
// result would give more outputs than there are inputs.
static void trade_output_padding(delta_lower_t *lower, delta_window_t *window, int32_t d, int64_t output_padding) {
  if (output_padding < window->strides[d]) return;
  int64_t kept = output_padding < window->pads_end[d] ? output_padding : window->pads_end[d];
  window->pads_end[d] -= kept;
  if (output_padding - kept < window->strides[d]) return;
  (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED,
                         "spatial dimension %d: the result has %lld elements more than the windows give, which is not less than the stride",
                         d, (long long)(output_padding - kept));
}

static void resolve_sizes(delta_lower_t *lower, const delta_shape_t *shape, delta_conv_attrs_t *attrs) {
  delta_window_t *window = &attrs->window;
  transpose_padding_t padding = {.output_padding = {0}};
  (void)spatial_list(lower, "output_padding", window->spatial, padding.output_padding);
  // Some exporters state the whole shape, with batch and channels.
  int64_t stated[DELTA_MAX_SPATIAL + 2];
  size_t count = delta_lower_ints(lower, "output_shape", stated, DELTA_MAX_SPATIAL + 2);
  size_t spatial = (size_t)window->spatial;
  padding.has_output_shape = count == spatial || count == spatial + 2;
  if (count != 0 && !padding.has_output_shape) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'output_shape' has %zu values; %zu are needed", count, spatial);
  }
  for (size_t k = 0; padding.has_output_shape && k < spatial; ++k) padding.output_shape[k] = stated[count - spatial + k];
  for (int32_t d = 0; d < window->spatial && delta_emit_ok(&lower->emit); ++d) {
    attrs->data_spatial[d] = resolve_dimension(lower, window, d, shape->dims[d + 2], &padding);
    trade_output_padding(lower, window, d, padding.output_padding[d]);
    if (attrs->data_spatial[d] >= 1 || !delta_emit_ok(&lower->emit)) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "spatial dimension %d of the result would be %lld", d,
                           (long long)attrs->data_spatial[d]);
  }
}

delta_status_t delta_lower_conv_transpose(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0), w = delta_lower_required(lower, 1), bias = delta_lower_input(lower, 2);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x), weight = *delta_emit_shape(&lower->emit, w);
  if (delta_emit_ok(&lower->emit) && weight.rank != shape.rank) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the weight has rank %d, the input %d; they must be equal", weight.rank,
                           shape.rank);
  }
  delta_conv_attrs_t attrs = {.group = delta_lower_int(lower, "group", 1)};
  if (!delta_lower_window_lists(lower, &shape, weight.dims + 2, &attrs.window)) return DELTA_OK;
  resolve_sizes(lower, &shape, &attrs);
  const delta_tensor_id_t inputs[3] = {x, w, bias};
  lower->outputs[0] = delta_emit_one(&lower->emit, DELTA_CORE_CONV_DATA, &attrs, sizeof attrs, inputs, delta_tensor_is_none(bias) ? 2 : 3);
  return DELTA_OK;
}
