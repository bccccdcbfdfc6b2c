// Fusion: what it merges, what it leaves alone, and that results keep their bits.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "onnx/graph/emit.h"
#include "onnx/graph/fuse.h"
#include "onnx/reference/run.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

static const delta_dtype_t F32 = DELTA_DTYPE_FLOAT32;
static delta_graph_t *graph, *fused;
static delta_emit_t emit;

static void setup(void) {
  fused = NULL;
  cr_assert_eq(delta_graph_create(delta_allocator_system(), &graph), DELTA_OK);
  delta_emit_init(&emit, graph);
  emit.name = "node";
}

static void teardown(void) {
  delta_graph_free(fused);
  delta_graph_free(graph);
}

TestSuite(fuse, .init = setup, .fini = teardown);

#define SHAPE(...) ((delta_shape_t){.rank = (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dims = {__VA_ARGS__}})

static void expect_ok(delta_status_t status) {
  cr_assert_eq(status, DELTA_OK, "%s", delta_status_message(status));
  delta_status_free(status);
}

static delta_tensor_id_t input(const char *name, delta_shape_t shape) {
  delta_tensor_id_t tensor;
  expect_ok(delta_graph_add_input(graph, name, F32, &shape, &tensor));
  return tensor;
}

static void output(const char *name, delta_tensor_id_t tensor) { expect_ok(delta_graph_add_output(graph, name, tensor)); }

// Fuses, checks, and gives the number of nodes left.
static size_t fuse(bool within_groups) {
  expect_ok(delta_emit_finish(&emit));
  expect_ok(delta_graph_fuse(graph, (delta_fuse_options_t){.within_groups = within_groups}, delta_allocator_system(), &fused));
  expect_ok(delta_graph_check(fused));
  return fused->nodes.count;
}

static void fill_value(const delta_graph_t *of, delta_reference_values_t *values, delta_tensor_id_t id, uint64_t key) {
  const delta_tensor_t *tensor = delta_graph_tensor(of, id);
  void *data = delta_reference_value(values, id);
  for (size_t i = 0; i < (size_t)delta_shape_count(&tensor->shape); ++i) {
    delta_element_store_double(data, tensor->dtype, i, 4 * ((double)delta_random_uniform(delta_random_word(key, i)) - 0.5));
  }
}

static void run(const delta_graph_t *of, delta_reference_values_t *values) {
  expect_ok(delta_reference_values_init(of, delta_allocator_system(), values));
  for (size_t i = 0; i < of->inputs.count; ++i) fill_value(of, values, of->inputs.items[i], i);
  for (size_t i = 0; i < of->states.count; ++i) fill_value(of, values, of->states.items[i].current, 1000 + i);
  expect_ok(delta_reference_run_graph(values));
}

// Two values have the same bits, but that any NaN is like another.
static bool same_value(const delta_tensor_t *tensor, const void *a, const void *b) {
  const size_t bytes = delta_dtype_bytes(tensor->dtype);
  for (size_t i = 0; i < (size_t)delta_shape_count(&tensor->shape); ++i) {
    if (memcmp((const char *)a + i * bytes, (const char *)b + i * bytes, bytes) == 0) continue;
    const double left = delta_element_load_double(a, tensor->dtype, i), right = delta_element_load_double(b, tensor->dtype, i);
    if (left == left || right == right) return false;
  }
  return true;
}

static void expect_same_results(void) {
  delta_reference_values_t before = {0}, after = {0};
  run(graph, &before);
  run(fused, &after);
  for (size_t i = 0; i < graph->outputs.count; ++i) {
    const delta_tensor_id_t a = graph->outputs.items[i].tensor, b = fused->outputs.items[i].tensor;
    cr_assert(same_value(delta_graph_tensor(graph, a), delta_reference_value(&before, a), delta_reference_value(&after, b)),
              "output '%s' differs", graph->outputs.items[i].name);
  }
  for (size_t i = 0; i < graph->states.count; ++i) {
    const delta_tensor_id_t a = graph->states.items[i].next, b = fused->states.items[i].next;
    if (delta_tensor_is_none(a)) continue;
    cr_assert(same_value(delta_graph_tensor(graph, a), delta_reference_value(&before, a), delta_reference_value(&after, b)),
              "state '%s' differs", graph->states.items[i].name);
  }
  delta_reference_values_deinit(&before);
  delta_reference_values_deinit(&after);
}

static delta_tensor_id_t unary(delta_expr_op_t op, delta_tensor_id_t x) { return delta_emit_unary(&emit, op, x); }
static delta_tensor_id_t binary(delta_expr_op_t op, delta_tensor_id_t a, delta_tensor_id_t b) { return delta_emit_binary(&emit, op, a, b); }

Test(fuse, chains_become_one_node) {
  const delta_tensor_id_t x = input("x", SHAPE(4, 5));
  emit.name = "first";
  const delta_tensor_id_t a = unary(DELTA_EXPR_EXP, x);
  emit.name = "last";
  emit.group = 7;
  output("y", unary(DELTA_EXPR_TANH, binary(DELTA_EXPR_ADD, a, x)));
  cr_expect_eq(fuse(false), 1);
  cr_expect_str_eq(fused->nodes.items[0].name, "last");
  cr_expect_eq(fused->nodes.items[0].group, 7);
  expect_same_results();
}

Test(fuse, diamonds_become_one_node) {
  const delta_tensor_id_t e = unary(DELTA_EXPR_EXP, input("x", SHAPE(4, 5)));
  output("y", binary(DELTA_EXPR_DIV, e, delta_emit_binary_real(&emit, DELTA_EXPR_ADD, e, 1)));
  cr_expect_eq(fuse(false), 1);
  expect_same_results();
}

Test(fuse, reductions_absorb_what_they_sum) {
  const delta_tensor_id_t x = input("x", SHAPE(4, 5)), y = input("y", SHAPE(5));
  output("s", delta_emit_reduce(&emit, DELTA_REDUCE_SUM, binary(DELTA_EXPR_MUL, x, y), 1));
  cr_expect_eq(fuse(false), 1);
  cr_expect_eq(fused->nodes.items[0].op, DELTA_CORE_REDUCE);
  expect_same_results();
}

Test(fuse, dear_producers_are_not_repeated) {
  const delta_tensor_id_t x = input("x", SHAPE(4, 5)), e = unary(DELTA_EXPR_EXP, x);
  const delta_tensor_id_t sum = delta_emit_reduce(&emit, DELTA_REDUCE_SUM, e, 2);
  output("softmax", binary(DELTA_EXPR_DIV, e, sum));
  cr_expect_eq(fuse(false), 3);
  expect_same_results();
}

Test(fuse, cheap_producers_are_repeated) {
  const delta_tensor_id_t x = input("x", SHAPE(4, 5)), mean = delta_emit_reduce(&emit, DELTA_REDUCE_MEAN, x, 2);
  const delta_tensor_id_t centred = binary(DELTA_EXPR_SUB, x, mean);
  const delta_tensor_id_t sum = delta_emit_reduce(&emit, DELTA_REDUCE_SUM, binary(DELTA_EXPR_MUL, centred, centred), 2);
  output("y", binary(DELTA_EXPR_DIV, centred, sum));
  cr_expect_eq(fuse(false), 3, "mean, sum and quotient");
  expect_same_results();
}

Test(fuse, more_traffic_is_not_taken_for_less_work) {
  delta_tensor_id_t sum = input("x0", SHAPE(64));
  const char *const names[] = {"x1", "x2", "x3"};
  for (size_t i = 0; i < 3; ++i) sum = binary(DELTA_EXPR_ADD, sum, input(names[i], SHAPE(64)));
  output("a", unary(DELTA_EXPR_NEG, sum));
  output("b", unary(DELTA_EXPR_ABS, sum));
  output("c", delta_emit_reduce(&emit, DELTA_REDUCE_SUM, sum, 1));
  fuse(false);
  size_t readers = 0;
  for (size_t i = 0; i < fused->nodes.count; ++i) readers += fused->nodes.items[i].input_count > 1;
  cr_expect_eq(readers, 1, "the four inputs are read once");
  expect_same_results();
}

Test(fuse, outputs_stay) {
  const delta_tensor_id_t a = unary(DELTA_EXPR_EXP, input("x", SHAPE(3)));
  output("a", a);
  output("b", unary(DELTA_EXPR_NEG, a));
  cr_expect_eq(fuse(false), 2);
  expect_same_results();
}

Test(fuse, rounding_stays) {
  const delta_tensor_id_t x = input("x", SHAPE(300));
  const delta_tensor_id_t half = delta_emit_cast(&emit, x, DELTA_DTYPE_FLOAT16);
  output("y", delta_emit_cast(&emit, half, F32));
  const delta_tensor_id_t whole = delta_emit_cast(&emit, x, DELTA_DTYPE_INT32);
  output("z", delta_emit_cast(&emit, whole, F32));
  cr_expect_eq(fuse(false), 4 - 1, "only the two casts of x are joined");
  expect_same_results();
}

Test(fuse, truth_values_stay_0_or_1) {
  const delta_tensor_id_t truth = delta_emit_cast(&emit, input("x", SHAPE(9)), DELTA_DTYPE_BOOL);
  output("y", delta_emit_cast(&emit, truth, F32));
  cr_expect_eq(fuse(false), 1);
  expect_same_results();
}

Test(fuse, other_compute_types_stay_apart) {
  const delta_tensor_id_t x = delta_emit_cast(&emit, input("x", SHAPE(9)), DELTA_DTYPE_FLOAT64);
  output("y", delta_emit_cast(&emit, unary(DELTA_EXPR_EXP, x), F32));
  const delta_tensor_id_t whole = delta_emit_cast(&emit, input("w", SHAPE(9)), DELTA_DTYPE_INT64);
  output("z", unary(DELTA_EXPR_NEG, whole));
  cr_expect_eq(fuse(false), 3, "int64 in float32 and in int64");
  expect_same_results();
}

Test(fuse, smaller_shapes_stay_unless_one_cheap_value) {
  const delta_tensor_id_t x = input("x", SHAPE(4, 5)), row = input("row", SHAPE(5)), scalar = input("scalar", SHAPE(1));
  output("a", binary(DELTA_EXPR_MUL, x, unary(DELTA_EXPR_NEG, row)));
  output("b", delta_emit_reduce(&emit, DELTA_REDUCE_MAX, binary(DELTA_EXPR_MUL, x, unary(DELTA_EXPR_NEG, scalar)), 1));
  output("c", delta_emit_reduce(&emit, DELTA_REDUCE_MIN, binary(DELTA_EXPR_MUL, x, unary(DELTA_EXPR_EXP, scalar)), 2));
  cr_expect_eq(fuse(false), 2 + 1 + 2);
  expect_same_results();
}

Test(fuse, fills_vanish_in_their_readers) {
  const delta_tensor_id_t ones = delta_emit_fill(&emit, F32, &SHAPE(4, 5), 3);
  output("y", binary(DELTA_EXPR_MUL, input("x", SHAPE(4, 5)), ones));
  cr_expect_eq(fuse(false), 1);
  cr_expect_eq(fused->nodes.items[0].input_count, 1);
  expect_same_results();
}

Test(fuse, groups_bound_fusion_when_asked) {
  const delta_tensor_id_t x = input("x", SHAPE(4, 5));
  emit.group = 1;
  const delta_tensor_id_t a = unary(DELTA_EXPR_NEG, unary(DELTA_EXPR_EXP, x));
  emit.group = 2;
  output("y", unary(DELTA_EXPR_NEG, unary(DELTA_EXPR_SIN, a)));
  cr_expect_eq(fuse(true), 2);
  expect_same_results();
}

static uint32_t state(const char *name, delta_shape_t shape) {
  uint32_t index;
  const delta_state_t added = {.name = name, .kind = DELTA_STATE_PARAMETER, .dtype = F32, .shape = shape, .initializer = DELTA_INDEX_NONE};
  expect_ok(delta_graph_add_state(graph, &added, &index));
  return index;
}

Test(fuse, updates_absorb_only_what_they_alone_read) {
  const uint32_t w = state("w", SHAPE(6)), v = state("v", SHAPE(6));
  const delta_tensor_id_t x = input("x", SHAPE(6)), current = graph->states.items[w].current;
  emit.phase = DELTA_PHASE_BACKWARD;
  const delta_tensor_id_t shared = binary(DELTA_EXPR_MUL, x, current), own = delta_emit_binary_real(&emit, DELTA_EXPR_MUL, x, 2);
  output("shared", unary(DELTA_EXPR_NEG, shared));
  emit.phase = DELTA_PHASE_UPDATE;
  expect_ok(delta_graph_set_next(graph, w, binary(DELTA_EXPR_SUB, current, shared)));
  expect_ok(delta_graph_set_next(graph, v, binary(DELTA_EXPR_SUB, graph->states.items[v].current, own)));
  cr_expect_eq(fuse(false), 4, "product, its negation, two updates");
  expect_same_results();
}

Test(fuse, readers_of_a_state_stay_before_its_update) {
  const uint32_t w = state("w", SHAPE(6));
  const delta_tensor_id_t x = input("x", SHAPE(6)), current = graph->states.items[w].current;
  const delta_tensor_id_t product = binary(DELTA_EXPR_MUL, x, current);
  emit.phase = DELTA_PHASE_UPDATE;
  expect_ok(delta_graph_set_next(graph, w, binary(DELTA_EXPR_SUB, current, x)));
  emit.phase = DELTA_PHASE_FORWARD;
  output("y", unary(DELTA_EXPR_NEG, product));
  cr_expect_eq(fuse(false), 3);
  expect_same_results();
}

Test(fuse, forward_work_moves_backward_only_when_nothing_more_is_kept) {
  const delta_tensor_id_t a = input("a", SHAPE(64)), b = input("b", SHAPE(64)), c = input("c", SHAPE(64)), dy = input("dy", SHAPE(64));
  const delta_tensor_id_t sum = binary(DELTA_EXPR_ADD, a, b); // two tensors instead of one
  const delta_tensor_id_t mask = unary(DELTA_EXPR_NEG, c);    // one instead of one
  output("fence", delta_emit_reduce(&emit, DELTA_REDUCE_PROD, dy, 1));
  emit.phase = DELTA_PHASE_BACKWARD;
  output("da", binary(DELTA_EXPR_MUL, sum, dy));
  output("dc", delta_emit_reduce(&emit, DELTA_REDUCE_SUM, binary(DELTA_EXPR_MUL, mask, dy), 1));
  cr_expect_eq(fuse(false), 4, "sum, fence, da, dc");
  expect_same_results();
}

Test(fuse, reductions_over_the_same_are_joined) {
  const delta_tensor_id_t dy = input("dy", SHAPE(8, 3, 16)), x = input("x", SHAPE(8, 3, 16));
  output("a", delta_emit_reduce(&emit, DELTA_REDUCE_SUM, dy, 5));
  output("b", delta_emit_reduce(&emit, DELTA_REDUCE_SUM, binary(DELTA_EXPR_MUL, dy, x), 5));
  output("c", delta_emit_reduce(&emit, DELTA_REDUCE_MAX, x, 5));
  cr_expect_eq(fuse(false), 1);
  cr_expect_eq(fused->nodes.items[0].output_count, 3);
  expect_same_results();
}

Test(fuse, joined_nodes_wait_for_their_inputs) {
  const delta_tensor_id_t x = input("x", SHAPE(8, 8)), y = input("y", SHAPE(8, 8));
  const delta_tensor_id_t a = unary(DELTA_EXPR_NEG, x);
  const delta_tensor_id_t product = delta_emit_matmul(&emit, y, y, false, false);
  const delta_tensor_id_t b = binary(DELTA_EXPR_ADD, x, product);
  output("a", a);
  output("b", b);
  cr_expect_eq(fuse(false), 2, "the joined node stands after the product");
  cr_expect_eq(fused->nodes.items[0].op, DELTA_CORE_MATMUL);
  expect_same_results();
}

// Two results of the same large values, each with a statistic of its own, the second of which is computed after the first result is read: it is computed before.
Test(fuse, small_work_moves_before_what_is_joined) {
  const delta_tensor_id_t x = input("x", SHAPE(4, 16, 16)), y = input("y", SHAPE(4, 16, 16)), s = input("s", SHAPE(1, 16, 1));
  const delta_tensor_id_t product = binary(DELTA_EXPR_MUL, x, y);
  const delta_tensor_id_t a = binary(DELTA_EXPR_SUB, product, unary(DELTA_EXPR_EXP, s));
  output("a", delta_emit_reduce(&emit, DELTA_REDUCE_MAX, a, 7u));
  output("b", binary(DELTA_EXPR_SUB, product, unary(DELTA_EXPR_TANH, s)));
  output("a itself", a);
  cr_expect_eq(fuse(false), 4, "%zu: two statistics, one node of two results, a reduction", fused->nodes.count);
  cr_expect_eq(fused->nodes.items[2].output_count, 2);
  expect_same_results();
}

// The gradient that passes a ReLU, for three readers of it: the sum, what follows from the sum, and what goes on past both.
static delta_tensor_id_t passed(delta_tensor_id_t gradient, delta_tensor_id_t y) {
  return binary(DELTA_EXPR_MUL, gradient, unary(DELTA_EXPR_SIGN, y));
}

static void build_three_readers(delta_tensor_id_t gradient, delta_tensor_id_t y, delta_tensor_id_t x) {
  emit.phase = DELTA_PHASE_BACKWARD;
  const delta_tensor_id_t sum = delta_emit_reduce(&emit, DELTA_REDUCE_SUM, binary(DELTA_EXPR_MUL, passed(gradient, y), x), 1);
  const delta_tensor_id_t local = binary(DELTA_EXPR_SUB, passed(gradient, y), binary(DELTA_EXPR_MUL, x, sum));
  output("a", binary(DELTA_EXPR_ADD, passed(gradient, y), delta_emit_matmul(&emit, local, x, false, false)));
}

Test(fuse, what_three_compute_from_two_tensors_is_shared) {
  const delta_tensor_id_t x = input("x", SHAPE(16, 16));
  const delta_tensor_id_t gradient = delta_emit_matmul(&emit, x, x, false, false), y = delta_emit_matmul(&emit, x, x, true, false);
  build_three_readers(gradient, y, x);
  cr_expect_eq(fuse(false), 7, "%zu: three products, the sum, two results, and what they share", fused->nodes.count);
  size_t readers = 0;
  for (size_t i = 0; i < fused->nodes.count; ++i) {
    for (uint32_t k = 0; k < fused->nodes.items[i].input_count; ++k)
      readers += fused->nodes.items[i].inputs[k].index == fused->nodes.items[1].outputs[0].index;
  }
  cr_expect_eq(readers, 1, "the second product is read once, not %zu times", readers);
  expect_same_results();
}

Test(fuse, nothing_is_shared_beside_tensors_that_stay) {
  const delta_tensor_id_t x = input("x", SHAPE(16, 16));
  const delta_tensor_id_t gradient = delta_emit_matmul(&emit, x, x, false, false), y = delta_emit_matmul(&emit, x, x, true, false);
  build_three_readers(gradient, y, x);
  output("y", y);
  cr_expect_eq(fuse(false), 6, "%zu", fused->nodes.count);
  expect_same_results();
}

Test(fuse, joining_makes_no_cycle) {
  const delta_tensor_id_t x = input("x", SHAPE(8, 8));
  const delta_tensor_id_t a = unary(DELTA_EXPR_NEG, x);
  const delta_tensor_id_t product = delta_emit_matmul(&emit, a, a, false, false);
  output("b", binary(DELTA_EXPR_ADD, x, product));
  cr_expect_eq(fuse(false), 3);
  expect_same_results();
}

// A random value below `bound`.
static uint32_t draw(uint64_t seed, uint64_t *counter, uint32_t bound) { return delta_random_word(seed, (*counter)++) % bound; }

static const delta_expr_op_t unary_ops[] = {DELTA_EXPR_NEG, DELTA_EXPR_EXP,  DELTA_EXPR_TANH,
                                            DELTA_EXPR_ABS, DELTA_EXPR_RELU, DELTA_EXPR_SQRT};
static const delta_expr_op_t binary_ops[] = {DELTA_EXPR_ADD, DELTA_EXPR_MUL, DELTA_EXPR_SUB, DELTA_EXPR_DIV, DELTA_EXPR_MAX, DELTA_EXPR_LT};
static const delta_dtype_t cast_types[] = {DELTA_DTYPE_FLOAT32, DELTA_DTYPE_FLOAT64, DELTA_DTYPE_FLOAT16,
                                           DELTA_DTYPE_INT32,   DELTA_DTYPE_INT64,   DELTA_DTYPE_BOOL};
#define PICK(list) (list)[draw(seed, counter, sizeof(list) / sizeof *(list))]

// One random node over `pool`; its result always broadcasts with the others.
static delta_tensor_id_t random_node(uint64_t seed, uint64_t *counter, const delta_tensor_id_t *pool, uint32_t count) {
  const delta_tensor_id_t x = pool[draw(seed, counter, count)];
  const delta_tensor_id_t real = delta_emit_cast(&emit, x, F32);
  emit.group = draw(seed, counter, 3);
  switch (draw(seed, counter, 8)) {
    case 0:
      return delta_emit_cast(&emit, x, PICK(cast_types));
    case 1: {
      const uint32_t axes = (UINT32_C(1) << delta_emit_shape(&emit, real)->rank) - 1;
      return delta_emit_reduce(&emit, (delta_reduce_kind_t)draw(seed, counter, 4), real, 1 + draw(seed, counter, axes));
    }
    case 2:
      return delta_emit_select(&emit, delta_emit_cast(&emit, x, DELTA_DTYPE_BOOL), real,
                               delta_emit_cast(&emit, pool[draw(seed, counter, count)], F32));
    case 3:
      return delta_emit_binary_real(&emit, PICK(binary_ops), real, 0.5);
    case 4:
      return unary(PICK(unary_ops), real);
    default:
      return binary(PICK(binary_ops), real, delta_emit_cast(&emit, pool[draw(seed, counter, count)], F32));
  }
}

static void random_graph(uint64_t seed) {
  enum { NODES = 60 };
  uint64_t counter = 0;
  delta_tensor_id_t pool[NODES + 4] = {input("a", SHAPE(5, 7)), input("b", SHAPE(7)), input("c", SHAPE(5, 1))};
  const uint32_t w = state("w", SHAPE(5, 7));
  pool[3] = graph->states.items[w].current;
  uint32_t count = 4;
  for (uint32_t i = 0; i < NODES; ++i) {
    if (i == NODES / 2) emit.phase = DELTA_PHASE_BACKWARD;
    // Late values more often, so that chains form.
    const uint32_t recent = count > 8 && draw(seed, &counter, 2) ? count - 8 : 0;
    pool[count] = random_node(seed, &counter, pool + recent, count - recent);
    ++count;
  }
  char name[16];
  for (uint32_t i = 0; i < 8; ++i) {
    snprintf(name, sizeof name, "y%u", i);
    output(name, pool[draw(seed, &counter, count)]);
  }
  emit.phase = DELTA_PHASE_UPDATE;
  expect_ok(delta_emit_finish(&emit));
  const delta_tensor_id_t gradient = delta_emit_cast(&emit, pool[count - 1], F32);
  expect_ok(delta_graph_set_next(graph, w, binary(DELTA_EXPR_SUB, pool[3], gradient)));
}

Test(fuse, random_graphs_keep_their_bits) {
  size_t before = 0, after = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    teardown();
    setup();
    random_graph(seed);
    after += fuse(seed % 4 == 0);
    before += graph->nodes.count;
    expect_same_results();
  }
  cr_expect_lt(after * 4, before * 3, "fusion leaves %zu of %zu nodes", after, before);
}

Test(fuse, every_failed_allocation_is_a_status) {
  random_graph(11);
  expect_ok(delta_emit_finish(&emit));
  for (delta_test_trial_t trial = {0}; delta_test_trial_begin(&trial);) {
    delta_graph_t *copy = NULL;
    delta_status_t status = delta_graph_fuse(graph, (delta_fuse_options_t){0}, delta_test_trial_allocator(&trial), &copy);
    delta_graph_free(copy);
    delta_test_trial_end(&trial, status, "fuse");
  }
}
