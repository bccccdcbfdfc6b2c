// Plan homes: which states lie below the arena: as few as the budget allows. Whether more of them make the step faster a race tells (homes_race.c).
#include "base/checked.h"
#include "runtime/plan_maker.h"
#include "runtime/plan_options.h"

// States of less than this part of all bytes are small: there are many, and searches have a decision more for each.
enum { SMALL_PARTS = 1000 };

static bool is_large(const delta_plan_state_t *state, uint64_t all_bytes) { return state->size_bytes >= all_bytes / SMALL_PARTS; }

// Orders states that may lie below: large ones before small ones, of these optimizer states before others, and those by size.
static bool goes_first(const delta_plan_state_t *a, const delta_plan_state_t *b, uint64_t all_bytes) {
  const bool a_moment = a->kind == DELTA_STATE_MOMENT, b_moment = b->kind == DELTA_STATE_MOMENT;
  const bool a_large = is_large(a, all_bytes), b_large = is_large(b, all_bytes);
  if (a_large != b_large) return a_large;
  return a_moment != b_moment ? a_moment : a->size_bytes > b->size_bytes;
}

static uint64_t sum_states(const delta_plan_t *plan) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < plan->state_count; ++i) bytes += plan->states[i].size_bytes;
  return bytes;
}

static delta_status_t list_movable(delta_plan_maker_t *maker) {
  const delta_plan_t *plan = maker->plan;
  const uint64_t all_bytes = sum_states(plan);
  uint64_t home_bytes = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&maker->plan->region, plan->state_count, &maker->movable));
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    if (plan->states[i].size_bytes < DELTA_HOST_BLOCK_BYTES || plan->states[i].kind == DELTA_STATE_COUNTER) continue;
    home_bytes += delta_size_round_up(plan->states[i].size_bytes, DELTA_HOST_BLOCK_BYTES);
    if (home_bytes > plan->totals.host_budget_bytes) break;
    uint32_t at = maker->movable_count++;
    const delta_plan_state_t *state = &plan->states[i];
    for (; at > 0 && goes_first(state, &plan->states[maker->movable[at - 1]], all_bytes); --at) maker->movable[at] = maker->movable[at - 1];
    maker->movable[at] = i;
  }
  return DELTA_OK;
}

uint32_t delta_plan_maker_list_homes(const delta_plan_maker_t *maker, uint32_t counts[DELTA_MOST_HOMES]) {
  const delta_plan_t *plan = maker->plan;
  const uint64_t all_bytes = sum_states(plan);
  uint32_t count = 0, moments = 0, large = 0;
  while (large < maker->movable_count && is_large(&plan->states[maker->movable[large]], all_bytes)) ++large;
  while (moments < large && plan->states[maker->movable[moments]].kind == DELTA_STATE_MOMENT) ++moments;
  counts[count++] = maker->below_count;
  if (maker->tries_homes && large > maker->below_count) counts[count++] = large;
  if (maker->tries_homes && moments > maker->below_count && moments < large) counts[count++] = moments;
  return count;
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
  uint64_t state_bytes = sum_states(maker->plan);
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
  maker->tries_homes = !maker->wanted_below && maker->movable_count > maker->below_count;
  return DELTA_OK;
}
