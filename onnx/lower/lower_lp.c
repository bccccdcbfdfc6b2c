// Lowering of p-norms over axes and windows, and of local response normalisation.
//
// A sum over a window is an average pool whose padding counts, times the window's size. Windows are padded to full length first, so that
// the divisor is the same everywhere.
#include "onnx/lower/formula.h"
#include "onnx/lower/window.h"

// |x|^p
static uint16_t magnitude_power(delta_formula_t *f, uint16_t x, double p) {
  if (p == 2.0) return delta_formula_mul(f, x, x);
  uint16_t magnitude = delta_formula_unary(f, DELTA_EXPR_ABS, x);
  return p == 1.0 ? magnitude : delta_formula_binary(f, DELTA_EXPR_POW, magnitude, delta_formula_real(f, p));
}

// x^(1/p) for x >= 0
static uint16_t root(delta_formula_t *f, uint16_t x, double p) {
  if (p == 1.0) return x;
  if (p == 2.0) return delta_formula_unary(f, DELTA_EXPR_SQRT, x);
  return delta_formula_binary(f, DELTA_EXPR_POW, x, delta_formula_real(f, 1.0 / p));
}

// The exponent: an integer since opset 2, a float in LpPool and GlobalLpPool 1.
static double read_p(delta_lower_t *lower) {
  double p = lower->opset < 2 ? delta_lower_float(lower, "p", 2.0) : (double)delta_lower_int(lower, "p", 2);
  if (!(p >= 1.0)) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'p' is %g; it must be at least 1", p);
  return p;
}

// The data, which must be of a float type.
static delta_tensor_id_t float_input(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, x);
  if (!delta_emit_ok(&lower->emit) || delta_dtype_is_float(dtype)) return x;
  return delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input is %s; it must be of a float type", delta_dtype_name(dtype));
}

static delta_tensor_id_t emit_root(delta_lower_t *lower, delta_tensor_id_t x, double factor, double p) {
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, &x, 1);
  uint16_t value = delta_formula_input(&f, 0);
  if (factor != 1.0) value = delta_formula_mul(&f, value, delta_formula_real(&f, factor));
  return delta_formula_emit(&f, root(&f, value, p), delta_emit_dtype(&lower->emit, x));
}

static delta_tensor_id_t emit_power(delta_lower_t *lower, delta_tensor_id_t x, double p, uint32_t axes) {
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, &x, 1);
  uint16_t value = magnitude_power(&f, delta_formula_input(&f, 0), p);
  return delta_formula_reduce(&f, DELTA_REDUCE_SUM, value, delta_emit_dtype(&lower->emit, x), axes);
}

// x / norm along an axis; where the norm is 0 the result is.
delta_status_t delta_lower_lp_normalization(delta_lower_t *lower) {
  delta_tensor_id_t x = float_input(lower);
  double p = (double)delta_lower_int(lower, "p", 2);
  int32_t rank = delta_emit_shape(&lower->emit, x)->rank;
  int32_t axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", -1), rank);
  if (p != 1.0 && p != 2.0) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'p' is %g; it must be 1 or 2", p);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  const delta_tensor_id_t inputs[2] = {x, emit_power(lower, x, p, 1u << axis)};
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, 2);
  uint16_t sum = delta_formula_input(&f, 1);
  uint16_t empty = delta_formula_binary(&f, DELTA_EXPR_EQ, sum, delta_formula_real(&f, 0.0));
  uint16_t norm = root(&f, delta_formula_select(&f, empty, delta_formula_real(&f, 1.0), sum), p);
  uint16_t y = delta_formula_div(&f, delta_formula_input(&f, 0), norm);
  lower->outputs[0] = delta_formula_emit(&f, y, delta_emit_dtype(&lower->emit, x));
  return DELTA_OK;
}

delta_status_t delta_lower_global_lp_pool(delta_lower_t *lower) {
  delta_tensor_id_t x = float_input(lower);
  int32_t rank = delta_emit_shape(&lower->emit, x)->rank;
  double p = read_p(lower);
  if (delta_emit_ok(&lower->emit) && rank < 3) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input has rank %d; batch, channels and more are required", rank);
  }
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  uint32_t spatial = ((1u << rank) - 1u) & ~3u;
  lower->outputs[0] = emit_root(lower, emit_power(lower, x, p, spatial), 1.0, p);
  return DELTA_OK;
}

// Pads the end so that the last window of a ceil mode is whole.
static void complete_windows(delta_lower_t *lower, delta_pool_attrs_t *attrs) {
  delta_window_t *window = &attrs->window;
  for (int32_t d = 0; d < window->spatial; ++d) {
    int64_t extent = (window->kernel[d] - 1) * window->dilations[d] + 1, end = 0; // both were checked when the sizes were made
    if (!delta_int64_add((attrs->out_spatial[d] - 1) * window->strides[d], extent, &end)) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "spatial dimension %d: the window is too large", d);
      return;
    }
    int64_t needed = end - attrs->data_spatial[d] - window->pads_begin[d];
    if (needed > window->pads_end[d]) window->pads_end[d] = needed;
  }
}

delta_status_t delta_lower_lp_pool(delta_lower_t *lower) {
  delta_tensor_id_t x = float_input(lower);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  double p = read_p(lower), elements = 1.0;
  bool ceil_mode = delta_lower_int(lower, "ceil_mode", 0) != 0;
  delta_pool_attrs_t attrs = {.count_include_pad = true};
  if (!delta_lower_window(lower, &shape, NULL, &attrs.window)) return DELTA_OK;
  if (!delta_lower_window_out(lower, &attrs.window, &shape, ceil_mode, attrs.out_spatial)) return DELTA_OK;
  for (int32_t d = 0; d < attrs.window.spatial; ++d) {
    attrs.data_spatial[d] = shape.dims[d + 2];
    elements *= (double)attrs.window.kernel[d];
  }
  complete_windows(lower, &attrs);
  delta_tensor_id_t mean = DELTA_EMIT(&lower->emit, AVERAGE_POOL, attrs, emit_power(lower, x, p, 0));
  lower->outputs[0] = emit_root(lower, mean, elements, p);
  return DELTA_OK;
}

// x / (bias + alpha * mean of squares over `size` neighbouring channels) ^ beta; channels that do not exist count as 0.
delta_status_t delta_lower_lrn(delta_lower_t *lower) {
  delta_tensor_id_t x = float_input(lower);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  int64_t size = delta_lower_int(lower, "size", 0);
  double alpha = delta_lower_float(lower, "alpha", 1e-4), beta = delta_lower_float(lower, "beta", 0.75);
  double bias = delta_lower_float(lower, "bias", 1.0);
  if (delta_emit_ok(&lower->emit) && (size < 1 || shape.rank < 2)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'size' is %lld and the rank %d", (long long)size, shape.rank);
  }
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  const int64_t channels = shape.dims[1], rest = delta_shape_count_range(&shape, 2, shape.rank);
  const delta_shape_t flat = {.rank = 4, .dims = {shape.dims[0], 1, channels, rest}};
  const delta_pool_attrs_t attrs = {.window = {.spatial = 2,
                                               .kernel = {size, 1},
                                               .strides = {1, 1},
                                               .dilations = {1, 1},
                                               .pads_begin = {(size - 1) / 2},
                                               .pads_end = {size - 1 - (size - 1) / 2}},
                                    .out_spatial = {channels, rest},
                                    .data_spatial = {channels, rest},
                                    .count_include_pad = true};
  delta_tensor_id_t squares = delta_emit_view(&lower->emit, emit_power(lower, x, 2.0, 0), &flat);
  delta_tensor_id_t mean = delta_emit_view(&lower->emit, DELTA_EMIT(&lower->emit, AVERAGE_POOL, attrs, squares), &shape);
  const delta_tensor_id_t inputs[2] = {x, mean};
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, 2);
  uint16_t scaled = delta_formula_mul(&f, delta_formula_input(&f, 1), delta_formula_real(&f, alpha));
  uint16_t base = delta_formula_add(&f, scaled, delta_formula_real(&f, bias));
  uint16_t divisor = delta_formula_binary(&f, DELTA_EXPR_POW, base, delta_formula_real(&f, beta));
  uint16_t y = delta_formula_div(&f, delta_formula_input(&f, 0), divisor);
  lower->outputs[0] = delta_formula_emit(&f, y, delta_emit_dtype(&lower->emit, x));
  return DELTA_OK;
}
