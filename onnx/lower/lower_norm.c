// Lowering of batch normalization: statistics of the batch or running ones, then one pointwise step with a scale and a shift per channel.
//
// Note [Batch statistics by opset]
// Whether a node uses the statistics of the batch is stated by the file in two ways: since opset 14 by the attribute training_mode,
// before by the number of outputs that are wired (one: running statistics). Running statistics are recognised by meaning: output 1 is
// the next value of input 3, output 2 of input 4. ONNX stores the population variance; batchnorm_unbiased asks for PyTorch's, divided
// by n - 1.
#include "onnx/lower/lower.h"

enum { INPUT_X, INPUT_SCALE, INPUT_SHIFT, INPUT_MEAN, INPUT_VARIANCE };
enum { OUTPUT_Y, OUTPUT_RUNNING_MEAN, OUTPUT_RUNNING_VARIANCE, OUTPUT_SAVED_MEAN, OUTPUT_SAVED_VARIANCE };

static bool exported_for_training(delta_lower_t *lower) {
  if (lower->opset >= 14 || delta_lower_has(lower, "training_mode")) return delta_lower_int(lower, "training_mode", 0) != 0;
  for (uint32_t k = 1; k < lower->output_count; ++k) {
    if (!delta_value_is_none(lower->node->outputs[k])) return true;
  }
  return false;
}

static bool uses_batch_statistics(delta_lower_t *lower) {
  bool exported = exported_for_training(lower);
  if (lower->options->as_exported) return exported;
  if (!lower->training || lower->options->batchnorm == DELTA_BATCHNORM_FREEZE) return false;
  return exported || lower->options->batchnorm == DELTA_BATCHNORM_TRAIN;
}

static void check_form(delta_lower_t *lower, const delta_shape_t *shape) {
  if (lower->opset < 9 && delta_lower_int(lower, "spatial", 1) == 0) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "attribute 'spatial' is 0; only statistics per channel are supported");
  }
  if (lower->opset >= 14 && lower->output_count > 3) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "has %u outputs; since opset 14 there are at most 3", lower->output_count);
  }
  if (shape->rank < 2)
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input has rank %d; batch and channels are required", shape->rank);
  for (uint32_t k = INPUT_X; k <= INPUT_VARIANCE && delta_emit_ok(&lower->emit); ++k) {
    delta_dtype_t dtype = delta_emit_dtype(&lower->emit, delta_lower_required(lower, k));
    if (!delta_emit_ok(&lower->emit) || delta_dtype_is_float(dtype)) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u is %s; it must be of a float type", k, delta_dtype_name(dtype));
  }
  const delta_shape_t channels = {.rank = 1, .dims = {shape->rank >= 2 ? shape->dims[1] : 0}};
  for (uint32_t k = INPUT_SCALE; k <= INPUT_VARIANCE && delta_emit_ok(&lower->emit); ++k) {
    const delta_shape_t *found = delta_emit_shape(&lower->emit, delta_lower_required(lower, k));
    char text[DELTA_SHAPE_TEXT_BYTES];
    if (!delta_emit_ok(&lower->emit) || delta_shape_equal(found, &channels)) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u has shape %s; the input has %lld channels", k,
                           delta_shape_text(found, text), (long long)channels.dims[0]);
  }
}

// A vector per channel as [c, 1, ...], to broadcast over the data.
static delta_tensor_id_t per_channel(delta_lower_t *lower, delta_tensor_id_t vector, int32_t rank) {
  delta_shape_t shape = {.rank = rank - 1};
  for (int32_t d = 0; d < rank - 1; ++d) shape.dims[d] = 1;
  shape.dims[0] = delta_shape_count(delta_emit_shape(&lower->emit, vector));
  return delta_emit_view(&lower->emit, vector, &shape);
}

// scale / sqrt(variance + epsilon), once per channel.
static delta_tensor_id_t channel_factor(delta_lower_t *lower, delta_tensor_id_t scale, delta_tensor_id_t variance, double epsilon) {
  const delta_tensor_id_t inputs[2] = {scale, variance};
  const delta_dtype_t types[2] = {delta_emit_dtype(&lower->emit, scale), delta_emit_dtype(&lower->emit, variance)};
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(types, 2));
  uint16_t a = delta_expr_input(&builder, 0), b = delta_expr_input(&builder, 1);
  uint16_t deviation =
      delta_expr_unary(&builder, DELTA_EXPR_SQRT, delta_expr_binary(&builder, DELTA_EXPR_ADD, b, delta_expr_real(&builder, epsilon)));
  delta_expr_output(&builder, delta_expr_binary(&builder, DELTA_EXPR_DIV, a, deviation));
  // Half types keep the factor in the statistics' type, which may be wider.
  return delta_emit_expr(&lower->emit, &builder, types[1], inputs, 2);
}

// x * factor + (shift - mean * factor): the order of PyTorch, whose rounding decides which side of a ReLU's kink a value near it falls on.
static delta_tensor_id_t apply(delta_lower_t *lower, delta_tensor_id_t x, delta_tensor_id_t mean, delta_tensor_id_t factor,
                               delta_tensor_id_t shift) {
  const delta_tensor_id_t inputs[4] = {x, mean, factor, shift};
  delta_dtype_t types[4];
  for (int k = 0; k < 4; ++k) types[k] = delta_emit_dtype(&lower->emit, inputs[k]);
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(types, 4));
  uint16_t scale = delta_expr_input(&builder, 2);
  uint16_t scaled = delta_expr_binary(&builder, DELTA_EXPR_MUL, delta_expr_input(&builder, 0), scale);
  uint16_t centre = delta_expr_binary(&builder, DELTA_EXPR_MUL, delta_expr_input(&builder, 1), scale);
  uint16_t offset = delta_expr_binary(&builder, DELTA_EXPR_SUB, delta_expr_input(&builder, 3), centre);
  delta_expr_output(&builder, delta_expr_binary(&builder, DELTA_EXPR_ADD, scaled, offset));
  return delta_emit_expr(&lower->emit, &builder, types[0], inputs, 4);
}

static delta_tensor_id_t emit_blend(delta_lower_t *lower, delta_tensor_id_t running, delta_tensor_id_t batch, double momentum,
                                    double batch_factor) {
  const delta_tensor_id_t inputs[2] = {running, batch};
  const delta_dtype_t types[2] = {delta_emit_dtype(&lower->emit, running), delta_emit_dtype(&lower->emit, batch)};
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(types, 2));
  uint16_t kept = delta_expr_binary(&builder, DELTA_EXPR_MUL, delta_expr_input(&builder, 0), delta_expr_real(&builder, momentum));
  uint16_t added = delta_expr_binary(&builder, DELTA_EXPR_MUL, delta_expr_input(&builder, 1), delta_expr_real(&builder, batch_factor));
  delta_expr_output(&builder, delta_expr_binary(&builder, DELTA_EXPR_ADD, kept, added));
  return delta_emit_expr(&lower->emit, &builder, types[0], inputs, 2);
}

static bool is_state(const delta_lower_t *lower, uint32_t input) {
  return delta_emit_tensor(&lower->emit, delta_lower_input(lower, input))->role == DELTA_ROLE_STATE;
}

// running * momentum + batch * (1 - momentum): bound to the initializer that keeps it, and as an output where the file uses it. The two
// are made apart: what a state becomes is read by nobody else.
static void update_statistic(delta_lower_t *lower, uint32_t input, uint32_t output, delta_tensor_id_t batch, double correction) {
  double momentum = delta_lower_float(lower, "momentum", 0.9);
  delta_tensor_id_t running = delta_lower_required(lower, input);
  delta_tensor_id_t vector = delta_emit_view(&lower->emit, batch, delta_emit_shape(&lower->emit, running));
  double factor = (1.0 - momentum) * correction;
  if (delta_lower_output_wanted(lower, output)) lower->outputs[output] = emit_blend(lower, running, vector, momentum, factor);
  if (lower->options->as_exported && !is_state(lower, input)) return;
  lower->emit.phase = DELTA_PHASE_UPDATE;
  delta_tensor_id_t next = emit_blend(lower, running, vector, momentum, factor);
  lower->emit.phase = DELTA_PHASE_FORWARD;
  delta_lower_bind_statistic(lower, input, next);
}

// Factor from the population variance to the one that is stored.
static double variance_correction(delta_lower_t *lower, const delta_shape_t *shape) {
  if (!lower->options->batchnorm_unbiased) return 1.0;
  double count = (double)shape->dims[0] * (double)delta_shape_count_range(shape, 2, shape->rank);
  if (count > 1.0) return count / (count - 1.0);
  (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED,
                         "the unbiased variance of one value per channel is not defined; use a larger batch");
  return 1.0;
}

static void lower_with_batch(delta_lower_t *lower, delta_tensor_id_t x, const delta_shape_t *shape, delta_tensor_id_t *out_mean,
                             delta_tensor_id_t *out_variance) {
  uint32_t axes = ((1u << shape->rank) - 1u) & ~2u;
  delta_emit_moments(&lower->emit, x, axes, out_mean, out_variance);
  update_statistic(lower, INPUT_MEAN, OUTPUT_RUNNING_MEAN, *out_mean, 1.0);
  update_statistic(lower, INPUT_VARIANCE, OUTPUT_RUNNING_VARIANCE, *out_variance, variance_correction(lower, shape));
  const delta_shape_t channels = {.rank = 1, .dims = {shape->dims[1]}};
  if (delta_lower_output_wanted(lower, OUTPUT_SAVED_MEAN))
    lower->outputs[OUTPUT_SAVED_MEAN] = delta_emit_view(&lower->emit, *out_mean, &channels);
  if (delta_lower_output_wanted(lower, OUTPUT_SAVED_VARIANCE)) {
    lower->outputs[OUTPUT_SAVED_VARIANCE] = delta_emit_view(&lower->emit, *out_variance, &channels);
  }
}

static void lower_with_running(delta_lower_t *lower, delta_tensor_id_t *out_mean, delta_tensor_id_t *out_variance) {
  *out_mean = lower->inputs[INPUT_MEAN];
  *out_variance = lower->inputs[INPUT_VARIANCE];
  for (uint32_t k = OUTPUT_RUNNING_MEAN; k < lower->output_count; ++k) {
    lower->outputs[k] = lower->inputs[k == OUTPUT_RUNNING_MEAN || k == OUTPUT_SAVED_MEAN ? INPUT_MEAN : INPUT_VARIANCE];
  }
}

delta_status_t delta_lower_batch_normalization(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, INPUT_X);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  double epsilon = delta_lower_float(lower, "epsilon", 1e-5);
  bool batch = uses_batch_statistics(lower);
  if (delta_emit_ok(&lower->emit)) check_form(lower, &shape);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  for (uint32_t k = INPUT_MEAN; k <= INPUT_VARIANCE; ++k) {
    if (is_state(lower, k))
      lower->emit.graph->states.items[delta_emit_tensor(&lower->emit, lower->inputs[k])->state].kind = DELTA_STATE_STATISTIC;
  }
  delta_tensor_id_t mean, variance;
  if (batch) {
    lower->facts->batchnorm_training += 1;
    lower_with_batch(lower, x, &shape, &mean, &variance);
  } else {
    lower->facts->batchnorm_inference += 1;
    lower_with_running(lower, &mean, &variance);
  }
  mean = per_channel(lower, mean, shape.rank);
  variance = per_channel(lower, variance, shape.rank);
  delta_tensor_id_t factor = channel_factor(lower, per_channel(lower, lower->inputs[INPUT_SCALE], shape.rank), variance, epsilon);
  lower->outputs[OUTPUT_Y] = apply(lower, x, mean, factor, per_channel(lower, lower->inputs[INPUT_SHIFT], shape.rank));
  return DELTA_OK;
}
