// Optimizers: updates through the reference kernels against the formulas in float64, several steps each; clipping by the global norm; options that do not fit.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "onnx/optimizer.h"
#include "onnx/reference/run.h"

enum { COUNT = 6, STEPS = 4, MOMENTS = DELTA_OPTIMIZER_MAX_MOMENTS };

static void succeed(delta_status_t status) { cr_assert_null(status, "%s", delta_status_message(status)); }

// One parameter's values in float64.
typedef struct plain {
  double p[COUNT], m[MOMENTS][COUNT];
  int step; // from 1
} plain_t;

typedef void (*formula_t)(plain_t *x, const double *gradient, double rate, const delta_optimizer_options_t *o);

static void plain_sgd(plain_t *x, const double *gradient, double rate, const delta_optimizer_options_t *o) {
  for (int i = 0; i < COUNT; ++i) {
    const double g = gradient[i] + o->weight_decay * x->p[i];
    // As PyTorch states it: the buffer begins as the first gradient.
    x->m[0][i] = x->step == 1 ? g : o->momentum * x->m[0][i] + g;
    const double direction = o->momentum == 0.0 ? g : o->nesterov ? g + o->momentum * x->m[0][i] : x->m[0][i];
    x->p[i] -= rate * direction;
  }
}

static void plain_adam(plain_t *x, const double *gradient, double rate, const delta_optimizer_options_t *o) {
  for (int i = 0; i < COUNT; ++i) {
    const bool decoupled = o->kind == DELTA_OPTIMIZER_ADAMW;
    const double g = gradient[i] + (decoupled ? 0.0 : o->weight_decay * x->p[i]);
    if (decoupled) x->p[i] *= 1.0 - rate * o->weight_decay;
    x->m[0][i] = o->beta1 * x->m[0][i] + (1.0 - o->beta1) * g;
    x->m[1][i] = o->beta2 * x->m[1][i] + (1.0 - o->beta2) * g * g;
    const double first = 1.0 - pow(o->beta1, x->step), second = 1.0 - pow(o->beta2, x->step);
    x->p[i] -= rate / first * x->m[0][i] / (sqrt(x->m[1][i]) / sqrt(second) + o->epsilon);
  }
}

static void plain_adagrad(plain_t *x, const double *gradient, double rate, const delta_optimizer_options_t *o) {
  for (int i = 0; i < COUNT; ++i) {
    const double g = gradient[i] + o->weight_decay * x->p[i];
    x->m[0][i] += g * g;
    x->p[i] -= rate * g / (sqrt(x->m[0][i]) + o->epsilon);
  }
}

static void plain_rmsprop(plain_t *x, const double *gradient, double rate, const delta_optimizer_options_t *o) {
  for (int i = 0; i < COUNT; ++i) {
    const double g = gradient[i] + o->weight_decay * x->p[i];
    x->m[0][i] = o->beta2 * x->m[0][i] + (1.0 - o->beta2) * g * g;
    const double direction = g / (sqrt(x->m[0][i]) + o->epsilon);
    x->m[1][i] = o->momentum * x->m[1][i] + direction;
    x->p[i] -= rate * (o->momentum == 0.0 ? direction : x->m[1][i]);
  }
}

static void plain_lamb(plain_t *x, const double *gradient, double rate, const delta_optimizer_options_t *o) {
  double u[COUNT], weight = 0.0, length = 0.0;
  for (int i = 0; i < COUNT; ++i) {
    x->m[0][i] = o->beta1 * x->m[0][i] + (1.0 - o->beta1) * gradient[i];
    x->m[1][i] = o->beta2 * x->m[1][i] + (1.0 - o->beta2) * gradient[i] * gradient[i];
    const double m = x->m[0][i] / (1.0 - pow(o->beta1, x->step)), v = x->m[1][i] / (1.0 - pow(o->beta2, x->step));
    u[i] = m / (sqrt(v) + o->epsilon) + o->weight_decay * x->p[i];
    weight += x->p[i] * x->p[i];
    length += u[i] * u[i];
  }
  const double trust = weight > 0.0 && length > 0.0 ? sqrt(weight) / sqrt(length) : 1.0;
  for (int i = 0; i < COUNT; ++i) x->p[i] -= rate * trust * u[i];
}

typedef struct optimizer_case {
  const char *name;
  formula_t formula;
  delta_optimizer_options_t options;
  bool zero_start; // the parameter starts at 0
} optimizer_case_t;

static const optimizer_case_t cases[] = {
    {"sgd", plain_sgd, {.kind = DELTA_OPTIMIZER_SGD}, false},
    {"sgd, decay", plain_sgd, {.kind = DELTA_OPTIMIZER_SGD, .weight_decay = 0.1}, false},
    {"sgd, momentum", plain_sgd, {.kind = DELTA_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 0.1}, false},
    {"sgd, nesterov", plain_sgd, {.kind = DELTA_OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1}, false},
    {"adam", plain_adam, {.kind = DELTA_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}, false},
    {"adam, decay", plain_adam, {.kind = DELTA_OPTIMIZER_ADAM, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-3, .weight_decay = 0.1}, false},
    {"adamw", plain_adam, {.kind = DELTA_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1}, false},
    {"adamw, no decay", plain_adam, {.kind = DELTA_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}, false},
    {"adagrad", plain_adagrad, {.kind = DELTA_OPTIMIZER_ADAGRAD, .epsilon = 1e-10, .weight_decay = 0.1}, false},
    {"rmsprop", plain_rmsprop, {.kind = DELTA_OPTIMIZER_RMSPROP, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1}, false},
    {"rmsprop, momentum", plain_rmsprop, {.kind = DELTA_OPTIMIZER_RMSPROP, .beta2 = 0.99, .epsilon = 1e-3, .momentum = 0.9}, false},
    {"lamb", plain_lamb, {.kind = DELTA_OPTIMIZER_LAMB, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6, .weight_decay = 0.1}, false},
    {"lamb from zero", plain_lamb, {.kind = DELTA_OPTIMIZER_LAMB, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6}, true},
};

typedef struct fixture {
  delta_graph_t *graph;
  delta_emit_t emit;
  delta_tensor_id_t rate, gradient;
  uint32_t parameter, step, moments[MOMENTS];
} fixture_t;

static uint32_t add_state(fixture_t *f, const char *name, delta_dtype_t dtype, delta_shape_t shape) {
  uint32_t index;
  succeed(delta_graph_add_state(f->graph, &(delta_state_t){.name = name, .dtype = dtype, .shape = shape, .initializer = DELTA_INDEX_NONE},
                                &index));
  return index;
}

static delta_tensor_id_t current(const fixture_t *f, uint32_t state) { return f->graph->states.items[state].current; }

static void build(fixture_t *f, const delta_optimizer_options_t *options) {
  const delta_shape_t shape = {.rank = 2, .dims = {2, 3}}, scalar = {0};
  succeed(delta_graph_create(delta_allocator_system(), &f->graph));
  delta_emit_init(&f->emit, f->graph);
  f->emit.phase = DELTA_PHASE_UPDATE;
  succeed(delta_graph_add_input(f->graph, "rate", DELTA_DTYPE_FLOAT32, &scalar, &f->rate));
  succeed(delta_graph_add_input(f->graph, "gradient", DELTA_DTYPE_FLOAT32, &shape, &f->gradient));
  f->parameter = add_state(f, "p", DELTA_DTYPE_FLOAT32, shape);
  f->step = add_state(f, "step", DELTA_DTYPE_INT64, scalar);
  delta_optimizer_update_t update = {.parameter = current(f, f->parameter), .gradient = f->gradient};
  const uint32_t count = delta_optimizer_moment_count(options);
  for (uint32_t k = 0; k < count; ++k) {
    f->moments[k] = add_state(f, delta_optimizer_moment_name(options, k), DELTA_DTYPE_FLOAT32, shape);
    update.moments[k] = current(f, f->moments[k]);
  }
  const delta_optimizer_shared_t shared = delta_optimizer_prepare(&f->emit, options, f->rate, current(f, f->step));
  delta_optimizer_emit(&f->emit, options, &shared, &update);
  const delta_tensor_id_t step = delta_emit_binary_real(&f->emit, DELTA_EXPR_ADD, current(f, f->step), 1.0);
  succeed(delta_emit_finish(&f->emit));
  succeed(delta_graph_set_next(f->graph, f->parameter, update.next_parameter));
  for (uint32_t k = 0; k < count; ++k) succeed(delta_graph_set_next(f->graph, f->moments[k], update.next_moments[k]));
  succeed(delta_graph_set_next(f->graph, f->step, step));
  succeed(delta_graph_check(f->graph));
}

static void compare(const char *name, int step, const char *what, const float *found, const double *wanted) {
  for (int i = 0; i < COUNT; ++i) {
    cr_assert(fabs((double)found[i] - wanted[i]) <= 2e-6 * fmax(1.0, fabs(wanted[i])), "%s, step %d: %s[%d] is %.9g, not %.9g", name, step,
              what, i, (double)found[i], wanted[i]);
  }
}

static void run_optimizer(const optimizer_case_t *c) {
  fixture_t f;
  build(&f, &c->options);
  delta_reference_values_t values;
  succeed(delta_reference_values_init(f.graph, delta_allocator_system(), &values));
  plain_t plain = {0};
  float *p = delta_reference_value(&values, current(&f, f.parameter)), *g = delta_reference_value(&values, f.gradient);
  for (int i = 0; i < COUNT; ++i) {
    p[i] = c->zero_start ? 0.0f : 0.5f * (float)i - 1.0f;
    plain.p[i] = (double)p[i];
  }
  for (int step = 1; step <= STEPS; ++step) {
    double gradient[COUNT];
    const float rate = 0.1f / (float)step;
    for (int i = 0; i < COUNT; ++i) {
      g[i] = sinf((float)(step * 7 + i * 3));
      gradient[i] = (double)g[i];
    }
    *(float *)delta_reference_value(&values, f.rate) = rate;
    plain.step = step;
    c->formula(&plain, gradient, (double)rate, &c->options);
    succeed(delta_reference_run_graph(&values));
    succeed(delta_reference_advance_states(&values));
    compare(c->name, step, "parameter", p, plain.p);
    for (uint32_t k = 0; k < delta_optimizer_moment_count(&c->options); ++k) {
      compare(c->name, step, delta_optimizer_moment_name(&c->options, k), delta_reference_value(&values, current(&f, f.moments[k])),
              plain.m[k]);
    }
  }
  delta_reference_values_deinit(&values);
  delta_graph_free(f.graph);
}

Test(optimizer, follows_its_formula) {
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; ++k) run_optimizer(&cases[k]);
}

// What a state becomes is an output of a POINTWISE node of the update phase that nobody reads.
Test(optimizer, next_values_are_read_by_nobody) {
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; ++k) {
    fixture_t f;
    build(&f, &cases[k].options);
    for (size_t s = 0; s < f.graph->states.count; ++s) {
      const delta_tensor_id_t next = f.graph->states.items[s].next;
      const delta_node_t *producer = delta_graph_node(f.graph, delta_graph_tensor(f.graph, next)->producer);
      cr_assert(producer->op == DELTA_CORE_POINTWISE && producer->phase == DELTA_PHASE_UPDATE, "%s", cases[k].name);
      for (size_t n = 0; n < f.graph->nodes.count; ++n) {
        const delta_node_t *node = &f.graph->nodes.items[n];
        for (uint32_t i = 0; i < node->input_count; ++i) cr_assert(!delta_tensor_same(node->inputs[i], next), "%s", cases[k].name);
      }
    }
    delta_graph_free(f.graph);
  }
}

typedef struct clip_case {
  size_t tensors;
  double value; // of every element
  double limit, scale;
} clip_case_t;

Test(optimizer, clips_by_the_global_norm) {
  enum { MOST = 40 };
  static const clip_case_t clips[] = {{1, 3.0, 1.0, 0.0},
                                      {3, 0.001, 1.0, 0.0},
                                      {MOST, 0.5, 2.0, 0.0},
                                      {17, 8.0, 2.0, 0.125},
                                      {2, 1e-5, 1e-6, 0.0},
                                      {3, 1e20, 1.0, 0.0},
                                      {1, 1.152921504606847e18, 5.0, 0.0},
                                      {2, 3e38, 1e30, 0.0}};
  for (size_t k = 0; k < sizeof clips / sizeof clips[0]; ++k) {
    const clip_case_t *c = &clips[k];
    delta_graph_t *graph;
    delta_emit_t emit;
    delta_tensor_id_t gradients[MOST];
    succeed(delta_graph_create(delta_allocator_system(), &graph));
    delta_emit_init(&emit, graph);
    for (size_t i = 0; i < c->tensors; ++i) {
      char name[32];
      snprintf(name, sizeof name, "g%zu", i);
      succeed(delta_graph_add_input(graph, name, DELTA_DTYPE_FLOAT32, &(delta_shape_t){.rank = 1, .dims = {4}}, &gradients[i]));
    }
    const delta_tensor_id_t scale = c->scale != 0.0 ? delta_emit_scalar(&emit, DELTA_DTYPE_FLOAT32, c->scale) : DELTA_TENSOR_NONE;
    const delta_tensor_id_t norm = delta_optimizer_gradient_norm(&emit, gradients, c->tensors, scale);
    const delta_tensor_id_t factor = delta_optimizer_clip_scale(&emit, norm, c->limit, scale);
    succeed(delta_emit_finish(&emit));
    delta_reference_values_t values;
    succeed(delta_reference_values_init(graph, delta_allocator_system(), &values));
    for (size_t i = 0; i < c->tensors; ++i) {
      for (int e = 0; e < 4; ++e) ((float *)delta_reference_value(&values, gradients[i]))[e] = (float)c->value;
    }
    succeed(delta_reference_run_graph(&values));
    const double multiplier = c->scale != 0.0 ? c->scale : 1.0;
    const double wanted = sqrt((double)c->tensors * 4.0) * c->value * multiplier;
    cr_assert_float_eq(*(double *)delta_reference_value(&values, norm), wanted, 1e-5 * wanted);
    const double wanted_factor = fmin(c->limit / (wanted + 1e-6), 1.0) * multiplier;
    cr_assert_float_eq((double)*(float *)delta_reference_value(&values, factor), wanted_factor, 1e-5 * wanted_factor);
    delta_reference_values_deinit(&values);
    delta_graph_free(graph);
  }
}

typedef struct option_case {
  delta_optimizer_options_t options;
  const char *text; // of the message; NULL: legal
} option_case_t;

Test(optimizer, names_options_that_do_not_fit) {
  static const option_case_t options[] = {
      {{.kind = DELTA_OPTIMIZER_SGD, .nesterov = true}, "--nesterov"},
      {{.kind = DELTA_OPTIMIZER_ADAM, .momentum = 0.9}, "--momentum goes with sgd and rmsprop, not with adam"},
      {{.kind = DELTA_OPTIMIZER_SGD, .momentum = -1.0}, "--momentum is -1"},
      {{.kind = DELTA_OPTIMIZER_ADAM, .beta1 = 1.0}, "--beta1 is 1"},
      {{.kind = DELTA_OPTIMIZER_ADAM, .beta2 = -0.1}, "--beta2 is -0.1"},
      {{.kind = DELTA_OPTIMIZER_SGD, .weight_decay = NAN}, "--weight-decay is"},
      {{.kind = DELTA_OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true}, NULL},
  };
  for (size_t k = 0; k < sizeof options / sizeof options[0]; ++k) {
    const delta_status_t status = delta_optimizer_check(&options[k].options);
    if (options[k].text == NULL) {
      succeed(status);
      continue;
    }
    cr_assert_eq(delta_status_code(status), DELTA_STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(delta_status_message(status), options[k].text), "%s", delta_status_message(status));
    delta_status_free(status);
  }
  for (int kind = DELTA_OPTIMIZER_SGD; kind < DELTA_OPTIMIZER_COUNT; ++kind) {
    const delta_optimizer_options_t defaults = delta_optimizer_defaults((delta_optimizer_t)kind);
    succeed(delta_optimizer_check(&defaults));
  }
}
