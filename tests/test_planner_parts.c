// Parts of one tensor: a search may decide them alike, and the way down to the least memory always does; and that way is found for long programs, too.
#include <criterion/criterion.h>

#include "planner/found.h"
#include "tests/support/planning.h"

enum { UNIT = 64, PARTS = 2 };

static uint32_t *list_of(delta_problem_t *problem, const uint32_t *items, uint32_t count) {
  void *copy = NULL;
  delta_test_must(delta_region_copy(&problem->region, items, count, sizeof *items, &copy));
  return copy;
}

static uint32_t add_tensor(delta_problem_t *problem, size_t size_bytes) {
  problem->tensors[problem->tensor_count] =
      (delta_problem_tensor_t){.name = "t", .size_bytes = size_bytes, .kind = DELTA_CLASS_ACTIVATIONS, .becomes_state = DELTA_PROBLEM_NONE};
  return problem->tensor_count++;
}

// Runs for `seconds`, reads the inputs that are there and makes a tensor.
static uint32_t add_step(delta_problem_t *problem, double seconds, const uint32_t *inputs, uint32_t input_count, size_t size_bytes) {
  const uint32_t output = add_tensor(problem, size_bytes);
  problem->steps[problem->step_count++] = (delta_problem_step_t){.name = "s",
                                                                 .node = DELTA_PROBLEM_NONE,
                                                                 .seconds = seconds,
                                                                 .flags = DELTA_STEP_PURE,
                                                                 .inputs = list_of(problem, inputs, input_count),
                                                                 .input_count = input_count,
                                                                 .outputs = list_of(problem, &output, 1),
                                                                 .output_count = 1};
  return output;
}

// Chains of `depth` steps of different costs and sizes forward, one after the other, and then back again. Tensors at one depth are parts of one.
static delta_problem_t *make_chains(uint32_t chain_count, uint32_t depth) {
  delta_problem_t *problem = NULL;
  const size_t steps = 2 * (size_t)chain_count * depth;
  uint32_t *forward = NULL;
  delta_test_must(delta_problem_create(delta_allocator_system(), &problem));
  problem->alignment_bytes = UNIT;
  problem->budget_bytes = problem->host_budget_bytes = UINT64_MAX;
  problem->offload_bytes_per_second = problem->prefetch_bytes_per_second = 0.5 * UNIT;
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, steps, &problem->tensors));
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, steps, &problem->steps));
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, (size_t)chain_count * depth, &forward));
  for (uint32_t c = 0; c < chain_count; ++c) {
    for (uint32_t i = 0; i < depth; ++i) {
      const uint32_t before = i > 0 ? forward[c * depth + i - 1] : 0;
      forward[c * depth + i] = add_step(problem, 1 + i * 7 % 5, &before, i > 0, UNIT * (1 + i * 3 % 4));
    }
  }
  for (uint32_t c = 0; c < chain_count; ++c) {
    for (uint32_t i = depth, after = 0; i-- > 0;) {
      const uint32_t inputs[] = {forward[c * depth + i], after};
      after = add_step(problem, 2, inputs, i + 1 < depth ? 2 : 1, UNIT);
    }
  }
  for (uint32_t i = 0; i < depth && chain_count == PARTS; ++i) {
    problem->tensors[forward[i]].next_kin = 1 + forward[depth + i];
    problem->tensors[forward[depth + i]].next_kin = 1 + forward[i];
  }
  delta_test_must(delta_problem_check(problem));
  return problem;
}

static const delta_decision_t *find_decision(const delta_decisions_t *decisions, uint32_t tensor, uint32_t use) {
  for (size_t i = 0; i < decisions->count; ++i) {
    if (decisions->items[i].tensor == tensor && decisions->items[i].use == use) return &decisions->items[i];
  }
  return NULL;
}

Test(planner_parts, are_decided_alike) {
  const delta_allocator_t allocator = delta_allocator_system();
  delta_problem_t *problem = make_chains(PARTS, 12);
  delta_order_t order;
  delta_schedule_t *kept = NULL;
  delta_decision_list_t items;
  delta_decisions_t decisions;
  delta_search_result_t result;
  delta_test_must(delta_order_listed(problem, allocator, &order));
  delta_test_must(delta_expand(problem, &order, NULL, allocator, &kept));
  const delta_search_options_t options = {
      .liberties = {true, true}, .capacity_bytes = kept->peak_bytes * 6 / 10, .effort = {.evaluation_limit = 300}, .is_together = true};
  delta_test_must(delta_search(problem, &order, &options, allocator, &items, &decisions, &result));
  cr_assert(result.fits);
  int released = 0;
  for (size_t i = 0; i < decisions.count; ++i) {
    const delta_decision_t *decision = &decisions.items[i];
    const uint32_t other = delta_problem_next_kin(problem, decision->tensor);
    if (other == decision->tensor || decision->place > 0) continue;
    const delta_decision_t *kin = find_decision(&decisions, other, decision->use);
    cr_expect_not_null(kin, "tensor %u has a decision at use %u, its part %u has none", decision->tensor, decision->use, other);
    if (kin) cr_expect_eq(kin->action, decision->action, "tensor %u, use %u", decision->tensor, decision->use);
    released += decision->action != DELTA_ACTION_KEEP;
  }
  cr_expect_gt(released, 4, "%d", released);
  delta_array_deinit(allocator, &items);
  delta_schedule_free(kept);
  delta_order_deinit(&order);
  delta_problem_free(problem);
}

// The least budget of a long chain is found in steps that free much at once: one by one they would take minutes.
Test(planner_parts, long_programs_go_down_quickly, .timeout = 60) {
  delta_problem_t *problem = make_chains(1, 4000);
  const delta_planner_options_t options = {.policy = DELTA_POLICY_DELTA, .early_update = true, .effort = {.evaluation_limit = 1}};
  delta_planner_t *planner = NULL;
  delta_planner_result_t result;
  delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &planner));
  const uint64_t least_bytes = delta_planner_minimum_bytes(planner), kept_bytes = delta_planner_kept(planner)->arena_bytes;
  cr_expect_lt(least_bytes, kept_bytes / 100, "%llu of %llu", (unsigned long long)least_bytes, (unsigned long long)kept_bytes);
  delta_test_must(delta_planner_plan(planner, kept_bytes / 2, &result));
  cr_expect_leq(result.schedule->arena_bytes, kept_bytes / 2);
  delta_schedule_free(result.schedule);
  delta_planner_destroy(planner);
  delta_problem_free(problem);
}
