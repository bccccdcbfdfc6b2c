// The verifier accepts what the planner makes, and refuses each kind of fault; what it accepts after random changes a slow machine accepts too.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/planning.h"

static delta_status_t verify(const delta_schedule_t *schedule, const delta_problem_t *problem) {
  return delta_schedule_verify(schedule, problem, schedule->arena_bytes, delta_allocator_system());
}

static void assert_valid(const delta_schedule_t *schedule, const delta_problem_t *problem, uint64_t seed) {
  delta_status_t status = verify(schedule, problem);
  cr_assert_null(status, "seed %llu: %s", (unsigned long long)seed, delta_status_message(status));
  const char *why;
  cr_assert(delta_test_machine_accepts(schedule, problem, &why), "seed %llu: %s", (unsigned long long)seed, why);
}

Test(verify_schedule, accepts_what_the_planner_makes) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 40));
    delta_schedule_t *schedule = delta_test_kept_schedule(problem, seed % 2);
    assert_valid(schedule, problem, seed);
    delta_schedule_free(schedule);
    delta_problem_free(problem);
  }
}

Test(verify_schedule, accepts_copies_and_repeated_steps) {
  uint32_t swaps = 0, repeats = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 30));
    delta_schedule_t *schedule = delta_test_swapped_schedule(problem, seed);
    assert_valid(schedule, problem, seed);
    swaps += schedule->swapped_tensors;
    repeats += schedule->recomputed_nodes;
    delta_schedule_free(schedule);
    delta_problem_free(problem);
  }
  cr_assert_gt(swaps, 500);
  cr_assert_gt(repeats, 100);
}

// ---- One fault at a time, in a schedule built by hand.
//
//   step      0: s0   1: s1   2: out a   3: s2   4: in a   5: s3   6: s4   7: s5
//   x [0,64)  ----
//   g [0,64)                                               ------------
//   a [64,192)-----------------------            ==============            (again, from the host)
//   b [192,320)       ----------------------
//   c [320,384)-ws-                       ------------------------------------
//   y [320,384)                                                            ----  in place of c
enum { X, A, B, C, W, G, W_NEXT, Y, TENSOR_COUNT };
enum { BUFFER_X, BUFFER_WORKSPACE, BUFFER_A, BUFFER_B, BUFFER_C, BUFFER_A_AGAIN, BUFFER_G, BUFFER_Y, BUFFER_COUNT };

static delta_problem_t *make_problem(void) {
  static uint32_t lists[] = {X, W, A, A, B, B, C, A, C, G, W, G, W_NEXT, C, Y};
  static delta_inplace_pair_t pairs[] = {{C, Y}, {A, B}};
  static delta_problem_tensor_t tensors[TENSOR_COUNT] = {
      [X] = {.name = "x", .size_bytes = 64, .flags = DELTA_TENSOR_INPUT, .becomes_state = DELTA_PROBLEM_NONE},
      [A] = {.name = "a", .size_bytes = 128, .becomes_state = DELTA_PROBLEM_NONE},
      [B] = {.name = "b", .size_bytes = 128, .becomes_state = DELTA_PROBLEM_NONE},
      [C] = {.name = "c", .size_bytes = 64, .becomes_state = DELTA_PROBLEM_NONE},
      [W] = {.name = "w", .size_bytes = 64, .flags = DELTA_TENSOR_STATE, .becomes_state = DELTA_PROBLEM_NONE},
      [G] = {.name = "g", .size_bytes = 64, .becomes_state = DELTA_PROBLEM_NONE},
      [W_NEXT] = {.name = "w'", .size_bytes = 64, .becomes_state = W},
      [Y] = {.name = "y", .size_bytes = 64, .flags = DELTA_TENSOR_OUTPUT, .becomes_state = DELTA_PROBLEM_NONE},
  };
  static delta_problem_step_t steps[] = {
      {.name = "s0",
       .workspace_bytes = 64,
       .flags = DELTA_STEP_PURE,
       .inputs = lists,
       .input_count = 2,
       .outputs = lists + 2,
       .output_count = 1},
      {.name = "s1",
       .flags = DELTA_STEP_PURE,
       .inputs = lists + 3,
       .input_count = 1,
       .outputs = lists + 4,
       .output_count = 1,
       .inplace = pairs + 1,
       .inplace_count = 1},
      {.name = "s2", .inputs = lists + 5, .input_count = 1, .outputs = lists + 6, .output_count = 1},
      {.name = "s3", .flags = DELTA_STEP_PURE, .inputs = lists + 7, .input_count = 2, .outputs = lists + 9, .output_count = 1},
      {.name = "s4", .flags = DELTA_STEP_UPDATE, .inputs = lists + 10, .input_count = 2, .outputs = lists + 12, .output_count = 1},
      {.name = "s5",
       .flags = DELTA_STEP_PURE,
       .inputs = lists + 13,
       .input_count = 1,
       .outputs = lists + 14,
       .output_count = 1,
       .inplace = pairs,
       .inplace_count = 1},
  };
  delta_problem_t *problem = NULL;
  delta_test_must(delta_problem_create(delta_allocator_system(), &problem));
  problem->alignment_bytes = 64;
  problem->tensors = tensors;
  problem->tensor_count = TENSOR_COUNT;
  problem->steps = steps;
  problem->step_count = sizeof steps / sizeof *steps;
  delta_test_must(delta_problem_check(problem));
  return problem;
}

#define NONE DELTA_PROBLEM_NONE

// With room behind the steps and buffers for what a fault adds.
static delta_schedule_t *make_schedule(void) {
  static const delta_buffer_t buffers[BUFFER_COUNT + 1] = {
      [BUFFER_X] = {X, 64, 0, 0, 0, NONE},       [BUFFER_WORKSPACE] = {NONE, 64, 320, 0, 0, NONE},
      [BUFFER_A] = {A, 128, 64, 0, 2, NONE},     [BUFFER_B] = {B, 128, 192, 1, 3, NONE},
      [BUFFER_C] = {C, 64, 320, 3, 7, NONE},     [BUFFER_A_AGAIN] = {A, 128, 64, 4, 5, NONE},
      [BUFFER_G] = {G, 64, 0, 5, 6, NONE},       [BUFFER_Y] = {Y, 64, 320, 7, 7, BUFFER_C},
      [BUFFER_COUNT] = {A, 128, 64, 8, 8, NONE},
  };
  static uint32_t lists[] = {BUFFER_X, NONE, BUFFER_A, BUFFER_B, BUFFER_C, BUFFER_A_AGAIN, BUFFER_C,
                             BUFFER_G, NONE, BUFFER_G, NONE,     BUFFER_C, BUFFER_Y,       BUFFER_COUNT};
  static uint32_t waits[] = {0, 1, 2, 4};
  static const delta_schedule_step_t steps[] = {
      {.problem_step = 0, .inputs = lists, .input_count = 2, .outputs = lists + 2, .output_count = 1, .workspace = BUFFER_WORKSPACE},
      {.problem_step = 1, .inputs = lists + 2, .input_count = 1, .outputs = lists + 3, .output_count = 1, .workspace = NONE},
      {.kind = DELTA_STEP_SWAP_OUT,
       .lane = DELTA_LANE_OFFLOAD,
       .problem_step = NONE,
       .inputs = lists + 2,
       .input_count = 1,
       .workspace = NONE,
       .waits = waits,
       .wait_count = 1},
      {.problem_step = 2, .inputs = lists + 3, .input_count = 1, .outputs = lists + 4, .output_count = 1, .workspace = NONE},
      {.kind = DELTA_STEP_SWAP_IN,
       .lane = DELTA_LANE_PREFETCH,
       .problem_step = NONE,
       .outputs = lists + 5,
       .output_count = 1,
       .workspace = NONE,
       .waits = waits + 1,
       .wait_count = 2},
      {.problem_step = 3,
       .inputs = lists + 5,
       .input_count = 2,
       .outputs = lists + 7,
       .output_count = 1,
       .workspace = NONE,
       .waits = waits + 3,
       .wait_count = 1},
      {.problem_step = 4, .inputs = lists + 8, .input_count = 2, .outputs = lists + 10, .output_count = 1, .workspace = NONE},
      {.problem_step = 5, .inputs = lists + 11, .input_count = 1, .outputs = lists + 12, .output_count = 1, .workspace = NONE},
      {.problem_step = 0, .inputs = lists, .input_count = 2, .outputs = lists + 13, .output_count = 1, .workspace = NONE},
  };
  delta_schedule_t frame = {.steps = (delta_schedule_step_t *)steps,
                            .step_count = sizeof steps / sizeof *steps,
                            .buffers = (delta_buffer_t *)buffers,
                            .buffer_count = BUFFER_COUNT + 1,
                            .peak_bytes = 256,
                            .arena_bytes = 384,
                            .host_bytes = 128,
                            .swapped_bytes = 128,
                            .swapped_tensors = 1};
  delta_schedule_t *schedule = delta_test_copy_schedule(&frame);
  schedule->step_count = 8;
  schedule->buffer_count = BUFFER_COUNT;
  return schedule;
}

typedef struct fault_case {
  const char *name;
  void (*spoil)(delta_schedule_t *schedule);
  const char *message; // a part of it
} fault_case_t;

#define FAULT(name, change) \
  static void spoil_##name(delta_schedule_t *schedule) { change; }
#define BUFFER(name) schedule->buffers[BUFFER_##name]
#define STEP(index)  schedule->steps[index]

FAULT(overlap, BUFFER(Y).inplace_of = NONE)
FAULT(shift, BUFFER(B).offset_bytes = 128)
FAULT(unaligned, BUFFER(G).offset_bytes = 8)
FAULT(outside, BUFFER(C).offset_bytes = 384)
FAULT(huge_offset, BUFFER(C).offset_bytes = SIZE_MAX - 63)
FAULT(no_wait_to_read, STEP(5).wait_count = 0)
FAULT(no_wait_to_copy_out, STEP(2).wait_count = 0)
FAULT(no_wait_to_take_bytes, STEP(4).wait_count = 1)
FAULT(no_wait_for_reader, (STEP(4).waits[0] = 2, STEP(4).wait_count = 1))
FAULT(read_first, (STEP(0).problem_step = 1, STEP(0).inputs = STEP(1).inputs, STEP(0).input_count = 1, STEP(0).workspace = NONE))
FAULT(state_after_update, (schedule->step_count = 9, schedule->buffer_count = BUFFER_COUNT + 1))
FAULT(dropped, schedule->step_count = 7)
FAULT(impure_again, (schedule->step_count = 9, STEP(8) = STEP(3)))
FAULT(workspace_size, BUFFER(WORKSPACE).size_bytes = 128)
FAULT(workspace_missing, STEP(0).workspace = NONE)
FAULT(workspace_extra, STEP(1).workspace = BUFFER_WORKSPACE)
FAULT(peak, schedule->peak_bytes = 320)
FAULT(peak_step, schedule->peak_step = 1)
FAULT(arena_stated, schedule->arena_bytes = 448)
FAULT(input_range, STEP(1).inputs[0] = 99)
FAULT(output_none, STEP(1).outputs[0] = NONE)
FAULT(step_range, STEP(1).problem_step = 99)
FAULT(wait_range, STEP(5).waits[0] = 99)
FAULT(wait_for_itself, STEP(5).waits[0] = 5)
FAULT(wait_own_lane, STEP(5).waits[0] = 3)
FAULT(waits_out_of_order, (STEP(4).waits[0] = 2, STEP(4).waits[1] = 1))
FAULT(tensor_range, BUFFER(B).tensor = 99)
FAULT(tensor_is_state, BUFFER(G).tensor = W)
FAULT(size, BUFFER(B).size_bytes = 64)
FAULT(inplace_range, BUFFER(Y).inplace_of = 99)
FAULT(inplace_not_offered, (BUFFER(G).inplace_of = BUFFER_A_AGAIN))
FAULT(inplace_too_soon, BUFFER(B).inplace_of = BUFFER_A)
FAULT(inplace_elsewhere, BUFFER(Y).offset_bytes = 192)
FAULT(lane, STEP(2).lane = DELTA_LANE_PREFETCH)
FAULT(kind, STEP(2).kind = (delta_step_kind_t)7)
FAULT(other_tensor, STEP(3).inputs[0] = BUFFER_A)
FAULT(lives_longer, BUFFER(G).last_step = 7)
FAULT(lives_shorter, BUFFER(B).last_step = 2)
FAULT(first_step, BUFFER(G).first_step = 4)
FAULT(never_written, schedule->buffer_count = BUFFER_COUNT + 1)
FAULT(second_input, (schedule->buffer_count = BUFFER_COUNT + 1, schedule->buffers[BUFFER_COUNT] = BUFFER(X),
                     schedule->buffers[BUFFER_COUNT].offset_bytes = 256))
FAULT(input_late, BUFFER(X).first_step = 1)
FAULT(output_lost, (BUFFER(Y).inplace_of = NONE, STEP(7) = STEP(6), STEP(6) = STEP(8), schedule->steps[6].problem_step = 5,
                    STEP(6).inputs = STEP(3).outputs, STEP(6).input_count = 1, STEP(6).outputs[0] = BUFFER_Y, BUFFER(Y).first_step = 6,
                    BUFFER(Y).last_step = 6, BUFFER(C).last_step = 6, BUFFER(G).last_step = 7, BUFFER(Y).inplace_of = BUFFER_C))
FAULT(host_offset, STEP(4).host_offset_bytes = 64)
FAULT(host_empty, (STEP(4).host_offset_bytes = 128, schedule->host_bytes = 256))
FAULT(host_stated, schedule->host_bytes = 64)
FAULT(swapped_bytes, schedule->swapped_bytes = 0)
FAULT(swapped_tensors, schedule->swapped_tensors = 2)
FAULT(recomputed, schedule->recomputed_nodes = 1)
FAULT(state_in_buffer, STEP(0).inputs[1] = BUFFER_G)
FAULT(new_state_in_buffer, STEP(6).outputs[0] = BUFFER_G)
FAULT(input_count, STEP(0).input_count = 1)
FAULT(written_twice, (STEP(1).problem_step = 0, STEP(1).inputs = STEP(0).inputs, STEP(1).input_count = 2, STEP(1).outputs = STEP(0).outputs,
                      STEP(1).workspace = BUFFER_WORKSPACE))
FAULT(copy_of_two, STEP(2).output_count = 1)
FAULT(copy_of_workspace, STEP(2).inputs[0] = BUFFER_WORKSPACE)
#undef FAULT
#undef BUFFER
#undef STEP

#define CASE(name, message) \
  { #name, spoil_##name, message }
static const fault_case_t fault_cases[] = {
    CASE(overlap, "overlap while both live"),
    CASE(shift, "overlap while both live"),
    CASE(unaligned, "is not aligned"),
    CASE(outside, "outside the arena"),
    CASE(huge_offset, "outside the arena"),
    CASE(no_wait_to_read, "read without a wait for the step that writes it"),
    CASE(no_wait_to_copy_out, "read without a wait for the step that writes it"),
    CASE(no_wait_to_take_bytes, "without a wait for the users of 'a' there"),
    CASE(no_wait_for_reader, "without a wait for the users of 'a' there"),
    CASE(read_first, "'a' is read before it is written"),
    CASE(state_after_update, "'w' is read after its new value is written"),
    CASE(dropped, "step 's5' never runs"),
    CASE(impure_again, "(s2): runs again"),
    CASE(workspace_size, "is not of the size the step needs"),
    CASE(workspace_missing, "needs a workspace of 64 bytes and has none"),
    CASE(workspace_extra, "needs a workspace of 0 bytes and has one"),
    CASE(peak, "states a peak of 320 bytes"),
    CASE(peak_step, "at step 1"),
    CASE(arena_stated, "states an arena of 448 bytes"),
    CASE(input_range, "buffer 99 of 8"),
    CASE(output_none, "buffer 4294967295 of 8"),
    CASE(step_range, "runs step 99 of 6"),
    CASE(wait_range, "wait for step 99"),
    CASE(wait_for_itself, "wait for step 5"),
    CASE(wait_own_lane, "wait for step 3"),
    CASE(waits_out_of_order, "in order"),
    CASE(tensor_range, "tensor 99 of 8"),
    CASE(tensor_is_state, "is not one for tensor 'w'"),
    CASE(size, "is not one for tensor 'b' of 128"),
    CASE(inplace_range, "does not allow"),
    CASE(inplace_not_offered, "does not allow"),
    CASE(inplace_too_soon, "still needed"),
    CASE(inplace_elsewhere, "lies elsewhere"),
    CASE(lane, "does not run on lane"),
    CASE(kind, "kind 7"),
    CASE(other_tensor, "holds 'a', the step uses 'b'"),
    CASE(lives_longer, "to its last use and no longer"),
    CASE(lives_shorter, "to its last use and no longer"),
    CASE(first_step, "does not live from the step that writes it"),
    CASE(never_written, "is never written"),
    CASE(second_input, "second buffer for the same input"),
    CASE(input_late, "is read before it is written"),
    CASE(output_lost, "output 'y' has no buffer that lives to the end"),
    CASE(host_offset, "beyond the 128 host bytes"),
    CASE(host_empty, "do not hold it"),
    CASE(host_stated, "beyond the 64 host bytes"),
    CASE(swapped_bytes, "states swapped bytes of 0"),
    CASE(swapped_tensors, "states a number of swapped tensors of 2"),
    CASE(recomputed, "states a number of recomputed nodes of 1"),
    CASE(state_in_buffer, "'w' has a buffer"),
    CASE(new_state_in_buffer, "'w'' has a buffer"),
    CASE(input_count, "1 inputs and 1 outputs"),
    CASE(written_twice, "is written twice"),
    CASE(copy_of_two, "a copy has one buffer"),
    CASE(copy_of_workspace, "holds no tensor"),
};
#undef CASE

Test(verify_schedule, the_schedule_built_by_hand_is_valid) {
  delta_problem_t *problem = make_problem();
  delta_schedule_t *schedule = make_schedule();
  assert_valid(schedule, problem, 0);
  delta_schedule_free(schedule);
  delta_problem_free(problem);
}

Test(verify_schedule, every_fault_is_named) {
  for (size_t i = 0; i < sizeof fault_cases / sizeof *fault_cases; ++i) {
    delta_problem_t *problem = make_problem();
    delta_schedule_t *schedule = make_schedule();
    fault_cases[i].spoil(schedule);
    delta_status_t status = verify(schedule, problem);
    cr_expect_eq(delta_status_code(status), DELTA_STATUS_MALFORMED, "%s", fault_cases[i].name);
    cr_expect_not_null(strstr(delta_status_message(status), fault_cases[i].message), "%s: %s", fault_cases[i].name,
                       delta_status_message(status));
    delta_status_free(status);
    delta_schedule_free(schedule);
    delta_problem_free(problem);
  }
}

Test(verify_schedule, budgets_are_held) {
  delta_problem_t *problem = make_problem();
  delta_schedule_t *schedule = make_schedule();
  delta_status_t status = delta_schedule_verify(schedule, problem, 383, delta_allocator_system());
  cr_assert_not_null(strstr(delta_status_message(status), "needs an arena of 384 bytes, there are 383"));
  delta_status_free(status);
  problem->host_budget_bytes = 127;
  status = verify(schedule, problem);
  cr_assert_not_null(strstr(delta_status_message(status), "128 host bytes, its copies end at 128, there are 127"));
  delta_status_free(status);
  delta_schedule_free(schedule);
  delta_problem_free(problem);
}

// ---- Random changes

static void change_number(delta_test_numbers_t *numbers, uint32_t *number, uint32_t limit) {
  *number = delta_test_number(numbers, 3) == 0 ? *number + 1 : (uint32_t)delta_test_number(numbers, limit + 1);
}

static uint64_t arena_of(const delta_schedule_t *schedule) {
  uint64_t end_bytes = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const uint64_t end = schedule->buffers[b].offset_bytes + schedule->buffers[b].size_bytes;
    if (end > end_bytes) end_bytes = end;
  }
  return end_bytes;
}

static void change_step(delta_test_numbers_t *numbers, delta_schedule_t *schedule) {
  delta_schedule_step_t *step = &schedule->steps[delta_test_number(numbers, schedule->step_count)];
  const uint64_t choice = delta_test_number(numbers, 6);
  if (choice <= 2 && step->wait_count > 0) {
    const uint32_t at = (uint32_t)delta_test_number(numbers, step->wait_count);
    --step->wait_count;
    memmove(&step->waits[at], &step->waits[at + 1], (step->wait_count - at) * sizeof *step->waits);
  } else if (choice == 3 && step->wait_count > 0) {
    step->waits[0] = (uint32_t)delta_test_number(numbers, step->waits[0] + 1);
  } else if (choice == 4 && step->input_count > 0) {
    change_number(numbers, &step->inputs[delta_test_number(numbers, step->input_count)], schedule->buffer_count);
  } else if (choice == 5) {
    step->host_offset_bytes = 64 * delta_test_number(numbers, schedule->host_bytes / 64 + 1);
  } else {
    delta_schedule_step_t *other = &schedule->steps[delta_test_number(numbers, schedule->step_count)];
    const delta_schedule_step_t saved = *step;
    *step = *other;
    *other = saved;
  }
}

static void change_buffer(delta_test_numbers_t *numbers, delta_schedule_t *schedule) {
  delta_buffer_t *buffer = &schedule->buffers[delta_test_number(numbers, schedule->buffer_count)];
  switch (delta_test_number(numbers, 5)) {
    case 0:
      change_number(numbers, &buffer->tensor, schedule->buffer_count);
      break;
    case 1:
      change_number(numbers, &buffer->first_step, schedule->step_count);
      break;
    case 2:
      change_number(numbers, &buffer->last_step, schedule->step_count);
      break;
    case 3:
      buffer->inplace_of = NONE;
      break;
    default:
      buffer->offset_bytes = 64 * delta_test_number(numbers, schedule->arena_bytes / 64 + 2);
      break;
  }
  schedule->arena_bytes = arena_of(schedule);
}

Test(verify_schedule, what_is_accepted_after_random_changes_still_computes_the_problem) {
  uint32_t accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    delta_test_numbers_t numbers = {seed * 31 + 7};
    delta_problem_t *problem = delta_test_random_problem(seed % 200, 4 + (uint32_t)(seed % 14));
    delta_schedule_t *schedule = delta_test_swapped_schedule(problem, seed % 200);
    for (uint64_t k = delta_test_number(&numbers, 3); k < 3; ++k) {
      if (delta_test_number(&numbers, 2)) {
        change_step(&numbers, schedule);
      } else {
        change_buffer(&numbers, schedule);
      }
    }
    delta_status_t status = verify(schedule, problem);
    if (status) {
      ++refused;
    } else {
      const char *why;
      cr_assert(delta_test_machine_accepts(schedule, problem, &why), "seed %llu: %s", (unsigned long long)seed, why);
      ++accepted;
    }
    delta_status_free(status);
    delta_schedule_free(schedule);
    delta_problem_free(problem);
  }
  cr_assert_gt(accepted, 300);
  cr_assert_gt(refused, 2000);
}
