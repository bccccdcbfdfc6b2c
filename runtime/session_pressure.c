// The session's memory under pressure: when the system cannot give what the budget promises, the session lowers its own budget, and says so; when it can again, it takes it
// back.
#include "base/clock.h"
#include "base/text.h"
#include "runtime/session_parts.h"

// Megabytes that are left, for people; -1: no limit is known.
static double megabytes(int64_t left_bytes) { return left_bytes == INT64_MAX ? -1 : 1e-6 * (double)left_bytes; }

static void tell_pressure(delta_session_t *session) {
  const delta_pressure_t *pressure = &session->pressure;
  const delta_memory_numbers_t *numbers = &pressure->numbers;
  char committed[DELTA_SIZE_TEXT_BYTES], limit[DELTA_SIZE_TEXT_BYTES];
  if (pressure->limit_bytes == UINT64_MAX) {
    delta_events_add(&session->events, "memory is back: the budget is what was asked for again");
    return;
  }
  delta_events_add(&session->events,
                   "memory is short (left: %.0f MB by the system, %.0f MB by the limits of the process; stalled %.1f %% of the time): the "
                   "arena of %s is to shrink to %s",
                   megabytes(numbers->system_left_bytes), megabytes(numbers->process_left_bytes), numbers->stalled_percent,
                   delta_size_text(session->committed_bytes, committed), delta_size_text(pressure->limit_bytes, limit));
}

// What the session would take without a limit.
static uint64_t unlimited_bytes(delta_session_t *session) {
  const delta_plan_totals_t *totals = &session->plan->totals;
  const uint64_t most_bytes = totals->unlimited_peak_bytes > totals->arena_bytes ? totals->unlimited_peak_bytes : totals->arena_bytes;
  pthread_mutex_lock(&session->reflex.mutex);
  const uint64_t user_bytes = session->reflex.user_bytes;
  pthread_mutex_unlock(&session->reflex.mutex);
  return user_bytes < most_bytes ? user_bytes : most_bytes;
}

// Whether it is time to look. Even the clock costs something: it is read every few milliseconds, between so many operators as have run in the last of them.
static bool is_due(delta_session_t *session) {
  static const double CLOCK_SECONDS = 5e-3;
  static const double MOST_SKIPPED = 256;
  delta_reflex_t *reflex = &session->reflex;
  if (session->pressure.is_off || reflex->skipped++ < reflex->skips) return false;
  const double now_seconds = delta_clock_seconds(), taken_seconds = now_seconds - reflex->clock_seconds;
  const double fitting = taken_seconds > 0 ? CLOCK_SECONDS / taken_seconds * reflex->skipped : MOST_SKIPPED;
  reflex->skips = (uint32_t)(fitting < MOST_SKIPPED ? fitting : MOST_SKIPPED);
  reflex->skipped = 0;
  reflex->clock_seconds = now_seconds;
  return now_seconds >= session->pressure.next_seconds;
}

bool delta_session_look_around(delta_session_t *session) {
  delta_pressure_t *pressure = &session->pressure;
  if (is_due(session) && delta_pressure_look(pressure, session->reflex.clock_seconds, session->committed_bytes, unlimited_bytes(session))) {
    tell_pressure(session);
    delta_session_limit_budget(session, pressure->limit_bytes);
  }
  return atomic_load_explicit(&session->reflex.has_ask, memory_order_relaxed);
}
