// Moving states from their places in one plan to those in another. What changes its place goes aside first: to bytes of the arena that no state has in either plan, where there are as many, else to the
// tier below, behind everything that either plan has there. Until all of it is there nothing has been changed, and as long as it is there all can be put back.
#include <string.h>

#include "base/checked.h"
#include "runtime/session_parts.h"

enum { PIECE_BYTES = 1 << 20 };

// In the arena, or in the tier.
typedef struct place {
  bool is_below;
  uint64_t offset_bytes;
} place_t;

static uint64_t whole_blocks(uint64_t size_bytes) { return delta_size_round_up(size_bytes, DELTA_HOST_BLOCK_BYTES); }

static place_t place_of(const delta_plan_state_t *state) {
  return (place_t){.is_below = state->is_below, .offset_bytes = state->is_below ? state->home_offset_bytes : state->offset_bytes};
}

static bool has_moved(const delta_plan_state_t *before, const delta_plan_state_t *after) {
  const place_t from = place_of(before), to = place_of(after);
  return from.is_below != to.is_below || from.offset_bytes != to.offset_bytes;
}

static uint64_t moved_bytes(const delta_plan_t *from, const delta_plan_t *to) {
  uint64_t sum_bytes = 0;
  for (uint32_t i = 0; i < from->state_count; ++i) {
    if (has_moved(&from->states[i], &to->states[i])) sum_bytes += whole_blocks(from->states[i].size_bytes);
  }
  return sum_bytes;
}

static delta_status_t read_piece(const delta_session_t *session, place_t from, void *piece, size_t size_bytes) {
  delta_device_t *device = session->device;
  if (from.is_below) return delta_tier_read(session->tier, from.offset_bytes, piece, size_bytes);
  return device->driver->read(device, piece, device->driver->arena_address(session->arena, from.offset_bytes), size_bytes);
}

static delta_status_t write_piece(const delta_session_t *session, place_t to, const void *piece, size_t size_bytes) {
  delta_device_t *device = session->device;
  if (to.is_below) return delta_tier_write(session->tier, to.offset_bytes, piece, size_bytes);
  return device->driver->write(device, device->driver->arena_address(session->arena, to.offset_bytes), piece, size_bytes);
}

static delta_status_t copy(const delta_session_t *session, place_t from, place_t to, size_t size_bytes, void *piece) {
  for (size_t done = 0, part; done < size_bytes; done += part) {
    part = size_bytes - done < PIECE_BYTES ? size_bytes - done : PIECE_BYTES;
    DELTA_RETURN_IF_ERROR(read_piece(session, from, piece, part));
    DELTA_RETURN_IF_ERROR(write_piece(session, to, piece, part));
    from.offset_bytes += part;
    to.offset_bytes += part;
  }
  return DELTA_OK;
}

typedef enum way { ASIDE, TO_NEW_PLACES, BACK } way_t;

static delta_status_t move_all(delta_session_t *session, const delta_state_move_t *move, way_t way) {
  place_t spare = {.is_below = !move->is_in_arena, .offset_bytes = move->spare_bytes};
  for (uint32_t i = 0; i < move->from->state_count; ++i) {
    const delta_plan_state_t *before = &move->from->states[i], *after = &move->to->states[i];
    if (!has_moved(before, after)) continue;
    const place_t place = place_of(way == TO_NEW_PLACES ? after : before);
    delta_status_t status = way == ASIDE ? copy(session, place, spare, before->size_bytes, move->piece)
                                         : copy(session, spare, place, before->size_bytes, move->piece);
    if (status) return delta_status_annotate(status, "moving state '%s'", before->name);
    spare.offset_bytes += whole_blocks(before->size_bytes);
  }
  return DELTA_OK;
}

// Behind the states of both plans nothing has to stay between two runs.
static delta_status_t find_spare_bytes(delta_session_t *session, delta_state_move_t *move) {
  const uint64_t from_bytes = move->from->totals.state_bytes, to_bytes = move->to->totals.state_bytes;
  move->spare_bytes = whole_blocks(from_bytes > to_bytes ? from_bytes : to_bytes);
  move->is_in_arena = move->spare_bytes + move->moved_bytes <= session->committed_bytes;
  if (move->is_in_arena) return DELTA_OK;
  const uint64_t used_bytes = whole_blocks(session->tier ? delta_tier_size_bytes(session->tier) : 0);
  const uint64_t home_bytes = whole_blocks(delta_plan_home_bytes(move->to));
  move->spare_bytes = used_bytes > home_bytes ? used_bytes : home_bytes;
  return delta_session_reserve_tier(session, move->spare_bytes + move->moved_bytes);
}

delta_status_t delta_session_lift_states(delta_session_t *session, const delta_plan_t *to, delta_state_move_t *out_move) {
  *out_move = (delta_state_move_t){.from = session->plan, .to = to, .moved_bytes = moved_bytes(session->plan, to)};
  if (out_move->moved_bytes == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(find_spare_bytes(session, out_move));
  DELTA_RETURN_IF_ERROR(delta_allocate(session->allocator, PIECE_BYTES, 1, &out_move->piece));
  return move_all(session, out_move, ASIDE);
}

delta_status_t delta_session_drop_states(delta_session_t *session, const delta_state_move_t *move) {
  return move->moved_bytes == 0 ? DELTA_OK : move_all(session, move, TO_NEW_PLACES);
}

delta_status_t delta_session_put_back_states(delta_session_t *session, const delta_state_move_t *move) {
  return move->moved_bytes == 0 ? DELTA_OK : move_all(session, move, BACK);
}

void delta_session_end_move(delta_session_t *session, delta_state_move_t *move) {
  delta_release(session->allocator, move->piece);
  move->piece = NULL;
}
