// What the lanes really do. Copies that take much longer than the plan counted with, and that compute waits for, are a reason to plan again with the speeds that were seen.
//
// Speeds are taken over a window of runs: one slow copy is no reason, and what is waited for a few milliseconds is not worth a plan.
#include "runtime/session_parts.h"

enum { LEAST_RUNS = 3 };
static const double LEAST_WAIT_SECONDS = 0.25; // in the window
static const double LEAST_WAIT_SHARE = 0.1;    // of its time
static const double MOST_SLOWNESS = 2;         // against the speed that was planned with

static bool is_slow(double bytes, double seconds, double planned_speed, double *out_speed) {
  *out_speed = seconds > 0 ? bytes / seconds : 0;
  return *out_speed > 0 && *out_speed * MOST_SLOWNESS < planned_speed;
}

// The window is full: whether what it shows is worth a plan.
static void judge(delta_session_t *session, const delta_live_program_t *program) {
  const delta_problem_t *problem = program->parts.problem;
  delta_watch_t *watch = &session->watch;
  const double planned_offload = watch->offload_speed > 0 ? watch->offload_speed : problem->offload_bytes_per_second;
  const double planned_prefetch = watch->prefetch_speed > 0 ? watch->prefetch_speed : problem->prefetch_bytes_per_second;
  double offload_speed, prefetch_speed;
  const bool is_offload_slow = is_slow(watch->offload_bytes, watch->offload_seconds, planned_offload, &offload_speed);
  const bool is_prefetch_slow = is_slow(watch->prefetch_bytes, watch->prefetch_seconds, planned_prefetch, &prefetch_speed);
  const bool is_waited_for =
      watch->wait_seconds > LEAST_WAIT_SECONDS && watch->wait_seconds > LEAST_WAIT_SHARE * (watch->wait_seconds + watch->busy_seconds);
  if (is_waited_for && (is_offload_slow || is_prefetch_slow)) {
    delta_events_add(
        &session->events,
        "copies are slower than planned, %.0f and %.0f MB/s, not %.0f and %.0f, and %.3f s of %.3f were waited for them: planning "
        "again with these speeds",
        1e-6 * offload_speed, 1e-6 * prefetch_speed, 1e-6 * planned_offload, 1e-6 * planned_prefetch, watch->wait_seconds,
        watch->wait_seconds + watch->busy_seconds);
    watch->offload_speed = offload_speed;
    watch->prefetch_speed = prefetch_speed;
    watch->wants_plan = true;
  }
}

void delta_session_watch(delta_session_t *session, const delta_live_program_t *program, const delta_run_result_t *result) {
  delta_watch_t *watch = &session->watch;
  const bool is_first = program == session->programs.items[0];
  if (!is_first || program->schedule->host_bytes == 0 || watch->wants_plan) return;
  const delta_problem_t *problem = program->parts.problem;
  watch->offload_bytes += result->lanes[DELTA_LANE_OFFLOAD].copied_bytes;
  watch->prefetch_bytes += result->lanes[DELTA_LANE_PREFETCH].copied_bytes;
  watch->offload_seconds += delta_lane_byte_seconds(&result->lanes[DELTA_LANE_OFFLOAD], problem->offload_start_seconds);
  watch->prefetch_seconds += delta_lane_byte_seconds(&result->lanes[DELTA_LANE_PREFETCH], problem->prefetch_start_seconds);
  watch->wait_seconds += result->lanes[DELTA_LANE_COMPUTE].wait_seconds;
  watch->busy_seconds += result->lanes[DELTA_LANE_COMPUTE].busy_seconds;
  if (++watch->runs < LEAST_RUNS) return;
  judge(session, program);
  // Copies that were late once, and no reason for a plan, are no reason to go on as if they were.
  if (!watch->wants_plan && !session->replan) session->reflex.offload_speed = session->reflex.prefetch_speed = 0;
  delta_session_restart_watch(session);
}

void delta_session_restart_watch(delta_session_t *session) {
  const delta_watch_t *watch = &session->watch;
  session->watch =
      (delta_watch_t){.offload_speed = watch->offload_speed, .prefetch_speed = watch->prefetch_speed, .wants_plan = watch->wants_plan};
}
