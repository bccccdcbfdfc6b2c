// Release: a schedule made less full, one gap after another.
//
// What is chosen at a step depends on the schedule alone and never on a budget. So a schedule for less memory continues the way to one for more, and where the
// way ends is the least that can be reached.
#ifndef DELTA_PLANNER_RELEASE_H_
#define DELTA_PLANNER_RELEASE_H_

#include "planner/director.h"

typedef struct delta_releaser {
  const delta_problem_t *problem;
  const delta_order_t *order;
  delta_allocator_t allocator;
  DELTA_ARRAY(delta_decision_t) decisions; // sorted by tensor, use
  bool late_offload;
  delta_action_t tail;
  delta_schedule_t *schedule;                  // Owned; of the decisions.
  delta_timeline_t timeline;                   // of the schedule
  bool *is_refused;                            // by gap and action: it did not help
  bool was_accepted;                           // since refusals were last forgotten
  delta_gaps_t gaps;                           // scratch
  DELTA_ARRAY(delta_decision_t) taken, before; // what the last advance decided; scratch
} delta_releaser_t;

// Starts with everything kept. `order` and `problem` are borrowed.
DELTA_MUST_USE delta_status_t delta_releaser_init(delta_releaser_t *releaser, const delta_problem_t *problem, const delta_order_t *order,
                                                  bool late_offload, delta_allocator_t allocator);
void delta_releaser_deinit(delta_releaser_t *releaser); // Safe on a zeroed struct.

delta_action_t delta_releaser_action(const delta_releaser_t *releaser, uint32_t tensor, uint32_t use);
// Sets one gap's action, whatever becomes of the peak. *out_possible is false, and nothing changes, when it cannot be carried out.
DELTA_MUST_USE delta_status_t delta_releaser_set(delta_releaser_t *releaser, const delta_decision_t *decision, bool *out_possible);

// Releases the gap over the fullest step that costs least per byte, of those that make it less full. Parts of one tensor are released
// together where that helps. What was decided is in `taken`; *out_found is false when no gap helps.
DELTA_MUST_USE delta_status_t delta_releaser_advance(delta_releaser_t *releaser, bool *out_found);

#endif // DELTA_PLANNER_RELEASE_H_
