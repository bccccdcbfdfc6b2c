// Graphs: building, names, states, checking, hashing, pruning, rewriting, and failing at every allocation.
#include <criterion/criterion.h>
#include <string.h>

#include "base/text.h"
#include "onnx/graph/emit.h"
#include "onnx/graph/prune.h"
#include "onnx/graph/rewrite.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

static const delta_shape_t small_shape = {.rank = 2, .dims = {2, 3}};

static void expect_code(delta_status_t status, delta_status_code_t code, const char *what) {
  cr_expect_eq(delta_status_code(status), code, "%s: %s", what, delta_status_message(status));
  delta_status_free(status);
}

// y = relu(x * w) summed; w' = w - 0.5 * relu(x * w); also a dead branch, a view, a constant and a dropout whose mask nobody reads.
static delta_status_t build(delta_allocator_t allocator, delta_graph_t **out_graph) {
  delta_graph_t *graph = NULL;
  DELTA_RETURN_IF_ERROR(delta_graph_create(allocator, &graph));
  delta_emit_t emit;
  delta_emit_init(&emit, graph);
  emit.name = "model";
  delta_status_t status;
  delta_tensor_id_t x, seed;
  uint32_t weight;
  const delta_state_t state = {
      .name = "w", .kind = DELTA_STATE_PARAMETER, .dtype = DELTA_DTYPE_FLOAT32, .shape = small_shape, .initializer = 0};
  DELTA_GOTO_IF_ERROR(status, delta_graph_add_input(graph, "x", DELTA_DTYPE_FLOAT32, &small_shape, &x), failed);
  DELTA_GOTO_IF_ERROR(status, delta_graph_add_input(graph, "seed", DELTA_DTYPE_INT64, &(delta_shape_t){0}, &seed), failed);
  DELTA_GOTO_IF_ERROR(status, delta_graph_add_state(graph, &state, &weight), failed);
  const delta_tensor_id_t w = graph->states.items[weight].current;
  const delta_tensor_id_t y = delta_emit_unary(&emit, DELTA_EXPR_RELU, delta_emit_binary(&emit, DELTA_EXPR_MUL, x, w));
  delta_emit_unary(&emit, DELTA_EXPR_EXP, y);
  const delta_dropout_attrs_t dropout = {.ratio = 0.5, .stream = 7};
  delta_tensor_id_t dropped[2];
  delta_emit_node(&emit, DELTA_CORE_DROPOUT, &dropout, sizeof dropout, (const delta_tensor_id_t[]){y, seed, seed}, 3, dropped, 2, 2);
  const delta_tensor_id_t flat = delta_emit_view(&emit, dropped[0], &(delta_shape_t){.rank = 1, .dims = {6}});
  const delta_tensor_id_t table =
      delta_emit_constant(&emit, DELTA_DTYPE_FLOAT32, &(delta_shape_t){.rank = 1, .dims = {6}}, (const float[]){1, 2, 3, 4, 5, 6});
  const delta_tensor_id_t loss = delta_emit_reduce(
      &emit, DELTA_REDUCE_SUM, delta_emit_binary(&emit, DELTA_EXPR_ADD, flat, delta_emit_unary(&emit, DELTA_EXPR_NEG, table)), 1);
  emit.phase = DELTA_PHASE_UPDATE;
  const delta_tensor_id_t next = delta_emit_binary(&emit, DELTA_EXPR_SUB, w, delta_emit_binary_real(&emit, DELTA_EXPR_MUL, y, 0.5));
  DELTA_GOTO_IF_ERROR(status, delta_emit_finish(&emit), failed);
  DELTA_GOTO_IF_ERROR(status, delta_graph_add_output(graph, "loss", loss), failed);
  DELTA_GOTO_IF_ERROR(status, delta_graph_set_next(graph, weight, next), failed);
  *out_graph = graph;
  return DELTA_OK;
failed:
  delta_status_free(delta_emit_finish(&emit));
  delta_graph_free(graph);
  return status;
}

static delta_graph_t *built(void) {
  delta_graph_t *graph = NULL;
  expect_code(build(delta_allocator_system(), &graph), DELTA_STATUS_OK, "build");
  cr_assert_not_null(graph);
  return graph;
}

Test(graph, names_are_found) {
  delta_graph_t *graph = built();
  cr_expect_eq(delta_graph_find_state(graph, "w"), 0);
  cr_expect_eq(delta_graph_find_state(graph, "x"), DELTA_INDEX_NONE);
  cr_expect(delta_tensor_same(delta_graph_find_input(graph, "seed"), graph->inputs.items[1]));
  cr_expect(delta_tensor_same(delta_graph_find_output(graph, "loss"), graph->outputs.items[0].tensor));
  cr_expect(delta_tensor_is_none(delta_graph_find_output(graph, "lost")));
  delta_graph_free(graph);
}

Test(graph, names_are_unique) {
  delta_graph_t *graph = built();
  delta_tensor_id_t tensor;
  uint32_t index;
  const delta_state_t state = {.name = "x", .dtype = DELTA_DTYPE_FLOAT32, .initial_value = 1};
  expect_code(delta_graph_add_input(graph, "w", DELTA_DTYPE_FLOAT32, &small_shape, &tensor), DELTA_STATUS_MALFORMED, "input like a state");
  expect_code(delta_graph_add_state(graph, &state, &index), DELTA_STATUS_MALFORMED, "state like an input");
  expect_code(delta_graph_add_output(graph, "loss", graph->inputs.items[0]), DELTA_STATUS_MALFORMED, "second output");
  expect_code(delta_graph_check(graph), DELTA_STATUS_OK, "check");
  delta_graph_free(graph);
}

Test(graph, next_values_need_bytes_of_their_own) {
  delta_graph_t *graph = built();
  delta_emit_t emit;
  delta_emit_init(&emit, graph);
  uint32_t state;
  const delta_state_t added = {.name = "s", .kind = DELTA_STATE_COUNTER, .dtype = DELTA_DTYPE_FLOAT32, .shape = small_shape};
  expect_code(delta_graph_add_state(graph, &added, &state), DELTA_STATUS_OK, "state");
  const delta_tensor_id_t x = graph->inputs.items[0], current = graph->states.items[state].current;
  const delta_tensor_id_t constant = delta_emit_constant(&emit, DELTA_DTYPE_FLOAT32, &small_shape, (const float[6]){0});
  const delta_tensor_id_t row = delta_emit_view(&emit, x, &(delta_shape_t){.rank = 1, .dims = {6}});
  const delta_tensor_id_t view = delta_emit_view(&emit, row, &small_shape);
  const delta_tensor_id_t refused[] = {x, current, constant, view, row, graph->states.items[0].next};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    expect_code(delta_graph_set_next(graph, state, refused[i]), DELTA_STATUS_INTERNAL, "set_next");
  }
  expect_code(delta_graph_set_next(graph, state, delta_emit_copy(&emit, constant)), DELTA_STATUS_OK, "a copy");
  expect_code(delta_graph_set_next(graph, state, delta_emit_copy(&emit, constant)), DELTA_STATUS_INTERNAL, "a second next");
  expect_code(delta_emit_finish(&emit), DELTA_STATUS_OK, "emit");
  expect_code(delta_graph_check(graph), DELTA_STATUS_OK, "check");
  delta_graph_free(graph);
}

Test(graph, views_share_storage) {
  delta_graph_t *graph = built();
  bool found = false;
  for (size_t i = 0; i < graph->nodes.count; ++i) {
    const delta_node_t *node = &graph->nodes.items[i];
    if (node->op != DELTA_CORE_VIEW) continue;
    found = true;
    cr_expect(delta_tensor_same(delta_node_output(graph, node, 0)->storage, node->inputs[0]));
  }
  cr_expect(found);
  delta_graph_free(graph);
}

Test(graph, overwriting_needs_equal_sizes) {
  delta_graph_t *graph = built();
  const delta_node_t *product = delta_graph_node(graph, (delta_node_id_t){0});
  cr_expect(delta_node_may_overwrite(graph, product, 0, 0));
  cr_expect_not(delta_node_may_overwrite(graph, product, 2, 0), "no such input");
  const delta_tensor_t *loss = delta_graph_tensor(graph, graph->outputs.items[0].tensor);
  cr_expect_not(delta_node_may_overwrite(graph, delta_graph_node(graph, loss->producer), 0, 0), "a reduction");
  delta_graph_free(graph);
}

Test(graph, check_finds_broken_links) {
  delta_graph_t *graph = built();
  expect_code(delta_graph_check(graph), DELTA_STATUS_OK, "sound");
  delta_node_t *first = &graph->nodes.items[0], *second = &graph->nodes.items[1];
  const delta_node_t kept = *first;
  *first = *second;
  expect_code(delta_graph_check(graph), DELTA_STATUS_INTERNAL, "order");
  *first = kept;
  graph->tensors.items[second->outputs[0].index].shape.dims[0] = 5;
  expect_code(delta_graph_check(graph), DELTA_STATUS_INTERNAL, "shape");
  graph->tensors.items[second->outputs[0].index].shape.dims[0] = 2;
  graph->tensors.items[second->outputs[0].index].storage = first->outputs[0];
  expect_code(delta_graph_check(graph), DELTA_STATUS_INTERNAL, "storage");
  graph->tensors.items[second->outputs[0].index].storage = second->outputs[0];
  graph->states.items[0].next = first->outputs[0];
  expect_code(delta_graph_check(graph), DELTA_STATUS_INTERNAL, "state");
  delta_graph_free(graph);
}

Test(graph, prune_keeps_what_leads_somewhere) {
  delta_graph_t *graph = built(), *pruned = NULL;
  expect_code(delta_graph_prune(graph, delta_allocator_system(), &pruned), DELTA_STATUS_OK, "prune");
  expect_code(delta_graph_check(pruned), DELTA_STATUS_OK, "check");
  cr_expect_eq(pruned->nodes.count + 2, graph->nodes.count, "a dead branch, and a constant that was folded");
  cr_expect_eq(pruned->states.count, 1);
  cr_expect_eq(pruned->inputs.count, 2);
  for (size_t i = 0; i < pruned->nodes.count; ++i) {
    const delta_node_t *node = &pruned->nodes.items[i];
    if (node->op == DELTA_CORE_DROPOUT) cr_expect_null(delta_node_output(pruned, node, 1), "nobody reads the mask");
  }
  delta_graph_t *again = NULL;
  expect_code(delta_graph_prune(pruned, delta_allocator_system(), &again), DELTA_STATUS_OK, "prune");
  char first[65], second[65];
  delta_graph_hash(pruned, first);
  delta_graph_hash(again, second);
  cr_expect_str_eq(first, second);
  delta_graph_free(again);
  delta_graph_free(pruned);
  delta_graph_free(graph);
}

Test(graph, hash_ignores_names_and_sees_attributes) {
  delta_graph_t *graph = built(), *other = built();
  char first[65], second[65];
  delta_graph_hash(graph, first);
  other->nodes.items[0].name = "renamed";
  delta_graph_hash(other, second);
  cr_expect_str_eq(first, second);
  delta_pointwise_attrs_t *attrs = (delta_pointwise_attrs_t *)other->nodes.items[0].attrs;
  attrs->expr.instrs[2].op = DELTA_EXPR_ADD;
  delta_graph_hash(other, second);
  cr_expect_str_neq(first, second);
  delta_graph_free(other);
  delta_graph_free(graph);
}

Test(graph, dump_shows_every_part) {
  delta_graph_t *graph = built();
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  expect_code(delta_graph_dump(graph, &text), DELTA_STATUS_OK, "dump");
  const char *const wanted[] = {"state w (parameter)", "input seed", "dropout(", "output loss", "mul 0 1", "ratio=0x1p-1", " update"};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) cr_expect_not_null(strstr(text.items, wanted[i]), "%s", wanted[i]);
  delta_text_deinit(&text);
  delta_graph_free(graph);
}

Test(graph, rewriting_shares_constant_bytes) {
  delta_graph_t *graph = NULL, *copy = NULL;
  expect_code(delta_graph_create(delta_allocator_system(), &graph), DELTA_STATUS_OK, "create");
  delta_emit_t emit;
  delta_emit_init(&emit, graph);
  const delta_tensor_id_t constant = delta_emit_int64s(&emit, (const int64_t[]){1, 2, 3, 4}, 4);
  const delta_tensor_id_t view = delta_emit_view(&emit, constant, &(delta_shape_t){.rank = 2, .dims = {2, 2}});
  const delta_tensor_id_t empty = delta_emit_int64s(&emit, NULL, 0);
  expect_code(delta_emit_finish(&emit), DELTA_STATUS_OK, "emit");
  const delta_tensor_id_t outputs[] = {constant, view, empty};
  const char *const names[] = {"a", "b", "c"};
  for (size_t i = 0; i < 3; ++i) expect_code(delta_graph_add_output(graph, names[i], outputs[i]), DELTA_STATUS_OK, "output");
  expect_code(delta_graph_prune(graph, delta_allocator_system(), &copy), DELTA_STATUS_OK, "prune");
  cr_expect_eq(delta_graph_tensor(graph, view)->data, delta_graph_tensor(graph, constant)->data);
  const delta_tensor_t *a = delta_graph_tensor(copy, delta_graph_find_output(copy, "a"));
  const delta_tensor_t *b = delta_graph_tensor(copy, delta_graph_find_output(copy, "b"));
  cr_expect_eq(a->data, b->data);
  cr_expect_neq(a->data, delta_graph_tensor(graph, constant)->data);
  delta_graph_free(copy);
  delta_graph_free(graph);
}

Test(graph, every_failed_allocation_is_a_status) {
  for (int mode = DELTA_TEST_FAIL_ONCE; mode <= DELTA_TEST_FAIL_FROM_THEN_ON; ++mode) {
    delta_test_trial_t trial = {.failure = (delta_test_failure_t)mode};
    while (delta_test_trial_begin(&trial)) {
      delta_graph_t *graph = NULL, *pruned = NULL;
      delta_status_t status = build(delta_test_trial_allocator(&trial), &graph);
      if (status == DELTA_OK) status = delta_graph_prune(graph, delta_test_trial_allocator(&trial), &pruned);
      delta_graph_free(pruned);
      delta_graph_free(graph);
      delta_test_trial_end(&trial, status, "build and prune");
    }
    cr_expect_gt(trial.number, 20);
  }
}
