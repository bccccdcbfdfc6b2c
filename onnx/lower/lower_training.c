// Lowering of domain ai.onnx.preview.training: Gradient, and the optimizers Adagrad, Adam and Momentum, which are plain arithmetic here: the update of a
// model's own optimizer node is part of its forward graph.
//
// An optimizer node has the learning rate, the count of updates so far, then all tensors X to optimize, all their gradients G, and all of each further kind;
// outputs are grouped alike. Formulas: the ONNX operators of the same names, version 1.
#include <string.h>

#include "onnx/gradient/gradient.h"
#include "onnx/lower/formula.h"
#include "onnx/lower/import_state.h"

enum { INPUT_RATE, INPUT_COUNT, INPUT_TENSORS, MOST_KINDS = 4 };

// One tensor's update: instructions of the rate, the count and each kind of input; then of each kind of output.
typedef struct update {
  delta_lower_t *lower;
  delta_formula_t formula;
  uint16_t rate, count;
  uint16_t inputs[MOST_KINDS];
  uint16_t outputs[MOST_KINDS];
} update_t;

// What kinds of tensors an optimizer has and how it computes one update.
typedef struct optimizer_form {
  uint32_t input_kinds, output_kinds;
  void (*build)(update_t *u);
} optimizer_form_t;

static uint16_t real(update_t *u, double value) { return delta_formula_real(&u->formula, value); }
static uint16_t scaled(update_t *u, uint16_t x, double factor) { return delta_formula_mul(&u->formula, x, real(u, factor)); }

// factor * old + other_factor * fresh
static uint16_t blend(update_t *u, uint16_t old, double factor, uint16_t fresh, double other_factor) {
  return delta_formula_add(&u->formula, scaled(u, old, factor), scaled(u, fresh, other_factor));
}

// The gradient with that of norm_coefficient / 2 * x^2 added.
static uint16_t regularized(update_t *u) {
  const double norm_coefficient = delta_lower_float(u->lower, "norm_coefficient", 0.0);
  if (norm_coefficient == 0.0) return u->inputs[1];
  return delta_formula_add(&u->formula, scaled(u, u->inputs[0], norm_coefficient), u->inputs[1]);
}

// Inputs and outputs of all: [0] X, [1] G and, as outputs, [0] X new; the further ones are named here. Adagrad: [2] H; H new.
static void build_adagrad(update_t *u) {
  delta_formula_t *f = &u->formula;
  const double decay = delta_lower_float(u->lower, "decay_factor", 0.0), epsilon = delta_lower_float(u->lower, "epsilon", 1e-6);
  const uint16_t gradient = regularized(u);
  const uint16_t squares = delta_formula_add(f, u->inputs[2], delta_formula_mul(f, gradient, gradient));
  const uint16_t rate = delta_formula_div(f, u->rate, delta_formula_add(f, scaled(u, u->count, decay), real(u, 1.0)));
  const uint16_t root = delta_formula_add(f, delta_formula_unary(f, DELTA_EXPR_SQRT, squares), real(u, epsilon));
  const uint16_t step = delta_formula_div(f, delta_formula_mul(f, rate, gradient), root);
  u->outputs[0] = delta_formula_sub(f, u->inputs[0], step);
  u->outputs[1] = squares;
}

// 1 - decay^count
static uint16_t warmth(update_t *u, double decay) {
  const uint16_t power = delta_formula_binary(&u->formula, DELTA_EXPR_POW, real(u, decay), u->count);
  return delta_formula_sub(&u->formula, real(u, 1.0), power);
}

// [2] V, [3] H; V new, H new. The first update (count 0) is not corrected for the averages' start at zero.
static void build_adam(update_t *u) {
  delta_formula_t *f = &u->formula;
  const double alpha = delta_lower_float(u->lower, "alpha", 0.9), beta = delta_lower_float(u->lower, "beta", 0.999);
  const double epsilon = delta_lower_float(u->lower, "epsilon", 1e-6), post = delta_lower_float(u->lower, "norm_coefficient_post", 0.0);
  const uint16_t gradient = regularized(u);
  u->outputs[1] = blend(u, u->inputs[2], alpha, gradient, 1.0 - alpha);
  u->outputs[2] = blend(u, u->inputs[3], beta, delta_formula_mul(f, gradient, gradient), 1.0 - beta);
  const uint16_t root = delta_formula_add(f, delta_formula_unary(f, DELTA_EXPR_SQRT, u->outputs[2]), real(u, epsilon));
  const uint16_t correction = delta_formula_div(f, delta_formula_unary(f, DELTA_EXPR_SQRT, warmth(u, beta)), warmth(u, alpha));
  const uint16_t later = delta_formula_binary(f, DELTA_EXPR_GT, u->count, real(u, 0.0));
  const uint16_t rate = delta_formula_select(f, later, delta_formula_mul(f, u->rate, correction), u->rate);
  const uint16_t step = delta_formula_div(f, delta_formula_mul(f, rate, u->outputs[1]), root);
  u->outputs[0] = scaled(u, delta_formula_sub(f, u->inputs[0], step), 1.0 - post);
}

// [2] V; V new. The first gradient (count 0) enters whole, whatever beta is.
static void build_momentum(update_t *u) {
  static const char *const modes[] = {"standard", "nesterov"};
  delta_formula_t *f = &u->formula;
  const double alpha = delta_lower_float(u->lower, "alpha", 0.0), beta = delta_lower_float(u->lower, "beta", 0.0);
  const bool nesterov = delta_lower_choice(u->lower, "mode", delta_lower_string(u->lower, "mode", ""), modes, 2) == 1;
  const uint16_t gradient = regularized(u);
  const uint16_t later = delta_formula_binary(f, DELTA_EXPR_GT, u->count, real(u, 0.0));
  const uint16_t share = delta_formula_select(f, later, real(u, beta), real(u, 1.0));
  u->outputs[1] = delta_formula_add(f, scaled(u, u->inputs[2], alpha), delta_formula_mul(f, share, gradient));
  const uint16_t direction = nesterov ? delta_formula_add(f, gradient, scaled(u, u->outputs[1], alpha)) : u->outputs[1];
  u->outputs[0] = delta_formula_sub(f, u->inputs[0], delta_formula_mul(f, u->rate, direction));
}

static const optimizer_form_t adagrad_form = {3, 2, build_adagrad}, adam_form = {4, 3, build_adam}, momentum_form = {3, 2, build_momentum};

// The rate or the count: one element, seen as a scalar.
static delta_tensor_id_t scalar_input(delta_lower_t *lower, uint32_t k, const char *what) {
  const delta_tensor_id_t id = delta_lower_required(lower, k);
  if (delta_emit_ok(&lower->emit) && delta_shape_count(delta_emit_shape(&lower->emit, id)) != 1) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "%s (input %u) has %lld elements; it must have one", what, k,
                           (long long)delta_shape_count(delta_emit_shape(&lower->emit, id)));
  }
  return delta_emit_view(&lower->emit, id, &(delta_shape_t){.rank = 0});
}

// The tensors of update `t` of `tensors`: all of X's shape and float type.
static bool gather_inputs(delta_lower_t *lower, const optimizer_form_t *form, uint32_t t, uint32_t tensors, delta_tensor_id_t *inputs) {
  for (uint32_t kind = 0; kind < form->input_kinds; ++kind) {
    const uint32_t k = INPUT_TENSORS + kind * tensors + t;
    inputs[kind] = delta_lower_required(lower, k);
    const delta_tensor_t *first = delta_emit_tensor(&lower->emit, inputs[0]), *tensor = delta_emit_tensor(&lower->emit, inputs[kind]);
    if (!delta_emit_ok(&lower->emit)) return false;
    if (delta_dtype_is_float(tensor->dtype) && tensor->dtype == first->dtype && delta_shape_equal(&tensor->shape, &first->shape)) continue;
    char found[DELTA_SHAPE_TEXT_BYTES], wanted[DELTA_SHAPE_TEXT_BYTES];
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED,
                           "input %u is %s %s; it belongs to input %u, which is %s %s, and must be of a float type", k,
                           delta_dtype_name(tensor->dtype), delta_shape_text(&tensor->shape, found), INPUT_TENSORS + t,
                           delta_dtype_name(first->dtype), delta_shape_text(&first->shape, wanted));
    return false;
  }
  return true;
}

static void emit_update(delta_lower_t *lower, const optimizer_form_t *form, const delta_tensor_id_t *inputs, uint32_t t, uint32_t tensors) {
  update_t u = {.lower = lower};
  delta_formula_init(&u.formula, &lower->emit, inputs, INPUT_TENSORS + form->input_kinds);
  u.rate = delta_formula_input(&u.formula, INPUT_RATE);
  u.count = delta_formula_input(&u.formula, INPUT_COUNT);
  for (uint32_t kind = 0; kind < form->input_kinds; ++kind) {
    u.inputs[kind] = delta_formula_input(&u.formula, (uint16_t)(INPUT_TENSORS + kind));
  }
  form->build(&u);
  delta_dtype_t dtypes[MOST_KINDS];
  delta_tensor_id_t outputs[DELTA_EXPR_MAX_OUTPUTS];
  for (uint32_t kind = 0; kind < form->output_kinds; ++kind) {
    dtypes[kind] = delta_emit_dtype(&lower->emit, inputs[INPUT_TENSORS]);
    delta_expr_output(&u.formula.builder, u.outputs[kind]);
  }
  delta_emit_exprs(&lower->emit, &u.formula.builder, dtypes, inputs, INPUT_TENSORS + form->input_kinds, outputs);
  for (uint32_t kind = 0; kind < form->output_kinds; ++kind) lower->outputs[kind * tensors + t] = outputs[kind];
}

static delta_status_t lower_optimizer(delta_lower_t *lower, const optimizer_form_t *form) {
  const uint32_t rest = lower->input_count - INPUT_TENSORS, tensors = rest / form->input_kinds;
  if (rest % form->input_kinds != 0 || lower->output_count != tensors * form->output_kinds) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED,
                           "%u inputs and %u outputs; each tensor has %u inputs behind the first two, and %u outputs", lower->input_count,
                           lower->output_count, form->input_kinds, form->output_kinds);
    return DELTA_OK;
  }
  delta_tensor_id_t inputs[INPUT_TENSORS + MOST_KINDS];
  inputs[INPUT_RATE] = scalar_input(lower, INPUT_RATE, "the learning rate");
  inputs[INPUT_COUNT] = scalar_input(lower, INPUT_COUNT, "the count of updates");
  for (uint32_t t = 0; t < tensors; ++t) {
    if (!gather_inputs(lower, form, t, tensors, &inputs[INPUT_TENSORS])) break;
    emit_update(lower, form, inputs, t, tensors);
  }
  return DELTA_OK;
}

delta_status_t delta_lower_adagrad(delta_lower_t *lower) { return lower_optimizer(lower, &adagrad_form); }
delta_status_t delta_lower_adam(delta_lower_t *lower) { return lower_optimizer(lower, &adam_form); }
delta_status_t delta_lower_momentum(delta_lower_t *lower) { return lower_optimizer(lower, &momentum_form); }

delta_value_id_t delta_import_differentiated(const delta_model_t *model, const delta_model_node_t *node) {
  if (strcmp(node->op_type, "Gradient") != 0) return DELTA_VALUE_NONE;
  const delta_attribute_t *y = delta_model_node_attribute(node, "y");
  return y && y->kind == DELTA_ATTRIBUTE_STRING ? delta_model_find_value(model, y->s) : DELTA_VALUE_NONE;
}

// The tensor y, which must be there already and of a float type.
static delta_tensor_id_t differentiated_tensor(delta_lower_t *lower) {
  const char *name = delta_lower_string(lower, "y", "");
  const delta_value_id_t value = delta_import_differentiated(lower->import->model, lower->node);
  const delta_tensor_id_t y = delta_value_is_none(value) ? DELTA_TENSOR_NONE : lower->import->tensors[value.index];
  if (delta_tensor_is_none(y)) {
    return delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "y is '%.200s', which no node before this one makes", name);
  }
  if (delta_dtype_is_float(delta_emit_dtype(&lower->emit, y))) return y;
  return delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "y is '%.200s' of type %s; it must be of a float type", name,
                          delta_dtype_name(delta_emit_dtype(&lower->emit, y)));
}

// The attribute xs names what the first inputs must be.
static const delta_attribute_t *differentiated_by(delta_lower_t *lower) {
  const delta_attribute_t *xs = delta_model_node_attribute(lower->node, "xs");
  if (xs == NULL || xs->kind != DELTA_ATTRIBUTE_STRINGS || xs->count == 0 || xs->count > lower->input_count ||
      xs->count != lower->output_count) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED,
                           "attribute 'xs' must name as many values as there are outputs, of which inputs give the values");
    return NULL;
  }
  for (uint32_t k = 0; k < xs->count; ++k) {
    const delta_value_id_t named = delta_model_find_value(lower->import->model, xs->strings[k]), given = lower->node->inputs[k];
    const delta_tensor_id_t x = delta_lower_required(lower, k);
    if (!delta_emit_ok(&lower->emit)) return NULL;
    if (named.index != given.index) {
      (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "xs names '%.200s', but another value is given for it", xs->strings[k]);
      return NULL;
    }
    if (delta_emit_tensor(&lower->emit, x)->data != NULL) {
      (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "xs names '%.200s', which is a constant of the file", xs->strings[k]);
      return NULL;
    }
  }
  return xs;
}

// Gradients are part of the model's forward graph, and are computed at the values that the other nodes compute with.
delta_status_t delta_lower_gradient(delta_lower_t *lower) {
  delta_emit_t *emit = &lower->emit;
  const delta_attribute_t *xs = differentiated_by(lower);
  const delta_tensor_id_t y = differentiated_tensor(lower);
  if (!delta_emit_ok(emit)) return DELTA_OK;
  const size_t first_new = emit->graph->nodes.count;
  const delta_tensor_id_t seed = delta_emit_fill(emit, delta_emit_dtype(emit, y), delta_emit_shape(emit, y), 1.0);
  DELTA_RETURN_IF_ERROR(delta_autodiff(emit, y, seed, lower->inputs, xs->count, lower->options->levers, lower->outputs));
  for (size_t n = first_new; n < emit->graph->nodes.count; ++n) {
    delta_node_t *node = &emit->graph->nodes.items[n];
    node->phase = emit->phase;
    if (node->group != emit->group) node->group += lower->model->node_count; // beyond the groups of nodes that are still to come
  }
  for (uint32_t k = 0; k < xs->count; ++k) {
    const delta_tensor_id_t x = lower->inputs[k];
    if (delta_tensor_is_none(lower->outputs[k]))
      lower->outputs[k] = delta_emit_fill(emit, delta_emit_dtype(emit, x), delta_emit_shape(emit, x), 0.0);
  }
  return DELTA_OK;
}
