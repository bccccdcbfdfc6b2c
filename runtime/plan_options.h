// Plan options: the words of the public options turned into build options, checked, with strings owned by the plan.
#ifndef DELTA_RUNTIME_PLAN_OPTIONS_H_
#define DELTA_RUNTIME_PLAN_OPTIONS_H_

#include <delta/plan.h>

#include "planner/planner.h"
#include "plans/plan.h"
#include "runtime/layouts.h"

// Fills plan->build, plan->policy, plan->levers, plan->learning_rate, plan->model_file. INVALID_ARGUMENT names the option and what it may be.
DELTA_MUST_USE delta_status_t delta_plan_options_apply(const delta_plan_options_t *options, delta_plan_t *plan, delta_policy_t *out_policy);

// "auto" or the name of a layout for all regions. INVALID_ARGUMENT names the option and what it may be.
DELTA_MUST_USE delta_status_t delta_layout_option_parse(const char *text, delta_layout_source_t *out_source);

// Resolves a budget text. unlimited_bytes and minimum_bytes are what the train program needs; free_bytes what the device has.
DELTA_MUST_USE delta_status_t delta_budget_resolve(const char *text, uint64_t free_bytes, uint64_t unlimited_bytes, uint64_t minimum_bytes,
                                                   size_t granule_bytes, uint64_t *out_budget_bytes);

// What a budget leaves for a program: committed bytes are whole granules, and the states come first.
uint64_t delta_budget_capacity(uint64_t budget_bytes, uint64_t state_bytes, size_t granule_bytes);

#endif // DELTA_RUNTIME_PLAN_OPTIONS_H_
