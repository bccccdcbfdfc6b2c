// Making one plan: what delta_plan_create does once it is known in how many parts the step runs.
#ifndef DELTA_RUNTIME_PLAN_CREATE_H_
#define DELTA_RUNTIME_PLAN_CREATE_H_

#include <delta/plan.h>

// As delta_plan_create, with options->split "off", NULL, "N" or "N:SHARE%"; of "on" and "auto" as "off".
DELTA_MUST_USE delta_status_t delta_plan_create_one(const delta_plan_options_t *options, delta_allocator_t allocator,
                                                    delta_plan_t **out_plan, delta_plan_summary_t *out_summary);

// Values of options->split that "on" and "auto" try, in this order: whole, then few parts first, which cost least. A region is what has the largest tensors: the first layers of
// a network for images.
enum { DELTA_SPLIT_CANDIDATES = 13 };
extern const char *const delta_split_candidates[DELTA_SPLIT_CANDIDATES];

#endif // DELTA_RUNTIME_PLAN_CREATE_H_
