// Verifier, second part: the bytes. Buffers come in the order of their first steps and take their bytes from whoever held them last: that one must be dead, and
// all its users must certainly have ended. Those before it need no look: it looked at them when it came.
#include "plans/occupancy.h"
#include "plans/verifier.h"

typedef struct arena_walk {
  delta_verifier_t *verifier;
  uint32_t newcomer; // the buffer that takes its bytes now
  bool *is_taken;    // by buffer: an in-place output has its bytes
  bool *is_given;    // by tensor: the buffer of an input has been seen
  bool *is_kept;     // by tensor: a buffer of it lives at the end
} arena_walk_t;

static uint32_t last_schedule_step(const delta_schedule_t *schedule) { return schedule->step_count > 0 ? schedule->step_count - 1 : 0; }

static delta_status_t fault(const delta_verifier_t *verifier, uint32_t buffer, const char *text) {
  const delta_buffer_t *entry = &verifier->schedule->buffers[buffer];
  return delta_status_make(MALFORMED, "buffer %u of tensor '%s' (schedule steps %u to %u, %s) %s", buffer,
                           delta_verifier_buffer_name(verifier, buffer), entry->first_step, entry->last_step,
                           delta_verifier_step_name(verifier, entry->first_step), text);
}

// ---- Lifetimes and bounds

static delta_status_t check_lifetime(arena_walk_t *walk, uint32_t b) {
  const delta_verifier_t *verifier = walk->verifier;
  const delta_buffer_t *buffer = &verifier->schedule->buffers[b];
  const uint32_t flags = buffer->tensor == DELTA_PROBLEM_NONE ? 0 : verifier->problem->tensors[buffer->tensor].flags;
  const uint32_t end = last_schedule_step(verifier->schedule);
  if (verifier->writer[b] == DELTA_PROBLEM_NONE) {
    if (!(flags & DELTA_TENSOR_INPUT)) return fault(verifier, b, "is never written");
    if (buffer->first_step != 0) return fault(verifier, b, "holds an input but does not live from the first step");
    if (walk->is_given[buffer->tensor]) return fault(verifier, b, "is a second buffer for the same input");
    walk->is_given[buffer->tensor] = true;
  }
  uint32_t last_use = buffer->first_step;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    if (verifier->users[b][l] > last_use + 1) last_use = verifier->users[b][l] - 1;
  }
  const bool is_final = (flags & DELTA_TENSOR_OUTPUT) && buffer->last_step == end;
  if (buffer->last_step != last_use && !is_final) return fault(verifier, b, "does not live to its last use and no longer");
  if (is_final) walk->is_kept[buffer->tensor] = true;
  return DELTA_OK;
}

static delta_status_t check_bounds(const delta_verifier_t *verifier, uint32_t b) {
  const delta_buffer_t *buffer = &verifier->schedule->buffers[b];
  const uint64_t arena_bytes = verifier->schedule->arena_bytes;
  if (buffer->offset_bytes % verifier->problem->alignment_bytes != 0) return fault(verifier, b, "has an offset that is not aligned");
  if (buffer->offset_bytes > arena_bytes || buffer->size_bytes > arena_bytes - buffer->offset_bytes) {
    return fault(verifier, b, "lies outside the arena");
  }
  return DELTA_OK;
}

static delta_status_t check_ends(const arena_walk_t *walk) {
  const delta_problem_t *problem = walk->verifier->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &problem->tensors[t];
    if ((tensor->flags & DELTA_TENSOR_INPUT) && !walk->is_given[t]) {
      return delta_status_make(MALFORMED, "input '%s' has no buffer", tensor->name);
    }
    if ((tensor->flags & DELTA_TENSOR_OUTPUT) && !delta_problem_tensor_is_state(tensor) && !walk->is_kept[t]) {
      return delta_status_make(MALFORMED, "output '%s' has no buffer that lives to the end", tensor->name);
    }
  }
  return DELTA_OK;
}

static delta_status_t check_arena_bytes(const delta_verifier_t *verifier) {
  const delta_schedule_t *schedule = verifier->schedule;
  uint64_t end_bytes = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const uint64_t buffer_end = (uint64_t)schedule->buffers[b].offset_bytes + schedule->buffers[b].size_bytes;
    if (buffer_end > end_bytes) end_bytes = buffer_end;
  }
  if (end_bytes != schedule->arena_bytes) {
    return delta_status_make(MALFORMED, "the schedule states an arena of %llu bytes, its buffers end at %llu",
                             (unsigned long long)schedule->arena_bytes, (unsigned long long)end_bytes);
  }
  if (end_bytes > verifier->arena_limit_bytes) {
    return delta_status_make(MALFORMED, "the schedule needs an arena of %llu bytes, there are %llu", (unsigned long long)end_bytes,
                             (unsigned long long)verifier->arena_limit_bytes);
  }
  return DELTA_OK;
}

// ---- In-place pairs

static bool list_contains(const uint32_t *items, uint32_t count, uint32_t item) {
  for (uint32_t k = 0; k < count; ++k) {
    if (items[k] == item) return true;
  }
  return false;
}

// The problem step that a buffer is made by, or NULL.
static const delta_problem_step_t *maker_of(const delta_verifier_t *verifier, uint32_t b) {
  const delta_schedule_step_t *step = &verifier->schedule->steps[verifier->schedule->buffers[b].first_step];
  return step->kind == DELTA_STEP_RUN ? &verifier->problem->steps[step->problem_step] : NULL;
}

// Whether a buffer takes over bytes in a row; its source exists.
static bool is_in_row(const delta_verifier_t *verifier, uint32_t b) {
  const delta_problem_step_t *maker = maker_of(verifier, b);
  return maker && (maker->flags & DELTA_STEP_IN_ROW);
}

static bool pair_is_allowed(const delta_verifier_t *verifier, uint32_t input, uint32_t output) {
  const delta_buffer_t *buffers = verifier->schedule->buffers;
  const delta_schedule_step_t *step = &verifier->schedule->steps[buffers[output].first_step];
  if (step->kind != DELTA_STEP_RUN || !list_contains(step->inputs, step->input_count, input) ||
      !list_contains(step->outputs, step->output_count, output)) {
    return false;
  }
  const delta_problem_step_t *problem_step = &verifier->problem->steps[step->problem_step];
  for (uint32_t k = 0; k < problem_step->inplace_count; ++k) {
    const delta_inplace_pair_t *pair = &problem_step->inplace[k];
    if (pair->input == buffers[input].tensor && pair->output == buffers[output].tensor) return true;
  }
  return false;
}

// The buffers of a list lie one behind another from `offset_bytes` on.
static bool lie_in_row(const delta_schedule_t *schedule, const uint32_t *buffers, uint32_t count, size_t offset_bytes) {
  for (uint32_t k = 0; k < count; ++k) {
    if (schedule->buffers[buffers[k]].offset_bytes != offset_bytes) return false;
    offset_bytes += schedule->buffers[buffers[k]].size_bytes;
  }
  return true;
}

// All of a step's outputs take the bytes of all its inputs, or none does: what makes them sees from the first of each which it is.
static delta_status_t check_row(const delta_verifier_t *verifier, uint32_t b) {
  const delta_schedule_t *schedule = verifier->schedule;
  const delta_buffer_t *buffer = &schedule->buffers[b];
  const delta_schedule_step_t *step = &schedule->steps[buffer->first_step];
  if (buffer->inplace_of != step->inputs[0]) return fault(verifier, b, "takes over bytes that its step does not allow it to take");
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (schedule->buffers[step->outputs[k]].inplace_of != step->inputs[0])
      return fault(verifier, b, "takes over bytes in a row, but not with all outputs of its step");
  }
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (schedule->buffers[step->inputs[k]].last_step != buffer->first_step)
      return fault(verifier, b, "takes over bytes that are still needed");
  }
  const size_t offset_bytes = schedule->buffers[step->inputs[0]].offset_bytes;
  if (lie_in_row(schedule, step->inputs, step->input_count, offset_bytes) &&
      lie_in_row(schedule, step->outputs, step->output_count, offset_bytes)) {
    return DELTA_OK;
  }
  return fault(verifier, b, "takes over bytes in a row, but the buffers of its step do not lie one behind another");
}

static delta_status_t check_inplace(arena_walk_t *walk, uint32_t b) {
  const delta_verifier_t *verifier = walk->verifier;
  const delta_buffer_t *buffer = &verifier->schedule->buffers[b];
  const uint32_t source = buffer->inplace_of;
  if (source == DELTA_PROBLEM_NONE) return DELTA_OK;
  const bool is_made = source < verifier->schedule->buffer_count && verifier->writer[b] != DELTA_PROBLEM_NONE;
  if (is_made && is_in_row(verifier, b)) return check_row(verifier, b);
  if (!is_made || !pair_is_allowed(verifier, source, b)) {
    return fault(verifier, b, "takes over bytes that its step does not allow it to take");
  }
  const delta_buffer_t *taken = &verifier->schedule->buffers[source];
  if (taken->last_step != buffer->first_step || walk->is_taken[source]) {
    return fault(verifier, b, "takes over bytes that are still needed, or that another has taken");
  }
  if (taken->offset_bytes != buffer->offset_bytes || taken->size_bytes != buffer->size_bytes) {
    return fault(verifier, b, "takes over bytes but lies elsewhere");
  }
  walk->is_taken[source] = true;
  return DELTA_OK;
}

// ---- Who holds which bytes

// Whether the newcomer takes its bytes over from the holder, alone or in a row.
static bool takes_from(const delta_verifier_t *verifier, uint32_t newcomer, uint32_t holder) {
  const delta_buffer_t *buffer = &verifier->schedule->buffers[newcomer];
  if (buffer->inplace_of == DELTA_PROBLEM_NONE || !is_in_row(verifier, newcomer)) return buffer->inplace_of == holder;
  const delta_schedule_step_t *step = &verifier->schedule->steps[buffer->first_step];
  return list_contains(step->inputs, step->input_count, holder);
}

// All users of the buffer that held the bytes have ended when the newcomer's first step starts; that step itself may be one, when it works in place.
static delta_status_t visit_holder(void *self, uint32_t holder) {
  const arena_walk_t *walk = self;
  const delta_verifier_t *verifier = walk->verifier;
  const delta_buffer_t *newcomer = &verifier->schedule->buffers[walk->newcomer];
  const uint32_t first = newcomer->first_step;
  const bool works_in_place = takes_from(verifier, walk->newcomer, holder);
  if (verifier->schedule->buffers[holder].last_step >= first && !works_in_place) {
    return delta_status_make(MALFORMED, "schedule step %u (%s): buffers %u of tensor '%s' and %u of '%s' overlap while both live", first,
                             delta_verifier_step_name(verifier, first), walk->newcomer,
                             delta_verifier_buffer_name(verifier, walk->newcomer), holder, delta_verifier_buffer_name(verifier, holder));
  }
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    const uint32_t last_use = verifier->users[holder][l];
    if (last_use <= verifier->ended[first][l] || (works_in_place && last_use == first + 1)) continue;
    return delta_status_make(MALFORMED, "schedule step %u (%s): writes buffer %u of tensor '%s' without a wait for the users of '%s' there",
                             first, delta_verifier_step_name(verifier, first), walk->newcomer,
                             delta_verifier_buffer_name(verifier, walk->newcomer), delta_verifier_buffer_name(verifier, holder));
  }
  return DELTA_OK;
}

// Buffers by first step: a counting sort.
static delta_status_t sort_buffers(delta_verifier_t *verifier, uint32_t **out_sorted) {
  const delta_schedule_t *schedule = verifier->schedule;
  uint32_t *starts = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&verifier->scratch, (size_t)schedule->step_count + 2, &starts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&verifier->scratch, schedule->buffer_count, out_sorted));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) ++starts[schedule->buffers[b].first_step + 1];
  for (uint32_t s = 0; s <= schedule->step_count; ++s) starts[s + 1] += starts[s];
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) (*out_sorted)[starts[schedule->buffers[b].first_step]++] = b;
  return DELTA_OK;
}

static delta_status_t check_overlaps(arena_walk_t *walk) {
  delta_verifier_t *verifier = walk->verifier;
  const delta_schedule_t *schedule = verifier->schedule;
  uint32_t *sorted = NULL;
  uint64_t *begins = NULL, *ends = NULL;
  DELTA_RETURN_IF_ERROR(sort_buffers(verifier, &sorted));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&verifier->scratch, schedule->buffer_count, &begins));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&verifier->scratch, schedule->buffer_count, &ends));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    begins[b] = schedule->buffers[b].offset_bytes;
    ends[b] = begins[b] + schedule->buffers[b].size_bytes;
  }
  delta_occupancy_t occupancy;
  DELTA_RETURN_IF_ERROR(delta_occupancy_init(&occupancy, begins, ends, schedule->buffer_count, &verifier->scratch));
  for (uint32_t i = 0; i < schedule->buffer_count; ++i) {
    walk->newcomer = sorted[i];
    DELTA_RETURN_IF_ERROR(
        delta_occupancy_take(&occupancy, begins[walk->newcomer], ends[walk->newcomer], walk->newcomer, visit_holder, walk));
  }
  return DELTA_OK;
}

// The largest sum of live buffers and where it is first reached. Buffers do not overlap, so no sum passes the arena.
static delta_status_t check_peak(delta_verifier_t *verifier) {
  const delta_schedule_t *schedule = verifier->schedule;
  int64_t *change = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&verifier->scratch, (size_t)schedule->step_count + 2, &change));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    change[buffer->first_step + (buffer->inplace_of != DELTA_PROBLEM_NONE)] += (int64_t)buffer->size_bytes;
    change[buffer->last_step + 1] -= (int64_t)buffer->size_bytes;
  }
  int64_t live_bytes = 0, peak_bytes = 0;
  uint32_t peak_step = 0;
  for (uint32_t s = 0; s <= last_schedule_step(schedule); ++s) {
    live_bytes += change[s];
    if (live_bytes <= peak_bytes) continue;
    peak_bytes = live_bytes;
    peak_step = s;
  }
  if (schedule->peak_bytes == (uint64_t)peak_bytes && schedule->peak_step == peak_step) return DELTA_OK;
  return delta_status_make(MALFORMED, "the schedule states a peak of %llu bytes at step %u, its buffers give %lld at step %u",
                           (unsigned long long)schedule->peak_bytes, schedule->peak_step, (long long)peak_bytes, peak_step);
}

delta_status_t delta_verify_arena(delta_verifier_t *verifier) {
  const delta_schedule_t *schedule = verifier->schedule;
  arena_walk_t walk = {.verifier = verifier};
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&verifier->scratch, schedule->buffer_count, &walk.is_taken));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&verifier->scratch, verifier->problem->tensor_count, &walk.is_given));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&verifier->scratch, verifier->problem->tensor_count, &walk.is_kept));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    DELTA_RETURN_IF_ERROR(check_lifetime(&walk, b));
    DELTA_RETURN_IF_ERROR(check_bounds(verifier, b));
  }
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) DELTA_RETURN_IF_ERROR(check_inplace(&walk, b));
  DELTA_RETURN_IF_ERROR(check_ends(&walk));
  DELTA_RETURN_IF_ERROR(check_arena_bytes(verifier));
  DELTA_RETURN_IF_ERROR(check_overlaps(&walk));
  return check_peak(verifier);
}
