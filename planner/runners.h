// Runners: plans that were a search's fastest for a while. Whoever finds that its last one will not do, as there are no addresses for it, may take one of them.
#ifndef DELTA_PLANNER_RUNNERS_H_
#define DELTA_PLANNER_RUNNERS_H_

#include "base/array.h"
#include "planner/planner.h"

enum { DELTA_RUNNERS_MOST = 8 };

typedef DELTA_ARRAY(delta_decision_t) delta_decision_list_t;

typedef struct delta_runner {
  double seconds;
  delta_decision_list_t items;
  delta_decisions_t decisions; // of items
} delta_runner_t;

typedef struct delta_runners {
  delta_allocator_t allocator;
  delta_runner_t items[DELTA_RUNNERS_MOST]; // in the order in which they came: the fastest last
  uint32_t count;
} delta_runners_t;

void delta_runners_clear(delta_runners_t *runners); // Frees what they own; safe on a zeroed struct.
// Adds a copy of decisions that are faster than all the others; where there is no place the slowest goes.
DELTA_MUST_USE delta_status_t delta_runners_add(delta_runners_t *runners, double seconds, const delta_decisions_t *decisions);

#endif // DELTA_PLANNER_RUNNERS_H_
