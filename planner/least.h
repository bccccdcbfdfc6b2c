// Least: how little memory a policy that only searches can do with.
#ifndef DELTA_PLANNER_LEAST_H_
#define DELTA_PLANNER_LEAST_H_

#include "base/text.h"
#include "planner/search.h"

// The schedule of the smallest arena that searches of a fixed number of evaluations find; the same every time. `kept` is the one that keeps everything; NULL: none
// is below it.
DELTA_MUST_USE delta_status_t delta_find_least(const delta_problem_t *problem, const delta_order_t *order, delta_liberties_t liberties,
                                               const delta_schedule_t *kept, delta_allocator_t allocator, delta_schedule_t **out_schedule);

// Appends what fills a schedule at its peak: "step 'conv' sets it, its largest tensors are 'a' 4.00 MiB, 'b' 1.00 MiB".
DELTA_MUST_USE delta_status_t delta_describe_peak(const delta_problem_t *problem, const delta_schedule_t *schedule, delta_text_t *out_text);

#endif // DELTA_PLANNER_LEAST_H_
