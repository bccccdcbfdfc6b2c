// Report and trace of a problem that has been planned.
#ifndef DELTA_CLI_PROBLEM_SHOW_H_
#define DELTA_CLI_PROBLEM_SHOW_H_

#include "cli/problem_plan.h"
#include "planner/search.h"

// A planned problem. All is borrowed.
typedef struct delta_problem_shown {
  const delta_problem_request_t *request;
  const char *policy;
  const delta_problem_t *problem;
  const delta_order_t *order;
  delta_liberties_t liberties;
  const delta_schedule_t *schedule;
  double lower_bound_seconds, planning_seconds;
} delta_problem_shown_t;

// Fails as writing what the request wants would, before the work.
DELTA_MUST_USE delta_status_t delta_problem_check_outputs(const delta_problem_request_t *request, delta_allocator_t allocator);

// Writes what the request wants. For a report other budgets are tried, for at most as long as the search may take.
DELTA_MUST_USE delta_status_t delta_problem_show(const delta_problem_shown_t *shown, delta_allocator_t allocator);

#endif // DELTA_CLI_PROBLEM_SHOW_H_
