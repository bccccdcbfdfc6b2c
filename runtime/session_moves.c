// Moving states from their places in one plan to those in another. What changes its place goes to the tier below first, behind everything that either plan has there; until
// all of it is there nothing has been changed.
#include <string.h>

#include "base/checked.h"
#include "runtime/session_parts.h"

enum { PIECE_BYTES = 1 << 20 };

static uint64_t whole_blocks(uint64_t size_bytes) { return delta_size_round_up(size_bytes, DELTA_HOST_BLOCK_BYTES); }

static bool has_moved(const delta_plan_state_t *before, const delta_plan_state_t *after) {
  if (before->is_below != after->is_below) return true;
  return before->is_below ? before->home_offset_bytes != after->home_offset_bytes : before->offset_bytes != after->offset_bytes;
}

static uint64_t moved_bytes(const delta_plan_t *from, const delta_plan_t *to) {
  uint64_t sum_bytes = 0;
  for (uint32_t i = 0; i < from->state_count; ++i) {
    if (has_moved(&from->states[i], &to->states[i])) sum_bytes += whole_blocks(from->states[i].size_bytes);
  }
  return sum_bytes;
}

static void *resident_address(const delta_session_t *session, const delta_plan_state_t *state) {
  return session->device->driver->arena_address(session->arena, state->offset_bytes);
}

// Copies within the tier.
static delta_status_t copy_below(delta_tier_t *tier, uint64_t from_bytes, uint64_t to_bytes, size_t size_bytes, void *piece) {
  for (size_t done = 0, part; done < size_bytes; done += part) {
    part = size_bytes - done < PIECE_BYTES ? size_bytes - done : PIECE_BYTES;
    DELTA_RETURN_IF_ERROR(delta_tier_read(tier, from_bytes + done, piece, part));
    DELTA_RETURN_IF_ERROR(delta_tier_write(tier, to_bytes + done, piece, part));
  }
  return DELTA_OK;
}

// A state between its place in a plan and the bytes at spare_bytes of the tier.
static delta_status_t move_state(delta_session_t *session, const delta_plan_state_t *state, uint64_t spare_bytes, bool leaves,
                                 void *piece) {
  delta_tier_t *tier = session->tier;
  if (state->is_below) {
    return leaves ? copy_below(tier, state->home_offset_bytes, spare_bytes, state->size_bytes, piece)
                  : copy_below(tier, spare_bytes, state->home_offset_bytes, state->size_bytes, piece);
  }
  void *address = resident_address(session, state);
  return leaves ? delta_tier_write(tier, spare_bytes, address, state->size_bytes)
                : delta_tier_read(tier, spare_bytes, address, state->size_bytes);
}

static delta_status_t move_all(delta_session_t *session, const delta_state_move_t *move, bool leaves) {
  uint64_t spare_bytes = move->spare_bytes;
  for (uint32_t i = 0; i < move->from->state_count; ++i) {
    const delta_plan_state_t *before = &move->from->states[i], *after = &move->to->states[i];
    if (!has_moved(before, after)) continue;
    delta_status_t status = move_state(session, leaves ? before : after, spare_bytes, leaves, move->piece);
    if (status) return delta_status_annotate(status, "moving state '%s'", before->name);
    spare_bytes += whole_blocks(before->size_bytes);
  }
  return DELTA_OK;
}

delta_status_t delta_session_lift_states(delta_session_t *session, const delta_plan_t *to, delta_state_move_t *out_move) {
  *out_move = (delta_state_move_t){.from = session->plan, .to = to, .moved_bytes = moved_bytes(session->plan, to)};
  if (out_move->moved_bytes == 0) return DELTA_OK;
  const uint64_t used_bytes = whole_blocks(session->tier ? delta_tier_size_bytes(session->tier) : 0);
  const uint64_t home_bytes = whole_blocks(delta_plan_home_bytes(to));
  out_move->spare_bytes = used_bytes > home_bytes ? used_bytes : home_bytes;
  DELTA_RETURN_IF_ERROR(delta_session_reserve_tier(session, out_move->spare_bytes + out_move->moved_bytes));
  DELTA_RETURN_IF_ERROR(delta_allocate(session->allocator, PIECE_BYTES, 1, &out_move->piece));
  return move_all(session, out_move, true);
}

delta_status_t delta_session_drop_states(delta_session_t *session, const delta_state_move_t *move) {
  return move->moved_bytes == 0 ? DELTA_OK : move_all(session, move, false);
}

void delta_session_end_move(delta_session_t *session, delta_state_move_t *move) {
  delta_release(session->allocator, move->piece);
  move->piece = NULL;
}
