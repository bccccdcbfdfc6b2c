// Planner: runs a policy's stages, and says what is missing when the result is over the budget.
#include "planner/planner.h"

#include "base/text.h"

enum { TENSORS_NAMED = 3 };

// The buffers that live at the peak, largest first; at most TENSORS_NAMED.
static uint32_t find_largest_at_peak(const delta_schedule_t *schedule, uint32_t largest[TENSORS_NAMED]) {
  uint32_t count = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    if (buffer->first_step > schedule->peak_step || buffer->last_step < schedule->peak_step) continue;
    uint32_t at = count;
    for (; at > 0 && schedule->buffers[largest[at - 1]].size_bytes < buffer->size_bytes; --at) {
      if (at < TENSORS_NAMED) largest[at] = largest[at - 1];
    }
    if (at < TENSORS_NAMED) largest[at] = b;
    if (count < TENSORS_NAMED) ++count;
  }
  return count;
}

static delta_status_t describe_largest(const delta_problem_t *problem, const delta_schedule_t *schedule, delta_text_t *out_text) {
  uint32_t largest[TENSORS_NAMED];
  const uint32_t count = find_largest_at_peak(schedule, largest);
  for (uint32_t k = 0; k < count; ++k) {
    const delta_buffer_t *buffer = &schedule->buffers[largest[k]];
    char size[DELTA_SIZE_TEXT_BYTES];
    const char *name = buffer->tensor == DELTA_PROBLEM_NONE ? "(workspace)" : problem->tensors[buffer->tensor].name;
    DELTA_RETURN_IF_ERROR(delta_text_append(out_text, "%s'%s' %s", k > 0 ? ", " : "", name, delta_size_text(buffer->size_bytes, size)));
  }
  return DELTA_OK;
}

static delta_status_t refuse_budget(const delta_problem_t *problem, const delta_schedule_t *schedule, delta_policy_t policy,
                                    const delta_planner_result_t *result, delta_allocator_t allocator) {
  delta_text_t largest;
  delta_text_init(&largest, allocator);
  delta_status_t status = describe_largest(problem, schedule, &largest);
  if (!status) {
    const char *step = result->minimum_step == DELTA_PROBLEM_NONE ? "(start)" : problem->steps[result->minimum_step].name;
    status = delta_status_make(
        DOES_NOT_FIT,
        "policy '%s' needs %llu bytes beside the states, the budget leaves %llu; step '%s' sets it, its largest tensors are %s",
        delta_policy_info(policy)->name, (unsigned long long)result->minimum_budget_bytes, (unsigned long long)problem->budget_bytes, step,
        largest.count > 0 ? largest.items : "none");
  }
  delta_text_deinit(&largest);
  return status;
}

static double sum_seconds(const delta_problem_t *problem) {
  double seconds = 0;
  for (uint32_t s = 0; s < problem->step_count; ++s) seconds += problem->steps[s].seconds;
  return seconds;
}

// Everything is kept: the arena of the layout is what this policy needs.
static delta_status_t plan_kept(const delta_problem_t *problem, const delta_planner_options_t *options, delta_allocator_t allocator,
                                delta_planner_result_t *result) {
  delta_order_t order = {.allocator = allocator};
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_order_make(problem, options->early_update, allocator, &order), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_expand(problem, &order, NULL, allocator, &result->schedule), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_simulate(problem, result->schedule, allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_layout(problem, result->schedule, allocator), cleanup);
  const delta_schedule_t *schedule = result->schedule;
  result->minimum_budget_bytes = schedule->arena_bytes;
  result->minimum_step = schedule->step_count > 0 ? schedule->steps[schedule->peak_step].problem_step : DELTA_PROBLEM_NONE;
  result->lower_bound_seconds = sum_seconds(problem);
  if (schedule->arena_bytes > problem->budget_bytes) status = refuse_budget(problem, schedule, options->policy, result, allocator);
cleanup:
  delta_order_deinit(&order);
  return status;
}

delta_status_t delta_planner_run(const delta_problem_t *problem, const delta_planner_options_t *options, delta_allocator_t allocator,
                                 delta_planner_result_t *out_result) {
  delta_planner_result_t result = {.minimum_step = DELTA_PROBLEM_NONE};
  *out_result = result;
  const delta_policy_info_t *policy = delta_policy_info(options->policy);
  if (!policy->available) {
    return delta_status_make(UNSUPPORTED, "policy '%s' is not available in this version", policy->name);
  }
  DELTA_RETURN_IF_ERROR(delta_problem_check(problem));
  delta_status_t status = plan_kept(problem, options, allocator, &result);
  if (status) {
    delta_schedule_free(result.schedule);
    result.schedule = NULL;
  }
  *out_result = result;
  return status;
}
