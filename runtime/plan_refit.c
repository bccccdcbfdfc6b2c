// A maker whose programs, graphs and kernels are those of a plan at hand: only homes and schedules come anew.
#include "runtime/plan_refit.h"

#include <string.h>

#include "base/clock.h"
#include "runtime/plan_maker.h"

// The problem's own steps with other times.
static delta_status_t correct_seconds(const double *step_seconds, delta_region_t *region, delta_problem_t *problem) {
  DELTA_RETURN_IF_ERROR(delta_region_copy(region, problem->steps, problem->step_count, sizeof *problem->steps, (void **)&problem->steps));
  for (uint32_t s = 0; s < problem->step_count; ++s) problem->steps[s].seconds = step_seconds[s];
  return DELTA_OK;
}

// What is known of the plan but for places and schedules, which come anew.
static delta_status_t begin_refit(const delta_refit_options_t *options, delta_plan_maker_t *maker) {
  const delta_plan_t *known = options->plan;
  DELTA_RETURN_IF_ERROR(delta_plan_create_empty(maker->allocator, &maker->plan));
  delta_plan_t *plan = maker->plan;
  const delta_region_t region = plan->region;
  *plan = *known;
  plan->allocator = maker->allocator;
  plan->region = region;
  plan->states = NULL;
  plan->programs = NULL;
  plan->state_count = plan->program_count = 0;
  plan->totals.budget_bytes = options->budget_bytes;
  if (options->avoids_tier) plan->totals.host_budget_bytes = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, known->state_count, &plan->states));
  memcpy(plan->states, known->states, known->state_count * sizeof *plan->states);
  plan->state_count = known->state_count;
  for (uint32_t i = 0; i < known->program_count && i < DELTA_MOST_PROGRAMS; ++i) {
    delta_problem_t *problem = NULL;
    maker->parts[i] = *options->parts[i];
    DELTA_RETURN_IF_ERROR(delta_problem_with_own_homes(maker->parts[i].problem, &plan->region, &problem));
    if (options->offload_bytes_per_second > 0) problem->offload_bytes_per_second = options->offload_bytes_per_second;
    if (options->prefetch_bytes_per_second > 0) problem->prefetch_bytes_per_second = options->prefetch_bytes_per_second;
    if (options->step_seconds && i == 0) DELTA_RETURN_IF_ERROR(correct_seconds(options->step_seconds, &plan->region, problem));
    maker->parts[i].problem = problem;
    ++maker->part_count;
  }
  return DELTA_OK;
}

static delta_status_t refit(const delta_refit_options_t *options, delta_plan_maker_t *maker) {
  uint64_t below_none_bytes;
  DELTA_RETURN_IF_ERROR(begin_refit(options, maker));
  DELTA_RETURN_IF_ERROR(delta_policy_parse(maker->plan->policy, &maker->policy));
  DELTA_RETURN_IF_ERROR(delta_plan_maker_prepare_below(maker, 0, &below_none_bytes));
  if (below_none_bytes > options->budget_bytes && (options->avoids_tier || !delta_policy_keeps_budgets(maker->policy))) {
    maker->policy = DELTA_POLICY_DELTA_FIXED;
    maker->plan->policy = delta_policy_info(maker->policy)->name;
    DELTA_RETURN_IF_ERROR(delta_plan_maker_prepare_below(maker, 0, &below_none_bytes));
  }
  maker->resident_minimum_bytes = below_none_bytes;
  DELTA_RETURN_IF_ERROR(delta_plan_maker_find_minimum(maker));
  DELTA_RETURN_IF_ERROR(delta_plan_maker_choose_homes(maker));
  return delta_plan_maker_plan(maker);
}

delta_status_t delta_plan_refit(const delta_refit_options_t *options, delta_allocator_t allocator, delta_plan_t **out_plan) {
  *out_plan = NULL;
  const double start_seconds = delta_clock_seconds();
  // Other processors are the training's.
  const delta_plan_options_t plan_options = {.time_limit_seconds = options->time_limit_seconds, .threads = 1};
  delta_device_t granules = {.granule_bytes = options->granule_bytes}; // all of a device that planning looks at
  delta_plan_maker_t maker = {
      .options = &plan_options, .allocator = allocator, .device = &granules, .other_program_bytes = options->other_program_bytes};
  delta_locked_allocator_init(&maker.locked, allocator);
  delta_status_t status = refit(options, &maker);
  delta_plan_maker_drop_planners(&maker);
  delta_locked_allocator_deinit(&maker.locked);
  if (status) {
    delta_plan_free(maker.plan);
    return status;
  }
  maker.plan->totals.planning_seconds = delta_clock_seconds() - start_seconds;
  *out_plan = maker.plan;
  return DELTA_OK;
}
