// Trades: from plans that fit, on random problems. The room that is left is what the changed actions come to, and what stays now has room.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "planner/search_state.h"
#include "tests/support/planning.h"
#include "tests/support/support.h"

enum { PROBLEMS = 60, STEPS = 40, TRADES = 40 };

// A plan of a problem that fits: state->before. False: greedy found none.
static bool find_plan(delta_search_state_t *state) {
  memcpy(state->best.actions, state->map.defaults, state->map.gap_count);
  memcpy(state->now.actions, state->map.defaults, state->map.gap_count);
  delta_test_must(delta_search_measure(state, &state->best));
  delta_test_must(delta_search_list_candidates(state));
  delta_test_must(delta_search_greedy(state, delta_search_lane_seconds(state), 0));
  delta_test_must(delta_search_measure(state, &state->now));
  delta_search_copy_plan(state, &state->before, &state->now);
  return state->candidate_count > 0 && state->now.evaluation.is_possible && state->now.evaluation.excess_bytes == 0;
}

// What the changes leave of the room at a place; *out_kept: a gap over the place stays now that did not.
static int64_t count_left(const delta_search_state_t *state, uint32_t place, bool *out_kept) {
  int64_t left_bytes = state->room_bytes[place];
  *out_kept = false;
  for (uint32_t g = 0; g < state->map.gap_count; ++g) {
    const bool stayed = state->before.actions[g] == DELTA_ACTION_KEEP, stays = state->now.actions[g] == DELTA_ACTION_KEEP;
    if (stayed == stays || state->map.begins[g] >= place || state->map.ends[g] <= place) continue;
    const int64_t size_bytes = (int64_t)state->problem->tensors[state->map.tensors[g]].size_bytes;
    left_bytes += stays ? -size_bytes : size_bytes;
    *out_kept = *out_kept || stays;
  }
  return left_bytes;
}

static void expect_room(const delta_search_state_t *state) {
  for (uint32_t p = 0; p < state->order->step_count; ++p) {
    bool is_kept;
    const int64_t left_bytes = count_left(state, p, &is_kept);
    cr_assert_eq(left_bytes, state->left_bytes[p], "place %u", p);
    cr_assert(!is_kept || left_bytes >= 0, "place %u: %lld bytes", p, (long long)left_bytes);
  }
}

// How many trades came about.
static int trade(delta_search_state_t *state) {
  int count = 0;
  delta_search_note_room(state);
  for (int i = 0; i < TRADES; ++i) {
    delta_search_copy_plan(state, &state->now, &state->before);
    if (!(i % 2 ? delta_search_trade_in(state) : delta_search_trade_out(state))) continue;
    cr_assert_neq(memcmp(state->now.actions, state->before.actions, state->map.gap_count), 0);
    expect_room(state);
    ++count;
  }
  return count;
}

Test(planner_trade, what_stays_has_room) {
  int count = 0;
  for (uint64_t seed = 0; seed < PROBLEMS; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, STEPS);
    delta_order_t order;
    delta_test_must(delta_order_make(problem, true, delta_allocator_system(), &order));
    delta_search_options_t options = {.liberties = {true, true}, .capacity_bytes = UINT32_MAX};
    delta_search_state_t state = {.problem = problem,
                                  .order = &order,
                                  .options = &options,
                                  .allocator = delta_allocator_system(),
                                  .random = {seed},
                                  .best_seconds = INFINITY,
                                  .good_price = 1,
                                  .back_part = 1};
    delta_test_must(delta_search_state_init(&state));
    memcpy(state.now.actions, state.map.defaults, state.map.gap_count);
    delta_test_must(delta_search_measure(&state, &state.now));
    options.capacity_bytes = state.now.evaluation.peak_bytes * 3 / 4;
    if (find_plan(&state)) count += trade(&state);
    delta_search_state_deinit(&state);
    delta_order_deinit(&order);
    delta_problem_free(problem);
  }
  cr_assert_gt(count, PROBLEMS);
}
