// Live bytes: how full each step of a schedule is.
#ifndef DELTA_PLANNER_LIVE_H_
#define DELTA_PLANNER_LIVE_H_

#include "plans/schedule.h"

// Bytes of all buffers that live at each step, in-place pairs counted once. `live_bytes` has step_count + 2 entries; the last two are scratch.
void delta_live_bytes(const delta_schedule_t *schedule, int64_t *live_bytes);

// Sets peak_bytes and peak_step.
DELTA_MUST_USE delta_status_t delta_live_measure_peak(delta_schedule_t *schedule, delta_allocator_t allocator);

#endif // DELTA_PLANNER_LIVE_H_
