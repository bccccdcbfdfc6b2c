// Filter: buffers that live at the step, but for what the step itself uses.
#include "planner/filter.h"

static bool uses_buffer(const delta_schedule_step_t *step, uint32_t buffer) {
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (step->inputs[k] == buffer) return true;
  }
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (step->outputs[k] == buffer) return true;
  }
  return false;
}

delta_status_t delta_filter(const delta_timeline_t *timeline, uint32_t step, delta_allocator_t allocator, delta_gaps_t *inout_gaps) {
  const delta_schedule_t *schedule = timeline->schedule;
  inout_gaps->count = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    if (buffer->tensor == DELTA_PROBLEM_NONE || buffer->first_step > step || buffer->last_step < step) continue;
    if (uses_buffer(&schedule->steps[step], b)) continue;
    const delta_gap_t gap = {.tensor = buffer->tensor, .use = delta_timeline_uses(timeline, buffer->tensor, step), .buffer = b};
    DELTA_RETURN_IF_ERROR(delta_array_push(allocator, inout_gaps, &gap));
  }
  return DELTA_OK;
}
