// Products added to sums and biases as they are made: which additions are rewritten, and that values stay.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "onnx/graph/accumulate.h"
#include "onnx/graph/emit.h"
#include "onnx/reference/run.h"

#define SHAPE(rank_, ...) ((delta_shape_t){.rank = (rank_), .dims = {__VA_ARGS__}})

typedef struct fixture {
  delta_graph_t *graph;
  delta_emit_t emit;
  uint32_t input_count;
} fixture_t;

static void expect_ok(delta_status_t status, const char *what) {
  cr_assert_eq(status, DELTA_OK, "%s: %s", what, delta_status_message(status));
  delta_status_free(status);
}

static delta_tensor_id_t input(fixture_t *f, delta_shape_t shape) {
  char name[16];
  snprintf(name, sizeof name, "x%u", f->input_count++);
  delta_tensor_id_t id;
  expect_ok(delta_graph_add_input(f->graph, name, DELTA_DTYPE_FLOAT64, &shape, &id), name);
  return id;
}
static delta_tensor_id_t product(fixture_t *f) {
  return delta_emit_matmul(&f->emit, input(f, SHAPE(2, 6, 5)), input(f, SHAPE(2, 4, 5)), false, true);
}
static delta_tensor_id_t plus(fixture_t *f, delta_tensor_id_t a, delta_tensor_id_t b) {
  return delta_emit_binary(&f->emit, DELTA_EXPR_ADD, a, b);
}

static delta_tensor_id_t build_one(fixture_t *f) { return plus(f, product(f), input(f, SHAPE(2, 6, 4))); }
static delta_tensor_id_t build_second_operand(fixture_t *f) { return plus(f, input(f, SHAPE(2, 6, 4)), product(f)); }
static delta_tensor_id_t build_three(fixture_t *f) { return plus(f, plus(f, product(f), product(f)), product(f)); }
static delta_tensor_id_t build_behind_views(fixture_t *f) {
  return plus(f, input(f, SHAPE(3, 2, 3, 4)), delta_emit_view(&f->emit, product(f), &SHAPE(3, 2, 3, 4)));
}
static delta_tensor_id_t build_made_later(fixture_t *f) {
  const delta_tensor_id_t first = product(f);
  return plus(f, first, delta_emit_unary(&f->emit, DELTA_EXPR_EXP, input(f, SHAPE(2, 6, 4))));
}
static delta_tensor_id_t build_read_twice(fixture_t *f) {
  const delta_tensor_id_t once = product(f);
  return delta_emit_binary(&f->emit, DELTA_EXPR_MUL, plus(f, once, input(f, SHAPE(2, 6, 4))), once);
}
static delta_tensor_id_t build_twice_itself(fixture_t *f) {
  const delta_tensor_id_t once = product(f);
  return plus(f, once, once);
}
static delta_tensor_id_t build_bias(fixture_t *f) { return plus(f, product(f), input(f, SHAPE(1, 4))); }
static delta_tensor_id_t build_bias_first(fixture_t *f) { return plus(f, input(f, SHAPE(2, 1, 4)), product(f)); }
static delta_tensor_id_t build_bias_behind_views(fixture_t *f) {
  return plus(f, delta_emit_view(&f->emit, product(f), &SHAPE(3, 2, 3, 4)), input(f, SHAPE(1, 4)));
}
static delta_tensor_id_t build_bias_of_other_columns(fixture_t *f) {
  return plus(f, delta_emit_view(&f->emit, product(f), &SHAPE(3, 6, 2, 2)), input(f, SHAPE(1, 2)));
}
static delta_tensor_id_t build_bias_of_rows(fixture_t *f) { return plus(f, product(f), input(f, SHAPE(2, 6, 1))); }
static delta_tensor_id_t build_scalar(fixture_t *f) { return plus(f, product(f), input(f, SHAPE(1, 1))); }
static delta_tensor_id_t build_bias_that_grows(fixture_t *f) { return plus(f, product(f), input(f, SHAPE(3, 2, 1, 4))); }
static delta_tensor_id_t build_bias_and_sum(fixture_t *f) { return plus(f, input(f, SHAPE(2, 6, 4)), build_bias(f)); }
static delta_tensor_id_t build_sum_and_bias(fixture_t *f) { return plus(f, build_one(f), input(f, SHAPE(1, 4))); }
static delta_tensor_id_t build_two_biases(fixture_t *f) { return plus(f, build_bias(f), input(f, SHAPE(1, 4))); }
static delta_tensor_id_t build_subtraction(fixture_t *f) {
  return delta_emit_binary(&f->emit, DELTA_EXPR_SUB, product(f), input(f, SHAPE(2, 6, 4)));
}
static delta_tensor_id_t build_update(fixture_t *f) {
  const delta_tensor_id_t term = product(f), state = input(f, SHAPE(2, 6, 4));
  f->emit.phase = DELTA_PHASE_UPDATE;
  return plus(f, state, term);
}

typedef struct sum_case {
  const char *name;
  delta_tensor_id_t (*build)(fixture_t *f);
  uint32_t biases, sums, additions; // wanted: products with a bias, products added to a sum, pointwise nodes
} sum_case_t;
static const sum_case_t cases[] = {
    {"one", build_one, 0, 1, 0},
    {"second operand", build_second_operand, 0, 1, 0},
    {"three products", build_three, 0, 2, 0},
    {"behind views", build_behind_views, 0, 1, 0},
    {"added to what is made later", build_made_later, 0, 1, 1},
    {"read twice", build_read_twice, 0, 0, 2},
    {"twice itself", build_twice_itself, 0, 0, 1},
    {"subtraction", build_subtraction, 0, 0, 1},
    {"update of a state", build_update, 0, 0, 1},
    {"bias", build_bias, 1, 0, 0},
    {"bias first", build_bias_first, 1, 0, 0},
    {"bias behind views", build_bias_behind_views, 1, 0, 0},
    {"bias of other columns", build_bias_of_other_columns, 0, 0, 1},
    {"bias of rows", build_bias_of_rows, 0, 0, 1},
    {"one number", build_scalar, 0, 0, 1},
    {"bias that broadcasts the product", build_bias_that_grows, 0, 0, 1},
    {"bias and sum", build_bias_and_sum, 1, 1, 0},
    {"sum and bias", build_sum_and_bias, 0, 1, 1},
    {"two biases", build_two_biases, 1, 0, 1},
};

static void run(const delta_graph_t *graph, delta_reference_values_t *values) {
  expect_ok(delta_reference_values_init(graph, delta_allocator_system(), values), "values");
  for (uint32_t k = 0; k < graph->inputs.count; ++k) {
    double *data = delta_reference_value(values, graph->inputs.items[k]);
    for (int64_t i = 0; i < delta_shape_count(&delta_graph_tensor(graph, graph->inputs.items[k])->shape); ++i) {
      data[i] = (double)delta_random_uniform(delta_random_word(k + 1, (uint64_t)i)) - 0.5;
    }
  }
  expect_ok(delta_reference_run_graph(values), "run");
}

static void run_case(const sum_case_t *c) {
  fixture_t f = {0};
  expect_ok(delta_graph_create(delta_allocator_system(), &f.graph), c->name);
  delta_emit_init(&f.emit, f.graph);
  f.emit.name = c->name;
  const delta_tensor_id_t y = c->build(&f);
  expect_ok(delta_emit_finish(&f.emit), c->name);
  expect_ok(delta_graph_add_output(f.graph, "y", y), c->name);
  delta_graph_t *with_biases = NULL, *rewritten = NULL;
  expect_ok(delta_graph_accumulate(f.graph, DELTA_ACCUMULATE_BIASES, delta_allocator_system(), &with_biases), c->name);
  expect_ok(delta_graph_accumulate(with_biases, DELTA_ACCUMULATE_SUMS, delta_allocator_system(), &rewritten), c->name);
  expect_ok(delta_graph_check(rewritten), c->name);
  uint32_t biases = 0, sums = 0, additions = 0;
  for (size_t n = 0; n < rewritten->nodes.count; ++n) {
    const delta_node_t *node = &rewritten->nodes.items[n];
    sums += node->op == DELTA_CORE_MATMUL && delta_node_input(rewritten, node, 2);
    biases += node->op == DELTA_CORE_MATMUL && delta_node_input(rewritten, node, 3);
    additions += node->op == DELTA_CORE_POINTWISE;
  }
  cr_expect_eq(biases, c->biases, "%s: %u products have a bias", c->name, biases);
  cr_expect_eq(sums, c->sums, "%s: %u products are added to something", c->name, sums);
  cr_expect_eq(additions, c->additions, "%s: %u pointwise nodes are left", c->name, additions);
  delta_reference_values_t wanted, found;
  run(f.graph, &wanted);
  run(rewritten, &found);
  const double *a = delta_reference_value(&found, delta_graph_find_output(rewritten, "y")), *b = delta_reference_value(&wanted, y);
  for (int64_t i = 0; i < delta_shape_count(&delta_graph_tensor(f.graph, y)->shape); ++i) {
    cr_expect_float_eq(a[i], b[i], 1e-13, "%s: element %lld is %g, not %g", c->name, (long long)i, a[i], b[i]);
  }
  delta_reference_values_deinit(&found);
  delta_reference_values_deinit(&wanted);
  delta_graph_free(rewritten);
  delta_graph_free(with_biases);
  delta_graph_free(f.graph);
}

Test(accumulate, additions_of_products) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) run_case(&cases[i]);
}
