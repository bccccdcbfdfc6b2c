// Making one plan: what delta_plan_create does once it is known in how many parts the step runs.
#ifndef DELTA_RUNTIME_PLAN_CREATE_H_
#define DELTA_RUNTIME_PLAN_CREATE_H_

#include <delta/plan.h>

// As delta_plan_create, with options->split "off", NULL, "N" or "N:SHARE%"; of "on" and "auto" as "off".
DELTA_MUST_USE delta_status_t delta_plan_create_one(const delta_plan_options_t *options, delta_allocator_t allocator,
                                                    delta_plan_t **out_plan, delta_plan_summary_t *out_summary);

#endif // DELTA_RUNTIME_PLAN_CREATE_H_
