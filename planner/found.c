// Found: a search knows no addresses. What they take beyond the live bytes becomes a constraint of the next search.
#include "planner/found.h"

#include "planner/retime.h"
#include "planner/simulate.h"

enum { MOST_SEARCHES = 4 };

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

static delta_status_t finish(const delta_problem_t *problem, uint64_t capacity_bytes, delta_allocator_t allocator,
                             delta_schedule_t *schedule) {
  DELTA_RETURN_IF_ERROR(delta_layout_within(schedule, capacity_bytes, allocator));
  DELTA_RETURN_IF_ERROR(delta_set_waits(schedule, DELTA_WAIT_FOR_BYTES, allocator));
  return delta_simulate(problem, schedule, allocator);
}

// One search; *out_schedule is NULL when nothing fits.
static delta_status_t search_once(const delta_problem_t *problem, const delta_order_t *order, const delta_search_options_t *options,
                                  uint64_t capacity_bytes, delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  delta_decision_list_t items;
  delta_decisions_t decisions;
  delta_search_result_t result;
  DELTA_RETURN_IF_ERROR(delta_search(problem, order, options, allocator, &items, &decisions, &result));
  delta_status_t status = DELTA_OK;
  if (result.fits) status = delta_timed_schedule(problem, order, &decisions, options->capacity_bytes, allocator, out_schedule);
  if (*out_schedule && !status) status = finish(problem, capacity_bytes, allocator, *out_schedule);
  delta_array_deinit(allocator, &items);
  return status;
}

delta_status_t delta_find_schedule(const delta_problem_t *problem, const delta_order_t *order, const delta_search_options_t *options,
                                   delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  delta_search_options_t tried = *options;
  *out_schedule = NULL;
  for (int i = 0; i < MOST_SEARCHES; ++i) {
    delta_schedule_t *schedule = NULL;
    delta_status_t status = search_once(problem, order, &tried, options->capacity_bytes, allocator, &schedule);
    if (!status && schedule && schedule->arena_bytes <= options->capacity_bytes) {
      *out_schedule = schedule;
      return DELTA_OK;
    }
    const uint64_t beyond_bytes = schedule ? schedule->arena_bytes - options->capacity_bytes : 0;
    const bool is_missing = !schedule;
    delta_schedule_free(schedule);
    if (status || is_missing || beyond_bytes >= tried.capacity_bytes) return status;
    tried.capacity_bytes -= beyond_bytes;
  }
  return DELTA_OK;
}
