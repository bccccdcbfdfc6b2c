// Fuzz target: plan files. What the reader accepts is written and read again, and its schedules go through the verifier against a fixed problem.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plans/plan.h"

static delta_problem_t *fixed_problem;

// Three steps in a row, a state that is updated, one in-place pair: x -> a -> b -> y, w -> w'.
static delta_problem_t *make_problem(void) {
  static uint32_t lists[] = {0, 1, 1, 2, 3, 2, 4, 5};
  static delta_inplace_pair_t pair = {1, 2};
  static delta_problem_tensor_t tensors[] = {
      {.name = "x", .size_bytes = 64, .flags = DELTA_TENSOR_INPUT, .becomes_state = DELTA_PROBLEM_NONE},
      {.name = "a", .size_bytes = 128, .becomes_state = DELTA_PROBLEM_NONE},
      {.name = "b", .size_bytes = 128, .becomes_state = DELTA_PROBLEM_NONE},
      {.name = "w", .size_bytes = 64, .flags = DELTA_TENSOR_STATE, .becomes_state = DELTA_PROBLEM_NONE},
      {.name = "w'", .size_bytes = 64, .becomes_state = 3},
      {.name = "y", .size_bytes = 64, .flags = DELTA_TENSOR_OUTPUT, .becomes_state = DELTA_PROBLEM_NONE},
  };
  static delta_problem_step_t steps[] = {
      {.name = "s0", .flags = DELTA_STEP_PURE, .inputs = lists, .input_count = 1, .outputs = lists + 1, .output_count = 1},
      {.name = "s1",
       .flags = DELTA_STEP_PURE,
       .workspace_bytes = 64,
       .inputs = lists + 2,
       .input_count = 1,
       .outputs = lists + 3,
       .output_count = 1,
       .inplace = &pair,
       .inplace_count = 1},
      {.name = "s2", .flags = DELTA_STEP_UPDATE, .inputs = lists + 4, .input_count = 2, .outputs = lists + 6, .output_count = 2},
  };
  delta_problem_t *problem = NULL;
  if (delta_problem_create(delta_allocator_system(), &problem)) abort();
  problem->alignment_bytes = 64;
  problem->tensors = tensors;
  problem->tensor_count = sizeof tensors / sizeof *tensors;
  problem->steps = steps;
  problem->step_count = sizeof steps / sizeof *steps;
  return problem;
}

// What was accepted must be written as text that reads back to the same text.
static void check_round_trip(const delta_plan_t *plan) {
  delta_text_t text, again;
  delta_text_init(&text, delta_allocator_system());
  delta_text_init(&again, delta_allocator_system());
  delta_plan_t *copy = NULL;
  if (delta_plan_to_json(plan, &text)) abort();
  if (delta_plan_from_json(text.items, text.count, "fuzz", delta_allocator_system(), &copy)) abort();
  if (delta_plan_to_json(copy, &again)) abort();
  if (strcmp(text.items, again.items) != 0) abort();
  delta_plan_free(copy);
  delta_text_deinit(&text);
  delta_text_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  if (!fixed_problem) fixed_problem = make_problem();
  char *text = malloc(size_bytes + 1);
  if (!text) return 0;
  memcpy(text, data, size_bytes);
  text[size_bytes] = 0;
  delta_plan_t *plan = NULL;
  delta_status_t status = delta_plan_from_json(text, size_bytes, "fuzz", delta_allocator_system(), &plan);
  if (!status) check_round_trip(plan);
  for (uint32_t i = 0; plan && i < plan->program_count; ++i) {
    delta_status_free(delta_schedule_verify(plan->programs[i].schedule, fixed_problem, UINT64_MAX, delta_allocator_system()));
  }
  delta_status_free(status);
  delta_plan_free(plan);
  free(text);
  return 0;
}
