// Quick: the walk of expand.c and closure.c over lists by number, and the bytes of its steps.
#include "planner/quick.h"

#include <math.h>
#include <string.h>

#define NONE DELTA_PROBLEM_NONE

// ---- Steps and buffers: there is room for them, made once for each run or copy

static delta_status_t make_more_room(delta_quick_t *quick, uint32_t buffer_count, uint32_t pair_count) {
  if (quick->steps.count + 2 >= NONE || quick->buffers.count + buffer_count >= NONE)
    return delta_status_make(UNSUPPORTED, "the program has more than 2^32 steps or buffers");
  if (quick->steps.count == quick->steps.capacity)
    DELTA_RETURN_IF_ERROR(delta_array_reserve(quick->allocator, &quick->steps, quick->steps.count / 2 + 64));
  if (quick->buffers.count + buffer_count > quick->buffers.capacity)
    DELTA_RETURN_IF_ERROR(delta_array_reserve(quick->allocator, &quick->buffers, quick->buffers.count / 2 + buffer_count + 64));
  if (quick->pairs.count + pair_count > quick->pairs.capacity)
    DELTA_RETURN_IF_ERROR(delta_array_reserve(quick->allocator, &quick->pairs, quick->pairs.count / 2 + pair_count + 64));
  return DELTA_OK;
}

static inline delta_status_t make_room(delta_quick_t *quick, uint32_t buffer_count, uint32_t pair_count) {
  const bool has_room = quick->steps.count < quick->steps.capacity && quick->buffers.count + buffer_count <= quick->buffers.capacity &&
                        quick->pairs.count + pair_count <= quick->pairs.capacity && quick->buffers.capacity < NONE &&
                        quick->steps.capacity < NONE - 2;
  return has_room ? DELTA_OK : make_more_room(quick, buffer_count, pair_count);
}

static uint32_t add_buffer(delta_quick_t *quick, uint32_t tensor, int64_t size_bytes) {
  const uint32_t step = quick->steps.count > 0 ? (uint32_t)quick->steps.count - 1 : 0, buffer = (uint32_t)quick->buffers.count++;
  quick->buffers.items[buffer] =
      (delta_quick_buffer_t){.size_bytes = size_bytes, .tensor = tensor, .first_step = step, .last_step = step, .writer = step};
  return buffer;
}

static uint32_t add_step(delta_quick_t *quick, delta_step_kind_t kind, uint32_t subject, uint32_t partner) {
  quick->steps.items[quick->steps.count] = (delta_quick_step_t){
      .kind = kind, .subject = subject, .partner = partner, .place = quick->place, .first_pair = (uint32_t)quick->pairs.count};
  return (uint32_t)quick->steps.count++;
}

// Where a buffer holds a copy that came back, who reads it waits for that copy.
static void read_buffer(delta_quick_t *quick, uint32_t buffer, uint32_t s) {
  delta_quick_buffer_t *entry = &quick->buffers.items[buffer];
  delta_quick_step_t *step = &quick->steps.items[s];
  entry->last_step = s;
  if (!entry->is_copy_back) return;
  if (step->partner == NONE || entry->writer > step->partner) step->partner = entry->writer;
}

// The pairs of the step whose outputs are the buffers from first_output on.
static void note_pairs(delta_quick_t *quick, const delta_quick_row_t *row, uint32_t s, uint32_t first_output) {
  for (uint32_t k = 0; k < row->pair_count; ++k) {
    const uint32_t *pair = &quick->lists[row->pairs + 2 * k];
    uint32_t output = first_output;
    while (quick->buffers.items[output].tensor != pair[1]) ++output;
    quick->pairs.items[quick->pairs.count++] =
        (delta_quick_pair_t){.step = s, .input = quick->residences[pair[0]].buffer, .output = output};
  }
}

static delta_status_t run(delta_quick_t *quick, uint32_t problem_step) {
  const delta_quick_row_t *row = &quick->rows[problem_step];
  DELTA_RETURN_IF_ERROR(make_room(quick, row->output_count + 1, row->pair_count));
  const uint32_t s = add_step(quick, DELTA_STEP_RUN, problem_step, NONE);
  quick->run_seconds += row->seconds;
  for (uint32_t k = 0; k < row->input_count; ++k) read_buffer(quick, quick->residences[quick->lists[row->inputs + k]].buffer, s);
  if (row->workspace_bytes > 0) add_buffer(quick, NONE, row->workspace_bytes);
  for (uint32_t k = 0; k < row->overwritten_count; ++k) quick->residences[quick->lists[row->overwritten + k]].is_overwritten = true;
  const uint32_t first_output = (uint32_t)quick->buffers.count;
  for (uint32_t k = 0; k < row->output_count; ++k) {
    const uint32_t tensor = quick->lists[row->outputs + k], buffer = add_buffer(quick, tensor, quick->sizes[tensor]);
    if (quick->residences[tensor].buffer == NONE) quick->residences[tensor].buffer = buffer;
  }
  note_pairs(quick, row, s, first_output);
  return DELTA_OK;
}

static delta_status_t swap_out(delta_quick_t *quick, uint32_t tensor) {
  delta_quick_residence_t *residence = &quick->residences[tensor];
  if (residence->is_on_host) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(make_room(quick, 0, 0));
  delta_quick_buffer_t *buffer = &quick->buffers.items[residence->buffer];
  buffer->last_step = residence->copy = add_step(quick, DELTA_STEP_SWAP_OUT, residence->buffer, buffer->writer);
  residence->is_on_host = true;
  if (quick->homes[tensor] != NONE) {
    quick->residences[quick->homes[tensor]].is_on_host = false;
  } else {
    const uint64_t blocks = (quick->host_bytes + DELTA_HOST_BLOCK_BYTES - 1) / DELTA_HOST_BLOCK_BYTES;
    quick->host_bytes = blocks * DELTA_HOST_BLOCK_BYTES + (uint64_t)quick->sizes[tensor];
  }
  return DELTA_OK;
}

static delta_status_t swap_in(delta_quick_t *quick, uint32_t tensor) {
  delta_quick_residence_t *residence = &quick->residences[tensor];
  DELTA_RETURN_IF_ERROR(make_room(quick, 1, 0));
  add_step(quick, DELTA_STEP_SWAP_IN, (uint32_t)quick->buffers.count, residence->copy);
  residence->buffer = add_buffer(quick, tensor, quick->sizes[tensor]);
  quick->buffers.items[residence->buffer].is_copy_back = true;
  return DELTA_OK;
}

// ---- Closures

static bool is_resident(const delta_quick_t *quick, uint32_t tensor) { return quick->residences[tensor].buffer != NONE; }

static void add_visitor(delta_quick_t *quick, uint32_t tensor) {
  if (quick->residences[tensor].is_visitor) return;
  quick->residences[tensor].is_visitor = true;
  quick->visitors[quick->visitor_count++] = tensor;
}

// Whether the producer may run once more here, and which of its inputs is missing first.
static bool may_rebuild(const delta_quick_t *quick, uint32_t producer, uint32_t *out_missing) {
  *out_missing = NONE;
  if (producer == NONE) return false;
  const delta_quick_row_t *row = &quick->rows[producer];
  if (!row->is_pure) return false;
  for (uint32_t k = 0; k < row->state_count; ++k) {
    if (quick->residences[quick->lists[row->states + k]].is_overwritten) return false;
  }
  for (uint32_t k = row->input_count; k-- > 0;) {
    const uint32_t input = quick->lists[row->inputs + k];
    if (!is_resident(quick, input)) *out_missing = input;
  }
  return true;
}

static delta_status_t run_again(delta_quick_t *quick, uint32_t producer) {
  const delta_quick_row_t *row = &quick->rows[producer];
  for (uint32_t k = 0; k < row->output_count; ++k) {
    const uint32_t output = quick->lists[row->outputs + k];
    if (!is_resident(quick, output)) add_visitor(quick, output);
  }
  return run(quick, producer);
}

static delta_status_t ensure(delta_quick_t *quick, uint32_t tensor, bool *inout_possible) {
  uint32_t pending_count = 0;
  if (is_resident(quick, tensor)) return DELTA_OK;
  quick->pending[pending_count++] = tensor;
  while (pending_count > 0) {
    const uint32_t top = quick->pending[pending_count - 1];
    if (!is_resident(quick, top)) {
      uint32_t missing;
      if (quick->residences[top].is_on_host) {
        add_visitor(quick, top);
        DELTA_RETURN_IF_ERROR(swap_in(quick, top));
      } else if (!may_rebuild(quick, quick->map->producers[top], &missing)) {
        *inout_possible = false;
        return DELTA_OK;
      } else if (missing != NONE) {
        quick->pending[pending_count++] = missing;
        continue;
      } else {
        DELTA_RETURN_IF_ERROR(run_again(quick, quick->map->producers[top]));
      }
    }
    quick->residences[top].is_wanted = true;
    --pending_count;
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

static delta_status_t leave(delta_quick_t *quick, uint32_t tensor, uint8_t action) {
  delta_quick_residence_t *residence = &quick->residences[tensor];
  if (delta_action_swaps((delta_action_t)action)) DELTA_RETURN_IF_ERROR(swap_out(quick, tensor));
  residence->buffer = NONE;
  return DELTA_OK;
}

static inline delta_status_t enter_gap(delta_quick_t *quick, uint32_t tensor) {
  const uint8_t action = quick->actions[quick->residences[tensor].gap];
  return action == DELTA_ACTION_KEEP ? DELTA_OK : leave(quick, tensor, action);
}

static delta_status_t begin_tensor(delta_quick_t *quick, uint32_t tensor) {
  if (quick->homes[tensor] != NONE || is_copied_first(quick, tensor)) DELTA_RETURN_IF_ERROR(swap_out(quick, tensor));
  return enter_gap(quick, tensor);
}

static delta_status_t begin_inputs(delta_quick_t *quick) {
  DELTA_RETURN_IF_ERROR(make_room(quick, quick->input_count, 0));
  for (uint32_t i = 0; i < quick->input_count; ++i) {
    const uint32_t tensor = quick->inputs[i], buffer = add_buffer(quick, tensor, quick->sizes[tensor]);
    quick->residences[tensor].buffer = buffer;
    quick->buffers.items[buffer].writer = NONE;
  }
  for (uint32_t i = 0; i < quick->input_count; ++i) DELTA_RETURN_IF_ERROR(begin_tensor(quick, quick->inputs[i]));
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
    DELTA_RETURN_IF_ERROR(leave(quick, tensor, action));
  }
  return DELTA_OK;
}

static void dismiss_visitors(delta_quick_t *quick) {
  for (uint32_t i = 0; i < quick->visitor_count; ++i) {
    delta_quick_residence_t *residence = &quick->residences[quick->visitors[i]];
    const uint8_t action = quick->actions[residence->gap];
    const bool stays = action == DELTA_ACTION_KEEP || (action == DELTA_ACTION_REBUILD_HOLD && residence->is_wanted);
    if (!stays) residence->buffer = NONE;
    residence->is_visitor = residence->is_wanted = false;
  }
  quick->visitor_count = 0;
}

static delta_status_t expand_place(delta_quick_t *quick, uint32_t place, bool *inout_possible) {
  const uint32_t problem_step = quick->map->order->steps[place];
  const delta_quick_row_t *row = &quick->rows[problem_step];
  const uint32_t *inputs = &quick->lists[row->inputs], *outputs = &quick->lists[row->outputs];
  quick->place = place;
  for (uint32_t k = 0; k < row->input_count; ++k) {
    if (is_resident(quick, inputs[k])) continue;
    DELTA_RETURN_IF_ERROR(ensure(quick, inputs[k], inout_possible));
    if (!*inout_possible) return DELTA_OK;
  }
  DELTA_RETURN_IF_ERROR(run(quick, problem_step));
  quick->steps.items[quick->steps.count - 1].is_base = true;
  for (uint32_t k = 0; k < row->output_count; ++k) DELTA_RETURN_IF_ERROR(begin_tensor(quick, outputs[k]));
  for (uint32_t k = 0; k < row->input_count; ++k) {
    ++quick->residences[inputs[k]].gap;
    DELTA_RETURN_IF_ERROR(enter_gap(quick, inputs[k]));
  }
  DELTA_RETURN_IF_ERROR(pass_splits(quick));
  dismiss_visitors(quick);
  return DELTA_OK;
}

static delta_status_t keep_outputs(delta_quick_t *quick, bool *inout_possible) {
  quick->place = quick->map->order->step_count;
  for (uint32_t i = 0; i < quick->output_count && *inout_possible; ++i) {
    DELTA_RETURN_IF_ERROR(ensure(quick, quick->outputs[i], inout_possible));
  }
  for (uint32_t i = 0; i < quick->output_count && *inout_possible && quick->steps.count > 0; ++i) {
    quick->buffers.items[quick->residences[quick->outputs[i]].buffer].last_step = (uint32_t)quick->steps.count - 1;
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
    buffers[best->output].is_part = buffers[best->input].is_part;
  }
}

// The pairs of a step that works in a row: all of them, where its inputs can lie in one.
static void choose_row(delta_quick_t *quick, const delta_quick_row_t *row, size_t begin, size_t end) {
  delta_quick_buffer_t *buffers = quick->buffers.items;
  for (size_t i = begin; i < end; ++i) {
    const delta_quick_pair_t *pair = &quick->pairs.items[i];
    if (buffers[pair->input].last_step != pair->step || (row->input_count > 1 && buffers[pair->input].is_part)) return;
  }
  for (size_t i = begin; i < end; ++i) {
    delta_quick_pair_t *pair = &quick->pairs.items[i];
    pair->is_chosen = buffers[pair->input].is_taken = buffers[pair->output].takes = true;
    buffers[pair->output].is_part = row->output_count > 1;
  }
}

static void choose_all_pairs(delta_quick_t *quick) {
  for (size_t begin = 0, end; begin < quick->pairs.count; begin = end) {
    const uint32_t s = quick->pairs.items[begin].step;
    const delta_quick_row_t *row = &quick->rows[quick->steps.items[s].subject];
    for (end = begin + 1; end < quick->pairs.count && quick->pairs.items[end].step == s;) ++end;
    if (row->is_in_row) {
      choose_row(quick, row, begin, end);
    } else {
      choose_pairs(quick, begin, end);
    }
  }
}

// As the evaluator's: an input that nobody reads is there when the first step runs.
static void hold_unread_inputs(delta_quick_t *quick) {
  const delta_quick_step_t *steps = quick->steps.items;
  size_t first_run = 0;
  while (first_run < quick->steps.count && steps[first_run].kind != DELTA_STEP_RUN) ++first_run;
  for (uint32_t b = 0; first_run > 0 && first_run < quick->steps.count && b < quick->input_count; ++b) {
    const delta_quick_buffer_t *buffer = &quick->buffers.items[b];
    if (buffer->last_step > 0 || (steps[0].kind == DELTA_STEP_SWAP_OUT && steps[0].subject == b)) continue;
    for (size_t s = 1; s <= first_run; ++s) quick->live_bytes.items[s] += buffer->size_bytes;
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
  hold_unread_inputs(quick);
  return DELTA_OK;
}

static void rewind_walk(delta_quick_t *quick, const uint8_t *actions, uint64_t capacity_bytes) {
  quick->actions = actions;
  quick->capacity_bytes = capacity_bytes;
  quick->host_bytes = quick->problem->home_bytes;
  quick->run_seconds = 0;
  quick->place = 0;
  quick->steps.count = quick->buffers.count = quick->pairs.count = 0;
  quick->visitor_count = 0;
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

static bool lies_in_arena(const delta_problem_t *problem, uint32_t tensor) {
  return !delta_problem_tensor_is_state(&problem->tensors[tensor]);
}

static delta_status_t allocate_rows(delta_quick_t *quick) {
  const delta_problem_t *problem = quick->problem;
  size_t entry_count = 0;
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_problem_step_t *step = &problem->steps[s];
    const size_t named = (size_t)step->input_count + step->output_count, in_row = step->flags & DELTA_STEP_IN_ROW ? named : 0;
    entry_count += named + 2 * (in_row + step->inplace_count);
  }
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&quick->region, problem->step_count, &quick->rows));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&quick->region, 2 * entry_count, &quick->lists));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&quick->region, problem->tensor_count, &quick->sizes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&quick->region, problem->tensor_count, &quick->homes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&quick->region, problem->tensor_count, &quick->inputs));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&quick->region, problem->tensor_count, &quick->outputs));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&quick->region, problem->tensor_count, &quick->at_start));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&quick->region, problem->tensor_count, &quick->visitors));
  // What waits for others is a way through the program: each tensor once.
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&quick->region, (size_t)problem->tensor_count + 1, &quick->pending));
  return DELTA_REGION_ALLOCATE(&quick->region, problem->tensor_count, &quick->residences);
}

// Appends the tensors that lie in the arena.
static uint32_t list_tensors(delta_quick_t *quick, uint32_t *next, const uint32_t *tensors, uint32_t count) {
  const uint32_t first = *next;
  for (uint32_t k = 0; k < count; ++k) {
    if (lies_in_arena(quick->problem, tensors[k])) quick->lists[(*next)++] = tensors[k];
  }
  return first;
}

static void fill_row(delta_quick_t *quick, const delta_problem_step_t *step, delta_quick_row_t *row, uint32_t *next) {
  const delta_problem_t *problem = quick->problem;
  *row = (delta_quick_row_t){
      .seconds = step->seconds,
      .workspace_bytes = (int64_t)step->workspace_bytes,
      .is_pure = step->flags & DELTA_STEP_PURE,
      .is_in_row = step->flags & DELTA_STEP_IN_ROW,
  };
  row->inputs = list_tensors(quick, next, step->inputs, step->input_count);
  row->input_count = *next - row->inputs;
  row->outputs = list_tensors(quick, next, step->outputs, step->output_count);
  row->output_count = *next - row->outputs;
  row->states = *next;
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (problem->tensors[step->inputs[k]].flags & DELTA_TENSOR_STATE) quick->lists[(*next)++] = step->inputs[k];
  }
  row->state_count = *next - row->states;
  row->overwritten = *next;
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t state = problem->tensors[step->outputs[k]].becomes_state;
    if (state != NONE) quick->lists[(*next)++] = state;
  }
  row->overwritten_count = *next - row->overwritten;
  row->pairs = *next;
  for (uint32_t k = 0; k < step->inplace_count; ++k) {
    const delta_inplace_pair_t *pair = &step->inplace[k];
    if (!lies_in_arena(problem, pair->input) || !lies_in_arena(problem, pair->output)) continue;
    quick->lists[(*next)++] = pair->input;
    quick->lists[(*next)++] = pair->output;
  }
  for (uint32_t k = 0; row->is_in_row && k < step->input_count + step->output_count - 1; ++k) {
    quick->lists[(*next)++] = step->inputs[k < step->input_count ? k : 0];
    quick->lists[(*next)++] = step->outputs[k < step->input_count ? 0 : k - step->input_count + 1];
  }
  row->pair_count = (*next - row->pairs) / 2;
}

static void fill_tables(delta_quick_t *quick) {
  const delta_problem_t *problem = quick->problem;
  uint32_t next = 0;
  for (uint32_t s = 0; s < problem->step_count; ++s) fill_row(quick, &problem->steps[s], &quick->rows[s], &next);
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &problem->tensors[t];
    quick->sizes[t] = (int64_t)tensor->size_bytes;
    quick->homes[t] = lies_in_arena(problem, t) ? tensor->becomes_state : NONE;
    if (tensor->flags & DELTA_TENSOR_INPUT) quick->inputs[quick->input_count++] = t;
    if ((tensor->flags & DELTA_TENSOR_OUTPUT) && lies_in_arena(problem, t)) quick->outputs[quick->output_count++] = t;
    quick->at_start[t] =
        (delta_quick_residence_t){.buffer = NONE,
                                  .gap = quick->map->starts[t],
                                  .copy = NONE,
                                  .is_on_host = (tensor->flags & DELTA_TENSOR_STATE) && (tensor->flags & DELTA_TENSOR_BELOW)};
  }
}

delta_status_t delta_quick_init(delta_quick_t *quick, const delta_problem_t *problem, const delta_gap_map_t *map,
                                delta_allocator_t allocator) {
  *quick = (delta_quick_t){.problem = problem, .map = map, .allocator = allocator};
  delta_region_init(&quick->region, allocator);
  delta_status_t status = allocate_rows(quick);
  if (status) {
    delta_quick_deinit(quick);
    return status;
  }
  fill_tables(quick);
  return DELTA_OK;
}

void delta_quick_deinit(delta_quick_t *quick) {
  if (!quick->problem) return;
  delta_array_deinit(quick->allocator, &quick->steps);
  delta_array_deinit(quick->allocator, &quick->buffers);
  delta_array_deinit(quick->allocator, &quick->pairs);
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) delta_array_deinit(quick->allocator, &quick->lanes[l]);
  delta_array_deinit(quick->allocator, &quick->live_bytes);
  delta_array_deinit(quick->allocator, &quick->early_bytes);
  delta_array_deinit(quick->allocator, &quick->drain_starts);
  delta_array_deinit(quick->allocator, &quick->drain_next);
  delta_region_deinit(&quick->region);
  *quick = (delta_quick_t){0};
}
