// Lowering of random numbers. They follow the run's seed, the step and the node; the attribute `seed` is not used.
#include "onnx/lower/formula.h"
#include "onnx/lower/lower.h"

static delta_tensor_id_t emit_random(delta_lower_t *lower, delta_random_attrs_t *attrs) {
  delta_tensor_id_t seed, draw;
  delta_lower_random(lower, &seed, &draw, &attrs->stream);
  return delta_emit_one(&lower->emit, DELTA_CORE_RANDOM, attrs, sizeof *attrs, (const delta_tensor_id_t[]){seed, draw}, 2);
}

// The type that attribute `dtype` names.
static delta_dtype_t stated_type(delta_lower_t *lower, delta_dtype_t fallback) {
  delta_dtype_t dtype = fallback;
  int64_t stated = delta_lower_int(lower, "dtype", delta_dtype_to_onnx(fallback));
  if (stated < 0 || stated > INT32_MAX || !delta_dtype_from_onnx((int32_t)stated, &dtype)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "attribute 'dtype' is %lld, which is no supported type", (long long)stated);
  }
  return dtype;
}

// The shape is an attribute, or that of the input.
static delta_status_t lower_drawn(delta_lower_t *lower, bool normal) {
  delta_random_attrs_t attrs = {.normal = normal};
  delta_dtype_t fallback = DELTA_DTYPE_FLOAT32;
  if (lower->input_count > 0) {
    delta_tensor_id_t x = delta_lower_required(lower, 0);
    attrs.shape = *delta_emit_shape(&lower->emit, x);
    fallback = delta_emit_dtype(&lower->emit, x);
  } else {
    if (!delta_lower_has(lower, "shape")) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'shape' is required and left out");
    }
    attrs.shape.rank = (int32_t)delta_lower_ints(lower, "shape", attrs.shape.dims, DELTA_MAX_RANK);
  }
  attrs.dtype = stated_type(lower, fallback);
  if (delta_emit_ok(&lower->emit) && !delta_dtype_is_float(attrs.dtype)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "random numbers of type %s; a float type is needed",
                           delta_dtype_name(attrs.dtype));
  }
  attrs.low = delta_lower_float(lower, normal ? "mean" : "low", 0.0);
  attrs.high = delta_lower_float(lower, normal ? "scale" : "high", 1.0);
  if (delta_emit_ok(&lower->emit)) lower->outputs[0] = emit_random(lower, &attrs);
  return DELTA_OK;
}

delta_status_t delta_lower_random_normal(delta_lower_t *lower) { return lower_drawn(lower, true); }
delta_status_t delta_lower_random_uniform(delta_lower_t *lower) { return lower_drawn(lower, false); }

// One with the probability that the input states, else zero.
delta_status_t delta_lower_bernoulli(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  delta_dtype_t dtype = stated_type(lower, delta_emit_dtype(&lower->emit, x));
  delta_random_attrs_t attrs = {.shape = *delta_emit_shape(&lower->emit, x), .dtype = DELTA_DTYPE_FLOAT32, .low = 0.0, .high = 1.0};
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  const delta_tensor_id_t inputs[2] = {emit_random(lower, &attrs), x};
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, 2);
  uint16_t hit = delta_formula_binary(&f, DELTA_EXPR_LT, delta_formula_input(&f, 0), delta_formula_input(&f, 1));
  lower->outputs[0] = delta_formula_emit(&f, hit, dtype);
  return DELTA_OK;
}
