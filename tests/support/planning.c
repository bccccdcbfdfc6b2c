// Random problems and schedules.
#include "tests/support/planning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void delta_test_must(delta_status_t status) {
  if (!status) return;
  fprintf(stderr, "unexpected status: %s\n", delta_status_message(status));
  abort();
}

// SplitMix64.
uint64_t delta_test_number(delta_test_numbers_t *numbers, uint64_t limit) {
  uint64_t z = (numbers->state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  z ^= z >> 31;
  return limit > 0 ? z % limit : 0;
}

// ---- Problems

enum { UNIT_BYTES = 64, MOST_STATES = 6, MOST_INPUTS = 4, MOST_OUTPUTS = 3 };

typedef struct problem_maker {
  delta_problem_t *problem;
  delta_test_numbers_t numbers;
  uint32_t state_count;
} problem_maker_t;

static uint32_t make_tensor(problem_maker_t *maker, size_t size_bytes, uint32_t flags) {
  delta_problem_t *problem = maker->problem;
  char *name = NULL;
  delta_test_must(delta_region_format(&problem->region, &name, "t%u", problem->tensor_count));
  problem->tensors[problem->tensor_count] = (delta_problem_tensor_t){
      .name = name, .size_bytes = size_bytes, .flags = flags, .kind = DELTA_CLASS_ACTIVATIONS, .becomes_state = DELTA_PROBLEM_NONE};
  return problem->tensor_count++;
}

static size_t make_size(problem_maker_t *maker) { return UNIT_BYTES * (1 + delta_test_number(&maker->numbers, 5)); }

static delta_problem_step_t *make_step(problem_maker_t *maker, uint32_t flags) {
  delta_problem_t *problem = maker->problem;
  delta_problem_step_t *step = &problem->steps[problem->step_count];
  char *name = NULL;
  delta_test_must(delta_region_format(&problem->region, &name, "s%u", problem->step_count++));
  *step = (delta_problem_step_t){.name = name, .node = DELTA_PROBLEM_NONE, .flags = flags};
  step->seconds = 1e-3 * (double)(1 + delta_test_number(&maker->numbers, 20));
  if (delta_test_number(&maker->numbers, 3) == 0) step->workspace_bytes = make_size(maker);
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, MOST_INPUTS, &step->inputs));
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, MOST_OUTPUTS, &step->outputs));
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, MOST_INPUTS * MOST_OUTPUTS, &step->inplace));
  return step;
}

static void add_input(delta_problem_step_t *step, uint32_t tensor) {
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (step->inputs[k] == tensor) return;
  }
  step->inputs[step->input_count++] = tensor;
}

static void offer_pairs(const delta_problem_t *problem, delta_problem_step_t *step) {
  for (uint32_t o = 0; o < step->output_count; ++o) {
    for (uint32_t i = 0; i < step->input_count; ++i) {
      const delta_problem_tensor_t *input = &problem->tensors[step->inputs[i]], *output = &problem->tensors[step->outputs[o]];
      if (input->size_bytes != output->size_bytes || delta_problem_tensor_is_state(input)) continue;
      step->inplace[step->inplace_count++] = (delta_inplace_pair_t){step->inputs[i], step->outputs[o]};
    }
  }
}

static uint32_t pick_readable(problem_maker_t *maker) {
  const uint32_t count = maker->problem->tensor_count;
  for (;;) {
    // Mostly what was made lately, sometimes anything: chains with long skips.
    const uint64_t back = delta_test_number(&maker->numbers, 4) > 0 ? 6 : count;
    const uint32_t tensor = count - 1 - (uint32_t)delta_test_number(&maker->numbers, back < count ? back : count);
    if (maker->problem->tensors[tensor].becomes_state == DELTA_PROBLEM_NONE) return tensor;
  }
}

static void make_working_step(problem_maker_t *maker) {
  delta_problem_step_t *step = make_step(maker, delta_test_number(&maker->numbers, 8) > 0 ? DELTA_STEP_PURE : 0);
  const uint64_t inputs = delta_test_number(&maker->numbers, 10) == 0 ? 0 : 1 + delta_test_number(&maker->numbers, MOST_INPUTS - 1);
  for (uint64_t k = 0; k < inputs; ++k) add_input(step, pick_readable(maker));
  const uint64_t outputs = 1 + delta_test_number(&maker->numbers, MOST_OUTPUTS);
  for (uint64_t k = 0; k < outputs; ++k) {
    const uint32_t flags = delta_test_number(&maker->numbers, 16) == 0 ? DELTA_TENSOR_OUTPUT : 0;
    step->outputs[step->output_count++] = make_tensor(maker, make_size(maker), flags);
  }
  offer_pairs(maker->problem, step);
}

static bool may_lie_in_row(const problem_maker_t *maker, uint32_t tensor) {
  return !(maker->problem->tensors[tensor].flags & (DELTA_TENSOR_STATE | DELTA_TENSOR_OUTPUT));
}

// Puts some tensors together, or takes one apart. False when what was picked does not suit.
static bool make_row_step(problem_maker_t *maker) {
  const bool joins = delta_test_number(&maker->numbers, 2);
  const uint32_t first = pick_readable(maker), second = pick_readable(maker), third = pick_readable(maker);
  const size_t units = maker->problem->tensors[first].size_bytes / UNIT_BYTES;
  if (!may_lie_in_row(maker, first) || (joins ? first == second || !may_lie_in_row(maker, second) : units < 2)) return false;
  delta_problem_step_t *step = make_step(maker, DELTA_STEP_PURE | DELTA_STEP_IN_ROW);
  add_input(step, first);
  if (joins) {
    add_input(step, second);
    if (may_lie_in_row(maker, third)) add_input(step, third);
    size_t size_bytes = 0;
    for (uint32_t k = 0; k < step->input_count; ++k) size_bytes += maker->problem->tensors[step->inputs[k]].size_bytes;
    step->outputs[step->output_count++] = make_tensor(maker, size_bytes, 0);
    return true;
  }
  const size_t cut = 1 + delta_test_number(&maker->numbers, units - 1);
  step->outputs[step->output_count++] = make_tensor(maker, cut * UNIT_BYTES, 0);
  step->outputs[step->output_count++] = make_tensor(maker, (units - cut) * UNIT_BYTES, 0);
  return true;
}

static void make_update_step(problem_maker_t *maker, uint32_t state) {
  const uint32_t gradient = pick_readable(maker);
  delta_problem_step_t *step = make_step(maker, DELTA_STEP_UPDATE);
  add_input(step, state);
  // An update that reads another state must not make a circle with that one's update.
  if (!(maker->problem->tensors[gradient].flags & DELTA_TENSOR_STATE)) add_input(step, gradient);
  const uint32_t next = make_tensor(maker, maker->problem->tensors[state].size_bytes, 0);
  maker->problem->tensors[next].becomes_state = state;
  step->outputs[step->output_count++] = next;
}

static void forbid_pairs_on_outputs(delta_problem_t *problem) {
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    delta_problem_step_t *step = &problem->steps[s];
    uint32_t kept = 0;
    for (uint32_t k = 0; k < step->inplace_count; ++k) {
      if (!(problem->tensors[step->inplace[k].input].flags & DELTA_TENSOR_OUTPUT)) step->inplace[kept++] = step->inplace[k];
    }
    step->inplace_count = kept;
  }
}

delta_problem_t *delta_test_random_problem(uint64_t seed, uint32_t step_count) {
  problem_maker_t maker = {.numbers = {seed}};
  delta_test_must(delta_problem_create(delta_allocator_system(), &maker.problem));
  delta_problem_t *problem = maker.problem;
  problem->alignment_bytes = UNIT_BYTES;
  problem->offload_bytes_per_second = 1e5;
  problem->prefetch_bytes_per_second = 2e5;
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, MOST_STATES + 2 + (size_t)step_count * MOST_OUTPUTS, &problem->tensors));
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, step_count, &problem->steps));
  maker.state_count = (uint32_t)delta_test_number(&maker.numbers, MOST_STATES + 1);
  for (uint32_t i = 0; i < maker.state_count; ++i) make_tensor(&maker, make_size(&maker), DELTA_TENSOR_STATE);
  make_tensor(&maker, make_size(&maker), DELTA_TENSOR_INPUT);
  make_tensor(&maker, make_size(&maker), DELTA_TENSOR_INPUT);
  uint32_t updated = 0;
  while (problem->step_count < step_count) {
    const bool may_update = updated < maker.state_count && problem->step_count > step_count / 3;
    if (may_update && delta_test_number(&maker.numbers, 4) == 0) {
      make_update_step(&maker, updated++);
    } else if (delta_test_number(&maker.numbers, 5) > 0 || !make_row_step(&maker)) {
      make_working_step(&maker);
    }
  }
  forbid_pairs_on_outputs(problem);
  delta_test_must(delta_problem_check(problem));
  return problem;
}

void delta_test_move_states_below(delta_problem_t *problem, uint64_t seed) {
  delta_test_numbers_t numbers = {seed};
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (!(problem->tensors[t].flags & DELTA_TENSOR_STATE) || delta_test_number(&numbers, 2) == 0) continue;
    delta_problem_set_home(problem, t, true, problem->home_bytes);
    problem->home_bytes += DELTA_HOST_BLOCK_BYTES * (1 + problem->tensors[t].size_bytes / DELTA_HOST_BLOCK_BYTES);
  }
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    delta_problem_step_t *step = &problem->steps[s];
    if (!(step->flags & DELTA_STEP_UPDATE) || delta_test_number(&numbers, 3) == 0) continue;
    step->inplace[0] = (delta_inplace_pair_t){.input = problem->tensors[step->outputs[0]].becomes_state, .output = step->outputs[0]};
    step->inplace_count = 1;
  }
  delta_test_must(delta_problem_check(problem));
}

// ---- Schedules

delta_schedule_t *delta_test_kept_schedule(const delta_problem_t *problem, bool early_update) {
  const delta_allocator_t allocator = delta_allocator_system();
  delta_order_t order;
  delta_schedule_t *schedule = NULL;
  delta_test_must(delta_order_make(problem, early_update, allocator, &order));
  delta_test_must(delta_expand(problem, &order, NULL, allocator, &schedule));
  delta_test_must(delta_simulate(problem, schedule, allocator));
  delta_test_must(delta_layout(problem, schedule, allocator));
  delta_order_deinit(&order);
  return schedule;
}

static void copy_list(delta_region_t *region, uint32_t **list, uint32_t count) {
  delta_test_must(delta_region_copy(region, *list, count, sizeof **list, (void **)list));
}

delta_schedule_t *delta_test_copy_schedule(const delta_schedule_t *schedule) {
  delta_schedule_t *copy = NULL;
  delta_test_must(delta_schedule_create(delta_allocator_system(), &copy));
  const delta_region_t region = copy->region;
  *copy = *schedule;
  copy->region = region;
  delta_test_must(delta_region_copy(&copy->region, schedule->steps, copy->step_count, sizeof *copy->steps, (void **)&copy->steps));
  delta_test_must(delta_region_copy(&copy->region, schedule->buffers, copy->buffer_count, sizeof *copy->buffers, (void **)&copy->buffers));
  for (uint32_t s = 0; s < copy->step_count; ++s) {
    copy_list(&copy->region, &copy->steps[s].inputs, copy->steps[s].input_count);
    copy_list(&copy->region, &copy->steps[s].outputs, copy->steps[s].output_count);
    copy_list(&copy->region, &copy->steps[s].waits, copy->steps[s].wait_count);
  }
  return copy;
}

enum { MOST_SCHEDULE_STEPS = 4000, MOST_BUFFERS = 12000 };

typedef struct schedule_maker {
  const delta_problem_t *problem;
  delta_schedule_t *schedule;
  delta_test_numbers_t numbers;
  uint32_t *buffer_of; // by tensor: where it is now, or NONE
  uint32_t *slot_of;   // by tensor: its host bytes, or NONE
  uint32_t *producer;  // by tensor: problem step, or NONE
  uint32_t *uses_left; // by tensor: in the order to come
} schedule_maker_t;

static uint32_t new_buffer(schedule_maker_t *maker, uint32_t tensor, size_t size_bytes) {
  delta_schedule_t *schedule = maker->schedule;
  if (schedule->buffer_count == MOST_BUFFERS) abort();
  schedule->buffers[schedule->buffer_count] =
      (delta_buffer_t){.tensor = tensor, .size_bytes = size_bytes, .inplace_of = DELTA_PROBLEM_NONE};
  return schedule->buffer_count++;
}

static delta_schedule_step_t *new_step(schedule_maker_t *maker, delta_step_kind_t kind, delta_lane_t lane, uint32_t inputs,
                                       uint32_t outputs) {
  delta_schedule_t *schedule = maker->schedule;
  if (schedule->step_count == MOST_SCHEDULE_STEPS) abort();
  delta_schedule_step_t *step = &schedule->steps[schedule->step_count++];
  *step = (delta_schedule_step_t){.kind = kind,
                                  .lane = lane,
                                  .problem_step = DELTA_PROBLEM_NONE,
                                  .input_count = inputs,
                                  .output_count = outputs,
                                  .workspace = DELTA_PROBLEM_NONE};
  delta_test_must(DELTA_REGION_ALLOCATE(&schedule->region, inputs, &step->inputs));
  delta_test_must(DELTA_REGION_ALLOCATE(&schedule->region, outputs, &step->outputs));
  return step;
}

static void run_step(schedule_maker_t *maker, uint32_t index);

static void make_resident(schedule_maker_t *maker, uint32_t tensor) {
  if (delta_problem_tensor_is_state(&maker->problem->tensors[tensor]) || maker->buffer_of[tensor] != DELTA_PROBLEM_NONE) return;
  if (maker->slot_of[tensor] == DELTA_PROBLEM_NONE) {
    run_step(maker, maker->producer[tensor]);
    return;
  }
  maker->buffer_of[tensor] = new_buffer(maker, tensor, maker->problem->tensors[tensor].size_bytes);
  delta_schedule_step_t *step = new_step(maker, DELTA_STEP_SWAP_IN, DELTA_LANE_PREFETCH, 0, 1);
  step->outputs[0] = maker->buffer_of[tensor];
  step->host_offset_bytes = maker->slot_of[tensor];
}

static void run_step(schedule_maker_t *maker, uint32_t index) {
  const delta_problem_step_t *problem_step = &maker->problem->steps[index];
  for (uint32_t k = 0; k < problem_step->input_count; ++k) make_resident(maker, problem_step->inputs[k]);
  delta_schedule_step_t *step = new_step(maker, DELTA_STEP_RUN, DELTA_LANE_COMPUTE, problem_step->input_count, problem_step->output_count);
  step->problem_step = index;
  for (uint32_t k = 0; k < problem_step->input_count; ++k) step->inputs[k] = maker->buffer_of[problem_step->inputs[k]];
  if (problem_step->workspace_bytes > 0) step->workspace = new_buffer(maker, DELTA_PROBLEM_NONE, problem_step->workspace_bytes);
  for (uint32_t k = 0; k < problem_step->output_count; ++k) {
    const uint32_t tensor = problem_step->outputs[k];
    step->outputs[k] = DELTA_PROBLEM_NONE;
    if (delta_problem_tensor_is_state(&maker->problem->tensors[tensor])) continue;
    step->outputs[k] = new_buffer(maker, tensor, maker->problem->tensors[tensor].size_bytes);
    if (maker->buffer_of[tensor] == DELTA_PROBLEM_NONE) maker->buffer_of[tensor] = step->outputs[k];
  }
}

static bool can_be_made_again(const schedule_maker_t *maker, uint32_t tensor) {
  if (maker->producer[tensor] == DELTA_PROBLEM_NONE) return false;
  const delta_problem_step_t *step = &maker->problem->steps[maker->producer[tensor]];
  if (!(step->flags & DELTA_STEP_PURE)) return false;
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (delta_problem_tensor_is_state(&maker->problem->tensors[step->inputs[k]])) return false;
  }
  return true;
}

// Sometimes copies a tensor out, or drops it.
static void release_something(schedule_maker_t *maker) {
  const uint32_t tensor = (uint32_t)delta_test_number(&maker->numbers, maker->problem->tensor_count);
  if (maker->buffer_of[tensor] == DELTA_PROBLEM_NONE || maker->uses_left[tensor] == 0) return;
  if (delta_test_number(&maker->numbers, 2) == 0 && can_be_made_again(maker, tensor)) {
    maker->buffer_of[tensor] = DELTA_PROBLEM_NONE;
    return;
  }
  if (maker->slot_of[tensor] == DELTA_PROBLEM_NONE) {
    delta_schedule_step_t *step = new_step(maker, DELTA_STEP_SWAP_OUT, DELTA_LANE_OFFLOAD, 1, 0);
    step->inputs[0] = maker->buffer_of[tensor];
    step->host_offset_bytes = maker->schedule->host_bytes;
    maker->slot_of[tensor] = (uint32_t)maker->schedule->host_bytes;
    maker->schedule->host_bytes += maker->problem->tensors[tensor].size_bytes;
    maker->schedule->swapped_bytes += maker->problem->tensors[tensor].size_bytes;
    ++maker->schedule->swapped_tensors;
  }
  maker->buffer_of[tensor] = DELTA_PROBLEM_NONE;
}

static void wait_for_other_lanes(delta_schedule_t *schedule) {
  uint32_t last[DELTA_LANE_COUNT] = {0};
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    delta_schedule_step_t *step = &schedule->steps[s];
    delta_test_must(DELTA_REGION_ALLOCATE(&schedule->region, DELTA_LANE_COUNT, &step->waits));
    for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
      if (last[l] == 0 || l == (int)step->lane) continue;
      uint32_t at = step->wait_count++;
      for (; at > 0 && step->waits[at - 1] > last[l] - 1; --at) step->waits[at] = step->waits[at - 1];
      step->waits[at] = last[l] - 1;
    }
    last[step->lane] = s + 1;
  }
}

static void note_use(delta_schedule_t *schedule, uint32_t buffer, uint32_t s, bool writes) {
  if (buffer == DELTA_PROBLEM_NONE) return;
  if (writes) schedule->buffers[buffer].first_step = s;
  schedule->buffers[buffer].last_step = s;
}

static void find_lifetimes(schedule_maker_t *maker) {
  delta_schedule_t *schedule = maker->schedule;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    for (uint32_t k = 0; k < step->input_count; ++k) note_use(schedule, step->inputs[k], s, false);
    for (uint32_t k = 0; k < step->output_count; ++k) note_use(schedule, step->outputs[k], s, true);
    note_use(schedule, step->workspace, s, true);
  }
  for (uint32_t t = 0; t < maker->problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &maker->problem->tensors[t];
    if ((tensor->flags & DELTA_TENSOR_OUTPUT) && !delta_problem_tensor_is_state(tensor)) {
      schedule->buffers[maker->buffer_of[t]].last_step = schedule->step_count - 1;
    }
  }
}

static void take_pairs(const delta_problem_t *problem, delta_schedule_t *schedule, uint32_t s, bool *is_taken) {
  const delta_schedule_step_t *step = &schedule->steps[s];
  if (step->kind != DELTA_STEP_RUN) return;
  const delta_problem_step_t *problem_step = &problem->steps[step->problem_step];
  for (uint32_t p = 0; p < problem_step->inplace_count; ++p) {
    for (uint32_t i = 0; i < step->input_count; ++i) {
      for (uint32_t o = 0; o < step->output_count; ++o) {
        if (problem_step->inputs[i] != problem_step->inplace[p].input || problem_step->outputs[o] != problem_step->inplace[p].output)
          continue;
        const uint32_t input = step->inputs[i], output = step->outputs[o];
        if (is_taken[input] || schedule->buffers[input].last_step != s || schedule->buffers[output].inplace_of != DELTA_PROBLEM_NONE)
          continue;
        schedule->buffers[output].inplace_of = input;
        is_taken[input] = true;
      }
    }
  }
}

static uint64_t live_bytes_at(const delta_schedule_t *schedule, uint32_t s) {
  uint64_t live_bytes = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    const uint32_t first = buffer->first_step + (buffer->inplace_of != DELTA_PROBLEM_NONE);
    if (first <= s && s <= buffer->last_step) live_bytes += buffer->size_bytes;
  }
  return live_bytes;
}

static void finish_schedule(schedule_maker_t *maker) {
  delta_schedule_t *schedule = maker->schedule;
  bool *is_taken = NULL, *has_run = NULL;
  delta_test_must(DELTA_REGION_ALLOCATE(&schedule->region, schedule->buffer_count, &is_taken));
  delta_test_must(DELTA_REGION_ALLOCATE(&schedule->region, maker->problem->step_count, &has_run));
  find_lifetimes(maker);
  wait_for_other_lanes(schedule);
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    take_pairs(maker->problem, schedule, s, is_taken);
    if (schedule->steps[s].kind != DELTA_STEP_RUN) continue;
    schedule->recomputed_nodes += has_run[schedule->steps[s].problem_step];
    has_run[schedule->steps[s].problem_step] = true;
  }
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const uint64_t live_bytes = live_bytes_at(schedule, s);
    if (live_bytes <= schedule->peak_bytes) continue;
    schedule->peak_bytes = live_bytes;
    schedule->peak_step = s;
  }
  delta_test_must(delta_simulate(maker->problem, schedule, delta_allocator_system()));
  delta_test_must(delta_layout(maker->problem, schedule, delta_allocator_system()));
}

static void index_problem(schedule_maker_t *maker) {
  const delta_problem_t *problem = maker->problem;
  uint32_t **tables[] = {&maker->buffer_of, &maker->slot_of, &maker->producer, &maker->uses_left};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
    delta_test_must(DELTA_REGION_ALLOCATE(&maker->schedule->region, problem->tensor_count, tables[i]));
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    maker->buffer_of[t] = maker->slot_of[t] = maker->producer[t] = DELTA_PROBLEM_NONE;
    if (problem->tensors[t].flags & DELTA_TENSOR_OUTPUT) ++maker->uses_left[t];
  }
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    for (uint32_t k = 0; k < problem->steps[s].input_count; ++k) ++maker->uses_left[problem->steps[s].inputs[k]];
    for (uint32_t k = 0; k < problem->steps[s].output_count; ++k) maker->producer[problem->steps[s].outputs[k]] = s;
  }
}

delta_schedule_t *delta_test_swapped_schedule(const delta_problem_t *problem, uint64_t seed) {
  schedule_maker_t maker = {.problem = problem, .numbers = {seed}};
  delta_order_t order;
  delta_test_must(delta_order_make(problem, seed % 2, delta_allocator_system(), &order));
  delta_test_must(delta_schedule_create(delta_allocator_system(), &maker.schedule));
  delta_test_must(DELTA_REGION_ALLOCATE(&maker.schedule->region, MOST_SCHEDULE_STEPS, &maker.schedule->steps));
  delta_test_must(DELTA_REGION_ALLOCATE(&maker.schedule->region, MOST_BUFFERS, &maker.schedule->buffers));
  index_problem(&maker);
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (problem->tensors[t].flags & DELTA_TENSOR_INPUT) maker.buffer_of[t] = new_buffer(&maker, t, problem->tensors[t].size_bytes);
  }
  for (uint32_t p = 0; p < order.step_count; ++p) {
    for (int k = 0; k < 3; ++k) release_something(&maker);
    run_step(&maker, order.steps[p]);
    const delta_problem_step_t *step = &problem->steps[order.steps[p]];
    for (uint32_t k = 0; k < step->input_count; ++k) --maker.uses_left[step->inputs[k]];
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (problem->tensors[t].flags & DELTA_TENSOR_OUTPUT) make_resident(&maker, t);
  }
  finish_schedule(&maker);
  delta_order_deinit(&order);
  return maker.schedule;
}
