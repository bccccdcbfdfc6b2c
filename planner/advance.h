// Advance: other addresses for buffers that are copied back, at which the copies may start earlier.
#ifndef DELTA_PLANNER_ADVANCE_H_
#define DELTA_PLANNER_ADVANCE_H_

#include "base/allocator.h"
#include "plans/schedule.h"

// Of a schedule with addresses: gives buffers, one after the other in the order of their copies, places that are free from an earlier step on, none earlier than earliest_steps says (by
// buffer; what is not copied back is not looked at). Others stay where they are, and the arena stays within capacity_bytes; lifetimes are not changed.
DELTA_MUST_USE delta_status_t delta_advance_copies_back(delta_schedule_t *schedule, const uint32_t *earliest_steps, uint64_t capacity_bytes,
                                                        delta_allocator_t allocator);

#endif // DELTA_PLANNER_ADVANCE_H_
