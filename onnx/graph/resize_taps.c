// Taps of RESIZE: coordinates, filters and their weights. Formulas: ONNX, operator Resize (19). Cubic: R. Keys, "Cubic convolution interpolation for
// digital image processing", 1981.
#include "onnx/graph/resize_taps.h"

#include <math.h>

void delta_resize_taps_deinit(delta_resize_taps_t *taps, delta_allocator_t allocator) {
  delta_release(allocator, taps->indices);
  delta_release(allocator, taps->weights);
  delta_release(allocator, taps->outside);
}

// Where output `i` lies on the input's axis.
static double source_coordinate(const delta_resize_attrs_t *attrs, int32_t d, int64_t i) {
  double in = (double)attrs->data_shape.dims[d], scale = attrs->scales[d], at = (double)i;
  double scaled_out = scale * in; // not rounded to the output's length
  double start = attrs->roi_start[d], extent = attrs->roi_end[d] - start;
  switch (attrs->coordinate) {
    case DELTA_RESIZE_ALIGN_CORNERS:
      return scaled_out == 1 ? 0 : at * (in - 1) / (scaled_out - 1);
    case DELTA_RESIZE_ASYMMETRIC:
      return at / scale;
    case DELTA_RESIZE_TF_CROP_AND_RESIZE:
      return start * (in - 1) + (scaled_out == 1 ? extent * (in - 1) / 2 : at * extent * (in - 1) / (scaled_out - 1));
    case DELTA_RESIZE_PYTORCH_HALF_PIXEL:
      return scaled_out == 1 ? -0.5 : (at + 0.5) / scale - 0.5;
    case DELTA_RESIZE_HALF_PIXEL_SYMMETRIC: {
      double adjustment = (double)attrs->out_shape.dims[d] / scaled_out;
      return in / 2 * (1 - adjustment) + (at + 0.5) / scale - 0.5;
    }
    case DELTA_RESIZE_TF_HALF_PIXEL_FOR_NN:
      return (at + 0.5) / scale;
    default:
      return (at + 0.5) / scale - 0.5;
  }
}

static double linear_weight(double distance) { return fabs(distance) < 1 ? 1 - fabs(distance) : 0; }

static double cubic_weight(double distance, double a) {
  double x = fabs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Of the two neighbours the one that counts; `fraction` in (0, 1] is the distance from the left one, 1 when the coordinate is whole.
static double nearest_weight(delta_resize_rounding_t rounding, double fraction, bool right) {
  bool take_right = fraction == 1;
  switch (rounding) {
    case DELTA_RESIZE_ROUND_PREFER_FLOOR:
      take_right |= fraction > 0.5;
      break;
    case DELTA_RESIZE_ROUND_PREFER_CEIL:
      take_right |= fraction >= 0.5;
      break;
    case DELTA_RESIZE_FLOOR:
      break;
    case DELTA_RESIZE_CEIL:
      take_right = true;
      break;
  }
  return right == take_right ? 1 : 0;
}

// How far the filter is stretched: when an image shrinks with antialiasing, over all inputs that fall into one output.
static double filter_scale(const delta_resize_attrs_t *attrs, int32_t d) {
  return attrs->antialias && attrs->mode != DELTA_RESIZE_NEAREST && attrs->scales[d] < 1 ? attrs->scales[d] : 1;
}

// The first tap relative to the left neighbour; the taps lie symmetrically about the pair of neighbours.
static int64_t first_tap(const delta_resize_attrs_t *attrs, int32_t d) {
  double reach = attrs->mode == DELTA_RESIZE_CUBIC ? 2 : 1;
  return (int64_t)floor(-reach / filter_scale(attrs, d)) + 1;
}

static double tap_weight(const delta_resize_attrs_t *attrs, int32_t d, double fraction, int64_t tap) {
  double distance = ((double)tap - fraction) * filter_scale(attrs, d);
  switch (attrs->mode) {
    case DELTA_RESIZE_LINEAR:
      return linear_weight(distance);
    case DELTA_RESIZE_CUBIC:
      return cubic_weight(distance, attrs->cubic_coefficient);
    default:
      return nearest_weight(attrs->rounding, fraction, tap == 1);
  }
}

static int64_t clamp_index(int64_t index, int64_t size) { return index < 0 ? 0 : index >= size ? size - 1 : index; }

// Fills the taps of output i.
static void set_taps(const delta_resize_attrs_t *attrs, int32_t d, delta_resize_taps_t *taps, int64_t i) {
  double coordinate = source_coordinate(attrs, d, i);
  if (attrs->coordinate == DELTA_RESIZE_TF_CROP_AND_RESIZE && (coordinate < 0 || coordinate > (double)(taps->in - 1))) {
    taps->outside[i] = true;
    return;
  }
  coordinate = fmax(-(double)taps->in - 1, fmin(coordinate, 2 * (double)taps->in + 1)); // beyond, all taps are at the edge anyway
  int64_t left = (int64_t)ceil(coordinate) - 1, first = first_tap(attrs, d);
  double fraction = coordinate - (double)left, sum = 0;
  bool excludes = attrs->exclude_outside && attrs->mode != DELTA_RESIZE_NEAREST; // a nearest one is always found
  int64_t *indices = taps->indices + i * taps->count;
  double *weights = taps->weights + i * taps->count;
  for (int64_t k = 0; k < taps->count; ++k) {
    int64_t index = left + first + k;
    bool excluded = excludes && (index < 0 || index >= taps->in);
    indices[k] = clamp_index(index, taps->in);
    weights[k] = excluded ? 0 : tap_weight(attrs, d, fraction, first + k);
    sum += weights[k];
  }
  if ((excludes || filter_scale(attrs, d) < 1) && sum != 0)
    for (int64_t k = 0; k < taps->count; ++k) weights[k] /= sum;
}

// Scales and sizes outside these would leave the integers that hold positions, or have no meaning.
static delta_status_t check_axis(const delta_node_t *node, int32_t d) {
  const delta_resize_attrs_t *attrs = node->attrs;
  const double least_scale = 1e-9;
  if (!(attrs->scales[d] >= least_scale && attrs->scales[d] <= 1 / least_scale))
    return delta_status_make(INVALID_ARGUMENT, "node '%s' (resize): scale %g of dimension %d is not between %g and %g", node->name,
                             attrs->scales[d], d, least_scale, 1 / least_scale);
  if (attrs->data_shape.dims[d] == 0 && attrs->out_shape.dims[d] > 0)
    return delta_status_make(INVALID_ARGUMENT, "node '%s' (resize): dimension %d has no elements to make %lld of", node->name, d,
                             (long long)attrs->out_shape.dims[d]);
  return DELTA_OK;
}

delta_status_t delta_resize_taps_init(const delta_node_t *node, int32_t d, delta_allocator_t allocator, delta_resize_taps_t *taps) {
  const delta_resize_attrs_t *attrs = node->attrs;
  DELTA_RETURN_IF_ERROR(check_axis(node, d));
  taps->in = attrs->data_shape.dims[d];
  taps->out = attrs->out_shape.dims[d];
  taps->count = 2 - 2 * first_tap(attrs, d);
  if (taps->in == 0 || taps->out == 0) return DELTA_OK;
  size_t total;
  if (!delta_size_mul((size_t)taps->out, (size_t)taps->count, &total))
    return delta_status_make(INVALID_ARGUMENT, "node '%s' (resize): dimension %d is too large", node->name, d);
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, total, &taps->indices));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, total, &taps->weights));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, (size_t)taps->out, &taps->outside));
  for (int64_t i = 0; i < taps->out; ++i) set_taps(attrs, d, taps, i);
  return DELTA_OK;
}

bool delta_resize_taps_change_nothing(const delta_resize_taps_t *taps) {
  if (taps->in != taps->out) return false;
  for (int64_t k = 0; k < taps->out * taps->count; ++k)
    if (taps->weights[k] != (taps->indices[k] == k / taps->count ? 1 : 0)) return false;
  return true;
}
