// Rival plan: what a rival's rule decides, as a schedule with addresses.
#ifndef DELTA_PLANNER_RIVAL_PLAN_H_
#define DELTA_PLANNER_RIVAL_PLAN_H_

#include "planner/rival.h"

typedef struct delta_rival_request {
  const delta_problem_t *problem; // Borrowed, as all here.
  const delta_order_t *order;
  delta_rival_rule_t rule;
  const delta_integer_solver_t *solver; // or NULL
} delta_rival_request_t;

// The rule's best plan within a capacity, finished; where addresses need more, its plans for less. The schedule may be above the capacity: then it has the smallest arena of those
// that the rule came to. out_items: NULL, or gets the plan's decisions over gaps, to begin a search with; the caller's to free.
DELTA_MUST_USE delta_status_t delta_rival_schedule(const delta_rival_request_t *request, uint64_t capacity_bytes,
                                                   delta_allocator_t allocator, delta_schedule_t **out_schedule,
                                                   delta_decision_list_t *out_items);

// The schedule of the smallest arena that the rule was seen to reach, whatever it is asked for. `tries`: how many capacities are tried.
DELTA_MUST_USE delta_status_t delta_rival_least(const delta_rival_request_t *request, int tries, delta_allocator_t allocator,
                                                delta_schedule_t **out_schedule);

// The rule of a policy, or NULL: it is no rival.
delta_rival_rule_t delta_rival_rule(delta_policy_t policy);

#endif // DELTA_PLANNER_RIVAL_PLAN_H_
