// What operators really take. In a few runs of every some each step is timed; where a class of operators, or all of them, take twice what the plan counted with, a plan is
// asked for that counts with what was seen.
//
// The least of a window of runs is looked at, so that one slow moment is no reason, and what is too short to matter is none either.
#include "onnx/graph/core_ops.h"
#include "runtime/session_parts.h"

enum { WINDOW_RUNS = 3, CYCLE_RUNS = 64 };
static const double MOST_SLOWNESS = 2;
static const double LEAST_EXCESS_SECONDS = 0.02; // of a run: what slow operators take more than planned
static const double LEAST_EXCESS_SHARE = 0.05;   // of what all of them take

void delta_session_free_pace(delta_session_t *session) {
  delta_pace_t *pace = &session->pace;
  delta_release(session->allocator, pace->step_seconds);
  delta_release(session->allocator, pace->least_seconds);
  delta_release(session->allocator, pace->corrected_seconds);
  *pace = (delta_pace_t){0};
}

// Without room nothing is looked at.
void delta_session_prepare_pace(delta_session_t *session) {
  const delta_live_program_t *program = session->programs.items[0];
  delta_pace_t *pace = &session->pace;
  delta_release(session->allocator, pace->step_seconds);
  pace->step_seconds = NULL;
  pace->schedule = NULL;
  pace->window_runs = 0;
  delta_status_t status = DELTA_ALLOCATE(session->allocator, program->schedule->step_count, &pace->step_seconds);
  if (!status && !pace->least_seconds)
    status = DELTA_ALLOCATE(session->allocator, program->parts.problem->step_count, &pace->least_seconds);
  if (!status) pace->schedule = program->schedule;
  delta_status_free(status);
}

double *delta_session_begin_pace(delta_session_t *session, const delta_live_program_t *program) {
  delta_pace_t *pace = &session->pace;
  const bool is_first = program == session->programs.items[0];
  const bool is_off = session->reflex.is_off || session->device->has_queues; // where no step is timed unless someone asks
  if (!is_first || is_off || session->replan || pace->runs++ % CYCLE_RUNS >= WINDOW_RUNS) return NULL;
  return pace->schedule == program->schedule ? pace->step_seconds : NULL;
}

static double planned_seconds(const delta_session_t *session, const delta_problem_t *problem, uint32_t step) {
  return session->pace.corrected_seconds ? session->pace.corrected_seconds[step] : problem->steps[step].seconds;
}

// What a class of operators takes, and what it was planned with; of a step that runs again, once.
typedef struct class_pace {
  const char *name;
  double seconds, planned_seconds;
} class_pace_t;

static bool is_slow(const class_pace_t *pace, double all_seconds) {
  const double excess_seconds = pace->seconds - pace->planned_seconds;
  return pace->seconds > MOST_SLOWNESS * pace->planned_seconds && excess_seconds > LEAST_EXCESS_SECONDS &&
         excess_seconds > LEAST_EXCESS_SHARE * all_seconds;
}

// The sums of all operators, and of the class that takes most beyond what was planned.
static void sum_classes(const delta_session_t *session, const delta_live_program_t *program, class_pace_t *out_all,
                        class_pace_t *out_slowest) {
  const delta_problem_t *problem = program->parts.problem;
  class_pace_t classes[DELTA_CORE_OP_COUNT] = {0};
  *out_all = (class_pace_t){.name = "all operators"};
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_core_op_t op = program->parts.graph->nodes.items[problem->steps[s].node].op;
    classes[op].name = delta_core_op_info(op)->name;
    classes[op].seconds += session->pace.least_seconds[s];
    classes[op].planned_seconds += planned_seconds(session, problem, s);
    out_all->seconds += session->pace.least_seconds[s];
    out_all->planned_seconds += planned_seconds(session, problem, s);
  }
  *out_slowest = classes[0];
  for (int c = 1; c < DELTA_CORE_OP_COUNT; ++c) {
    if (classes[c].seconds - classes[c].planned_seconds > out_slowest->seconds - out_slowest->planned_seconds) *out_slowest = classes[c];
  }
}

// Plans count with what was seen from now on.
static bool correct(delta_session_t *session, const delta_problem_t *problem) {
  delta_pace_t *pace = &session->pace;
  if (!pace->corrected_seconds) {
    delta_status_t status = DELTA_ALLOCATE(session->allocator, problem->step_count, &pace->corrected_seconds);
    if (status) {
      delta_status_free(status);
      return false;
    }
  }
  for (uint32_t s = 0; s < problem->step_count; ++s) pace->corrected_seconds[s] = pace->least_seconds[s];
  return true;
}

static void judge(delta_session_t *session, const delta_live_program_t *program) {
  class_pace_t all, slowest;
  sum_classes(session, program, &all, &slowest);
  const class_pace_t *slow = is_slow(&all, all.seconds) ? &all : is_slow(&slowest, all.seconds) ? &slowest : NULL;
  if (!slow || session->pace.is_told) return;
  const bool may_help = delta_plan_releases_anything(session->plan) && correct(session, program->parts.problem);
  delta_events_add(&session->events, "%s%s: %.4f s a step, planned with %.4f s (of %.4f s and %.4f s for all operators): %s", slow->name,
                   slow == &all ? " are slower than planned" : " operators are slower than planned", slow->seconds, slow->planned_seconds,
                   all.seconds, all.planned_seconds, may_help ? "planning again with these times" : "the plan stays, it lets nothing go");
  session->watch.wants_plan |= may_help;
  session->pace.is_told = !may_help;
}

void delta_session_end_pace(delta_session_t *session, const delta_live_program_t *program, const delta_run_result_t *result) {
  delta_pace_t *pace = &session->pace;
  const bool is_timed = program == session->programs.items[0] && pace->schedule == program->schedule &&
                        (pace->runs - 1) % CYCLE_RUNS < WINDOW_RUNS && !result->was_changed && !session->replan;
  if (!is_timed) {
    pace->window_runs = 0;
    return;
  }
  const delta_schedule_t *schedule = program->schedule;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (step->kind != DELTA_STEP_RUN) continue;
    double *least = &pace->least_seconds[step->problem_step];
    if (pace->window_runs == 0 || pace->step_seconds[s] < *least) *least = pace->step_seconds[s];
  }
  if (++pace->window_runs < WINDOW_RUNS) return;
  pace->window_runs = 0;
  judge(session, program);
}
