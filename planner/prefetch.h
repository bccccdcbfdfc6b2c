// Prefetch: copies back begin early enough to end when they are needed.
#ifndef DELTA_PLANNER_PREFETCH_H_
#define DELTA_PLANNER_PREFETCH_H_

#include "plans/schedule.h"

// Moves the copies back of an expanded schedule to earlier places: as late as hides them behind steps, in their order, after the copy below that they need, with no
// more than `depth` of them waiting for their first use, and only where no step's live bytes pass capacity_bytes. Addresses, waits and times are to be made again.
DELTA_MUST_USE delta_status_t delta_prefetch(const delta_problem_t *problem, uint64_t capacity_bytes, uint32_t depth,
                                             delta_allocator_t allocator, delta_schedule_t *schedule);

#endif // DELTA_PLANNER_PREFETCH_H_
