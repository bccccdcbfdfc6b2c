// Lowering of activations that are a formula with parameters: one row each, with the attributes and their defaults.
//
// Formulas choose between two branches by SELECT; the branch that is not chosen sees 0, so that its value and derivative stay finite
// (0 times infinity would be NaN in the gradient). At a kink the derivative is PyTorch's.
#include <assert.h>
#include <strings.h>

#include "onnx/lower/activation.h"

typedef delta_expr_builder_t *builder_t;

static uint16_t real(builder_t b, double value) { return delta_expr_real(b, value); }
static uint16_t add(builder_t b, uint16_t x, uint16_t y) { return delta_expr_binary(b, DELTA_EXPR_ADD, x, y); }
static uint16_t mul(builder_t b, uint16_t x, uint16_t y) { return delta_expr_binary(b, DELTA_EXPR_MUL, x, y); }
static uint16_t scale(builder_t b, uint16_t x, double factor) { return factor == 1.0 ? x : mul(b, x, real(b, factor)); }
static uint16_t is_above(builder_t b, uint16_t x, double bound) { return delta_expr_binary(b, DELTA_EXPR_GT, x, real(b, bound)); }

// x where it is positive, factor * expm1(x / inner) elsewhere.
static uint16_t exponential_unit(builder_t b, uint16_t x, double factor, double inner) {
  uint16_t positive = is_above(b, x, 0.0);
  uint16_t negative_part = delta_expr_select(b, positive, real(b, 0.0), x);
  if (inner != 1.0) negative_part = delta_expr_binary(b, DELTA_EXPR_DIV, negative_part, real(b, inner));
  uint16_t curve = scale(b, delta_expr_unary(b, DELTA_EXPR_EXPM1, negative_part), factor);
  return delta_expr_select(b, positive, x, curve);
}

static uint16_t build_elu(builder_t b, uint16_t x, const double *p) { return exponential_unit(b, x, p[0], 1.0); }
static uint16_t build_celu(builder_t b, uint16_t x, const double *p) { return exponential_unit(b, x, p[0], p[0]); }
static uint16_t build_selu(builder_t b, uint16_t x, const double *p) { return scale(b, exponential_unit(b, x, p[0], 1.0), p[1]); }

static uint16_t build_leaky_relu(builder_t b, uint16_t x, const double *p) {
  return delta_expr_select(b, is_above(b, x, 0.0), x, scale(b, x, p[0]));
}

static uint16_t build_thresholded_relu(builder_t b, uint16_t x, const double *p) {
  return delta_expr_select(b, is_above(b, x, p[0]), x, real(b, 0.0));
}

// min(max(a * x + c, 0), 1); NaN stays NaN.
static uint16_t hard_sigmoid(builder_t b, uint16_t x, double a, double c) {
  uint16_t line = add(b, scale(b, x, a), real(b, c));
  uint16_t above = delta_expr_binary(b, DELTA_EXPR_GE, line, real(b, 1.0));
  uint16_t below = delta_expr_binary(b, DELTA_EXPR_LE, line, real(b, 0.0));
  return delta_expr_select(b, above, real(b, 1.0), delta_expr_select(b, below, real(b, 0.0), line));
}

static uint16_t build_hard_sigmoid(builder_t b, uint16_t x, const double *p) { return hard_sigmoid(b, x, p[0], p[1]); }
static uint16_t build_hard_swish(builder_t b, uint16_t x, const double *p) {
  (void)p;
  return mul(b, x, hard_sigmoid(b, x, 1.0 / 6.0, 0.5));
}

// log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|))
static uint16_t build_softplus(builder_t b, uint16_t x, const double *p) {
  (void)p;
  uint16_t positive = is_above(b, x, 0.0);
  uint16_t minus_magnitude = delta_expr_select(b, positive, delta_expr_unary(b, DELTA_EXPR_NEG, x), x);
  uint16_t rest = delta_expr_unary(b, DELTA_EXPR_LOG1P, delta_expr_unary(b, DELTA_EXPR_EXP, minus_magnitude));
  return delta_expr_select(b, positive, add(b, x, rest), rest);
}

static uint16_t build_mish(builder_t b, uint16_t x, const double *p) {
  return mul(b, x, delta_expr_unary(b, DELTA_EXPR_TANH, build_softplus(b, x, p)));
}

static uint16_t build_softsign(builder_t b, uint16_t x, const double *p) {
  (void)p;
  uint16_t denominator = add(b, real(b, 1.0), delta_expr_unary(b, DELTA_EXPR_ABS, x));
  return delta_expr_binary(b, DELTA_EXPR_DIV, x, denominator);
}

static uint16_t build_swish(builder_t b, uint16_t x, const double *p) {
  return mul(b, x, delta_expr_unary(b, DELTA_EXPR_SIGMOID, scale(b, x, p[0])));
}

// x + bias below -lambda, x - bias above lambda, 0 between. p: bias, lambda.
static uint16_t build_shrink(builder_t b, uint16_t x, const double *p) {
  uint16_t below = delta_expr_binary(b, DELTA_EXPR_LT, x, real(b, -p[1]));
  uint16_t outside = delta_expr_select(b, is_above(b, x, p[1]), add(b, x, real(b, -p[0])), real(b, 0.0));
  return delta_expr_select(b, below, add(b, x, real(b, p[0])), outside);
}

// x / 2 * (1 + erf(x / sqrt(2)))
static uint16_t gelu_exact(builder_t b, uint16_t x) {
  uint16_t share = add(b, real(b, 1.0), delta_expr_unary(b, DELTA_EXPR_ERF, scale(b, x, 0.70710678118654752440)));
  return mul(b, scale(b, x, 0.5), share);
}

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
static uint16_t gelu_tanh(builder_t b, uint16_t x) {
  uint16_t cube = mul(b, mul(b, x, x), x);
  uint16_t inner = scale(b, add(b, x, scale(b, cube, 0.044715)), 0.79788456080286535588);
  return mul(b, scale(b, x, 0.5), add(b, real(b, 1.0), delta_expr_unary(b, DELTA_EXPR_TANH, inner)));
}

static const delta_activation_t activation_rows[] = {
    {"Celu", {"alpha"}, {1.0}, build_celu},
    {"Elu", {"alpha"}, {1.0}, build_elu},
    {"HardSigmoid", {"alpha", "beta"}, {0.2, 0.5}, build_hard_sigmoid},
    {"HardSwish", {NULL}, {0}, build_hard_swish},
    {"LeakyRelu", {"alpha"}, {0.01}, build_leaky_relu},
    {"Mish", {NULL}, {0}, build_mish},
    {"Selu", {"alpha", "gamma"}, {1.67326319217681884765625, 1.05070102214813232421875}, build_selu},
    {"Shrink", {"bias", "lambd"}, {0.0, 0.5}, build_shrink},
    {"Softplus", {NULL}, {0}, build_softplus},
    {"Softsign", {NULL}, {0}, build_softsign},
    {"Swish", {"alpha"}, {1.0}, build_swish},
    {"ThresholdedRelu", {"alpha"}, {1.0}, build_thresholded_relu},
};

const delta_activation_t *delta_activation_find(const char *name) {
  for (size_t k = 0; k < sizeof activation_rows / sizeof activation_rows[0]; ++k) {
    if (strcasecmp(activation_rows[k].name, name) == 0) return &activation_rows[k];
  }
  return NULL;
}

uint16_t delta_activation_gelu(builder_t b, uint16_t x, bool by_tanh) { return by_tanh ? gelu_tanh(b, x) : gelu_exact(b, x); }

// The input's type; an error when it is no float.
static delta_dtype_t float_type(delta_lower_t *lower) {
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, delta_lower_required(lower, 0));
  if (delta_emit_ok(&lower->emit) && !delta_dtype_is_float(dtype)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input is %s; it must be of a float type", delta_dtype_name(dtype));
  }
  return dtype;
}

delta_status_t delta_lower_activation(delta_lower_t *lower) {
  const delta_activation_t *row = delta_activation_find(lower->node->op_type);
  delta_dtype_t dtype = float_type(lower);
  assert(row != NULL); // every operator with this lowering has a row
  double parameters[DELTA_ACTIVATION_PARAMETERS] = {0};
  for (int k = 0; k < DELTA_ACTIVATION_PARAMETERS && row->attributes[k] != NULL; ++k) {
    // Attributes are float32; the defaults of hard sigmoid and others are meant as written.
    parameters[k] = delta_lower_float(lower, row->attributes[k], row->defaults[k]);
  }
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  delta_expr_output(&builder, row->build(&builder, delta_expr_input(&builder, 0), parameters));
  lower->outputs[0] = delta_emit_expr(&lower->emit, &builder, dtype, lower->inputs, 1);
  return DELTA_OK;
}

delta_status_t delta_lower_gelu(delta_lower_t *lower) {
  static const char *const names[] = {"none", "tanh"};
  delta_dtype_t dtype = float_type(lower);
  bool approximate = delta_lower_choice(lower, "approximate", delta_lower_string(lower, "approximate", "none"), names, 2) == 1;
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  uint16_t x = delta_expr_input(&builder, 0);
  delta_expr_output(&builder, delta_activation_gelu(&builder, x, approximate));
  lower->outputs[0] = delta_emit_expr(&lower->emit, &builder, dtype, lower->inputs, 1);
  return DELTA_OK;
}

// The slope broadcasts to the data, not the other way.
delta_status_t delta_lower_prelu(delta_lower_t *lower) {
  delta_dtype_t dtype = float_type(lower);
  if (!delta_lower_same_types(lower, 0)) return DELTA_OK;
  const delta_shape_t *x_shape = delta_emit_shape(&lower->emit, lower->inputs[0]);
  const delta_shape_t *slope_shape = delta_emit_shape(&lower->emit, lower->inputs[1]);
  delta_shape_t joined;
  if (!delta_shape_broadcast(x_shape, slope_shape, &joined) || !delta_shape_equal(&joined, x_shape)) {
    char x_text[DELTA_SHAPE_TEXT_BYTES], slope_text[DELTA_SHAPE_TEXT_BYTES];
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "a slope of shape %s does not broadcast to the input's %s",
                           delta_shape_text(slope_shape, slope_text), delta_shape_text(x_shape, x_text));
    return DELTA_OK;
  }
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  uint16_t x = delta_expr_input(&builder, 0);
  uint16_t leaned = mul(&builder, x, delta_expr_input(&builder, 1));
  delta_expr_output(&builder, delta_expr_select(&builder, is_above(&builder, x, 0.0), x, leaned));
  lower->outputs[0] = delta_emit_expr(&lower->emit, &builder, dtype, lower->inputs, 2);
  return DELTA_OK;
}
