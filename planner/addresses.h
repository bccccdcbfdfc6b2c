// Addresses: the schedule of what a search decided, first without and then with addresses.
#ifndef DELTA_PLANNER_ADDRESSES_H_
#define DELTA_PLANNER_ADDRESSES_H_

#include "planner/planner.h"

// The schedule of decisions that fit, in the order of its times; the times are those of the evaluation, there are no addresses and no waits.
DELTA_MUST_USE delta_status_t delta_timed_schedule(const delta_problem_t *problem, const delta_order_t *order,
                                                   const delta_decisions_t *decisions, uint64_t capacity_bytes, delta_allocator_t allocator,
                                                   delta_schedule_t **out_schedule);

// What gets addresses. All of it is borrowed.
typedef struct delta_addresses {
  const delta_problem_t *problem;
  const delta_order_t *order;
  const delta_decisions_t *decisions;
  uint64_t searched_bytes; // within which they were found,
  double searched_seconds; // and what they take without addresses
  uint64_t capacity_bytes; // within which addresses are to lie
  bool is_hasty;           // with a small part of the effort
  delta_allocator_t allocator;
} delta_addresses_t;

// Makes the schedule with the first addresses that lie within the capacity, or, where none are found, the least; arena_bytes says which. There are no waits yet.
DELTA_MUST_USE delta_status_t delta_addresses_find(const delta_addresses_t *addresses, delta_schedule_t **out_schedule);
// Sets the waits and times of such a schedule, which lies within the capacity; it may get other addresses within it.
DELTA_MUST_USE delta_status_t delta_addresses_finish(const delta_addresses_t *addresses, delta_schedule_t **inout_schedule);

#endif // DELTA_PLANNER_ADDRESSES_H_
