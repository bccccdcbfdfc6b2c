// Found: a search knows no addresses. What they take beyond the live bytes becomes a constraint of the next search.
#include "planner/found.h"

#include "planner/retime.h"
#include "planner/simulate.h"

// Short searches find out how much of the capacity addresses leave; a long one uses it.
enum { MOST_SEARCHES = 10, SHORT_EVALUATIONS = 600, LONG_SEARCHES = 2 };

typedef struct finder {
  const delta_problem_t *problem;
  const delta_order_t *order;
  const delta_search_options_t *options;
  delta_allocator_t allocator;
  delta_decision_list_t items; // of the last search
  delta_decisions_t decisions;
  uint64_t tried_bytes;     // the capacity that searches are given
  delta_schedule_t *best;   // Owned; the fastest that fits, or NULL
  bool has_failed, has_fit; // the last search, in time and in addresses
} finder_t;

delta_status_t delta_timed_schedule(const delta_problem_t *problem, const delta_order_t *order, const delta_decisions_t *decisions,
                                    uint64_t capacity_bytes, delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  delta_evaluator_t evaluator;
  delta_evaluation_t evaluation;
  delta_schedule_t *schedule = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_evaluator_init(&evaluator, problem, order, allocator));
  DELTA_GOTO_IF_ERROR(status, delta_evaluator_measure(&evaluator, decisions, capacity_bytes, &evaluation), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_evaluator_time(&evaluator, &evaluation), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_schedule_copy(evaluator.expansion.schedule, allocator, &schedule), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_retime(problem, schedule, allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_simulate_sums(problem, schedule, allocator), cleanup);
  *out_schedule = schedule;
  schedule = NULL;
cleanup:
  delta_schedule_free(schedule);
  delta_evaluator_deinit(&evaluator);
  return status;
}

// Gives the decisions of the last search addresses, and keeps the schedule if it fits and is the fastest.
static delta_status_t try_addresses(finder_t *finder) {
  const uint64_t capacity_bytes = finder->options->capacity_bytes;
  delta_schedule_t *schedule = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(
      status, delta_timed_schedule(finder->problem, finder->order, &finder->decisions, finder->tried_bytes, finder->allocator, &schedule),
      cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_layout_within(schedule, capacity_bytes, finder->allocator), cleanup);
  finder->has_fit = schedule->arena_bytes <= capacity_bytes;
  if (!finder->has_fit) {
    const uint64_t beyond_bytes = schedule->arena_bytes - capacity_bytes;
    finder->tried_bytes -= beyond_bytes < finder->tried_bytes ? beyond_bytes : finder->tried_bytes;
    goto cleanup;
  }
  DELTA_GOTO_IF_ERROR(status, delta_set_waits(schedule, DELTA_WAIT_FOR_BYTES, finder->allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_simulate(finder->problem, schedule, finder->allocator), cleanup);
  if (!finder->best || schedule->step_seconds < finder->best->step_seconds) {
    delta_schedule_free(finder->best);
    finder->best = schedule;
    schedule = NULL;
  }
cleanup:
  delta_schedule_free(schedule);
  return status;
}

// One search from where the last one ended. `evaluations`: 0: as many as the options say.
static delta_status_t search_once(finder_t *finder, uint64_t evaluations) {
  delta_search_options_t options = *finder->options;
  const delta_decisions_t start = finder->decisions;
  delta_decision_list_t items;
  delta_search_result_t result;
  options.capacity_bytes = finder->tried_bytes;
  if (evaluations > 0 && (options.effort.evaluation_limit == 0 || options.effort.evaluation_limit > evaluations)) {
    options.effort.evaluation_limit = evaluations;
  }
  if (finder->items.count > 0) options.start = &start;
  DELTA_RETURN_IF_ERROR(delta_search(finder->problem, finder->order, &options, finder->allocator, &items, &finder->decisions, &result));
  delta_array_deinit(finder->allocator, &finder->items);
  finder->items = items;
  finder->has_failed = !result.fits;
  finder->has_fit = false;
  return result.fits ? try_addresses(finder) : DELTA_OK;
}

static delta_status_t find(finder_t *finder) {
  for (int i = 0; i < MOST_SEARCHES && !finder->has_fit && !finder->has_failed; ++i) {
    DELTA_RETURN_IF_ERROR(search_once(finder, SHORT_EVALUATIONS));
  }
  for (int i = 0; i < LONG_SEARCHES && !finder->has_failed && (i == 0 || !finder->has_fit); ++i) {
    DELTA_RETURN_IF_ERROR(search_once(finder, 0));
  }
  return DELTA_OK;
}

delta_status_t delta_find_schedule(const delta_problem_t *problem, const delta_order_t *order, const delta_search_options_t *options,
                                   delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  finder_t finder = {
      .problem = problem, .order = order, .options = options, .allocator = allocator, .tried_bytes = options->capacity_bytes};
  delta_status_t status = find(&finder);
  delta_array_deinit(allocator, &finder.items);
  if (status) {
    delta_schedule_free(finder.best);
    finder.best = NULL;
  }
  *out_schedule = finder.best;
  return status;
}
