// What is decided within a step. A run pauses where the plan does not hold: copies are late or have failed, another budget was asked for. What has not run is then changed
// (planner/amend.h), proven again, and the step goes on by an executor of its own. Where nothing can be changed it goes on as planned, and the next step has a new plan.
//
// A changed schedule lives as long as its step. One that is changed from its first step on, because there is more room or slower copies than planned, is a bridge: it is
// followed until the new plan is there.
#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/clock.h"
#include "planner/amend.h"
#include "runtime/plan_options.h"
#include "runtime/session_parts.h"

enum { MOST_CHANGES = 4, TEXT_BYTES = DELTA_SIZE_TEXT_BYTES };
static const double LEAST_LATE_SECONDS = 0.02; // for which a copy is waited for before something is done
static const double LATE_SHARE = 0.05;         // of the step's time
static const double MOST_SLOWNESS = 2;         // of copies, against what was planned

typedef delta_status_t (*amend_t)(const delta_amend_options_t *options, delta_allocator_t allocator, delta_amendment_t *out_amendment);

// One run of a program, in parts.
typedef struct reflex_run {
  delta_session_t *session;
  delta_live_program_t *program;
  delta_executor_t *executor; // that runs
  const delta_schedule_t *schedule;
  delta_run_options_t options;
  delta_run_result_t *result; // of all parts
  uint32_t kept_tensors;      // by the executor's keeper, and told of
  int changes;
} reflex_run_t;

// A run that is audited is the plan's own, from the first step to the last.
static bool is_on(const delta_session_t *session) {
  return !session->reflex.is_off && session->device->host_addressable && !session->options.verify;
}

// ---- Changed schedules

static void drop_amended(delta_amended_t *amended) {
  delta_executor_destroy(amended->executor);
  delta_schedule_free(amended->schedule);
  *amended = (delta_amended_t){0};
}

void delta_session_drop_changes(delta_live_program_t *program) {
  if (program->ran != program->executor) program->ran = NULL;
  drop_amended(&program->amended);
  drop_amended(&program->bridge);
}

// What may be taken for a program's own bytes.
static uint64_t own_capacity(const delta_session_t *session, uint64_t budget_bytes) {
  const uint64_t limit_bytes = budget_bytes < session->reserve_bytes ? budget_bytes : session->reserve_bytes;
  return delta_budget_capacity(limit_bytes, session->state_bytes, session->device->granule_bytes);
}

// Where the buffers end that steps from `first` on have to do with.
static uint64_t end_bytes(const delta_schedule_t *schedule, uint32_t first) {
  uint64_t most_bytes = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    const uint64_t end = (uint64_t)buffer->offset_bytes + buffer->size_bytes;
    if (buffer->last_step >= first && end > most_bytes) most_bytes = end;
  }
  return most_bytes;
}

// Commits what a program's own bytes need.
static delta_status_t commit_own(delta_session_t *session, uint64_t own_bytes) {
  const uint64_t wanted_bytes = delta_size_round_up(session->state_bytes + own_bytes, session->device->granule_bytes);
  if (wanted_bytes > session->committed_bytes) {
    DELTA_RETURN_IF_ERROR(session->device->driver->arena_commit(session->arena, wanted_bytes));
    session->committed_bytes = wanted_bytes;
  }
  if (session->committed_bytes > session->peak_committed_bytes) session->peak_committed_bytes = session->committed_bytes;
  return DELTA_OK;
}

delta_status_t delta_session_commit_planned(delta_session_t *session, const delta_live_program_t *program) {
  return commit_own(session, program->schedule->arena_bytes);
}

// An executor of a changed schedule, with everything it needs.
static delta_status_t prepare_amended(delta_session_t *session, const delta_live_program_t *program, const delta_amendment_t *amendment,
                                      delta_amended_t *out_amended) {
  *out_amended = (delta_amended_t){.schedule = amendment->schedule};
  DELTA_RETURN_IF_ERROR(delta_session_reserve_tier(session, amendment->schedule->host_bytes));
  DELTA_RETURN_IF_ERROR(commit_own(session, end_bytes(amendment->schedule, amendment->run_count)));
  return delta_session_create_executor(session, program, session->plan, amendment->schedule, &out_amended->executor);
}

// ---- Amending amid a run

typedef struct run_facts {
  delta_region_t scratch; // Owns the lists.
  bool *has_run, *has_failed;
  uint32_t *steps; // by step: its number among those that have run, or DELTA_PROBLEM_NONE
  delta_taken_bytes_t taken[DELTA_KEEPER_MOST];
  delta_problem_t problem; // with the speeds that were seen
} run_facts_t;

// Bytes a second of a lane, as seen in this run; what was planned with where it has not copied.
static double speed_of(const delta_lane_times_t *times, double start_seconds, double planned_speed) {
  const double byte_seconds = delta_lane_byte_seconds(times, start_seconds);
  return times->copied_bytes > 0 && byte_seconds > 0 ? times->copied_bytes / byte_seconds : planned_speed;
}

static void see_speeds(const delta_run_result_t *result, delta_problem_t *problem) {
  problem->offload_bytes_per_second =
      speed_of(&result->lanes[DELTA_LANE_OFFLOAD], problem->offload_start_seconds, problem->offload_bytes_per_second);
  problem->prefetch_bytes_per_second =
      speed_of(&result->lanes[DELTA_LANE_PREFETCH], problem->prefetch_start_seconds, problem->prefetch_bytes_per_second);
  problem->shared_bytes_per_second = 0; // the speeds were seen side by side
}

static delta_status_t gather_facts(const reflex_run_t *run, const delta_run_result_t *part, run_facts_t *facts) {
  const delta_schedule_t *schedule = run->schedule;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&facts->scratch, schedule->step_count, &facts->has_run));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&facts->scratch, schedule->step_count, &facts->has_failed));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&facts->scratch, schedule->step_count, &facts->steps));
  delta_executor_list_ended(run->executor, &part->point, facts->has_run, facts->has_failed);
  for (uint32_t s = 0, at = 0; s < schedule->step_count; ++s) facts->steps[s] = facts->has_run[s] ? at++ : DELTA_PROBLEM_NONE;
  const delta_keeper_t *keeper = delta_executor_keeper(run->executor);
  for (uint32_t i = 0; i < part->kept_tensors; ++i)
    facts->taken[i] = (delta_taken_bytes_t){keeper->kept[i].offset_bytes, keeper->kept[i].size_bytes};
  facts->problem = *run->program->parts.problem;
  see_speeds(run->result, &facts->problem);
  return DELTA_OK;
}

// The run goes on by a changed schedule.
static void switch_to(reflex_run_t *run, const run_facts_t *facts, const delta_amendment_t *amendment, delta_amended_t *amended) {
  delta_executor_adopt_kept(amended->executor, delta_executor_keeper(run->executor), facts->steps);
  run->kept_tensors = delta_executor_keeper(amended->executor)->count;
  run->executor = amended->executor;
  run->schedule = amended->schedule;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) run->options.from.ended[l] = amendment->run_count;
  run->options.arena_bytes = run->session->committed_bytes - run->session->state_bytes;
  run->options.step_seconds = NULL;
  drop_amended(&run->program->amended);
  run->program->amended = *amended;
  ++run->changes;
}

static delta_status_t amend_with(reflex_run_t *run, const delta_run_result_t *part, amend_t amend, uint64_t capacity_bytes,
                                 run_facts_t *facts, delta_amendment_t *out_amendment) {
  delta_session_t *session = run->session;
  DELTA_RETURN_IF_ERROR(gather_facts(run, part, facts));
  const delta_amend_options_t options = {.problem = &facts->problem,
                                         .schedule = run->schedule,
                                         .has_run = facts->has_run,
                                         .is_refused = facts->has_failed,
                                         .taken = facts->taken,
                                         .taken_count = part->kept_tensors,
                                         .dead_are_lost = session->options.verify_arena != 0,
                                         .capacity_bytes = capacity_bytes,
                                         .host_limit_bytes = session->plan->totals.host_budget_bytes};
  DELTA_RETURN_IF_ERROR(amend(&options, session->allocator, out_amendment));
  if (!out_amendment->schedule) return DELTA_OK;
  delta_amended_t amended;
  delta_status_t status = prepare_amended(session, run->program, out_amendment, &amended);
  if (status) {
    drop_amended(&amended);
    out_amendment->schedule = NULL;
    return status;
  }
  switch_to(run, facts, out_amendment, &amended);
  return DELTA_OK;
}

// Changes what has not run. amendment->schedule is NULL where nothing was changed, also when that failed: the run can go on as it was, and the failure is told.
static void change_rest(reflex_run_t *run, const delta_run_result_t *part, amend_t amend, uint64_t capacity_bytes,
                        delta_amendment_t *out_amendment) {
  run_facts_t facts;
  *out_amendment = (delta_amendment_t){0};
  delta_region_init(&facts.scratch, run->session->allocator);
  delta_status_t status = amend_with(run, part, amend, capacity_bytes, &facts, out_amendment);
  delta_region_deinit(&facts.scratch);
  if (!status) return;
  delta_events_add(&run->session->events, "within the step: nothing was changed: %s", delta_status_message(status));
  delta_status_free(status);
  out_amendment->schedule = NULL;
}

// ---- Reasons

static void tell(reflex_run_t *run, const char *cause, const delta_amendment_t *amendment, double start_seconds) {
  delta_events_add(&run->session->events,
                   "within the step, %s: %u tensors kept, %u made again, %u swapped, %u moved; the rest of the step %.4f s, not %.4f s by "
                   "these speeds; decided in %.4f s",
                   cause, amendment->kept, amendment->rebuilt, amendment->swapped, amendment->moved, amendment->seconds,
                   amendment->seconds_before, delta_clock_seconds() - start_seconds);
}

// Whether a lane that has copied in this run was slower than half of what was planned: else it is not the copies that are late.
static bool are_slow(const reflex_run_t *run) {
  const delta_problem_t *planned = run->program->parts.problem;
  delta_problem_t seen = *planned;
  see_speeds(run->result, &seen);
  return MOST_SLOWNESS * seen.offload_bytes_per_second < planned->offload_bytes_per_second ||
         MOST_SLOWNESS * seen.prefetch_bytes_per_second < planned->prefetch_bytes_per_second;
}

// A copy was waited for too long. Where nothing helps, copies are waited for as long as they take.
static void answer_late(reflex_run_t *run, const delta_run_result_t *part) {
  const double start_seconds = delta_clock_seconds();
  delta_session_t *session = run->session;
  delta_amendment_t amendment;
  delta_problem_t seen = *run->program->parts.problem;
  char cause[128];
  if (!are_slow(run)) {
    run->options.late_seconds *= 2;
    return;
  }
  change_rest(run, part, delta_amend_hurry, own_capacity(session, session->wanted_budget_bytes), &amendment);
  run->options.late_seconds *= 2;
  if (!amendment.schedule || run->changes >= MOST_CHANGES) run->options.late_seconds = 0;
  if (!amendment.schedule) return;
  see_speeds(run->result, &seen);
  session->reflex.offload_speed = seen.offload_bytes_per_second;
  session->reflex.prefetch_speed = seen.prefetch_bytes_per_second;
  snprintf(cause, sizeof cause, "copies are late (%.0f MB/s below, %.0f MB/s back)", 1e-6 * seen.offload_bytes_per_second,
           1e-6 * seen.prefetch_bytes_per_second);
  tell(run, cause, &amendment, start_seconds);
}

// A copy failed: its tensor is not below, or does not come back. The failure is the step's unless there is another way.
static delta_status_t answer_failure(reflex_run_t *run, const delta_run_result_t *part, delta_status_t failure) {
  const double start_seconds = delta_clock_seconds();
  delta_amendment_t amendment;
  if (!is_on(run->session)) return failure;
  change_rest(run, part, delta_amend_avoid, own_capacity(run->session, run->session->wanted_budget_bytes), &amendment);
  if (!amendment.schedule) return failure;
  tell(run, delta_status_message(failure), &amendment, start_seconds);
  delta_status_free(failure);
  return DELTA_OK;
}

static void tell_no_shrinking(delta_session_t *session) {
  char wanted[TEXT_BYTES], committed[TEXT_BYTES];
  delta_events_add(&session->events,
                   "within the step: the budget of %s waits for a new plan: what is there does not let the arena of %s shrink",
                   delta_size_text(session->wanted_budget_bytes, wanted), delta_size_text(session->committed_bytes, committed));
}

// Another budget was asked for. The plan for it is being made; what can be done before it is there is done now.
static void answer_budget(reflex_run_t *run, const delta_run_result_t *part) {
  const double start_seconds = delta_clock_seconds();
  delta_session_t *session = run->session;
  const uint64_t capacity_bytes = own_capacity(session, session->wanted_budget_bytes);
  const uint64_t needed_bytes = session->state_bytes + end_bytes(run->schedule, 0);
  char cause[128], wanted[TEXT_BYTES] = "unlimited";
  delta_amendment_t amendment;
  if (session->wanted_budget_bytes < UINT64_MAX) delta_size_text(session->wanted_budget_bytes, wanted);
  snprintf(cause, sizeof cause, "the budget is now %s", wanted);
  if (needed_bytes > session->wanted_budget_bytes) {
    change_rest(run, part, delta_amend_shrink, capacity_bytes, &amendment);
    if (!amendment.schedule) {
      tell_no_shrinking(session);
      return;
    }
    run->options.pause_step = amendment.shrink_step > 0 ? amendment.shrink_step : 1;
    tell(run, cause, &amendment, start_seconds);
  } else if (session->replan && session->wanted_budget_bytes > session->budget_bytes) {
    change_rest(run, part, delta_amend_relax, capacity_bytes, &amendment);
    if (amendment.schedule) tell(run, cause, &amendment, start_seconds);
  }
}

// Nothing lies beyond the capacity any more.
static delta_status_t give_back(reflex_run_t *run) {
  delta_session_t *session = run->session;
  const uint64_t granule_bytes = session->device->granule_bytes;
  const uint64_t arena_bytes = session->wanted_budget_bytes / granule_bytes * granule_bytes;
  char before[TEXT_BYTES], after[TEXT_BYTES];
  run->options.pause_step = 0;
  if (arena_bytes >= session->committed_bytes) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(session->device->driver->arena_commit(session->arena, arena_bytes));
  delta_events_add(&session->events, "within the step: the arena gave back %s and is %s",
                   delta_size_text(session->committed_bytes - arena_bytes, before), delta_size_text(arena_bytes, after));
  session->committed_bytes = arena_bytes;
  run->options.arena_bytes = arena_bytes - session->state_bytes;
  return DELTA_OK;
}

static bool is_at_pause_step(const reflex_run_t *run, const delta_run_result_t *part) {
  return run->options.pause_step > 0 && !part->is_late && part->point.ended[DELTA_LANE_COMPUTE] >= run->options.pause_step;
}

static delta_status_t answer_pause(reflex_run_t *run, const delta_run_result_t *part) {
  run->options.from = part->point;
  if (is_at_pause_step(run, part)) return give_back(run);
  if (part->is_late) {
    answer_late(run, part);
    return DELTA_OK;
  }
  if (delta_session_take_ask(run->session)) {
    run->options.pause_step = 0;
    answer_budget(run, part);
  }
  return DELTA_OK;
}

// ---- Bridges

static bool is_same_bridge(const delta_amended_t *bridge, const delta_amended_t *wanted) {
  return bridge->of == wanted->of && bridge->capacity_bytes == wanted->capacity_bytes && bridge->offload_speed == wanted->offload_speed &&
         bridge->prefetch_speed == wanted->prefetch_speed;
}

static delta_status_t build_bridge(delta_session_t *session, const delta_live_program_t *program, delta_amended_t *inout_bridge,
                                   delta_amendment_t *out_amendment) {
  delta_problem_t problem = *program->parts.problem;
  const bool is_slow = inout_bridge->offload_speed > 0;
  if (is_slow) {
    problem.offload_bytes_per_second = inout_bridge->offload_speed;
    problem.prefetch_bytes_per_second = inout_bridge->prefetch_speed;
    problem.shared_bytes_per_second = 0;
  }
  const delta_amend_options_t options = {
      .problem = &problem, .schedule = program->schedule, .capacity_bytes = inout_bridge->capacity_bytes, .host_limit_bytes = 0};
  DELTA_RETURN_IF_ERROR((is_slow ? delta_amend_hurry : delta_amend_relax)(&options, session->allocator, out_amendment));
  if (!out_amendment->schedule) return DELTA_OK;
  delta_amended_t made;
  delta_status_t status = prepare_amended(session, program, out_amendment, &made);
  if (status) {
    drop_amended(&made);
    return status;
  }
  inout_bridge->schedule = made.schedule;
  inout_bridge->executor = made.executor;
  return DELTA_OK;
}

// The schedule to follow until a new plan is there, where the one at hand was made for less room or faster copies.
static void find_bridge(delta_session_t *session, delta_live_program_t *program) {
  const double start_seconds = delta_clock_seconds();
  const bool is_roomy = session->replan && session->wanted_budget_bytes > session->plan->totals.budget_bytes;
  delta_amended_t wanted = {.of = program->schedule,
                            .capacity_bytes = own_capacity(session, is_roomy ? session->wanted_budget_bytes : session->committed_bytes),
                            .offload_speed = session->reflex.offload_speed,
                            .prefetch_speed = session->reflex.prefetch_speed};
  if (!is_on(session) || !(is_roomy || wanted.offload_speed > 0)) {
    drop_amended(&program->bridge);
    return;
  }
  if (is_same_bridge(&program->bridge, &wanted)) return;
  drop_amended(&program->bridge);
  delta_amendment_t amendment = {0};
  delta_status_t status = build_bridge(session, program, &wanted, &amendment);
  if (status) {
    delta_events_add(&session->events, "the plan stays as it is until there is a new one: %s", delta_status_message(status));
    delta_status_free(status);
  } else if (wanted.executor) {
    delta_events_add(
        &session->events,
        "until there is a new plan, since there %s: %u tensors kept, %u made again; predicted step %.4f s, not %.4f s; decided in %.4f s",
        is_roomy ? "is more room" : "are slower copies", amendment.kept, amendment.rebuilt, amendment.seconds, amendment.seconds_before,
        delta_clock_seconds() - start_seconds);
  }
  program->bridge = wanted;
}

// ---- Runs

static bool wants_pause(void *self) {
  delta_session_t *session = self;
  return delta_session_look_around(session);
}

static void add_part(reflex_run_t *run, const delta_run_result_t *part) {
  delta_run_result_t *sum = run->result;
  const delta_run_result_t before = *sum;
  *sum = *part;
  sum->updates_done += before.updates_done;
  sum->failed_below = part->failed_below || before.failed_below;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    sum->lanes[l].busy_seconds += before.lanes[l].busy_seconds;
    sum->lanes[l].wait_seconds += before.lanes[l].wait_seconds;
    sum->lanes[l].copied_bytes += before.lanes[l].copied_bytes;
    sum->lanes[l].copies += before.lanes[l].copies;
  }
  if (part->kept_tensors <= run->kept_tensors) return;
  delta_events_add(&run->session->events, "kept %u tensors in the arena that could not be copied below: %s",
                   part->kept_tensors - run->kept_tensors, delta_status_message(part->why_kept));
  run->kept_tensors = part->kept_tensors;
}

static void begin_run(reflex_run_t *run) {
  delta_session_t *session = run->session;
  delta_live_program_t *program = run->program;
  program->ran = NULL;
  drop_amended(&program->amended);
  find_bridge(session, program);
  const bool is_bridged = program->bridge.executor != NULL;
  run->executor = is_bridged ? program->bridge.executor : program->executor;
  run->schedule = is_bridged ? program->bridge.schedule : program->schedule;
  if (is_bridged) run->options.step_seconds = NULL;
  if (!is_on(session)) return;
  const double planned_seconds = run->schedule->step_seconds;
  run->options.wants_pause = wants_pause;
  run->options.self = session;
  if (run->schedule->swapped_tensors > 0)
    run->options.late_seconds = fmax(LEAST_LATE_SECONDS, isfinite(planned_seconds) ? LATE_SHARE * planned_seconds : 0);
}

delta_status_t delta_session_execute(delta_session_t *session, delta_live_program_t *program, const delta_run_options_t *options,
                                     delta_run_result_t *out_result) {
  reflex_run_t run = {.session = session, .program = program, .options = *options, .result = out_result};
  *out_result = (delta_run_result_t){0};
  begin_run(&run);
  DELTA_RETURN_IF_ERROR(commit_own(session, run.schedule->arena_bytes));
  run.options.arena_bytes = session->committed_bytes - session->state_bytes;
  for (bool goes_on = true; goes_on;) {
    delta_run_result_t part;
    delta_status_t status = delta_executor_run(run.executor, &run.options, &part);
    add_part(&run, &part);
    if (out_result->updates_done > 0) run.options.cancels = NULL;
    goes_on = part.is_paused || part.has_failed_copy;
    run.options.from = part.point;
    if (status && part.has_failed_copy) {
      status = answer_failure(&run, &part, status);
    } else if (!status && part.is_paused) {
      status = answer_pause(&run, &part);
    }
    if (status) return status;
  }
  program->ran = run.executor;
  out_result->was_changed = run.schedule != program->schedule;
  return DELTA_OK;
}
