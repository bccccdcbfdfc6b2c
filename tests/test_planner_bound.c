// The lower bound: never above what a plan takes, right where it is known by hand, and close to what is found where a lane or rebuilding decides.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>

#include "tests/support/planning.h"
#include "tests/support/sanitized.h"
#include "tests/support/support.h"

static double bound_of(const delta_problem_t *problem, uint64_t capacity_bytes, double enough_seconds) {
  delta_order_t order;
  double seconds = -1;
  delta_test_must(delta_order_listed(problem, delta_allocator_system(), &order));
  delta_test_must(delta_lower_bound(problem, &order, capacity_bytes, enough_seconds, delta_allocator_system(), &seconds));
  delta_order_deinit(&order);
  return seconds;
}

enum { CHAIN = 4, UNIT = 64 };

// CHAIN steps of a second forward, each making a tensor of one unit that its step of a second on the way back reads; gradients take nothing.
static delta_problem_t *make_chain(double bytes_per_second, bool is_pure) {
  delta_problem_t *problem = NULL;
  delta_test_must(delta_problem_create(delta_allocator_system(), &problem));
  problem->alignment_bytes = UNIT;
  problem->budget_bytes = problem->host_budget_bytes = UINT64_MAX;
  problem->offload_bytes_per_second = problem->prefetch_bytes_per_second = bytes_per_second;
  problem->tensor_count = CHAIN;
  problem->step_count = 2 * CHAIN;
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, problem->tensor_count, &problem->tensors));
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, problem->step_count, &problem->steps));
  for (uint32_t i = 0; i < CHAIN; ++i) {
    uint32_t *made = NULL;
    delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, 1, &made));
    *made = i;
    problem->tensors[i] =
        (delta_problem_tensor_t){.name = "a", .size_bytes = UNIT, .kind = DELTA_CLASS_ACTIVATIONS, .becomes_state = DELTA_PROBLEM_NONE};
    problem->steps[i] = (delta_problem_step_t){
        .name = "f", .node = DELTA_PROBLEM_NONE, .seconds = 1, .flags = is_pure ? DELTA_STEP_PURE : 0, .outputs = made, .output_count = 1};
    problem->steps[2 * CHAIN - 1 - i] =
        (delta_problem_step_t){.name = "b", .node = DELTA_PROBLEM_NONE, .seconds = 1, .inputs = made, .input_count = 1};
  }
  return problem;
}

typedef struct chain_case {
  char name[40];
  double units_per_second; // of both lanes; 0: none
  bool is_pure;
  int units; // of memory
  double seconds, tolerance;
} chain_case_t;

ParameterizedTestParameters(planner_bound, chains) {
  static chain_case_t cases[] = {
      {"everything fits", 1, true, CHAIN, 8, 1e-9},
      {"one is made again", 0, true, CHAIN - 1, 9, 0.02},
      {"two are made again", 0, true, CHAIN - 2, 10, 0.02},
      {"fast lanes hide the copies", 4, false, CHAIN - 1, 8, 1e-9},
      // Half a unit a second: copies out of two units have begun after one second at the earliest and end after five, where the third step could have
      // begun after two; they come back while five seconds are left, at the pace of the way out.
      {"a slow lane decides", 0.5, false, CHAIN - 1, 8, 0.3},
  };
  return cr_make_param_array(chain_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(chain_case_t *c, planner_bound, chains) {
  delta_problem_t *problem = make_chain(c->units_per_second * UNIT, c->is_pure);
  const double seconds = bound_of(problem, (uint64_t)c->units * UNIT, INFINITY);
  cr_expect_leq(seconds, c->seconds + c->tolerance, "%s: %.9g", c->name, seconds);
  cr_expect_geq(seconds, c->seconds - c->tolerance, "%s: %.9g", c->name, seconds);
  delta_problem_free(problem);
}

typedef struct plan_case {
  char name[40];
  uint64_t seeds;
  uint32_t least_steps, more_steps;
  bool states_below, shared_bandwidth, other_rates, starts_and_drags;
} plan_case_t;

ParameterizedTestParameters(planner_bound, never_above_a_plan) {
  static plan_case_t cases[] = {
      // In seeds 9 and 25, and in 46 of those with a shared bandwidth, a copy back begins amid a step, in the bytes of a copy below that ends meanwhile.
      {.name = "few steps", .seeds = 200, .least_steps = 4, .more_steps = 12},
      {.name = "more steps", .seeds = 12, .least_steps = 16, .more_steps = 30},
      {.name = "states below", .seeds = 80, .least_steps = 6, .more_steps = 12, .states_below = true},
      {.name = "a shared bandwidth", .seeds = 80, .least_steps = 6, .more_steps = 12, .shared_bandwidth = true},
      {"states below, a shared bandwidth", 120, 6, 12, .states_below = true, .shared_bandwidth = true},
      {"other rates, states below", 120, 4, 12, .states_below = true, .other_rates = true},
      {"other rates, a shared bandwidth", 120, 4, 12, .shared_bandwidth = true, .other_rates = true},
      {"starts and drags", 120, 4, 12, .other_rates = true, .starts_and_drags = true},
      {"starts and drags, states below, shared", 120, 4, 12, true, true, true, true},
  };
  return cr_make_param_array(plan_case_t, cases, sizeof cases / sizeof *cases);
}

static void set_other_rates(delta_problem_t *problem, delta_test_numbers_t *numbers) {
  static const double rates[] = {2e4, 5e4, 1e5, 2e5, 5e5};
  problem->offload_bytes_per_second = rates[delta_test_number(numbers, 5)];
  problem->prefetch_bytes_per_second = rates[delta_test_number(numbers, 5)];
}

static void set_starts_and_drags(delta_problem_t *problem, delta_test_numbers_t *numbers) {
  double *const starts[] = {&problem->offload_start_seconds, &problem->prefetch_start_seconds};
  double *const drags[] = {&problem->offload_start_drag, &problem->prefetch_start_drag, &problem->offload_drag, &problem->prefetch_drag};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; ++i) *starts[i] = 1e-3 * (double)delta_test_number(numbers, 4);
  for (size_t i = 0; i < sizeof drags / sizeof *drags; ++i) *drags[i] = 0.1 * (double)delta_test_number(numbers, 4);
}

static delta_problem_t *make_random_problem(const plan_case_t *c, uint64_t seed) {
  static const double shares[] = {1.2, 0.7, 1, 1.5}; // of the faster lane's bandwidth
  delta_problem_t *problem = delta_test_random_problem(seed, c->least_steps + (uint32_t)(seed % c->more_steps));
  delta_test_numbers_t numbers = {seed};
  if (c->states_below) delta_test_move_states_below(problem, seed);
  if (c->other_rates) set_other_rates(problem, &numbers);
  if (c->starts_and_drags) set_starts_and_drags(problem, &numbers);
  const double share = shares[c->other_rates ? delta_test_number(&numbers, 4) : 0];
  if (c->shared_bandwidth)
    problem->shared_bytes_per_second = share * fmax(problem->offload_bytes_per_second, problem->prefetch_bytes_per_second);
  return problem;
}

// Random problems, at budgets from the least to half of the way to keeping everything: no plan of any policy is faster.
ParameterizedTest(plan_case_t *c, planner_bound, never_above_a_plan, .timeout = 250) {
  static const delta_policy_t policies[] = {DELTA_POLICY_DELTA, DELTA_POLICY_SWAP, DELTA_POLICY_RECOMPUTE};
  for (uint64_t seed = 0; seed < DELTA_TEST_SEEDS(c->seeds); ++seed) {
    delta_problem_t *problem = make_random_problem(c, seed);
    const delta_planner_options_t options = {
        .policy = policies[seed % 3], .listed_order = true, .effort = {.evaluation_limit = 100, .seed = seed}};
    delta_planner_t *planner = NULL;
    delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &planner));
    const uint64_t least = delta_planner_minimum_bytes(planner), kept = delta_planner_kept(planner)->arena_bytes;
    const uint64_t capacity_bytes = least + (kept - least) * (seed % 4) / 6;
    delta_planner_result_t found;
    delta_test_must(delta_planner_plan(planner, capacity_bytes, &found));
    const double bound_seconds = bound_of(problem, capacity_bytes, INFINITY);
    cr_assert_leq(bound_seconds, found.schedule->step_seconds * (1 + 1e-9), "%s, seed %llu: %g, %g", c->name, (unsigned long long)seed,
                  bound_seconds, found.schedule->step_seconds);
    delta_schedule_free(found.schedule);
    delta_planner_destroy(planner);
    delta_problem_free(problem);
  }
}

Test(planner_bound, stops_when_it_is_enough) {
  delta_problem_t *problem = make_chain(0, true);
  const double whole = bound_of(problem, (CHAIN - 1) * UNIT, INFINITY), part = bound_of(problem, (CHAIN - 1) * UNIT, 8.3);
  cr_expect(part >= 8.3 && part <= whole, "%g, %g", part, whole);
  cr_expect_eq(bound_of(problem, (CHAIN - 1) * UNIT, INFINITY), whole, "the same each time");
  delta_problem_free(problem);
}
