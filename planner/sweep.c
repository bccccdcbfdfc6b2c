// Sweep: plans for many budgets, from the smallest to the largest.
#include "planner/planner.h"

// The places of the capacities, smallest first.
static void sort_places(const uint64_t *capacities_bytes, size_t count, size_t *places) {
  for (size_t i = 0; i < count; ++i) {
    size_t at = i;
    for (; at > 0 && capacities_bytes[places[at - 1]] > capacities_bytes[i]; --at) places[at] = places[at - 1];
    places[at] = i;
  }
}

// Takes the plan of a smaller budget where it is faster.
static delta_status_t take_smaller(const delta_planner_result_t *smaller, delta_allocator_t allocator,
                                   delta_planner_result_t *inout_result) {
  const delta_schedule_t *own = inout_result->schedule;
  if (!smaller || (own && own->step_seconds <= smaller->schedule->step_seconds)) return DELTA_OK;
  delta_schedule_t *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_schedule_copy(smaller->schedule, allocator, &copy));
  delta_schedule_free(inout_result->schedule);
  inout_result->schedule = copy;
  return DELTA_OK;
}

delta_status_t delta_planner_sweep(const delta_planner_t *planner, const uint64_t *capacities_bytes, size_t count,
                                   delta_planner_result_t *out_results) {
  const delta_allocator_t allocator = delta_planner_allocator(planner);
  const delta_planner_result_t *smaller = NULL;
  size_t *places = NULL;
  for (size_t i = 0; i < count; ++i) out_results[i] = (delta_planner_result_t){.minimum_step = DELTA_PROBLEM_NONE};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, count, &places));
  sort_places(capacities_bytes, count, places);
  delta_status_t status = DELTA_OK;
  for (size_t i = 0; i < count && !status; ++i) {
    delta_planner_result_t *result = &out_results[places[i]];
    status = delta_planner_plan(planner, capacities_bytes[places[i]], result);
    if (delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT) {
      delta_status_free(status);
      status = DELTA_OK;
    }
    if (!status) status = take_smaller(smaller, allocator, result);
    if (!status && result->schedule) smaller = result;
  }
  delta_release(allocator, places);
  return status;
}
