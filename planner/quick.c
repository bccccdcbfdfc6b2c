// Quick: the walk of expand.c and closure.c over lists by number, and the bytes of its steps.
#include "planner/quick.h"

#include <math.h>
#include <string.h>

#define NONE DELTA_PROBLEM_NONE

// ---- Steps and buffers

static delta_status_t add_buffer(delta_quick_t *quick, uint32_t tensor, size_t size_bytes, uint32_t *out_buffer) {
  const uint32_t step = quick->steps.count > 0 ? (uint32_t)quick->steps.count - 1 : 0;
  const delta_quick_buffer_t buffer = {
      .size_bytes = (int64_t)size_bytes, .tensor = tensor, .first_step = step, .last_step = step, .writer = step};
  *out_buffer = (uint32_t)quick->buffers.count;
  return delta_array_push(quick->allocator, &quick->buffers, &buffer);
}

static delta_status_t add_step(delta_quick_t *quick, delta_step_kind_t kind, delta_lane_t lane, uint32_t subject, uint32_t partner) {
  const delta_quick_step_t step = {
      .kind = kind, .subject = subject, .partner = partner, .place = quick->place, .first_pair = (uint32_t)quick->pairs.count};
  const uint32_t number = (uint32_t)quick->steps.count;
  if (quick->steps.count + 1 >= NONE) return delta_status_make(UNSUPPORTED, "the program has more than 2^32 steps");
  DELTA_RETURN_IF_ERROR(delta_array_push(quick->allocator, &quick->steps, &step));
  return delta_array_push(quick->allocator, &quick->lanes[lane], &number);
}

// The buffer holds a copy that came back: who reads it waits for that copy.
static void read_buffer(delta_quick_t *quick, uint32_t buffer, uint32_t s) {
  delta_quick_buffer_t *entry = &quick->buffers.items[buffer];
  delta_quick_step_t *step = &quick->steps.items[s];
  entry->last_step = s;
  if (entry->writer == NONE || quick->steps.items[entry->writer].kind != DELTA_STEP_SWAP_IN) return;
  if (step->partner == NONE || entry->writer > step->partner) step->partner = entry->writer;
}

static delta_status_t write_outputs(delta_quick_t *quick, const delta_problem_step_t *entry) {
  for (uint32_t k = 0; k < entry->output_count; ++k) {
    const uint32_t tensor = entry->outputs[k];
    const delta_problem_tensor_t *row = &quick->problem->tensors[tensor];
    if (row->becomes_state != NONE) quick->residences[row->becomes_state].is_overwritten = true;
    if (delta_problem_tensor_is_state(row)) continue;
    uint32_t buffer = NONE;
    DELTA_RETURN_IF_ERROR(add_buffer(quick, tensor, row->size_bytes, &buffer));
    if (quick->residences[tensor].buffer == NONE) quick->residences[tensor].buffer = buffer;
  }
  return DELTA_OK;
}

// The pairs of the step whose outputs are the buffers from first_output on.
static delta_status_t note_pairs(delta_quick_t *quick, const delta_problem_step_t *entry, uint32_t s, uint32_t first_output) {
  const delta_quick_buffer_t *buffers = quick->buffers.items;
  for (uint32_t k = 0; k < entry->inplace_count; ++k) {
    delta_quick_pair_t pair = {.step = s, .input = quick->residences[entry->inplace[k].input].buffer, .output = first_output};
    while (pair.output < quick->buffers.count && buffers[pair.output].tensor != entry->inplace[k].output) ++pair.output;
    if (pair.input == NONE || pair.output == quick->buffers.count) continue; // in the state area
    DELTA_RETURN_IF_ERROR(delta_array_push(quick->allocator, &quick->pairs, &pair));
  }
  return DELTA_OK;
}

static delta_status_t run(delta_quick_t *quick, uint32_t problem_step) {
  const delta_problem_step_t *entry = &quick->problem->steps[problem_step];
  const uint32_t s = (uint32_t)quick->steps.count;
  DELTA_RETURN_IF_ERROR(add_step(quick, DELTA_STEP_RUN, DELTA_LANE_COMPUTE, problem_step, NONE));
  for (uint32_t k = 0; k < entry->input_count; ++k) {
    const uint32_t buffer = quick->residences[entry->inputs[k]].buffer;
    if (buffer != NONE) read_buffer(quick, buffer, s);
  }
  if (entry->workspace_bytes > 0) {
    uint32_t workspace;
    DELTA_RETURN_IF_ERROR(add_buffer(quick, NONE, entry->workspace_bytes, &workspace));
  }
  const uint32_t first_output = (uint32_t)quick->buffers.count;
  DELTA_RETURN_IF_ERROR(write_outputs(quick, entry));
  return note_pairs(quick, entry, s, first_output);
}

static delta_status_t swap_out(delta_quick_t *quick, uint32_t tensor) {
  delta_quick_residence_t *residence = &quick->residences[tensor];
  if (residence->is_on_host) return DELTA_OK;
  const uint32_t s = (uint32_t)quick->steps.count;
  DELTA_RETURN_IF_ERROR(
      add_step(quick, DELTA_STEP_SWAP_OUT, DELTA_LANE_OFFLOAD, residence->buffer, quick->buffers.items[residence->buffer].writer));
  quick->buffers.items[residence->buffer].last_step = s;
  const uint32_t state = quick->problem->tensors[tensor].becomes_state;
  if (state == NONE) {
    const uint64_t blocks = (quick->host_bytes + DELTA_HOST_BLOCK_BYTES - 1) / DELTA_HOST_BLOCK_BYTES;
    quick->host_bytes = blocks * DELTA_HOST_BLOCK_BYTES + quick->problem->tensors[tensor].size_bytes;
  } else {
    quick->residences[state].is_on_host = false;
  }
  residence->copy = s;
  residence->is_on_host = true;
  return DELTA_OK;
}

static delta_status_t swap_in(delta_quick_t *quick, uint32_t tensor) {
  delta_quick_residence_t *residence = &quick->residences[tensor];
  DELTA_RETURN_IF_ERROR(
      add_step(quick, DELTA_STEP_SWAP_IN, DELTA_LANE_PREFETCH, (uint32_t)quick->buffers.count, residence->copy));
  return add_buffer(quick, tensor, quick->problem->tensors[tensor].size_bytes, &residence->buffer);
}

// ---- Closures

static bool is_resident(const delta_quick_t *quick, uint32_t tensor) {
  return quick->residences[tensor].buffer != NONE || delta_problem_tensor_is_state(&quick->problem->tensors[tensor]);
}

static delta_status_t add_visitor(delta_quick_t *quick, uint32_t tensor) {
  if (quick->residences[tensor].is_visitor) return DELTA_OK;
  quick->residences[tensor].is_visitor = true;
  return delta_array_push(quick->allocator, &quick->visitors, &tensor);
}

// Whether the producer may run once more here, and which of its inputs is missing first.
static bool may_rebuild(const delta_quick_t *quick, uint32_t producer, uint32_t *out_missing) {
  *out_missing = NONE;
  if (producer == NONE) return false;
  const delta_problem_step_t *step = &quick->problem->steps[producer];
  if (!(step->flags & DELTA_STEP_PURE)) return false;
  for (uint32_t k = step->input_count; k-- > 0;) {
    if (quick->residences[step->inputs[k]].is_overwritten) return false;
    if (!is_resident(quick, step->inputs[k])) *out_missing = step->inputs[k];
  }
  return true;
}

static delta_status_t run_again(delta_quick_t *quick, uint32_t producer) {
  const delta_problem_step_t *step = &quick->problem->steps[producer];
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (!is_resident(quick, step->outputs[k])) DELTA_RETURN_IF_ERROR(add_visitor(quick, step->outputs[k]));
  }
  return run(quick, producer);
}

static delta_status_t ensure(delta_quick_t *quick, uint32_t tensor, bool *inout_possible) {
  if (is_resident(quick, tensor)) return DELTA_OK;
  quick->pending.count = 0;
  DELTA_RETURN_IF_ERROR(delta_array_push(quick->allocator, &quick->pending, &tensor));
  while (quick->pending.count > 0) {
    const uint32_t top = quick->pending.items[quick->pending.count - 1];
    if (!is_resident(quick, top)) {
      uint32_t missing;
      if (quick->residences[top].is_on_host) {
        DELTA_RETURN_IF_ERROR(add_visitor(quick, top));
        DELTA_RETURN_IF_ERROR(swap_in(quick, top));
      } else if (!may_rebuild(quick, quick->map->producers[top], &missing)) {
        *inout_possible = false;
        return DELTA_OK;
      } else if (missing != NONE) {
        DELTA_RETURN_IF_ERROR(delta_array_push(quick->allocator, &quick->pending, &missing));
        continue;
      } else {
        DELTA_RETURN_IF_ERROR(run_again(quick, quick->map->producers[top]));
      }
    }
    quick->residences[top].is_wanted = true;
    --quick->pending.count;
  }
  return DELTA_OK;
}

// ---- The walk

static bool is_copied_first(const delta_quick_t *quick, uint32_t tensor) {
  for (uint32_t g = quick->residences[tensor].gap; g < quick->map->starts[tensor + 1]; ++g) {
    if (quick->actions[g] != DELTA_ACTION_KEEP) return quick->actions[g] == DELTA_ACTION_SWAP;
  }
  return false;
}

static delta_status_t enter_gap(delta_quick_t *quick, uint32_t tensor) {
  delta_quick_residence_t *residence = &quick->residences[tensor];
  const uint8_t action = quick->actions[residence->gap];
  if (action == DELTA_ACTION_KEEP) return DELTA_OK;
  if (delta_action_swaps((delta_action_t)action)) DELTA_RETURN_IF_ERROR(swap_out(quick, tensor));
  residence->buffer = NONE;
  return DELTA_OK;
}

static delta_status_t begin_tensor(delta_quick_t *quick, uint32_t tensor) {
  if (quick->problem->tensors[tensor].becomes_state != NONE || is_copied_first(quick, tensor)) {
    DELTA_RETURN_IF_ERROR(swap_out(quick, tensor));
  }
  return enter_gap(quick, tensor);
}

static delta_status_t begin_inputs(delta_quick_t *quick) {
  const delta_problem_t *problem = quick->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (!(problem->tensors[t].flags & DELTA_TENSOR_INPUT)) continue;
    DELTA_RETURN_IF_ERROR(add_buffer(quick, t, problem->tensors[t].size_bytes, &quick->residences[t].buffer));
    quick->buffers.items[quick->residences[t].buffer].writer = NONE;
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (problem->tensors[t].flags & DELTA_TENSOR_INPUT) DELTA_RETURN_IF_ERROR(begin_tensor(quick, t));
  }
  return DELTA_OK;
}

// Gaps that are split after this place: a visitor's action is looked at next, others enter the second part here.
static delta_status_t pass_splits(delta_quick_t *quick) {
  const delta_gap_map_t *map = quick->map;
  for (uint32_t i = map->split_starts[quick->place]; i < map->split_starts[quick->place + 1]; ++i) {
    const uint32_t tensor = map->split_tensors[i];
    delta_quick_residence_t *residence = &quick->residences[tensor];
    ++residence->gap;
    const uint8_t action = quick->actions[residence->gap];
    if (residence->buffer == NONE || residence->is_visitor || delta_action_stays((delta_action_t)action)) continue;
    if (delta_action_swaps((delta_action_t)action)) DELTA_RETURN_IF_ERROR(swap_out(quick, tensor));
    residence->buffer = NONE;
  }
  return DELTA_OK;
}

static void dismiss_visitors(delta_quick_t *quick) {
  for (size_t i = 0; i < quick->visitors.count; ++i) {
    delta_quick_residence_t *residence = &quick->residences[quick->visitors.items[i]];
    const uint8_t action = quick->actions[residence->gap];
    const bool stays = action == DELTA_ACTION_KEEP || (action == DELTA_ACTION_REBUILD_HOLD && residence->is_wanted);
    if (!stays) residence->buffer = NONE;
    residence->is_visitor = residence->is_wanted = false;
  }
  quick->visitors.count = 0;
}

static delta_status_t expand_place(delta_quick_t *quick, uint32_t place, bool *inout_possible) {
  const delta_problem_t *problem = quick->problem;
  const uint32_t problem_step = quick->map->order->steps[place];
  const delta_problem_step_t *step = &problem->steps[problem_step];
  quick->place = place;
  for (uint32_t k = 0; k < step->input_count; ++k) {
    DELTA_RETURN_IF_ERROR(ensure(quick, step->inputs[k], inout_possible));
    if (!*inout_possible) return DELTA_OK;
  }
  DELTA_RETURN_IF_ERROR(run(quick, problem_step));
  quick->steps.items[quick->steps.count - 1].is_base = true;
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (!delta_problem_tensor_is_state(&problem->tensors[step->outputs[k]])) {
      DELTA_RETURN_IF_ERROR(begin_tensor(quick, step->outputs[k]));
    }
  }
  for (uint32_t k = 0; k < step->input_count; ++k) {
    ++quick->residences[step->inputs[k]].gap;
    if (!delta_problem_tensor_is_state(&problem->tensors[step->inputs[k]])) DELTA_RETURN_IF_ERROR(enter_gap(quick, step->inputs[k]));
  }
  DELTA_RETURN_IF_ERROR(pass_splits(quick));
  dismiss_visitors(quick);
  return DELTA_OK;
}

static delta_status_t keep_outputs(delta_quick_t *quick, bool *inout_possible) {
  const delta_problem_t *problem = quick->problem;
  quick->place = quick->map->order->step_count;
  for (uint32_t t = 0; t < problem->tensor_count && *inout_possible; ++t) {
    if (problem->tensors[t].flags & DELTA_TENSOR_OUTPUT) DELTA_RETURN_IF_ERROR(ensure(quick, t, inout_possible));
  }
  for (uint32_t t = 0; t < problem->tensor_count && *inout_possible && quick->steps.count > 0; ++t) {
    const delta_problem_tensor_t *tensor = &problem->tensors[t];
    if (!(tensor->flags & DELTA_TENSOR_OUTPUT) || delta_problem_tensor_is_state(tensor)) continue;
    quick->buffers.items[quick->residences[t].buffer].last_step = (uint32_t)quick->steps.count - 1;
  }
  return DELTA_OK;
}

// ---- Bytes

// The pairs of one step: the largest whose input dies there first, of equal ones the first listed.
static void choose_pairs(delta_quick_t *quick, size_t begin, size_t end) {
  delta_quick_buffer_t *buffers = quick->buffers.items;
  for (;;) {
    delta_quick_pair_t *best = NULL;
    for (size_t i = begin; i < end; ++i) {
      delta_quick_pair_t *pair = &quick->pairs.items[i];
      const delta_quick_buffer_t *input = &buffers[pair->input];
      if (input->last_step != pair->step || input->is_taken || buffers[pair->output].takes) continue;
      if (!best || input->size_bytes > buffers[best->input].size_bytes) best = pair;
    }
    if (!best || buffers[best->input].size_bytes == 0) return;
    best->is_chosen = buffers[best->input].is_taken = buffers[best->output].takes = true;
  }
}

static void choose_all_pairs(delta_quick_t *quick) {
  for (size_t begin = 0, end; begin < quick->pairs.count; begin = end) {
    for (end = begin + 1; end < quick->pairs.count && quick->pairs.items[end].step == quick->pairs.items[begin].step;) ++end;
    choose_pairs(quick, begin, end);
  }
}

static delta_status_t sum_live_bytes(delta_quick_t *quick) {
  const size_t step_count = quick->steps.count;
  quick->live_bytes.count = 0;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(quick->allocator, &quick->live_bytes, step_count + 2));
  int64_t *live_bytes = quick->live_bytes.items;
  memset(live_bytes, 0, (step_count + 2) * sizeof *live_bytes);
  for (size_t b = 0; b < quick->buffers.count; ++b) {
    const delta_quick_buffer_t *buffer = &quick->buffers.items[b];
    live_bytes[buffer->first_step + buffer->takes] += buffer->size_bytes;
    live_bytes[buffer->last_step + 1] -= buffer->size_bytes;
  }
  for (size_t s = 0; s < step_count; ++s) live_bytes[s + 1] += live_bytes[s];
  return DELTA_OK;
}

static void rewind_walk(delta_quick_t *quick, const uint8_t *actions, uint64_t capacity_bytes) {
  quick->actions = actions;
  quick->capacity_bytes = capacity_bytes;
  quick->host_bytes = quick->problem->home_bytes;
  quick->place = 0;
  quick->steps.count = quick->buffers.count = quick->pairs.count = quick->visitors.count = 0;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) quick->lanes[l].count = 0;
  memcpy(quick->residences, quick->at_start, quick->problem->tensor_count * sizeof *quick->residences);
}

delta_status_t delta_quick_measure(delta_quick_t *quick, const uint8_t *actions, uint64_t capacity_bytes,
                                   delta_evaluation_t *out_evaluation) {
  bool is_possible = true;
  *out_evaluation = (delta_evaluation_t){.seconds = INFINITY};
  ++quick->evaluation_count;
  rewind_walk(quick, actions, capacity_bytes);
  DELTA_RETURN_IF_ERROR(begin_inputs(quick));
  for (uint32_t p = 0; p < quick->map->order->step_count && is_possible; ++p) {
    DELTA_RETURN_IF_ERROR(expand_place(quick, p, &is_possible));
  }
  if (is_possible) DELTA_RETURN_IF_ERROR(keep_outputs(quick, &is_possible));
  if (!is_possible) return DELTA_OK;
  choose_all_pairs(quick);
  DELTA_RETURN_IF_ERROR(sum_live_bytes(quick));
  out_evaluation->is_possible = quick->host_bytes <= quick->problem->host_budget_bytes;
  for (size_t s = 0; s < quick->steps.count; ++s) {
    const uint64_t bytes = (uint64_t)quick->live_bytes.items[s];
    if (bytes > out_evaluation->peak_bytes) out_evaluation->peak_bytes = bytes;
    if (bytes > capacity_bytes) out_evaluation->excess_bytes += bytes - capacity_bytes;
  }
  return DELTA_OK;
}

// ---- Life cycle

delta_status_t delta_quick_init(delta_quick_t *quick, const delta_problem_t *problem, const delta_gap_map_t *map,
                                delta_allocator_t allocator) {
  *quick = (delta_quick_t){.problem = problem, .map = map, .allocator = allocator};
  delta_region_init(&quick->region, allocator);
  delta_status_t status = DELTA_REGION_ALLOCATE(&quick->region, problem->tensor_count, &quick->at_start);
  if (!status) status = DELTA_REGION_ALLOCATE(&quick->region, problem->tensor_count, &quick->residences);
  if (status) {
    delta_quick_deinit(quick);
    return status;
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const uint32_t flags = problem->tensors[t].flags;
    quick->at_start[t] = (delta_quick_residence_t){.buffer = NONE,
                                                   .gap = map->starts[t],
                                                   .copy = NONE,
                                                   .is_on_host = (flags & DELTA_TENSOR_STATE) && (flags & DELTA_TENSOR_BELOW)};
  }
  return DELTA_OK;
}

void delta_quick_deinit(delta_quick_t *quick) {
  if (!quick->problem) return;
  delta_array_deinit(quick->allocator, &quick->steps);
  delta_array_deinit(quick->allocator, &quick->buffers);
  delta_array_deinit(quick->allocator, &quick->pairs);
  delta_array_deinit(quick->allocator, &quick->visitors);
  delta_array_deinit(quick->allocator, &quick->pending);
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) delta_array_deinit(quick->allocator, &quick->lanes[l]);
  delta_array_deinit(quick->allocator, &quick->live_bytes);
  delta_array_deinit(quick->allocator, &quick->early_bytes);
  delta_array_deinit(quick->allocator, &quick->drain_starts);
  delta_array_deinit(quick->allocator, &quick->drain_next);
  delta_region_deinit(&quick->region);
  *quick = (delta_quick_t){0};
}
