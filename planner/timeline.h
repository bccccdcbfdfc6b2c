// Timeline: a schedule seen by tensors and steps: who reads what where, how full each step is, when it would run. What filter and director look at.
#ifndef DELTA_PLANNER_TIMELINE_H_
#define DELTA_PLANNER_TIMELINE_H_

#include "planner/planner.h"

typedef struct delta_timeline {
  const delta_problem_t *problem;
  const delta_schedule_t *schedule;
  delta_region_t region;   // Owns the tables.
  int64_t *live_bytes;     // by step
  double *clock_seconds;   // by step: its start if steps and copies ran one after another
  uint32_t *base_step;     // by problem step: its first run
  uint32_t *base_after;    // by step: the first base step at or after it; step_count: none
  uint32_t *reader_starts; // by tensor: first entry in `readers`; one more at the end
  uint32_t *readers;       // base steps that read it, in order
  uint32_t *buffer_starts; // by tensor: first entry in `buffers`; one more at the end
  uint32_t *buffers;       // of it, in order
  uint32_t *copied_by;     // by tensor: the step that copies it below, or DELTA_PROBLEM_NONE; 0 for a state that has its home there
  uint32_t *producer;      // by tensor: problem step, or DELTA_PROBLEM_NONE
  uint32_t *written_by;    // by state tensor: the step that writes its new value, or DELTA_PROBLEM_NONE
} delta_timeline_t;

DELTA_MUST_USE delta_status_t delta_timeline_init(delta_timeline_t *timeline, const delta_problem_t *problem,
                                                  const delta_schedule_t *schedule, delta_allocator_t allocator);
void delta_timeline_deinit(delta_timeline_t *timeline); // Safe on a zeroed struct.

// Uses of a tensor by base steps before `step` or at it: the number of the gap it is in after that step.
uint32_t delta_timeline_uses(const delta_timeline_t *timeline, uint32_t tensor, uint32_t step);
// Whether a tensor has a buffer that lives before `step` and at it or later.
bool delta_timeline_is_resident(const delta_timeline_t *timeline, uint32_t tensor, uint32_t step);

#endif // DELTA_PLANNER_TIMELINE_H_
