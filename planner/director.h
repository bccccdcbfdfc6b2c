// Director: what becomes of a gap, by price.
#ifndef DELTA_PLANNER_DIRECTOR_H_
#define DELTA_PLANNER_DIRECTOR_H_

#include "planner/filter.h"

typedef struct delta_price {
  double lane_share; // part of a copy's time that a swap is charged: 1 where copies hold up the work
} delta_price_t;

// What a gap's actions would cost under the schedule at hand. INFINITY: impossible.
typedef struct delta_gap_costs {
  double swap_seconds;    // out, unless a copy is below, and in
  double rebuild_seconds; // everything that would run again, once
} delta_gap_costs_t;

DELTA_MUST_USE delta_status_t delta_director_costs(const delta_timeline_t *timeline, const delta_gap_t *gap, uint32_t step,
                                                   const delta_price_t *price, delta_allocator_t allocator, delta_gap_costs_t *out_costs);
// What making a buffer's tensor again would cost, if it were let go after its last use in the buffer.
DELTA_MUST_USE delta_status_t delta_director_rebuild(const delta_timeline_t *timeline, uint32_t buffer, delta_allocator_t allocator,
                                                     double *out_seconds);

#endif // DELTA_PLANNER_DIRECTOR_H_
