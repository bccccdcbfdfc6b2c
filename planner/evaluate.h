// Evaluate: what a whole set of decisions comes to: how full its steps are and how long it takes within a capacity. Exact but for addresses, and fast: after the first
// calls nothing is allocated.
#ifndef DELTA_PLANNER_EVALUATE_H_
#define DELTA_PLANNER_EVALUATE_H_

#include "planner/expansion.h"

typedef struct delta_evaluation {
  bool is_possible;      // the decisions can be carried out
  uint64_t peak_bytes;   // largest sum of live bytes
  uint64_t excess_bytes; // above the capacity, summed over the steps; 0: it fits
  double seconds;        // INFINITY unless it fits
} delta_evaluation_t;

typedef struct delta_evaluator {
  const delta_problem_t *problem;
  delta_allocator_t allocator;
  delta_expansion_t expansion; // with the schedule of the last decisions
  uint64_t capacity_bytes;
  uint64_t evaluation_count;
  // By step of the schedule:
  DELTA_ARRAY(int64_t) live_bytes;
  DELTA_ARRAY(int64_t) early_bytes; // of copies that come back before they are needed
  DELTA_ARRAY(uint32_t)
  partner; // RUN: the last copy back that it reads; SWAP_IN: the copy below, SWAP_OUT: who writes what it copies; or NONE
  DELTA_ARRAY(uint32_t) drain_starts; // the first copy below whose bytes are not used otherwise after this step, or NONE
  DELTA_ARRAY(uint32_t) drain_next;   // the next such copy, or NONE
  DELTA_ARRAY(bool) has_ended;
  DELTA_ARRAY(uint32_t) writers; // by buffer: the step that writes it, or NONE
  uint32_t *copied_by;           // Owned; by tensor
  // While time runs:
  uint32_t cursor;        // the step that computes, or is the next to
  int64_t draining_bytes; // of buffers that only wait for their copies below to end
  uint32_t last_run;      // after which nothing computes
  uint32_t blocked_step;  // the last step that is too full for the head of the copies back
  uint32_t blocked_copy;  // that head
} delta_evaluator_t;

// `problem` and `order` are borrowed.
DELTA_MUST_USE delta_status_t delta_evaluator_init(delta_evaluator_t *evaluator, const delta_problem_t *problem, const delta_order_t *order,
                                                   delta_allocator_t allocator);
void delta_evaluator_deinit(delta_evaluator_t *evaluator); // Safe on a zeroed struct.

// How full the steps are; seconds stay INFINITY. The schedule and its live_bytes are the evaluator's until the next call.
DELTA_MUST_USE delta_status_t delta_evaluator_measure(delta_evaluator_t *evaluator, const delta_decisions_t *decisions,
                                                      uint64_t capacity_bytes, delta_evaluation_t *out_evaluation);
// How long what was measured last takes. At every instant all bytes that live (also of copies under way) are within the capacity: a step waits for copies below whose
// bytes it needs, and a copy back starts early only where it fits until its need. Sets start and end of the schedule's steps.
DELTA_MUST_USE delta_status_t delta_evaluator_time(delta_evaluator_t *evaluator, delta_evaluation_t *inout_evaluation);

#endif // DELTA_PLANNER_EVALUATE_H_
