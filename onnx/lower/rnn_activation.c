// Activation functions that recurrent nodes name.
#include <strings.h>

#include "onnx/lower/rnn.h"

static uint16_t build_relu(delta_expr_builder_t *b, uint16_t x, const double *p) {
  (void)p;
  return delta_expr_unary(b, DELTA_EXPR_RELU, x);
}
static uint16_t build_tanh(delta_expr_builder_t *b, uint16_t x, const double *p) {
  (void)p;
  return delta_expr_unary(b, DELTA_EXPR_TANH, x);
}
static uint16_t build_sigmoid(delta_expr_builder_t *b, uint16_t x, const double *p) {
  (void)p;
  return delta_expr_unary(b, DELTA_EXPR_SIGMOID, x);
}
// alpha * x + beta
static uint16_t build_affine(delta_expr_builder_t *b, uint16_t x, const double *p) {
  return delta_expr_binary(b, DELTA_EXPR_ADD, delta_expr_binary(b, DELTA_EXPR_MUL, x, delta_expr_real(b, p[0])), delta_expr_real(b, p[1]));
}
// alpha * tanh(beta * x)
static uint16_t build_scaled_tanh(delta_expr_builder_t *b, uint16_t x, const double *p) {
  uint16_t curve = delta_expr_unary(b, DELTA_EXPR_TANH, delta_expr_binary(b, DELTA_EXPR_MUL, x, delta_expr_real(b, p[1])));
  return delta_expr_binary(b, DELTA_EXPR_MUL, curve, delta_expr_real(b, p[0]));
}

// Those that are no activation operators of ONNX, or take no parameters there.
static const delta_activation_t own_rows[] = {
    {"Relu", {NULL}, {0}, build_relu},
    {"Tanh", {NULL}, {0}, build_tanh},
    {"Sigmoid", {NULL}, {0}, build_sigmoid},
    {"Affine", {"alpha", "beta"}, {1.0, 0.0}, build_affine},
    {"ScaledTanh", {"alpha", "beta"}, {1.0, 1.0}, build_scaled_tanh},
};

// Those that are operators as well.
static const char *const operator_names[] = {"Elu", "HardSigmoid", "LeakyRelu", "Softplus", "Softsign", "ThresholdedRelu"};

static const delta_activation_t *find_activation(delta_lower_t *lower, const char *name) {
  for (size_t k = 0; k < sizeof own_rows / sizeof own_rows[0]; ++k) {
    if (strcasecmp(own_rows[k].name, name) == 0) return &own_rows[k];
  }
  for (size_t k = 0; k < sizeof operator_names / sizeof operator_names[0]; ++k) {
    if (strcasecmp(operator_names[k], name) == 0) return delta_activation_find(name);
  }
  (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "the activation '%.60s' is not known", name);
  return NULL;
}

// A list attribute, or NULL when absent or empty; an error when of another kind.
static const delta_attribute_t *list_attribute(delta_lower_t *lower, const char *name, delta_attribute_kind_t kind) {
  const delta_attribute_t *attribute = delta_model_node_attribute(lower->node, name);
  if (attribute == NULL) return NULL;
  if (attribute->kind == kind) return attribute->count > 0 ? attribute : NULL;
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute '%s' is of another kind than this operator's", name);
  return NULL;
}

bool delta_rnn_read_activations(delta_lower_t *lower, const char *const *defaults, size_t per_direction, size_t directions,
                                delta_rnn_activation_t *activations) {
  const delta_attribute_t *names = list_attribute(lower, "activations", DELTA_ATTRIBUTE_STRINGS);
  const delta_attribute_t *lists[DELTA_ACTIVATION_PARAMETERS] = {list_attribute(lower, "activation_alpha", DELTA_ATTRIBUTE_FLOATS),
                                                                 list_attribute(lower, "activation_beta", DELTA_ATTRIBUTE_FLOATS)};
  size_t used[DELTA_ACTIVATION_PARAMETERS] = {0}, count = per_direction * directions;
  if (names != NULL && names->count != count) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'activations' has %zu names; %zu are needed", names->count, count);
  }
  for (size_t k = 0; k < count && delta_emit_ok(&lower->emit); ++k) {
    const delta_activation_t *function = find_activation(lower, names ? names->strings[k] : defaults[k % per_direction]);
    if (function == NULL) break;
    activations[k].function = function;
    for (size_t p = 0; p < DELTA_ACTIVATION_PARAMETERS; ++p) {
      bool takes = function->attributes[p] != NULL && lists[p] != NULL && used[p] < lists[p]->count;
      activations[k].parameters[p] = takes ? (double)lists[p]->floats[used[p]++] : function->defaults[p];
    }
  }
  return delta_emit_ok(&lower->emit);
}

uint16_t delta_rnn_activate(const delta_rnn_t *rnn, delta_formula_t *f, size_t activation, uint16_t x) {
  const delta_rnn_activation_t *chosen = &rnn->activations[activation];
  if (rnn->clip > 0.0) {
    x = delta_formula_binary(f, DELTA_EXPR_MIN, x, delta_formula_real(f, rnn->clip));
    x = delta_formula_binary(f, DELTA_EXPR_MAX, x, delta_formula_real(f, -rnn->clip));
  }
  return chosen->function->build(&f->builder, x, chosen->parameters);
}
