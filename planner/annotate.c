// Annotate: one look at each copy back.
#include "planner/annotate.h"

#include <math.h>

#include "planner/director.h"

// The last stay of a buffer's tensor before it, or NONE.
static uint32_t find_before(const delta_timeline_t *timeline, uint32_t after) {
  const delta_buffer_t *buffers = timeline->schedule->buffers;
  const uint32_t tensor = buffers[after].tensor;
  uint32_t found = DELTA_PROBLEM_NONE;
  for (uint32_t i = timeline->buffer_starts[tensor]; i < timeline->buffer_starts[tensor + 1]; ++i) {
    const uint32_t b = timeline->buffers[i];
    if (buffers[b].last_step >= buffers[after].first_step) continue;
    if (found == DELTA_PROBLEM_NONE || buffers[b].last_step > buffers[found].last_step) found = b;
  }
  return found;
}

static delta_status_t add_alternative(const delta_timeline_t *timeline, uint32_t after, delta_allocator_t allocator,
                                      delta_schedule_t *schedule) {
  const uint32_t before = find_before(timeline, after);
  double rebuild_seconds;
  if (before == DELTA_PROBLEM_NONE) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_director_rebuild(timeline, before, allocator, &rebuild_seconds));
  if (isinf(rebuild_seconds)) return DELTA_OK;
  schedule->alternatives[schedule->alternative_count++] =
      (delta_alternative_t){.before = before, .after = after, .rebuild_seconds = rebuild_seconds};
  return DELTA_OK;
}

delta_status_t delta_annotate(const delta_problem_t *problem, delta_allocator_t allocator, delta_schedule_t *schedule) {
  delta_timeline_t timeline;
  uint32_t copy_count = 0;
  schedule->alternatives = NULL;
  schedule->alternative_count = 0;
  for (uint32_t s = 0; s < schedule->step_count; ++s) copy_count += schedule->steps[s].kind == DELTA_STEP_SWAP_IN;
  if (copy_count == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, copy_count, &schedule->alternatives));
  DELTA_RETURN_IF_ERROR(delta_timeline_init(&timeline, problem, schedule, allocator));
  delta_status_t status = DELTA_OK;
  for (uint32_t s = 0; s < schedule->step_count && !status; ++s) {
    if (schedule->steps[s].kind == DELTA_STEP_SWAP_IN)
      status = add_alternative(&timeline, schedule->steps[s].outputs[0], allocator, schedule);
  }
  delta_timeline_deinit(&timeline);
  return status;
}
