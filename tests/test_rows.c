// Rows: a whole and its parts in the same bytes. What problems may say, what the planner makes of it, and what the verifier refuses.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/planning.h"

#define NONE DELTA_PROBLEM_NONE

//   step      0: make a   1: make b   2: join   3: split   4: use
//   a [0,64)    -----------------------
//   b [64,192)              -----------
//   c [0,192)                          --------
//   d [0,128)                                  ----------
//   e [128,192)                                ----------
//   y [192,256)                                       ---
enum { A, B, C, D, E, Y, COUNT };

typedef struct row_fixture {
  delta_problem_tensor_t tensors[COUNT];
  delta_problem_step_t steps[COUNT - 1];
  uint32_t lists[16];
  delta_problem_t *problem;
} row_fixture_t;

static void set_step(row_fixture_t *fixture, uint32_t s, const char *name, uint32_t flags, uint32_t first, uint32_t inputs,
                     uint32_t outputs) {
  fixture->steps[s] = (delta_problem_step_t){.name = name,
                                             .node = NONE,
                                             .seconds = 1e-3,
                                             .flags = DELTA_STEP_PURE | flags,
                                             .inputs = &fixture->lists[first],
                                             .input_count = inputs,
                                             .outputs = &fixture->lists[first + inputs],
                                             .output_count = outputs};
}

static void make_problem(row_fixture_t *fixture) {
  static const char *const names[COUNT] = {"a", "b", "c", "d", "e", "y"};
  static const size_t sizes[COUNT] = {64, 128, 192, 128, 64, 64};
  static const uint32_t lists[] = {A, B, A, B, C, C, D, E, D, E, Y};
  *fixture = (row_fixture_t){0};
  memcpy(fixture->lists, lists, sizeof lists);
  for (uint32_t t = 0; t < COUNT; ++t)
    fixture->tensors[t] = (delta_problem_tensor_t){.name = names[t], .size_bytes = sizes[t], .becomes_state = NONE};
  fixture->tensors[Y].flags = DELTA_TENSOR_OUTPUT;
  set_step(fixture, 0, "make a", 0, 0, 0, 1);
  set_step(fixture, 1, "make b", 0, 1, 0, 1);
  set_step(fixture, 2, "join", DELTA_STEP_IN_ROW, 2, 2, 1);
  set_step(fixture, 3, "split", DELTA_STEP_IN_ROW, 5, 1, 2);
  set_step(fixture, 4, "use", 0, 8, 2, 1);
  delta_test_must(delta_problem_create(delta_allocator_system(), &fixture->problem));
  fixture->problem->alignment_bytes = 64;
  fixture->problem->tensors = fixture->tensors;
  fixture->problem->tensor_count = COUNT;
  fixture->problem->steps = fixture->steps;
  fixture->problem->step_count = COUNT - 1;
}

static void expect_malformed(delta_status_t status, const char *words, const char *name) {
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_MALFORMED, "%s", name);
  cr_expect(status && strstr(delta_status_message(status), words), "%s: %s", name, delta_status_message(status));
  delta_status_free(status);
}

// ---- Problems

typedef struct problem_fault {
  const char *name;
  void (*spoil)(row_fixture_t *fixture);
  const char *words;
} problem_fault_t;

static void unequal_sums(row_fixture_t *fixture) { fixture->tensors[C].size_bytes = 256; }
static void an_output(row_fixture_t *fixture) { fixture->tensors[A].flags = DELTA_TENSOR_OUTPUT; }
static void one_part(row_fixture_t *fixture) { fixture->steps[4].flags |= DELTA_STEP_IN_ROW, fixture->steps[4].input_count = 1; }
Test(rows, problems_say_what_is_one_whole) {
  static const problem_fault_t faults[] = {
      {"sums", unequal_sums, "works in a row"}, {"output", an_output, "cannot lie in a row"}, {"one part", one_part, "works in a row"}};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
    row_fixture_t fixture;
    make_problem(&fixture);
    delta_test_must(delta_problem_check(fixture.problem));
    faults[i].spoil(&fixture);
    expect_malformed(delta_problem_check(fixture.problem), faults[i].words, faults[i].name);
    delta_problem_free(fixture.problem);
  }
}

// ---- The planner

Test(rows, parts_and_wholes_share_their_bytes) {
  row_fixture_t fixture;
  make_problem(&fixture);
  delta_schedule_t *schedule = delta_test_kept_schedule(fixture.problem, true);
  cr_expect_eq(schedule->peak_bytes, 256);
  cr_expect_eq(schedule->arena_bytes, 256);
  delta_test_must(delta_schedule_verify(schedule, fixture.problem, 256, delta_allocator_system()));
  delta_schedule_free(schedule);
  // Where a part is needed afterwards, the whole needs bytes of its own.
  fixture.lists[11] = fixture.lists[10];
  fixture.lists[10] = A;
  set_step(&fixture, 4, "use", 0, 8, 3, 1);
  schedule = delta_test_kept_schedule(fixture.problem, true);
  cr_expect_eq(schedule->peak_bytes, 384);
  delta_test_must(delta_schedule_verify(schedule, fixture.problem, UINT64_MAX, delta_allocator_system()));
  delta_schedule_free(schedule);
  delta_problem_free(fixture.problem);
}

// Of a whole that was split, a part is not put together with others where it lies: the new whole would lie over what is left of the old one.
Test(rows, wholes_do_not_overlap) {
  row_fixture_t fixture;
  make_problem(&fixture);
  static const uint32_t lists[] = {A, A, D, E, E, B, D, B, C, C, Y};
  memcpy(fixture.lists, lists, sizeof lists);
  static const size_t sizes[COUNT] = {192, 64, 192, 128, 64, 64};
  for (uint32_t t = 0; t < COUNT; ++t) fixture.tensors[t].size_bytes = sizes[t];
  set_step(&fixture, 0, "make a", 0, 0, 0, 1);
  set_step(&fixture, 1, "split", DELTA_STEP_IN_ROW, 1, 1, 2);
  set_step(&fixture, 2, "work", 0, 4, 1, 1);
  set_step(&fixture, 3, "join", DELTA_STEP_IN_ROW, 6, 2, 1);
  set_step(&fixture, 4, "use", 0, 9, 1, 1);
  delta_test_must(delta_problem_check(fixture.problem));
  delta_schedule_t *schedule = delta_test_kept_schedule(fixture.problem, true);
  delta_test_must(delta_schedule_verify(schedule, fixture.problem, UINT64_MAX, delta_allocator_system()));
  cr_expect_eq(schedule->peak_bytes, 384); // the join's parts and its whole
  delta_schedule_free(schedule);
  delta_problem_free(fixture.problem);
}

// ---- The verifier

typedef struct row_fault {
  const char *name;
  uint32_t buffer;
  size_t offset_bytes;
  uint32_t inplace_of;
  const char *words;
} row_fault_t;

Test(rows, faults_are_named) {
  static const row_fault_t faults[] = {
      {"a part elsewhere", B, 128, NONE, "do not lie one behind another"},
      {"a whole elsewhere", C, 64, A, "do not lie one behind another"},
      {"the second part named", C, 0, B, "does not allow it to take"},
      {"one output alone", E, 128, NONE, "not with all outputs"},
      {"parts the other way round", E, 0, C, "do not lie one behind another"},
      {"no row", C, 0, NONE, "overlap while both live"},
  };
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
    row_fixture_t fixture;
    make_problem(&fixture);
    delta_schedule_t *schedule = delta_test_kept_schedule(fixture.problem, true);
    uint32_t buffer_of[COUNT];
    for (uint32_t b = 0; b < schedule->buffer_count; ++b) buffer_of[schedule->buffers[b].tensor] = b;
    delta_buffer_t *buffer = &schedule->buffers[buffer_of[faults[i].buffer]];
    const size_t base_bytes = schedule->buffers[buffer_of[A]].offset_bytes;
    buffer->offset_bytes = base_bytes + faults[i].offset_bytes;
    buffer->inplace_of = faults[i].inplace_of == NONE ? NONE : buffer_of[faults[i].inplace_of];
    schedule->arena_bytes = 0;
    for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
      const uint64_t end_bytes = schedule->buffers[b].offset_bytes + schedule->buffers[b].size_bytes;
      if (end_bytes > schedule->arena_bytes) schedule->arena_bytes = end_bytes;
    }
    expect_malformed(delta_schedule_verify(schedule, fixture.problem, UINT64_MAX, delta_allocator_system()), faults[i].words,
                     faults[i].name);
    delta_schedule_free(schedule);
    delta_problem_free(fixture.problem);
  }
}
