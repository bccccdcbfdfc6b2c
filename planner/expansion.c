// Expansion: steps and buffers, one after another. A buffer's end is lazy: the last step that used it so far.
#include "planner/expansion.h"

// Below the device everything lies in whole blocks, so that a file can be read and written directly.
static size_t take_host_bytes(delta_schedule_t *schedule, size_t size_bytes) {
  const uint64_t blocks = (schedule->host_bytes + DELTA_HOST_BLOCK_BYTES - 1) / DELTA_HOST_BLOCK_BYTES;
  schedule->host_bytes = blocks * DELTA_HOST_BLOCK_BYTES + size_bytes;
  return (size_t)(blocks * DELTA_HOST_BLOCK_BYTES);
}

delta_action_t delta_expansion_action(const delta_expansion_t *expansion, uint32_t tensor) {
  const delta_decisions_t *decisions = expansion->decisions;
  const delta_residence_t *residence = &expansion->residences[tensor];
  if (residence->decision < decisions->count) {
    const delta_decision_t *decision = &decisions->items[residence->decision];
    const bool has_begun = decision->place == 0 || residence->is_split;
    if (decision->tensor == tensor && decision->use == residence->uses && has_begun) return decision->action;
  }
  return residence->has_tail && residence->uses == residence->all_uses ? decisions->tail : DELTA_ACTION_KEEP;
}

delta_status_t delta_expansion_add_buffer(delta_expansion_t *expansion, uint32_t tensor, size_t size_bytes, uint32_t *out_buffer) {
  const uint32_t step = expansion->steps.count > 0 ? (uint32_t)expansion->steps.count - 1 : 0;
  const delta_buffer_t buffer = {
      .tensor = tensor, .size_bytes = size_bytes, .first_step = step, .last_step = step, .inplace_of = DELTA_PROBLEM_NONE};
  if (expansion->buffers.count + 1 >= DELTA_PROBLEM_NONE) return delta_status_make(UNSUPPORTED, "the program has more than 2^32 buffers");
  *out_buffer = (uint32_t)expansion->buffers.count;
  return delta_array_push(expansion->allocator, &expansion->buffers, &buffer);
}

static delta_status_t add_tensor_buffer(delta_expansion_t *expansion, uint32_t tensor, uint32_t *out_buffer) {
  return delta_expansion_add_buffer(expansion, tensor, expansion->problem->tensors[tensor].size_bytes, out_buffer);
}

// Appends a step with empty lists of the given lengths. The pointer is valid until the next step.
static delta_status_t add_step(delta_expansion_t *expansion, delta_step_kind_t kind, delta_lane_t lane, uint32_t input_count,
                               uint32_t output_count, delta_schedule_step_t **out_step) {
  delta_schedule_step_t step = {.kind = kind,
                                .lane = lane,
                                .problem_step = DELTA_PROBLEM_NONE,
                                .input_count = input_count,
                                .output_count = output_count,
                                .workspace = DELTA_PROBLEM_NONE};
  if (expansion->steps.count + 1 >= DELTA_PROBLEM_NONE) return delta_status_make(UNSUPPORTED, "the program has more than 2^32 steps");
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&expansion->schedule->region, input_count, &step.inputs));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&expansion->schedule->region, output_count, &step.outputs));
  DELTA_RETURN_IF_ERROR(delta_array_push(expansion->allocator, &expansion->steps, &step));
  *out_step = &expansion->steps.items[expansion->steps.count - 1];
  return DELTA_OK;
}

static void use_buffer(delta_expansion_t *expansion, uint32_t buffer) {
  expansion->buffers.items[buffer].last_step = (uint32_t)expansion->steps.count - 1;
}

static delta_status_t write_outputs(delta_expansion_t *expansion, const delta_problem_step_t *problem_step, uint32_t *outputs) {
  for (uint32_t k = 0; k < problem_step->output_count; ++k) {
    const uint32_t tensor = problem_step->outputs[k];
    delta_residence_t *residence = &expansion->residences[tensor];
    outputs[k] = DELTA_PROBLEM_NONE;
    const uint32_t state = expansion->problem->tensors[tensor].becomes_state;
    if (state != DELTA_PROBLEM_NONE) expansion->is_overwritten[state] = true;
    if (delta_problem_tensor_is_state(&expansion->problem->tensors[tensor])) continue;
    DELTA_RETURN_IF_ERROR(add_tensor_buffer(expansion, tensor, &outputs[k]));
    // An output that exists already is made a second time only because its step makes it: those bytes end here.
    if (residence->buffer == DELTA_PROBLEM_NONE) residence->buffer = outputs[k];
  }
  return DELTA_OK;
}

delta_status_t delta_expansion_run(delta_expansion_t *expansion, uint32_t problem_step) {
  const delta_problem_step_t *entry = &expansion->problem->steps[problem_step];
  delta_schedule_step_t *step = NULL;
  DELTA_RETURN_IF_ERROR(add_step(expansion, DELTA_STEP_RUN, DELTA_LANE_COMPUTE, entry->input_count, entry->output_count, &step));
  step->problem_step = problem_step;
  for (uint32_t k = 0; k < entry->input_count; ++k) {
    step->inputs[k] = expansion->residences[entry->inputs[k]].buffer;
    if (step->inputs[k] != DELTA_PROBLEM_NONE) use_buffer(expansion, step->inputs[k]);
  }
  if (entry->workspace_bytes > 0) {
    DELTA_RETURN_IF_ERROR(delta_expansion_add_buffer(expansion, DELTA_PROBLEM_NONE, entry->workspace_bytes, &step->workspace));
  }
  return write_outputs(expansion, entry, step->outputs);
}

delta_status_t delta_expansion_swap_out(delta_expansion_t *expansion, uint32_t tensor) {
  delta_residence_t *residence = &expansion->residences[tensor];
  const size_t size_bytes = expansion->problem->tensors[tensor].size_bytes;
  if (residence->is_on_host) return DELTA_OK;
  delta_schedule_step_t *step = NULL;
  DELTA_RETURN_IF_ERROR(add_step(expansion, DELTA_STEP_SWAP_OUT, DELTA_LANE_OFFLOAD, 1, 0, &step));
  step->inputs[0] = residence->buffer;
  use_buffer(expansion, residence->buffer);
  const uint32_t state = expansion->problem->tensors[tensor].becomes_state;
  if (state == DELTA_PROBLEM_NONE) {
    residence->host_offset_bytes = take_host_bytes(expansion->schedule, size_bytes);
  } else {
    residence->host_offset_bytes = expansion->problem->tensors[state].home_offset_bytes;
    expansion->residences[state].is_on_host = false; // the old value is gone there
  }
  step->host_offset_bytes = residence->host_offset_bytes;
  residence->is_on_host = true;
  expansion->schedule->swapped_bytes += size_bytes;
  ++expansion->schedule->swapped_tensors;
  return DELTA_OK;
}

delta_status_t delta_expansion_swap_in(delta_expansion_t *expansion, uint32_t tensor) {
  delta_residence_t *residence = &expansion->residences[tensor];
  delta_schedule_step_t *step = NULL;
  DELTA_RETURN_IF_ERROR(add_step(expansion, DELTA_STEP_SWAP_IN, DELTA_LANE_PREFETCH, 0, 1, &step));
  step->host_offset_bytes = residence->host_offset_bytes;
  DELTA_RETURN_IF_ERROR(add_tensor_buffer(expansion, tensor, &step->outputs[0]));
  residence->buffer = step->outputs[0];
  return DELTA_OK;
}
