// In-place pairs, chosen on the expanded schedule: only there is it known where a buffer's last use is.
#include "planner/expansion.h"

typedef struct pair_choice {
  uint32_t input, output; // buffers; NONE: there is no pair
  size_t size_bytes;
} pair_choice_t;

static uint32_t find_buffer(const uint32_t *tensors, const uint32_t *buffers, uint32_t count, uint32_t tensor) {
  for (uint32_t k = 0; k < count; ++k) {
    if (tensors[k] == tensor) return buffers[k];
  }
  return DELTA_PROBLEM_NONE;
}

// The best pair left at a step: its input dies here and is not taken, its output has no bytes yet; the largest, of equal ones the first listed.
static pair_choice_t find_pair(const delta_expansion_t *expansion, uint32_t s, const bool *is_taken) {
  const delta_schedule_step_t *step = &expansion->steps.items[s];
  const delta_problem_step_t *problem_step = &expansion->problem->steps[step->problem_step];
  const delta_buffer_t *buffers = expansion->buffers.items;
  pair_choice_t best = {.input = DELTA_PROBLEM_NONE};
  for (uint32_t k = 0; k < problem_step->inplace_count; ++k) {
    const delta_inplace_pair_t *pair = &problem_step->inplace[k];
    const uint32_t input = find_buffer(problem_step->inputs, step->inputs, step->input_count, pair->input);
    const uint32_t output = find_buffer(problem_step->outputs, step->outputs, step->output_count, pair->output);
    if (input == DELTA_PROBLEM_NONE || output == DELTA_PROBLEM_NONE) continue; // a state and its new value, in the state area
    const bool is_free = buffers[input].last_step == s && !is_taken[input] && buffers[output].inplace_of == DELTA_PROBLEM_NONE;
    if (is_free && buffers[input].size_bytes > best.size_bytes) best = (pair_choice_t){input, output, buffers[input].size_bytes};
  }
  return best;
}

// Whether a step's inputs can lie in a row: all die here, and where they are put together none is a part of another whole, so that wholes never overlap.
static bool can_lie_in_row(const delta_expansion_t *expansion, uint32_t s) {
  const delta_schedule_step_t *step = &expansion->steps.items[s];
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const uint32_t input = step->inputs[k];
    if (expansion->buffers.items[input].last_step != s || (step->input_count > 1 && expansion->is_part.items[input])) return false;
  }
  return true;
}

static void take_row(delta_expansion_t *expansion, const delta_schedule_step_t *step) {
  for (uint32_t k = 0; k < step->output_count; ++k) {
    expansion->buffers.items[step->outputs[k]].inplace_of = step->inputs[0];
    expansion->is_part.items[step->outputs[k]] = step->output_count > 1;
  }
}

static void take_pairs(delta_expansion_t *expansion, uint32_t s) {
  bool *is_taken = expansion->is_taken.items, *is_part = expansion->is_part.items;
  for (pair_choice_t pair; (pair = find_pair(expansion, s, is_taken)).input != DELTA_PROBLEM_NONE;) {
    expansion->buffers.items[pair.output].inplace_of = pair.input;
    is_taken[pair.input] = true;
    is_part[pair.output] = is_part[pair.input];
  }
}

delta_status_t delta_expansion_choose_inplace(delta_expansion_t *expansion) {
  expansion->is_taken.count = expansion->is_part.count = 0;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(expansion->allocator, &expansion->is_taken, expansion->buffers.count));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(expansion->allocator, &expansion->is_part, expansion->buffers.count));
  for (size_t b = 0; b < expansion->buffers.count; ++b) expansion->is_taken.items[b] = expansion->is_part.items[b] = false;
  for (uint32_t s = 0; s < expansion->steps.count; ++s) {
    const delta_schedule_step_t *step = &expansion->steps.items[s];
    if (step->kind != DELTA_STEP_RUN) continue;
    if (!(expansion->problem->steps[step->problem_step].flags & DELTA_STEP_IN_ROW)) {
      take_pairs(expansion, s);
    } else if (can_lie_in_row(expansion, s)) {
      take_row(expansion, step);
    }
  }
  return DELTA_OK;
}
