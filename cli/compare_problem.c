// Comparing policies on a problem file.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/compare.h"
#include "planner/rival_plan.h"

typedef struct compared_problem {
  const delta_problem_request_t *request;
  delta_allocator_t allocator;
} compared_problem_t;

static delta_status_t plan(void *self, const char *policy, uint64_t budget_bytes, delta_compare_row_t *out_row) {
  const compared_problem_t *problem = self;
  delta_problem_request_t request = *problem->request;
  delta_problem_outcome_t outcome = {0};
  const double start_seconds = delta_clock_seconds();
  request.policy = policy;
  request.begin_with_rivals = true;
  delta_status_t status = delta_plan_problem_quietly(&request, &budget_bytes, problem->allocator, &outcome, NULL);
  const bool is_refused = delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT;
  if (is_refused || delta_status_code(status) == DELTA_STATUS_UNSUPPORTED) {
    snprintf(out_row->why, sizeof out_row->why, "%s", delta_status_message(status));
    out_row->least_bytes = is_refused ? outcome.peak_bytes : 0;
    delta_status_free(status);
    return DELTA_OK;
  }
  if (status) return status;
  out_row->fits = true;
  out_row->seconds = outcome.seconds;
  out_row->recompute_seconds = outcome.recompute_seconds;
  out_row->stall_seconds = outcome.stall_seconds;
  out_row->planning_seconds = delta_clock_seconds() - start_seconds;
  out_row->peak_bytes = outcome.peak_bytes;
  out_row->swapped_bytes = outcome.swapped_bytes;
  out_row->seed_policy = outcome.seed_policy;
  out_row->seed_is_plan = outcome.seed_is_plan;
  return DELTA_OK;
}

delta_status_t delta_compare_problem(const delta_problem_request_t *request, const char *budgets, bool json, delta_allocator_t allocator) {
  compared_problem_t problem = {.request = request, .allocator = allocator};
  delta_problem_request_t kept_request = *request;
  delta_problem_outcome_t kept;
  const uint64_t unlimited = UINT64_MAX;
  uint64_t own_bytes = 0;
  char own[32];
  kept_request.policy = "none";
  // The file's own budget is found by planning for it, whether that fits or not.
  delta_status_t status = delta_plan_problem_quietly(&kept_request, NULL, allocator, &kept, &own_bytes);
  if (delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT) {
    delta_status_free(status);
    status = DELTA_OK;
  }
  if (!status) status = delta_plan_problem_quietly(&kept_request, &unlimited, allocator, &kept, NULL);
  if (status) return status;
  const delta_compare_source_t source = {
      .self = &problem, .name = request->path, .plan = plan, .unlimited_seconds = kept.seconds, .whole_bytes = kept.peak_bytes};
  if (!budgets && own_bytes == UINT64_MAX)
    return delta_status_make(INVALID_ARGUMENT, "%s has no budget: give --budgets 80%%,60%%,40%% or sizes", request->path);
  snprintf(own, sizeof own, "%llu", (unsigned long long)own_bytes);
  return delta_compare(&source, budgets ? budgets : own, json, allocator);
}
