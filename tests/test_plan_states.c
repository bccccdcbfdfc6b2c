// Plan states: where states of all kinds, types and sizes lie, in the arena's state area and in the tier below.
#include <criterion/criterion.h>

#include "onnx/graph/graph.h"
#include "plans/plan.h"
#include "tests/support/planning.h"

enum { ALIGNMENT_BYTES = 64 };

typedef struct state_case {
  const char *name;
  delta_state_kind_t kind;
  delta_dtype_t dtype;
  delta_shape_t shape;
  size_t size_bytes; // that it takes
  bool below;        // where some lie below
} state_case_t;

static const state_case_t cases[] = {
    {"half", DELTA_STATE_PARAMETER, DELTA_DTYPE_FLOAT16, {1, {3}}, 64, false},
    {"mask", DELTA_STATE_FROZEN, DELTA_DTYPE_BOOL, {2, {5, 13}}, 128, true},
    {"weight", DELTA_STATE_PARAMETER, DELTA_DTYPE_FLOAT32, {2, {7, 9}}, 256, false},
    {"empty", DELTA_STATE_FROZEN, DELTA_DTYPE_INT64, {1, {0}}, 64, false},
    {"ids", DELTA_STATE_FROZEN, DELTA_DTYPE_INT64, {1, {9}}, 128, false},
    {"moment", DELTA_STATE_MOMENT, DELTA_DTYPE_FLOAT32, {2, {7, 9}}, 256, true},
    {"wide", DELTA_STATE_STATISTIC, DELTA_DTYPE_FLOAT64, {1, {1}}, 64, false},
    {"sum", DELTA_STATE_ACCUMULATOR, DELTA_DTYPE_FLOAT32, {1, {17}}, 128, false},
    {"bytes", DELTA_STATE_FROZEN, DELTA_DTYPE_UINT8, {1, {65}}, 128, true},
    {"brain", DELTA_STATE_PARAMETER, DELTA_DTYPE_BFLOAT16, {1, {32}}, 64, false},
    {"step", DELTA_STATE_COUNTER, DELTA_DTYPE_INT64, {0, {0}}, 64, false},
};
enum { COUNT = sizeof cases / sizeof *cases };

// A graph with the states [first, last).
static delta_graph_t *make_graph(uint32_t first, uint32_t last) {
  delta_graph_t *graph = NULL;
  delta_test_must(delta_graph_create(delta_allocator_system(), &graph));
  for (uint32_t i = first; i < last; ++i) {
    const delta_state_t state = {
        .name = cases[i].name, .kind = cases[i].kind, .dtype = cases[i].dtype, .shape = cases[i].shape, .initializer = DELTA_INDEX_NONE};
    uint32_t index;
    delta_test_must(delta_graph_add_state(graph, &state, &index));
  }
  return graph;
}

// Each state behind the one before it in the same place, at an aligned offset; below it begins a block.
static void expect_places(const delta_plan_t *plan) {
  uint64_t end_bytes = 0, home_bytes = 0;
  cr_assert_eq(plan->state_count, COUNT);
  for (uint32_t i = 0; i < COUNT; ++i) {
    const delta_plan_state_t *state = &plan->states[i];
    cr_assert_str_eq(state->name, cases[i].name);
    cr_expect_eq(state->size_bytes, cases[i].size_bytes, "%s takes %zu bytes", state->name, (size_t)state->size_bytes);
    cr_expect_eq(state->offset_bytes % ALIGNMENT_BYTES, 0, "%s", state->name);
    if (state->is_below) {
      cr_expect_eq(state->home_offset_bytes, home_bytes, "%s", state->name);
      home_bytes += DELTA_HOST_BLOCK_BYTES;
    } else {
      cr_expect_eq(state->offset_bytes, end_bytes, "%s", state->name);
      end_bytes += state->size_bytes;
    }
  }
  cr_expect_eq(plan->totals.state_bytes, end_bytes);
  delta_test_must(delta_plan_check_places(plan, ALIGNMENT_BYTES));
}

// The programs of a plan may know different states: the place does not depend on which comes first.
Test(plan_states, places_of_all_kinds) {
  for (uint32_t known = 0; known <= COUNT; ++known) {
    delta_graph_t *first = make_graph(0, known), *second = make_graph(known / 2, COUNT);
    delta_plan_t *plan = NULL;
    bool is_below[COUNT];
    delta_test_must(delta_plan_create_empty(delta_allocator_system(), &plan));
    delta_test_must(delta_plan_place_states(plan, first, ALIGNMENT_BYTES));
    delta_test_must(delta_plan_place_states(plan, second, ALIGNMENT_BYTES));
    expect_places(plan);
    for (uint32_t i = 0; i < COUNT; ++i) is_below[i] = cases[i].below;
    delta_plan_set_homes(plan, is_below);
    expect_places(plan);
    cr_expect_eq(delta_plan_home_bytes(plan), 3 * DELTA_HOST_BLOCK_BYTES);
    plan->states[COUNT - 1].offset_bytes += ALIGNMENT_BYTES;
    delta_status_t status = delta_plan_check_places(plan, ALIGNMENT_BYTES);
    cr_expect_eq(delta_status_code(status), DELTA_STATUS_MISMATCH);
    delta_status_free(status);
    delta_plan_free(plan);
    delta_graph_free(first);
    delta_graph_free(second);
  }
}
