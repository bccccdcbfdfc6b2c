// The quick evaluation against the plain one: thousands of random plans of random problems, byte for byte and to the last bit of time.
#include <criterion/criterion.h>
#include <math.h>

#include "planner/quick.h"
#include "tests/support/planning.h"

enum { PROBLEMS = 300, PLANS = 30, MOST_SPLITS = 12 };

typedef struct plain_case {
  delta_problem_t *problem;
  delta_order_t order;
  delta_gap_map_t map;
  delta_gap_split_t splits[MOST_SPLITS];
  size_t split_count;
  delta_test_numbers_t numbers;
} plain_case_t;

// Divides some gaps at places within them.
static void draw_splits(plain_case_t *plain) {
  const delta_liberties_t liberties = {true, true};
  delta_gap_map_t whole;
  delta_test_must(delta_gap_map_init(&whole, plain->problem, &plain->order, &liberties, NULL, 0, delta_allocator_system()));
  for (uint32_t g = 0; g < whole.gap_count && plain->split_count < MOST_SPLITS; ++g) {
    const uint32_t inside = whole.ends[g] > whole.begins[g] + 1 ? whole.ends[g] - whole.begins[g] - 1 : 0;
    if (inside == 0 || whole.begins[g] + 1 + inside > plain->order.step_count || delta_test_number(&plain->numbers, 4) > 0) continue;
    const uint32_t place = whole.begins[g] + 1 + (uint32_t)delta_test_number(&plain->numbers, inside);
    plain->splits[plain->split_count++] = (delta_gap_split_t){whole.tensors[g], place};
  }
  delta_gap_map_deinit(&whole);
}

static void make_case(plain_case_t *plain, uint64_t seed) {
  const delta_liberties_t liberties = {seed % 7 != 0, seed % 5 != 0};
  *plain = (plain_case_t){.problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 50)), .numbers = {seed}};
  if (seed % 3 == 0) delta_test_move_states_below(plain->problem, seed);
  if (seed % 4 == 0) plain->problem->shared_bytes_per_second = 2.5e5;
  if (seed % 3 == 1) plain->problem->offload_start_seconds = 3e-3;
  if (seed % 5 < 2) plain->problem->prefetch_start_seconds = 2e-3;
  if (seed % 7 < 3) plain->problem->offload_drag = 0.125;
  if (seed % 2) plain->problem->offload_start_drag = plain->problem->prefetch_start_drag = 0.6;
  if (seed % 7 < 2) plain->problem->prefetch_drag = 0.3;
  delta_test_must(delta_order_make(plain->problem, true, delta_allocator_system(), &plain->order));
  if (seed % 2) draw_splits(plain);
  delta_test_must(delta_gap_map_init(&plain->map, plain->problem, &plain->order, &liberties, plain->splits, plain->split_count,
                                     delta_allocator_system()));
}

static void free_case(plain_case_t *plain) {
  delta_gap_map_deinit(&plain->map);
  delta_order_deinit(&plain->order);
  delta_problem_free(plain->problem);
}

static void draw_actions(plain_case_t *plain, uint8_t *actions) {
  const uint64_t part = 1 + delta_test_number(&plain->numbers, 6);
  for (uint32_t g = 0; g < plain->map.gap_count; ++g) {
    const uint8_t action = (uint8_t)delta_test_number(&plain->numbers, DELTA_ACTION_COUNT);
    const bool is_drawn = delta_test_number(&plain->numbers, part) == 0 && (plain->map.allowed[g] >> action & 1);
    actions[g] = is_drawn ? action : plain->map.defaults[g];
  }
}

typedef struct tally {
  int possible, timed, split;
} tally_t;

static void compare(plain_case_t *plain, delta_quick_t *quick, delta_evaluator_t *evaluator, uint64_t seed, tally_t *tally) {
  uint8_t actions[1024];
  delta_decision_t items[1024];
  delta_decisions_t decisions;
  delta_evaluation_t fast, slow;
  cr_assert_lt(plain->map.gap_count, 1024);
  draw_actions(plain, actions);
  delta_gap_map_decide(&plain->map, actions, items, &decisions);
  delta_test_must(delta_evaluator_measure(evaluator, &decisions, UINT64_MAX, &slow));
  // Tight, loose and none at all, so that all kinds of waiting come about.
  const uint64_t capacity_bytes = slow.peak_bytes + delta_test_number(&plain->numbers, 3) * 64;
  delta_test_must(delta_evaluator_measure(evaluator, &decisions, capacity_bytes, &slow));
  delta_test_must(delta_evaluator_time(evaluator, &slow));
  delta_test_must(delta_quick_measure(quick, actions, capacity_bytes, &fast));
  cr_assert_eq(fast.is_possible, slow.is_possible, "seed %llu", (unsigned long long)seed);
  if (!slow.is_possible) return;
  cr_assert_eq(quick->steps.count, evaluator->expansion.schedule->step_count, "seed %llu", (unsigned long long)seed);
  for (size_t s = 0; s < quick->steps.count; ++s) {
    cr_assert_eq(quick->live_bytes.items[s], evaluator->live_bytes.items[s], "seed %llu step %zu", (unsigned long long)seed, s);
  }
  delta_test_must(delta_quick_time(quick, INFINITY, &fast));
  cr_assert_eq(fast.peak_bytes, slow.peak_bytes);
  cr_assert_eq(fast.excess_bytes, slow.excess_bytes);
  cr_assert(fast.seconds == slow.seconds, "seed %llu: %.17g, judge %.17g", (unsigned long long)seed, fast.seconds, slow.seconds);
  ++tally->possible;
  tally->timed += slow.seconds < INFINITY;
  tally->split += plain->split_count > 0;
  delta_test_must(delta_evaluator_measure(evaluator, &decisions, slow.peak_bytes * 9 / 10, &slow));
  delta_test_must(delta_quick_measure(quick, actions, slow.peak_bytes * 9 / 10, &fast));
  cr_assert_eq(fast.excess_bytes, slow.excess_bytes);
}

Test(planner_quick, is_the_plain_evaluation) {
  tally_t tally = {0};
  for (uint64_t seed = 0; seed < PROBLEMS; ++seed) {
    plain_case_t plain;
    delta_quick_t quick;
    delta_evaluator_t evaluator;
    make_case(&plain, seed);
    delta_test_must(delta_quick_init(&quick, plain.problem, &plain.map, delta_allocator_system()));
    delta_test_must(delta_evaluator_init(&evaluator, plain.problem, &plain.order, delta_allocator_system()));
    for (int i = 0; i < PLANS; ++i) compare(&plain, &quick, &evaluator, seed, &tally);
    delta_quick_deinit(&quick);
    delta_evaluator_deinit(&evaluator);
    free_case(&plain);
  }
  cr_assert_gt(tally.timed, 3000, "%d of %d", tally.timed, tally.possible);
  cr_assert_gt(tally.split, 1000, "%d", tally.split);
}
