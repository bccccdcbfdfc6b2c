// Bound by place: a time that no plan is faster than, from what has to be gone at each step by itself. Quick, and not tight.
#ifndef DELTA_PLANNER_BOUND_PLACE_H_
#define DELTA_PLANNER_BOUND_PLACE_H_

#include "planner/planner.h"

DELTA_MUST_USE delta_status_t delta_bound_by_place(const delta_problem_t *problem, const delta_order_t *order, uint64_t capacity_bytes,
                                                   delta_allocator_t allocator, double *out_seconds);

#endif // DELTA_PLANNER_BOUND_PLACE_H_
