// Simulation by other rules than waits.
#ifndef DELTA_PLANNER_SIMULATE_H_
#define DELTA_PLANNER_SIMULATE_H_

#include "planner/planner.h"

// Decides what may start. Each lane asks for the step at its head, whenever something has ended.
typedef struct delta_start_rule {
  void *self;                                   // Borrowed.
  bool (*try_start)(void *self, uint32_t step); // true: it starts now
  void (*note_end)(void *self, uint32_t step);
} delta_start_rule_t;

// Fills start and end of every step. INTERNAL when a step never starts. Allocates nothing.
DELTA_MUST_USE delta_status_t delta_simulate_by_rule(const delta_problem_t *problem, delta_schedule_t *schedule,
                                                     const delta_start_rule_t *rule);

// Sums over simulated steps: step_seconds; stall_seconds: how long the compute lane was idle; recompute_seconds: how long it ran steps again.
DELTA_MUST_USE delta_status_t delta_simulate_sums(const delta_problem_t *problem, delta_schedule_t *schedule, delta_allocator_t allocator);

#endif // DELTA_PLANNER_SIMULATE_H_
