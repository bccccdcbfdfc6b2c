// Annotate: what else could be done in a schedule's gaps, and what that would cost. Found with the whole plan in view, for who has to decide while it runs.
#ifndef DELTA_PLANNER_ANNOTATE_H_
#define DELTA_PLANNER_ANNOTATE_H_

#include "planner/planner.h"

// Sets the schedule's alternatives: the swapped gaps whose tensors could be made again, with the director's price.
DELTA_MUST_USE delta_status_t delta_annotate(const delta_problem_t *problem, delta_allocator_t allocator, delta_schedule_t *schedule);

#endif // DELTA_PLANNER_ANNOTATE_H_
