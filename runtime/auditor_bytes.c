// Bytes of the arena and of the tier below, piece by piece through the device.
#include <stdio.h>
#include <string.h>

#include "runtime/auditor_parts.h"

// A sum of 64 bits over words in four rows. Each step turns a row's state into another for certain when the word differs, and so does putting the rows together: a difference
// within one word is never missed.
typedef struct sum {
  uint64_t rows[4];
} sum_t;

static uint64_t mix(uint64_t state, uint64_t word) {
  state = (state ^ word) * UINT64_C(0x9E3779B97F4A7C15);
  return state ^ (state >> 29);
}

static uint64_t load_word(const uint8_t *bytes, size_t size_bytes) {
  uint64_t word = 0;
  memcpy(&word, bytes, size_bytes < sizeof word ? size_bytes : sizeof word);
  return word;
}

// Pieces but the last are whole rounds of the rows.
static void add_piece(sum_t *sum, const uint8_t *piece, size_t size_bytes) {
  enum { ROUND_BYTES = sizeof sum->rows };
  size_t at = 0;
  for (; at + ROUND_BYTES <= size_bytes; at += ROUND_BYTES) {
    for (size_t row = 0; row < 4; ++row) sum->rows[row] = mix(sum->rows[row], load_word(piece + at + 8 * row, 8));
  }
  for (size_t row = 0; at < size_bytes; at += 8, ++row) sum->rows[row] = mix(sum->rows[row], load_word(piece + at, size_bytes - at));
}

static uint64_t end_sum(const sum_t *sum, size_t size_bytes) {
  uint64_t state = size_bytes;
  for (size_t row = 0; row < 4; ++row) state = mix(state, sum->rows[row]);
  return state;
}

static size_t piece_bytes(size_t left_bytes) { return left_bytes < DELTA_AUDITOR_PIECE_BYTES ? left_bytes : DELTA_AUDITOR_PIECE_BYTES; }

static void *address_of(const delta_auditor_t *auditor, size_t offset_bytes) {
  return auditor->options.device->driver->arena_address(auditor->options.arena, offset_bytes);
}

static delta_status_t read_piece(delta_auditor_t *auditor, size_t offset_bytes, size_t size_bytes) {
  delta_device_t *device = auditor->options.device;
  return device->driver->read(device, auditor->piece, address_of(auditor, offset_bytes), size_bytes);
}

delta_status_t delta_auditor_sum(delta_auditor_t *auditor, size_t offset_bytes, size_t size_bytes, uint64_t *out_sum) {
  sum_t sum = {{0}};
  for (size_t done = 0, part; done < size_bytes; done += part) {
    part = piece_bytes(size_bytes - done);
    DELTA_RETURN_IF_ERROR(read_piece(auditor, offset_bytes + done, part));
    add_piece(&sum, auditor->piece, part);
  }
  *out_sum = end_sum(&sum, size_bytes);
  return DELTA_OK;
}

delta_status_t delta_auditor_sum_below(delta_auditor_t *auditor, uint64_t offset_bytes, size_t size_bytes, uint64_t *out_sum) {
  sum_t sum = {{0}};
  for (size_t done = 0, part; done < size_bytes; done += part) {
    part = piece_bytes(size_bytes - done);
    DELTA_RETURN_IF_ERROR(delta_tier_read(auditor->options.tier, offset_bytes + done, auditor->piece, part));
    add_piece(&sum, auditor->piece, part);
  }
  *out_sum = end_sum(&sum, size_bytes);
  return DELTA_OK;
}

delta_status_t delta_auditor_fill(delta_auditor_t *auditor, size_t offset_bytes, size_t size_bytes) {
  delta_device_t *device = auditor->options.device;
  for (size_t done = 0, part; done < size_bytes; done += part) {
    part = piece_bytes(size_bytes - done);
    DELTA_RETURN_IF_ERROR(device->driver->write(device, address_of(auditor, offset_bytes + done), auditor->pattern, part));
  }
  return DELTA_OK;
}

delta_status_t delta_auditor_find_touched(delta_auditor_t *auditor, size_t offset_bytes, size_t size_bytes, size_t *out_offset_bytes,
                                          uint8_t *out_found) {
  *out_offset_bytes = SIZE_MAX;
  for (size_t done = 0, part; done < size_bytes; done += part) {
    part = piece_bytes(size_bytes - done);
    DELTA_RETURN_IF_ERROR(read_piece(auditor, offset_bytes + done, part));
    if (memcmp(auditor->piece, auditor->pattern, part) == 0) continue;
    size_t at = 0;
    while (auditor->piece[at] == DELTA_AUDITOR_PATTERN) ++at;
    *out_offset_bytes = offset_bytes + done + at;
    *out_found = auditor->piece[at];
    return DELTA_OK;
  }
  return DELTA_OK;
}

const char *delta_auditor_step_text(const delta_auditor_t *auditor, uint32_t step, char buffer[DELTA_AUDITOR_TEXT_BYTES]) {
  static const char *const copies[DELTA_STEP_KIND_COUNT] = {
      [DELTA_STEP_SWAP_OUT] = "to the tier below", [DELTA_STEP_SWAP_IN] = "from the tier below"};
  const delta_schedule_t *schedule = auditor->options.schedule;
  const delta_problem_t *problem = auditor->options.problem;
  const delta_schedule_step_t *entry = &schedule->steps[step];
  if (entry->kind == DELTA_STEP_RUN) {
    snprintf(buffer, DELTA_AUDITOR_TEXT_BYTES, "step %u, node '%s'", step, problem->steps[entry->problem_step].name);
  } else {
    const uint32_t copied = entry->kind == DELTA_STEP_SWAP_OUT ? entry->inputs[0] : entry->outputs[0];
    snprintf(buffer, DELTA_AUDITOR_TEXT_BYTES, "step %u, copying '%s' %s", step, problem->tensors[schedule->buffers[copied].tensor].name,
             copies[entry->kind]);
  }
  return buffer;
}
