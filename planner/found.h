// Found: what a search found, as a schedule with addresses.
#ifndef DELTA_PLANNER_FOUND_H_
#define DELTA_PLANNER_FOUND_H_

#include "planner/search.h"

// Searches until the addresses lie within the capacity, too: when they do not, with less of it. A finder that is run again goes on from where it was.
typedef struct delta_finder delta_finder_t;
// `problem`, `order` and the decisions that it begins with are borrowed, the latter for the first run alone. The options' effort is not looked at.
DELTA_MUST_USE delta_status_t delta_finder_create(const delta_problem_t *problem, const delta_order_t *order,
                                                  const delta_search_options_t *options, delta_allocator_t allocator,
                                                  delta_finder_t **out_finder);
void delta_finder_destroy(delta_finder_t *finder); // NULL is fine.
// The decisions of the fastest plan so far, borrowed until the next run; NULL: there is none.
const delta_decisions_t *delta_finder_decisions(const delta_finder_t *finder);
// *out_schedule, the caller's, is the fastest so far, with addresses, waits and times; NULL: none was found.
DELTA_MUST_USE delta_status_t delta_finder_run(delta_finder_t *finder, const delta_planner_effort_t *effort,
                                               delta_schedule_t **out_schedule);
bool delta_finder_is_done(const delta_finder_t *finder); // running it again finds nothing better

// One run of a finder, with the options' effort.
DELTA_MUST_USE delta_status_t delta_find_schedule(const delta_problem_t *problem, const delta_order_t *order,
                                                  const delta_search_options_t *options, delta_allocator_t allocator,
                                                  delta_schedule_t **out_schedule);

#endif // DELTA_PLANNER_FOUND_H_
