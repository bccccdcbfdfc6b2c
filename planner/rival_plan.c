// Rival plan: a rule knows no addresses. What they take beyond the live bytes is taken off what it is asked for next.
#include "planner/rival_plan.h"

#include "planner/addresses.h"

enum { MOST_TARGETS = 4 };

static const delta_rival_rule_t rules[DELTA_POLICY_COUNT] = {
    [DELTA_POLICY_CHEN] = delta_rule_chen,     [DELTA_POLICY_CHECKMATE] = delta_rule_checkmate,
    [DELTA_POLICY_DTR] = delta_rule_dtr,       [DELTA_POLICY_SUPERNEURONS] = delta_rule_superneurons,
    [DELTA_POLICY_VDNN] = delta_rule_vdnn,     [DELTA_POLICY_CAPUCHIN] = delta_rule_capuchin,
    [DELTA_POLICY_TSPLIT] = delta_rule_tsplit, [DELTA_POLICY_POFO] = delta_rule_pofo,
};

delta_rival_rule_t delta_rival_rule(delta_policy_t policy) { return rules[policy]; }

static delta_status_t finish(const delta_rival_t *rival, const delta_decisions_t *best, uint64_t capacity_bytes,
                             delta_schedule_t **out_schedule) {
  const uint64_t peak_bytes = rival->best_evaluation.peak_bytes;
  const uint64_t timed_bytes = peak_bytes > rival->capacity_bytes ? peak_bytes : rival->capacity_bytes;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_timed_schedule(rival->problem, rival->order, best, timed_bytes, rival->allocator, out_schedule));
  DELTA_GOTO_IF_ERROR(status, delta_layout_within(*out_schedule, capacity_bytes, false, rival->allocator), failed);
  DELTA_GOTO_IF_ERROR(status, delta_set_waits(*out_schedule, DELTA_WAIT_FOR_BYTES, rival->allocator), failed);
  DELTA_GOTO_IF_ERROR(status, delta_simulate(rival->problem, *out_schedule, rival->allocator), failed);
  return DELTA_OK;
failed:
  delta_schedule_free(*out_schedule);
  *out_schedule = NULL;
  return status;
}

// The rule's plan for a target, judged by the capacity.
static delta_status_t plan_for(const delta_rival_request_t *request, uint64_t target_bytes, uint64_t capacity_bytes,
                               delta_allocator_t allocator, delta_schedule_t **out_schedule, delta_decision_list_t *out_items) {
  delta_rival_t rival;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_rival_init(&rival, request->problem, request->order, target_bytes, request->solver, allocator));
  DELTA_GOTO_IF_ERROR(status, request->rule(&rival), cleanup);
  const delta_decisions_t best = delta_rival_best(&rival);
  DELTA_GOTO_IF_ERROR(status, finish(&rival, &best, capacity_bytes, out_schedule), cleanup);
  if (out_items) status = delta_rival_list_decisions(&rival, &best, out_items);
cleanup:
  delta_rival_deinit(&rival);
  return status;
}

// Keeps the better of two schedules: one that fits, then the faster; of two that do not, the smaller.
static void keep_better(uint64_t capacity_bytes, delta_schedule_t **inout_best, delta_schedule_t *schedule) {
  const delta_schedule_t *best = *inout_best;
  const bool fits = schedule->arena_bytes <= capacity_bytes, best_fits = best && best->arena_bytes <= capacity_bytes;
  const bool is_better = !best || (fits != best_fits ? fits
                                   : fits            ? schedule->step_seconds < best->step_seconds
                                                     : schedule->arena_bytes < best->arena_bytes);
  delta_schedule_free(is_better ? *inout_best : schedule);
  if (is_better) *inout_best = schedule;
}

delta_status_t delta_rival_schedule(const delta_rival_request_t *request, uint64_t capacity_bytes, delta_allocator_t allocator,
                                    delta_schedule_t **out_schedule, delta_decision_list_t *out_items) {
  uint64_t target_bytes = capacity_bytes;
  *out_schedule = NULL;
  for (int i = 0; i < MOST_TARGETS; ++i) {
    delta_schedule_t *schedule = NULL;
    delta_status_t status = plan_for(request, target_bytes, capacity_bytes, allocator, &schedule, out_items);
    if (status) {
      delta_schedule_free(schedule);
      delta_schedule_free(*out_schedule);
      *out_schedule = NULL;
      return status;
    }
    const bool missed = schedule->peak_bytes > target_bytes, fits = schedule->arena_bytes <= capacity_bytes;
    const uint64_t beyond_bytes = fits ? 0 : schedule->arena_bytes - capacity_bytes;
    keep_better(capacity_bytes, out_schedule, schedule);
    if (fits || missed || beyond_bytes >= target_bytes) break;
    target_bytes -= beyond_bytes;
  }
  return DELTA_OK;
}

// No step runs in less than what it reads, makes and works in.
static uint64_t most_step_bytes(const delta_problem_t *problem) {
  uint64_t most = 0;
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_problem_step_t *step = &problem->steps[s];
    uint64_t bytes = step->workspace_bytes;
    for (uint32_t k = 0; k < step->input_count; ++k) {
      const delta_problem_tensor_t *input = &problem->tensors[step->inputs[k]];
      if (!delta_problem_tensor_is_state(input)) bytes += input->size_bytes;
    }
    if (bytes > most) most = bytes;
  }
  return most;
}

// How full the rule's plan for a target is.
static delta_status_t measure_for(const delta_rival_request_t *request, uint64_t target_bytes, delta_allocator_t allocator,
                                  uint64_t *out_peak_bytes) {
  delta_rival_t rival;
  DELTA_RETURN_IF_ERROR(delta_rival_init(&rival, request->problem, request->order, target_bytes, request->solver, allocator));
  delta_status_t status = request->rule(&rival);
  *out_peak_bytes = rival.best_evaluation.peak_bytes;
  delta_rival_deinit(&rival);
  return status;
}

// Addresses are looked for once, and no longer than until they take no more than this part beyond what lives.
static const double close_enough = 1.01;

delta_status_t delta_rival_least(const delta_rival_request_t *request, int tries, delta_allocator_t allocator,
                                 delta_schedule_t **out_schedule) {
  uint64_t low_bytes = most_step_bytes(request->problem), best_target_bytes = 0, best_bytes, peak_bytes;
  *out_schedule = NULL;
  DELTA_RETURN_IF_ERROR(measure_for(request, 0, allocator, &best_bytes));
  uint64_t high_bytes = best_bytes;
  for (int i = 0; i < tries && low_bytes < high_bytes; ++i) {
    const uint64_t target_bytes = low_bytes + (high_bytes - low_bytes) / 2;
    DELTA_RETURN_IF_ERROR(measure_for(request, target_bytes, allocator, &peak_bytes));
    if (peak_bytes <= target_bytes) {
      high_bytes = target_bytes;
    } else {
      low_bytes = target_bytes;
    }
    if (peak_bytes >= best_bytes) continue;
    best_bytes = peak_bytes;
    best_target_bytes = target_bytes;
  }
  return plan_for(request, best_target_bytes, (uint64_t)(close_enough * (double)best_bytes), allocator, out_schedule, NULL);
}
