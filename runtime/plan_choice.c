// Choosing the parts: `--split on` plans the step whole and in parts, each for a short while, and then searches on with the parts whose plan was fastest; `--split auto`
// splits only what does not fit whole. A plan in parts stands beside the whole one, so that splitting never makes a plan slower than what was there without it.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/plan_create.h"

const char *const delta_split_candidates[DELTA_SPLIT_CANDIDATES] = {"off", "2", "4", "4:25%", "8", "8:25%", "16"};
// Of the time, for trying all candidates; the best has the rest.
static const double trial_part = 0.4;
// A search that is this much longer than the one before is worth making.
static const double worth_factor = 1.5;

typedef struct plan_choice {
  delta_plan_options_t options; // of the plan at hand
  delta_allocator_t allocator;
  double deadline_seconds;
  double overhead_seconds; // what the last candidate took beside searching
  const char *split;       // of the plan kept
  delta_plan_t *plan;      // Owned; NULL: none fits yet
  delta_plan_summary_t summary;
  delta_status_t refusal; // Owned; of the candidate with the least budget, while none fits
} plan_choice_t;

static bool is_kept(const plan_choice_t *choice, const delta_plan_summary_t *summary) {
  return choice->plan && choice->summary.step_seconds <= summary->step_seconds;
}

// Keeps the better of two plans, or of two refusals.
static void take_better(plan_choice_t *choice, const char *split, delta_plan_t *plan, const delta_plan_summary_t *summary,
                        delta_status_t refusal) {
  const bool first = !choice->plan && !choice->refusal;
  const bool lower = refusal && !choice->plan && (first || summary->minimum_budget_bytes < choice->summary.minimum_budget_bytes);
  const bool faster = plan && !is_kept(choice, summary);
  if (!lower && !faster) {
    delta_plan_free(plan);
    delta_status_free(refusal);
    return;
  }
  delta_plan_free(choice->plan);
  delta_status_free(choice->refusal);
  choice->plan = plan;
  choice->refusal = refusal;
  choice->summary = *summary;
  choice->split = split;
}

static delta_status_t try_candidate(plan_choice_t *choice, const char *split) {
  delta_plan_t *plan = NULL;
  delta_plan_summary_t summary = {.struct_size = sizeof summary};
  choice->options.split = split;
  const delta_status_t status = delta_plan_create_one(&choice->options, choice->allocator, &plan, &summary);
  if (status && delta_status_code(status) != DELTA_STATUS_DOES_NOT_FIT) return status;
  if (plan) delta_log(choice->options.log, DELTA_LOG_NOTE, "--split %s: %.4g s", split, summary.step_seconds);
  if (!plan)
    delta_log(choice->options.log, DELTA_LOG_NOTE, "--split %s does not fit: it needs %llu bytes", split,
              (unsigned long long)summary.minimum_budget_bytes);
  take_better(choice, split, plan, &summary, status);
  return DELTA_OK;
}

// A plan that is as fast as the step without a budget cannot be improved.
static bool is_done(const plan_choice_t *choice, bool only_if_needed) {
  if (!choice->plan) return false;
  if (only_if_needed || choice->summary.step_seconds <= choice->summary.unlimited_step_seconds) return true;
  return delta_clock_seconds() > choice->deadline_seconds;
}

// Plans a candidate, for at most so long in all.
static delta_status_t try_within(plan_choice_t *choice, const char *split, double seconds) {
  const double start_seconds = delta_clock_seconds(), search_seconds = fmax(0, seconds - choice->overhead_seconds);
  choice->options.time_limit_seconds = search_seconds;
  DELTA_RETURN_IF_ERROR(try_candidate(choice, split));
  choice->overhead_seconds = fmax(0, delta_clock_seconds() - start_seconds - search_seconds);
  return DELTA_OK;
}

static delta_status_t choose_fastest(plan_choice_t *choice) {
  const double all_seconds = choice->options.time_limit_seconds,
               trials_end_seconds = choice->deadline_seconds - (1 - trial_part) * all_seconds;
  for (uint32_t c = 0; c < DELTA_SPLIT_CANDIDATES && !is_done(choice, false); ++c) {
    const double left_seconds = trials_end_seconds - delta_clock_seconds();
    DELTA_RETURN_IF_ERROR(try_within(choice, delta_split_candidates[c], left_seconds / (DELTA_SPLIT_CANDIDATES - c)));
  }
  const double left_seconds = choice->deadline_seconds - delta_clock_seconds();
  const bool is_worth = left_seconds - choice->overhead_seconds > worth_factor * trial_part * all_seconds / DELTA_SPLIT_CANDIDATES;
  return choice->plan && is_worth && !is_done(choice, false) ? try_within(choice, choice->split, left_seconds) : DELTA_OK;
}

// Only what fits is searched, and then there is one.
static delta_status_t choose_first(plan_choice_t *choice) {
  for (uint32_t c = 0; c < DELTA_SPLIT_CANDIDATES && !is_done(choice, true); ++c)
    DELTA_RETURN_IF_ERROR(try_candidate(choice, delta_split_candidates[c]));
  return DELTA_OK;
}

delta_status_t delta_plan_create(const delta_plan_options_t *options, delta_allocator_t allocator, delta_plan_t **out_plan,
                                 delta_plan_summary_t *out_summary) {
  const bool on = options->struct_size == sizeof *options && options->split && strcmp(options->split, "on") == 0;
  const bool automatic = options->struct_size == sizeof *options && options->split && strcmp(options->split, "auto") == 0;
  if (!on && !automatic) return delta_plan_create_one(options, allocator, out_plan, out_summary);
  const double start_seconds = delta_clock_seconds();
  plan_choice_t choice = {.options = *options, .allocator = allocator, .deadline_seconds = start_seconds + options->time_limit_seconds};
  *out_plan = NULL;
  delta_status_t status = automatic ? choose_first(&choice) : choose_fastest(&choice);
  if (status) {
    delta_plan_free(choice.plan);
    delta_status_free(choice.refusal);
    return status;
  }
  choice.summary.planning_seconds = delta_clock_seconds() - start_seconds - choice.summary.profiling_seconds;
  *out_plan = choice.plan;
  if (out_summary) *out_summary = choice.summary;
  return choice.refusal;
}
