// What a session does within a step that does not go as planned: late copies, a full disk, a budget that is lowered or raised amid a step, memory that gets short. The bits are
// those of an undisturbed training, the step does not fail, and the reaction comes in the step itself.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/session_parts.h"
#include "tests/support/surprise_device.h"
#include "tests/support/training.h"

enum { BATCH = 512, STEPS = 4 };

// Nine layers whose activations are what memory is needed for.
static const char deep_mlp[] =
    "input x float32 [N,64]\n"
    "init w1 float32 [64,64] 0\n"
    "init w2 float32 [64,64] 0\n"
    "init w3 float32 [64,64] 0\n"
    "init w4 float32 [64,64] 0\n"
    "init w5 float32 [64,64] 0\n"
    "init w6 float32 [64,64] 0\n"
    "init w7 float32 [64,64] 0\n"
    "init w8 float32 [64,64] 0\n"
    "init w9 float32 [64,64] 0\n"
    "node MatMul x w1 -> a1\n"
    "node Tanh a1 -> h1\n"
    "node MatMul h1 w2 -> a2\n"
    "node Tanh a2 -> h2\n"
    "node MatMul h2 w3 -> a3\n"
    "node Sigmoid a3 -> h3\n"
    "node MatMul h3 w4 -> a4\n"
    "node Tanh a4 -> h4\n"
    "node MatMul h4 w5 -> a5\n"
    "node Tanh a5 -> h5\n"
    "node MatMul h5 w6 -> a6\n"
    "node Sigmoid a6 -> h6\n"
    "node MatMul h6 w7 -> a7\n"
    "node Tanh a7 -> h7\n"
    "node MatMul h7 w8 -> a8\n"
    "node Tanh a8 -> h8\n"
    "node MatMul h8 w9 -> a9\n"
    "node Sigmoid a9 -> h9\n"
    "init w0 float32 [64,5] 0\n"
    "node MatMul h9 w0 -> logits\n"
    "output logits\n";

typedef struct disturbed {
  delta_test_training_t training;
  delta_test_surprises_t surprises;
  char events[8192]; // of all steps, a line each
  double losses[STEPS];
  uint64_t most_committed_bytes;
} disturbed_t;

// Plans, and opens a session on a device with surprises.
static void start(disturbed_t *run, const char *policy, const char *budget) {
  delta_device_t *device = NULL;
  delta_plan_options_t plan_options = delta_test_plan_options(BATCH);
  plan_options.budget = budget;
  plan_options.policy = policy;
  plan_options.optimizer = "sgd"; // what is let go is activations, not states
  run->surprises = (delta_test_surprises_t)DELTA_TEST_NO_SURPRISE;
  run->events[0] = '\0';
  run->most_committed_bytes = 0;
  delta_test_training_prepare(&run->training, deep_mlp, &plan_options);
  delta_session_options_t options = delta_test_session_options(&run->training);
  options.verify_arena = 1;
  delta_test_expect_ok(delta_test_surprise_device_open(1, &run->surprises, &device), "device");
  delta_test_training_start_on(&run->training, &options, device);
}

static delta_run_report_t step(disturbed_t *run, int number) {
  const delta_run_report_t report = delta_test_run(run->training.session, DELTA_RUN_TRAIN, 100 * number, BATCH, 0.05);
  if (number < STEPS) run->losses[number] = report.loss;
  if (report.arena_peak_bytes > run->most_committed_bytes) run->most_committed_bytes = report.arena_peak_bytes;
  for (size_t e = 0; e < report.event_count; ++e) {
    strncat(run->events, report.events[e], sizeof run->events - strlen(run->events) - 2);
    strcat(run->events, "\n");
  }
  return report;
}

// The losses and states of a training that nothing disturbs.
static void expect_undisturbed(disturbed_t *run) {
  disturbed_t *quiet = calloc(1, sizeof *quiet);
  start(quiet, "none", "unlimited");
  for (int number = 0; number < STEPS; ++number) step(quiet, number);
  cr_expect_eq(memcmp(quiet->losses, run->losses, sizeof run->losses), 0, "losses differ: %s", run->events);
  delta_test_values_t wanted = delta_test_read_states(quiet->training.session, NULL);
  delta_test_values_t found = delta_test_read_states(run->training.session, NULL);
  cr_assert_eq(wanted.count, found.count);
  cr_expect_eq(memcmp(wanted.items, found.items, wanted.count * sizeof *wanted.items), 0, "states differ: %s", run->events);
  free(wanted.items);
  free(found.items);
  delta_test_training_close(&quiet->training);
  delta_test_training_close(&run->training);
  free(quiet);
}

static void expect_event(const disturbed_t *run, const char *text) {
  cr_expect_not_null(strstr(run->events, text), "no '%s' in: %s", text, run->events);
}

// ---- Late copies

Test(reflex, late_copies_are_made_up_for_within_the_step) {
  static disturbed_t run;
  start(&run, "swap", "70%");
  step(&run, 0);
  run.surprises.copy_bytes_per_second = 4e6;
  const delta_run_report_t report = step(&run, 1);
  expect_event(&run, "within the step, copies are late");
  cr_expect_gt(report.stall_seconds, 0);
  step(&run, 2);
  expect_event(&run, "until there is a new plan, since there are slower copies");
  run.surprises.copy_bytes_per_second = 0;
  step(&run, 3);
  expect_undisturbed(&run);
}

// ---- A full disk

// Every write from a moment on fails. States whose homes are below cannot be helped; a plan that has none goes on.
static void fill_disk(disturbed_t *run, bool is_off, uint32_t *out_failed, uint32_t *out_survived) {
  uint32_t writes = 1;
  *out_failed = *out_survived = 0;
  for (uint32_t n = 0; n < writes; ++n) {
    start(run, "swap", "80%");
    run->training.session->reflex.is_off = is_off;
    step(run, 0);
    writes = run->training.plan->programs[0].schedule->swapped_tensors;
    run->surprises.write_that_fails = run->surprises.writes + n;
    run->surprises.writes_that_fail = UINT32_MAX - run->surprises.write_that_fails;
    delta_test_batch_t batch;
    delta_test_batch_make(run->training.session, 100, BATCH, &batch);
    delta_status_t status = delta_session_run(run->training.session, DELTA_RUN_TRAIN, &batch.batch, 0.05, NULL);
    *out_failed += status != NULL;
    *out_survived += status == NULL;
    delta_status_free(status);
    delta_test_batch_free(&batch);
    delta_test_training_close(&run->training);
  }
}

Test(reflex, a_full_disk_is_survived) {
  static disturbed_t run;
  uint32_t failed[2], survived[2];
  for (int is_off = 0; is_off < 2; ++is_off) fill_disk(&run, is_off, &failed[is_off], &survived[is_off]);
  printf("a full disk: %u of %u steps survived with reflexes, %u without\n", survived[0], survived[0] + failed[0], survived[1]);
  cr_expect_geq(survived[0], survived[1]);
  cr_expect_gt(survived[0], 0);
}

// States are on their way below when writes begin to fail: they go back to where they were, and the budget before holds until there is room.
Test(reflex, states_that_find_no_room_below_go_back) {
  uint32_t refused = 0;
  for (uint32_t n = 0; n == refused; ++n) {
    static disturbed_t run;
    char least[32];
    start(&run, "delta-fixed", "unlimited");
    delta_session_t *session = run.training.session;
    snprintf(least, sizeof least, "%llu", (unsigned long long)run.training.plan->totals.minimum_budget_bytes);
    step(&run, 0);
    run.surprises.write_that_fails = run.surprises.writes + n;
    run.surprises.writes_that_fail = UINT32_MAX - run.surprises.write_that_fails;
    delta_test_expect_ok(delta_session_set_budget(session, least), least);
    delta_test_expect_ok(delta_session_adapt(session), "a budget that finds no room below");
    refused += session->budget_bytes > run.training.plan->totals.minimum_budget_bytes;
    run.surprises.writes_that_fail = 0;
    step(&run, 1);
    delta_test_expect_ok(delta_session_set_budget(session, least), least);
    for (int number = 2; number < STEPS; ++number) step(&run, number);
    cr_expect_gt(delta_plan_home_bytes(session->plan), 0);
    expect_undisturbed(&run);
  }
  cr_expect_gt(refused, 1);
}

Test(reflex, a_tensor_that_does_not_come_back_is_made_again) {
  uint32_t survived = 0, reads = 1;
  for (uint32_t n = 0; n < reads; ++n) {
    static disturbed_t run;
    start(&run, "swap", "80%");
    step(&run, 0);
    reads = run.surprises.reads > 64 ? 64 : run.surprises.reads;
    run.surprises.read_that_fails = run.surprises.reads + n;
    delta_run_report_t report;
    delta_status_t status = delta_test_try_run(run.training.session, DELTA_RUN_TRAIN, 100, BATCH, 0.05, &report);
    if (status) {
      delta_status_free(status);
      delta_test_training_close(&run.training);
      continue;
    }
    survived += run.surprises.reads > run.surprises.read_that_fails;
    run.losses[1] = report.loss;
    for (int number = 2; number < STEPS; ++number) step(&run, number);
    expect_undisturbed(&run);
  }
  cr_expect_gt(survived, 0);
}

// ---- Budgets amid a step

typedef struct ask {
  delta_session_t *session;
  const char *budget;
  uint32_t launch;
  uint64_t committed_bytes; // at the end of the step
} ask_t;

static void ask_amid(void *self, uint32_t launch) {
  ask_t *ask = self;
  if (launch == ask->launch) delta_test_expect_ok(delta_session_set_budget(ask->session, ask->budget), ask->budget);
}

typedef struct ask_case {
  char name[40], policy[16], planned[16], budget[16];
  char event[40];
} ask_case_t;

ParameterizedTestParameters(reflex, budgets_amid_a_step) {
  static ask_case_t cases[] = {
      {"lowered", "delta-fixed", "unlimited", "70%", "within the step, the budget is now"},
      {"lowered, swapping", "delta-fixed", "80%", "60%", "within the step"},
      {"raised", "delta-fixed", "60%", "unlimited", "within the step, the budget is now"},
      {"raised a little", "delta-fixed", "60%", "70%", "budget"},
  };
  return cr_make_param_array(ask_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(ask_case_t *c, reflex, budgets_amid_a_step) {
  uint32_t launches = 12, shrunk = 0;
  for (uint32_t n = 0; n < launches; n += 3) {
    static disturbed_t run;
    start(&run, c->policy, c->planned);
    step(&run, 0);
    const uint32_t first = run.surprises.launches;
    ask_t ask = {.session = run.training.session, .budget = c->budget, .launch = first + n};
    run.surprises.on_launch = ask_amid;
    run.surprises.self = &ask;
    const uint64_t before_bytes = run.training.session->committed_bytes;
    step(&run, 1);
    launches = run.surprises.launches - first;
    shrunk += run.training.session->committed_bytes < before_bytes;
    for (int number = 2; number < STEPS; ++number) {
      step(&run, number);
      cr_expect_leq(run.training.session->committed_bytes, run.training.session->wanted_budget_bytes, "%s", c->name);
    }
    if (n == 0) expect_event(&run, c->event);
    expect_undisturbed(&run);
  }
  printf("%s: the arena was smaller at the end of %u steps of %u\n", c->name, shrunk, (launches + 2) / 3);
  if (strcmp(c->name, "lowered") == 0) cr_expect_gt(shrunk, 0, "%s", c->name);
}

// An arena that shrank amid a step is whole again for the next, inputs included, when the budget came back in between.
Test(reflex, a_budget_that_comes_back_at_once) {
  uint32_t launches = 12, shrunk = 0;
  for (uint32_t n = 0; n < launches; n += 3) {
    static disturbed_t run;
    start(&run, "delta-fixed", "unlimited");
    step(&run, 0);
    const uint32_t first = run.surprises.launches;
    ask_t ask = {.session = run.training.session, .budget = "60%", .launch = first + n};
    run.surprises.on_launch = ask_amid;
    run.surprises.self = &ask;
    const uint64_t before_bytes = run.training.session->committed_bytes;
    step(&run, 1);
    launches = run.surprises.launches - first;
    run.surprises.on_launch = NULL;
    shrunk += run.training.session->committed_bytes < before_bytes;
    delta_test_expect_ok(delta_session_set_budget(run.training.session, "unlimited"), "unlimited");
    for (int number = 2; number < STEPS; ++number) step(&run, number);
    expect_undisturbed(&run);
  }
  cr_expect_gt(shrunk, 0);
}

// More room is used before the plan for it is there.
Test(reflex, more_room_is_used_until_the_plan_is_there) {
  static disturbed_t run;
  start(&run, "swap", "60%");
  step(&run, 0);
  const uint64_t before_bytes = run.training.session->committed_bytes;
  delta_test_expect_ok(delta_session_set_budget(run.training.session, "unlimited"), "unlimited");
  cr_assert_not_null(run.training.session->replan);
  step(&run, 1);
  if (strstr(run.events, "planned again") == NULL) {
    expect_event(&run, "until there is a new plan, since there is more room");
    cr_expect_gt(run.training.session->committed_bytes, before_bytes);
  }
  step(&run, 2);
  step(&run, 3);
  expect_undisturbed(&run);
}

// ---- Memory that gets short

typedef struct played_memory {
  delta_memory_numbers_t numbers;
} played_memory_t;

static void play(void *self, delta_memory_numbers_t *out_numbers) { *out_numbers = ((const played_memory_t *)self)->numbers; }

Test(reflex, memory_that_gets_short_lowers_the_budget_and_is_taken_back) {
  static disturbed_t run;
  const int64_t much = INT64_C(1) << 40;
  played_memory_t memory = {.numbers = {.system_left_bytes = much, .process_left_bytes = INT64_MAX}};
  start(&run, "swap", "unlimited");
  delta_session_t *session = run.training.session;
  session->pressure.reader = (delta_memory_reader_t){.read = play, .self = &memory};
  session->pressure.period_seconds = 0;
  step(&run, 0);
  const uint64_t before_bytes = session->committed_bytes;
  // As if another process had taken a fifth of the arena and all that was left.
  memory.numbers.system_left_bytes = (INT64_C(48) << 20) - (int64_t)before_bytes / 5;
  step(&run, 1);
  expect_event(&run, "memory is short");
  memory.numbers.system_left_bytes = INT64_C(64) << 20;
  step(&run, 2);
  cr_expect_lt(session->committed_bytes, before_bytes);
  cr_expect_lt(delta_session_budget(session), before_bytes);
  memory.numbers.system_left_bytes = much;
  session->pressure.calm_looks = 8; // as if it had been back for a while
  step(&run, 3);
  expect_event(&run, "memory is back");
  expect_undisturbed(&run);
}

// What the system cannot give is too little for any plan; what the caller asked for beside it is not, and holds.
Test(reflex, a_limit_that_is_refused_leaves_the_budget_asked_for) {
  static disturbed_t run;
  played_memory_t memory = {.numbers = {.system_left_bytes = INT64_C(1) << 40, .process_left_bytes = INT64_MAX}};
  start(&run, "delta-fixed", "unlimited");
  delta_session_t *session = run.training.session;
  session->pressure.reader = (delta_memory_reader_t){.read = play, .self = &memory};
  session->pressure.period_seconds = 0;
  step(&run, 0);
  const uint64_t before_bytes = session->committed_bytes;
  memory.numbers.system_left_bytes = (INT64_C(48) << 20) - (int64_t)before_bytes + 4096; // of which no arena is made
  session->reflex.skips = 0;                                                             // the next look is at once
  delta_test_expect_ok(delta_session_set_budget(session, "70%"), "70%");
  step(&run, 1);
  memory.numbers.system_left_bytes = INT64_C(1) << 40;
  for (int number = 2; number < STEPS; ++number) step(&run, number);
  expect_event(&run, "memory is short");
  expect_event(&run, "refused");
  cr_expect_lt(delta_session_budget(session), before_bytes);
  cr_expect_leq(session->committed_bytes, delta_session_budget(session));
  expect_undisturbed(&run);
}

// ---- Operators

Test(reflex, slow_operators_bring_another_plan) {
  static disturbed_t run;
  start(&run, "swap", "60%");
  run.surprises.kernel_delay_seconds = 0.02;
  int steps = 0;
  for (; steps < 12 && !strstr(run.events, "planned again"); ++steps) step(&run, steps);
  expect_event(&run, "slower than planned");
  expect_event(&run, "planning again with these times");
  expect_event(&run, "planned again");
  cr_expect_geq(steps, 3);
  run.surprises.kernel_delay_seconds = 0;
  for (; steps < STEPS; ++steps) step(&run, steps);
  delta_test_training_close(&run.training);
}
