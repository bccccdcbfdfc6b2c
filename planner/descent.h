// Descent: the way from a program where everything is kept to one in the least memory, one released gap after another. It does not depend on a budget: every budget has
// its place on it, and what lies below its end is refused.
#ifndef DELTA_PLANNER_DESCENT_H_
#define DELTA_PLANNER_DESCENT_H_

#include "planner/release.h"

typedef struct delta_descent_move {
  delta_decision_t decision;
  uint64_t peak_bytes; // after it
} delta_descent_move_t;

typedef struct delta_descent {
  const delta_problem_t *problem;
  const delta_order_t *order;
  bool is_hasty; // addresses are looked for with little effort
  delta_allocator_t allocator;
  DELTA_ARRAY(delta_descent_move_t) moves;
  delta_schedule_t *least; // Owned; the schedule of the smallest arena, with addresses, waits and times.
} delta_descent_t;

// Goes all the way. `problem` and `order` are borrowed.
DELTA_MUST_USE delta_status_t delta_descent_init(delta_descent_t *descent, const delta_problem_t *problem, const delta_order_t *order,
                                                 bool is_hasty, delta_allocator_t allocator);
void delta_descent_deinit(delta_descent_t *descent); // Safe on a zeroed struct.

// A schedule in at most capacity_bytes, as early on the way as one was found; capacity_bytes is at least least->arena_bytes.
DELTA_MUST_USE delta_status_t delta_descent_stop(const delta_descent_t *descent, uint64_t capacity_bytes, delta_schedule_t **out_schedule);

// Addresses, waits and times of an expanded schedule.
DELTA_MUST_USE delta_status_t delta_finish_schedule(const delta_problem_t *problem, delta_wait_rule_t rule, delta_allocator_t allocator,
                                                    delta_schedule_t *schedule);

#endif // DELTA_PLANNER_DESCENT_H_
