// Plan homes: which states lie below the arena. As few as the budget allows; and more where that makes the step faster, since what is there leaves the arena to
// activations while the lanes would be idle: an updated state goes down in the backward pass, when nothing else does, and comes back in the forward pass.
#include <math.h>

#include "base/checked.h"
#include "base/clock.h"
#include "runtime/plan_maker.h"
#include "runtime/plan_options.h"

// Orders states that may lie below: those that fill at least a block there, optimizer states before others, large ones before small ones.
static bool goes_first(const delta_plan_state_t *a, const delta_plan_state_t *b) {
  const bool a_moment = a->kind == DELTA_STATE_MOMENT, b_moment = b->kind == DELTA_STATE_MOMENT;
  return a_moment != b_moment ? a_moment : a->size_bytes > b->size_bytes;
}

static delta_status_t list_movable(delta_plan_maker_t *maker) {
  const delta_plan_t *plan = maker->plan;
  uint64_t home_bytes = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&maker->plan->region, plan->state_count, &maker->movable));
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    if (plan->states[i].size_bytes < DELTA_HOST_BLOCK_BYTES || plan->states[i].kind == DELTA_STATE_COUNTER) continue;
    home_bytes += delta_size_round_up(plan->states[i].size_bytes, DELTA_HOST_BLOCK_BYTES);
    if (home_bytes > plan->totals.host_budget_bytes) break;
    uint32_t at = maker->movable_count++;
    for (; at > 0 && goes_first(&plan->states[i], &plan->states[maker->movable[at - 1]]); --at) maker->movable[at] = maker->movable[at - 1];
    maker->movable[at] = i;
  }
  return DELTA_OK;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

// The least budget: that with all states in the arena, or that with all below that may be.
delta_status_t delta_plan_maker_find_minimum(delta_plan_maker_t *maker) {
  const delta_plan_totals_t *totals = &maker->plan->totals;
  uint64_t *minimum_bytes = &maker->plan->totals.minimum_budget_bytes;
  *minimum_bytes = maker->resident_minimum_bytes;
  maker->resident_program_bytes = larger(maker->resident_minimum_bytes - totals->state_bytes, maker->other_program_bytes);
  maker->resident_minimum_bytes = totals->state_bytes + maker->resident_program_bytes;
  if (!delta_policy_keeps_budgets(maker->policy)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(list_movable(maker));
  if (maker->movable_count == 0) return DELTA_OK;
  uint64_t below_bytes;
  DELTA_RETURN_IF_ERROR(delta_plan_maker_prepare_below(maker, maker->movable_count, &below_bytes));
  maker->below_program_bytes = larger(below_bytes - totals->state_bytes, maker->other_program_bytes);
  if (below_bytes < *minimum_bytes) *minimum_bytes = below_bytes;
  return DELTA_OK;
}

// The fewest states below for which what is left of the budget beside the others is at least program_bytes; all when no number does.
static uint32_t count_below_for(const delta_plan_maker_t *maker, uint64_t program_bytes) {
  uint64_t state_bytes = 0;
  for (uint32_t i = 0; i < maker->plan->state_count; ++i) state_bytes += maker->plan->states[i].size_bytes;
  uint32_t count = 0;
  while (count < maker->movable_count && state_bytes + program_bytes > maker->plan->totals.budget_bytes) {
    state_bytes -= maker->plan->states[maker->movable[count++]].size_bytes;
  }
  return count;
}

// As few states below as the budget allows. What programs need beside the states grows with the states that are below, so its values for none and for all bound the
// number; between them it is halved a few times. All of them are known to do.
static delta_status_t halve_homes(delta_plan_maker_t *maker, uint32_t *out_count) {
  enum { MOST_TRIALS = 4 };
  const delta_plan_totals_t *totals = &maker->plan->totals;
  uint64_t minimum_bytes;
  uint32_t least = count_below_for(maker, maker->resident_program_bytes), most = maker->movable_count;
  uint32_t next = count_below_for(maker, maker->below_program_bytes);
  for (int trial = 0; trial < MOST_TRIALS && least < most; ++trial) {
    if (next >= most) next = least + (most - least) / 2;
    DELTA_RETURN_IF_ERROR(delta_plan_maker_prepare_below(maker, next, &minimum_bytes));
    if (larger(minimum_bytes, totals->state_bytes + maker->other_program_bytes) <= totals->budget_bytes) {
      most = next;
    } else {
      least = next + 1;
    }
    next = least + (most - least) / 2;
  }
  *out_count = most;
  return DELTA_OK;
}

delta_status_t delta_plan_maker_choose_homes(delta_plan_maker_t *maker) {
  const delta_plan_totals_t *totals = &maker->plan->totals;
  uint32_t count = 0;
  uint64_t minimum_bytes;
  const bool helps = totals->minimum_budget_bytes < maker->resident_minimum_bytes;
  const bool fits = totals->budget_bytes >= totals->minimum_budget_bytes;
  if (helps && totals->budget_bytes < maker->resident_minimum_bytes) count = maker->movable_count;
  if (count > 0 && fits) DELTA_RETURN_IF_ERROR(halve_homes(maker, &count));
  return maker->below_count == count ? DELTA_OK : delta_plan_maker_prepare_below(maker, count, &minimum_bytes);
}

// ---- Where a budget would do without

enum { TRIAL_EVALUATIONS = 6000 };
// Of the time limit: for the search of one trial, and the most that may be spent before each on planners for other homes.
static const double trial_part = 0.1, prepare_part = 0.05;
// Homes below are worth it where the step is faster by this part of it: they are written and read in every step.
static const double worth_part = 2e-3;

// How good the homes of the moment look for the first program: the mean of what a short search finds and of what no search can pass, since the one is a draw and the other sees
// no waits; those that the short search found are taken for what they are, as states that come last are still on their way when the step is over. INFINITY: it does not fit.
static delta_status_t try_homes(delta_plan_maker_t *maker, double *out_seconds) {
  const delta_plan_totals_t *totals = &maker->plan->totals;
  delta_planner_result_t result = {0};
  *out_seconds = INFINITY;
  delta_plan_maker_give_effort(maker, 0, trial_part * maker->options->time_limit_seconds, TRIAL_EVALUATIONS, true);
  const uint64_t capacity_bytes = delta_budget_capacity(totals->budget_bytes, totals->state_bytes, maker->device->granule_bytes);
  delta_status_t status = delta_planner_plan(maker->planners[0], capacity_bytes, &result);
  if (!status) *out_seconds = 0.5 * (result.schedule->step_seconds + result.schedule->stall_seconds + result.lower_bound_seconds);
  delta_schedule_free(result.schedule);
  if (delta_status_code(status) != DELTA_STATUS_DOES_NOT_FIT) return status;
  delta_status_free(status);
  return DELTA_OK;
}

static uint32_t count_moments(const delta_plan_maker_t *maker) {
  uint32_t count = 0;
  while (count < maker->movable_count && maker->plan->states[maker->movable[count]].kind == DELTA_STATE_MOMENT) ++count;
  return count;
}

// A number of states below that is tried against the best so far, whose planners are set aside meanwhile.
static delta_status_t try_other(delta_plan_maker_t *maker, uint32_t count, double *inout_best_seconds) {
  delta_planner_t *best[DELTA_MOST_PROGRAMS] = {NULL};
  const uint32_t best_count = maker->below_count;
  double seconds = INFINITY;
  uint64_t minimum_bytes;
  delta_plan_maker_swap_planners(maker, best);
  delta_status_t status = delta_plan_maker_prepare_below(maker, count, &minimum_bytes);
  if (!status && minimum_bytes <= maker->plan->totals.budget_bytes) status = try_homes(maker, &seconds);
  uint32_t worse_count = best_count;
  if (!status && seconds < (1 - worth_part) * *inout_best_seconds) {
    *inout_best_seconds = seconds;
  } else {
    status = delta_status_join(status, delta_plan_maker_return_below(maker, best_count, best));
    worse_count = count;
  }
  delta_plan_maker_put_away(maker, worse_count, best);
  return status;
}

// Tries other numbers of states below, and leaves the best prepared; what its trial found its search goes on from.
static delta_status_t choose_fastest(delta_plan_maker_t *maker) {
  const uint32_t least = maker->below_count, counts[] = {maker->movable_count, count_moments(maker)};
  double best_seconds;
  DELTA_RETURN_IF_ERROR(try_homes(maker, &best_seconds));
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    if (best_seconds <= (1 + worth_part) * maker->plan->totals.unlimited_step_seconds) return DELTA_OK;
    if (counts[i] > least && (i == 0 || counts[i] < counts[0])) DELTA_RETURN_IF_ERROR(try_other(maker, counts[i], &best_seconds));
  }
  return DELTA_OK;
}

// Takes the number that is wanted, unless it does not fit.
static delta_status_t take_wanted(delta_plan_maker_t *maker, bool *out_taken) {
  const uint32_t count = *maker->wanted_below < maker->movable_count ? *maker->wanted_below : maker->movable_count;
  uint64_t minimum_bytes = delta_plan_maker_least_budget(maker);
  if (maker->below_count != count) DELTA_RETURN_IF_ERROR(delta_plan_maker_prepare_below(maker, count, &minimum_bytes));
  *out_taken = minimum_bytes <= maker->plan->totals.budget_bytes;
  return DELTA_OK;
}

delta_status_t delta_plan_maker_choose_fast_homes(delta_plan_maker_t *maker) {
  bool is_taken = false;
  if (maker->wanted_below && maker->policy == DELTA_POLICY_DELTA && maker->movable_count > 0)
    DELTA_RETURN_IF_ERROR(take_wanted(maker, &is_taken));
  if (is_taken) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_plan_maker_choose_homes(maker));
  const delta_plan_totals_t *totals = &maker->plan->totals;
  const double start_seconds = delta_clock_seconds(), limit_seconds = maker->options->time_limit_seconds;
  const bool fits = totals->budget_bytes >= totals->minimum_budget_bytes;
  const bool is_needed = delta_planner_kept(maker->planners[0])->arena_bytes >
                         delta_budget_capacity(totals->budget_bytes, totals->state_bytes, maker->device->granule_bytes);
  if (maker->policy != DELTA_POLICY_DELTA || !fits || !is_needed || maker->movable_count == maker->below_count) return DELTA_OK;
  if (maker->wanted_below || maker->prepare_seconds > prepare_part * limit_seconds) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(choose_fastest(maker));
  maker->trial_seconds = delta_clock_seconds() - start_seconds;
  return DELTA_OK;
}
