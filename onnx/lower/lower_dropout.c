// Lowering of Dropout. Before opset 12 the node does not say whether it is in training form: it drops in training programs. Since then its
// input training_mode says so. The attribute seed is not used: masks follow the run's seed and the node.
#include "onnx/lower/lower.h"

enum { INPUT_DATA, INPUT_RATIO, INPUT_TRAINING };
enum { OUTPUT_DATA, OUTPUT_MASK };

static double read_ratio(delta_lower_t *lower) {
  double ratio = 0.5;
  size_t count = 1;
  if (delta_tensor_is_none(delta_lower_input(lower, INPUT_RATIO))) {
    ratio = delta_lower_float(lower, "ratio", 0.5);
  } else {
    (void)delta_lower_known_reals(lower, INPUT_RATIO, &ratio, 1, &count);
  }
  if (delta_emit_ok(&lower->emit) && (count != 1 || !(ratio >= 0.0 && ratio <= 1.0))) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the ratio is %g; it must be one number from 0 to 1", ratio);
  }
  return ratio;
}

// Whether the node drops in a training program.
static bool drops_in_training(delta_lower_t *lower) {
  int64_t mode = 0;
  size_t count = 0;
  if (lower->opset < 12) return !lower->options->as_exported;
  if (delta_tensor_is_none(delta_lower_input(lower, INPUT_TRAINING))) return false;
  if (!lower->training) {
    // Evaluation is the identity whatever the input says; it need not be known.
    return delta_emit_constant_ints(&lower->emit, lower->inputs[INPUT_TRAINING], &mode, 1, &count) && count == 1 && mode != 0;
  }
  (void)delta_lower_known_ints(lower, INPUT_TRAINING, &mode, 1, &count);
  return mode != 0;
}

static void emit_identity(delta_lower_t *lower, delta_tensor_id_t x) {
  lower->outputs[OUTPUT_DATA] = x;
  if (!delta_lower_output_wanted(lower, OUTPUT_MASK)) return;
  delta_dtype_t dtype = lower->opset < 10 ? delta_emit_dtype(&lower->emit, x) : DELTA_DTYPE_BOOL;
  lower->outputs[OUTPUT_MASK] = delta_emit_fill(&lower->emit, dtype, delta_emit_shape(&lower->emit, x), 1.0);
}

static void emit_dropout(delta_lower_t *lower, delta_tensor_id_t x, double ratio) {
  delta_dropout_attrs_t attrs = {.ratio = ratio};
  delta_tensor_id_t inputs[3] = {x, DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  delta_lower_random(lower, &inputs[1], &inputs[2], &attrs.stream);
  bool wants_mask = delta_lower_output_wanted(lower, OUTPUT_MASK);
  delta_tensor_id_t outputs[2] = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  delta_emit_node(&lower->emit, DELTA_CORE_DROPOUT, &attrs, sizeof attrs, inputs, 3, outputs, 2, wants_mask ? 3 : 1);
  lower->outputs[OUTPUT_DATA] = outputs[0];
  if (!wants_mask) return;
  lower->outputs[OUTPUT_MASK] =
      lower->opset < 10 ? delta_emit_cast(&lower->emit, outputs[1], delta_emit_dtype(&lower->emit, x)) : outputs[1];
}

// As PyTorch does it on a CPU: a tensor of scaled noise is drawn, multiplied with, and kept for the backward pass.
static void emit_kept_noise(delta_lower_t *lower, delta_tensor_id_t x, double ratio) {
  delta_dropout_attrs_t attrs = {.ratio = ratio};
  delta_tensor_id_t seed, draw;
  delta_lower_random(lower, &seed, &draw, &attrs.stream);
  delta_tensor_id_t ones = delta_emit_fill(&lower->emit, delta_emit_dtype(&lower->emit, x), delta_emit_shape(&lower->emit, x), 1.0);
  delta_tensor_id_t noise = DELTA_EMIT(&lower->emit, DROPOUT, attrs, ones, seed, draw);
  lower->outputs[OUTPUT_DATA] = delta_emit_binary(&lower->emit, DELTA_EXPR_MUL, x, noise);
}

delta_status_t delta_lower_dropout(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, INPUT_DATA);
  double ratio = read_ratio(lower);
  bool drops = drops_in_training(lower) && ratio > 0.0;
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  if (drops && lower->training) {
    bool keeps_noise = !delta_lever_is_on(lower->options->levers, DELTA_LEVER_DROPOUT) && !delta_lower_output_wanted(lower, OUTPUT_MASK);
    (keeps_noise ? emit_kept_noise : emit_dropout)(lower, x, ratio);
    return DELTA_OK;
  }
  if (drops) delta_lower_may_draw(lower);
  emit_identity(lower, x);
  return DELTA_OK;
}
