// Evaluate: expands into memory that is kept, sums up the bytes, and simulates by a rule about bytes where a finished schedule has waits.
//
// Whether decisions fit is a question of the steps alone: each step's live bytes must be within the capacity. Copies that lag only make steps wait, since a buffer that is
// still being copied below (it drains) counts until the copy ends, and a copy back that starts before its need takes only what all steps until then leave free.
#include "planner/evaluate.h"

#include <math.h>

#include "planner/live.h"
#include "planner/simulate.h"

#define NONE DELTA_PROBLEM_NONE

static delta_status_t reserve_tables(delta_evaluator_t *evaluator) {
  const delta_schedule_t *schedule = evaluator->expansion.schedule;
  const delta_allocator_t allocator = evaluator->allocator;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(allocator, &evaluator->live_bytes, (size_t)schedule->step_count + 2));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(allocator, &evaluator->early_bytes, (size_t)schedule->step_count + 1));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(allocator, &evaluator->partner, schedule->step_count));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(allocator, &evaluator->drain_starts, schedule->step_count));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(allocator, &evaluator->drain_next, schedule->step_count));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(allocator, &evaluator->has_ended, schedule->step_count));
  return delta_array_reserve(allocator, &evaluator->writers, schedule->buffer_count);
}

// In the schedule an input that nobody reads lives at its first step alone. In time the first of all may be a run that stands behind copies, so it counts until then.
static void hold_unread_inputs(delta_evaluator_t *evaluator) {
  const delta_schedule_t *schedule = evaluator->expansion.schedule;
  uint32_t first_run = 0;
  while (first_run < schedule->step_count && schedule->steps[first_run].kind != DELTA_STEP_RUN) ++first_run;
  for (uint32_t b = 0; first_run > 0 && first_run < schedule->step_count && b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    const bool is_given = buffer->tensor != NONE && (evaluator->problem->tensors[buffer->tensor].flags & DELTA_TENSOR_INPUT);
    if (!is_given || buffer->last_step > 0) continue;
    if (schedule->steps[0].kind == DELTA_STEP_SWAP_OUT && schedule->steps[0].inputs[0] == b) continue;
    for (uint32_t s = 1; s <= first_run; ++s) evaluator->live_bytes.items[s] += (int64_t)buffer->size_bytes;
  }
}

delta_status_t delta_evaluator_measure(delta_evaluator_t *evaluator, const delta_decisions_t *decisions, uint64_t capacity_bytes,
                                       delta_evaluation_t *out_evaluation) {
  *out_evaluation = (delta_evaluation_t){.seconds = INFINITY};
  ++evaluator->evaluation_count;
  evaluator->capacity_bytes = capacity_bytes;
  delta_status_t status = delta_expansion_make(&evaluator->expansion, decisions);
  if (delta_status_code(status) == DELTA_STATUS_INVALID_ARGUMENT) {
    delta_status_free(status);
    return DELTA_OK;
  }
  if (status) return status;
  DELTA_RETURN_IF_ERROR(reserve_tables(evaluator));
  delta_live_bytes(evaluator->expansion.schedule, evaluator->live_bytes.items);
  hold_unread_inputs(evaluator);
  out_evaluation->is_possible = evaluator->expansion.schedule->host_bytes <= evaluator->problem->host_budget_bytes;
  for (uint32_t s = 0; s < evaluator->expansion.schedule->step_count; ++s) {
    const uint64_t bytes = (uint64_t)evaluator->live_bytes.items[s];
    if (bytes > out_evaluation->peak_bytes) out_evaluation->peak_bytes = bytes;
    if (bytes > capacity_bytes) out_evaluation->excess_bytes += bytes - capacity_bytes;
  }
  return DELTA_OK;
}

// ---- Time

static void note_run(delta_evaluator_t *evaluator, uint32_t s) {
  const delta_schedule_step_t *step = &evaluator->expansion.schedule->steps[s];
  uint32_t latest = NONE;
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const uint32_t writer = step->inputs[k] == NONE ? NONE : evaluator->writers.items[step->inputs[k]];
    if (writer == NONE || evaluator->expansion.schedule->steps[writer].kind != DELTA_STEP_SWAP_IN) continue;
    if (latest == NONE || writer > latest) latest = writer;
  }
  evaluator->partner.items[s] = latest;
}

static void note_swap_out(delta_evaluator_t *evaluator, uint32_t s) {
  const delta_schedule_t *schedule = evaluator->expansion.schedule;
  const delta_buffer_t *buffer = &schedule->buffers[schedule->steps[s].inputs[0]];
  evaluator->partner.items[s] = evaluator->writers.items[schedule->steps[s].inputs[0]];
  evaluator->copied_by[buffer->tensor] = s;
  evaluator->drain_next.items[s] = evaluator->drain_starts.items[buffer->last_step];
  evaluator->drain_starts.items[buffer->last_step] = s;
}

static void link_steps(delta_evaluator_t *evaluator) {
  const delta_schedule_t *schedule = evaluator->expansion.schedule;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) evaluator->writers.items[b] = NONE;
  for (uint32_t t = 0; t < evaluator->problem->tensor_count; ++t) evaluator->copied_by[t] = NONE;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    evaluator->early_bytes.items[s] = 0;
    evaluator->drain_starts.items[s] = NONE;
    evaluator->has_ended.items[s] = false;
  }
  evaluator->early_bytes.items[schedule->step_count] = 0;
  evaluator->last_run = NONE;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    for (uint32_t k = 0; k < step->output_count; ++k) {
      if (step->outputs[k] != NONE) evaluator->writers.items[step->outputs[k]] = s;
    }
    if (step->kind == DELTA_STEP_RUN) {
      note_run(evaluator, s);
      evaluator->last_run = s;
    }
    if (step->kind == DELTA_STEP_SWAP_OUT) note_swap_out(evaluator, s);
    if (step->kind == DELTA_STEP_SWAP_IN) evaluator->partner.items[s] = evaluator->copied_by[schedule->buffers[step->outputs[0]].tensor];
  }
}

static bool partner_has_ended(const delta_evaluator_t *evaluator, uint32_t s) {
  const uint32_t partner = evaluator->partner.items[s];
  return partner == NONE || evaluator->has_ended.items[partner];
}

static int64_t copied_bytes(const delta_evaluator_t *evaluator, uint32_t s) {
  const delta_schedule_t *schedule = evaluator->expansion.schedule;
  const delta_schedule_step_t *step = &schedule->steps[s];
  return (int64_t)schedule->buffers[step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0]].size_bytes;
}

// Whether more bytes fit at a step, as far as the steps and the copies back say.
static bool has_room(const delta_evaluator_t *evaluator, uint32_t s, int64_t more_bytes) {
  const int64_t taken_bytes = evaluator->live_bytes.items[s] + evaluator->early_bytes.items[s];
  return evaluator->capacity_bytes > INT64_MAX || taken_bytes + more_bytes <= (int64_t)evaluator->capacity_bytes;
}

// The compute lane goes on to step s: what was last used before it only drains now.
static void move_cursor(delta_evaluator_t *evaluator, uint32_t s) {
  for (; evaluator->cursor < s; ++evaluator->cursor) {
    for (uint32_t q = evaluator->drain_starts.items[evaluator->cursor]; q != NONE; q = evaluator->drain_next.items[q]) {
      if (!evaluator->has_ended.items[q]) evaluator->draining_bytes += copied_bytes(evaluator, q);
    }
  }
}

// Whether the bytes of a buffer, NONE: no bytes, are being copied below while step s runs.
static bool is_being_copied(const delta_evaluator_t *evaluator, uint32_t s, uint32_t buffer) {
  const uint32_t copy = buffer == NONE ? NONE : evaluator->copied_by[evaluator->expansion.schedule->buffers[buffer].tensor];
  return copy != NONE && copy < s && !evaluator->has_ended.items[copy];
}

// Whether a step would write over bytes, by working in place, that are still being copied below.
static bool writes_over_copy(const delta_evaluator_t *evaluator, uint32_t s) {
  const delta_schedule_t *schedule = evaluator->expansion.schedule;
  const delta_schedule_step_t *step = &schedule->steps[s];
  bool takes_row = false;
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (step->outputs[k] == NONE) continue;
    takes_row |= delta_buffer_is_in_row(schedule->buffers, step->outputs[k]);
    if (is_being_copied(evaluator, s, schedule->buffers[step->outputs[k]].inplace_of)) return true;
  }
  for (uint32_t k = 0; takes_row && k < step->input_count; ++k) {
    if (is_being_copied(evaluator, s, step->inputs[k])) return true;
  }
  return false;
}

static bool try_run(delta_evaluator_t *evaluator, uint32_t s) {
  move_cursor(evaluator, s);
  return !writes_over_copy(evaluator, s) && partner_has_ended(evaluator, s) && has_room(evaluator, s, evaluator->draining_bytes);
}

// A copy back that is needed takes its bytes of its step; one that comes early also fits wherever it waits.
static bool try_swap_in(delta_evaluator_t *evaluator, uint32_t s) {
  if (!partner_has_ended(evaluator, s)) return false;
  const uint32_t cursor = evaluator->cursor;
  if (s < cursor) return has_room(evaluator, cursor, evaluator->draining_bytes);
  const int64_t bytes = copied_bytes(evaluator, s);
  if (evaluator->blocked_copy != s) evaluator->blocked_step = s;
  evaluator->blocked_copy = s;
  while (evaluator->blocked_step > cursor && has_room(evaluator, evaluator->blocked_step - 1, bytes)) --evaluator->blocked_step;
  if (evaluator->blocked_step > cursor || !has_room(evaluator, cursor, bytes + evaluator->draining_bytes)) return false;
  for (uint32_t k = cursor; k < s; ++k) evaluator->early_bytes.items[k] += bytes;
  return true;
}

static bool try_start(void *self, uint32_t s) {
  delta_evaluator_t *evaluator = self;
  switch (evaluator->expansion.schedule->steps[s].kind) {
    case DELTA_STEP_RUN:
      return try_run(evaluator, s);
    case DELTA_STEP_SWAP_IN:
      return try_swap_in(evaluator, s);
    default:
      return partner_has_ended(evaluator, s);
  }
}

static void note_end(void *self, uint32_t s) {
  delta_evaluator_t *evaluator = self;
  const delta_schedule_t *schedule = evaluator->expansion.schedule;
  evaluator->has_ended.items[s] = true;
  if (s == evaluator->last_run) move_cursor(evaluator, schedule->step_count);
  if (schedule->steps[s].kind != DELTA_STEP_SWAP_OUT) return;
  const bool drains = schedule->buffers[schedule->steps[s].inputs[0]].last_step < evaluator->cursor;
  if (drains) evaluator->draining_bytes -= copied_bytes(evaluator, s);
}

delta_status_t delta_evaluator_time(delta_evaluator_t *evaluator, delta_evaluation_t *inout_evaluation) {
  if (!inout_evaluation->is_possible || inout_evaluation->excess_bytes > 0) return DELTA_OK;
  delta_schedule_t *schedule = evaluator->expansion.schedule;
  link_steps(evaluator);
  evaluator->cursor = 0;
  evaluator->draining_bytes = 0;
  evaluator->blocked_copy = NONE;
  DELTA_RETURN_IF_ERROR(delta_simulate_by_rule(evaluator->problem, schedule,
                                               &(delta_start_rule_t){.self = evaluator, .try_start = try_start, .note_end = note_end}));
  inout_evaluation->seconds = 0;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    if (schedule->steps[s].end_seconds > inout_evaluation->seconds) inout_evaluation->seconds = schedule->steps[s].end_seconds;
  }
  return DELTA_OK;
}

// ---- Life cycle

delta_status_t delta_evaluator_init(delta_evaluator_t *evaluator, const delta_problem_t *problem, const delta_order_t *order,
                                    delta_allocator_t allocator) {
  *evaluator = (delta_evaluator_t){.problem = problem, .allocator = allocator};
  delta_status_t status = delta_expansion_init(&evaluator->expansion, problem, order, allocator);
  if (!status) status = DELTA_ALLOCATE(allocator, problem->tensor_count, &evaluator->copied_by);
  if (status) delta_evaluator_deinit(evaluator);
  return status;
}

void delta_evaluator_deinit(delta_evaluator_t *evaluator) {
  if (!evaluator->problem) return;
  delta_expansion_deinit(&evaluator->expansion);
  delta_array_deinit(evaluator->allocator, &evaluator->live_bytes);
  delta_array_deinit(evaluator->allocator, &evaluator->early_bytes);
  delta_array_deinit(evaluator->allocator, &evaluator->partner);
  delta_array_deinit(evaluator->allocator, &evaluator->drain_starts);
  delta_array_deinit(evaluator->allocator, &evaluator->drain_next);
  delta_array_deinit(evaluator->allocator, &evaluator->has_ended);
  delta_array_deinit(evaluator->allocator, &evaluator->writers);
  delta_release(evaluator->allocator, evaluator->copied_by);
  *evaluator = (delta_evaluator_t){0};
}
