// Choosing the parts: `--split on` searches for a plan of the whole step and of the step in parts, each for a short while, goes on with the best of them for a longer while,
// and then with the best; `--split auto` splits only what does not fit whole. The whole step stays among them until something is faster, so that splitting never makes a plan
// slower than what was there without it.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/struct_size.h"
#include "runtime/plan_create.h"
#include "runtime/plan_maker.h"

const char *const delta_split_candidates[DELTA_SPLIT_CANDIDATES] = {"off",   "2:60%", "2:30%", "2:15%", "3:30%", "4:30%", "2",
                                                                    "4:15%", "4",     "8:30%", "8:15%", "8",     "16"};
enum { MOST_ALIVE = 3 };
// Of the time, for the first look at all candidates, and for the second at each of the best; the last of them has the rest.
static const double first_part = 0.4, second_part = 0.07;
// A program of so many steps is not searched in less than a second: where that is more than a candidate's share of the time it is left out.
static const double steps_per_second = 10000;

// One of the ways to run the step.
typedef struct candidate {
  const char *split;
  delta_plan_options_t options; // borrowed by the maker
  delta_plan_maker_t maker;     // stays where it is: planners point into it
  double seconds;               // of the step in the best plan so far; INFINITY: none fits
} candidate_t;

typedef struct plan_choice {
  const delta_plan_options_t *options;
  delta_allocator_t allocator;
  double start_seconds;
  candidate_t *alive[MOST_ALIVE + 1]; // Owned; the best so far first; one more for the one at hand
  uint32_t alive_count;
  uint32_t below_count; // of states that lie below in the plan of the whole step, or all where there is none
  delta_program_hashes_t hashes[DELTA_SPLIT_CANDIDATES]; // of those looked at
  uint32_t looked_at;
  bool is_hasty; // least budgets of all but the first are looked for with little effort
} plan_choice_t;

static double seconds_left(const plan_choice_t *choice) {
  return choice->start_seconds + choice->options->time_limit_seconds - delta_clock_seconds();
}

static void close_candidate(plan_choice_t *choice, uint32_t at) {
  candidate_t *candidate = choice->alive[at];
  choice->alive[at] = NULL;
  if (!candidate) return;
  delta_plan_maker_close(&candidate->maker);
  delta_release(choice->allocator, candidate);
}

// ---- The candidates

static bool has_plan(const plan_choice_t *choice) { return choice->alive_count > 0 && choice->alive[0]->seconds < INFINITY; }

// Whether another candidate has had the same programs: those of the step may be alike where the evaluation's are not.
static bool is_again(plan_choice_t *choice, const delta_plan_maker_t *maker) {
  delta_program_hashes_t *hashes = &choice->hashes[choice->looked_at];
  bool is_again = false;
  delta_plan_maker_hash_programs(maker, hashes);
  for (uint32_t i = 0; i < choice->looked_at; ++i) is_again = is_again || memcmp(&choice->hashes[i], hashes, sizeof *hashes) == 0;
  ++choice->looked_at;
  return is_again;
}

// Whether a candidate's plan may be the fastest: it is not another's again, its work alone takes less than the best plan, and there is time to search.
static bool is_worth_it(plan_choice_t *choice, const delta_plan_maker_t *maker, double seconds) {
  const delta_problem_t *problem = maker->parts[0].problem;
  if (is_again(choice, maker)) return false;
  return !has_plan(choice) ||
         (delta_problem_work_seconds(problem) < choice->alive[0]->seconds && problem->step_count <= steps_per_second * seconds);
}

static bool fits(const delta_plan_maker_t *maker) { return maker->plan->totals.minimum_budget_bytes <= maker->plan->totals.budget_bytes; }

static bool is_better(const candidate_t *a, const candidate_t *b) {
  if (a->seconds != b->seconds) return a->seconds < b->seconds;
  return a->maker.plan->totals.minimum_budget_bytes < b->maker.plan->totals.minimum_budget_bytes;
}

// Puts the one behind those alive in its place among them; the last goes where there are too many.
static void rank_last(plan_choice_t *choice) {
  for (uint32_t at = choice->alive_count++; at > 0 && is_better(choice->alive[at], choice->alive[at - 1]); --at) {
    candidate_t *const other = choice->alive[at];
    choice->alive[at] = choice->alive[at - 1];
    choice->alive[at - 1] = other;
  }
  // What does not fit is kept only while nothing does, for what it needs.
  while (choice->alive_count > MOST_ALIVE || (choice->alive_count > 1 && choice->alive[choice->alive_count - 1]->seconds == INFINITY))
    close_candidate(choice, --choice->alive_count);
}

static void note(const candidate_t *candidate, const char *more) {
  const delta_log_sink_t log = candidate->options.log;
  const unsigned long long minimum_bytes = candidate->maker.plan->totals.minimum_budget_bytes;
  if (candidate->seconds < INFINITY) delta_log(log, DELTA_LOG_NOTE, "--split %s%s: %.4g s", candidate->split, more, candidate->seconds);
  if (candidate->seconds == INFINITY)
    delta_log(log, DELTA_LOG_NOTE, "--split %s does not fit: it needs %llu bytes", candidate->split, minimum_bytes);
}

// What notes say of the model is the same for all.
static void hush(candidate_t *candidate, bool is_first, delta_log_sink_t *out_log) {
  *out_log = candidate->options.log;
  if (!is_first) candidate->options.log = (delta_log_sink_t){0};
}

// Opens a candidate and searches for a plan, in so many seconds in all.
static delta_status_t look_at(plan_choice_t *choice, const char *split, double seconds) {
  candidate_t *candidate;
  const bool is_first = choice->looked_at == 0;
  const double end_seconds = delta_clock_seconds() + seconds;
  delta_log_sink_t log;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(choice->allocator, 1, &candidate));
  choice->alive[choice->alive_count] = candidate;
  *candidate = (candidate_t){.split = split, .options = *choice->options, .seconds = INFINITY};
  candidate->options.split = split;
  candidate->options.time_limit_seconds = seconds;
  hush(candidate, is_first, &log);
  DELTA_RETURN_IF_ERROR(delta_plan_maker_open(&candidate->maker, &candidate->options, choice->allocator));
  if (!is_worth_it(choice, &candidate->maker, seconds)) {
    close_candidate(choice, choice->alive_count);
    return DELTA_OK;
  }
  candidate->maker.is_hasty = choice->is_hasty && !is_first;
  candidate->maker.wanted_below = is_first ? NULL : &choice->below_count;
  DELTA_RETURN_IF_ERROR(delta_plan_maker_settle(&candidate->maker));
  candidate->options.log = log;
  if (fits(&candidate->maker))
    DELTA_RETURN_IF_ERROR(delta_plan_maker_try(&candidate->maker, fmax(0, end_seconds - delta_clock_seconds()), &candidate->seconds));
  if (is_first) choice->below_count = fits(&candidate->maker) ? candidate->maker.below_count : candidate->maker.movable_count;
  note(candidate, "");
  rank_last(choice);
  return DELTA_OK;
}

// A plan that is as fast as the step without a budget cannot be improved.
static bool is_done(const plan_choice_t *choice, bool only_if_needed) {
  if (!has_plan(choice)) return false;
  return only_if_needed || choice->alive[0]->seconds <= choice->alive[0]->maker.plan->totals.unlimited_step_seconds ||
         seconds_left(choice) <= 0;
}

// ---- The choice

// Searches on with each of the best, and ranks them again; the others go.
static delta_status_t compare_best(plan_choice_t *choice) {
  const uint32_t count = choice->alive_count;
  const double seconds = second_part * choice->options->time_limit_seconds;
  for (uint32_t i = 0; i < count && count > 1; ++i) {
    candidate_t *candidate = choice->alive[i];
    DELTA_RETURN_IF_ERROR(delta_plan_maker_try(&candidate->maker, fmin(seconds, fmax(0, seconds_left(choice))), &candidate->seconds));
    note(candidate, " again");
  }
  choice->alive_count = 0;
  for (uint32_t i = 0; i < count; ++i) rank_last(choice);
  while (choice->alive_count > 1) close_candidate(choice, --choice->alive_count);
  return DELTA_OK;
}

static delta_status_t choose_fastest(plan_choice_t *choice) {
  choice->is_hasty = true;
  const double first_seconds = first_part * choice->options->time_limit_seconds, rest_seconds = seconds_left(choice) - first_seconds;
  for (uint32_t c = 0; c < DELTA_SPLIT_CANDIDATES && !is_done(choice, false); ++c) {
    const double seconds = fmax(0, seconds_left(choice) - rest_seconds) / (DELTA_SPLIT_CANDIDATES - c);
    if (seconds == 0 && has_plan(choice)) break;
    DELTA_RETURN_IF_ERROR(look_at(choice, delta_split_candidates[c], seconds));
  }
  return is_done(choice, false) ? DELTA_OK : compare_best(choice);
}

// Only what fits is searched, and then there is one.
static delta_status_t choose_first(plan_choice_t *choice) {
  for (uint32_t c = 0; c < DELTA_SPLIT_CANDIDATES && !is_done(choice, true); ++c)
    DELTA_RETURN_IF_ERROR(look_at(choice, delta_split_candidates[c], fmax(0, seconds_left(choice))));
  return DELTA_OK;
}

// The first has the time that is left.
static delta_status_t finish(plan_choice_t *choice, delta_plan_t **out_plan, delta_plan_summary_t *out_summary) {
  candidate_t *candidate = choice->alive[0];
  candidate->options.time_limit_seconds = fmax(0, seconds_left(choice));
  candidate->maker.start_seconds = choice->start_seconds;
  return delta_plan_maker_finish(&candidate->maker, out_plan, out_summary);
}

static delta_status_t choose(plan_choice_t *choice, bool only_if_needed, delta_plan_t **out_plan, delta_plan_summary_t *out_summary) {
  delta_status_t status = only_if_needed ? choose_first(choice) : choose_fastest(choice);
  if (!status) status = finish(choice, out_plan, out_summary);
  for (uint32_t i = 0; i <= MOST_ALIVE; ++i) close_candidate(choice, i);
  return status;
}

delta_status_t delta_plan_create(const delta_plan_options_t *options, delta_allocator_t allocator, delta_plan_t **out_plan,
                                 delta_plan_summary_t *out_summary) {
  const bool has_split = options->struct_size == sizeof *options && options->split;
  const bool on = has_split && strcmp(options->split, "on") == 0, automatic = has_split && strcmp(options->split, "auto") == 0;
  if (!on && !automatic) return delta_plan_create_one(options, allocator, out_plan, out_summary);
  *out_plan = NULL;
  if (out_summary)
    DELTA_RETURN_IF_ERROR(
        delta_struct_size_check("plan summary", "set it to sizeof(delta_plan_summary_t)", out_summary->struct_size, sizeof *out_summary));
  plan_choice_t choice = {.options = options, .allocator = allocator, .start_seconds = delta_clock_seconds()};
  return choose(&choice, automatic, out_plan, out_summary);
}
