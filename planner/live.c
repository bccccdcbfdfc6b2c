// Live bytes: a difference list over the steps, summed up.
#include "planner/live.h"

void delta_live_bytes(const delta_schedule_t *schedule, int64_t *live_bytes) {
  for (uint32_t s = 0; s < schedule->step_count + 2; ++s) live_bytes[s] = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    live_bytes[buffer->first_step + (buffer->inplace_of != DELTA_PROBLEM_NONE)] += (int64_t)buffer->size_bytes;
    live_bytes[buffer->last_step + 1] -= (int64_t)buffer->size_bytes;
  }
  for (uint32_t s = 0; s < schedule->step_count; ++s) live_bytes[s + 1] += live_bytes[s];
}

delta_status_t delta_live_measure_peak(delta_schedule_t *schedule, delta_allocator_t allocator) {
  int64_t *live_bytes = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, (size_t)schedule->step_count + 2, &live_bytes));
  delta_live_bytes(schedule, live_bytes);
  schedule->peak_bytes = 0;
  schedule->peak_step = 0;
  for (uint32_t s = 0; s < schedule->step_count || s == 0; ++s) {
    if ((uint64_t)live_bytes[s] <= schedule->peak_bytes) continue;
    schedule->peak_bytes = (uint64_t)live_bytes[s];
    schedule->peak_step = s;
  }
  delta_release(allocator, live_bytes);
  return DELTA_OK;
}
