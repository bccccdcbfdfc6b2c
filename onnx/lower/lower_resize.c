// Lowering of Resize and Upsample: scales, sizes and regions of all opsets become one description with a number for each dimension.
#include <math.h>

#include "onnx/lower/lower.h"

// Attributes that name a row of a table in core_ops.h.
#define ROW_NAME(id, name) name,
static const char *const mode_names[] = {DELTA_RESIZE_MODES(ROW_NAME)};
static const char *const coordinate_names[] = {DELTA_RESIZE_COORDINATES(ROW_NAME)};
static const char *const rounding_names[] = {DELTA_RESIZE_ROUNDINGS(ROW_NAME)};
#undef ROW_NAME
enum {
  MODE_COUNT = sizeof mode_names / sizeof mode_names[0],
  COORDINATE_COUNT = sizeof coordinate_names / sizeof coordinate_names[0],
  ROUNDING_COUNT = sizeof rounding_names / sizeof rounding_names[0],
};

// What the node says of the axes it names: count entries of each.
typedef struct resize_request {
  int32_t axes[DELTA_MAX_RANK];
  size_t count;
  bool has_scales, has_sizes;
  double scales[DELTA_MAX_RANK];
  int64_t sizes[DELTA_MAX_RANK];
} resize_request_t;

static size_t named(delta_lower_t *lower, const char *attribute, const char *fallback, const char *const *names, size_t count) {
  return delta_lower_choice(lower, attribute, delta_lower_string(lower, attribute, fallback), names, count);
}

// All dimensions, or those of the attribute `axes` in its order.
static void read_axes(delta_lower_t *lower, int32_t rank, resize_request_t *request) {
  int64_t stated[DELTA_MAX_RANK];
  uint32_t seen = 0;
  bool given = delta_lower_has(lower, "axes");
  request->count = given ? delta_lower_ints(lower, "axes", stated, DELTA_MAX_RANK) : (size_t)rank;
  for (size_t k = 0; k < request->count; ++k) {
    request->axes[k] = given ? delta_lower_axis(lower, "an axis", stated[k], rank) : (int32_t)k;
    if (seen >> request->axes[k] & 1u) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "axis %d is given twice", request->axes[k]);
    seen |= 1u << request->axes[k];
  }
}

static void check_count(delta_lower_t *lower, const char *what, size_t found, size_t wanted) {
  if (!delta_emit_ok(&lower->emit) || found == wanted) return;
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "has %zu %s; %zu are needed", found, what, wanted);
}

// An input that is left out or empty does not count. Before opset 11 only scales exist, as input 1; in Upsample 7 as an attribute.
static void read_scales(delta_lower_t *lower, uint32_t input, resize_request_t *request) {
  size_t count = 0;
  const delta_attribute_t *attribute = delta_model_node_attribute(lower->node, "scales");
  if (attribute != NULL && attribute->kind == DELTA_ATTRIBUTE_FLOATS && attribute->count <= DELTA_MAX_RANK) {
    count = attribute->count;
    for (size_t k = 0; k < count; ++k) request->scales[k] = (double)attribute->floats[k];
  } else if (!delta_tensor_is_none(delta_lower_input(lower, input))) {
    (void)delta_lower_known_reals(lower, input, request->scales, DELTA_MAX_RANK, &count);
  }
  request->has_scales = count > 0;
  if (request->has_scales) check_count(lower, "scales", count, request->count);
  for (size_t k = 0; k < count; ++k) {
    if (!(request->scales[k] > 0) || !isfinite(request->scales[k])) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "scale %zu is %g; it must be positive", k, request->scales[k]);
    }
  }
}

static void read_sizes(delta_lower_t *lower, uint32_t input, resize_request_t *request) {
  size_t count = 0;
  if (delta_tensor_is_none(delta_lower_input(lower, input))) return;
  if (!delta_lower_known_ints(lower, input, request->sizes, DELTA_MAX_RANK, &count)) return;
  request->has_sizes = count > 0;
  if (request->has_sizes) check_count(lower, "sizes", count, request->count);
  for (size_t k = 0; k < count; ++k) {
    if (request->sizes[k] < 0) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "size %zu is %lld", k, (long long)request->sizes[k]);
  }
}

static void read_region(delta_lower_t *lower, uint32_t input, const resize_request_t *request, delta_resize_attrs_t *attrs) {
  double values[2 * DELTA_MAX_RANK];
  size_t count = 0;
  for (int32_t d = 0; d < attrs->data_shape.rank; ++d) attrs->roi_end[d] = 1.0;
  if (attrs->coordinate != DELTA_RESIZE_TF_CROP_AND_RESIZE) return;
  if (!delta_lower_known_reals(lower, input, values, 2 * DELTA_MAX_RANK, &count)) return;
  check_count(lower, "numbers of a region", count, 2 * request->count);
  for (size_t k = 0; k < request->count && delta_emit_ok(&lower->emit); ++k) {
    attrs->roi_start[request->axes[k]] = values[k];
    attrs->roi_end[request->axes[k]] = values[request->count + k];
  }
}

// One scale for all axes, such that the result is within the sizes, or around them; the sizes then follow from it.
static void keep_aspect_ratio(delta_lower_t *lower, resize_request_t *request, const delta_shape_t *shape, bool not_larger) {
  double common = 0.0;
  for (size_t k = 0; k < request->count; ++k) {
    double scale = (double)request->sizes[k] / (double)shape->dims[request->axes[k]];
    if (k == 0 || (not_larger ? scale < common : scale > common)) common = scale;
  }
  for (size_t k = 0; k < request->count; ++k) {
    double size = floor(common * (double)shape->dims[request->axes[k]] + 0.5);
    if (!(size < 0x1p53)) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "dimension %d of %lld cannot be resized to keep the ratio of the others",
                             request->axes[k], (long long)shape->dims[request->axes[k]]);
      return;
    }
    request->scales[k] = common;
    request->sizes[k] = (int64_t)size;
  }
}

// Fills scales and out_shape.
static void resolve(delta_lower_t *lower, resize_request_t *request, delta_resize_attrs_t *attrs) {
  enum { STRETCH, NOT_LARGER, NOT_SMALLER, POLICY_COUNT };
  static const char *const policies[POLICY_COUNT] = {"stretch", "not_larger", "not_smaller"};
  size_t policy = named(lower, "keep_aspect_ratio_policy", "stretch", policies, POLICY_COUNT);
  const delta_shape_t *shape = &attrs->data_shape;
  if (request->has_sizes && policy != STRETCH) keep_aspect_ratio(lower, request, shape, policy == NOT_LARGER);
  for (size_t k = 0; k < request->count; ++k) {
    int32_t d = request->axes[k];
    double in = (double)shape->dims[d];
    double out = request->has_sizes ? (double)request->sizes[k] : floor(in * request->scales[k]);
    if (!(out < 0x1p53)) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "dimension %d would become %g", d, out);
      return;
    }
    attrs->out_shape.dims[d] = (int64_t)out;
    if (!request->has_sizes || policy != STRETCH) {
      attrs->scales[d] = request->scales[k];
    } else {
      attrs->scales[d] = in > 0 && out > 0 ? out / in : 1.0;
    }
  }
}

static bool changes(const delta_resize_attrs_t *attrs) {
  if (attrs->coordinate == DELTA_RESIZE_TF_CROP_AND_RESIZE || !delta_shape_equal(&attrs->data_shape, &attrs->out_shape)) return true;
  for (int32_t d = 0; d < attrs->data_shape.rank; ++d) {
    if (attrs->scales[d] != 1.0) return true;
  }
  return false;
}

// Emits the resize that `request` and the attributes describe; inputs are those of opset 11 and later.
static void emit_request(delta_lower_t *lower, resize_request_t *request, delta_resize_attrs_t *attrs) {
  delta_tensor_id_t x = lower->inputs[0];
  if (!delta_emit_ok(&lower->emit)) return;
  if (request->has_scales == request->has_sizes) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "has %s; exactly one of scales and sizes must be given",
                           request->has_scales ? "both scales and sizes" : "neither scales nor sizes");
    return;
  }
  attrs->out_shape = attrs->data_shape;
  for (int32_t d = 0; d < attrs->data_shape.rank; ++d) attrs->scales[d] = 1.0;
  resolve(lower, request, attrs);
  if (!delta_emit_ok(&lower->emit)) return;
  lower->outputs[0] = changes(attrs) ? delta_emit_one(&lower->emit, DELTA_CORE_RESIZE, attrs, sizeof *attrs, &x, 1) : x;
}

// Upsample, and Resize 10: scales alone, positions divided by them and cut.
static delta_status_t lower_by_scales(delta_lower_t *lower) {
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, delta_lower_required(lower, 0));
  const char *mode = delta_lower_string(lower, "mode", "nearest");
  delta_resize_attrs_t attrs = {.coordinate = DELTA_RESIZE_ASYMMETRIC, .rounding = DELTA_RESIZE_FLOOR, .data_shape = shape};
  attrs.mode = (delta_resize_mode_t)delta_lower_choice(lower, "mode", mode, mode_names, DELTA_RESIZE_CUBIC);
  resize_request_t request = {.count = 0};
  read_axes(lower, shape.rank, &request);
  for (int32_t d = 0; d < shape.rank; ++d) attrs.roi_end[d] = 1.0;
  read_scales(lower, 1, &request);
  emit_request(lower, &request, &attrs);
  return DELTA_OK;
}

delta_status_t delta_lower_upsample(delta_lower_t *lower) { return lower_by_scales(lower); }

delta_status_t delta_lower_resize(delta_lower_t *lower) {
  enum { INPUT_ROI = 1, INPUT_SCALES, INPUT_SIZES };
  if (lower->opset < 11) return lower_by_scales(lower);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, delta_lower_required(lower, 0));
  delta_resize_attrs_t attrs = {.data_shape = shape};
  attrs.mode = (delta_resize_mode_t)named(lower, "mode", "nearest", mode_names, MODE_COUNT);
  attrs.coordinate =
      (delta_resize_coordinate_t)named(lower, "coordinate_transformation_mode", "half_pixel", coordinate_names, COORDINATE_COUNT);
  attrs.rounding = (delta_resize_rounding_t)named(lower, "nearest_mode", "round_prefer_floor", rounding_names, ROUNDING_COUNT);
  attrs.cubic_coefficient = delta_lower_float(lower, "cubic_coeff_a", -0.75);
  attrs.exclude_outside = delta_lower_int(lower, "exclude_outside", 0) != 0;
  attrs.antialias = delta_lower_int(lower, "antialias", 0) != 0;
  attrs.extrapolation_value = delta_lower_float(lower, "extrapolation_value", 0.0);
  resize_request_t request = {.count = 0};
  read_axes(lower, shape.rank, &request);
  read_region(lower, INPUT_ROI, &request, &attrs);
  read_scales(lower, INPUT_SCALES, &request);
  read_sizes(lower, INPUT_SIZES, &request);
  emit_request(lower, &request, &attrs);
  return DELTA_OK;
}
