// Budgets are gone through twice: down, each search beginning with the plan of the larger budget, which is released further; and up, from the best that is known, of a smaller
// budget too. With `--split auto` what does not fit whole is left to the parts that are tried next; with `--split on` all of them are swept shortly, and each budget's best gets the
// rest of the time.
#include "runtime/plan_sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/plan_create.h"
#include "runtime/plan_maker.h"
#include "runtime/plan_options.h"

// Of the time, for the first look at all parts, and for the way down.
static const double first_part = 0.4, down_part = 0.4;
// How many states lie below is settled anew when the budget has shrunk by so much. That takes longer than a budget's own search: it is done as for a plan that has this part of all time.
static const double homes_growth = 1.5, homes_part = 0.05, trial_part = 0.1;
// A plan whose step is so close to the one without a budget, or to its bound, is not worth a search.
static const double close_enough = 1.0001;

// One way to run the step: whole or in parts.
typedef struct candidate {
  delta_plan_options_t options; // borrowed by the maker
  delta_plan_maker_t maker;     // stays where it is: planners point into it
  delta_program_hashes_t hashes;
  double work_seconds;  // of all it computes, each once
  double settled_bytes; // the budget for which below_count was found to be best; 0: none yet
  uint32_t below_count;
} candidate_t;

// The decisions of a row's plan, for searches to begin with; none where everything is kept.
typedef struct row_decisions {
  delta_decisions_t decisions;
  DELTA_ARRAY(delta_decision_t) items; // Owned; of the decisions.
} row_decisions_t;

typedef struct sweeper {
  const delta_sweep_request_t *request;
  delta_allocator_t allocator;
  delta_sweep_t *sweep;
  DELTA_ARRAY(row_decisions_t) decisions;          // of each row
  candidate_t *candidates[DELTA_SPLIT_CANDIDATES]; // Owned.
  int candidate_count;
  double end_seconds;   // of the time limit
  double homes_seconds; // the least time limit of a plan whose homes are settled
  size_t plans_made, plans_expected;
} sweeper_t;

void delta_sweep_deinit(delta_sweep_t *sweep) { delta_array_deinit(sweep->allocator, &sweep->rows); }

// ---- One budget

static delta_status_t verify(const delta_plan_maker_t *maker) {
  const uint64_t capacity_bytes = delta_plan_maker_capacity(maker);
  for (uint32_t i = 0; i < maker->part_count; ++i)
    DELTA_RETURN_IF_ERROR(
        delta_schedule_verify(maker->plan->programs[i].schedule, maker->parts[i].problem, capacity_bytes, maker->allocator));
  return DELTA_OK;
}

static delta_status_t keep_decisions(sweeper_t *sweeper, const delta_planner_t *planner, size_t r) {
  const delta_decisions_t *found = delta_planner_decisions(planner);
  row_decisions_t *kept = &sweeper->decisions.items[r];
  kept->items.count = 0;
  for (size_t i = 0; found && i < found->count; ++i)
    DELTA_RETURN_IF_ERROR(delta_array_push(sweeper->allocator, &kept->items, &found->items[i]));
  if (found) kept->decisions = *found;
  kept->decisions.items = kept->items.items;
  return DELTA_OK;
}

// The plan at hand becomes the row's if it is faster. What is proven holds for both where states and parts are alike.
static delta_status_t offer(sweeper_t *sweeper, const candidate_t *candidate, size_t r) {
  const delta_plan_t *plan = candidate->maker.plan;
  const delta_schedule_t *schedule = plan->programs[0].schedule;
  delta_sweep_row_t *row = &sweeper->sweep->rows.items[r];
  const bool is_alike = row->below_count == candidate->maker.below_count && row->split == candidate->options.split;
  const double bound_seconds = fmax(plan->totals.lower_bound_seconds, is_alike ? row->lower_bound_seconds : 0);
  if (row->fits && row->step_seconds <= plan->totals.step_seconds) {
    if (is_alike) row->lower_bound_seconds = bound_seconds;
    return DELTA_OK;
  }
  DELTA_RETURN_IF_ERROR(keep_decisions(sweeper, candidate->maker.planners[0], r));
  *row = (delta_sweep_row_t){.budget_bytes = row->budget_bytes,
                             .fits = true,
                             .split = candidate->options.split,
                             .parts = plan->build.parts > 1 ? plan->build.parts : 1,
                             .arena_bytes = plan->totals.arena_bytes,
                             .peak_bytes = plan->totals.peak_bytes,
                             .state_bytes = plan->totals.state_bytes,
                             .swapped_bytes = schedule->swapped_bytes,
                             .swapped_tensors = schedule->swapped_tensors,
                             .recomputed_nodes = schedule->recomputed_nodes,
                             .below_count = candidate->maker.below_count,
                             .below_bytes = delta_plan_home_bytes(plan),
                             .step_seconds = plan->totals.step_seconds,
                             .recompute_seconds = schedule->recompute_seconds,
                             .stall_seconds = schedule->stall_seconds,
                             .lower_bound_seconds = bound_seconds};
  return DELTA_OK;
}

static void drop_programs(delta_plan_t *plan) {
  for (uint32_t i = 0; i < plan->program_count; ++i) delta_schedule_free(plan->programs[i].schedule);
  plan->program_count = 0;
}

// How good some homes are: what a short search finds. INFINITY: they do not fit.
static delta_status_t try_homes(delta_plan_maker_t *maker, uint32_t below_count, double limit_seconds, double *out_seconds) {
  uint64_t minimum_bytes = delta_plan_maker_least_budget(maker);
  *out_seconds = INFINITY;
  if (maker->below_count != below_count) DELTA_RETURN_IF_ERROR(delta_plan_maker_prepare_below(maker, below_count, &minimum_bytes));
  return minimum_bytes <= maker->plan->totals.budget_bytes ? delta_plan_maker_try(maker, limit_seconds, out_seconds) : DELTA_OK;
}

// The best of the homes that are worth a try.
static delta_status_t choose_homes(delta_plan_maker_t *maker, double limit_seconds) {
  uint32_t counts[DELTA_MOST_HOMES];
  const uint32_t home_count = delta_plan_maker_list_homes(maker, counts);
  const bool is_needed = delta_planner_kept(maker->planners[0])->arena_bytes > delta_plan_maker_capacity(maker);
  uint32_t best = 0;
  double best_seconds = INFINITY, seconds;
  uint64_t minimum_bytes;
  if (maker->policy != DELTA_POLICY_DELTA || home_count == 1 || !is_needed) return DELTA_OK;
  for (uint32_t h = 0; h < home_count; ++h) {
    DELTA_RETURN_IF_ERROR(try_homes(maker, counts[h], trial_part * limit_seconds, &seconds));
    if (seconds < best_seconds) {
      best_seconds = seconds;
      best = h;
    }
  }
  return maker->below_count == counts[best] ? DELTA_OK : delta_plan_maker_prepare_below(maker, counts[best], &minimum_bytes);
}

// Where states live: as for a larger budget nearby, unless that is none.
static delta_status_t settle_homes(candidate_t *candidate, double limit_seconds) {
  delta_plan_maker_t *maker = &candidate->maker;
  const double budget_bytes = (double)maker->plan->totals.budget_bytes;
  const bool is_near = candidate->settled_bytes > 0 && homes_growth * budget_bytes > candidate->settled_bytes;
  maker->wanted_below = is_near ? &candidate->below_count : NULL;
  DELTA_RETURN_IF_ERROR(delta_plan_maker_choose_fast_homes(maker));
  if (is_near) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(choose_homes(maker, limit_seconds));
  candidate->settled_bytes = budget_bytes;
  candidate->below_count = maker->below_count;
  return DELTA_OK;
}

// Plans row `r`; the search begins with the plan of another row, where that has one of this candidate.
static delta_status_t plan_row(sweeper_t *sweeper, candidate_t *candidate, size_t r, size_t from, double limit_seconds) {
  delta_plan_maker_t *maker = &candidate->maker;
  const delta_sweep_row_t *rows = sweeper->sweep->rows.items;
  const row_decisions_t *known = &sweeper->decisions.items[from];
  const bool is_known = rows[from].fits && rows[from].split == candidate->options.split && known->items.count > 0;
  maker->start = is_known ? &known->decisions : NULL;
  maker->plan->totals.budget_bytes = rows[r].budget_bytes;
  delta_status_t status = settle_homes(candidate, fmax(limit_seconds, sweeper->homes_seconds));
  candidate->options.time_limit_seconds = limit_seconds;
  if (!status) status = delta_plan_maker_plan(maker);
  if (!status) status = verify(maker);
  if (!status) status = offer(sweeper, candidate, r);
  drop_programs(maker->plan);
  ++sweeper->plans_made;
  if (sweeper->request->progress) sweeper->request->progress(sweeper->request->self, sweeper->plans_made, sweeper->plans_expected);
  if (delta_status_code(status) != DELTA_STATUS_DOES_NOT_FIT) return status;
  delta_status_free(status);
  return DELTA_OK;
}

// ---- All budgets

// Which rows a candidate is for.
typedef bool (*is_wanted_t)(const candidate_t *candidate, const delta_sweep_row_t *row);

static bool has_room(const candidate_t *candidate, const delta_sweep_row_t *row) {
  return row->budget_bytes >= candidate->maker.plan->totals.minimum_budget_bytes;
}
static bool is_missing(const candidate_t *candidate, const delta_sweep_row_t *row) { return !row->fits && has_room(candidate, row); }
static bool may_be_faster(const candidate_t *candidate, const delta_sweep_row_t *row) {
  return has_room(candidate, row) && (!row->fits || candidate->work_seconds < row->step_seconds);
}
static bool is_best(const candidate_t *candidate, const delta_sweep_row_t *row) {
  return row->fits && row->split == candidate->options.split;
}

// Whether there is something to search for: the step without a budget takes more, and what is known is not as fast as can be.
static bool needs_search(const sweeper_t *sweeper, const delta_sweep_row_t *row) {
  const double least_seconds = fmax(sweeper->sweep->unlimited_step_seconds, row->lower_bound_seconds);
  return row->budget_bytes < sweeper->sweep->unlimited_peak_bytes && !(row->fits && row->step_seconds <= close_enough * least_seconds);
}

static size_t count_searches(const sweeper_t *sweeper, const candidate_t *candidate, is_wanted_t is_wanted) {
  const delta_sweep_t *sweep = sweeper->sweep;
  size_t count = 0;
  for (size_t r = 0; r < sweep->rows.count; ++r)
    count += is_wanted(candidate, &sweep->rows.items[r]) && needs_search(sweeper, &sweep->rows.items[r]);
  return count;
}

// The part of the time until end_seconds that one of `left` searches has.
static double share_of(double end_seconds, size_t left) {
  return left > 0 ? fmax(0, end_seconds - delta_clock_seconds()) / (double)left : 0;
}

// Plans the rows that are wanted, from the largest budget down. What a search leaves of its time is for those after it.
static delta_status_t go_down(sweeper_t *sweeper, candidate_t *candidate, is_wanted_t is_wanted, double end_seconds) {
  const delta_sweep_row_t *rows = sweeper->sweep->rows.items;
  size_t left = count_searches(sweeper, candidate, is_wanted), larger = sweeper->sweep->rows.count - 1;
  candidate->settled_bytes = 0;
  candidate->maker.proves_bound = false;
  for (size_t r = sweeper->sweep->rows.count; r-- > 0;) {
    if (!is_wanted(candidate, &rows[r])) continue;
    const bool searches = needs_search(sweeper, &rows[r]);
    DELTA_RETURN_IF_ERROR(plan_row(sweeper, candidate, r, larger, searches ? share_of(end_seconds, left) : 0));
    left -= searches;
    larger = r;
  }
  return DELTA_OK;
}

// Searches on for the rows whose best plan is the candidate's, from the least budget up, with homes that have proven good.
static delta_status_t go_up(sweeper_t *sweeper, candidate_t *candidate, double end_seconds) {
  const delta_sweep_row_t *rows = sweeper->sweep->rows.items;
  size_t left = count_searches(sweeper, candidate, is_best), best = 0;
  candidate->maker.proves_bound = true;
  for (size_t r = 0; r < sweeper->sweep->rows.count; ++r) {
    if (!is_best(candidate, &rows[r])) continue;
    if (!is_best(candidate, &rows[best]) || rows[r].step_seconds < rows[best].step_seconds) best = r;
    if (!needs_search(sweeper, &rows[r])) continue;
    candidate->settled_bytes = (double)rows[r].budget_bytes;
    candidate->below_count = rows[best].below_count;
    DELTA_RETURN_IF_ERROR(plan_row(sweeper, candidate, r, best, share_of(end_seconds, left)));
    --left;
    if (rows[r].step_seconds <= rows[best].step_seconds) best = r;
  }
  return DELTA_OK;
}

// A plan for less is a plan for more. What was proven for the larger budget holds for plans with the same homes and parts alone.
static void offer_smaller(const delta_sweep_row_t *smaller, delta_sweep_row_t *row) {
  if (!smaller->fits || (row->fits && row->step_seconds <= smaller->step_seconds)) return;
  const bool is_alike = row->fits && row->below_count == smaller->below_count && row->split == smaller->split;
  const double lower_bound_seconds = is_alike ? row->lower_bound_seconds : 0;
  const uint64_t budget_bytes = row->budget_bytes;
  *row = *smaller;
  row->budget_bytes = budget_bytes;
  row->is_smaller_plan = true;
  row->lower_bound_seconds = lower_bound_seconds;
}

// ---- Whole and in parts

// The rows, once it is known what percentages count.
static delta_status_t list_rows(sweeper_t *sweeper, const delta_plan_maker_t *maker) {
  delta_sweep_t *sweep = sweeper->sweep;
  const delta_plan_totals_t *totals = &maker->plan->totals;
  for (size_t b = 0; b < sweeper->request->budget_count; ++b) {
    delta_sweep_row_t row = {0};
    DELTA_RETURN_IF_ERROR(delta_budget_resolve(sweeper->request->budgets[b], 0, totals->unlimited_peak_bytes, totals->minimum_budget_bytes,
                                               maker->device->granule_bytes, &row.budget_bytes));
    DELTA_RETURN_IF_ERROR(delta_array_push(sweep->allocator, &sweep->rows, &row));
    size_t at = sweep->rows.count - 1;
    for (; at > 0 && sweep->rows.items[at - 1].budget_bytes > row.budget_bytes; --at) sweep->rows.items[at] = sweep->rows.items[at - 1];
    sweep->rows.items[at] = row;
  }
  return DELTA_OK;
}

// What is the same for every budget, from the first candidate.
static delta_status_t describe(sweeper_t *sweeper, const delta_plan_maker_t *maker) {
  delta_sweep_t *sweep = sweeper->sweep;
  const delta_plan_totals_t *totals = &maker->plan->totals;
  snprintf(sweep->policy, sizeof sweep->policy, "%s", maker->plan->policy);
  snprintf(sweep->device, sizeof sweep->device, "%s", maker->plan->numerics.device);
  sweep->batch = maker->parts[0].batch;
  sweep->eager_peak_bytes = totals->eager_peak_bytes;
  sweep->unlimited_peak_bytes = totals->unlimited_peak_bytes;
  sweep->unlimited_step_seconds = totals->unlimited_step_seconds;
  sweep->minimum_budget_bytes = totals->minimum_budget_bytes;
  sweeper->end_seconds = delta_clock_seconds() + sweeper->request->options->time_limit_seconds;
  sweeper->homes_seconds = homes_part * sweeper->request->options->time_limit_seconds;
  DELTA_RETURN_IF_ERROR(list_rows(sweeper, maker));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(sweeper->allocator, &sweeper->decisions, sweep->rows.count));
  sweeper->decisions.count = sweep->rows.count;
  return DELTA_OK;
}

static void close_last(sweeper_t *sweeper) {
  candidate_t *candidate = sweeper->candidates[--sweeper->candidate_count];
  delta_plan_maker_close(&candidate->maker);
  delta_release(sweeper->allocator, candidate);
}

// Whether the last candidate has the programs of one before it.
static bool is_again(sweeper_t *sweeper) {
  candidate_t *last = sweeper->candidates[sweeper->candidate_count - 1];
  delta_plan_maker_hash_programs(&last->maker, &last->hashes);
  for (int c = 0; c + 1 < sweeper->candidate_count; ++c) {
    if (memcmp(&sweeper->candidates[c]->hashes, &last->hashes, sizeof last->hashes) == 0) return true;
  }
  return false;
}

// Builds the programs of the step with these parts. Notes on the model are the same for all. *out_candidate is NULL when another has the same programs.
static delta_status_t open_candidate(sweeper_t *sweeper, const char *split, candidate_t **out_candidate) {
  const bool is_first = sweeper->candidate_count == 0;
  candidate_t *candidate;
  *out_candidate = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(sweeper->allocator, 1, &candidate));
  sweeper->candidates[sweeper->candidate_count++] = candidate;
  candidate->options = *sweeper->request->options;
  candidate->options.split = split;
  candidate->options.budget = "unlimited";
  candidate->options.output_path = candidate->options.save_profile = candidate->options.dump_problem = NULL;
  candidate->options.report_path = candidate->options.trace_path = NULL;
  if (!is_first) candidate->options.log = (delta_log_sink_t){0};
  delta_plan_maker_t *maker = &candidate->maker;
  DELTA_RETURN_IF_ERROR(delta_plan_maker_open(maker, &candidate->options, sweeper->allocator));
  if (is_again(sweeper)) {
    close_last(sweeper);
    return DELTA_OK;
  }
  *out_candidate = candidate;
  maker->keeps_planners = true;
  maker->is_hasty = !is_first;
  DELTA_RETURN_IF_ERROR(delta_plan_maker_settle(maker));
  candidate->work_seconds = delta_problem_work_seconds(maker->parts[0].problem);
  if (is_first) return describe(sweeper, maker);
  const uint64_t minimum_bytes = maker->plan->totals.minimum_budget_bytes;
  if (minimum_bytes < sweeper->sweep->minimum_budget_bytes) sweeper->sweep->minimum_budget_bytes = minimum_bytes;
  return DELTA_OK;
}

static delta_status_t go_down_and_up(sweeper_t *sweeper, candidate_t *candidate, is_wanted_t is_wanted, double seconds) {
  const double start_seconds = delta_clock_seconds();
  DELTA_RETURN_IF_ERROR(go_down(sweeper, candidate, is_wanted, start_seconds + down_part * seconds));
  return go_up(sweeper, candidate, start_seconds + seconds);
}

static double seconds_left(const sweeper_t *sweeper) { return fmax(0, sweeper->end_seconds - delta_clock_seconds()); }

static delta_status_t sweep_one(sweeper_t *sweeper, const char *split) {
  candidate_t *candidate;
  DELTA_RETURN_IF_ERROR(open_candidate(sweeper, split, &candidate));
  sweeper->plans_expected = 2 * sweeper->sweep->rows.count;
  return go_down_and_up(sweeper, candidate, has_room, seconds_left(sweeper));
}

static bool is_refused(const candidate_t *candidate, const delta_sweep_row_t *row) {
  (void)candidate;
  return !row->fits;
}

// Whole where that fits, then the first parts that do. Each has a part of the time for its part of the budgets.
static delta_status_t sweep_until_all_fit(sweeper_t *sweeper) {
  size_t refused_count = 1;
  for (int c = 0; c < DELTA_SPLIT_CANDIDATES && refused_count > 0; ++c) {
    candidate_t *candidate;
    DELTA_RETURN_IF_ERROR(open_candidate(sweeper, delta_split_candidates[c], &candidate));
    if (!candidate) continue;
    sweeper->plans_expected = 2 * sweeper->sweep->rows.count;
    const size_t own = count_searches(sweeper, candidate, is_missing), all = count_searches(sweeper, candidate, is_refused);
    DELTA_RETURN_IF_ERROR(go_down_and_up(sweeper, candidate, is_missing, all > 0 ? seconds_left(sweeper) * (double)own / (double)all : 0));
    refused_count = count_searches(sweeper, candidate, is_refused);
  }
  return DELTA_OK;
}

// A short sweep with each; then each budget's best goes on.
static delta_status_t sweep_for_fastest(sweeper_t *sweeper) {
  const double rest_seconds = (1 - first_part) * sweeper->request->options->time_limit_seconds;
  for (int c = 0; c < DELTA_SPLIT_CANDIDATES; ++c) {
    candidate_t *candidate;
    if (c > 0 && seconds_left(sweeper) <= rest_seconds) break;
    const double begin_seconds = delta_clock_seconds();
    DELTA_RETURN_IF_ERROR(open_candidate(sweeper, delta_split_candidates[c], &candidate));
    if (!candidate) continue;
    sweeper->homes_seconds = homes_part * sweeper->request->options->time_limit_seconds / DELTA_SPLIT_CANDIDATES;
    const double opening_seconds = c > 0 ? delta_clock_seconds() - begin_seconds : 0; // that of the first does not count
    const double share = fmax(0, seconds_left(sweeper) + opening_seconds - rest_seconds) / (DELTA_SPLIT_CANDIDATES - c);
    sweeper->plans_expected = (DELTA_SPLIT_CANDIDATES + 1) * sweeper->sweep->rows.count;
    DELTA_RETURN_IF_ERROR(go_down(sweeper, candidate, may_be_faster, delta_clock_seconds() + share - opening_seconds));
  }
  for (int c = 0; c < sweeper->candidate_count; ++c) {
    size_t own = count_searches(sweeper, sweeper->candidates[c], is_best), all = own;
    for (int k = c + 1; k < sweeper->candidate_count; ++k) all += count_searches(sweeper, sweeper->candidates[k], is_best);
    const double seconds = own > 0 ? seconds_left(sweeper) * (double)own / (double)all : 0;
    DELTA_RETURN_IF_ERROR(go_up(sweeper, sweeper->candidates[c], delta_clock_seconds() + seconds));
  }
  return DELTA_OK;
}

static delta_status_t sweep_all(sweeper_t *sweeper) {
  const char *split = sweeper->request->options->split;
  if (split && strcmp(split, "on") == 0) return sweep_for_fastest(sweeper);
  if (split && strcmp(split, "auto") == 0) return sweep_until_all_fit(sweeper);
  return sweep_one(sweeper, split ? split : "off");
}

delta_status_t delta_plan_sweep(const delta_sweep_request_t *request, delta_allocator_t allocator, delta_sweep_t *out_sweep) {
  const double start_seconds = delta_clock_seconds();
  *out_sweep = (delta_sweep_t){.allocator = allocator};
  sweeper_t sweeper = {.request = request, .allocator = allocator, .sweep = out_sweep};
  delta_status_t status = sweep_all(&sweeper);
  for (size_t r = 1; r < out_sweep->rows.count; ++r) offer_smaller(&out_sweep->rows.items[r - 1], &out_sweep->rows.items[r]);
  while (sweeper.candidate_count > 0) close_last(&sweeper);
  for (size_t r = 0; r < sweeper.decisions.count; ++r) delta_array_deinit(allocator, &sweeper.decisions.items[r].items);
  delta_array_deinit(allocator, &sweeper.decisions);
  out_sweep->planning_seconds = delta_clock_seconds() - start_seconds;
  return status;
}
