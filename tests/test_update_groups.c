// Groups of updates: which nodes become one, that the bits stay, and that nothing of a set reaches another.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "onnx/graph/emit.h"
#include "onnx/graph/update_groups.h"
#include "onnx/reference/run.h"
#include "tests/support/training.h"

enum { MOST_STATES = 100 };
static delta_graph_t *graph, *grouped;
static delta_emit_t emit;
static delta_tensor_id_t rate;

static void expect_ok(delta_status_t status) { delta_test_expect_ok(status, "update groups"); }

// A graph whose largest tensor has `largest` elements.
static void begin(int64_t largest) {
  delta_tensor_id_t x;
  grouped = NULL;
  expect_ok(delta_graph_create(delta_allocator_system(), &graph));
  delta_emit_init(&emit, graph);
  emit.name = "node";
  expect_ok(delta_graph_add_input(graph, "x", DELTA_DTYPE_FLOAT32, &(delta_shape_t){.rank = 1, .dims = {largest}}, &x));
  expect_ok(delta_graph_add_input(graph, "rate", DELTA_DTYPE_FLOAT32, &(delta_shape_t){0}, &rate));
  expect_ok(delta_graph_add_output(graph, "y", delta_emit_unary(&emit, DELTA_EXPR_NEG, x)));
}

// state = state - rate * gradient * factor, and a moment beside it, in one node.
static void add_update(int64_t size, double factor) {
  const delta_shape_t shape = {.rank = 1, .dims = {size}};
  const delta_dtype_t dtypes[2] = {DELTA_DTYPE_FLOAT32, DELTA_DTYPE_FLOAT32};
  uint32_t states[2];
  delta_tensor_id_t inputs[4], outputs[2];
  char name[32];
  emit.phase = DELTA_PHASE_BACKWARD;
  snprintf(name, sizeof name, "gradient%zu", graph->states.count);
  expect_ok(delta_graph_add_input(graph, name, DELTA_DTYPE_FLOAT32, &shape, &inputs[0]));
  for (int k = 0; k < 2; ++k) {
    snprintf(name, sizeof name, "state%zu", graph->states.count);
    const delta_state_t state = {
        .name = name, .kind = DELTA_STATE_PARAMETER, .dtype = DELTA_DTYPE_FLOAT32, .shape = shape, .initializer = DELTA_INDEX_NONE};
    expect_ok(delta_graph_add_state(graph, &state, &states[k]));
    inputs[1 + k] = graph->states.items[states[k]].current;
  }
  inputs[3] = rate;
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT32);
  const uint16_t gradient = delta_expr_input(&b, 0), state = delta_expr_input(&b, 1), moment = delta_expr_input(&b, 2);
  const uint16_t moved =
      delta_expr_binary(&b, DELTA_EXPR_ADD, moment, delta_expr_binary(&b, DELTA_EXPR_MUL, gradient, delta_expr_real(&b, factor)));
  delta_expr_output(&b,
                    delta_expr_binary(&b, DELTA_EXPR_SUB, state, delta_expr_binary(&b, DELTA_EXPR_MUL, delta_expr_input(&b, 3), moved)));
  delta_expr_output(&b, moved);
  emit.phase = DELTA_PHASE_UPDATE;
  emit.name = name;
  delta_emit_exprs(&emit, &b, dtypes, inputs, 4, outputs);
  expect_ok(delta_emit_finish(&emit));
  for (int k = 0; k < 2; ++k) expect_ok(delta_graph_set_next(graph, states[k], outputs[k]));
}

static void run(const delta_graph_t *of, delta_reference_values_t *values) {
  expect_ok(delta_reference_values_init(of, delta_allocator_system(), values));
  for (size_t i = 0; i < of->inputs.count + of->states.count; ++i) {
    const delta_tensor_id_t id = i < of->inputs.count ? of->inputs.items[i] : of->states.items[i - of->inputs.count].current;
    float *data = delta_reference_value(values, id);
    for (int64_t e = 0; e < delta_shape_count(&delta_graph_tensor(of, id)->shape); ++e)
      data[e] = delta_random_uniform(delta_random_word(i, (uint64_t)e)) - 0.5f;
  }
  expect_ok(delta_reference_run_graph(values));
}

// Groups, and compares every state with what it becomes without groups. Gives the number of nodes that are groups.
static uint32_t finish(void) {
  delta_reference_values_t before, after;
  expect_ok(delta_graph_group_updates(graph, delta_allocator_system(), &grouped));
  expect_ok(delta_graph_check(grouped));
  run(graph, &before);
  run(grouped, &after);
  for (size_t i = 0; i < graph->states.count; ++i) {
    const delta_tensor_id_t a = graph->states.items[i].next, b = grouped->states.items[i].next;
    cr_assert_eq(
        memcmp(delta_reference_value(&before, a), delta_reference_value(&after, b), delta_tensor_bytes(delta_graph_tensor(graph, a))), 0,
        "state %zu", i);
  }
  delta_reference_values_deinit(&before);
  delta_reference_values_deinit(&after);
  uint32_t groups = 0;
  for (size_t n = 0; n < grouped->nodes.count; ++n) groups += grouped->nodes.items[n].op == DELTA_CORE_EACH;
  return groups;
}

static void release(void) {
  delta_graph_free(grouped);
  delta_graph_free(graph);
}

Test(update_groups, small_updates_of_one_form_become_one_node) {
  begin(1 << 20);
  for (int64_t i = 0; i < 10; ++i) add_update(3 + 7 * i, 0.5);
  add_update(5000, 0.5); // larger than a group may be
  add_update(9, 0.25);   // another form
  cr_expect_eq(finish(), 1);
  cr_expect_eq(grouped->nodes.count, 4);
  const delta_node_t *node = &grouped->nodes.items[1];
  cr_assert_eq(node->op, DELTA_CORE_EACH);
  cr_expect_eq(node->input_count, 31);
  cr_expect_eq(node->output_count, 20);
  cr_expect_str_eq(node->name, "state1 and 9 more");
  // Own inputs of a set may be overwritten by its outputs alone, shared ones never.
  cr_expect(delta_node_may_overwrite(grouped, node, 1, 0));
  cr_expect(delta_node_may_overwrite(grouped, node, 3, 1));
  cr_expect_not(delta_node_may_overwrite(grouped, node, 1, 2));
  cr_expect_not(delta_node_may_overwrite(grouped, node, 0, 0));
  release();
}

Test(update_groups, what_is_grouped_is_small_beside_the_largest_tensor) {
  begin(256 * 100); // a group may have 100 elements
  for (int i = 0; i < 9; ++i) add_update(40, 1);
  cr_expect_eq(finish(), 4); // 2 each, and one alone
  release();
  begin(256 * 30);
  for (int i = 0; i < 9; ++i) add_update(40, 1);
  cr_expect_eq(finish(), 0);
  release();
  begin(1 << 20);
  for (int i = 0; i < DELTA_UPDATE_GROUP_SETS + 2; ++i) add_update(1, 1);
  cr_expect_eq(finish(), 2);
  release();
}

// ---- Trained, with the lever on and off

Test(update_groups, training_keeps_its_bits) {
  static const char *const optimizers[] = {"sgd", "adamw", "lamb"};
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; ++i) {
    delta_test_values_t states[2];
    for (int on = 0; on < 2; ++on) {
      delta_test_training_t training;
      delta_plan_options_t options = delta_test_plan_options(1024);
      options.optimizer = optimizers[i];
      options.levers = on ? "all" : "-update-groups";
      delta_test_training_open(&training, delta_test_wide_mlp, &options);
      for (int step = 0; step < 3; ++step) delta_test_run(training.session, DELTA_RUN_TRAIN, 1024 * step, 1024, 0.05);
      states[on] = delta_test_read_states(training.session, NULL);
      delta_test_training_close(&training);
    }
    cr_assert_eq(states[0].count, states[1].count);
    cr_expect_eq(memcmp(states[0].items, states[1].items, states[0].count * sizeof *states[0].items), 0, "%s", optimizers[i]);
    free(states[0].items);
    free(states[1].items);
  }
}
