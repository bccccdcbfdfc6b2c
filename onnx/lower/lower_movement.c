// Lowering of operators that move data without computing.
#include <assert.h>
#include <string.h>

#include "onnx/lower/lower.h"

delta_status_t delta_lower_transpose(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  int32_t rank = delta_emit_shape(&lower->emit, x)->rank;
  int64_t stated[DELTA_MAX_RANK];
  size_t count = delta_lower_ints(lower, "perm", stated, DELTA_MAX_RANK);
  bool given = delta_lower_has(lower, "perm");
  if (given && count != (size_t)rank) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'perm' has %zu values; the input's rank is %d", count, rank);
    return DELTA_OK;
  }
  int32_t permutation[DELTA_MAX_RANK] = {0};
  uint32_t seen = 0;
  for (int32_t d = 0; d < rank; ++d) {
    int64_t from = given ? stated[d] : rank - 1 - d;
    if (from < 0 || from >= rank || (seen >> from & 1u)) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'perm' is no permutation: %lld at position %d", (long long)from, d);
      return DELTA_OK;
    }
    seen |= 1u << from;
    permutation[d] = (int32_t)from;
  }
  lower->outputs[0] = delta_emit_transpose(&lower->emit, x, permutation);
  return DELTA_OK;
}

delta_status_t delta_lower_concat(delta_lower_t *lower) {
  if (!delta_lower_has(lower, "axis")) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'axis' is required and left out");
  int32_t rank = delta_emit_shape(&lower->emit, delta_lower_required(lower, 0))->rank;
  int32_t axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", 0), rank);
  if (!delta_lower_same_types(lower, 0)) return DELTA_OK;
  lower->outputs[0] = delta_emit_concat(&lower->emit, lower->inputs, lower->input_count, axis);
  return DELTA_OK;
}

// A list that newer opsets take as an input and older ones as an attribute. Returns its length, 0 when left out.
static size_t list_of(delta_lower_t *lower, uint32_t input, const char *attribute, int64_t *values, size_t capacity) {
  size_t count = 0;
  if (delta_tensor_is_none(delta_lower_input(lower, input))) return delta_lower_ints(lower, attribute, values, capacity);
  (void)delta_lower_known_ints(lower, input, values, capacity, &count);
  return count;
}

// Parts of equal size; the last one may be smaller where the opset allows it (num_outputs).
static void split_evenly(delta_lower_t *lower, int64_t size, int64_t *parts, uint32_t count) {
  int64_t stated = delta_lower_int(lower, "num_outputs", count);
  int64_t part = (size + count - 1) / count;
  if (stated != (int64_t)count) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'num_outputs' is %lld; the node has %u outputs", (long long)stated,
                           count);
  } else if (size % count != 0 && (lower->opset < 18 || part * (count - 1) > size)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "a dimension of %lld cannot be split into %u equal parts", (long long)size,
                           count);
  }
  for (uint32_t k = 0; k + 1 < count; ++k) parts[k] = part;
  parts[count - 1] = size - part * (count - 1);
}

static void check_parts(delta_lower_t *lower, int64_t size, const int64_t *parts, size_t count) {
  if (count != lower->output_count) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "split has %zu sizes; the node has %u outputs", count, lower->output_count);
    return;
  }
  int64_t sum = 0;
  bool valid = true;
  for (size_t k = 0; k < count; ++k) valid = valid && parts[k] >= 0 && delta_int64_add(sum, parts[k], &sum);
  if (!valid || sum != size) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the sizes of split must not be negative and sum to %lld, the size of the axis",
                           (long long)size);
  }
}

delta_status_t delta_lower_split(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  int32_t axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", 0), shape.rank);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  int64_t *parts = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&lower->emit.graph->region, lower->output_count, &parts));
  if (delta_tensor_is_none(delta_lower_input(lower, 1)) && !delta_lower_has(lower, "split")) {
    split_evenly(lower, shape.dims[axis], parts, lower->output_count);
  } else {
    size_t count = list_of(lower, 1, "split", parts, lower->output_count);
    if (delta_emit_ok(&lower->emit)) check_parts(lower, shape.dims[axis], parts, count);
  }
  delta_emit_split(&lower->emit, x, axis, parts, lower->output_count, lower->outputs);
  return DELTA_OK;
}

// Slice's parameters, one entry for each dimension it names.
typedef struct slice_range {
  int64_t starts[DELTA_MAX_RANK], ends[DELTA_MAX_RANK], axes[DELTA_MAX_RANK], steps[DELTA_MAX_RANK];
  size_t count;
} slice_range_t;

static bool read_slice(delta_lower_t *lower, slice_range_t *range) {
  if (delta_tensor_is_none(delta_lower_input(lower, 1)) && !delta_lower_has(lower, "starts")) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "starts are required and left out");
  }
  range->count = list_of(lower, 1, "starts", range->starts, DELTA_MAX_RANK);
  size_t ends = list_of(lower, 2, "ends", range->ends, DELTA_MAX_RANK);
  size_t axes = list_of(lower, 3, "axes", range->axes, DELTA_MAX_RANK);
  size_t steps = list_of(lower, 4, "steps", range->steps, DELTA_MAX_RANK);
  if (ends != range->count || (axes != 0 && axes != range->count) || (steps != 0 && steps != range->count)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "has %zu starts, %zu ends, %zu axes and %zu steps; the counts must agree",
                           range->count, ends, axes, steps);
  }
  for (size_t k = 0; k < range->count; ++k) {
    if (axes == 0) range->axes[k] = (int64_t)k;
    if (steps == 0) range->steps[k] = 1;
  }
  return delta_emit_ok(&lower->emit);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) { return value < low ? low : value > high ? high : value; }

// Number of indices start, start + step, ... before end; the step is not 0. Magnitudes in uint64: -INT64_MIN does not exist.
static int64_t slice_count(int64_t start, int64_t end, int64_t step) {
  assert(step != 0);
  if (step > 0) return start >= end ? 0 : (end - start - 1) / step + 1;
  return start <= end ? 0 : (int64_t)((uint64_t)(start - end - 1) / (0 - (uint64_t)step) + 1);
}

delta_status_t delta_lower_slice(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  slice_range_t range = {.count = 0};
  if (!read_slice(lower, &range)) return DELTA_OK;
  delta_slice_attrs_t attrs = {.shape = *delta_emit_shape(&lower->emit, x), .data_shape = *delta_emit_shape(&lower->emit, x)};
  for (int32_t d = 0; d < attrs.shape.rank; ++d) attrs.steps[d] = 1;
  uint32_t seen = 0;
  bool whole = true;
  for (size_t k = 0; k < range.count; ++k) {
    int32_t axis = delta_lower_axis(lower, "an axis", range.axes[k], attrs.shape.rank);
    int64_t size = attrs.data_shape.dims[axis];
    int64_t step = range.steps[k];
    if (step == 0) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the step of axis %d is 0", axis);
    if (seen >> axis & 1u) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "axis %d is given twice", axis);
    if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
    seen |= 1u << axis;
    int64_t start = range.starts[k] < 0 ? range.starts[k] + size : range.starts[k];
    int64_t end = range.ends[k] < 0 ? range.ends[k] + size : range.ends[k];
    start = step > 0 ? clamp(start, 0, size) : clamp(start, -1, size - 1);
    end = step > 0 ? clamp(end, 0, size) : clamp(end, -1, size - 1);
    int64_t count = slice_count(start, end, step);
    attrs.shape.dims[axis] = count;
    attrs.starts[axis] = count > 0 ? start : 0;
    attrs.steps[axis] = count > 1 ? step : 1; // a step that is never taken may be any number
    whole = whole && count == size && (count < 2 || step == 1);
  }
  lower->outputs[0] = whole ? x : DELTA_EMIT(&lower->emit, SLICE, attrs, x);
  return DELTA_OK;
}

// The constant that Pad fills with: an input since opset 11, an attribute before.
static double pad_value(delta_lower_t *lower, delta_dtype_t dtype) {
  double value = 0.0;
  size_t count = 0;
  delta_tensor_id_t id = delta_lower_input(lower, 2);
  if (delta_tensor_is_none(id)) return delta_lower_float(lower, "value", 0.0);
  if (delta_emit_dtype(&lower->emit, id) != dtype) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the value to pad with is %s, the data is %s",
                           delta_dtype_name(delta_emit_dtype(&lower->emit, id)), delta_dtype_name(dtype));
  } else if (delta_lower_known_reals(lower, 2, &value, 1, &count) && count == 1 && dtype == DELTA_DTYPE_INT64 &&
             (value > 0x1p53 || value < -0x1p53)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "integers beyond 2^53 cannot be padded with");
  }
  return value;
}

// The axes that pads are given for: an input since opset 18; all without it. Returns their number.
static size_t pad_axes(delta_lower_t *lower, int32_t rank, int64_t axes[DELTA_MAX_RANK]) {
  size_t count = 0;
  if (!delta_tensor_is_none(delta_lower_input(lower, 3))) {
    (void)delta_lower_known_ints(lower, 3, axes, DELTA_MAX_RANK, &count);
    return count;
  }
  for (int32_t d = 0; d < rank; ++d) axes[d] = d;
  return (size_t)rank;
}

static void set_pad(delta_lower_t *lower, delta_pad_attrs_t *attrs, int32_t axis, int64_t begin, int64_t end) {
  int64_t size = attrs->data_shape.dims[axis];
  if (!delta_int64_add(size, begin, &size) || !delta_int64_add(size, end, &size) || size < 0) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "pads of %lld and %lld leave no valid size for dimension %d, which is %lld",
                           (long long)begin, (long long)end, axis, (long long)attrs->data_shape.dims[axis]);
  }
  attrs->begin[axis] = begin;
  attrs->end[axis] = end;
}

delta_status_t delta_lower_pad(delta_lower_t *lower) {
  static const char *const modes[] = {
#define PAD_MODE_NAME(id, name) name,
      DELTA_PAD_MODES(PAD_MODE_NAME)
#undef PAD_MODE_NAME
  };
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  delta_pad_attrs_t attrs = {.data_shape = *delta_emit_shape(&lower->emit, x)};
  attrs.mode = (delta_pad_mode_t)delta_lower_choice(lower, "mode", delta_lower_string(lower, "mode", "constant"), modes,
                                                    sizeof modes / sizeof modes[0]);
  attrs.value = pad_value(lower, delta_emit_dtype(&lower->emit, x));
  int64_t axes[DELTA_MAX_RANK], pads[2 * DELTA_MAX_RANK];
  size_t axis_count = pad_axes(lower, attrs.data_shape.rank, axes);
  size_t pad_count = list_of(lower, 1, "pads", pads, 2 * DELTA_MAX_RANK);
  if (pad_count != 2 * axis_count) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "has %zu pads; %zu are needed for %zu axes", pad_count, 2 * axis_count,
                           axis_count);
  }
  bool moves = false;
  uint32_t seen = 0;
  for (size_t k = 0; k < axis_count && delta_emit_ok(&lower->emit); ++k) {
    int32_t axis = delta_lower_axis(lower, "an axis", axes[k], attrs.data_shape.rank);
    if (seen >> axis & 1u) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "axis %d is given twice", axis);
    seen |= 1u << axis;
    set_pad(lower, &attrs, axis, pads[k], pads[axis_count + k]);
    moves = moves || pads[k] != 0 || pads[axis_count + k] != 0;
  }
  lower->outputs[0] = moves ? DELTA_EMIT(&lower->emit, PAD, attrs, x) : x;
  return DELTA_OK;
}

delta_status_t delta_lower_gather(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  delta_tensor_id_t indices = delta_lower_required(lower, 1);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  delta_gather_attrs_t attrs = {.axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", 0), shape.rank)};
  if (delta_emit_ok(&lower->emit)) delta_lower_check_indices(lower, 1, shape.dims[attrs.axis]);
  lower->outputs[0] = DELTA_EMIT(&lower->emit, GATHER, attrs, x, indices);
  return DELTA_OK;
}

// Tile as a broadcast: every repeated dimension d becomes [1, d], is expanded to [repeats, d] and merged again. Dimensions between
// repeated ones are merged, so that the rank stays small.
delta_status_t delta_lower_tile(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  int64_t repeats[DELTA_MAX_RANK];
  size_t count = 0;
  if (!delta_lower_known_ints(lower, 1, repeats, DELTA_MAX_RANK, &count)) return DELTA_OK;
  if (count != (size_t)shape.rank) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "has %zu repeats; the input's rank is %d", count, shape.rank);
    return DELTA_OK;
  }
  int64_t apart[2 * DELTA_MAX_RANK + 1] = {1}, tiled[2 * DELTA_MAX_RANK + 1] = {1};
  int32_t rank = 1;
  delta_shape_t result = shape;
  for (int32_t d = 0; d < shape.rank; ++d) {
    if (repeats[d] < 0 || !delta_int64_mul(result.dims[d], repeats[d], &result.dims[d])) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "repeats dimension %d %lld times", d, (long long)repeats[d]);
      return DELTA_OK;
    }
    if (repeats[d] != 1) {
      if (apart[rank - 1] == 1 && tiled[rank - 1] == 1) rank -= 1;
      apart[rank] = 1;
      tiled[rank++] = repeats[d];
      apart[rank] = tiled[rank] = 1;
      rank += 1;
    }
    apart[rank - 1] *= shape.dims[d];
    tiled[rank - 1] = apart[rank - 1];
  }
  if (rank > DELTA_MAX_RANK) {
    return delta_status_make(UNSUPPORTED, "repeats more dimensions than fit rank %d", DELTA_MAX_RANK);
  }
  delta_shape_t apart_shape = {.rank = rank}, tiled_shape = {.rank = rank};
  memcpy(apart_shape.dims, apart, (size_t)rank * sizeof apart[0]);
  memcpy(tiled_shape.dims, tiled, (size_t)rank * sizeof tiled[0]);
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&result, delta_dtype_bytes(delta_emit_dtype(&lower->emit, x)), "the result"));
  delta_tensor_id_t y = delta_emit_expand(&lower->emit, delta_emit_view(&lower->emit, x, &apart_shape), &tiled_shape);
  lower->outputs[0] = delta_emit_view(&lower->emit, y, &result);
  return DELTA_OK;
}
