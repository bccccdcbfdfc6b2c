// Lowering of normalisations by the statistics of each sample: layer, RMS, instance and group normalisation, and their fused forms.
//
// Note [Statistics of a sample]
// Statistics are one small node (MOMENTS, or a mean of squares), 1 / sqrt(variance + epsilon) another; what is applied to the data is one pointwise step, so
// that a normalised tensor is cheap to make again. Half types take their statistics in float32.
#include "onnx/lower/formula.h"
#include "onnx/lower/lower.h"

// What a normalisation does; NONE where it has no scale or shift.
typedef struct sample_norm {
  delta_tensor_id_t x, scale, shift; // scale and shift broadcast to x
  uint32_t axes;
  bool centred; // by the mean and variance; else by the mean of squares alone
  double epsilon;
  delta_tensor_id_t mean, inverse_deviation; // results, with 1 at the axes; mean only when centred
} sample_norm_t;

static bool is_half(delta_dtype_t dtype) { return dtype == DELTA_DTYPE_FLOAT16 || dtype == DELTA_DTYPE_BFLOAT16; }

static delta_tensor_id_t inverse_deviation(delta_lower_t *lower, delta_tensor_id_t variance, double epsilon) {
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, &variance, 1);
  uint16_t raised = delta_formula_add(&f, delta_formula_input(&f, 0), delta_formula_real(&f, epsilon));
  uint16_t deviation = delta_formula_unary(&f, DELTA_EXPR_SQRT, raised);
  return delta_formula_emit(&f, delta_formula_unary(&f, DELTA_EXPR_RECIPROCAL, deviation), delta_emit_dtype(&lower->emit, variance));
}

static delta_tensor_id_t mean_of_squares(delta_lower_t *lower, delta_tensor_id_t x, uint32_t axes) {
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, &x, 1);
  uint16_t value = delta_formula_input(&f, 0);
  return delta_formula_reduce(&f, DELTA_REDUCE_MEAN, delta_formula_mul(&f, value, value), delta_emit_dtype(&lower->emit, x), axes);
}

// (x - mean) * inverse_deviation * scale + shift, as far as there are these.
static delta_tensor_id_t apply(delta_lower_t *lower, const sample_norm_t *norm, delta_dtype_t dtype) {
  const delta_tensor_id_t given[5] = {norm->x, norm->mean, norm->inverse_deviation, norm->scale, norm->shift};
  delta_tensor_id_t inputs[5];
  uint16_t position[5] = {0}, count = 0;
  for (int k = 0; k < 5; ++k) {
    position[k] = count;
    if (!delta_tensor_is_none(given[k])) inputs[count++] = given[k];
  }
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, count);
  uint16_t value = delta_formula_input(&f, position[0]);
  if (norm->centred) value = delta_formula_sub(&f, value, delta_formula_input(&f, position[1]));
  value = delta_formula_mul(&f, value, delta_formula_input(&f, position[2]));
  if (!delta_tensor_is_none(norm->scale)) value = delta_formula_mul(&f, value, delta_formula_input(&f, position[3]));
  if (!delta_tensor_is_none(norm->shift)) value = delta_formula_add(&f, value, delta_formula_input(&f, position[4]));
  return delta_formula_emit(&f, value, dtype);
}

static delta_tensor_id_t normalize(delta_lower_t *lower, sample_norm_t *norm, delta_dtype_t dtype) {
  norm->mean = norm->inverse_deviation = DELTA_TENSOR_NONE;
  if (!delta_emit_ok(&lower->emit)) return DELTA_TENSOR_NONE;
  delta_tensor_id_t wide = norm->x, variance = DELTA_TENSOR_NONE;
  if (is_half(delta_emit_dtype(&lower->emit, norm->x))) wide = delta_emit_cast(&lower->emit, norm->x, DELTA_DTYPE_FLOAT32);
  if (norm->centred) {
    delta_emit_moments(&lower->emit, wide, norm->axes, &norm->mean, &variance);
  } else {
    variance = mean_of_squares(lower, wide, norm->axes);
  }
  norm->inverse_deviation = inverse_deviation(lower, variance, norm->epsilon);
  return delta_emit_ok(&lower->emit) ? apply(lower, norm, dtype) : DELTA_TENSOR_NONE;
}

// The mask of the dimensions from the attribute `axis` on.
static uint32_t trailing_axes(delta_lower_t *lower, delta_tensor_id_t x) {
  int32_t rank = delta_emit_shape(&lower->emit, x)->rank;
  int32_t axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", -1), rank);
  return ((1u << rank) - 1u) & ~((1u << axis) - 1u);
}

// Mean and inverse deviation as outputs, in the type that stash_type names.
static void store_statistics(delta_lower_t *lower, const sample_norm_t *norm, uint32_t mean_output, uint32_t deviation_output) {
  delta_dtype_t dtype = DELTA_DTYPE_FLOAT32;
  int64_t stash_type = delta_lower_int(lower, "stash_type", 1);
  if (stash_type < 0 || stash_type > INT32_MAX || !delta_dtype_from_onnx((int32_t)stash_type, &dtype) || !delta_dtype_is_float(dtype)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "attribute 'stash_type' is %lld, which is no supported float type",
                           (long long)stash_type);
  }
  if (delta_lower_output_wanted(lower, mean_output) && norm->centred) {
    lower->outputs[mean_output] = delta_emit_cast(&lower->emit, norm->mean, dtype);
  }
  if (delta_lower_output_wanted(lower, deviation_output)) {
    lower->outputs[deviation_output] = delta_emit_cast(&lower->emit, norm->inverse_deviation, dtype);
  }
}

static void check_float(delta_lower_t *lower, delta_tensor_id_t x) {
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, x);
  if (!delta_emit_ok(&lower->emit) || delta_dtype_is_float(dtype)) return;
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input is %s; it must be of a float type", delta_dtype_name(dtype));
}

// Scale and shift must not make the data larger.
static void check_broadcast(delta_lower_t *lower, delta_tensor_id_t factor, delta_tensor_id_t x, const char *what) {
  if (!delta_emit_ok(&lower->emit) || delta_tensor_is_none(factor)) return;
  const delta_shape_t *from = delta_emit_shape(&lower->emit, factor), *to = delta_emit_shape(&lower->emit, x);
  delta_shape_t joined;
  if (delta_shape_broadcast(from, to, &joined) && delta_shape_equal(&joined, to)) return;
  char from_text[DELTA_SHAPE_TEXT_BYTES], to_text[DELTA_SHAPE_TEXT_BYTES];
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "a %s of shape %s does not broadcast to the input's %s", what,
                         delta_shape_text(from, from_text), delta_shape_text(to, to_text));
}

static delta_status_t lower_trailing(delta_lower_t *lower, sample_norm_t *norm, delta_dtype_t dtype) {
  norm->axes = trailing_axes(lower, norm->x);
  check_float(lower, norm->x);
  check_broadcast(lower, norm->scale, norm->x, "scale");
  check_broadcast(lower, norm->shift, norm->x, "shift");
  lower->outputs[0] = normalize(lower, norm, dtype);
  return DELTA_OK;
}

delta_status_t delta_lower_layer_normalization(delta_lower_t *lower) {
  sample_norm_t norm = {.x = delta_lower_required(lower, 0),
                        .scale = delta_lower_required(lower, 1),
                        .shift = delta_lower_input(lower, 2),
                        .centred = true,
                        .epsilon = delta_lower_float(lower, "epsilon", 1e-5)};
  delta_status_t status = lower_trailing(lower, &norm, delta_emit_dtype(&lower->emit, norm.x));
  store_statistics(lower, &norm, 1, 2);
  return status;
}

// RMSNormalization, and SimplifiedLayerNormalization, which also gives the inverse deviation. The result has the scale's type.
delta_status_t delta_lower_rms_normalization(delta_lower_t *lower) {
  sample_norm_t norm = {.x = delta_lower_required(lower, 0),
                        .scale = delta_lower_required(lower, 1),
                        .shift = DELTA_TENSOR_NONE,
                        .epsilon = delta_lower_float(lower, "epsilon", 1e-5)};
  delta_status_t status = lower_trailing(lower, &norm, delta_emit_dtype(&lower->emit, norm.scale));
  store_statistics(lower, &norm, UINT32_MAX, 1);
  return status;
}

// The sum of the data, a residual and a bias is normalised; it is output 3.
static delta_status_t lower_skip(delta_lower_t *lower, bool centred, uint32_t bias_input) {
  delta_tensor_id_t sum = delta_emit_binary(&lower->emit, DELTA_EXPR_ADD, delta_lower_required(lower, 0), delta_lower_required(lower, 1));
  delta_tensor_id_t bias = delta_lower_input(lower, bias_input);
  if (!delta_tensor_is_none(bias)) sum = delta_emit_binary(&lower->emit, DELTA_EXPR_ADD, sum, bias);
  sample_norm_t norm = {.x = sum,
                        .scale = delta_lower_required(lower, 2),
                        .shift = centred ? delta_lower_input(lower, 3) : DELTA_TENSOR_NONE,
                        .centred = centred,
                        .epsilon = delta_lower_float(lower, "epsilon", 1e-12)};
  delta_status_t status = lower_trailing(lower, &norm, delta_emit_dtype(&lower->emit, sum));
  store_statistics(lower, &norm, 1, 2);
  if (delta_lower_output_wanted(lower, 3)) lower->outputs[3] = sum;
  return status;
}

delta_status_t delta_lower_skip_layer_normalization(delta_lower_t *lower) { return lower_skip(lower, true, 4); }
delta_status_t delta_lower_skip_simplified_layer_normalization(delta_lower_t *lower) { return lower_skip(lower, false, 3); }

// A vector of one number per channel, or per group, as [1, groups, channels of a group or 1, 1].
static delta_tensor_id_t per_group(delta_lower_t *lower, uint32_t input, int64_t groups, int64_t channels, bool by_channel) {
  delta_tensor_id_t vector = delta_lower_required(lower, input);
  const delta_shape_t wanted = {.rank = 1, .dims = {by_channel ? channels : groups}};
  const delta_shape_t *found = delta_emit_shape(&lower->emit, vector);
  if (!delta_emit_ok(&lower->emit)) return DELTA_TENSOR_NONE;
  if (!delta_shape_equal(found, &wanted)) {
    char text[DELTA_SHAPE_TEXT_BYTES];
    return delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u has shape %s; it must hold %lld numbers", input,
                            delta_shape_text(found, text), (long long)wanted.dims[0]);
  }
  return delta_emit_view(&lower->emit, vector, &(delta_shape_t){.rank = 4, .dims = {1, groups, by_channel ? channels / groups : 1, 1}});
}

// Channels in groups, normalised over the channels of a group and all that follows.
static delta_status_t lower_groups(delta_lower_t *lower, int64_t groups, bool by_channel) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  check_float(lower, x);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  int64_t channels = shape.dims[1];
  if (groups < 1 || channels % groups != 0) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "%lld groups; the number must divide the %lld channels", (long long)groups,
                           (long long)channels);
    return DELTA_OK;
  }
  const delta_shape_t grouped = {.rank = 4,
                                 .dims = {shape.dims[0], groups, channels / groups, delta_shape_count_range(&shape, 2, shape.rank)}};
  sample_norm_t norm = {.axes = 12u, .centred = true, .epsilon = delta_lower_float(lower, "epsilon", 1e-5)};
  norm.x = delta_emit_view(&lower->emit, x, &grouped);
  norm.scale = per_group(lower, 1, groups, channels, by_channel);
  norm.shift = per_group(lower, 2, groups, channels, by_channel);
  delta_tensor_id_t y = normalize(lower, &norm, delta_emit_dtype(&lower->emit, x));
  lower->outputs[0] = delta_emit_view(&lower->emit, y, &shape);
  return DELTA_OK;
}

static bool has_channels(delta_lower_t *lower) {
  int32_t rank = delta_emit_shape(&lower->emit, delta_lower_required(lower, 0))->rank;
  if (delta_emit_ok(&lower->emit) && rank < 3) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input has rank %d; batch, channels and more are required", rank);
  }
  return delta_emit_ok(&lower->emit);
}

delta_status_t delta_lower_instance_normalization(delta_lower_t *lower) {
  if (!has_channels(lower)) return DELTA_OK;
  int64_t channels = delta_emit_shape(&lower->emit, lower->inputs[0])->dims[1];
  return channels > 0 ? lower_groups(lower, channels, true) : delta_status_make(MALFORMED, "the input has no channels");
}

// Scale and shift: one for each group before opset 21, one for each channel since.
delta_status_t delta_lower_group_normalization(delta_lower_t *lower) {
  if (!has_channels(lower)) return DELTA_OK;
  return lower_groups(lower, delta_lower_int(lower, "num_groups", 0), lower->opset >= 21);
}

// (x - mean) / (deviation + 1e-9)
delta_status_t delta_lower_mean_variance_normalization(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0), mean, variance;
  int32_t rank = delta_emit_shape(&lower->emit, x)->rank;
  check_float(lower, x);
  uint32_t axes = 0xDu & ((1u << rank) - 1u);
  if (delta_lower_has(lower, "axes")) (void)delta_lower_axes(lower, 1, rank, &axes);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  delta_emit_moments(&lower->emit, x, axes, &mean, &variance);
  const delta_tensor_id_t inputs[3] = {x, mean, variance};
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, 3);
  uint16_t centred = delta_formula_sub(&f, delta_formula_input(&f, 0), delta_formula_input(&f, 1));
  uint16_t deviation = delta_formula_unary(&f, DELTA_EXPR_SQRT, delta_formula_input(&f, 2));
  uint16_t y = delta_formula_div(&f, centred, delta_formula_add(&f, deviation, delta_formula_real(&f, 1e-9)));
  lower->outputs[0] = delta_formula_emit(&f, y, delta_emit_dtype(&lower->emit, x));
  return DELTA_OK;
}
