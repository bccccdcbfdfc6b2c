// The planner as a whole, and its stages expand and simulate: what is kept lives as long as it is needed, in-place pairs share bytes, times add up, budgets are refused
// with the number that would do, and memory may run out anywhere.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/planning.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

#define NONE DELTA_PROBLEM_NONE

static delta_status_t run(const delta_problem_t *problem, delta_policy_t policy, delta_allocator_t allocator,
                          delta_planner_result_t *out_result) {
  const delta_planner_options_t options = {.policy = policy, .early_update = policy == DELTA_POLICY_NONE};
  return delta_planner_run(problem, &options, allocator, out_result);
}

Test(planner_run, plans_of_random_problems_are_valid_and_tight) {
  double arena_bytes = 0, peak_bytes = 0;
  for (uint64_t seed = 0; seed < 2500; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 60));
    delta_planner_result_t result;
    delta_test_must(run(problem, seed % 2 ? DELTA_POLICY_NONE : DELTA_POLICY_EAGER, delta_allocator_system(), &result));
    delta_status_t status = delta_schedule_verify(result.schedule, problem, result.minimum_budget_bytes, delta_allocator_system());
    cr_assert_null(status, "seed %llu: %s", (unsigned long long)seed, delta_status_message(status));
    cr_assert_geq(result.schedule->arena_bytes, result.schedule->peak_bytes);
    cr_assert_leq(result.lower_bound_seconds, result.schedule->step_seconds * (1 + 1e-12));
    arena_bytes += (double)result.schedule->arena_bytes;
    peak_bytes += (double)result.schedule->peak_bytes;
    delta_schedule_free(result.schedule);
    delta_problem_free(problem);
  }
  cr_assert_lt(arena_bytes, 1.02 * peak_bytes, "%g", arena_bytes / peak_bytes);
}

Test(planner_run, a_budget_too_small_is_refused_with_the_one_that_would_do) {
  delta_problem_t *problem = delta_test_random_problem(11, 30);
  delta_planner_result_t result;
  delta_test_must(run(problem, DELTA_POLICY_NONE, delta_allocator_system(), &result));
  const uint64_t needed_bytes = result.minimum_budget_bytes;
  delta_schedule_free(result.schedule);

  problem->budget_bytes = needed_bytes - 1;
  delta_status_t status = run(problem, DELTA_POLICY_NONE, delta_allocator_system(), &result);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_DOES_NOT_FIT);
  char expected[96];
  snprintf(expected, sizeof expected, "needs %llu bytes", (unsigned long long)needed_bytes);
  const char *message = delta_status_message(status);
  cr_assert_not_null(strstr(message, expected), "%s", message);
  cr_assert_not_null(strstr(message, problem->steps[result.minimum_step].name), "%s", message);
  cr_assert_not_null(strstr(message, "largest tensors are 't"), "%s", message);
  cr_assert_eq(result.minimum_budget_bytes, needed_bytes);
  cr_assert_null(result.schedule);
  delta_status_free(status);

  problem->budget_bytes = needed_bytes;
  delta_test_must(run(problem, DELTA_POLICY_NONE, delta_allocator_system(), &result));
  delta_schedule_free(result.schedule);
  delta_problem_free(problem);
}

Test(planner_run, a_program_without_steps_is_planned) {
  delta_problem_t *problem = NULL;
  delta_test_must(delta_problem_create(delta_allocator_system(), &problem));
  delta_problem_tensor_t input = {.name = "x", .size_bytes = 64, .flags = DELTA_TENSOR_INPUT | DELTA_TENSOR_OUTPUT, .becomes_state = NONE};
  problem->alignment_bytes = 64;
  problem->tensors = &input;
  problem->tensor_count = 1;
  delta_planner_result_t result;
  delta_test_must(run(problem, DELTA_POLICY_NONE, delta_allocator_system(), &result));
  cr_assert_eq(result.schedule->arena_bytes, 64);
  delta_test_must(delta_schedule_verify(result.schedule, problem, 64, delta_allocator_system()));
  delta_schedule_free(result.schedule);
  delta_problem_free(problem);
}

Test(planner_run, memory_may_run_out_at_any_allocation) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 12);
    for (int failure = 0; failure < 2; ++failure) {
      for (delta_test_trial_t trial = {.failure = (delta_test_failure_t)failure}; delta_test_trial_begin(&trial);) {
        const delta_allocator_t allocator = delta_test_trial_allocator(&trial);
        delta_planner_result_t result;
        delta_status_t status = run(problem, DELTA_POLICY_NONE, allocator, &result);
        if (!status) status = delta_schedule_verify(result.schedule, problem, UINT64_MAX, allocator);
        delta_schedule_free(result.schedule);
        delta_test_trial_end(&trial, status, "plan");
      }
    }
    delta_problem_free(problem);
  }
}

// ---- Policies

Test(planner_run, policies_are_found_by_name) {
  delta_policy_t policy;
  delta_test_must(delta_policy_parse("eager", &policy));
  cr_assert_eq(policy, DELTA_POLICY_EAGER);
  const char *const refused[] = {"Eager", "", "nothing"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    delta_status_t status = delta_policy_parse(refused[i], &policy);
    cr_assert_eq(delta_status_code(status), DELTA_STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(delta_status_message(status), "there are none, eager"), "%s", delta_status_message(status));
    delta_status_free(status);
  }
}

Test(planner_run, decisions_out_of_order_are_refused) {
  delta_problem_t *problem = delta_test_random_problem(1, 5);
  delta_order_t order;
  delta_schedule_t *schedule = NULL;
  delta_test_must(delta_order_make(problem, true, delta_allocator_system(), &order));
  delta_decision_t items[] = {{1, 0, 0, DELTA_ACTION_KEEP}, {1, 0, 0, DELTA_ACTION_SWAP}};
  const delta_decisions_t decisions = {.items = items, .count = 2};
  delta_status_t status = delta_expand(problem, &order, &decisions, delta_allocator_system(), &schedule);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_INVALID_ARGUMENT);
  cr_assert_not_null(strstr(delta_status_message(status), "not sorted by tensor, use and place"));
  delta_status_free(status);
  delta_order_deinit(&order);
  delta_problem_free(problem);
}

// ---- Expand: x -> (a, b) -> c with pairs offered

static delta_schedule_t *expand_small(delta_problem_t **out_problem, uint32_t a_flags) {
  static uint32_t lists[] = {0, 1, 2, 1, 2, 3, 4};
  static delta_inplace_pair_t pairs[] = {{1, 3}, {2, 4}, {2, 3}, {1, 4}};
  static delta_problem_tensor_t tensors[5];
  static delta_problem_step_t steps[2];
  static const char *const names[] = {"x", "a", "b", "c", "d"};
  for (uint32_t t = 0; t < 5; ++t) {
    tensors[t] = (delta_problem_tensor_t){.name = names[t], .size_bytes = 128, .becomes_state = NONE};
  }
  tensors[0].flags = DELTA_TENSOR_INPUT;
  tensors[1].flags = a_flags;
  steps[0] = (delta_problem_step_t){.name = "s0", .inputs = lists, .input_count = 1, .outputs = lists + 1, .output_count = 2};
  steps[1] = (delta_problem_step_t){.name = "s1",
                                    .inputs = lists + 3,
                                    .input_count = 2,
                                    .outputs = lists + 5,
                                    .output_count = 2,
                                    .inplace = a_flags ? pairs + 1 : pairs,
                                    .inplace_count = a_flags ? 2 : 4,
                                    .workspace_bytes = 64};
  delta_test_must(delta_problem_create(delta_allocator_system(), out_problem));
  (*out_problem)->alignment_bytes = 64;
  (*out_problem)->tensors = tensors;
  (*out_problem)->tensor_count = 5;
  (*out_problem)->steps = steps;
  (*out_problem)->step_count = 2;
  delta_test_must(delta_problem_check(*out_problem));
  return delta_test_kept_schedule(*out_problem, true);
}

Test(planner_run, each_input_gives_its_bytes_to_one_output) {
  delta_problem_t *problem;
  delta_schedule_t *schedule = expand_small(&problem, 0);
  const delta_schedule_step_t *step = &schedule->steps[1];
  cr_assert_eq(schedule->buffers[step->outputs[0]].inplace_of, step->inputs[0]);
  cr_assert_eq(schedule->buffers[step->outputs[1]].inplace_of, step->inputs[1]);
  cr_assert_eq(schedule->peak_bytes, 3 * 128);
  cr_assert_eq(schedule->peak_step, 0);
  cr_assert_eq(schedule->arena_bytes, 3 * 128);
  delta_schedule_free(schedule);
  delta_problem_free(problem);
}

Test(planner_run, an_output_keeps_its_bytes_to_the_end) {
  delta_problem_t *problem;
  delta_schedule_t *schedule = expand_small(&problem, DELTA_TENSOR_OUTPUT);
  const delta_schedule_step_t *step = &schedule->steps[1];
  cr_assert_eq(schedule->buffers[step->inputs[0]].last_step, 1);
  cr_assert_eq(schedule->buffers[step->outputs[0]].inplace_of, NONE);
  cr_assert_eq(schedule->buffers[step->outputs[1]].inplace_of, step->inputs[1]);
  cr_assert_eq(schedule->peak_bytes, 3 * 128 + 64);
  cr_assert_eq(schedule->peak_step, 1);
  delta_schedule_free(schedule);
  delta_problem_free(problem);
}

// ---- Simulate

typedef struct simulated_step {
  delta_step_kind_t kind;
  uint32_t waits; // bit per step
  double start, end;
} simulated_step_t;

// Buffer and compute step of 100 bytes and 1 second.
static delta_schedule_t *simulate(const delta_problem_t *lanes, const simulated_step_t *expected, uint32_t count) {
  static delta_problem_tensor_t tensor = {.name = "t", .size_bytes = 100, .becomes_state = NONE};
  static delta_problem_step_t compute = {.name = "s", .seconds = 1};
  static uint32_t zero = 0;
  delta_problem_t *problem = NULL;
  delta_schedule_t *schedule = NULL;
  delta_test_must(delta_problem_create(delta_allocator_system(), &problem));
  delta_test_must(delta_schedule_create(delta_allocator_system(), &schedule));
  problem->tensors = &tensor;
  problem->tensor_count = 1;
  problem->steps = &compute;
  problem->step_count = 1;
  problem->offload_bytes_per_second = 100;
  problem->prefetch_bytes_per_second = 50;
  problem->shared_bytes_per_second = lanes->shared_bytes_per_second;
  problem->offload_start_seconds = lanes->offload_start_seconds;
  problem->prefetch_start_seconds = lanes->prefetch_start_seconds;
  problem->offload_start_drag = lanes->offload_start_drag;
  problem->offload_drag = lanes->offload_drag;
  problem->prefetch_drag = lanes->prefetch_drag;
  delta_test_must(DELTA_REGION_ALLOCATE(&schedule->region, count, &schedule->steps));
  delta_test_must(DELTA_REGION_ALLOCATE(&schedule->region, 1, &schedule->buffers));
  schedule->buffers[0].size_bytes = 100;
  schedule->buffer_count = 1;
  schedule->step_count = count;
  for (uint32_t s = 0; s < count; ++s) {
    static const delta_lane_t lane_of[] = {DELTA_LANE_COMPUTE, DELTA_LANE_OFFLOAD, DELTA_LANE_PREFETCH};
    delta_schedule_step_t *step = &schedule->steps[s];
    *step = (delta_schedule_step_t){.kind = expected[s].kind, .lane = lane_of[expected[s].kind], .inputs = &zero, .outputs = &zero};
    delta_test_must(DELTA_REGION_ALLOCATE(&schedule->region, count, &step->waits));
    for (uint32_t w = 0; w < s; ++w) {
      if (expected[s].waits >> w & 1) step->waits[step->wait_count++] = w;
    }
  }
  delta_test_must(delta_simulate(problem, schedule, delta_allocator_system()));
  for (uint32_t s = 0; s < count; ++s) {
    cr_expect_float_eq(schedule->steps[s].start_seconds, expected[s].start, 1e-9, "step %u starts at %g", s,
                       schedule->steps[s].start_seconds);
    cr_expect_float_eq(schedule->steps[s].end_seconds, expected[s].end, 1e-9, "step %u ends at %g", s, schedule->steps[s].end_seconds);
  }
  delta_problem_free(problem);
  return schedule;
}

Test(planner_run, lanes_overlap_and_wait) {
  // Compute runs on while a copy leaves; the copy back waits for it, and a step waits for the copy back.
  const simulated_step_t expected[] = {{DELTA_STEP_RUN, 0, 0, 1},     {DELTA_STEP_SWAP_OUT, 1, 1, 2}, {DELTA_STEP_RUN, 0, 1, 2},
                                       {DELTA_STEP_SWAP_IN, 2, 2, 4}, {DELTA_STEP_RUN, 0, 2, 3},      {DELTA_STEP_RUN, 8, 4, 5},
                                       {DELTA_STEP_SWAP_OUT, 0, 2, 3}};
  delta_schedule_t *schedule = simulate(&(delta_problem_t){0}, expected, 7);
  cr_assert_float_eq(schedule->step_seconds, 5, 1e-9);
  cr_assert_float_eq(schedule->stall_seconds, 1, 1e-9);
  cr_assert_float_eq(schedule->recompute_seconds, 3, 1e-9);
  delta_schedule_free(schedule);
}

Test(planner_run, directions_share_their_bandwidth) {
  // 100 out at 100/s and 100 in at 50/s through 75/s together: at half rate until the first is out, then the other at its full rate.
  const simulated_step_t expected[] = {{DELTA_STEP_SWAP_OUT, 0, 0, 2}, {DELTA_STEP_SWAP_IN, 0, 0, 3}};
  delta_schedule_free(simulate(&(delta_problem_t){.shared_bytes_per_second = 75}, expected, 2));
  const simulated_step_t independent[] = {{DELTA_STEP_SWAP_OUT, 0, 0, 1}, {DELTA_STEP_SWAP_IN, 0, 0, 2}};
  delta_schedule_free(simulate(&(delta_problem_t){.shared_bytes_per_second = 150}, independent, 2));
}

Test(planner_run, copies_take_time_to_start) {
  const simulated_step_t expected[] = {
      {DELTA_STEP_SWAP_OUT, 0, 0, 1.5}, {DELTA_STEP_SWAP_IN, 0, 0, 2.25}, {DELTA_STEP_SWAP_OUT, 0, 1.5, 3}};
  const delta_problem_t lanes = {.offload_start_seconds = 0.5, .prefetch_start_seconds = 0.25};
  delta_schedule_free(simulate(&lanes, expected, 3));
}

Test(planner_run, copies_slow_compute_down) {
  // A second of compute at three quarters of its speed until the copy below has ended, then at half beside the copy back, and at its own.
  const simulated_step_t expected[] = {
      {DELTA_STEP_SWAP_OUT, 0, 0, 1}, {DELTA_STEP_RUN, 0, 0, 1.5}, {DELTA_STEP_SWAP_IN, 1, 1, 3}, {DELTA_STEP_RUN, 0, 1.5, 3.25}};
  const delta_problem_t lanes = {.offload_drag = 0.25, .prefetch_drag = 0.5};
  delta_schedule_free(simulate(&lanes, expected, 4));
  // The same from what starts, as long as it copies.
  const simulated_step_t started[] = {{DELTA_STEP_SWAP_OUT, 0, 0, 2}, {DELTA_STEP_RUN, 0, 0, 4.0 / 3}};
  const delta_problem_t starts = {.offload_start_seconds = 1, .offload_start_drag = 0.375, .offload_drag = 0.125};
  delta_schedule_free(simulate(&starts, started, 2));
}
