// The search: on random problems every plan is valid, within its budget, not faster than the bound, not slower than what plain release reaches, and the same each time. What
// the evaluator says about bytes and time is what the finished schedule has.
#include <criterion/criterion.h>
#include <math.h>

#include "planner/addresses.h"
#include "planner/found.h"
#include "planner/retime.h"
#include "tests/support/planning.h"
#include "tests/support/sanitized.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

enum { EVALUATIONS = 600 };

static delta_planner_t *make_planner(const delta_problem_t *problem, delta_policy_t policy, uint64_t search_seed) {
  const delta_planner_options_t options = {
      .policy = policy, .early_update = true, .effort = {.evaluation_limit = EVALUATIONS, .seed = search_seed, .proves_bound = true}};
  delta_planner_t *planner = NULL;
  delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &planner));
  return planner;
}

static void expect_valid(const delta_problem_t *problem, const delta_planner_result_t *result, uint64_t capacity_bytes, uint64_t seed) {
  delta_status_t status = delta_schedule_verify(result->schedule, problem, capacity_bytes, delta_allocator_system());
  cr_assert_null(status, "seed %llu: %s", (unsigned long long)seed, delta_status_message(status));
  const char *why = "";
  cr_assert(delta_test_machine_accepts(result->schedule, problem, &why), "seed %llu: %s", (unsigned long long)seed, why);
  cr_assert_geq(result->schedule->step_seconds * (1 + 1e-12), result->lower_bound_seconds, "seed %llu", (unsigned long long)seed);
}

Test(planner_search, plans_are_valid_and_no_slower_than_release) {
  double found_seconds = 0, released_seconds = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 50));
    if (seed % 2) delta_test_move_states_below(problem, seed);
    delta_planner_t *planner = make_planner(problem, DELTA_POLICY_DELTA, seed),
                    *releaser = make_planner(problem, DELTA_POLICY_DELTA_FIXED, 0);
    const uint64_t least = delta_planner_minimum_bytes(planner), kept = delta_planner_kept(planner)->arena_bytes;
    for (uint64_t part = 0; part < 3; ++part) {
      const uint64_t capacity_bytes = least + (kept - least) * part / 3;
      delta_planner_result_t found, released;
      delta_test_must(delta_planner_plan(planner, capacity_bytes, &found));
      delta_test_must(delta_planner_plan(releaser, capacity_bytes, &released));
      expect_valid(problem, &found, capacity_bytes, seed);
      cr_assert_leq(found.schedule->step_seconds, released.schedule->step_seconds);
      found_seconds += found.schedule->step_seconds;
      released_seconds += released.schedule->step_seconds;
      delta_schedule_free(found.schedule);
      delta_schedule_free(released.schedule);
    }
    delta_planner_destroy(planner);
    delta_planner_destroy(releaser);
    delta_problem_free(problem);
  }
  // With so few evaluations the search gains a little more than this, and the same each time.
  cr_assert_lt(found_seconds, 0.983 * released_seconds, "%g", found_seconds / released_seconds);
}

typedef struct liberty_case {
  const char *name;
  delta_policy_t policy;
} liberty_case_t;
static const liberty_case_t liberty_cases[] = {{"swap", DELTA_POLICY_SWAP}, {"recompute", DELTA_POLICY_RECOMPUTE}};

Test(planner_search, forbidden_actions_are_not_taken) {
  for (size_t i = 0; i < sizeof liberty_cases / sizeof *liberty_cases; ++i) {
    int planned = 0;
    for (uint64_t seed = 0; seed < 90; ++seed) {
      delta_problem_t *problem = delta_test_random_problem(seed, 30);
      delta_planner_t *planner = make_planner(problem, liberty_cases[i].policy, seed);
      const uint64_t capacity_bytes = delta_planner_kept(planner)->arena_bytes * 9 / 10;
      delta_planner_result_t result;
      delta_status_t status = delta_planner_plan(planner, capacity_bytes, &result);
      if (status) {
        cr_assert_eq(delta_status_code(status), DELTA_STATUS_DOES_NOT_FIT, "%s", delta_status_message(status));
      } else {
        ++planned;
        expect_valid(problem, &result, capacity_bytes, seed);
        const bool is_swap = liberty_cases[i].policy == DELTA_POLICY_SWAP;
        cr_assert_eq(is_swap ? result.schedule->recomputed_nodes : result.schedule->swapped_tensors, 0, "seed %llu",
                     (unsigned long long)seed);
      }
      delta_status_free(status);
      delta_schedule_free(result.schedule);
      delta_planner_destroy(planner);
      delta_problem_free(problem);
    }
    cr_assert_gt(planned, 20, "%s: %d", liberty_cases[i].name, planned);
  }
}

// With an order of its own, which is the same each time.
static void time_decisions(const delta_problem_t *problem, const delta_decisions_t *decisions, uint64_t capacity_bytes,
                           delta_schedule_t **out_schedule) {
  delta_order_t order;
  delta_test_must(delta_order_make(problem, true, delta_allocator_system(), &order));
  delta_test_must(delta_timed_schedule(problem, &order, decisions, capacity_bytes, delta_allocator_system(), out_schedule));
  delta_order_deinit(&order);
}

static delta_search_result_t search_with(const delta_problem_t *problem, const delta_search_options_t *options,
                                         delta_schedule_t **out_schedule) {
  const delta_allocator_t allocator = delta_allocator_system();
  delta_order_t order;
  delta_decision_list_t items;
  delta_decisions_t decisions;
  delta_search_result_t result;
  delta_test_must(delta_order_make(problem, true, allocator, &order));
  delta_test_must(delta_search(problem, &order, options, allocator, &items, &decisions, &result));
  if (out_schedule && result.fits) time_decisions(problem, &decisions, options->capacity_bytes, out_schedule);
  delta_array_deinit(allocator, &items);
  delta_order_deinit(&order);
  return result;
}

static delta_search_result_t search(const delta_problem_t *problem, uint64_t capacity_bytes, uint64_t evaluations, uint64_t search_seed,
                                    delta_schedule_t **out_schedule) {
  const delta_search_options_t options = {
      .liberties = {true, true}, .capacity_bytes = capacity_bytes, .effort = {.evaluation_limit = evaluations, .seed = search_seed}};
  return search_with(problem, &options, out_schedule);
}

Test(planner_search, the_same_effort_gives_the_same_plan_and_more_effort_no_worse_one) {
  for (uint64_t seed = 0; seed < DELTA_TEST_SEEDS(60); ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 40);
    delta_schedule_t *kept = delta_test_kept_schedule(problem, true);
    const uint64_t capacity_bytes = kept->peak_bytes * 7 / 10;
    const delta_search_result_t first = search(problem, capacity_bytes, 600, seed, NULL),
                                again = search(problem, capacity_bytes, 600, seed, NULL),
                                longer = search(problem, capacity_bytes, 1800, seed, NULL);
    cr_assert_eq(first.evaluation_count, again.evaluation_count);
    cr_assert_eq(first.evaluation.excess_bytes, again.evaluation.excess_bytes);
    cr_assert(first.evaluation.seconds == again.evaluation.seconds);
    cr_assert_leq(longer.evaluation.seconds, first.evaluation.seconds);
    delta_schedule_free(kept);
    delta_problem_free(problem);
  }
}

// Plans that were the fastest on the way fit, take as long as is said of them, and each is slower than the next.
static uint32_t expect_runners(const delta_problem_t *problem, uint64_t capacity_bytes, uint64_t seed) {
  delta_runners_t runners = {.allocator = delta_allocator_system()};
  const delta_search_options_t options = {
      .liberties = {true, true}, .capacity_bytes = capacity_bytes, .effort = {.evaluation_limit = 2000, .seed = seed}, .runners = &runners};
  const double found_seconds = search_with(problem, &options, NULL).evaluation.seconds;
  for (uint32_t i = 0; i < runners.count; ++i) {
    const delta_runner_t *runner = &runners.items[i];
    delta_schedule_t *schedule = NULL;
    cr_assert_gt(runner->seconds, i + 1 < runners.count ? runners.items[i + 1].seconds : found_seconds);
    time_decisions(problem, &runner->decisions, capacity_bytes, &schedule);
    cr_assert_leq(schedule->peak_bytes, capacity_bytes);
    cr_assert_float_eq(schedule->step_seconds, runner->seconds, 1e-9 * schedule->step_seconds);
    delta_schedule_free(schedule);
  }
  const uint32_t count = runners.count;
  delta_runners_clear(&runners);
  return count;
}

Test(planner_search, runners_are_plans) {
  uint32_t count = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 40);
    delta_schedule_t *kept = delta_test_kept_schedule(problem, true);
    count += expect_runners(problem, kept->peak_bytes * 7 / 10, seed);
    delta_schedule_free(kept);
    delta_problem_free(problem);
  }
  cr_assert_gt(count, 20);
}

// Bytes times steps of all buffers.
static double sum_lives(const delta_schedule_t *schedule) {
  double sum = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    sum += (double)buffer->size_bytes * (buffer->last_step - buffer->first_step + 1.0);
  }
  return sum;
}

// With copies back as late as can be a schedule fits, too. Returns how much shorter its buffers live.
static double check_late(const delta_problem_t *problem, const delta_schedule_t *schedule, uint64_t capacity_bytes, uint64_t seed) {
  const delta_allocator_t allocator = delta_allocator_system();
  delta_schedule_t *late = NULL;
  delta_test_must(delta_schedule_copy(schedule, allocator, &late));
  delta_test_must(delta_delay_copies_back(problem, late, allocator));
  delta_test_must(delta_retime(problem, late, allocator));
  cr_assert_leq(late->peak_bytes, capacity_bytes, "seed %llu: %llu of %llu", (unsigned long long)seed, (unsigned long long)late->peak_bytes,
                (unsigned long long)capacity_bytes);
  const double shorter = sum_lives(schedule) - sum_lives(late);
  delta_test_must(delta_layout(problem, late, allocator));
  delta_test_must(delta_set_waits(late, DELTA_WAIT_FOR_BYTES, allocator));
  delta_test_must(delta_simulate(problem, late, allocator));
  delta_test_must(delta_schedule_verify(late, problem, UINT64_MAX, allocator));
  delta_schedule_free(late);
  return shorter;
}

// In the order of its times, a schedule is at no step fuller than the capacity, and a step's inputs are there before it starts.
Test(planner_search, times_hold_at_every_instant) {
  int found = 0;
  double shorter = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 40);
    if (seed % 3 == 0) problem->shared_bytes_per_second = 2.5e5;
    if (seed % 4 == 0) problem->offload_start_seconds = problem->prefetch_start_seconds = 2e-3;
    if (seed % 5 == 0) problem->offload_drag = problem->prefetch_drag = 0.2;
    delta_schedule_t *kept = delta_test_kept_schedule(problem, true), *schedule = NULL;
    const uint64_t capacity_bytes = kept->peak_bytes * (6 + seed % 4) / 10;
    const delta_search_result_t result = search(problem, capacity_bytes, 200, seed, &schedule);
    delta_schedule_free(kept);
    if (schedule) {
      ++found;
      cr_assert_leq(schedule->peak_bytes, capacity_bytes, "seed %llu: %llu of %llu", (unsigned long long)seed,
                    (unsigned long long)schedule->peak_bytes, (unsigned long long)capacity_bytes);
      cr_assert_float_eq(schedule->step_seconds, result.evaluation.seconds, 1e-12);
      shorter += check_late(problem, schedule, capacity_bytes, seed);
      const double timed_seconds = schedule->step_seconds;
      delta_test_must(delta_set_waits(schedule, DELTA_WAIT_FOR_DATA, delta_allocator_system()));
      delta_test_must(delta_simulate(problem, schedule, delta_allocator_system()));
      cr_assert_leq(schedule->step_seconds, timed_seconds * (1 + 1e-12), "seed %llu: data comes later", (unsigned long long)seed);
    }
    delta_schedule_free(schedule);
    delta_problem_free(problem);
  }
  cr_assert_gt(found, 60, "%d", found);
  cr_assert_gt(shorter, 0);
}

// What lies in a row at its addresses may take more than what lives: in one byte less than that, everything kept still seems to fit, and in two and in three.
Test(planner_search, addresses_that_are_missed_by_a_byte_are_found) {
  enum { UNIT = 1000 };
  int missed = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 24);
    for (uint32_t t = 0; t < problem->tensor_count; ++t) problem->tensors[t].size_bytes *= UNIT;
    for (uint32_t s = 0; s < problem->step_count; ++s) problem->steps[s].workspace_bytes *= UNIT;
    delta_schedule_t *kept = delta_test_kept_schedule(problem, true), *schedule = NULL;
    if (kept->arena_bytes > kept->peak_bytes) {
      const delta_search_options_t options = {
          .liberties = {true, true}, .capacity_bytes = kept->arena_bytes - 1, .effort = {.evaluation_limit = EVALUATIONS, .seed = seed}};
      delta_order_t order = {.allocator = delta_allocator_system()};
      delta_test_must(delta_order_make(problem, true, delta_allocator_system(), &order));
      delta_test_must(delta_find_schedule(problem, &order, &options, delta_allocator_system(), &schedule));
      cr_assert_not_null(schedule, "seed %llu", (unsigned long long)seed);
      delta_test_must(delta_schedule_verify(schedule, problem, options.capacity_bytes, delta_allocator_system()));
      delta_order_deinit(&order);
      ++missed;
    }
    delta_schedule_free(schedule);
    delta_schedule_free(kept);
    delta_problem_free(problem);
  }
  cr_assert_gt(missed, 0);
}

Test(planner_search, the_tier_below_has_a_budget_too) {
  uint64_t swapped = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 40);
    delta_schedule_t *kept = delta_test_kept_schedule(problem, true), *schedule = NULL;
    problem->host_budget_bytes = 2 * DELTA_HOST_BLOCK_BYTES;
    search(problem, kept->peak_bytes * 8 / 10, 300, seed, &schedule);
    if (schedule) cr_assert_leq(schedule->host_bytes, problem->host_budget_bytes, "seed %llu", (unsigned long long)seed);
    if (schedule) swapped += schedule->swapped_tensors;
    delta_schedule_free(schedule);
    delta_schedule_free(kept);
    delta_problem_free(problem);
  }
  cr_assert_gt(swapped, 5);
}

Test(planner_search, memory_may_run_out_at_any_allocation) {
  delta_problem_t *problem = delta_test_random_problem(3, 12);
  delta_planner_t *planner = make_planner(problem, DELTA_POLICY_DELTA, 0);
  problem->budget_bytes = delta_planner_minimum_bytes(planner);
  delta_planner_destroy(planner);
  for (delta_test_trial_t trial = {.leap_part = 20}; delta_test_trial_begin(&trial);) {
    const delta_planner_options_t options = {.policy = DELTA_POLICY_DELTA, .early_update = true, .effort = {.evaluation_limit = 50}};
    delta_planner_result_t result;
    delta_status_t status = delta_planner_run(problem, &options, delta_test_trial_allocator(&trial), &result);
    delta_schedule_free(result.schedule);
    delta_test_trial_end(&trial, status, "plan");
  }
  delta_problem_free(problem);
}
