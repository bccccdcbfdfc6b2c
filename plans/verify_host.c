// Verifier, third part: the tier below. Its bytes hold the states that have their homes there, until their new values come, and copies of tensors in slots. Who copies
// to bytes must know that all copies from them have ended; at the end every home holds its state's last value.
#include "plans/occupancy.h"
#include "plans/verifier.h"

// Occupants: a step that copies below, or, from the number of steps on, the state that is at home there from the start.
typedef struct host_walk {
  delta_verifier_t *verifier;
  delta_occupancy_t occupancy;
  uint32_t step;         // that writes a slot now; step_count: none, states take their homes
  uint32_t *last_reader; // by occupant: the last step that copies it back, plus one; 0: none
} host_walk_t;

static uint32_t slot_buffer(const delta_schedule_t *schedule, uint32_t s) {
  const delta_schedule_step_t *step = &schedule->steps[s];
  return step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0];
}

static uint64_t slot_bytes(const delta_schedule_t *schedule, uint32_t s) { return schedule->buffers[slot_buffer(schedule, s)].size_bytes; }

// The tensor that an occupant brought.
static uint32_t occupant_tensor(const host_walk_t *walk, uint32_t occupant) {
  const delta_schedule_t *schedule = walk->verifier->schedule;
  return occupant >= schedule->step_count ? occupant - schedule->step_count : schedule->buffers[slot_buffer(schedule, occupant)].tensor;
}

static const char *tensor_name(const host_walk_t *walk, uint32_t tensor) { return walk->verifier->problem->tensors[tensor].name; }

static bool is_at_home_below(const delta_problem_tensor_t *tensor) {
  return (tensor->flags & DELTA_TENSOR_STATE) && (tensor->flags & DELTA_TENSOR_BELOW);
}

// Whether the step at hand may write over an occupant: a state at home makes room for its new value only, and that stays.
static bool may_replace(const host_walk_t *walk, uint32_t occupant) {
  const uint32_t step_count = walk->verifier->schedule->step_count;
  const delta_problem_tensor_t *tensors = walk->verifier->problem->tensors;
  if (walk->step == step_count) return false;
  if (occupant >= step_count) return tensors[occupant_tensor(walk, walk->step)].becomes_state == occupant - step_count;
  return tensors[occupant_tensor(walk, occupant)].becomes_state == DELTA_PROBLEM_NONE;
}

static delta_status_t visit_slot(void *self, uint32_t occupant) {
  const host_walk_t *walk = self;
  const delta_verifier_t *verifier = walk->verifier;
  const char *name = tensor_name(walk, occupant_tensor(walk, occupant));
  if (!may_replace(walk, occupant)) {
    return delta_status_make(MALFORMED, "%s writes host bytes where state '%s' has its home",
                             delta_verifier_step_name(verifier, walk->step), name);
  }
  const uint32_t reader = walk->last_reader[occupant];
  const bool reader_ended = reader == 0 || delta_verifier_happens_before(verifier, reader - 1, walk->step);
  const bool writer_ended = occupant >= verifier->schedule->step_count || delta_verifier_happens_before(verifier, occupant, walk->step);
  if (reader_ended && writer_ended) return DELTA_OK;
  return delta_status_make(MALFORMED, "schedule step %u writes host bytes without a wait for the copies of tensor '%s' there", walk->step,
                           name);
}

static delta_status_t write_slot(host_walk_t *walk, uint32_t s) {
  const delta_schedule_t *schedule = walk->verifier->schedule;
  const uint64_t begin = schedule->steps[s].host_offset_bytes;
  walk->step = s;
  return delta_occupancy_take(&walk->occupancy, begin, begin + slot_bytes(schedule, s), s, visit_slot, walk);
}

static delta_status_t read_slot(host_walk_t *walk, uint32_t s) {
  const delta_schedule_t *schedule = walk->verifier->schedule;
  const uint64_t begin = schedule->steps[s].host_offset_bytes, end = begin + slot_bytes(schedule, s);
  const uint32_t occupant = delta_occupancy_find(&walk->occupancy, begin, end), tensor = occupant_tensor(walk, s);
  if (occupant == DELTA_OCCUPANCY_NONE || occupant_tensor(walk, occupant) != tensor) {
    return delta_status_make(MALFORMED, "schedule step %u copies tensor '%s' from host bytes that do not hold it", s,
                             tensor_name(walk, tensor));
  }
  if (occupant < schedule->step_count && !delta_verifier_happens_before(walk->verifier, occupant, s)) {
    return delta_status_make(MALFORMED,
                             "schedule step %u copies tensor '%s' from the host without a wait for step %u, which copies it there", s,
                             tensor_name(walk, tensor), occupant);
  }
  walk->last_reader[occupant] = s + 1;
  return DELTA_OK;
}

// ---- Ranges

static delta_status_t check_total(const delta_verifier_t *verifier, uint64_t host_bytes) {
  const delta_schedule_t *schedule = verifier->schedule;
  if (host_bytes == schedule->host_bytes && host_bytes <= verifier->problem->host_budget_bytes) return DELTA_OK;
  return delta_status_make(MALFORMED, "the schedule states %llu host bytes, its copies end at %llu, there are %llu",
                           (unsigned long long)schedule->host_bytes, (unsigned long long)host_bytes,
                           (unsigned long long)verifier->problem->host_budget_bytes);
}

// The ranges of all copies and homes, and that the copies lie in the host bytes the schedule states.
static delta_status_t list_ranges(const delta_verifier_t *verifier, uint64_t *begins, uint64_t *ends, uint32_t *out_count) {
  const delta_schedule_t *schedule = verifier->schedule;
  const delta_problem_t *problem = verifier->problem;
  uint64_t host_bytes = problem->home_bytes;
  *out_count = 0;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    if (schedule->steps[s].kind == DELTA_STEP_RUN) continue;
    const uint64_t begin = schedule->steps[s].host_offset_bytes, size_bytes = slot_bytes(schedule, s);
    if (begin > schedule->host_bytes || size_bytes > schedule->host_bytes - begin) {
      return delta_status_make(MALFORMED, "schedule step %u copies to or from beyond the %llu host bytes", s,
                               (unsigned long long)schedule->host_bytes);
    }
    begins[*out_count] = begin;
    ends[(*out_count)++] = begin + size_bytes;
    if (begin + size_bytes > host_bytes) host_bytes = begin + size_bytes;
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (!is_at_home_below(&problem->tensors[t])) continue;
    begins[*out_count] = problem->tensors[t].home_offset_bytes;
    ends[*out_count] = begins[*out_count] + problem->tensors[t].size_bytes;
    ++*out_count;
  }
  return check_total(verifier, host_bytes);
}

static delta_status_t prepare(host_walk_t *walk) {
  delta_region_t *scratch = &walk->verifier->scratch;
  const size_t most = (size_t)walk->verifier->schedule->step_count + walk->verifier->problem->tensor_count;
  uint64_t *begins = NULL, *ends = NULL;
  uint32_t count = 0;
  if (most >= DELTA_OCCUPANCY_NONE) return delta_status_make(UNSUPPORTED, "a program of %zu steps and tensors", most);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, most, &walk->last_reader));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, most, &begins));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, most, &ends));
  DELTA_RETURN_IF_ERROR(list_ranges(walk->verifier, begins, ends, &count));
  return delta_occupancy_init(&walk->occupancy, begins, ends, count, scratch);
}

// ---- Homes

static delta_status_t move_in(host_walk_t *walk) {
  const delta_problem_t *problem = walk->verifier->problem;
  walk->step = walk->verifier->schedule->step_count;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &problem->tensors[t];
    if (!is_at_home_below(tensor)) continue;
    const uint64_t begin = tensor->home_offset_bytes;
    DELTA_RETURN_IF_ERROR(delta_occupancy_take(&walk->occupancy, begin, begin + tensor->size_bytes, walk->step + t, visit_slot, walk));
  }
  return DELTA_OK;
}

// Every new value is in its state's home.
static delta_status_t check_homes(const host_walk_t *walk) {
  const delta_problem_t *problem = walk->verifier->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const uint32_t state = problem->tensors[t].becomes_state;
    if (state == DELTA_PROBLEM_NONE || !is_at_home_below(&problem->tensors[state])) continue;
    const uint64_t begin = problem->tensors[state].home_offset_bytes;
    const uint32_t occupant = delta_occupancy_find(&walk->occupancy, begin, begin + problem->tensors[state].size_bytes);
    if (occupant != DELTA_OCCUPANCY_NONE && occupant_tensor(walk, occupant) == t) continue;
    return delta_status_make(MALFORMED, "the new value '%s' of state '%s' does not come to the state's home below", tensor_name(walk, t),
                             tensor_name(walk, state));
  }
  return DELTA_OK;
}

delta_status_t delta_verify_host(delta_verifier_t *verifier) {
  const delta_schedule_t *schedule = verifier->schedule;
  host_walk_t walk = {.verifier = verifier};
  DELTA_RETURN_IF_ERROR(prepare(&walk));
  DELTA_RETURN_IF_ERROR(move_in(&walk));
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_step_kind_t kind = schedule->steps[s].kind;
    if (kind == DELTA_STEP_SWAP_OUT) DELTA_RETURN_IF_ERROR(write_slot(&walk, s));
    if (kind == DELTA_STEP_SWAP_IN) DELTA_RETURN_IF_ERROR(read_slot(&walk, s));
  }
  return check_homes(&walk);
}
