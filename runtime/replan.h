// Replan: a plan for another budget, made by a thread of its own while training goes on.
#ifndef DELTA_RUNTIME_REPLAN_H_
#define DELTA_RUNTIME_REPLAN_H_

#include "runtime/plan_refit.h"

typedef struct delta_replan delta_replan_t;

// Starts. What the options point at stays as it is until the end. The thread gives way to those that compute. The plan is made with the system's allocator.
DELTA_MUST_USE delta_status_t delta_replan_start(const delta_refit_options_t *options, delta_replan_t **out_replan);
bool delta_replan_is_done(const delta_replan_t *replan);
// Waits for the end and gives the plan; *out_plan is NULL when there is none.
DELTA_MUST_USE delta_status_t delta_replan_end(delta_replan_t *replan, delta_plan_t **out_plan);

#endif // DELTA_RUNTIME_REPLAN_H_
