// Conventions of gradients where the derivative is not defined, what gradients read, and what has none.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "onnx/gradient/gradient.h"
#include "onnx/reference/run.h"

typedef struct fixture {
  delta_graph_t *graph;
  delta_emit_t emit;
} fixture_t;

static void succeed(delta_status_t status) { cr_assert_null(status, "%s", delta_status_message(status)); }

static void start(fixture_t *f) {
  succeed(delta_graph_create(delta_allocator_system(), &f->graph));
  delta_emit_init(&f->emit, f->graph);
  f->emit.name = "node";
}

static delta_tensor_id_t input(fixture_t *f, const char *name, delta_shape_t shape) {
  delta_tensor_id_t id;
  succeed(delta_graph_add_input(f->graph, name, DELTA_DTYPE_FLOAT32, &shape, &id));
  return id;
}

static delta_tensor_id_t total(fixture_t *f, delta_tensor_id_t x) { return delta_emit_sum_to(&f->emit, x, &(delta_shape_t){0}); }

static void differentiate(fixture_t *f, delta_tensor_id_t y, const delta_tensor_id_t *xs, size_t count, delta_tensor_id_t *gradients) {
  const delta_tensor_id_t one = delta_emit_scalar(&f->emit, DELTA_DTYPE_FLOAT32, 1.0);
  succeed(delta_autodiff(&f->emit, y, one, xs, count, DELTA_LEVERS_ALL, gradients));
}

// One value of an instruction of one or two operands, and the gradients that must come out exactly.
typedef struct convention {
  delta_expr_op_t op;
  float a, b;
  float by_a, by_b;
} convention_t;
static const convention_t conventions[] = {
    {DELTA_EXPR_RELU, 0.0f, 0.0f, 0.0f, 0.0f},       {DELTA_EXPR_RELU, -0.0f, 0.0f, 0.0f, 0.0f}, {DELTA_EXPR_ABS, 0.0f, 0.0f, 0.0f, 0.0f},
    {DELTA_EXPR_MAX, 2.0f, 2.0f, 0.5f, 0.5f},        {DELTA_EXPR_MIN, 2.0f, 2.0f, 0.5f, 0.5f},   {DELTA_EXPR_MAX, 3.0f, 2.0f, 1.0f, 0.0f},
    {DELTA_EXPR_MIN, 3.0f, 2.0f, 0.0f, 1.0f},        {DELTA_EXPR_POW, 0.0f, 0.0f, 0.0f, 0.0f},   {DELTA_EXPR_POW, 0.0f, 2.0f, 0.0f, 0.0f},
    {DELTA_EXPR_POW, 2.0f, 0.0f, 0.0f, 0.69314718f}, {DELTA_EXPR_SIGN, 0.0f, 0.0f, 0.0f, 0.0f},  {DELTA_EXPR_MOD, 7.0f, 2.0f, 1.0f, -3.0f},
    {DELTA_EXPR_MOD, -7.0f, 2.0f, 1.0f, 4.0f},       {DELTA_EXPR_FMOD, -7.0f, 2.0f, 1.0f, 3.0f},
};

Test(gradient, conventions_at_kinks) {
  for (size_t k = 0; k < sizeof conventions / sizeof conventions[0]; ++k) {
    const convention_t *c = &conventions[k];
    fixture_t f;
    start(&f);
    const delta_tensor_id_t xs[2] = {input(&f, "a", (delta_shape_t){0}), input(&f, "b", (delta_shape_t){0})};
    const bool unary = delta_expr_op_info(c->op)->arity == 1;
    const delta_tensor_id_t y = unary ? delta_emit_unary(&f.emit, c->op, xs[0]) : delta_emit_binary(&f.emit, c->op, xs[0], xs[1]);
    delta_tensor_id_t gradients[2];
    differentiate(&f, y, xs, unary ? 1 : 2, gradients);
    delta_reference_values_t values;
    succeed(delta_reference_values_init(f.graph, delta_allocator_system(), &values));
    *(float *)delta_reference_value(&values, xs[0]) = c->a;
    *(float *)delta_reference_value(&values, xs[1]) = c->b;
    succeed(delta_reference_run_graph(&values));
    const float wanted[2] = {c->by_a, c->by_b};
    for (int i = 0; i < (unary ? 1 : 2); ++i) {
      const float found = delta_tensor_is_none(gradients[i]) ? 0.0f : *(const float *)delta_reference_value(&values, gradients[i]);
      cr_assert_float_eq(found, wanted[i], 1e-6, "%s(%g, %g): gradient %d is %g, not %g", delta_expr_op_info(c->op)->name, (double)c->a,
                         (double)c->b, i, (double)found, (double)wanted[i]);
    }
    delta_reference_values_deinit(&values);
    delta_graph_free(f.graph);
  }
}

// Runs the gradient of the sum of y by one input of four elements.
static void gradient_of_four(fixture_t *f, delta_tensor_id_t y, delta_tensor_id_t x, const float data[4], float out[4]) {
  delta_tensor_id_t gradient;
  differentiate(f, total(f, y), &x, 1, &gradient);
  delta_reference_values_t values;
  succeed(delta_reference_values_init(f->graph, delta_allocator_system(), &values));
  memcpy(delta_reference_value(&values, x), data, 4 * sizeof *data);
  succeed(delta_reference_run_graph(&values));
  memcpy(out, delta_reference_value(&values, gradient), 4 * sizeof *out);
  delta_reference_values_deinit(&values);
  delta_graph_free(f->graph);
}

Test(gradient, bounds_of_a_clip_pass_the_gradient) {
  fixture_t f;
  start(&f);
  const delta_tensor_id_t x = input(&f, "x", (delta_shape_t){.rank = 1, .dims = {4}});
  const delta_tensor_id_t low = delta_emit_binary_real(&f.emit, DELTA_EXPR_MAX, x, 0.0);
  const delta_tensor_id_t y = delta_emit_binary_real(&f.emit, DELTA_EXPR_MIN, low, 6.0);
  float found[4];
  gradient_of_four(&f, y, x, (const float[4]){-1.0f, 0.0f, 6.0f, 7.0f}, found);
  cr_assert(found[0] == 0.0f && found[1] == 1.0f && found[2] == 1.0f && found[3] == 0.0f);
}

Test(gradient, ties_of_a_maximum_share) {
  fixture_t f;
  start(&f);
  const delta_tensor_id_t x = input(&f, "x", (delta_shape_t){.rank = 1, .dims = {4}});
  float found[4];
  gradient_of_four(&f, delta_emit_reduce(&f.emit, DELTA_REDUCE_MAX, x, 1), x, (const float[4]){3.0f, 1.0f, 3.0f, 2.0f}, found);
  cr_assert(found[0] == 0.5f && found[1] == 0.0f && found[2] == 0.5f && found[3] == 0.0f);
}

// x * w * w ..., in one expression whose derivative does not fit into one.
static delta_tensor_id_t long_product(fixture_t *f, delta_tensor_id_t x, delta_tensor_id_t w, int factors) {
  const delta_tensor_id_t inputs[2] = {x, w};
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT32);
  uint16_t product = delta_expr_input(&b, 0);
  const uint16_t factor = delta_expr_input(&b, 1);
  for (int i = 0; i < factors; ++i) product = delta_expr_binary(&b, DELTA_EXPR_MUL, product, factor);
  delta_expr_output(&b, product);
  cr_assert_not(b.overflow);
  return delta_emit_expr(&f->emit, &b, DELTA_DTYPE_FLOAT32, inputs, 2);
}

// One parameter in a chain of such nodes: each node's gradient is that of the node alone. What flows through the nodes before it is counted
// by their own gradients, and is not walked again for every node.
Test(gradient, long_expressions_in_a_chain_count_each_use_once) {
  enum { NODES = 200, FACTORS = 60 };
  fixture_t f;
  start(&f);
  const delta_tensor_id_t w = input(&f, "w", (delta_shape_t){.rank = 1, .dims = {4}});
  delta_tensor_id_t y = w;
  for (int i = 0; i < NODES; ++i) y = long_product(&f, y, w, FACTORS);
  float found[4];
  gradient_of_four(&f, y, w, (const float[4]){1.0f, 1.0f, 0.0f, -1.0f}, found);
  const float degree = NODES * FACTORS + 1;
  cr_assert(found[0] == degree && found[1] == degree && found[2] == 0.0f && found[3] == degree, "%g %g %g %g", (double)found[0],
            (double)found[1], (double)found[2], (double)found[3]);
}

// Which of the forward node's tensors the backward nodes read.
static bool backward_reads(const delta_graph_t *graph, delta_tensor_id_t id) {
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    for (uint32_t k = 0; node->phase == DELTA_PHASE_BACKWARD && k < node->input_count; ++k) {
      if (delta_tensor_same(node->inputs[k], id)) return true;
    }
  }
  return false;
}

Test(gradient, cheap_results_are_read_instead_of_operands) {
  static const delta_expr_op_t ops[] = {DELTA_EXPR_RELU, DELTA_EXPR_TANH, DELTA_EXPR_SIGMOID,    DELTA_EXPR_EXP,
                                        DELTA_EXPR_SQRT, DELTA_EXPR_TAN,  DELTA_EXPR_RECIPROCAL, DELTA_EXPR_EXPM1};
  for (size_t k = 0; k < sizeof ops / sizeof ops[0]; ++k) {
    fixture_t f;
    start(&f);
    const delta_tensor_id_t x = input(&f, "x", (delta_shape_t){.rank = 1, .dims = {4}});
    const delta_tensor_id_t y = delta_emit_unary(&f.emit, ops[k], x);
    delta_tensor_id_t gradient;
    differentiate(&f, total(&f, y), &x, 1, &gradient);
    cr_assert(!backward_reads(f.graph, x) && backward_reads(f.graph, y), "%s", delta_expr_op_info(ops[k])->name);
    delta_graph_free(f.graph);
  }
}

// relu(x * scale): the gradient by the scale reads x, so the output need not be kept.
Test(gradient, inputs_that_are_read_anyway_spare_the_output) {
  fixture_t f;
  start(&f);
  const delta_tensor_id_t xs[2] = {input(&f, "x", (delta_shape_t){.rank = 2, .dims = {8, 4}}),
                                   input(&f, "scale", (delta_shape_t){.rank = 1, .dims = {4}})};
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT32);
  const uint16_t x = delta_expr_input(&b, 0), scale = delta_expr_input(&b, 1);
  delta_expr_output(&b, delta_expr_unary(&b, DELTA_EXPR_RELU, delta_expr_binary(&b, DELTA_EXPR_MUL, x, scale)));
  const delta_tensor_id_t y = delta_emit_expr(&f.emit, &b, DELTA_DTYPE_FLOAT32, xs, 2);
  delta_tensor_id_t gradients[2];
  differentiate(&f, total(&f, y), xs, 2, gradients);
  cr_assert(backward_reads(f.graph, xs[0]) && !backward_reads(f.graph, y));
  delta_graph_free(f.graph);
}

// The gradient of a sum is the gradient itself, and that of a broadcast operand one reduction: nothing of full size is made.
Test(gradient, sums_copy_nothing) {
  fixture_t f;
  start(&f);
  const delta_tensor_id_t xs[2] = {input(&f, "x", (delta_shape_t){.rank = 2, .dims = {8, 4}}),
                                   input(&f, "bias", (delta_shape_t){.rank = 1, .dims = {4}})};
  const delta_tensor_id_t y = delta_emit_binary(&f.emit, DELTA_EXPR_ADD, xs[0], xs[1]);
  const delta_tensor_id_t squares = delta_emit_binary(&f.emit, DELTA_EXPR_MUL, y, y);
  delta_tensor_id_t gradients[2];
  differentiate(&f, total(&f, squares), xs, 2, gradients);
  const delta_node_t *by_x = delta_graph_node(f.graph, delta_graph_tensor(f.graph, gradients[0])->producer);
  cr_assert_str_eq(by_x->name, "node/gradient");
  const delta_tensor_t *by_bias = delta_graph_tensor(f.graph, delta_graph_tensor(f.graph, gradients[1])->storage);
  const delta_node_t *sum = delta_graph_node(f.graph, by_bias->producer);
  cr_assert_eq(sum->op, DELTA_CORE_REDUCE);
  cr_assert(delta_tensor_same(sum->inputs[0], gradients[0]));
  delta_graph_free(f.graph);
}

static void expect_unsupported(fixture_t *f, delta_tensor_id_t y, delta_tensor_id_t x, const char *text) {
  const delta_tensor_id_t one = delta_emit_scalar(&f->emit, DELTA_DTYPE_FLOAT32, 1.0);
  delta_tensor_id_t gradient;
  const delta_status_t status = delta_autodiff(&f->emit, y, one, &x, 1, DELTA_LEVERS_ALL, &gradient);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_UNSUPPORTED);
  cr_assert_not_null(strstr(delta_status_message(status), text), "%s", delta_status_message(status));
  delta_status_free(status);
  delta_graph_free(f->graph);
}

Test(gradient, what_has_none_is_named) {
  fixture_t f;
  start(&f);
  delta_tensor_id_t x = input(&f, "x", (delta_shape_t){.rank = 1, .dims = {4}});
  const delta_softmax_attrs_t softmax = {0};
  f.emit.name = "first";
  delta_tensor_id_t y = DELTA_EMIT(&f.emit, SOFTMAX_GRAD, softmax, x, x);
  f.emit.name = "second";
  y = DELTA_EMIT(&f.emit, SOFTMAX_GRAD, softmax, y, x);
  expect_unsupported(&f, total(&f, y), x, "2 nodes between the trained weights and the loss: 'first' (softmax_grad), 'second'");

  start(&f);
  x = input(&f, "x", (delta_shape_t){.rank = 1, .dims = {4}});
  const delta_scatter_attrs_t scatter = {.kind = DELTA_SCATTER_MUL};
  const delta_tensor_id_t indices = delta_emit_int64s(&f.emit, (const int64_t[2]){0, 1}, 2);
  const delta_tensor_id_t updates = input(&f, "u", (delta_shape_t){.rank = 1, .dims = {2}});
  y = DELTA_EMIT(&f.emit, SCATTER_ELEMENTS, scatter, x, indices, updates);
  expect_unsupported(&f, total(&f, y), x, "node 'node': scatter_elements with reduction 'mul' has no gradient");
}

Test(gradient, integers_and_detours_carry_none) {
  fixture_t f;
  start(&f);
  const delta_tensor_id_t xs[2] = {input(&f, "x", (delta_shape_t){.rank = 1, .dims = {4}}),
                                   input(&f, "unused", (delta_shape_t){.rank = 1, .dims = {4}})};
  const delta_tensor_id_t whole = delta_emit_cast(&f.emit, delta_emit_cast(&f.emit, xs[0], DELTA_DTYPE_INT64), DELTA_DTYPE_FLOAT32);
  delta_tensor_id_t gradients[2];
  differentiate(&f, total(&f, whole), xs, 2, gradients);
  cr_assert(delta_tensor_is_none(gradients[0]) && delta_tensor_is_none(gradients[1]));
  delta_graph_free(f.graph);
}
