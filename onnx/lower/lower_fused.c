// Lowering of operators of the com.microsoft domain that graph optimizers make of several others.
#include "onnx/lower/activation.h"
#include "onnx/lower/formula.h"

// The sum of the data and a bias, or the data alone: the value a fused activation sees.
static uint16_t biased_input(delta_lower_t *lower, delta_formula_t *f, bool needs_bias) {
  const delta_tensor_id_t inputs[2] = {delta_lower_required(lower, 0),
                                       needs_bias ? delta_lower_required(lower, 1) : delta_lower_input(lower, 1)};
  bool has_bias = !delta_tensor_is_none(inputs[1]);
  if (has_bias) (void)delta_lower_same_types(lower, 0);
  delta_formula_init(f, &lower->emit, inputs, has_bias ? 2 : 1);
  uint16_t x = delta_formula_input(f, 0);
  return has_bias ? delta_formula_add(f, x, delta_formula_input(f, 1)) : x;
}

static delta_status_t finish(delta_lower_t *lower, delta_formula_t *f, uint16_t value) {
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, lower->inputs[0]);
  if (delta_emit_ok(&lower->emit) && !delta_dtype_is_float(dtype)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input is %s; it must be of a float type", delta_dtype_name(dtype));
  }
  if (delta_emit_ok(&lower->emit)) lower->outputs[0] = delta_formula_emit(f, value, dtype);
  return DELTA_OK;
}

delta_status_t delta_lower_bias_gelu(delta_lower_t *lower) {
  delta_formula_t f;
  uint16_t x = biased_input(lower, &f, true);
  return finish(lower, &f, delta_activation_gelu(&f.builder, x, false));
}

delta_status_t delta_lower_fast_gelu(delta_lower_t *lower) {
  delta_formula_t f;
  uint16_t x = biased_input(lower, &f, false);
  return finish(lower, &f, delta_activation_gelu(&f.builder, x, true));
}

// x * sigmoid(alpha * x)
delta_status_t delta_lower_quick_gelu(delta_lower_t *lower) {
  double alpha = delta_lower_float(lower, "alpha", 1.702);
  delta_formula_t f;
  uint16_t x = biased_input(lower, &f, false);
  uint16_t gate = delta_formula_unary(&f, DELTA_EXPR_SIGMOID, delta_formula_mul(&f, x, delta_formula_real(&f, alpha)));
  return finish(lower, &f, delta_formula_mul(&f, x, gate));
}

// A matrix whose first dimension stands before its batch: [m, batch..., k] becomes [batch..., m, k].
static delta_tensor_id_t batch_first(delta_lower_t *lower, delta_tensor_id_t x, const char *attribute) {
  int32_t rank = delta_emit_shape(&lower->emit, x)->rank, permutation[DELTA_MAX_RANK] = {0};
  if (delta_lower_int(lower, attribute, 0) == 0 || rank < 3) return x;
  for (int32_t d = 0; d < rank - 2; ++d) permutation[d] = d + 1;
  permutation[rank - 2] = 0;
  permutation[rank - 1] = rank - 1;
  return delta_emit_transpose(&lower->emit, x, permutation);
}

delta_status_t delta_lower_fused_matmul(delta_lower_t *lower) {
  delta_tensor_id_t a = delta_lower_required(lower, 0), b = delta_lower_required(lower, 1);
  int32_t a_rank = delta_emit_shape(&lower->emit, a)->rank, b_rank = delta_emit_shape(&lower->emit, b)->rank;
  if (delta_emit_ok(&lower->emit) && (a_rank < 2 || b_rank < 2)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "the inputs have ranks %d and %d; both must be matrices", a_rank, b_rank);
  }
  if (!delta_lower_same_types(lower, 0)) return DELTA_OK;
  a = batch_first(lower, a, "transBatchA");
  b = batch_first(lower, b, "transBatchB");
  double alpha = delta_lower_float(lower, "alpha", 1.0);
  delta_tensor_id_t y =
      delta_emit_matmul(&lower->emit, a, b, delta_lower_int(lower, "transA", 0) != 0, delta_lower_int(lower, "transB", 0) != 0);
  lower->outputs[0] = alpha == 1.0 ? y : delta_emit_binary_real(&lower->emit, DELTA_EXPR_MUL, y, alpha);
  return DELTA_OK;
}
