// Copies beside compute: the same bits however late they are, wherever they lie and wherever they run; what fails names its step and its tensor, or is kept in the arena;
// what never ends is given up.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session_parts.h"
#include "tests/support/surprise_device.h"
#include "tests/support/training.h"

enum { BATCH = 96, STEPS = 3 };

static const char deep_mlp[] =
    "input x float32 [N,32]\n"
    "init w1 float32 [32,64] 0\n"
    "init w2 float32 [64,64] 0\n"
    "init w3 float32 [64,64] 0\n"
    "init w4 float32 [64,64] 0\n"
    "init w5 float32 [64,5] 0\n"
    "node MatMul x w1 -> a1\n"
    "node Tanh a1 -> h1\n"
    "node MatMul h1 w2 -> a2\n"
    "node Sigmoid a2 -> h2\n"
    "node MatMul h2 w3 -> a3\n"
    "node Tanh a3 -> h3\n"
    "node MatMul h3 w4 -> a4\n"
    "node Tanh a4 -> h4\n"
    "node MatMul h4 w5 -> logits\n"
    "output logits\n";

typedef struct lane_case {
  char name[24], budget[16], tier[16];
  bool in_line;
  double delay_seconds;
} lane_case_t;

// Opens a session of a planned model on a device with surprises.
static void start(delta_test_training_t *training, const char *budget, delta_session_options_t *options,
                  delta_test_surprises_t *surprises) {
  delta_plan_options_t plan_options = delta_test_plan_options(BATCH);
  plan_options.budget = budget;
  plan_options.policy = "delta-fixed"; // copies much, and leaves room now and then
  plan_options.optimizer = "adamw";
  delta_test_training_prepare(training, deep_mlp, &plan_options);
  delta_device_t *device = NULL;
  options->plan = training->plan;
  options->model_path = training->model_path;
  options->verify_arena = 1;
  options->estimate_costs = 1;
  delta_test_expect_ok(delta_test_surprise_device_open(1, surprises, &device), "device");
  delta_test_training_start_on(training, options, device);
}

static delta_test_values_t train(const lane_case_t *c, double *losses, delta_run_report_t *last) {
  delta_test_training_t training;
  delta_test_surprises_t surprises = DELTA_TEST_NO_SURPRISE;
  delta_session_options_t options;
  delta_session_options_init(&options);
  surprises.copy_delay_seconds = c->delay_seconds;
  options.tier = c->tier[0] ? c->tier : NULL;
  options.copies_in_line = c->in_line;
  start(&training, c->budget, &options, &surprises);
  for (int step = 0; step < STEPS; ++step) {
    *last = delta_test_run(training.session, DELTA_RUN_TRAIN, 100 * step, BATCH, 0.05);
    losses[step] = last->loss;
  }
  delta_test_values_t states = delta_test_read_states(training.session, NULL);
  delta_test_training_close(&training);
  return states;
}

ParameterizedTestParameters(lanes, results_are_the_same) {
  static lane_case_t cases[] = {
      {"beside compute", "minimum", "", false, 0},
      {"late", "minimum", "", false, 3e-3},
      {"in line", "minimum", "", true, 0},
      {"in memory", "minimum", "memory", false, 0},
      {"in memory, late", "60%", "memory", false, 2e-3},
      {"half", "60%", "", false, 3e-3},
  };
  return cr_make_param_array(lane_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(lane_case_t *c, lanes, results_are_the_same) {
  static const lane_case_t quiet = {"without a budget", "unlimited", "", false, 0};
  double wanted_losses[STEPS], losses[STEPS];
  delta_run_report_t report;
  delta_test_values_t wanted = train(&quiet, wanted_losses, &report);
  cr_expect_eq(report.offload_seconds, 0);
  cr_expect_eq(report.stall_seconds, 0);
  delta_test_values_t found = train(c, losses, &report);
  cr_expect_eq(memcmp(wanted_losses, losses, sizeof losses), 0, "%s: losses differ", c->name);
  cr_assert_eq(wanted.count, found.count);
  cr_expect_eq(memcmp(wanted.items, found.items, wanted.count * sizeof *wanted.items), 0, "%s: states differ", c->name);
  cr_expect_gt(report.offload_seconds, 0, "%s", c->name);
  cr_expect_gt(report.prefetch_seconds, 0, "%s", c->name);
  if (c->in_line) cr_expect_float_eq(report.stall_seconds, report.offload_seconds + report.prefetch_seconds, 1e-9);
  free(wanted.items);
  free(found.items);
}

// The writes of one step; those before it give the states their first values.
static uint32_t count_writes(const delta_test_training_t *training) {
  uint32_t count = 0;
  const delta_schedule_t *schedule = training->plan->programs[0].schedule;
  for (uint32_t s = 0; s < schedule->step_count; ++s) count += schedule->steps[s].kind == DELTA_STEP_SWAP_OUT;
  return count;
}

static delta_status_t run_batch(delta_test_training_t *training, delta_run_report_t *report) {
  return delta_test_try_run(training->session, DELTA_RUN_TRAIN, 0, BATCH, 0.05, report);
}

Test(lanes, a_failed_read_names_its_step_and_tensor) {
  for (int in_line = 0; in_line < 2; ++in_line) {
    delta_test_training_t training;
    delta_test_surprises_t surprises = DELTA_TEST_NO_SURPRISE;
    delta_session_options_t options;
    delta_run_report_t report;
    delta_session_options_init(&options);
    options.copies_in_line = in_line;
    start(&training, "minimum", &options, &surprises);
    surprises.read_that_fails = surprises.reads + 2;
    delta_test_expect_status(run_batch(&training, &report), DELTA_STATUS_IO,
                             "schedule step|copying tensor '|from the tier below|read number");
    delta_test_expect_ok(run_batch(&training, &report), "the next step");
    delta_test_training_close(&training);
  }
}

// Each write of a step fails in turn. What has its home below is an error; the others are kept where there is room, and then the loss is that of an undisturbed step.
Test(lanes, a_failed_write_is_kept_or_names_its_step_and_tensor) {
  uint32_t kept = 0, failed = 0, write_count = 1;
  double wanted = 0;
  for (uint32_t n = 0; n <= write_count; ++n) {
    delta_test_training_t training;
    delta_test_surprises_t surprises = DELTA_TEST_NO_SURPRISE;
    delta_session_options_t options;
    delta_run_report_t report;
    delta_session_options_init(&options);
    start(&training, "60%", &options, &surprises);
    write_count = count_writes(&training);
    if (n > 0) surprises.write_that_fails = surprises.writes + n - 1;
    delta_status_t status = run_batch(&training, &report);
    if (n == 0) {
      delta_test_expect_ok(status, "undisturbed");
      wanted = report.loss;
    } else if (status) {
      ++failed;
      delta_test_expect_status(status, DELTA_STATUS_IO, "schedule step|copying tensor '|to the tier below|write number");
    } else {
      ++kept;
      cr_expect_eq(report.loss, wanted, "write %u: loss %g, not %g", n, report.loss, wanted);
      cr_assert_geq(report.event_count, 1);
      cr_expect_not_null(strstr(report.events[0], "write number"), "%s", report.events[0]);
    }
    delta_test_training_close(&training);
  }
  cr_expect_gt(kept, 0, "none of %u was kept", write_count);
  printf("%u writes: %u kept, %u failed\n", write_count, kept, failed);
}

Test(lanes, a_copy_that_never_ends_is_given_up) {
  delta_test_training_t training;
  delta_test_surprises_t surprises = DELTA_TEST_NO_SURPRISE;
  delta_session_options_t options;
  delta_run_report_t report;
  delta_session_options_init(&options);
  options.copy_timeout_seconds = 0.2;
  start(&training, "minimum", &options, &surprises);
  surprises.write_that_hangs = surprises.writes + 1;
  delta_test_expect_status(run_batch(&training, &report), DELTA_STATUS_IO, "schedule step|copying tensor '|not ended after|--tier");
  delta_test_expect_status(run_batch(&training, &report), DELTA_STATUS_IO, "earlier step has not ended");
  // The session's memory stays with the copy that may still come.
  delta_test_training_close(&training);
}

Test(lanes, timeouts_are_not_negative) {
  delta_test_training_t training;
  delta_plan_options_t plan_options = delta_test_plan_options(BATCH);
  delta_test_training_prepare(&training, deep_mlp, &plan_options);
  delta_session_options_t options = delta_test_session_options(&training);
  options.copy_timeout_seconds = -1;
  delta_test_expect_status(delta_session_create(&options, delta_allocator_system(), &training.session), DELTA_STATUS_INVALID_ARGUMENT,
                           "timeout");
  delta_test_training_close(&training);
}

// Copies that are much slower than the plan has them, and waited for, bring a plan that knows.
Test(lanes, slow_copies_bring_another_plan) {
  static const char *const stages[] = {"slower than planned", "planned again"};
  delta_test_training_t training, quiet;
  delta_test_surprises_t surprises = DELTA_TEST_NO_SURPRISE, none = DELTA_TEST_NO_SURPRISE;
  delta_session_options_t options, quiet_options;
  delta_session_options_init(&options);
  delta_session_options_init(&quiet_options);
  double wanted[40], found[40];
  int steps = 0, stage = 0;
  start(&training, "60%", &options, &surprises);
  surprises.copy_delay_seconds = 0.03;
  for (; stage < 2 && steps < 40; ++steps) {
    const delta_run_report_t report = delta_test_run(training.session, DELTA_RUN_TRAIN, 100 * steps, BATCH, 0.05);
    found[steps] = report.loss;
    for (size_t e = 0; e < report.event_count; ++e) stage += stage < 2 && strstr(report.events[e], stages[stage]) != NULL;
  }
  cr_expect_eq(stage, 2, "stage %d after %d steps", stage, steps);
  cr_expect_gt(steps, 3, "a few runs are looked at");
  delta_test_training_close(&training);
  start(&quiet, "unlimited", &quiet_options, &none);
  for (int step = 0; step < steps; ++step) wanted[step] = delta_test_run(quiet.session, DELTA_RUN_TRAIN, 100 * step, BATCH, 0.05).loss;
  cr_expect_eq(memcmp(wanted, found, (size_t)steps * sizeof *wanted), 0);
  delta_test_training_close(&quiet);
}
