// Comparing policies on a model: each row is a whole call of the planner, as `--policy NAME --budget SIZE` would make it.
#include <stdio.h>
#include <string.h>

#include "cli/compare.h"

typedef struct compared_model {
  const delta_plan_options_t *options;
  delta_allocator_t allocator;
} compared_model_t;

static delta_status_t plan_once(const compared_model_t *model, const char *policy, uint64_t budget_bytes,
                                delta_plan_summary_t *out_summary) {
  delta_plan_options_t options = *model->options;
  char budget[32];
  snprintf(budget, sizeof budget, "%llu", (unsigned long long)budget_bytes);
  options.policy = policy;
  options.budget = budget_bytes == UINT64_MAX ? "unlimited" : budget;
  options.levers = strcmp(policy, "eager") == 0 ? NULL : options.levers;
  options.output_path = options.save_profile = options.dump_problem = NULL;
  options.begin_with_rivals = 1;
  options.log = (delta_log_sink_t){0};
  *out_summary = (delta_plan_summary_t){.struct_size = sizeof *out_summary};
  delta_plan_t *plan = NULL;
  delta_status_t status = delta_plan_create(&options, model->allocator, &plan, out_summary);
  delta_plan_free(plan);
  return status;
}

static delta_status_t plan(void *self, const char *policy, uint64_t budget_bytes, delta_compare_row_t *out_row) {
  delta_plan_summary_t summary;
  delta_status_t status = plan_once(self, policy, budget_bytes, &summary);
  const bool is_refused = delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT;
  if (is_refused || delta_status_code(status) == DELTA_STATUS_UNSUPPORTED) {
    snprintf(out_row->why, sizeof out_row->why, "%s", delta_status_message(status));
    out_row->least_bytes = is_refused ? summary.minimum_budget_bytes : 0;
    delta_status_free(status);
    return DELTA_OK;
  }
  if (status) return delta_status_annotate(status, "policy '%s'", policy);
  out_row->fits = true;
  out_row->seconds = summary.step_seconds;
  out_row->recompute_seconds = summary.recompute_seconds;
  out_row->stall_seconds = summary.stall_seconds;
  out_row->planning_seconds = summary.planning_seconds;
  out_row->peak_bytes = summary.peak_bytes;
  out_row->swapped_bytes = summary.swapped_bytes;
  out_row->seed_policy = summary.seed_policy;
  out_row->seed_is_plan = summary.seed_is_plan;
  return DELTA_OK;
}

delta_status_t delta_compare_model(const delta_plan_options_t *options, const char *budgets, bool json, delta_allocator_t allocator) {
  compared_model_t model = {.options = options, .allocator = allocator};
  delta_plan_summary_t kept, eager;
  DELTA_RETURN_IF_ERROR(plan_once(&model, "none", UINT64_MAX, &kept));
  DELTA_RETURN_IF_ERROR(plan_once(&model, "eager", UINT64_MAX, &eager));
  const delta_compare_source_t source = {.self = &model,
                                         .name = options->model_path,
                                         .plan = plan,
                                         .unlimited_seconds = kept.step_seconds,
                                         .eager_seconds = eager.step_seconds,
                                         .whole_bytes = kept.eager_peak_bytes};
  return delta_compare(&source, budgets, json, allocator);
}
