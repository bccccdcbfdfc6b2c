// Budgets: a policy plans in its smallest budget and not in one byte less, every plan is valid and within its budget, and what a budget does not force is as without.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/planning.h"
#include "tests/support/sanitized.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

static delta_planner_t *make_planner(const delta_problem_t *problem, delta_policy_t policy) {
  const delta_planner_options_t options = {.policy = policy, .early_update = true, .effort = {.proves_bound = true}};
  delta_planner_t *planner = NULL;
  delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &planner));
  return planner;
}

static void expect_plan(const delta_problem_t *problem, delta_planner_t *planner, uint64_t capacity_bytes, uint64_t seed) {
  delta_planner_result_t result;
  delta_status_t status = delta_planner_plan(planner, capacity_bytes, &result);
  cr_assert_null(status, "seed %llu: %s", (unsigned long long)seed, delta_status_message(status));
  status = delta_schedule_verify(result.schedule, problem, capacity_bytes, delta_allocator_system());
  cr_assert_null(status, "seed %llu: %s", (unsigned long long)seed, delta_status_message(status));
  const char *why = "";
  cr_assert(delta_test_machine_accepts(result.schedule, problem, &why), "seed %llu: %s", (unsigned long long)seed, why);
  cr_assert_geq(result.schedule->step_seconds * (1 + 1e-12), result.lower_bound_seconds);
  delta_schedule_free(result.schedule);
}

Test(planner_budget, the_smallest_budget_is_exact) {
  double kept_bytes = 0, least_bytes = 0;
  for (uint64_t seed = 0; seed < DELTA_TEST_SEEDS(600); ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 50));
    if (seed % 2) delta_test_move_states_below(problem, seed);
    delta_planner_t *planner = make_planner(problem, DELTA_POLICY_DELTA_FIXED), *keeper = make_planner(problem, DELTA_POLICY_NONE);
    const uint64_t least = delta_planner_minimum_bytes(planner), kept = delta_planner_minimum_bytes(keeper);
    cr_assert_leq(least, kept);
    expect_plan(problem, planner, least, seed);
    expect_plan(problem, planner, least + (kept - least) / 2, seed);
    expect_plan(problem, planner, UINT64_MAX, seed);
    delta_planner_result_t result;
    delta_status_t status = delta_planner_plan(planner, least - 1, &result);
    cr_assert_eq(delta_status_code(status), DELTA_STATUS_DOES_NOT_FIT, "seed %llu", (unsigned long long)seed);
    cr_assert_not_null(strstr(delta_status_message(status), "largest tensors are"), "%s", delta_status_message(status));
    cr_assert_null(result.schedule);
    cr_assert_eq(result.minimum_budget_bytes, least);
    delta_status_free(status);
    kept_bytes += (double)kept;
    least_bytes += (double)least;
    delta_planner_destroy(planner);
    delta_planner_destroy(keeper);
    delta_problem_free(problem);
  }
  cr_assert_lt(least_bytes, 0.8 * kept_bytes, "%g", least_bytes / kept_bytes);
}

static bool same_schedule(const delta_schedule_t *a, const delta_schedule_t *b) {
  return a->step_count == b->step_count && a->buffer_count == b->buffer_count && a->arena_bytes == b->arena_bytes &&
         a->swapped_tensors == 0 && b->swapped_tensors == 0 && memcmp(a->buffers, b->buffers, a->buffer_count * sizeof *a->buffers) == 0;
}

Test(planner_budget, what_fits_is_planned_as_without_a_budget) {
  static const delta_policy_t policies[] = {DELTA_POLICY_DELTA_FIXED, DELTA_POLICY_DELTA_RELEASED};
  for (uint64_t seed = 0; seed < 60; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 20);
    delta_planner_t *keeper = make_planner(problem, DELTA_POLICY_NONE);
    delta_planner_result_t kept, result;
    delta_test_must(delta_planner_plan(keeper, UINT64_MAX, &kept));
    for (size_t i = 0; i < sizeof policies / sizeof *policies; ++i) {
      delta_planner_t *planner = make_planner(problem, policies[i]);
      delta_test_must(delta_planner_plan(planner, kept.schedule->arena_bytes, &result));
      cr_assert(same_schedule(kept.schedule, result.schedule), "seed %llu", (unsigned long long)seed);
      delta_schedule_free(result.schedule);
      delta_planner_destroy(planner);
    }
    delta_schedule_free(kept.schedule);
    delta_planner_destroy(keeper);
    delta_problem_free(problem);
  }
}

// Looks for the plan in one go, or goes on from a first search of as many evaluations.
static double seconds_found(const delta_problem_t *problem, uint64_t capacity_bytes, int runs) {
  delta_planner_t *planner = make_planner(problem, DELTA_POLICY_DELTA);
  double seconds = 0;
  for (int run = 0; run < runs; ++run) {
    const delta_planner_effort_t effort = {.evaluation_limit = 400, .seed = 1, .goes_on = true};
    delta_planner_result_t result;
    delta_planner_set_effort(planner, &effort);
    delta_test_must(delta_planner_plan(planner, capacity_bytes, &result));
    delta_test_must(delta_schedule_verify(result.schedule, problem, capacity_bytes, delta_allocator_system()));
    cr_assert(run == 0 || result.schedule->step_seconds <= seconds);
    seconds = result.schedule->step_seconds;
    delta_schedule_free(result.schedule);
  }
  delta_planner_destroy(planner);
  return seconds;
}

Test(planner_budget, a_search_that_goes_on_is_never_slower) {
  int faster = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 60);
    delta_planner_t *planner = make_planner(problem, DELTA_POLICY_DELTA);
    const uint64_t least = delta_planner_minimum_bytes(planner), kept = delta_planner_kept(planner)->arena_bytes;
    delta_planner_destroy(planner);
    const double once = seconds_found(problem, least + (kept - least) / 4, 1);
    const double thrice = seconds_found(problem, least + (kept - least) / 4, 3);
    cr_assert_leq(thrice, once, "seed %llu", (unsigned long long)seed);
    faster += thrice < once;
    delta_problem_free(problem);
  }
  cr_assert_gt(faster, 0);
}

// What was released plans softly: sometimes in the budget, often beside it, and then it says so. Its copies never run beside the work.
Test(planner_budget, the_released_rule_misses_budgets_and_says_so) {
  int met = 0, missed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 40);
    delta_planner_t *planner = make_planner(problem, DELTA_POLICY_DELTA_RELEASED);
    const uint64_t capacity_bytes = delta_planner_minimum_bytes(planner) * 9 / 10;
    delta_planner_result_t result;
    delta_status_t status = delta_planner_plan(planner, capacity_bytes, &result);
    met += status == DELTA_OK;
    missed += status != DELTA_OK;
    if (status) {
      cr_assert_eq(delta_status_code(status), DELTA_STATUS_DOES_NOT_FIT);
      cr_assert_gt(result.minimum_budget_bytes, capacity_bytes);
      delta_status_free(status);
    } else {
      status = delta_schedule_verify(result.schedule, problem, capacity_bytes, delta_allocator_system());
      cr_assert_null(status, "seed %llu: %s", (unsigned long long)seed, delta_status_message(status));
      double busy_seconds = 0;
      for (uint32_t s = 0; s < result.schedule->step_count; ++s) {
        busy_seconds += result.schedule->steps[s].end_seconds - result.schedule->steps[s].start_seconds;
      }
      cr_assert_float_eq(busy_seconds, result.schedule->step_seconds, 1e-6 * busy_seconds);
      delta_schedule_free(result.schedule);
    }
    delta_planner_destroy(planner);
    delta_problem_free(problem);
  }
  cr_assert_gt(met, 5, "%d", met);
  cr_assert_gt(missed, 10, "%d", missed);
}

Test(planner_budget, memory_may_run_out_at_any_allocation) {
  delta_problem_t *problem = delta_test_random_problem(3, 12);
  delta_planner_t *planner = make_planner(problem, DELTA_POLICY_DELTA_FIXED);
  problem->budget_bytes = delta_planner_minimum_bytes(planner);
  delta_planner_destroy(planner);
  for (delta_test_trial_t trial = {.leap_part = 40}; delta_test_trial_begin(&trial);) {
    const delta_planner_options_t options = {.policy = DELTA_POLICY_DELTA_FIXED, .early_update = true};
    delta_planner_result_t result;
    delta_status_t status = delta_planner_run(problem, &options, delta_test_trial_allocator(&trial), &result);
    delta_schedule_free(result.schedule);
    delta_test_trial_end(&trial, status, "plan");
  }
  delta_problem_free(problem);
}
