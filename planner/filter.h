// Filter: which gaps could be released to make a step less full.
#ifndef DELTA_PLANNER_FILTER_H_
#define DELTA_PLANNER_FILTER_H_

#include "base/array.h"
#include "planner/timeline.h"

// The time after use number `use` of a tensor, while `buffer` holds it.
typedef struct delta_gap {
  uint32_t tensor, use;
  uint32_t buffer; // of the schedule
} delta_gap_t;
typedef DELTA_ARRAY(delta_gap_t) delta_gaps_t;

// The gaps that cover a step: tensors that have bytes there and are neither read nor written by it. Replaces the list's content; its order is that of the buffers.
DELTA_MUST_USE delta_status_t delta_filter(const delta_timeline_t *timeline, uint32_t step, delta_allocator_t allocator,
                                           delta_gaps_t *inout_gaps);

#endif // DELTA_PLANNER_FILTER_H_
