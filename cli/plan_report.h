// What deltaplan prints of a plan: text for people, one JSON object for programs.
#ifndef DELTA_CLI_PLAN_REPORT_H_
#define DELTA_CLI_PLAN_REPORT_H_

#include <delta/plan.h>

// `output` is the plan's file, or NULL when it was not written.
void delta_plan_report_text(const delta_plan_summary_t *summary, const char *model, const char *output);

// The names are those of the manual's --json; an unlimited budget is null.
DELTA_MUST_USE delta_status_t delta_plan_report_json(const delta_plan_summary_t *summary, const char *model, const char *device,
                                                     delta_allocator_t allocator);

#endif // DELTA_CLI_PLAN_REPORT_H_
