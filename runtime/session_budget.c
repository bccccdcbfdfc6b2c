// Another budget in a running session. Between two steps: what the plan at hand can keep is kept; else a plan for the new budget, made meanwhile by a thread of its own, takes
// over: states move to their new places, and the arena shrinks or grows. Numbers do not change, since graphs, kernels and layouts do not.
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/plan_options.h"
#include "runtime/session_parts.h"

static const double REPLAN_SECONDS = 2; // for policies that search

enum { BUDGET_TEXT_BYTES = DELTA_SIZE_TEXT_BYTES + 8 };

static const char *budget_text(uint64_t budget_bytes, char buffer[BUDGET_TEXT_BYTES]) {
  return budget_bytes == UINT64_MAX ? "unlimited" : delta_size_text(budget_bytes, buffer);
}

// ---- Planning

static delta_refit_options_t refit_options(const delta_session_t *session, const delta_program_parts_t *const *parts,
                                           uint64_t budget_bytes) {
  return (delta_refit_options_t){.plan = session->options.plan,
                                 .parts = parts,
                                 .granule_bytes = session->device->granule_bytes,
                                 .budget_bytes = budget_bytes,
                                 .offload_bytes_per_second = session->watch.offload_speed,
                                 .prefetch_bytes_per_second = session->watch.prefetch_speed,
                                 .avoids_tier = session->avoids_tier,
                                 .step_seconds = session->pace.corrected_seconds,
                                 .time_limit_seconds = REPLAN_SECONDS};
}

// The programs of the plan, which come first in the session's list.
static delta_status_t list_parts(const delta_session_t *session, const delta_program_parts_t ***out_parts) {
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(session->allocator, session->plan->program_count, out_parts));
  for (uint32_t i = 0; i < session->plan->program_count; ++i) (*out_parts)[i] = &session->programs.items[i]->parts;
  return DELTA_OK;
}

// A plan for a budget, made while the caller waits, which leaves program_bytes beside the states where that can be.
static delta_status_t make_plan(delta_session_t *session, uint64_t budget_bytes, uint64_t program_bytes, delta_plan_t **out_plan) {
  const delta_program_parts_t **parts = NULL;
  *out_plan = NULL;
  DELTA_RETURN_IF_ERROR(list_parts(session, &parts));
  delta_refit_options_t options = refit_options(session, parts, budget_bytes);
  options.other_program_bytes = program_bytes;
  delta_status_t status = delta_plan_refit(&options, session->allocator, out_plan);
  delta_release(session->allocator, parts);
  return status;
}

delta_status_t delta_session_plan_again(delta_session_t *session) {
  DELTA_RETURN_IF_ERROR(make_plan(session, session->budget_bytes, 0, &session->own_plan));
  session->plan = session->own_plan;
  session->state_bytes = session->plan->totals.state_bytes;
  char budget[DELTA_SIZE_TEXT_BYTES], planned[DELTA_SIZE_TEXT_BYTES];
  delta_events_add(&session->events, "the budget of %s is below the plan's %s: planned again in %.2f s",
                   delta_size_text(session->budget_bytes, budget), delta_size_text(session->options.plan->totals.arena_bytes, planned),
                   session->plan->totals.planning_seconds);
  delta_log(session->options.log, DELTA_LOG_NOTE, "%s", session->events.texts[session->events.count - 1]);
  return DELTA_OK;
}

static delta_status_t start_planning(delta_session_t *session) {
  const delta_program_parts_t **parts = NULL;
  DELTA_RETURN_IF_ERROR(list_parts(session, &parts));
  const delta_refit_options_t options = refit_options(session, parts, session->wanted_budget_bytes);
  session->replan_budget_bytes = session->wanted_budget_bytes;
  session->watch.wants_plan = false;
  delta_status_t status = delta_replan_start(&options, &session->replan);
  delta_release(session->allocator, parts);
  return status;
}

void delta_session_stop_planning(delta_session_t *session) {
  if (!session->replan) return;
  delta_plan_t *plan = NULL;
  delta_status_free(delta_replan_end(session->replan, &plan));
  delta_plan_free(plan);
  session->replan = NULL;
}

// ---- What was asked for

bool delta_plan_releases_anything(const delta_plan_t *plan) {
  for (uint32_t i = 0; i < plan->program_count; ++i) {
    if (plan->programs[i].schedule->host_bytes > 0 || plan->programs[i].schedule->recomputed_nodes > 0) return true;
  }
  return false;
}

// Whether the plan at hand is not the one for this budget: too large for it, slower than it must be, or made for copies of other speeds.
static bool needs_plan(const delta_session_t *session, uint64_t budget_bytes) {
  if (session->plan->totals.arena_bytes > budget_bytes || session->watch.wants_plan) return true;
  return budget_bytes > session->budget_bytes && delta_plan_releases_anything(session->plan);
}

static void refuse_budget(delta_session_t *session, delta_status_t why);

// Begins to make a plan for a budget where that is needed.
static delta_status_t follow_ask(delta_session_t *session, uint64_t budget_bytes) {
  session->wanted_budget_bytes = budget_bytes;
  if (session->replan || !needs_plan(session, budget_bytes)) return DELTA_OK;
  return start_planning(session);
}

// Under the mutex. While a program runs, its thread takes what was asked for when it next looks.
static delta_status_t ask_for_least(delta_session_t *session) {
  delta_reflex_t *reflex = &session->reflex;
  reflex->asked_bytes = reflex->user_bytes < reflex->limit_bytes ? reflex->user_bytes : reflex->limit_bytes;
  if (!reflex->is_running) return follow_ask(session, reflex->asked_bytes);
  atomic_store(&reflex->has_ask, true);
  return DELTA_OK;
}

delta_status_t delta_session_set_budget(delta_session_t *session, const char *budget) {
  const delta_plan_totals_t *totals = &session->options.plan->totals;
  uint64_t budget_bytes = totals->budget_bytes;
  if (budget) {
    DELTA_RETURN_IF_ERROR(delta_budget_resolve(budget, UINT64_MAX, totals->unlimited_peak_bytes, totals->minimum_budget_bytes,
                                               session->device->granule_bytes, &budget_bytes));
  }
  pthread_mutex_lock(&session->reflex.mutex);
  session->reflex.user_bytes = budget_bytes;
  delta_status_t status = ask_for_least(session);
  pthread_mutex_unlock(&session->reflex.mutex);
  return status;
}

void delta_session_limit_budget(delta_session_t *session, uint64_t limit_bytes) {
  pthread_mutex_lock(&session->reflex.mutex);
  session->reflex.limit_bytes = limit_bytes;
  // A program runs: this only asks, and cannot fail.
  delta_status_free(ask_for_least(session));
  pthread_mutex_unlock(&session->reflex.mutex);
}

bool delta_session_take_ask(delta_session_t *session) {
  if (!atomic_load(&session->reflex.has_ask)) return false;
  pthread_mutex_lock(&session->reflex.mutex);
  const uint64_t asked_bytes = session->reflex.asked_bytes;
  atomic_store(&session->reflex.has_ask, false);
  pthread_mutex_unlock(&session->reflex.mutex);
  delta_status_t status = follow_ask(session, asked_bytes);
  if (status) refuse_budget(session, status);
  return !status;
}

void delta_session_begin_run(delta_session_t *session) {
  pthread_mutex_lock(&session->reflex.mutex);
  session->reflex.is_running = true;
  pthread_mutex_unlock(&session->reflex.mutex);
}

void delta_session_end_run(delta_session_t *session) {
  delta_session_take_ask(session);
  pthread_mutex_lock(&session->reflex.mutex);
  session->reflex.is_running = false;
  pthread_mutex_unlock(&session->reflex.mutex);
}

// ---- Following it

// Programs of other batches are made again when their batch comes again.
static void drop_other_batches(delta_session_t *session) {
  while (session->programs.count > session->plan->program_count) {
    delta_session_free_program(session, session->programs.items[--session->programs.count]);
  }
  session->evaluated = NULL;
}

static delta_status_t shrink_arena(delta_session_t *session) {
  const uint64_t arena_bytes = session->plan->totals.arena_bytes;
  for (uint32_t i = 0; i < session->plan->program_count; ++i) delta_session_drop_changes(session->programs.items[i]);
  if (arena_bytes >= session->committed_bytes) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(session->device->driver->arena_commit(session->arena, arena_bytes));
  session->committed_bytes = arena_bytes;
  return DELTA_OK;
}

static uint64_t most_host_bytes(const delta_plan_t *plan) {
  uint64_t most_bytes = delta_plan_home_bytes(plan);
  for (uint32_t i = 0; i < plan->program_count; ++i) {
    if (plan->programs[i].schedule->host_bytes > most_bytes) most_bytes = plan->programs[i].schedule->host_bytes;
  }
  return most_bytes;
}

// What a program needs to follow a new plan.
typedef struct successor {
  delta_executor_t *executor; // Owned until it is put in its place.
  delta_step_times_t *times;  // likewise
} successor_t;

// One a program. Nothing of the session is changed but the homes in its problems.
static delta_status_t make_successors(delta_session_t *session, const delta_plan_t *plan, successor_t *successors) {
  for (uint32_t i = 0; i < plan->program_count; ++i) {
    delta_live_program_t *program = session->programs.items[i];
    const delta_schedule_t *schedule = plan->programs[i].schedule;
    DELTA_RETURN_IF_ERROR(delta_plan_apply_homes(plan, program->parts.problem));
    DELTA_RETURN_IF_ERROR(delta_schedule_verify(schedule, program->parts.problem, schedule->arena_bytes, session->allocator));
    DELTA_RETURN_IF_ERROR(delta_session_reserve_tier(session, most_host_bytes(plan)));
    DELTA_RETURN_IF_ERROR(delta_session_allocate_times(session, schedule, &successors[i].times));
    DELTA_RETURN_IF_ERROR(delta_session_create_executor(session, program, plan, schedule, &successors[i].executor));
  }
  return DELTA_OK;
}

static void put_successors(delta_session_t *session, const delta_plan_t *plan, successor_t *successors) {
  for (uint32_t i = 0; i < plan->program_count; ++i) {
    delta_live_program_t *program = session->programs.items[i];
    delta_session_drop_changes(program);
    delta_executor_take_kernels(successors[i].executor);
    delta_executor_destroy(program->executor);
    program->ran = NULL;
    delta_release(session->allocator, program->times);
    program->executor = successors[i].executor;
    program->times = successors[i].times;
    program->schedule = plan->programs[i].schedule;
    successors[i] = (successor_t){0};
  }
}

static void free_successors(delta_session_t *session, successor_t *successors, uint32_t count) {
  for (uint32_t i = 0; successors && i < count; ++i) {
    delta_executor_destroy(successors[i].executor);
    delta_release(session->allocator, successors[i].times);
  }
  delta_release(session->allocator, successors);
}

// The new plan is not followed: problems say again where the states are.
static delta_status_t restore_homes(delta_session_t *session) {
  for (uint32_t i = 0; i < session->plan->program_count; ++i) {
    DELTA_RETURN_IF_ERROR(delta_plan_apply_homes(session->plan, session->programs.items[i]->parts.problem));
  }
  return DELTA_OK;
}

static void tell_change(delta_session_t *session, const delta_plan_totals_t *before, const delta_state_move_t *move, double adopt_seconds) {
  const delta_plan_t *plan = session->plan;
  const delta_schedule_t *schedule = plan->programs[0].schedule;
  char from[BUDGET_TEXT_BYTES], to[BUDGET_TEXT_BYTES], moved[DELTA_SIZE_TEXT_BYTES];
  delta_events_add(
      &session->events,
      "budget %s, was %s: planned again in %.2f s, taken over in %.3f s (%s of states moved); %u tensors swapped, %u nodes run again, "
      "predicted step %.4f s, was %.4f s",
      budget_text(session->budget_bytes, to), budget_text(before->budget_bytes, from), plan->totals.planning_seconds, adopt_seconds,
      delta_size_text(move->moved_bytes, moved), schedule->swapped_tensors, schedule->recomputed_nodes, plan->totals.step_seconds,
      before->step_seconds);
}

// Fails without a change, or, when *out_is_lost, with states that are neither in their old places nor in their new ones.
static delta_status_t try_plan(delta_session_t *session, const delta_plan_t *plan, successor_t *successors, delta_state_move_t *move,
                               bool *out_is_lost) {
  const delta_device_driver_t *driver = session->device->driver;
  *out_is_lost = false;
  if (plan->totals.arena_bytes > session->committed_bytes) {
    DELTA_RETURN_IF_ERROR(driver->arena_commit(session->arena, plan->totals.arena_bytes));
    session->committed_bytes = plan->totals.arena_bytes;
  }
  DELTA_RETURN_IF_ERROR(make_successors(session, plan, successors));
  DELTA_RETURN_IF_ERROR(delta_session_lift_states(session, plan, move));
  delta_status_t status = delta_session_drop_states(session, move);
  if (!status) return DELTA_OK;
  delta_status_t undone = delta_session_put_back_states(session, move);
  *out_is_lost = undone != NULL;
  return delta_status_join(status, undone);
}

// From the plan at hand to a new one, which the session owns from now on.
static delta_status_t follow_plan(delta_session_t *session, delta_plan_t *plan, successor_t *successors) {
  put_successors(session, plan, successors);
  delta_plan_free(session->own_plan);
  session->own_plan = plan;
  session->plan = plan;
  session->state_bytes = plan->totals.state_bytes;
  session->budget_bytes = plan->totals.budget_bytes;
  session->reflex.offload_speed = session->reflex.prefetch_speed = 0;
  delta_session_restart_watch(session);
  delta_session_prepare_pace(session);
  if (session->tier) DELTA_RETURN_IF_ERROR(delta_tier_trim(session->tier, most_host_bytes(plan)));
  return shrink_arena(session);
}

// A budget that cannot be kept is refused. What holds then is the one before, or what was asked for beside it: a limit that is refused leaves the caller's budget, and the other way
// round.
static void refuse_budget(delta_session_t *session, delta_status_t why) {
  delta_reflex_t *reflex = &session->reflex;
  const uint64_t refused_bytes = session->wanted_budget_bytes;
  char from[BUDGET_TEXT_BYTES], to[BUDGET_TEXT_BYTES];
  pthread_mutex_lock(&reflex->mutex);
  if (reflex->limit_bytes == refused_bytes) {
    delta_pressure_refuse(&session->pressure);
    reflex->limit_bytes = UINT64_MAX;
  }
  if (reflex->user_bytes == refused_bytes) reflex->user_bytes = session->budget_bytes;
  session->wanted_budget_bytes = reflex->user_bytes < reflex->limit_bytes ? reflex->user_bytes : reflex->limit_bytes;
  pthread_mutex_unlock(&reflex->mutex);
  delta_events_add(&session->events, "budget %s refused, %s still holds: %s", budget_text(refused_bytes, to),
                   budget_text(session->budget_bytes, from), delta_status_message(why));
  delta_log(session->options.log, DELTA_LOG_WARNING, "%s", session->events.texts[session->events.count - 1]);
  delta_status_free(why);
}

// Takes a new plan over, or refuses its budget when that does not work.
static delta_status_t adopt_plan(delta_session_t *session, delta_plan_t *plan) {
  const double start_seconds = delta_clock_seconds();
  const delta_plan_totals_t before = session->plan->totals;
  delta_state_move_t move = {0};
  successor_t *successors = NULL;
  bool is_lost = false;
  const uint32_t count = plan->program_count;
  drop_other_batches(session);
  delta_status_t status = DELTA_ALLOCATE(session->allocator, plan->program_count, &successors);
  if (!status) status = try_plan(session, plan, successors, &move, &is_lost);
  if (!status) {
    status = follow_plan(session, plan, successors);
    tell_change(session, &before, &move, delta_clock_seconds() - start_seconds);
  } else if (is_lost) {
    status = delta_status_annotate(status, "states are lost; go on from the last checkpoint");
  } else {
    refuse_budget(session, status);
    status = restore_homes(session);
    if (!status) status = shrink_arena(session);
  }
  delta_session_end_move(session, &move);
  free_successors(session, successors, count);
  if (session->plan != plan) delta_plan_free(plan);
  return status;
}

static uint64_t least_budget(const delta_session_t *session) {
  return session->wanted_budget_bytes < session->budget_bytes ? session->wanted_budget_bytes : session->budget_bytes;
}

delta_status_t delta_session_replan_now(delta_session_t *session, bool *out_adopted) {
  const delta_plan_t *before = session->plan;
  delta_plan_t *plan = NULL;
  *out_adopted = false;
  delta_session_stop_planning(session);
  DELTA_RETURN_IF_ERROR(make_plan(session, least_budget(session), 0, &plan));
  delta_status_t status = adopt_plan(session, plan);
  *out_adopted = !status && session->plan != before;
  return status;
}

delta_status_t delta_session_make_room(delta_session_t *session, uint64_t program_bytes, bool *out_made) {
  const delta_plan_t *before = session->plan;
  delta_plan_t *plan = NULL;
  *out_made = false;
  delta_session_stop_planning(session);
  DELTA_RETURN_IF_ERROR(make_plan(session, least_budget(session), program_bytes, &plan));
  if (plan->totals.state_bytes >= before->totals.state_bytes) {
    delta_plan_free(plan);
    return DELTA_OK;
  }
  delta_status_t status = adopt_plan(session, plan);
  *out_made = !status && session->plan != before;
  return status;
}

// The plan at hand does for the budget that was asked for.
static delta_status_t keep_plan(delta_session_t *session) {
  char from[BUDGET_TEXT_BYTES], to[BUDGET_TEXT_BYTES];
  delta_events_add(&session->events, "budget %s, was %s: the plan stays", budget_text(session->wanted_budget_bytes, to),
                   budget_text(session->budget_bytes, from));
  const bool is_lower = session->wanted_budget_bytes < session->budget_bytes;
  session->budget_bytes = session->wanted_budget_bytes;
  if (!is_lower && session->committed_bytes <= session->budget_bytes) return DELTA_OK;
  drop_other_batches(session);
  return shrink_arena(session);
}

// Takes the plan that has been made, unless another budget has been asked for since.
static delta_status_t end_planning(delta_session_t *session) {
  delta_plan_t *plan = NULL;
  delta_status_t status = delta_replan_end(session->replan, &plan);
  session->replan = NULL;
  if (session->replan_budget_bytes != session->wanted_budget_bytes) {
    delta_status_free(status);
    delta_plan_free(plan);
    return DELTA_OK;
  }
  if (!status) return adopt_plan(session, plan);
  refuse_budget(session, status);
  return DELTA_OK;
}

delta_status_t delta_session_adapt(delta_session_t *session) {
  DELTA_RETURN_IF_ERROR(delta_lanes_check(session->lanes));
  while (session->wanted_budget_bytes != session->budget_bytes || session->replan || session->watch.wants_plan) {
    if (!session->replan && !needs_plan(session, session->wanted_budget_bytes)) {
      return keep_plan(session);
    }
    if (!session->replan) DELTA_RETURN_IF_ERROR(start_planning(session));
    // More memory can wait for its plan, less cannot.
    const uint64_t wanted_bytes = session->wanted_budget_bytes;
    const bool is_urgent = session->committed_bytes > wanted_bytes || session->plan->totals.arena_bytes > wanted_bytes;
    if (!is_urgent && !delta_replan_is_done(session->replan)) return DELTA_OK;
    DELTA_RETURN_IF_ERROR(end_planning(session));
  }
  // A larger budget that was taken back before its plan was there has left its room.
  if (session->committed_bytes <= session->budget_bytes) return DELTA_OK;
  drop_other_batches(session);
  return shrink_arena(session);
}
