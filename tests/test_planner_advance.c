// Advance: a buffer that is copied back moves to where its copy may start earlier, and only there.
#include <criterion/criterion.h>

#include "planner/advance.h"
#include "tests/support/planning.h"

enum { RUNS = 3, COPY = 3, USER = 4, STEPS = 5, LONG = 0, LATE = 1, BACK = 2, NEXT = 3, BUFFERS = 4 };

typedef struct advance_case {
  const char *name;
  uint64_t capacity_bytes;
  uint32_t earliest_step;
  uint64_t offset_bytes, arena_bytes; // of the buffer that is copied back; of all
} advance_case_t;

// A block of 10 bytes lives throughout, one of 10 until the run before the copy, and 20 bytes are copied back to where that one lay and above; what the last run makes takes
// 10 above them.
static void make_schedule(delta_schedule_step_t *steps, delta_buffer_t *buffers, uint32_t *back, delta_schedule_t *out_schedule) {
  *back = BACK;
  for (uint32_t s = 0; s < STEPS; ++s) steps[s] = (delta_schedule_step_t){.kind = DELTA_STEP_RUN, .workspace = DELTA_PROBLEM_NONE};
  steps[COPY] = (delta_schedule_step_t){
      .kind = DELTA_STEP_SWAP_IN, .lane = DELTA_LANE_PREFETCH, .outputs = back, .output_count = 1, .workspace = DELTA_PROBLEM_NONE};
  steps[USER].inputs = back;
  steps[USER].input_count = 1;
  for (uint32_t b = 0; b < BUFFERS; ++b) buffers[b] = (delta_buffer_t){.tensor = b, .inplace_of = DELTA_PROBLEM_NONE, .size_bytes = 10};
  buffers[LONG].last_step = STEPS - 1;
  buffers[LATE].last_step = RUNS - 1;
  buffers[LATE].offset_bytes = 10;
  buffers[BACK].size_bytes = 20;
  buffers[BACK].offset_bytes = 10;
  buffers[BACK].first_step = COPY;
  buffers[BACK].last_step = USER;
  buffers[NEXT].offset_bytes = 30;
  buffers[NEXT].first_step = buffers[NEXT].last_step = USER;
  *out_schedule = (delta_schedule_t){
      .steps = steps, .step_count = STEPS, .buffers = buffers, .buffer_count = BUFFERS, .peak_bytes = 40, .arena_bytes = 40};
}

Test(advance, copies_back_start_where_bytes_are_free_earlier) {
  static const advance_case_t cases[] = {{"there is no other place", 40, 0, 10, 40},
                                         {"above what is in use", 60, 0, 40, 60},
                                         {"above what is in use until then, below what comes", 50, 0, 10, 40},
                                         {"no earlier than is of use", 60, COPY, 10, 40}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    const advance_case_t *test = &cases[c];
    delta_schedule_step_t steps[STEPS];
    delta_buffer_t buffers[BUFFERS];
    const uint32_t earliest_steps[BUFFERS] = {[BACK] = test->earliest_step};
    uint32_t back;
    delta_schedule_t schedule;
    make_schedule(steps, buffers, &back, &schedule);
    delta_test_must(delta_advance_copies_back(&schedule, earliest_steps, test->capacity_bytes, delta_allocator_system()));
    cr_expect_eq(buffers[BACK].offset_bytes, test->offset_bytes, "%s: %zu", test->name, (size_t)buffers[BACK].offset_bytes);
    cr_expect_eq(schedule.arena_bytes, test->arena_bytes, "%s: arena %zu", test->name, (size_t)schedule.arena_bytes);
    cr_expect_eq(buffers[LATE].offset_bytes, 10, "%s", test->name);
    cr_expect_eq(buffers[BACK].first_step, COPY, "%s", test->name);
  }
}
