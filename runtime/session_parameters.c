// Many states at once: parameters as one buffer, sums of gradients to zero.
#include <string.h>

#include "runtime/session_parts.h"

delta_status_t delta_session_find_state(const delta_session_t *session, const char *name, delta_state_info_t *out_info) {
  for (uint32_t i = 0; i < session->plan->state_count; ++i) {
    if (strcmp(session->plan->states[i].name, name) == 0) return delta_session_state(session, i, out_info);
  }
  return delta_status_make(NOT_FOUND, "there is no parameter or state called '%s'", name);
}

static bool is_parameter(const delta_plan_state_t *state, int trainable_only) {
  return state->kind == DELTA_STATE_PARAMETER || (state->kind == DELTA_STATE_FROZEN && !trainable_only);
}

size_t delta_session_parameters_bytes(const delta_session_t *session, int trainable_only) {
  size_t sum_bytes = 0;
  for (uint32_t i = 0; i < session->plan->state_count; ++i) {
    if (is_parameter(&session->plan->states[i], trainable_only)) sum_bytes += delta_plan_state_content_bytes(&session->plan->states[i]);
  }
  return sum_bytes;
}

static delta_status_t check_size(const delta_session_t *session, int trainable_only, size_t size_bytes) {
  const size_t wanted_bytes = delta_session_parameters_bytes(session, trainable_only);
  if (size_bytes == wanted_bytes) return DELTA_OK;
  return delta_status_make(INVALID_ARGUMENT, "the parameters have %zu bytes, the buffer %zu", wanted_bytes, size_bytes);
}

delta_status_t delta_session_read_parameters(delta_session_t *session, int trainable_only, void *buffer, size_t size_bytes) {
  DELTA_RETURN_IF_ERROR(check_size(session, trainable_only, size_bytes));
  size_t at = 0;
  for (uint32_t i = 0; i < session->plan->state_count; ++i) {
    const delta_plan_state_t *state = &session->plan->states[i];
    if (!is_parameter(state, trainable_only)) continue;
    DELTA_RETURN_IF_ERROR(delta_session_read_piece(session, i, 0, (uint8_t *)buffer + at, delta_plan_state_content_bytes(state)));
    at += delta_plan_state_content_bytes(state);
  }
  return DELTA_OK;
}

delta_status_t delta_session_write_parameters(delta_session_t *session, int trainable_only, const void *buffer, size_t size_bytes) {
  DELTA_RETURN_IF_ERROR(check_size(session, trainable_only, size_bytes));
  size_t at = 0;
  for (uint32_t i = 0; i < session->plan->state_count; ++i) {
    const delta_plan_state_t *state = &session->plan->states[i];
    if (!is_parameter(state, trainable_only)) continue;
    DELTA_RETURN_IF_ERROR(delta_session_write_piece(session, i, 0, (const uint8_t *)buffer + at, delta_plan_state_content_bytes(state)));
    at += delta_plan_state_content_bytes(state);
  }
  return DELTA_OK;
}

static delta_status_t clear_state(delta_session_t *session, uint32_t index) {
  static const uint8_t zeros[16 * DELTA_HOST_BLOCK_BYTES];
  const size_t size_bytes = delta_plan_state_content_bytes(&session->plan->states[index]);
  for (size_t done = 0, part; done < size_bytes; done += part) {
    part = size_bytes - done < sizeof zeros ? size_bytes - done : sizeof zeros;
    DELTA_RETURN_IF_ERROR(delta_session_write_piece(session, index, done, zeros, part));
  }
  return DELTA_OK;
}

delta_status_t delta_session_clear_gradients(delta_session_t *session) {
  for (uint32_t i = 0; i < session->plan->state_count; ++i) {
    if (session->plan->states[i].kind == DELTA_STATE_ACCUMULATOR) DELTA_RETURN_IF_ERROR(clear_state(session, i));
  }
  return DELTA_OK;
}
