// What nobody owns: bytes that the plan leaves free, those behind the data of buffers and states, and committed bytes beyond the program's own.
//
// A byte is free at a step when it is certain that nobody uses it meanwhile, also not a copy that is late or early: every buffer there has either seen all its users end before the
// step starts, or is written first by a step that starts only when this one has ended.
#include <stdlib.h>

#include "runtime/auditor_parts.h"

// ---- Where buffers lie, and when

static int compare_sizes(const void *a, const void *b) {
  const size_t first = *(const size_t *)a, second = *(const size_t *)b;
  return (first > second) - (first < second);
}

// Cuts the program's bytes where buffers begin and end. The last segment is what may be committed beyond them.
static delta_status_t cut_segments(delta_auditor_t *auditor) {
  const delta_schedule_t *schedule = auditor->options.schedule;
  size_t *cuts = NULL;
  const size_t most_cuts = 2 * (size_t)schedule->buffer_count + 2;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&auditor->region, most_cuts, &cuts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&auditor->region, most_cuts, &auditor->segments));
  cuts[0] = 0;
  cuts[1] = schedule->arena_bytes;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    cuts[2 * b + 2] = schedule->buffers[b].offset_bytes;
    cuts[2 * b + 3] = schedule->buffers[b].offset_bytes + schedule->buffers[b].size_bytes;
  }
  qsort(cuts, most_cuts, sizeof *cuts, compare_sizes);
  for (size_t i = 0; i + 1 < most_cuts; ++i) {
    if (cuts[i] == cuts[i + 1]) continue;
    auditor->segments[auditor->segment_count++] = (delta_audited_segment_t){.begin_bytes = cuts[i], .end_bytes = cuts[i + 1]};
  }
  auditor->segments[auditor->segment_count++] =
      (delta_audited_segment_t){.begin_bytes = schedule->arena_bytes, .end_bytes = schedule->arena_bytes};
  return DELTA_OK;
}

// The segment that begins at a cut.
static uint32_t find_segment(const delta_auditor_t *auditor, size_t begin_bytes) {
  uint32_t low = 0, high = auditor->segment_count - 1;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (auditor->segments[middle].begin_bytes < begin_bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static void note_users(delta_auditor_t *auditor, uint32_t s) {
  const delta_schedule_step_t *step = &auditor->options.schedule->steps[s];
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (step->inputs[k] != DELTA_PROBLEM_NONE) auditor->buffers[step->inputs[k]].users[step->lane] = s + 1;
  }
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (step->outputs[k] == DELTA_PROBLEM_NONE) continue;
    auditor->buffers[step->outputs[k]].users[step->lane] = s + 1;
    auditor->buffers[step->outputs[k]].writer = s;
  }
  if (step->workspace == DELTA_PROBLEM_NONE) return;
  auditor->buffers[step->workspace].users[step->lane] = s + 1;
  auditor->buffers[step->workspace].writer = s;
}

// Where the pattern begins behind a buffer's data. One that takes over another's bytes leaves what was data there.
static size_t find_pattern(const delta_auditor_t *auditor, uint32_t b) {
  const delta_buffer_t *buffer = &auditor->options.schedule->buffers[b];
  if (buffer->tensor == DELTA_PROBLEM_NONE) return buffer->size_bytes;
  const size_t data_bytes = auditor->data_bytes[buffer->tensor];
  if (buffer->inplace_of == DELTA_PROBLEM_NONE) return data_bytes;
  // A copy brings its own bytes, and what takes bytes of several buffers has their data behind its own.
  const delta_audited_buffer_t *taken = &auditor->buffers[buffer->inplace_of];
  const bool is_copied = taken->writer != DELTA_PROBLEM_NONE && auditor->options.schedule->steps[taken->writer].kind != DELTA_STEP_RUN;
  if (is_copied || delta_buffer_is_in_row(auditor->options.schedule->buffers, b) || buffer->inplace_of > b) return buffer->size_bytes;
  return taken->pattern_offset_bytes > data_bytes ? taken->pattern_offset_bytes : data_bytes;
}

static bool has_users(const delta_audited_buffer_t *buffer) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    if (buffer->users[l] > 0) return true;
  }
  return false;
}

static void place_buffer(delta_auditor_t *auditor, uint32_t b) {
  const delta_schedule_t *schedule = auditor->options.schedule;
  const delta_buffer_t *buffer = &schedule->buffers[b];
  delta_audited_buffer_t *audited = &auditor->buffers[b];
  // An input that nobody reads.
  if (!has_users(audited)) audited->users[schedule->steps[buffer->last_step].lane] = buffer->last_step + 1;
  audited->first_segment = find_segment(auditor, buffer->offset_bytes);
  audited->end_segment = find_segment(auditor, buffer->offset_bytes + buffer->size_bytes);
  audited->outlives = buffer->tensor != DELTA_PROBLEM_NONE && buffer->last_step + 1 == schedule->step_count &&
                      (auditor->options.problem->tensors[buffer->tensor].flags & DELTA_TENSOR_OUTPUT);
  audited->pattern_offset_bytes = find_pattern(auditor, b);
}

static delta_status_t order_steps(delta_auditor_t *auditor) {
  const delta_schedule_t *schedule = auditor->options.schedule;
  uint32_t last_of_lane[DELTA_LANE_COUNT] = {0};
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&auditor->region, schedule->step_count, &auditor->ended));
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    if (auditor->options.overlaps) {
      delta_schedule_order_step(schedule, s, last_of_lane, auditor->ended);
    } else {
      for (int l = 0; l < DELTA_LANE_COUNT; ++l) auditor->ended[s][l] = s;
    }
  }
  return DELTA_OK;
}

delta_status_t delta_auditor_survey(delta_auditor_t *auditor) {
  const delta_schedule_t *schedule = auditor->options.schedule;
  DELTA_RETURN_IF_ERROR(cut_segments(auditor));
  DELTA_RETURN_IF_ERROR(order_steps(auditor));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&auditor->region, schedule->buffer_count, &auditor->buffers));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) auditor->buffers[b].writer = DELTA_PROBLEM_NONE;
  for (uint32_t s = 0; s < schedule->step_count; ++s) note_users(auditor, s);
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) place_buffer(auditor, b);
  return DELTA_OK;
}

// ---- Free bytes

// Whether a buffer may be in use while a step runs.
static bool is_in_use(const delta_auditor_t *auditor, const delta_audited_buffer_t *buffer, uint32_t step) {
  const delta_lane_t lane = auditor->options.schedule->steps[step].lane;
  if (buffer->writer != DELTA_PROBLEM_NONE && auditor->ended[buffer->writer][lane] > step) return false;
  if (buffer->outlives) return true;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    if (buffer->users[l] > auditor->ended[step][l]) return true;
  }
  return false;
}

static void mark_occupied(delta_auditor_t *auditor, uint32_t step) {
  for (uint32_t i = 0; i < auditor->segment_count; ++i) auditor->segments[i].is_occupied = false;
  for (uint32_t b = 0; b < auditor->options.schedule->buffer_count; ++b) {
    const delta_audited_buffer_t *buffer = &auditor->buffers[b];
    if (!is_in_use(auditor, buffer, step)) continue;
    for (uint32_t i = buffer->first_segment; i < buffer->end_segment; ++i) auditor->segments[i].is_occupied = true;
  }
}

// Whether a tensor is kept in bytes of the segment.
static bool is_claimed(const delta_auditor_t *auditor, const delta_audited_segment_t *segment) {
  const delta_keeper_t *keeper = auditor->options.keeper;
  const uint32_t count = keeper ? atomic_load(&keeper->count) : 0;
  for (uint32_t i = 0; i < count; ++i) {
    const delta_kept_t *kept = &keeper->kept[i];
    if (kept->offset_bytes < segment->end_bytes && segment->begin_bytes < kept->offset_bytes + kept->size_bytes) return true;
  }
  return false;
}

static void lock_keeper(const delta_auditor_t *auditor) {
  if (auditor->options.keeper_mutex) pthread_mutex_lock(auditor->options.keeper_mutex);
}

static void unlock_keeper(const delta_auditor_t *auditor) {
  if (auditor->options.keeper_mutex) pthread_mutex_unlock(auditor->options.keeper_mutex);
}

static delta_status_t fill_free(delta_auditor_t *auditor) {
  for (uint32_t i = 0; i < auditor->segment_count; ++i) {
    delta_audited_segment_t *segment = &auditor->segments[i];
    if (segment->is_occupied || is_claimed(auditor, segment)) {
      segment->has_pattern = false;
    } else if (!segment->has_pattern) {
      DELTA_RETURN_IF_ERROR(
          delta_auditor_fill(auditor, auditor->options.state_bytes + segment->begin_bytes, segment->end_bytes - segment->begin_bytes));
      segment->has_pattern = true;
    }
  }
  return DELTA_OK;
}

// The tensor of the buffer in use that is nearest to a touched byte, on one side of it.
static const char *find_neighbour(const delta_auditor_t *auditor, uint32_t step, size_t touched_bytes, bool is_before) {
  const delta_schedule_t *schedule = auditor->options.schedule;
  const char *name = "(none)";
  size_t least_bytes = SIZE_MAX;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    const size_t end_bytes = buffer->offset_bytes + buffer->size_bytes;
    if (is_before ? end_bytes > touched_bytes : buffer->offset_bytes <= touched_bytes) continue;
    const size_t distance_bytes = is_before ? touched_bytes - end_bytes : buffer->offset_bytes - touched_bytes;
    if (distance_bytes >= least_bytes || !is_in_use(auditor, &auditor->buffers[b], step)) continue;
    least_bytes = distance_bytes;
    name = buffer->tensor == DELTA_PROBLEM_NONE ? "(workspace)" : auditor->options.problem->tensors[buffer->tensor].name;
  }
  return name;
}

static delta_status_t check_free(delta_auditor_t *auditor, uint32_t step) {
  const size_t base_bytes = auditor->options.state_bytes;
  for (uint32_t i = 0; i < auditor->segment_count; ++i) {
    const delta_audited_segment_t *segment = &auditor->segments[i];
    size_t touched_bytes;
    uint8_t found;
    if (!segment->has_pattern || is_claimed(auditor, segment)) continue;
    DELTA_RETURN_IF_ERROR(delta_auditor_find_touched(auditor, base_bytes + segment->begin_bytes, segment->end_bytes - segment->begin_bytes,
                                                     &touched_bytes, &found));
    if (touched_bytes == SIZE_MAX) continue;
    char text[DELTA_AUDITOR_TEXT_BYTES];
    return delta_status_make(
        MISMATCH,
        "verify: %s: byte %zu of the arena, which the plan leaves free there, has 0x%02x where 0x%02x is wanted: something has written "
        "outside its buffer; in use before it is tensor '%.200s', behind it tensor '%.200s'",
        delta_auditor_step_text(auditor, step, text), touched_bytes, found, DELTA_AUDITOR_PATTERN,
        find_neighbour(auditor, step, touched_bytes - base_bytes, true), find_neighbour(auditor, step, touched_bytes - base_bytes, false));
  }
  return DELTA_OK;
}

// ---- Bytes behind data

static delta_status_t behind_data(const delta_auditor_t *auditor, uint32_t step, const char *what, const char *name, size_t touched_bytes,
                                  uint8_t found) {
  char text[DELTA_AUDITOR_TEXT_BYTES];
  return delta_status_make(MISMATCH,
                           "verify: %s: byte %zu of the arena, behind the data of %s '%s', has 0x%02x where 0x%02x is wanted: something "
                           "has written beyond the end",
                           delta_auditor_step_text(auditor, step, text), touched_bytes, what, name, found, DELTA_AUDITOR_PATTERN);
}

// A state that has bytes behind its content.
static bool has_rest(const delta_plan_state_t *state) {
  return !state->is_below && state->size_bytes > delta_plan_state_content_bytes(state);
}

static delta_status_t check_states(delta_auditor_t *auditor, uint32_t step) {
  const delta_plan_t *plan = auditor->options.plan;
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    const delta_plan_state_t *state = &plan->states[i];
    const size_t content_bytes = delta_plan_state_content_bytes(state);
    size_t touched_bytes;
    uint8_t found;
    if (!has_rest(state)) continue;
    DELTA_RETURN_IF_ERROR(delta_auditor_find_touched(auditor, state->offset_bytes + content_bytes, state->size_bytes - content_bytes,
                                                     &touched_bytes, &found));
    if (touched_bytes != SIZE_MAX) return behind_data(auditor, step, "state", state->name, touched_bytes, found);
  }
  return DELTA_OK;
}

static delta_status_t fill_behind_data(delta_auditor_t *auditor, uint32_t b) {
  const delta_buffer_t *buffer = &auditor->options.schedule->buffers[b];
  const size_t pattern_bytes = auditor->buffers[b].pattern_offset_bytes;
  return delta_auditor_fill(auditor, auditor->options.state_bytes + buffer->offset_bytes + pattern_bytes,
                            buffer->size_bytes - pattern_bytes);
}

// The buffers that a step gives values. What takes over another's bytes takes its pattern over as well.
static delta_status_t prepare_outputs(delta_auditor_t *auditor, uint32_t s) {
  const delta_schedule_step_t *step = &auditor->options.schedule->steps[s];
  for (uint32_t k = 0; k < step->output_count && step->kind == DELTA_STEP_RUN; ++k) {
    const uint32_t b = step->outputs[k];
    if (b == DELTA_PROBLEM_NONE || auditor->options.schedule->buffers[b].inplace_of != DELTA_PROBLEM_NONE) continue;
    DELTA_RETURN_IF_ERROR(fill_behind_data(auditor, b));
  }
  return DELTA_OK;
}

static delta_status_t check_outputs(delta_auditor_t *auditor, uint32_t s) {
  const delta_schedule_step_t *step = &auditor->options.schedule->steps[s];
  for (uint32_t k = 0; k < step->output_count && step->kind == DELTA_STEP_RUN; ++k) {
    if (step->outputs[k] == DELTA_PROBLEM_NONE) continue;
    const delta_buffer_t *buffer = &auditor->options.schedule->buffers[step->outputs[k]];
    const size_t pattern_bytes = auditor->buffers[step->outputs[k]].pattern_offset_bytes;
    size_t touched_bytes;
    uint8_t found;
    DELTA_RETURN_IF_ERROR(delta_auditor_find_touched(auditor, auditor->options.state_bytes + buffer->offset_bytes + pattern_bytes,
                                                     buffer->size_bytes - pattern_bytes, &touched_bytes, &found));
    if (touched_bytes == SIZE_MAX) continue;
    return behind_data(auditor, s, "tensor", auditor->options.problem->tensors[buffer->tensor].name, touched_bytes, found);
  }
  return DELTA_OK;
}

// ---- Committed bytes

static delta_status_t check_committed(const delta_auditor_t *auditor, uint32_t step) {
  const delta_device_driver_t *driver = auditor->options.device->driver;
  if (!driver->arena_committed || auditor->arena_bytes == 0) return DELTA_OK;
  const uint64_t found_bytes = driver->arena_committed(auditor->options.arena);
  const uint64_t wanted_bytes = auditor->options.state_bytes + auditor->arena_bytes;
  if (found_bytes == wanted_bytes) return DELTA_OK;
  char text[DELTA_AUDITOR_TEXT_BYTES];
  return delta_status_make(MISMATCH, "verify: %s: the arena has %llu bytes committed where %llu are wanted",
                           delta_auditor_step_text(auditor, step, text), (unsigned long long)found_bytes, (unsigned long long)wanted_bytes);
}

// ---- A run

delta_status_t delta_auditor_begin_space(delta_auditor_t *auditor) {
  const delta_schedule_t *schedule = auditor->options.schedule;
  const delta_plan_t *plan = auditor->options.plan;
  delta_audited_segment_t *beyond = &auditor->segments[auditor->segment_count - 1];
  if (auditor->arena_bytes > 0 && auditor->arena_bytes < schedule->arena_bytes) {
    return delta_status_make(MISMATCH, "verify: %llu bytes are committed for a program that needs %llu",
                             (unsigned long long)auditor->arena_bytes, (unsigned long long)schedule->arena_bytes);
  }
  beyond->end_bytes = auditor->arena_bytes > beyond->begin_bytes ? (size_t)auditor->arena_bytes : beyond->begin_bytes;
  for (uint32_t i = 0; i < auditor->segment_count; ++i) auditor->segments[i].has_pattern = false;
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    const delta_plan_state_t *state = &plan->states[i];
    const size_t content_bytes = delta_plan_state_content_bytes(state);
    if (!has_rest(state)) continue;
    DELTA_RETURN_IF_ERROR(delta_auditor_fill(auditor, state->offset_bytes + content_bytes, state->size_bytes - content_bytes));
  }
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    if (auditor->buffers[b].writer == DELTA_PROBLEM_NONE) DELTA_RETURN_IF_ERROR(fill_behind_data(auditor, b));
  }
  return DELTA_OK;
}

delta_status_t delta_auditor_enter_space(delta_auditor_t *auditor, uint32_t step) {
  mark_occupied(auditor, step);
  lock_keeper(auditor);
  delta_status_t status = fill_free(auditor);
  unlock_keeper(auditor);
  return status ? status : prepare_outputs(auditor, step);
}

delta_status_t delta_auditor_leave_space(delta_auditor_t *auditor, uint32_t step) {
  DELTA_RETURN_IF_ERROR(check_committed(auditor, step));
  DELTA_RETURN_IF_ERROR(check_outputs(auditor, step));
  DELTA_RETURN_IF_ERROR(check_states(auditor, step));
  lock_keeper(auditor);
  delta_status_t status = check_free(auditor, step);
  unlock_keeper(auditor);
  return status;
}
