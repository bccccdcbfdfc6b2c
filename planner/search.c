// Search: seeds by price, undo, large neighbourhoods; annealing where nothing fits yet.
#include "planner/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search_state.h"

#define NONE DELTA_PROBLEM_NONE
enum { UNDECIDED = 0xff, ACTION_COUNT = DELTA_ACTION_COUNT, PRICE_COUNT = 10 };
// For exchanges, and then for neighbourhoods, as parts of the evaluations made before: a search with more effort begins as one with less.
static const double EXCHANGE_PART = 0.25, NEIGHBOURHOOD_PART = 3, WALKING_NEIGHBOURHOOD_PART = 0.7;

// A search that begins with a plan and may make this many looks at prices, too, for a part of them: the plan may come from a search that had no time for that.
static const uint64_t SWEEP_EVALUATIONS = 4000;
static const double SWEEP_PART = 0.25;

// Even with no time at all there is a first plan. Without any limit this many evaluations are made.
static const uint64_t LEAST_EVALUATIONS = 300, DEFAULT_EVALUATIONS = 20000, LEAST_WALK = 2000, WALK_PER_CANDIDATE = 60;
// A search that has found nothing better for this many evaluations, and for this many times what it took to find its best plan, is done.
static const uint64_t PATIENT_EVALUATIONS = 30000, PATIENCE = 3;
// Shadow prices, as parts of what a byte takes on a lane: from nearly free to as dear as a lane that holds up the work.
static const double LEAST_PRICE = 3e-3, MOST_PRICE = 3, FINEST_STEP = 1.06;
// Copies below have to end before the program is fullest, copies back have the time after that: often most of it, when a byte back costs only this part.
static const double LEAST_BACK_PART = 0.3;
// A plan that was the fastest for a while is remembered when it is slower by this part of the time than the next.
static const double RUNNER_PART = 3e-4;

static uint64_t evaluations_made(const delta_search_state_t *state) { return state->evaluations_before + state->quick.evaluation_count; }

bool delta_search_is_over(const delta_search_state_t *state) {
  const delta_planner_effort_t *effort = &state->options->effort;
  const uint64_t evaluations = evaluations_made(state);
  if (state->best.evaluation.is_possible && state->best.evaluation.seconds <= state->bound_seconds) return true;
  if (evaluations < LEAST_EVALUATIONS) return false;
  if (evaluations > PATIENT_EVALUATIONS + PATIENCE * state->best_evaluations && state->best.evaluation.seconds < INFINITY) return true;
  if (effort->evaluation_limit == 0 && !effort->spent_part) return evaluations >= DEFAULT_EVALUATIONS;
  if (effort->evaluation_limit > 0 && evaluations >= effort->evaluation_limit) return true;
  return delta_planner_effort_is_past(effort);
}

bool delta_search_is_phase_over(const delta_search_state_t *state) {
  return evaluations_made(state) >= state->phase_end || delta_search_is_over(state);
}

// The next way of searching may use a part of what was made so far.
static void begin_phase(delta_search_state_t *state, double part) {
  state->phase_end = evaluations_made(state) + (uint64_t)(part * (double)evaluations_made(state)) + LEAST_EVALUATIONS;
}

// ---- Plans

void delta_search_copy_plan(const delta_search_state_t *state, delta_search_plan_t *to, const delta_search_plan_t *from) {
  memcpy(to->actions, from->actions, state->map.gap_count);
  to->evaluation = from->evaluation;
}

delta_status_t delta_search_measure(delta_search_state_t *state, delta_search_plan_t *plan) {
  return delta_quick_measure(&state->quick, plan->actions, state->options->capacity_bytes, &plan->evaluation);
}

delta_status_t delta_search_evaluate(delta_search_state_t *state, delta_search_plan_t *plan, double stop_seconds) {
  DELTA_RETURN_IF_ERROR(delta_search_measure(state, plan));
  return delta_quick_time(&state->quick, stop_seconds, &plan->evaluation);
}

// Faster, or, where neither fits, less full.
static bool is_better(const delta_evaluation_t *a, const delta_evaluation_t *b) {
  if (a->is_possible != b->is_possible) return a->is_possible;
  if (a->seconds != b->seconds) return a->seconds < b->seconds;
  return a->excess_bytes < b->excess_bytes;
}

// The best plan, if it is the fastest of all rounds, is about to be beaten. Steps of time lie between runners.
static void keep_runner(delta_search_state_t *state) {
  const double seconds = state->best.evaluation.seconds;
  delta_search_plan_t *runners = state->runners;
  uint32_t *count = &state->runner_count;
  if (!state->options->runners || seconds == INFINITY || seconds > state->best_seconds) return;
  if (*count > 1 && runners[*count - 2].evaluation.seconds < (1 + RUNNER_PART) * seconds) {
    --*count; // the last stands too near
  } else if (*count == DELTA_RUNNERS_MOST) {
    const delta_search_plan_t slowest = runners[0];
    memmove(&runners[0], &runners[1], --*count * sizeof *runners);
    runners[*count] = slowest;
  }
  delta_search_copy_plan(state, &runners[(*count)++], &state->best);
}

bool delta_search_keep_best(delta_search_state_t *state) {
  if (!is_better(&state->now.evaluation, &state->best.evaluation)) return false;
  keep_runner(state);
  delta_search_copy_plan(state, &state->best, &state->now);
  if (state->best.evaluation.seconds < state->best_seconds) {
    state->best_seconds = state->best.evaluation.seconds;
    state->best_evaluations = evaluations_made(state);
  }
  return true;
}

delta_status_t delta_search_offer_now(delta_search_state_t *state) {
  DELTA_RETURN_IF_ERROR(delta_search_evaluate(state, &state->now, INFINITY));
  delta_search_keep_best(state);
  return DELTA_OK;
}

double delta_search_lane_seconds(const delta_search_state_t *state) {
  const double offload = state->problem->offload_bytes_per_second, prefetch = state->problem->prefetch_bytes_per_second;
  return offload > 0 && prefetch > 0 ? 0.5 / offload + 0.5 / prefetch : 0;
}

double delta_search_draw_part(delta_search_state_t *state) { return (double)delta_random_below(&state->random, 1 << 20) / (1 << 20); }

uint32_t delta_search_list_active(delta_search_state_t *state, const uint8_t *actions) {
  uint32_t count = 0;
  for (uint32_t g = 0; g < state->map.gap_count; ++g) {
    if (actions[g] != state->map.defaults[g] && delta_search_is_own(state, g)) state->active[count++] = g;
  }
  return count;
}

// ---- Seeds

// The gap that a decision is for, or NONE: its part of a gap is not there any more.
static uint32_t find_decided(const delta_gap_map_t *map, const delta_decision_t *decision) {
  for (uint32_t g = map->starts[decision->tensor]; g < map->starts[decision->tensor + 1]; ++g) {
    if (map->uses[g] != decision->use) continue;
    if (decision->place == 0 ? !map->is_part[g] : map->is_part[g] && map->begins[g] == decision->place) return g;
  }
  return NONE;
}

// What to begin with, released further until it fits. Parts of gaps that were whole go on with their action.
static delta_status_t take_start(delta_search_state_t *state, const delta_decisions_t *start) {
  const delta_gap_map_t *map = &state->map;
  memset(state->now.actions, UNDECIDED, map->gap_count);
  for (size_t i = 0; i < start->count; ++i) {
    const uint32_t gap = find_decided(map, &start->items[i]);
    if (gap != NONE && (map->allowed[gap] >> start->items[i].action & 1)) state->now.actions[gap] = (uint8_t)start->items[i].action;
  }
  for (uint32_t g = 0; g < map->gap_count; ++g) {
    if (state->now.actions[g] == UNDECIDED) state->now.actions[g] = map->is_part[g] ? state->now.actions[g - 1] : map->defaults[g];
  }
  DELTA_RETURN_IF_ERROR(delta_search_greedy(state, sqrt(LEAST_PRICE * MOST_PRICE) * delta_search_lane_seconds(state), 0));
  return delta_search_offer_now(state);
}

// Remembers state->now among the fastest of different times.
static void keep_seed(delta_search_state_t *state) {
  delta_search_plan_t *slowest = &state->seeds[0];
  for (int i = 0; i < DELTA_SEARCH_SEEDS; ++i) {
    if (state->seeds[i].evaluation.seconds == state->now.evaluation.seconds) return;
    if (state->seeds[i].evaluation.seconds > slowest->evaluation.seconds) slowest = &state->seeds[i];
  }
  if (state->now.evaluation.seconds < slowest->evaluation.seconds) delta_search_copy_plan(state, slowest, &state->now);
}

// What is not needed is taken back in each of the seeds: the fastest before need not be the fastest after.
static delta_status_t undo_seeds(delta_search_state_t *state) {
  for (int i = 0; i < DELTA_SEARCH_SEEDS && !delta_search_is_over(state); ++i) {
    if (state->seeds[i].evaluation.seconds == INFINITY || state->seeds[i].evaluation.seconds == state->best.evaluation.seconds) continue;
    const delta_search_plan_t best = state->best;
    state->best = state->seeds[i];
    const delta_status_t status = delta_search_undo(state);
    state->seeds[i] = best;
    if (is_better(&best.evaluation, &state->best.evaluation)) {
      state->seeds[i] = state->best;
      state->best = best;
    }
    if (status) return status;
  }
  return DELTA_OK;
}

// One greedy from the beginning. *out_seconds: INFINITY: it did not fit.
static delta_status_t try_price(delta_search_state_t *state, double part, double *out_seconds) {
  memcpy(state->now.actions, state->map.defaults, state->map.gap_count);
  DELTA_RETURN_IF_ERROR(delta_search_greedy(state, part * delta_search_lane_seconds(state), 0));
  DELTA_RETURN_IF_ERROR(delta_search_offer_now(state));
  *out_seconds = state->now.evaluation.seconds;
  keep_seed(state);
  return DELTA_OK;
}

// A grid of prices, and finer ones beside the best.
static delta_status_t sweep_prices(delta_search_state_t *state, double *out_part, double *out_seconds) {
  double best_part = LEAST_PRICE, best_seconds = INFINITY, seconds;
  const double ratio = pow(MOST_PRICE / LEAST_PRICE, 1.0 / (PRICE_COUNT - 1));
  for (int i = 0; i <= PRICE_COUNT && (i == 0 || !delta_search_is_phase_over(state)); ++i) {
    // From the middle of the grid outwards: where there is time for few, the extremes are left.
    const int place = PRICE_COUNT / 2 + (i % 2 ? (i + 1) / 2 : -i / 2);
    if (place < 0 || place >= PRICE_COUNT) continue;
    const double part = LEAST_PRICE * pow(ratio, place);
    DELTA_RETURN_IF_ERROR(try_price(state, part, &seconds));
    if (seconds < best_seconds) {
      best_seconds = seconds;
      best_part = part;
    }
  }
  for (double step = sqrt(ratio); step > FINEST_STEP && best_seconds < INFINITY && !delta_search_is_phase_over(state); step = sqrt(step)) {
    const double parts[] = {best_part / step, best_part * step};
    for (int i = 0; i < 2; ++i) {
      DELTA_RETURN_IF_ERROR(try_price(state, parts[i], &seconds));
      if (seconds < best_seconds) {
        best_seconds = seconds;
        best_part = parts[i];
      }
    }
  }
  *out_part = best_part;
  *out_seconds = best_seconds;
  return DELTA_OK;
}

// The same with copies back that cost as much as those below, and less. What was better stays for the greedies that follow.
static delta_status_t sweep_all_prices(delta_search_state_t *state) {
  double part, seconds;
  DELTA_RETURN_IF_ERROR(sweep_prices(state, &state->good_price, &seconds));
  if (!state->options->liberties.may_swap || delta_search_lane_seconds(state) <= 0 || delta_search_is_phase_over(state)) return DELTA_OK;
  const double back_part = state->back_part, seconds_before = seconds;
  state->back_part = LEAST_BACK_PART;
  DELTA_RETURN_IF_ERROR(sweep_prices(state, &part, &seconds));
  if (seconds < seconds_before) {
    state->good_price = part;
  } else {
    state->back_part = back_part;
  }
  return DELTA_OK;
}

// ---- Rounds

// How many evaluations the walk of a round gets: by how much there is to decide, and at most half of what is left, unless that is little.
static uint64_t count_walk(const delta_search_state_t *state) {
  const uint64_t made = evaluations_made(state), limit = state->options->effort.evaluation_limit;
  const uint64_t wanted = LEAST_WALK + WALK_PER_CANDIDATE * (uint64_t)state->candidate_count;
  const uint64_t left = limit == 0 ? 2 * wanted : made < limit ? limit - made : 0;
  const uint64_t most = left / 2 > LEAST_WALK ? left / 2 : left;
  return wanted < most ? wanted : most;
}

// Whether to look for seeds; until when, if there is a plan.
static bool may_sweep(delta_search_state_t *state) {
  const uint64_t limit = state->options->effort.evaluation_limit;
  state->phase_end = UINT64_MAX;
  if (state->best.evaluation.seconds == INFINITY) return true;
  state->phase_end = evaluations_made(state) + (uint64_t)(SWEEP_PART * (double)limit);
  return limit >= SWEEP_EVALUATIONS;
}

static delta_status_t run_round(delta_search_state_t *state, const delta_decisions_t *start, bool is_first) {
  memcpy(state->best.actions, state->map.defaults, state->map.gap_count);
  DELTA_RETURN_IF_ERROR(delta_search_evaluate(state, &state->best, INFINITY));
  if (state->best.evaluation.excess_bytes == 0 && state->best.evaluation.is_possible) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_search_list_candidates(state));
  if (start) DELTA_RETURN_IF_ERROR(take_start(state, start));
  if (is_first && may_sweep(state)) DELTA_RETURN_IF_ERROR(sweep_all_prices(state));
  while (state->best.evaluation.excess_bytes > 0 && !delta_search_is_over(state)) DELTA_RETURN_IF_ERROR(delta_search_anneal_excess(state));
  DELTA_RETURN_IF_ERROR(delta_search_undo(state));
  DELTA_RETURN_IF_ERROR(undo_seeds(state));
  begin_phase(state, EXCHANGE_PART);
  DELTA_RETURN_IF_ERROR(delta_search_exchange(state));
  begin_phase(state, state->options->walks ? WALKING_NEIGHBOURHOOD_PART : NEIGHBOURHOOD_PART);
  DELTA_RETURN_IF_ERROR(delta_search_neighbourhoods(state));
  return delta_search_anneal_time(state, count_walk(state), is_first && state->options->walks);
}

// ---- Results

// Lists the best plan's decisions, and where its gaps are worth splitting.
static delta_status_t hand_out(delta_search_state_t *state, delta_decision_list_t *inout_items, delta_decisions_t *out_decisions,
                               delta_search_result_t *out_result) {
  delta_gap_map_decide(&state->map, state->best.actions, state->items, out_decisions);
  inout_items->count = 0;
  for (size_t i = 0; i < out_decisions->count; ++i) {
    DELTA_RETURN_IF_ERROR(delta_array_push(state->allocator, inout_items, &state->items[i]));
  }
  out_decisions->items = inout_items->items;
  state->evaluations_before += state->quick.evaluation_count;
  state->quick.evaluation_count = 0;
  for (uint32_t i = 0; i < state->runner_count; ++i) {
    delta_decisions_t runner;
    delta_gap_map_decide(&state->map, state->runners[i].actions, state->items, &runner);
    DELTA_RETURN_IF_ERROR(delta_runners_add(state->options->runners, state->runners[i].evaluation.seconds, &runner));
  }
  *out_result = (delta_search_result_t){.fits = state->best.evaluation.seconds < INFINITY,
                                        .evaluation = state->best.evaluation,
                                        .evaluation_count = state->evaluations_before};
  return delta_search_list_splits(state);
}

// The splits of what the caller begins with.
static delta_status_t take_splits(delta_search_state_t *state) {
  const delta_decisions_t *start = state->options->start;
  for (size_t i = 0; start && i < start->count; ++i) {
    const delta_gap_split_t split = {start->items[i].tensor, start->items[i].place};
    if (split.place > 0) DELTA_RETURN_IF_ERROR(delta_array_push(state->allocator, &state->splits, &split));
  }
  return DELTA_OK;
}

// A round searches over one set of gaps. What the best plan of one round rebuilds decides how gaps are split in the next.
static delta_status_t search_in_rounds(delta_search_state_t *state, delta_decision_list_t *items, delta_decisions_t *out_decisions,
                                       delta_search_result_t *out_result) {
  for (bool is_first = true, is_over = false; !is_over; is_first = false) {
    const delta_decisions_t found = *out_decisions;
    delta_status_t status = delta_search_state_init(state);
    if (!status) status = run_round(state, is_first ? state->options->start : &found, is_first);
    if (!status) status = hand_out(state, items, out_decisions, out_result);
    is_over = status || delta_search_is_over(state) || state->candidate_count == 0;
    delta_search_state_deinit(state);
    if (status) return status;
  }
  return DELTA_OK;
}

delta_status_t delta_search(const delta_problem_t *problem, const delta_order_t *order, const delta_search_options_t *options,
                            delta_allocator_t allocator, delta_decision_list_t *out_items, delta_decisions_t *out_decisions,
                            delta_search_result_t *out_result) {
  delta_search_state_t state = {.problem = problem,
                                .order = order,
                                .options = options,
                                .allocator = allocator,
                                .random = {options->effort.seed},
                                .is_together = options->is_together,
                                .best_seconds = INFINITY,
                                .good_price = sqrt(LEAST_PRICE * MOST_PRICE),
                                .back_part = 1};
  *out_items = (delta_decision_list_t){0};
  *out_decisions = (delta_decisions_t){0};
  delta_status_t status = take_splits(&state);
  if (!status) status = delta_lower_bound(problem, order, options->capacity_bytes, 0, allocator, &state.bound_seconds);
  if (!status) status = search_in_rounds(&state, out_items, out_decisions, out_result);
  delta_array_deinit(allocator, &state.splits);
  if (status) delta_array_deinit(allocator, out_items);
  return status;
}
