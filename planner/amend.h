// Amend: what is done to a schedule when reality differs from what it was made for, before its next step or amid one. Only bytes that the schedule leaves free are used, and
// what comes out is a schedule that has been verified (planner/draft.h); where no change helps there is none. A new plan does better, and takes longer.
#ifndef DELTA_PLANNER_AMEND_H_
#define DELTA_PLANNER_AMEND_H_

#include "planner/planner.h"

// Bytes of the arena that are taken until the end.
typedef struct delta_taken_bytes {
  size_t offset_bytes, size_bytes;
} delta_taken_bytes_t;

typedef struct delta_amend_options {
  const delta_problem_t *problem; // what the schedule computes; with the speeds to count with
  const delta_schedule_t *schedule;
  const bool *has_run;              // by step of the schedule; NULL: none has
  const bool *is_refused;           // by step: a copy that has failed; NULL: none has
  const delta_taken_bytes_t *taken; // beside the schedule's buffers
  uint32_t taken_count;
  bool dead_are_lost;        // bytes that no step needs any more have been written over (to find faults): they cannot be needed again
  uint64_t capacity_bytes;   // where the arena is to end
  uint64_t host_limit_bytes; // where slots of the tier below may end; below host_bytes: no new ones
} delta_amend_options_t;

typedef struct delta_amendment {
  delta_schedule_t *schedule;             // Owned by the caller; NULL: there is nothing to change, or nothing that helps.
  uint32_t run_count;                     // its first steps, which have run
  uint32_t shrink_step;                   // from this step on nothing lies beyond the capacity
  uint32_t kept, rebuilt, swapped, moved; // gaps of each new action; buffers with other places
  uint64_t kept_bytes;
  double seconds, seconds_before; // predicted for what has not run, with the change and without
} delta_amendment_t;

// More room than planned: tensors that would go stay, those that cost most for their bytes first.
DELTA_MUST_USE delta_status_t delta_amend_relax(const delta_amend_options_t *options, delta_allocator_t allocator,
                                                delta_amendment_t *out_amendment);
// Copies are slower than planned: tensors stay where there is room, or are made again where that is cheaper than the copy, as long as it helps.
DELTA_MUST_USE delta_status_t delta_amend_hurry(const delta_amend_options_t *options, delta_allocator_t allocator,
                                                delta_amendment_t *out_amendment);
// Copies have failed: their tensors stay, or are made again, all of them. A copy to a state's home has no other way.
DELTA_MUST_USE delta_status_t delta_amend_avoid(const delta_amend_options_t *options, delta_allocator_t allocator,
                                                delta_amendment_t *out_amendment);
// Less room than planned: what has not begun is placed within the capacity, and tensors go where that takes it. shrink_step is as early as was found.
DELTA_MUST_USE delta_status_t delta_amend_shrink(const delta_amend_options_t *options, delta_allocator_t allocator,
                                                 delta_amendment_t *out_amendment);

#endif // DELTA_PLANNER_AMEND_H_
