// Values: each has its checksum from the step that makes it, or from the time before the run, and is compared wherever it is read.
#include "runtime/auditor.h"

#include <string.h>

#include "runtime/auditor_parts.h"

// ---- Making

static uint32_t find_state(const delta_plan_t *plan, const char *name) {
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    if (strcmp(plan->states[i].name, name) == 0) return i;
  }
  return DELTA_PROBLEM_NONE;
}

// What each problem tensor is: how much of it is data, and which state it is or becomes.
static delta_status_t describe_tensors(delta_auditor_t *auditor) {
  const delta_auditor_options_t *o = &auditor->options;
  const delta_problem_t *problem = o->problem;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&auditor->region, problem->tensor_count, &auditor->data_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&auditor->region, problem->tensor_count, &auditor->state_of_tensor));
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    auditor->data_bytes[t] = problem->tensors[t].size_bytes;
    auditor->state_of_tensor[t] = DELTA_PROBLEM_NONE;
    if (problem->tensors[t].flags & DELTA_TENSOR_STATE) auditor->state_of_tensor[t] = find_state(o->plan, problem->tensors[t].name);
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const uint32_t state = problem->tensors[t].becomes_state;
    if (state != DELTA_PROBLEM_NONE) auditor->state_of_tensor[t] = auditor->state_of_tensor[state];
  }
  for (uint32_t i = 0; i < o->graph->tensors.count; ++i) {
    const delta_tensor_t *tensor = &o->graph->tensors.items[i];
    if (tensor->storage.index == i && o->tensor_of_storage[i] != DELTA_PROBLEM_NONE)
      auditor->data_bytes[o->tensor_of_storage[i]] = delta_tensor_bytes(tensor);
  }
  return DELTA_OK;
}

static delta_status_t set_up(delta_auditor_t *auditor) {
  const delta_auditor_options_t *o = &auditor->options;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&auditor->region, DELTA_AUDITOR_PIECE_BYTES, &auditor->piece));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&auditor->region, DELTA_AUDITOR_PIECE_BYTES, &auditor->pattern));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&auditor->region, o->problem->tensor_count, &auditor->values));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&auditor->region, o->plan->state_count, &auditor->states));
  memset(auditor->pattern, DELTA_AUDITOR_PATTERN, DELTA_AUDITOR_PIECE_BYTES);
  DELTA_RETURN_IF_ERROR(describe_tensors(auditor));
  return delta_auditor_survey(auditor);
}

delta_status_t delta_auditor_create(const delta_auditor_options_t *options, delta_allocator_t allocator, delta_auditor_t **out_auditor) {
  *out_auditor = NULL;
  delta_auditor_t *auditor = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &auditor));
  auditor->options = *options;
  auditor->allocator = allocator;
  delta_region_init(&auditor->region, allocator);
  delta_status_t status = set_up(auditor);
  if (status) {
    delta_auditor_destroy(auditor);
    return status;
  }
  *out_auditor = auditor;
  return DELTA_OK;
}

void delta_auditor_destroy(delta_auditor_t *auditor) {
  if (!auditor) return;
  delta_region_deinit(&auditor->region);
  delta_release(auditor->allocator, auditor);
}

// ---- Values

static bool is_resident_state(const delta_auditor_t *auditor, uint32_t tensor) {
  return delta_problem_tensor_is_state(&auditor->options.problem->tensors[tensor]);
}

// What is known of a tensor. A resident state has one value, of which old and new are never wanted at once.
static delta_audited_value_t *value_of(delta_auditor_t *auditor, uint32_t tensor) {
  return is_resident_state(auditor, tensor) ? &auditor->states[auditor->state_of_tensor[tensor]] : &auditor->values[tensor];
}

static size_t offset_of(const delta_auditor_t *auditor, uint32_t tensor, uint32_t buffer) {
  if (is_resident_state(auditor, tensor)) return auditor->options.plan->states[auditor->state_of_tensor[tensor]].offset_bytes;
  return auditor->options.state_bytes + auditor->options.schedule->buffers[buffer].offset_bytes;
}

// How the value came to the place where it is read.
static const char *describe_way(const delta_auditor_t *auditor, uint32_t tensor, uint32_t buffer) {
  if (is_resident_state(auditor, tensor)) return "a state that was kept";
  const uint32_t writer = auditor->buffers[buffer].writer;
  if (writer == DELTA_PROBLEM_NONE) return "which was fed, and kept";
  return auditor->options.schedule->steps[writer].kind == DELTA_STEP_RUN ? "which was kept" : "which came back from the tier below";
}

// Compares a tensor at its use with what was made.
static delta_status_t check_use(delta_auditor_t *auditor, uint32_t step, uint32_t tensor, uint32_t buffer) {
  const delta_audited_value_t *value = value_of(auditor, tensor);
  uint64_t sum;
  if (!value->is_known) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_auditor_sum(auditor, offset_of(auditor, tensor, buffer), auditor->data_bytes[tensor], &sum));
  if (sum == value->sum) return DELTA_OK;
  char here[DELTA_AUDITOR_TEXT_BYTES], there[DELTA_AUDITOR_TEXT_BYTES];
  return delta_status_make(
      MISMATCH, "verify: %s: tensor '%s', %s, has checksum %016llx where %016llx is wanted, that of %s",
      delta_auditor_step_text(auditor, step, here), auditor->options.problem->tensors[tensor].name, describe_way(auditor, tensor, buffer),
      (unsigned long long)sum, (unsigned long long)value->sum,
      value->maker == DELTA_PROBLEM_NONE ? "the time before the run" : delta_auditor_step_text(auditor, value->maker, there));
}

// Takes the checksum of what a step has made. What is made again is what it was.
static delta_status_t note_made(delta_auditor_t *auditor, uint32_t step, uint32_t tensor, uint32_t buffer) {
  const bool is_kept = is_resident_state(auditor, tensor);
  const uint32_t state = auditor->state_of_tensor[tensor];
  delta_audited_value_t *value = value_of(auditor, tensor);
  delta_audited_value_t made = {.maker = step, .is_known = true};
  DELTA_RETURN_IF_ERROR(delta_auditor_sum(auditor, offset_of(auditor, tensor, buffer), auditor->data_bytes[tensor], &made.sum));
  if (!is_kept && value->is_known && value->sum != made.sum) {
    char here[DELTA_AUDITOR_TEXT_BYTES], there[DELTA_AUDITOR_TEXT_BYTES];
    return delta_status_make(
        MISMATCH,
        "verify: %s: tensor '%s', which was dropped and made again, has checksum %016llx where %016llx is wanted, that "
        "of %s",
        delta_auditor_step_text(auditor, step, here), auditor->options.problem->tensors[tensor].name, (unsigned long long)made.sum,
        (unsigned long long)value->sum, delta_auditor_step_text(auditor, value->maker, there));
  }
  *value = made;
  if (!is_kept && state != DELTA_PROBLEM_NONE) auditor->states[state] = made;
  return DELTA_OK;
}

// ---- States before and after a run

static delta_status_t sum_state(delta_auditor_t *auditor, uint32_t index, uint64_t *out_sum) {
  const delta_plan_state_t *state = &auditor->options.plan->states[index];
  const size_t content_bytes = delta_plan_state_content_bytes(state);
  return state->is_below ? delta_auditor_sum_below(auditor, state->home_offset_bytes, content_bytes, out_sum)
                         : delta_auditor_sum(auditor, state->offset_bytes, content_bytes, out_sum);
}

static delta_status_t begin_states(delta_auditor_t *auditor) {
  for (uint32_t i = 0; i < auditor->options.plan->state_count; ++i) {
    auditor->states[i] = (delta_audited_value_t){.maker = DELTA_PROBLEM_NONE, .is_known = true};
    DELTA_RETURN_IF_ERROR(sum_state(auditor, i, &auditor->states[i].sum));
  }
  return DELTA_OK;
}

// Every state has the value that the run made, or the one before, where its home is.
static delta_status_t end_states(delta_auditor_t *auditor) {
  for (uint32_t i = 0; i < auditor->options.plan->state_count; ++i) {
    const delta_plan_state_t *state = &auditor->options.plan->states[i];
    const delta_audited_value_t *wanted = &auditor->states[i];
    uint64_t sum;
    DELTA_RETURN_IF_ERROR(sum_state(auditor, i, &sum));
    if (sum == wanted->sum) continue;
    char there[DELTA_AUDITOR_TEXT_BYTES];
    return delta_status_make(
        MISMATCH, "verify: at the end of the run: state '%s', %s, has checksum %016llx where %016llx is wanted, that of %s", state->name,
        state->is_below ? "whose home is the tier below" : "which was kept", (unsigned long long)sum, (unsigned long long)wanted->sum,
        wanted->maker == DELTA_PROBLEM_NONE ? "the time before the run" : delta_auditor_step_text(auditor, wanted->maker, there));
  }
  return DELTA_OK;
}

// Inputs that were fed, and states whose home is below.
static delta_status_t begin_values(delta_auditor_t *auditor) {
  const delta_problem_t *problem = auditor->options.problem;
  memset(auditor->values, 0, problem->tensor_count * sizeof *auditor->values);
  for (uint32_t b = 0; b < auditor->options.schedule->buffer_count; ++b) {
    const uint32_t tensor = auditor->options.schedule->buffers[b].tensor;
    if (auditor->buffers[b].writer != DELTA_PROBLEM_NONE) continue;
    delta_audited_value_t *value = &auditor->values[tensor];
    *value = (delta_audited_value_t){.maker = DELTA_PROBLEM_NONE, .is_known = true};
    DELTA_RETURN_IF_ERROR(delta_auditor_sum(auditor, offset_of(auditor, tensor, b), auditor->data_bytes[tensor], &value->sum));
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const bool is_below = (problem->tensors[t].flags & DELTA_TENSOR_STATE) && (problem->tensors[t].flags & DELTA_TENSOR_BELOW);
    if (is_below) auditor->values[t] = auditor->states[auditor->state_of_tensor[t]];
  }
  return DELTA_OK;
}

// ---- A run

static delta_status_t synchronize(const delta_auditor_t *auditor) {
  return auditor->options.device->driver->synchronize(auditor->options.device);
}

delta_status_t delta_auditor_begin(delta_auditor_t *auditor, uint64_t arena_bytes) {
  auditor->arena_bytes = arena_bytes;
  DELTA_RETURN_IF_ERROR(synchronize(auditor));
  DELTA_RETURN_IF_ERROR(begin_states(auditor));
  DELTA_RETURN_IF_ERROR(begin_values(auditor));
  return delta_auditor_begin_space(auditor);
}

// The problem tensor of a list's entry: of a copy, that of its buffer.
static uint32_t tensor_of(const delta_auditor_t *auditor, const delta_schedule_step_t *step, const uint32_t *of_problem_step, uint32_t k,
                          uint32_t buffer) {
  return step->kind == DELTA_STEP_RUN ? of_problem_step[k] : auditor->options.schedule->buffers[buffer].tensor;
}

delta_status_t delta_auditor_enter(delta_auditor_t *auditor, uint32_t s) {
  const delta_schedule_step_t *step = &auditor->options.schedule->steps[s];
  const uint32_t *tensors = step->kind == DELTA_STEP_RUN ? auditor->options.problem->steps[step->problem_step].inputs : NULL;
  DELTA_RETURN_IF_ERROR(synchronize(auditor));
  for (uint32_t k = 0; k < step->input_count; ++k) {
    DELTA_RETURN_IF_ERROR(check_use(auditor, s, tensor_of(auditor, step, tensors, k, step->inputs[k]), step->inputs[k]));
  }
  return delta_auditor_enter_space(auditor, s);
}

delta_status_t delta_auditor_leave(delta_auditor_t *auditor, uint32_t s) {
  const delta_schedule_step_t *step = &auditor->options.schedule->steps[s];
  const uint32_t *tensors = step->kind == DELTA_STEP_RUN ? auditor->options.problem->steps[step->problem_step].outputs : NULL;
  DELTA_RETURN_IF_ERROR(synchronize(auditor));
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t tensor = tensor_of(auditor, step, tensors, k, step->outputs[k]);
    DELTA_RETURN_IF_ERROR(step->kind == DELTA_STEP_RUN ? note_made(auditor, s, tensor, step->outputs[k])
                                                       : check_use(auditor, s, tensor, step->outputs[k]));
  }
  return delta_auditor_leave_space(auditor, s);
}

delta_status_t delta_auditor_end(delta_auditor_t *auditor) {
  DELTA_RETURN_IF_ERROR(synchronize(auditor));
  return end_states(auditor);
}
