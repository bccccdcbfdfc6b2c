// Planner: runs a policy's stages, and says what is missing when the result is over the budget.
//
// A policy of releases has a rule of its own, but the budget is not its rule's to miss: what the rule leaves too full is released further, and where that ends too
// high the descent has a schedule. Its smallest budget is that of the descent.
#include "planner/planner.h"

#include "base/text.h"
#include "planner/annotate.h"
#include "planner/descent.h"
#include "planner/found.h"
#include "planner/least.h"
#include "planner/prefetch.h"
#include "planner/rival_plan.h"
#include "planner/rule.h"

// Capacities that are tried to find out how little memory a rival reaches.
enum { LEAST_TRIES = 6 };

typedef struct policy_row {
  bool searches; // for the fastest
  delta_liberties_t liberties;
  bool releases;     // where a search has nothing better; else everything is kept
  delta_rule_t rule; // of the policy
  bool is_soft;      // the rule's schedule is the plan, or there is none
  delta_wait_rule_t waits;
  uint32_t prefetch_depth; // copies back that may be there before their use; 0: none
} policy_row_t;

static const policy_row_t policy_rows[DELTA_POLICY_COUNT] = {
    [DELTA_POLICY_DELTA] =
        {.searches = true, .liberties = {true, true}, .releases = true, .waits = DELTA_WAIT_FOR_BYTES, .prefetch_depth = 5},
    [DELTA_POLICY_SWAP] = {.searches = true, .liberties = {.may_swap = true}, .waits = DELTA_WAIT_FOR_BYTES, .prefetch_depth = 5},
    [DELTA_POLICY_RECOMPUTE] = {.searches = true, .liberties = {.may_rebuild = true}},
    [DELTA_POLICY_DELTA_RELEASED] = {.releases = true, .rule = {.as_released = true}, .is_soft = true, .waits = DELTA_WAIT_ONE_AT_A_TIME},
    [DELTA_POLICY_DELTA_FIXED] = {.releases = true, .waits = DELTA_WAIT_FOR_BYTES, .prefetch_depth = 5},
};

bool delta_policy_keeps_budgets(delta_policy_t policy) { return policy_rows[policy].releases && !policy_rows[policy].is_soft; }

// What does not depend on the budget. Searches only read it.
typedef struct planner_base {
  delta_allocator_t allocator;
  uint32_t user_count; // planners that have it
  delta_order_t order;
  delta_schedule_t *kept; // Owned; everything kept.
  delta_descent_t descent;
  delta_schedule_t *own_least; // Owned; of a policy that only searches, or of a rival: the smallest arena it reaches, or NULL
} planner_base_t;

struct delta_planner {
  const delta_problem_t *problem;
  delta_planner_options_t options;
  delta_allocator_t allocator;
  const policy_row_t *row;
  planner_base_t *base; // Shared; the last planner that has it frees it.
  // Of the last search, for one that goes on from it:
  delta_finder_t *finder; // Owned; NULL: there is none
  uint64_t last_capacity_bytes;
  delta_planner_result_t last; // its schedule is owned; NULL: nothing was found
};

static delta_rival_request_t rival_request(const delta_planner_t *planner, delta_policy_t policy) {
  return (delta_rival_request_t){
      .problem = planner->problem, .order = &planner->base->order, .rule = delta_rival_rule(policy), .solver = planner->options.solver};
}

static delta_status_t refuse_budget(const delta_planner_t *planner, const delta_schedule_t *schedule, uint64_t capacity_bytes,
                                    const delta_planner_result_t *result) {
  delta_text_t peak;
  delta_text_init(&peak, planner->allocator);
  delta_status_t status = delta_describe_peak(planner->problem, schedule, &peak);
  if (!status) {
    status = delta_status_make(DOES_NOT_FIT, "policy '%s' needs %llu bytes beside the states, the budget leaves %llu; %s",
                               delta_policy_info(planner->options.policy)->name, (unsigned long long)result->minimum_budget_bytes,
                               (unsigned long long)capacity_bytes, peak.items);
  }
  delta_text_deinit(&peak);
  return status;
}

// ---- What does not depend on the budget

static void leave_base(planner_base_t *base) {
  if (!base || --base->user_count > 0) return;
  delta_descent_deinit(&base->descent);
  delta_schedule_free(base->own_least);
  delta_schedule_free(base->kept);
  delta_order_deinit(&base->order);
  delta_release(base->allocator, base);
}

static delta_status_t prepare(delta_planner_t *planner) {
  const delta_problem_t *problem = planner->problem;
  const delta_allocator_t allocator = planner->allocator;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &planner->base));
  *planner->base = (planner_base_t){.allocator = allocator, .user_count = 1, .order = {.allocator = allocator}};
  DELTA_RETURN_IF_ERROR(planner->options.listed_order
                            ? delta_order_listed(problem, allocator, &planner->base->order)
                            : delta_order_make(problem, planner->options.early_update, allocator, &planner->base->order));
  DELTA_RETURN_IF_ERROR(delta_expand(problem, &planner->base->order, NULL, allocator, &planner->base->kept));
  DELTA_RETURN_IF_ERROR(delta_finish_schedule(problem, DELTA_WAIT_FOR_BYTES, allocator, planner->base->kept));
  const delta_rival_request_t rival = rival_request(planner, planner->options.policy);
  const int tries = planner->options.policy == DELTA_POLICY_CHECKMATE ? 0 : LEAST_TRIES; // it proves its least at once
  if (rival.rule) return delta_rival_least(&rival, tries, allocator, &planner->base->own_least);
  if (planner->row->searches && !planner->row->releases)
    return delta_find_least(problem, &planner->base->order, planner->row->liberties, planner->base->kept, allocator,
                            &planner->base->own_least);
  return planner->row->releases && !planner->row->is_soft
             ? delta_descent_init(&planner->base->descent, problem, &planner->base->order, planner->options.hasty_least, allocator)
             : DELTA_OK;
}

delta_status_t delta_planner_create(const delta_problem_t *problem, const delta_planner_options_t *options, delta_allocator_t allocator,
                                    delta_planner_t **out_planner) {
  *out_planner = NULL;
  DELTA_RETURN_IF_ERROR(delta_problem_check(problem));
  delta_planner_t *planner = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &planner));
  *planner = (delta_planner_t){.problem = problem, .options = *options, .allocator = allocator, .row = &policy_rows[options->policy]};
  delta_status_t status = prepare(planner);
  if (status) {
    delta_planner_destroy(planner);
    return status;
  }
  *out_planner = planner;
  return DELTA_OK;
}

delta_status_t delta_planner_fork(const delta_planner_t *planner, delta_planner_t **out_planner) {
  *out_planner = NULL;
  delta_planner_t *fork = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(planner->allocator, 1, &fork));
  *fork = (delta_planner_t){.problem = planner->problem,
                            .options = planner->options,
                            .allocator = planner->allocator,
                            .row = planner->row,
                            .base = planner->base};
  ++fork->base->user_count;
  *out_planner = fork;
  return DELTA_OK;
}

static void forget_search(delta_planner_t *planner) {
  delta_finder_destroy(planner->finder);
  planner->finder = NULL;
  delta_schedule_free(planner->last.schedule);
  planner->last = (delta_planner_result_t){0};
}

void delta_planner_destroy(delta_planner_t *planner) {
  if (!planner) return;
  forget_search(planner);
  leave_base(planner->base);
  delta_release(planner->allocator, planner);
}

void delta_planner_set_effort(delta_planner_t *planner, const delta_planner_effort_t *effort) { planner->options.effort = *effort; }

// The schedule of the smallest arena that the policy reaches whatever the budget.
static const delta_schedule_t *least_schedule(const delta_planner_t *planner) {
  const delta_schedule_t *least = planner->base->own_least ? planner->base->own_least : planner->base->descent.least;
  return least && least->arena_bytes < planner->base->kept->arena_bytes ? least : planner->base->kept;
}

uint64_t delta_planner_minimum_bytes(const delta_planner_t *planner) { return least_schedule(planner)->arena_bytes; }

const delta_decisions_t *delta_planner_decisions(const delta_planner_t *planner) {
  return planner->finder ? delta_finder_decisions(planner->finder) : NULL;
}

const delta_schedule_t *delta_planner_kept(const delta_planner_t *planner) { return planner->base->kept; }

// ---- Within a budget

// Takes the releaser's schedule and finishes it.
static delta_status_t take_schedule(const delta_planner_t *planner, delta_releaser_t *releaser, delta_schedule_t **out_schedule) {
  *out_schedule = releaser->schedule;
  releaser->schedule = NULL;
  return delta_finish_schedule(planner->problem, planner->row->waits, planner->allocator, *out_schedule);
}

// Releases by the rule, and further while the fullest step is over the capacity.
static delta_status_t release_by_rule(const delta_planner_t *planner, uint64_t capacity_bytes, delta_schedule_t **out_schedule) {
  delta_releaser_t releaser;
  *out_schedule = NULL;
  DELTA_RETURN_IF_ERROR(
      delta_releaser_init(&releaser, planner->problem, &planner->base->order, planner->row->rule.as_released, planner->allocator));
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_rule_apply(&planner->row->rule, capacity_bytes, &releaser), cleanup);
  for (bool found = !planner->row->is_soft; found && releaser.schedule->peak_bytes > capacity_bytes;) {
    DELTA_GOTO_IF_ERROR(status, delta_releaser_advance(&releaser, &found), cleanup);
  }
  DELTA_GOTO_IF_ERROR(status, take_schedule(planner, &releaser, out_schedule), cleanup);
cleanup:
  delta_releaser_deinit(&releaser);
  if (status) {
    delta_schedule_free(*out_schedule);
    *out_schedule = NULL;
  }
  return status;
}

// Of programs with more steps a policy that searches does not follow the rule first: it would take longer than the search, which needs no more than a plan to fall back on.
enum { MOST_RULED_STEPS = 2000 };

static delta_status_t release(const delta_planner_t *planner, uint64_t capacity_bytes, delta_schedule_t **out_schedule) {
  if (!planner->row->searches || planner->problem->step_count <= MOST_RULED_STEPS) {
    DELTA_RETURN_IF_ERROR(release_by_rule(planner, capacity_bytes, out_schedule));
    if (planner->row->is_soft || (*out_schedule)->arena_bytes <= capacity_bytes) return DELTA_OK;
    delta_schedule_free(*out_schedule);
    *out_schedule = NULL;
  }
  return delta_descent_stop(&planner->base->descent, capacity_bytes, out_schedule);
}

// Tries earlier copies back; the schedule stays as it is when they do not fit or do not help.
static delta_status_t start_copies_early(const delta_planner_t *planner, uint64_t capacity_bytes, delta_schedule_t **inout_schedule) {
  const delta_schedule_t *before = *inout_schedule;
  if (planner->row->prefetch_depth == 0 || before->host_bytes == 0) return DELTA_OK;
  delta_schedule_t *early = NULL;
  DELTA_RETURN_IF_ERROR(delta_schedule_copy(before, planner->allocator, &early));
  delta_status_t status = delta_prefetch(planner->problem, capacity_bytes, planner->row->prefetch_depth, planner->allocator, early);
  if (!status) status = delta_finish_schedule(planner->problem, planner->row->waits, planner->allocator, early);
  const bool is_better = !status && early->arena_bytes <= capacity_bytes && early->step_seconds < before->step_seconds;
  if (is_better) {
    delta_schedule_free(*inout_schedule);
    *inout_schedule = early;
  } else {
    delta_schedule_free(early);
  }
  return status;
}

// Of two schedules, NULL for none, the one that fits, or of two that do the faster; the other is freed. True: it is the second.
static bool keep_faster(uint64_t capacity_bytes, delta_schedule_t **inout_schedule, delta_schedule_t *other) {
  delta_schedule_t *schedule = *inout_schedule;
  const bool is_better = other && other->arena_bytes <= capacity_bytes &&
                         (!schedule || schedule->arena_bytes > capacity_bytes || other->step_seconds < schedule->step_seconds);
  *inout_schedule = is_better ? other : schedule;
  delta_schedule_free(is_better ? schedule : other);
  return is_better;
}

// What a search begins with: the fastest plan of a rival.
typedef struct search_seed {
  delta_schedule_t *schedule; // Owned; NULL: none fits
  delta_decision_list_t items;
  delta_policy_t policy;
} search_seed_t;

static delta_status_t try_seed(const delta_planner_t *planner, delta_policy_t policy, uint64_t capacity_bytes, search_seed_t *seed) {
  const delta_rival_request_t request = rival_request(planner, policy);
  delta_schedule_t *schedule = NULL;
  delta_decision_list_t items = {0};
  delta_status_t status = delta_rival_schedule(&request, capacity_bytes, planner->allocator, &schedule, &items);
  if (!status && keep_faster(capacity_bytes, &seed->schedule, schedule)) {
    const delta_decision_list_t before = seed->items;
    seed->items = items;
    items = before;
    seed->policy = policy;
  }
  delta_array_deinit(planner->allocator, &items);
  return status;
}

static delta_status_t find_seed(const delta_planner_t *planner, uint64_t capacity_bytes, search_seed_t *out_seed) {
  *out_seed = (search_seed_t){0};
  // What may not be taken must not come from others.
  const bool begins = planner->options.effort.begins_with_rivals && planner->row->liberties.may_swap && planner->row->liberties.may_rebuild;
  for (int p = 0; p < DELTA_POLICY_COUNT && begins; ++p) {
    // The solver takes long, and its plan is no start: it is found only where there is little to search.
    if (!delta_rival_rule((delta_policy_t)p) || p == DELTA_POLICY_CHECKMATE) continue;
    DELTA_RETURN_IF_ERROR(try_seed(planner, (delta_policy_t)p, capacity_bytes, out_seed));
  }
  return DELTA_OK;
}

static delta_status_t run_finder(delta_planner_t *planner, uint64_t capacity_bytes, delta_schedule_t **out_found) {
  DELTA_RETURN_IF_ERROR(delta_finder_run(planner->finder, &planner->options.effort, out_found));
  return *out_found ? start_copies_early(planner, capacity_bytes, out_found) : DELTA_OK;
}

static delta_status_t search_from(delta_planner_t *planner, uint64_t capacity_bytes, const search_seed_t *seed,
                                  delta_schedule_t **out_found) {
  const delta_decisions_t rival = {.items = seed->items.items, .count = seed->items.count, .tail = DELTA_ACTION_REBUILD_DROP};
  const delta_search_options_t options = {.liberties = planner->row->liberties,
                                          .capacity_bytes = capacity_bytes,
                                          .start = seed->schedule ? &rival : planner->options.effort.start};
  DELTA_RETURN_IF_ERROR(delta_finder_create(planner->problem, &planner->base->order, &options, planner->allocator, &planner->finder));
  return run_finder(planner, capacity_bytes, out_found);
}

// Searches, and keeps what was released, or what it began with, when the search has nothing faster.
static delta_status_t search(delta_planner_t *planner, uint64_t capacity_bytes, delta_planner_result_t *result) {
  search_seed_t seed;
  delta_schedule_t *found = NULL;
  delta_status_t status = find_seed(planner, capacity_bytes, &seed);
  if (planner->options.effort.begin_search) planner->options.effort.begin_search(planner->options.effort.self);
  if (!status) status = search_from(planner, capacity_bytes, &seed, &found);
  if (!status) {
    keep_faster(capacity_bytes, &result->schedule, found);
    found = NULL;
    if (seed.schedule) result->seed_policy = delta_policy_info(seed.policy)->name;
    result->seed_is_plan = keep_faster(capacity_bytes, &result->schedule, seed.schedule);
    seed.schedule = NULL;
  }
  delta_schedule_free(found);
  delta_schedule_free(seed.schedule);
  delta_array_deinit(planner->allocator, &seed.items);
  return status;
}

static delta_status_t copy_result(const delta_planner_result_t *from, delta_allocator_t allocator, delta_planner_result_t *out_result) {
  *out_result = *from;
  out_result->schedule = NULL;
  return from->schedule ? delta_schedule_copy(from->schedule, allocator, &out_result->schedule) : DELTA_OK;
}

// The last search's plan, or what is faster when the search has gone on.
static delta_status_t go_on(delta_planner_t *planner, uint64_t capacity_bytes, delta_planner_result_t *result) {
  delta_schedule_t *found = NULL;
  DELTA_RETURN_IF_ERROR(copy_result(&planner->last, planner->allocator, result));
  const delta_status_t status = run_finder(planner, capacity_bytes, &found);
  if (keep_faster(capacity_bytes, &result->schedule, found)) result->seed_is_plan = false;
  return status;
}

// The plan of a rival's rule, unless the one at hand is faster, or the only one that fits.
static delta_status_t follow_rule(const delta_planner_t *planner, uint64_t capacity_bytes, delta_schedule_t **inout_schedule) {
  const delta_rival_request_t request = rival_request(planner, planner->options.policy);
  delta_schedule_t *schedule = NULL;
  DELTA_RETURN_IF_ERROR(delta_rival_schedule(&request, capacity_bytes, planner->allocator, &schedule, NULL));
  if (!*inout_schedule) {
    *inout_schedule = schedule; // whether it fits or not
  } else {
    keep_faster(capacity_bytes, inout_schedule, schedule);
  }
  return DELTA_OK;
}

static delta_status_t plan_within(delta_planner_t *planner, uint64_t capacity_bytes, delta_planner_result_t *result) {
  const policy_row_t *row = planner->row;
  const delta_schedule_t *least = least_schedule(planner);
  result->minimum_budget_bytes = least->arena_bytes;
  result->minimum_step = delta_schedule_peak_problem_step(least);
  DELTA_RETURN_IF_ERROR(
      delta_lower_bound(planner->problem, &planner->base->order, capacity_bytes, 0, planner->allocator, &result->lower_bound_seconds));
  if (planner->base->kept->arena_bytes <= capacity_bytes)
    return delta_schedule_copy(planner->base->kept, planner->allocator, &result->schedule);
  const bool fits_released = row->releases && (row->is_soft || least->arena_bytes <= capacity_bytes);
  if (fits_released) DELTA_RETURN_IF_ERROR(release(planner, capacity_bytes, &result->schedule));
  // A search is compared with the best that releasing gives, so that it never ends with less.
  if (fits_released && result->schedule->arena_bytes <= capacity_bytes) {
    DELTA_RETURN_IF_ERROR(start_copies_early(planner, capacity_bytes, &result->schedule));
  }
  // A policy that only searches begins with the plan of the least budget, where that fits. A rival follows its rule, and has that plan where the rule misses.
  if (planner->base->own_least && planner->base->own_least->arena_bytes <= capacity_bytes)
    DELTA_RETURN_IF_ERROR(delta_schedule_copy(planner->base->own_least, planner->allocator, &result->schedule));
  if (delta_rival_rule(planner->options.policy)) DELTA_RETURN_IF_ERROR(follow_rule(planner, capacity_bytes, &result->schedule));
  if (row->searches && least->arena_bytes <= capacity_bytes) DELTA_RETURN_IF_ERROR(search(planner, capacity_bytes, result));
  if (result->schedule && result->schedule->arena_bytes <= capacity_bytes) return DELTA_OK;
  // A soft budget is missed by the schedule that the rule makes for it.
  if (result->schedule && (row->is_soft || result->schedule->arena_bytes < least->arena_bytes)) least = result->schedule;
  result->minimum_budget_bytes = least->arena_bytes;
  result->minimum_step = delta_schedule_peak_problem_step(least);
  return refuse_budget(planner, least, capacity_bytes, result);
}

// Remembers a search's plan for one that goes on from it.
static delta_status_t keep_last(delta_planner_t *planner, uint64_t capacity_bytes, const delta_planner_result_t *result) {
  if (!planner->finder || !planner->options.effort.goes_on) return DELTA_OK;
  delta_schedule_free(planner->last.schedule);
  planner->last_capacity_bytes = capacity_bytes;
  return copy_result(result, planner->allocator, &planner->last);
}

delta_status_t delta_planner_plan(delta_planner_t *planner, uint64_t capacity_bytes, delta_planner_result_t *out_result) {
  *out_result = (delta_planner_result_t){.minimum_step = DELTA_PROBLEM_NONE};
  const bool goes_on = planner->options.effort.goes_on && planner->last.schedule && planner->last_capacity_bytes == capacity_bytes;
  if (!goes_on) forget_search(planner);
  delta_status_t status = goes_on ? go_on(planner, capacity_bytes, out_result) : plan_within(planner, capacity_bytes, out_result);
  out_result->is_exhausted = !planner->finder || delta_finder_is_done(planner->finder);
  if (!status) status = keep_last(planner, capacity_bytes, out_result);
  if (!status) status = delta_annotate(planner->problem, planner->allocator, out_result->schedule);
  if (!status && planner->options.effort.proves_bound)
    status = delta_lower_bound(planner->problem, &planner->base->order, capacity_bytes, out_result->schedule->step_seconds,
                               planner->allocator, &out_result->lower_bound_seconds);
  if (status) {
    delta_schedule_free(out_result->schedule);
    out_result->schedule = NULL;
  }
  return status;
}

delta_status_t delta_planner_run(const delta_problem_t *problem, const delta_planner_options_t *options, delta_allocator_t allocator,
                                 delta_planner_result_t *out_result) {
  *out_result = (delta_planner_result_t){.minimum_step = DELTA_PROBLEM_NONE};
  delta_planner_t *planner = NULL;
  DELTA_RETURN_IF_ERROR(delta_planner_create(problem, options, allocator, &planner));
  delta_status_t status = delta_planner_plan(planner, problem->budget_bytes, out_result);
  delta_planner_destroy(planner);
  return status;
}
