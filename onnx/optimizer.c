// Optimizer: the formulas as expressions. One function per optimizer; all read what they need through the same small context.
#include "onnx/optimizer.h"

#include <math.h>

static const char *const moment_names[DELTA_OPTIMIZER_COUNT][DELTA_OPTIMIZER_MAX_MOMENTS] = {
    [DELTA_OPTIMIZER_SGD] = {"momentum"},
    [DELTA_OPTIMIZER_ADAM] = {"exp_avg", "exp_avg_sq"},
    [DELTA_OPTIMIZER_ADAMW] = {"exp_avg", "exp_avg_sq"},
    [DELTA_OPTIMIZER_ADAGRAD] = {"sum"},
    [DELTA_OPTIMIZER_RMSPROP] = {"square_avg", "momentum"},
    [DELTA_OPTIMIZER_LAMB] = {"exp_avg", "exp_avg_sq"},
};
static const char *const names[DELTA_OPTIMIZER_COUNT] = {
#define DELTA_OPTIMIZER_NAME(id, name, moments, help) [DELTA_OPTIMIZER_##id] = name,
    DELTA_OPTIMIZERS(DELTA_OPTIMIZER_NAME)
#undef DELTA_OPTIMIZER_NAME
};
static const uint32_t base_moments[DELTA_OPTIMIZER_COUNT] = {
#define DELTA_OPTIMIZER_MOMENTS(id, name, moments, help) [DELTA_OPTIMIZER_##id] = moments,
    DELTA_OPTIMIZERS(DELTA_OPTIMIZER_MOMENTS)
#undef DELTA_OPTIMIZER_MOMENTS
};

delta_optimizer_options_t delta_optimizer_defaults(delta_optimizer_t kind) {
  static const delta_optimizer_options_t defaults[DELTA_OPTIMIZER_COUNT] = {
      [DELTA_OPTIMIZER_ADAM] = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
      [DELTA_OPTIMIZER_ADAMW] = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01},
      [DELTA_OPTIMIZER_ADAGRAD] = {.epsilon = 1e-10},
      [DELTA_OPTIMIZER_RMSPROP] = {.beta2 = 0.99, .epsilon = 1e-8},
      [DELTA_OPTIMIZER_LAMB] = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6, .weight_decay = 0.01},
  };
  delta_optimizer_options_t options = defaults[kind];
  options.kind = kind;
  return options;
}

static delta_status_t check_range(const char *option, double value, double minimum, double below) {
  if (value >= minimum && value < below) return DELTA_OK;
  return delta_status_make(INVALID_ARGUMENT, "--%s is %g; at least %g and less than %g is wanted", option, value, minimum, below);
}

delta_status_t delta_optimizer_check(const delta_optimizer_options_t *options) {
  const double unlimited = 1e300;
  DELTA_RETURN_IF_ERROR(check_range("momentum", options->momentum, 0.0, unlimited));
  DELTA_RETURN_IF_ERROR(check_range("weight-decay", options->weight_decay, 0.0, unlimited));
  DELTA_RETURN_IF_ERROR(check_range("epsilon", options->epsilon, 0.0, unlimited));
  DELTA_RETURN_IF_ERROR(check_range("beta1", options->beta1, 0.0, 1.0));
  DELTA_RETURN_IF_ERROR(check_range("beta2", options->beta2, 0.0, 1.0));
  const bool has_momentum = options->kind == DELTA_OPTIMIZER_SGD || options->kind == DELTA_OPTIMIZER_RMSPROP;
  if (options->momentum != 0.0 && !has_momentum) {
    return delta_status_make(INVALID_ARGUMENT, "--momentum goes with sgd and rmsprop, not with %s", names[options->kind]);
  }
  if (options->nesterov && (options->kind != DELTA_OPTIMIZER_SGD || options->momentum == 0.0)) {
    return delta_status_make(INVALID_ARGUMENT, "--nesterov goes with sgd and a --momentum above 0; the optimizer is %s, the momentum %g",
                             names[options->kind], options->momentum);
  }
  return DELTA_OK;
}

uint32_t delta_optimizer_moment_count(const delta_optimizer_options_t *options) {
  if (options->kind == DELTA_OPTIMIZER_SGD) return options->momentum != 0.0 ? 1 : 0;
  if (options->kind == DELTA_OPTIMIZER_RMSPROP) return options->momentum != 0.0 ? 2 : 1;
  return base_moments[options->kind];
}

const char *delta_optimizer_moment_name(const delta_optimizer_options_t *options, uint32_t k) { return moment_names[options->kind][k]; }

static bool corrects_bias(delta_optimizer_t kind) {
  return kind == DELTA_OPTIMIZER_ADAM || kind == DELTA_OPTIMIZER_ADAMW || kind == DELTA_OPTIMIZER_LAMB;
}

// 1 - beta^t
static uint16_t bias_correction(delta_expr_builder_t *b, double beta, uint16_t t) {
  const uint16_t power = delta_expr_binary(b, DELTA_EXPR_POW, delta_expr_real(b, beta), t);
  return delta_expr_binary(b, DELTA_EXPR_SUB, delta_expr_real(b, 1.0), power);
}

delta_optimizer_shared_t delta_optimizer_prepare(delta_emit_t *emit, const delta_optimizer_options_t *options, delta_tensor_id_t rate,
                                                 delta_tensor_id_t step) {
  delta_optimizer_shared_t shared = {
      .rate = rate, .decay = DELTA_TENSOR_NONE, .correction = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE}, .gradient_scale = DELTA_TENSOR_NONE};
  if (!corrects_bias(options->kind)) return shared;
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT64);
  const uint16_t count = delta_expr_input(&b, 0);
  const uint16_t lr = delta_expr_input(&b, 1);
  const uint16_t t = delta_expr_binary(&b, DELTA_EXPR_ADD, count, delta_expr_real(&b, 1.0));
  const uint16_t first = bias_correction(&b, options->beta1, t);
  const uint16_t second = bias_correction(&b, options->beta2, t);
  const bool lamb = options->kind == DELTA_OPTIMIZER_LAMB;
  delta_expr_output(&b, lamb ? first : delta_expr_binary(&b, DELTA_EXPR_DIV, lr, first));
  delta_expr_output(&b, lamb ? second : delta_expr_unary(&b, DELTA_EXPR_SQRT, second));
  if (options->kind == DELTA_OPTIMIZER_ADAMW && options->weight_decay != 0.0) {
    const uint16_t decay = delta_expr_binary(&b, DELTA_EXPR_MUL, lr, delta_expr_real(&b, options->weight_decay));
    delta_expr_output(&b, delta_expr_binary(&b, DELTA_EXPR_SUB, delta_expr_real(&b, 1.0), decay));
  }
  const delta_dtype_t dtypes[3] = {DELTA_DTYPE_FLOAT32, DELTA_DTYPE_FLOAT32, DELTA_DTYPE_FLOAT32};
  const delta_tensor_id_t inputs[2] = {step, rate};
  delta_tensor_id_t outputs[3] = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  delta_emit_exprs(emit, &b, dtypes, inputs, 2, outputs);
  if (lamb) {
    shared.correction[0] = outputs[0];
  } else {
    shared.rate = outputs[0];
  }
  shared.correction[1] = outputs[1];
  shared.decay = outputs[2];
  return shared;
}

// The expression of one update under construction.
typedef struct update_context {
  delta_expr_builder_t b;
  const delta_optimizer_options_t *options;
  const delta_optimizer_shared_t *shared;
  const delta_optimizer_update_t *update;
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS];
  uint32_t input_count;
} update_context_t;

static void context_init(update_context_t *c, const delta_optimizer_options_t *options, const delta_optimizer_shared_t *shared,
                         const delta_optimizer_update_t *update) {
  delta_expr_builder_init(&c->b, DELTA_DTYPE_FLOAT32);
  c->options = options;
  c->shared = shared;
  c->update = update;
  c->input_count = 0;
}

static uint16_t load(update_context_t *c, delta_tensor_id_t id) {
  uint32_t k = 0;
  while (k < c->input_count && !delta_tensor_same(c->inputs[k], id)) ++k;
  if (k == c->input_count) c->inputs[c->input_count++] = id;
  return delta_expr_input(&c->b, (uint16_t)k);
}

static uint16_t real(update_context_t *c, double value) { return delta_expr_real(&c->b, value); }
static uint16_t add(update_context_t *c, uint16_t x, uint16_t y) { return delta_expr_binary(&c->b, DELTA_EXPR_ADD, x, y); }
static uint16_t subtract(update_context_t *c, uint16_t x, uint16_t y) { return delta_expr_binary(&c->b, DELTA_EXPR_SUB, x, y); }
static uint16_t multiply(update_context_t *c, uint16_t x, uint16_t y) { return delta_expr_binary(&c->b, DELTA_EXPR_MUL, x, y); }
static uint16_t divide(update_context_t *c, uint16_t x, uint16_t y) { return delta_expr_binary(&c->b, DELTA_EXPR_DIV, x, y); }
static uint16_t square_root(update_context_t *c, uint16_t x) { return delta_expr_unary(&c->b, DELTA_EXPR_SQRT, x); }
static uint16_t scaled(update_context_t *c, uint16_t x, double factor) { return multiply(c, x, real(c, factor)); }

static uint16_t parameter(update_context_t *c) { return load(c, c->update->parameter); }
static uint16_t moment(update_context_t *c, uint32_t k) { return load(c, c->update->moments[k]); }

// The gradient as it enters the formula: scaled, and with the decay added where the optimizer couples them.
static uint16_t gradient(update_context_t *c, bool coupled_decay) {
  uint16_t g = load(c, c->update->gradient);
  if (!delta_tensor_is_none(c->shared->gradient_scale)) g = multiply(c, g, load(c, c->shared->gradient_scale));
  if (!coupled_decay || c->options->weight_decay == 0.0) return g;
  const uint16_t p = parameter(c);
  return add(c, g, scaled(c, p, c->options->weight_decay));
}

// beta * old + (1 - beta) * value
static uint16_t average(update_context_t *c, uint32_t k, double beta, uint16_t value) {
  const uint16_t old = moment(c, k);
  const uint16_t kept = scaled(c, old, beta);
  return add(c, kept, scaled(c, value, 1.0 - beta));
}

// momentum * old + value
static uint16_t momentum(update_context_t *c, uint32_t k, uint16_t value) {
  const uint16_t old = moment(c, k);
  const uint16_t kept = scaled(c, old, c->options->momentum);
  return add(c, kept, value);
}

static void store(update_context_t *c, uint16_t value) { delta_expr_output(&c->b, value); }

// Stores p - rate * direction, the first output of every update.
static void store_step(update_context_t *c, uint16_t p, uint16_t rate, uint16_t direction) {
  const uint16_t distance = multiply(c, rate, direction);
  store(c, subtract(c, p, distance));
}

static void update_sgd(update_context_t *c) {
  const uint16_t g = gradient(c, true);
  uint16_t direction = g, v = g;
  if (c->options->momentum != 0.0) {
    v = direction = momentum(c, 0, g);
    if (c->options->nesterov) {
      const uint16_t ahead = scaled(c, v, c->options->momentum);
      direction = add(c, g, ahead);
    }
  }
  const uint16_t p = parameter(c);
  store_step(c, p, load(c, c->shared->rate), direction);
  if (c->options->momentum != 0.0) store(c, v);
}

static void update_adam(update_context_t *c) {
  const bool decoupled = c->options->kind == DELTA_OPTIMIZER_ADAMW;
  const uint16_t g = gradient(c, !decoupled);
  const uint16_t m = average(c, 0, c->options->beta1, g);
  const uint16_t v = average(c, 1, c->options->beta2, multiply(c, g, g));
  const uint16_t root = square_root(c, v);
  const uint16_t deviation = divide(c, root, load(c, c->shared->correction[1]));
  const uint16_t direction = divide(c, m, add(c, deviation, real(c, c->options->epsilon)));
  uint16_t p = parameter(c);
  if (!delta_tensor_is_none(c->shared->decay)) p = multiply(c, p, load(c, c->shared->decay));
  store_step(c, p, load(c, c->shared->rate), direction);
  store(c, m);
  store(c, v);
}

static void update_adagrad(update_context_t *c) {
  const uint16_t g = gradient(c, true);
  const uint16_t old = moment(c, 0);
  const uint16_t sum = add(c, old, multiply(c, g, g));
  const uint16_t root = square_root(c, sum);
  const uint16_t direction = divide(c, g, add(c, root, real(c, c->options->epsilon)));
  const uint16_t p = parameter(c);
  store_step(c, p, load(c, c->shared->rate), direction);
  store(c, sum);
}

static void update_rmsprop(update_context_t *c) {
  const uint16_t g = gradient(c, true);
  const uint16_t s = average(c, 0, c->options->beta2, multiply(c, g, g));
  const uint16_t root = square_root(c, s);
  uint16_t direction = divide(c, g, add(c, root, real(c, c->options->epsilon)));
  if (c->options->momentum != 0.0) direction = momentum(c, 1, direction);
  const uint16_t p = parameter(c);
  store_step(c, p, load(c, c->shared->rate), direction);
  store(c, s);
  if (c->options->momentum != 0.0) store(c, direction);
}

static uint16_t lamb_direction(update_context_t *c, uint16_t *out_m, uint16_t *out_v) {
  const uint16_t g = gradient(c, false);
  *out_m = average(c, 0, c->options->beta1, g);
  *out_v = average(c, 1, c->options->beta2, multiply(c, g, g));
  const uint16_t m = divide(c, *out_m, load(c, c->shared->correction[0]));
  const uint16_t v = divide(c, *out_v, load(c, c->shared->correction[1]));
  const uint16_t root = square_root(c, v);
  const uint16_t u = divide(c, m, add(c, root, real(c, c->options->epsilon)));
  const uint16_t p = parameter(c);
  return add(c, u, scaled(c, p, c->options->weight_decay));
}

static delta_tensor_id_t emit_scalar_expr(delta_emit_t *emit, const update_context_t *c) {
  return delta_emit_expr(emit, &c->b, DELTA_DTYPE_FLOAT32, c->inputs, c->input_count);
}

// rate * |p| / |u|. The new moments are not read: they are computed again inside the sums, so that nobody reads what a state becomes.
static delta_tensor_id_t lamb_rate(delta_emit_t *emit, const delta_optimizer_options_t *options, const delta_optimizer_shared_t *shared,
                                   const delta_optimizer_update_t *update) {
  const uint32_t axes = (1u << delta_emit_shape(emit, update->parameter)->rank) - 1u;
  delta_tensor_id_t sums[2];
  for (int k = 0; k < 2; ++k) {
    update_context_t c;
    context_init(&c, options, shared, update);
    uint16_t m, v;
    const uint16_t value = k == 0 ? parameter(&c) : lamb_direction(&c, &m, &v);
    store(&c, multiply(&c, value, value));
    sums[k] = delta_emit_reduce_expr(emit, DELTA_REDUCE_SUM, &c.b, DELTA_DTYPE_FLOAT32, c.inputs, c.input_count, axes);
    sums[k] = delta_emit_view(emit, sums[k], &(delta_shape_t){0});
  }
  update_context_t c;
  context_init(&c, options, shared, update);
  const uint16_t weight = load(&c, sums[0]);
  const uint16_t step = load(&c, sums[1]);
  const uint16_t weight_norm = square_root(&c, weight);
  const uint16_t ratio = divide(&c, weight_norm, square_root(&c, step));
  const uint16_t weight_counts = delta_expr_binary(&c.b, DELTA_EXPR_GT, weight, real(&c, 0.0));
  const uint16_t step_counts = delta_expr_binary(&c.b, DELTA_EXPR_GT, step, real(&c, 0.0));
  const uint16_t both = delta_expr_binary(&c.b, DELTA_EXPR_AND, weight_counts, step_counts);
  const uint16_t trust = delta_expr_select(&c.b, both, ratio, real(&c, 1.0));
  store(&c, multiply(&c, trust, load(&c, shared->rate)));
  return emit_scalar_expr(emit, &c);
}

static void update_lamb(update_context_t *c) {
  uint16_t m, v;
  const uint16_t direction = lamb_direction(c, &m, &v);
  const uint16_t p = parameter(c);
  store_step(c, p, load(c, c->shared->rate), direction);
  store(c, m);
  store(c, v);
}

typedef void (*update_function_t)(update_context_t *c);
static const update_function_t updates[DELTA_OPTIMIZER_COUNT] = {
    [DELTA_OPTIMIZER_SGD] = update_sgd,         [DELTA_OPTIMIZER_ADAM] = update_adam,       [DELTA_OPTIMIZER_ADAMW] = update_adam,
    [DELTA_OPTIMIZER_ADAGRAD] = update_adagrad, [DELTA_OPTIMIZER_RMSPROP] = update_rmsprop, [DELTA_OPTIMIZER_LAMB] = update_lamb,
};

void delta_optimizer_emit(delta_emit_t *emit, const delta_optimizer_options_t *options, const delta_optimizer_shared_t *shared,
                          delta_optimizer_update_t *update) {
  delta_optimizer_shared_t own = *shared;
  if (options->kind == DELTA_OPTIMIZER_LAMB) own.rate = lamb_rate(emit, options, shared, update);
  update_context_t c;
  context_init(&c, options, &own, update);
  updates[options->kind](&c);
  delta_dtype_t dtypes[1 + DELTA_OPTIMIZER_MAX_MOMENTS];
  delta_tensor_id_t outputs[1 + DELTA_OPTIMIZER_MAX_MOMENTS];
  for (int k = 0; k <= DELTA_OPTIMIZER_MAX_MOMENTS; ++k) dtypes[k] = DELTA_DTYPE_FLOAT32;
  delta_emit_exprs(emit, &c.b, dtypes, c.inputs, c.input_count, outputs);
  update->next_parameter = outputs[0];
  for (uint32_t k = 0; k < delta_optimizer_moment_count(options); ++k) update->next_moments[k] = outputs[k + 1];
}

// Squares of float32 values pass its range from 2^64 on, where they would sum to infinity. So a gradient has two sums: of the squares of ordinary
// values, and of the squares of huge ones (and of those that are no numbers) scaled down by a power of two, which changes no bit of them.
enum { HUGE_EXPONENT = 60, SCALE_EXPONENT = 70 };

// The two sums of one gradient, float64 scalars.
static void square_sums(delta_emit_t *emit, delta_tensor_id_t x, delta_tensor_id_t out_sums[2]) {
  static const delta_dtype_t dtypes[2] = {DELTA_DTYPE_FLOAT64, DELTA_DTYPE_FLOAT64};
  const uint32_t axes = (1u << delta_emit_shape(emit, x)->rank) - 1u;
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT32);
  const uint16_t value = delta_expr_input(&b, 0), none = delta_expr_real(&b, 0.0);
  const uint16_t magnitude = delta_expr_unary(&b, DELTA_EXPR_ABS, value);
  const uint16_t is_ordinary = delta_expr_binary(&b, DELTA_EXPR_LT, magnitude, delta_expr_real(&b, ldexp(1, HUGE_EXPONENT)));
  const uint16_t ordinary = delta_expr_select(&b, is_ordinary, value, none);
  const uint16_t scaled_down = delta_expr_binary(&b, DELTA_EXPR_MUL, value, delta_expr_real(&b, ldexp(1, -SCALE_EXPONENT)));
  const uint16_t huge = delta_expr_select(&b, is_ordinary, none, scaled_down);
  delta_expr_output(&b, delta_expr_binary(&b, DELTA_EXPR_MUL, ordinary, ordinary));
  delta_expr_output(&b, delta_expr_binary(&b, DELTA_EXPR_MUL, huge, huge));
  delta_emit_reduce_exprs(emit, DELTA_REDUCE_SUM, &b, dtypes, &x, 1, axes, out_sums);
  for (int k = 0; k < 2; ++k) out_sums[k] = delta_emit_view(emit, out_sums[k], &(delta_shape_t){0});
}

// Adds up to DELTA_EXPR_MAX_INPUTS float64 scalars, one of which may be the sum so far.
static delta_tensor_id_t sum_scalars(delta_emit_t *emit, const delta_tensor_id_t *scalars, uint32_t count) {
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT64);
  uint16_t sum = delta_expr_input(&b, 0);
  for (uint32_t k = 1; k < count; ++k) sum = delta_expr_binary(&b, DELTA_EXPR_ADD, sum, delta_expr_input(&b, (uint16_t)k));
  delta_expr_output(&b, sum);
  return count == 1 ? scalars[0] : delta_emit_expr(emit, &b, DELTA_DTYPE_FLOAT64, scalars, count);
}

// sqrt(ordinary + huge * 2^(2 * SCALE_EXPONENT)) * scale, in float64.
static delta_tensor_id_t emit_norm(delta_emit_t *emit, const delta_tensor_id_t sums[2], delta_tensor_id_t scale) {
  const delta_tensor_id_t inputs[3] = {sums[0], sums[1], scale};
  const bool has_scale = !delta_tensor_is_none(scale);
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT64);
  const uint16_t ordinary = delta_expr_input(&b, 0);
  const uint16_t huge = delta_expr_binary(&b, DELTA_EXPR_MUL, delta_expr_input(&b, 1), delta_expr_real(&b, ldexp(1, 2 * SCALE_EXPONENT)));
  uint16_t norm = delta_expr_unary(&b, DELTA_EXPR_SQRT, delta_expr_binary(&b, DELTA_EXPR_ADD, ordinary, huge));
  if (has_scale) norm = delta_expr_binary(&b, DELTA_EXPR_MUL, norm, delta_expr_input(&b, 2));
  delta_expr_output(&b, norm);
  return delta_emit_expr(emit, &b, DELTA_DTYPE_FLOAT64, inputs, has_scale ? 3 : 2);
}

delta_tensor_id_t delta_optimizer_gradient_norm(delta_emit_t *emit, const delta_tensor_id_t *gradients, size_t count,
                                                delta_tensor_id_t scale) {
  delta_tensor_id_t pending[2][DELTA_EXPR_MAX_INPUTS], sums[2];
  uint32_t pending_count = 0;
  for (size_t i = 0; i < count; ++i) {
    if (pending_count == DELTA_EXPR_MAX_INPUTS) {
      for (int k = 0; k < 2; ++k) pending[k][0] = sum_scalars(emit, pending[k], pending_count);
      pending_count = 1;
    }
    square_sums(emit, gradients[i], sums);
    for (int k = 0; k < 2; ++k) pending[k][pending_count] = sums[k];
    ++pending_count;
  }
  for (int k = 0; k < 2; ++k) sums[k] = sum_scalars(emit, pending[k], pending_count);
  return emit_norm(emit, sums, scale);
}

delta_tensor_id_t delta_optimizer_clip_scale(delta_emit_t *emit, delta_tensor_id_t norm, double limit, delta_tensor_id_t scale) {
  const delta_tensor_id_t inputs[2] = {norm, scale};
  const bool scaled_too = !delta_tensor_is_none(scale);
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT64);
  const uint16_t length = delta_expr_input(&b, 0);
  const uint16_t divisor = delta_expr_binary(&b, DELTA_EXPR_ADD, length, delta_expr_real(&b, 1e-6));
  const uint16_t quotient = delta_expr_binary(&b, DELTA_EXPR_DIV, delta_expr_real(&b, limit), divisor);
  uint16_t factor = delta_expr_binary(&b, DELTA_EXPR_MIN, quotient, delta_expr_real(&b, 1.0));
  if (scaled_too) factor = delta_expr_binary(&b, DELTA_EXPR_MUL, factor, delta_expr_input(&b, 1));
  delta_expr_output(&b, factor);
  return delta_emit_expr(emit, &b, DELTA_DTYPE_FLOAT32, inputs, scaled_too ? 2 : 1);
}
