// Retime: a schedule's steps in the order in which they happen. Then buffers live in schedule order as they do in time, and addresses follow from that.
#ifndef DELTA_PLANNER_RETIME_H_
#define DELTA_PLANNER_RETIME_H_

#include "planner/planner.h"

// Moves the copies back of a timed schedule as late as nobody waits longer for them, for delta_retime: where they would have come long before they are needed, their bytes are
// others' until then. The times of other steps stay as they are.
DELTA_MUST_USE delta_status_t delta_delay_copies_back(const delta_problem_t *problem, delta_schedule_t *schedule,
                                                      delta_allocator_t allocator);

// Reorders a timed schedule: each lane keeps its order. A copy below stands where it ends, a copy back where it starts (before the step that computes meanwhile, where that is
// possible). Sets lifetimes and the peak anew; waits and addresses are not valid any more.
DELTA_MUST_USE delta_status_t delta_retime(const delta_problem_t *problem, delta_schedule_t *schedule, delta_allocator_t allocator);

#endif // DELTA_PLANNER_RETIME_H_
