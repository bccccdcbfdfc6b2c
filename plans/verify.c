// Verifier, first part: the steps. Lanes and waits give what certainly happens before what; on that rest the checks that every read sees the value it wants.
//
// Steps of one lane run in order, and a step waits for earlier steps of other lanes. So for each step it is enough to know, for each lane, the last step
// that has certainly ended when it starts; a wait adds what its step knew.
#include "plans/verifier.h"

typedef struct step_walk {
  delta_verifier_t *verifier;
  uint32_t *run_count;  // by problem step
  bool *is_overwritten; // by state tensor: its new value has been written
  bool *is_made;        // by problem tensor
} step_walk_t;

const char *delta_verifier_step_name(const delta_verifier_t *verifier, uint32_t step) {
  if (step >= verifier->schedule->step_count) return "(start)";
  const delta_schedule_step_t *entry = &verifier->schedule->steps[step];
  if (entry->kind == DELTA_STEP_SWAP_OUT) return "swap out";
  if (entry->kind == DELTA_STEP_SWAP_IN) return "swap in";
  return verifier->problem->steps[entry->problem_step].name;
}

const char *delta_verifier_buffer_name(const delta_verifier_t *verifier, uint32_t buffer) {
  const uint32_t tensor = verifier->schedule->buffers[buffer].tensor;
  return tensor == DELTA_PROBLEM_NONE ? "(workspace)" : verifier->problem->tensors[tensor].name;
}

// ---- What happens before what

static const delta_lane_t lane_of_kind[] = {
    [DELTA_STEP_RUN] = DELTA_LANE_COMPUTE, [DELTA_STEP_SWAP_OUT] = DELTA_LANE_OFFLOAD, [DELTA_STEP_SWAP_IN] = DELTA_LANE_PREFETCH};

static delta_status_t check_frame(const delta_verifier_t *verifier, uint32_t s) {
  const delta_schedule_step_t *step = &verifier->schedule->steps[s];
  if ((unsigned)step->kind >= DELTA_STEP_KIND_COUNT || step->lane != lane_of_kind[step->kind]) {
    return delta_status_make(MALFORMED, "schedule step %u: kind %d does not run on lane %d", s, (int)step->kind, (int)step->lane);
  }
  if (step->kind == DELTA_STEP_RUN && step->problem_step >= verifier->problem->step_count) {
    return delta_status_make(MALFORMED, "schedule step %u runs step %u of %u", s, step->problem_step, verifier->problem->step_count);
  }
  for (uint32_t w = 0; w < step->wait_count; ++w) {
    const bool in_order = step->waits[w] < s && (w == 0 || step->waits[w] > step->waits[w - 1]);
    if (!in_order || verifier->schedule->steps[step->waits[w]].lane == step->lane) {
      return delta_status_make(MALFORMED,
                               "schedule step %u (%s): its wait for step %u is not for an earlier step of another lane, in order", s,
                               delta_verifier_step_name(verifier, s), step->waits[w]);
    }
  }
  return DELTA_OK;
}

// ---- Uses of buffers

// The fault of a buffer of step s, in the words of `text`.
static delta_status_t buffer_fault(const delta_verifier_t *verifier, uint32_t s, uint32_t buffer, const char *text) {
  return delta_status_make(MALFORMED, "schedule step %u (%s): buffer %u of tensor '%s' %s", s, delta_verifier_step_name(verifier, s),
                           buffer, delta_verifier_buffer_name(verifier, buffer), text);
}

// `buffer` must exist and hold `tensor` (DELTA_PROBLEM_NONE: a workspace).
static delta_status_t check_buffer(const delta_verifier_t *verifier, uint32_t s, uint32_t buffer, uint32_t tensor) {
  if (buffer >= verifier->schedule->buffer_count) {
    return delta_status_make(MALFORMED, "schedule step %u (%s): buffer %u of %u", s, delta_verifier_step_name(verifier, s), buffer,
                             verifier->schedule->buffer_count);
  }
  if (verifier->schedule->buffers[buffer].tensor == tensor) return DELTA_OK;
  return delta_status_make(MALFORMED, "schedule step %u (%s): buffer %u holds '%s', the step uses '%s'", s,
                           delta_verifier_step_name(verifier, s), buffer, delta_verifier_buffer_name(verifier, buffer),
                           tensor == DELTA_PROBLEM_NONE ? "(workspace)" : verifier->problem->tensors[tensor].name);
}

static void note_use(delta_verifier_t *verifier, uint32_t s, uint32_t buffer) {
  verifier->users[buffer][verifier->schedule->steps[s].lane] = s + 1;
}

static delta_status_t read_buffer(delta_verifier_t *verifier, uint32_t s, uint32_t buffer) {
  const uint32_t tensor = verifier->schedule->buffers[buffer].tensor, writer = verifier->writer[buffer];
  if (writer == DELTA_PROBLEM_NONE) {
    // Before the first step only inputs hold values, in buffers that exist from the start and are written by no step.
    const bool is_given = verifier->problem->tensors[tensor].flags & DELTA_TENSOR_INPUT;
    if (!is_given || verifier->schedule->buffers[buffer].first_step != 0) {
      return buffer_fault(verifier, s, buffer, "is read before it is written");
    }
  } else if (!delta_verifier_happens_before(verifier, writer, s)) {
    return buffer_fault(verifier, s, buffer, "is read without a wait for the step that writes it");
  }
  note_use(verifier, s, buffer);
  return DELTA_OK;
}

static delta_status_t write_buffer(delta_verifier_t *verifier, uint32_t s, uint32_t buffer) {
  const bool has_users = verifier->users[buffer][0] || verifier->users[buffer][1] || verifier->users[buffer][2];
  if (verifier->writer[buffer] != DELTA_PROBLEM_NONE || has_users)
    return buffer_fault(verifier, s, buffer, "is written twice, or after it is read");
  if (verifier->schedule->buffers[buffer].first_step != s)
    return buffer_fault(verifier, s, buffer, "does not live from the step that writes it");
  verifier->writer[buffer] = s;
  note_use(verifier, s, buffer);
  return DELTA_OK;
}

// ---- Kinds of steps

static delta_status_t state_fault(const delta_verifier_t *verifier, uint32_t s, uint32_t tensor, const char *text) {
  return delta_status_make(MALFORMED, "schedule step %u (%s): state tensor '%s' %s", s, delta_verifier_step_name(verifier, s),
                           verifier->problem->tensors[tensor].name, text);
}

static delta_status_t check_input(step_walk_t *walk, uint32_t s, uint32_t tensor, uint32_t buffer) {
  const delta_problem_tensor_t *entry = &walk->verifier->problem->tensors[tensor];
  if (!delta_problem_tensor_is_state(entry)) {
    DELTA_RETURN_IF_ERROR(check_buffer(walk->verifier, s, buffer, tensor));
    return read_buffer(walk->verifier, s, buffer);
  }
  if (buffer != DELTA_PROBLEM_NONE) return state_fault(walk->verifier, s, tensor, "has a buffer");
  if ((entry->flags & DELTA_TENSOR_STATE) && walk->is_overwritten[tensor]) {
    return state_fault(walk->verifier, s, tensor, "is read after its new value is written");
  }
  if (!(entry->flags & DELTA_TENSOR_STATE) && !walk->is_made[tensor]) {
    return state_fault(walk->verifier, s, tensor, "is read before it is written");
  }
  return DELTA_OK;
}

static delta_status_t check_output(step_walk_t *walk, uint32_t s, uint32_t tensor, uint32_t buffer) {
  const delta_problem_tensor_t *entry = &walk->verifier->problem->tensors[tensor];
  walk->is_made[tensor] = true;
  if (!delta_problem_tensor_is_state(entry)) {
    DELTA_RETURN_IF_ERROR(check_buffer(walk->verifier, s, buffer, tensor));
    return write_buffer(walk->verifier, s, buffer);
  }
  if (buffer != DELTA_PROBLEM_NONE) return state_fault(walk->verifier, s, tensor, "has a buffer");
  walk->is_overwritten[entry->becomes_state] = true;
  return DELTA_OK;
}

static delta_status_t check_workspace(delta_verifier_t *verifier, uint32_t s, const delta_problem_step_t *problem_step) {
  const uint32_t workspace = verifier->schedule->steps[s].workspace;
  if ((workspace != DELTA_PROBLEM_NONE) != (problem_step->workspace_bytes > 0)) {
    return delta_status_make(MALFORMED, "schedule step %u (%s): the step needs a workspace of %zu bytes and has %s", s,
                             delta_verifier_step_name(verifier, s), problem_step->workspace_bytes,
                             workspace == DELTA_PROBLEM_NONE ? "none" : "one");
  }
  if (workspace == DELTA_PROBLEM_NONE) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(check_buffer(verifier, s, workspace, DELTA_PROBLEM_NONE));
  if (verifier->schedule->buffers[workspace].size_bytes != problem_step->workspace_bytes) {
    return buffer_fault(verifier, s, workspace, "is not of the size the step needs");
  }
  return write_buffer(verifier, s, workspace);
}

static delta_status_t check_run(step_walk_t *walk, uint32_t s) {
  delta_verifier_t *verifier = walk->verifier;
  const delta_schedule_step_t *step = &verifier->schedule->steps[s];
  const delta_problem_step_t *problem_step = &verifier->problem->steps[step->problem_step];
  if (step->input_count != problem_step->input_count || step->output_count != problem_step->output_count) {
    return delta_status_make(MALFORMED, "schedule step %u (%s): %u inputs and %u outputs, the step has %u and %u", s, problem_step->name,
                             step->input_count, step->output_count, problem_step->input_count, problem_step->output_count);
  }
  if (walk->run_count[step->problem_step]++ > 0 && !(problem_step->flags & DELTA_STEP_PURE)) {
    return delta_status_make(MALFORMED, "schedule step %u (%s): runs again, but its result would differ", s, problem_step->name);
  }
  for (uint32_t k = 0; k < step->input_count; ++k) {
    DELTA_RETURN_IF_ERROR(check_input(walk, s, problem_step->inputs[k], step->inputs[k]));
  }
  DELTA_RETURN_IF_ERROR(check_workspace(verifier, s, problem_step));
  for (uint32_t k = 0; k < step->output_count; ++k) {
    DELTA_RETURN_IF_ERROR(check_output(walk, s, problem_step->outputs[k], step->outputs[k]));
  }
  return DELTA_OK;
}

static delta_status_t check_swap(step_walk_t *walk, uint32_t s) {
  delta_verifier_t *verifier = walk->verifier;
  const delta_schedule_step_t *step = &verifier->schedule->steps[s];
  const bool is_out = step->kind == DELTA_STEP_SWAP_OUT;
  if (step->input_count != is_out || step->output_count != !is_out || step->workspace != DELTA_PROBLEM_NONE) {
    return delta_status_make(MALFORMED, "schedule step %u (%s): a copy has one buffer", s, delta_verifier_step_name(verifier, s));
  }
  const uint32_t buffer = is_out ? step->inputs[0] : step->outputs[0];
  if (buffer >= verifier->schedule->buffer_count || verifier->schedule->buffers[buffer].tensor == DELTA_PROBLEM_NONE) {
    return delta_status_make(MALFORMED, "schedule step %u (%s): buffer %u holds no tensor", s, delta_verifier_step_name(verifier, s),
                             buffer);
  }
  return is_out ? read_buffer(verifier, s, buffer) : write_buffer(verifier, s, buffer);
}

static delta_status_t walk_steps(step_walk_t *walk) {
  delta_verifier_t *verifier = walk->verifier;
  uint32_t last_of_lane[DELTA_LANE_COUNT] = {0};
  for (uint32_t s = 0; s < verifier->schedule->step_count; ++s) {
    DELTA_RETURN_IF_ERROR(check_frame(verifier, s));
    delta_schedule_order_step(verifier->schedule, s, last_of_lane, verifier->ended);
    DELTA_RETURN_IF_ERROR(verifier->schedule->steps[s].kind == DELTA_STEP_RUN ? check_run(walk, s) : check_swap(walk, s));
  }
  for (uint32_t p = 0; p < verifier->problem->step_count; ++p) {
    if (walk->run_count[p] == 0) return delta_status_make(MALFORMED, "step '%s' never runs", verifier->problem->steps[p].name);
  }
  return DELTA_OK;
}

// ---- Totals

static delta_status_t check_total(const char *what, uint64_t stated, uint64_t found) {
  if (stated == found) return DELTA_OK;
  return delta_status_make(MALFORMED, "the schedule states %s of %llu, its steps give %llu", what, (unsigned long long)stated,
                           (unsigned long long)found);
}

static delta_status_t check_counts(step_walk_t *walk) {
  const delta_schedule_t *schedule = walk->verifier->schedule;
  uint64_t swapped_bytes = 0;
  uint32_t swapped_tensors = 0, recomputed_nodes = 0;
  bool *is_swapped = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&walk->verifier->scratch, walk->verifier->problem->tensor_count, &is_swapped));
  for (uint32_t p = 0; p < walk->verifier->problem->step_count; ++p) recomputed_nodes += walk->run_count[p] - 1;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    if (schedule->steps[s].kind != DELTA_STEP_SWAP_OUT) continue;
    const delta_buffer_t *buffer = &schedule->buffers[schedule->steps[s].inputs[0]];
    swapped_bytes += buffer->size_bytes;
    swapped_tensors += !is_swapped[buffer->tensor];
    is_swapped[buffer->tensor] = true;
  }
  DELTA_RETURN_IF_ERROR(check_total("swapped bytes", schedule->swapped_bytes, swapped_bytes));
  DELTA_RETURN_IF_ERROR(check_total("a number of swapped tensors", schedule->swapped_tensors, swapped_tensors));
  return check_total("a number of recomputed nodes", schedule->recomputed_nodes, recomputed_nodes);
}

static delta_status_t allocate_tables(step_walk_t *walk) {
  delta_verifier_t *verifier = walk->verifier;
  delta_region_t *scratch = &verifier->scratch;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, verifier->schedule->step_count, &verifier->ended));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, verifier->schedule->buffer_count, &verifier->writer));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, verifier->schedule->buffer_count, &verifier->users));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, verifier->problem->step_count, &walk->run_count));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, verifier->problem->tensor_count, &walk->is_overwritten));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, verifier->problem->tensor_count, &walk->is_made));
  for (uint32_t b = 0; b < verifier->schedule->buffer_count; ++b) verifier->writer[b] = DELTA_PROBLEM_NONE;
  return DELTA_OK;
}

// Tensors and sizes of buffers, before anything follows their indices.
static delta_status_t check_buffers(const delta_verifier_t *verifier) {
  const delta_problem_t *problem = verifier->problem;
  for (uint32_t b = 0; b < verifier->schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &verifier->schedule->buffers[b];
    if (buffer->tensor == DELTA_PROBLEM_NONE) continue; // a workspace: its step knows the size
    if (buffer->tensor >= problem->tensor_count) {
      return delta_status_make(MALFORMED, "buffer %u is for tensor %u of %u", b, buffer->tensor, problem->tensor_count);
    }
    const delta_problem_tensor_t *tensor = &problem->tensors[buffer->tensor];
    if (delta_problem_tensor_is_state(tensor) || buffer->size_bytes != tensor->size_bytes) {
      return delta_status_make(MALFORMED, "buffer %u of %zu bytes is not one for tensor '%s' of %zu", b, buffer->size_bytes, tensor->name,
                               tensor->size_bytes);
    }
  }
  return DELTA_OK;
}

static delta_status_t verify_all(step_walk_t *walk) {
  DELTA_RETURN_IF_ERROR(check_buffers(walk->verifier));
  DELTA_RETURN_IF_ERROR(allocate_tables(walk));
  DELTA_RETURN_IF_ERROR(walk_steps(walk));
  DELTA_RETURN_IF_ERROR(check_counts(walk));
  DELTA_RETURN_IF_ERROR(delta_verify_arena(walk->verifier));
  return delta_verify_host(walk->verifier);
}

delta_status_t delta_schedule_verify(const delta_schedule_t *schedule, const delta_problem_t *problem, uint64_t arena_bytes,
                                     delta_allocator_t allocator) {
  delta_verifier_t verifier = {.schedule = schedule, .problem = problem, .arena_limit_bytes = arena_bytes};
  step_walk_t walk = {.verifier = &verifier};
  delta_region_init(&verifier.scratch, allocator);
  delta_status_t status = verify_all(&walk);
  delta_region_deinit(&verifier.scratch);
  return status;
}
