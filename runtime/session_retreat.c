// A tier that does not take copies any more: a full disk, or a broken one. What it has can still be read, so the training goes on by a plan that swaps nothing, if one fits the budget.
#include "runtime/session_parts.h"

static delta_status_t try_without_tier(delta_session_t *session, bool *out_adopted) {
  session->avoids_tier = true;
  delta_status_t status = delta_session_replan_now(session, out_adopted);
  session->avoids_tier = *out_adopted;
  return status;
}

// The failure, with why there is no way around it.
static delta_status_t give_up(delta_status_t failure, const char *why) {
  delta_status_t status = delta_status_make(IO, "%s; without the tier below: %s", delta_status_message(failure), why);
  delta_status_free(failure);
  return status;
}

delta_status_t delta_session_retreat(delta_session_t *session, const delta_run_result_t *result, delta_status_t failure) {
  bool is_adopted = false;
  if (result->updates_done > 0)
    return give_up(failure, "the step cannot be run again, since it has changed states: go on from the last checkpoint");
  if (session->avoids_tier) return failure;
  delta_status_t status = delta_lanes_check(session->lanes);
  if (!status) status = try_without_tier(session, &is_adopted);
  if (is_adopted) {
    delta_events_add(&session->events, "planned without the tier below, and the step is run again: %s", delta_status_message(failure));
    delta_status_free(failure);
    return DELTA_OK;
  }
  failure = give_up(failure, status ? delta_status_message(status) : "the plan for that could not be followed");
  delta_status_free(status);
  return failure;
}

delta_status_t delta_session_consider_retreat(delta_session_t *session, const delta_run_result_t *result) {
  bool is_adopted = false;
  if (result->kept_tensors == 0 && !result->failed_below) return DELTA_OK;
  // The outputs of an evaluation are to be read yet: the next run meets the tier soon enough.
  if (session->evaluated) return DELTA_OK;
  if (session->avoids_tier || session->refused_retreat_bytes == session->budget_bytes) return DELTA_OK;
  delta_status_t status = try_without_tier(session, &is_adopted);
  if (is_adopted) {
    delta_events_add(&session->events, "planned without the tier below from now on");
    return DELTA_OK;
  }
  session->refused_retreat_bytes = session->budget_bytes;
  if (delta_status_code(status) != DELTA_STATUS_DOES_NOT_FIT) return status;
  delta_events_add(&session->events, "no plan without the tier below fits: what it does not take is kept while there is room");
  delta_status_free(status);
  return DELTA_OK;
}
