// Activation functions that recurrent nodes name.
#include <string.h>
#include <strings.h>

#include "onnx/lower/rnn.h"

typedef struct activation_row {
  const char *name;
  bool has_alpha, has_beta;
  double alpha, beta; // defaults
  uint16_t (*build)(delta_formula_t *f, uint16_t x, double alpha, double beta);
} activation_row_t;

static uint16_t real(delta_formula_t *f, double value) { return delta_formula_real(f, value); }
static uint16_t is_positive(delta_formula_t *f, uint16_t x) { return delta_formula_binary(f, DELTA_EXPR_GT, x, real(f, 0.0)); }

static uint16_t build_relu(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  (void)alpha, (void)beta;
  return delta_formula_unary(f, DELTA_EXPR_RELU, x);
}
static uint16_t build_tanh(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  (void)alpha, (void)beta;
  return delta_formula_unary(f, DELTA_EXPR_TANH, x);
}
static uint16_t build_sigmoid(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  (void)alpha, (void)beta;
  return delta_formula_unary(f, DELTA_EXPR_SIGMOID, x);
}
static uint16_t build_affine(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  return delta_formula_add(f, delta_formula_mul(f, x, real(f, alpha)), real(f, beta));
}
static uint16_t build_leaky_relu(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  (void)beta;
  return delta_formula_select(f, is_positive(f, x), x, delta_formula_mul(f, x, real(f, alpha)));
}
static uint16_t build_thresholded_relu(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  (void)beta;
  return delta_formula_select(f, delta_formula_binary(f, DELTA_EXPR_GE, x, real(f, alpha)), x, real(f, 0.0));
}
static uint16_t build_scaled_tanh(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  uint16_t inner = delta_formula_mul(f, x, real(f, beta));
  return delta_formula_mul(f, delta_formula_unary(f, DELTA_EXPR_TANH, inner), real(f, alpha));
}
static uint16_t build_hard_sigmoid(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  uint16_t line = build_affine(f, x, alpha, beta);
  uint16_t above = delta_formula_binary(f, DELTA_EXPR_GE, line, real(f, 1.0));
  uint16_t below = delta_formula_binary(f, DELTA_EXPR_LE, line, real(f, 0.0));
  return delta_formula_select(f, above, real(f, 1.0), delta_formula_select(f, below, real(f, 0.0), line));
}
// The branch that is not taken sees 0, so that its derivative stays finite.
static uint16_t build_elu(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  (void)beta;
  uint16_t positive = is_positive(f, x);
  uint16_t curve = delta_formula_unary(f, DELTA_EXPR_EXPM1, delta_formula_select(f, positive, real(f, 0.0), x));
  return delta_formula_select(f, positive, x, delta_formula_mul(f, curve, real(f, alpha)));
}
static uint16_t build_softsign(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  (void)alpha, (void)beta;
  return delta_formula_div(f, x, delta_formula_add(f, real(f, 1.0), delta_formula_unary(f, DELTA_EXPR_ABS, x)));
}
// max(x, 0) + log1p(exp(-|x|))
static uint16_t build_softplus(delta_formula_t *f, uint16_t x, double alpha, double beta) {
  (void)alpha, (void)beta;
  uint16_t positive = is_positive(f, x);
  uint16_t magnitude = delta_formula_select(f, positive, delta_formula_unary(f, DELTA_EXPR_NEG, x), x);
  uint16_t rest = delta_formula_unary(f, DELTA_EXPR_LOG1P, delta_formula_unary(f, DELTA_EXPR_EXP, magnitude));
  return delta_formula_select(f, positive, delta_formula_add(f, x, rest), rest);
}

static const activation_row_t activation_rows[] = {
    {"Relu", false, false, 0, 0, build_relu},
    {"Tanh", false, false, 0, 0, build_tanh},
    {"Sigmoid", false, false, 0, 0, build_sigmoid},
    {"Affine", true, true, 1.0, 0.0, build_affine},
    {"LeakyRelu", true, false, 0.01, 0, build_leaky_relu},
    {"ThresholdedRelu", true, false, 1.0, 0, build_thresholded_relu},
    {"ScaledTanh", true, true, 1.0, 1.0, build_scaled_tanh},
    {"HardSigmoid", true, true, 0.2, 0.5, build_hard_sigmoid},
    {"Elu", true, false, 1.0, 0, build_elu},
    {"Softsign", false, false, 0, 0, build_softsign},
    {"Softplus", false, false, 0, 0, build_softplus},
};
enum { ROW_COUNT = sizeof activation_rows / sizeof activation_rows[0] };

static const activation_row_t *find_activation(delta_lower_t *lower, const char *name) {
  for (size_t k = 0; k < ROW_COUNT; ++k) {
    if (strcasecmp(activation_rows[k].name, name) == 0) return &activation_rows[k];
  }
  (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "the activation '%.60s' is not known", name);
  return NULL;
}

// A list attribute of some kind, or NULL when absent; an error when of another kind.
static const delta_attribute_t *list_attribute(delta_lower_t *lower, const char *name, delta_attribute_kind_t kind) {
  const delta_attribute_t *attribute = delta_model_node_attribute(lower->node, name);
  if (attribute == NULL || attribute->count == 0 || attribute->kind == kind) {
    return attribute != NULL && attribute->count == 0 ? NULL : attribute;
  }
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute '%s' is of another kind than this operator's", name);
  return NULL;
}

// The next value of a list, while there is one.
static double next_parameter(const delta_attribute_t *list, size_t *used, bool takes, double fallback) {
  if (!takes || list == NULL || *used >= list->count) return fallback;
  return (double)list->floats[(*used)++];
}

bool delta_rnn_read_activations(delta_lower_t *lower, const char *const *defaults, size_t per_direction, size_t directions,
                                delta_rnn_activation_t *activations) {
  const delta_attribute_t *names = list_attribute(lower, "activations", DELTA_ATTRIBUTE_STRINGS);
  const delta_attribute_t *alphas = list_attribute(lower, "activation_alpha", DELTA_ATTRIBUTE_FLOATS);
  const delta_attribute_t *betas = list_attribute(lower, "activation_beta", DELTA_ATTRIBUTE_FLOATS);
  size_t used_alphas = 0, used_betas = 0, count = per_direction * directions;
  if (names != NULL && names->count != count) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'activations' has %zu names; %zu are needed", names->count, count);
  }
  for (size_t k = 0; k < count && delta_emit_ok(&lower->emit); ++k) {
    const activation_row_t *row = find_activation(lower, names ? names->strings[k] : defaults[k % per_direction]);
    if (row == NULL) break;
    activations[k] = (delta_rnn_activation_t){.build = row->build,
                                              .alpha = next_parameter(alphas, &used_alphas, row->has_alpha, row->alpha),
                                              .beta = next_parameter(betas, &used_betas, row->has_beta, row->beta)};
  }
  return delta_emit_ok(&lower->emit);
}

uint16_t delta_rnn_activate(const delta_rnn_t *rnn, delta_formula_t *f, size_t activation, uint16_t x) {
  const delta_rnn_activation_t *function = &rnn->activations[activation];
  if (rnn->clip > 0.0) {
    x = delta_formula_binary(f, DELTA_EXPR_MIN, x, real(f, rnn->clip));
    x = delta_formula_binary(f, DELTA_EXPR_MAX, x, real(f, -rnn->clip));
  }
  return function->build(f, x, function->alpha, function->beta);
}
