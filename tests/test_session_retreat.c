// A tier that takes no copies any more, from some moment on and for good: the training goes on by a plan that needs none, to the same bits, and says so; where there is no such plan, or a state
// has been changed already, it ends with an error that says why.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session_parts.h"
#include "tests/support/surprise_device.h"
#include "tests/support/training.h"

enum { BATCH = 384, STEPS = 4 };

// Activations are what counts, and all can be computed again.
static const char deep_mlp[] =
    "input x float32 [N,16]\n"
    "init w1 float32 [16,32] 0\n"
    "init w2 float32 [32,32] 0\n"
    "init w3 float32 [32,32] 0\n"
    "init w4 float32 [32,32] 0\n"
    "init w5 float32 [32,32] 0\n"
    "init w6 float32 [32,5] 0\n"
    "node MatMul x w1 -> a1\n"
    "node Tanh a1 -> h1\n"
    "node MatMul h1 w2 -> a2\n"
    "node Sigmoid a2 -> h2\n"
    "node MatMul h2 w3 -> a3\n"
    "node Tanh a3 -> h3\n"
    "node MatMul h3 w4 -> a4\n"
    "node Tanh a4 -> h4\n"
    "node MatMul h4 w5 -> a5\n"
    "node Tanh a5 -> h5\n"
    "node MatMul h5 w6 -> logits\n"
    "output logits\n";

static void start(delta_test_training_t *training, const char *budget, int in_line, delta_test_surprises_t *surprises) {
  delta_plan_options_t plan_options = delta_test_plan_options(BATCH);
  delta_device_t *device = NULL;
  plan_options.budget = budget;
  plan_options.policy = "swap"; // whose plans copy much
  plan_options.optimizer = "adamw";
  delta_test_training_prepare(training, deep_mlp, &plan_options);
  delta_session_options_t options = delta_test_session_options(training);
  options.copies_in_line = in_line;
  options.verify_arena = 1;
  delta_test_expect_ok(delta_test_surprise_device_open(1, surprises, &device), "device");
  delta_test_training_start_on(training, &options, device);
}

static delta_status_t run_step(delta_test_training_t *training, int step, delta_run_report_t *report) {
  return delta_test_try_run(training->session, DELTA_RUN_TRAIN, 100 * step, BATCH, 0.05, report);
}

static bool is_told(const delta_run_report_t *report, const char *words) {
  for (size_t e = 0; e < report->event_count; ++e) {
    if (strstr(report->events[e], words)) return true;
  }
  return false;
}

// Trains while every write from number `first` of the second step on fails. OK, or the failure; *out_told: that the plan, or the rest of a step, was changed.
static delta_status_t train(const char *budget, int in_line, uint32_t first, double losses[STEPS], delta_test_values_t *states,
                            bool *out_told) {
  delta_test_training_t training;
  delta_test_surprises_t surprises = DELTA_TEST_NO_SURPRISE;
  delta_run_report_t report;
  delta_status_t status = DELTA_OK;
  *out_told = false;
  *states = (delta_test_values_t){0};
  start(&training, budget, in_line, &surprises);
  for (int step = 0; step < STEPS && !status; ++step) {
    if (step == 1 && first != UINT32_MAX) {
      surprises.writes_that_fail = UINT32_MAX;
      surprises.write_that_fails = surprises.writes + first;
    }
    status = run_step(&training, step, &report);
    losses[step] = report.loss;
    if (!status) *out_told = *out_told || is_told(&report, "planned without the tier below") || is_told(&report, "within the step");
  }
  if (!status) *states = delta_test_read_states(training.session, NULL);
  delta_test_training_close(&training);
  return status;
}

static uint32_t count_writes(const char *budget) {
  delta_test_training_t training;
  delta_test_surprises_t surprises = DELTA_TEST_NO_SURPRISE;
  delta_run_report_t report;
  start(&training, budget, 0, &surprises);
  const uint32_t before = surprises.writes;
  delta_test_expect_ok(run_step(&training, 0, &report), "step");
  const uint32_t count = surprises.writes - before;
  delta_test_training_close(&training);
  return count;
}

typedef struct retreat_case {
  char budget[12];
  int in_line;
} retreat_case_t;

ParameterizedTestParameters(session_retreat, a_full_disk_does_not_end_the_training) {
  static retreat_case_t cases[] = {{"76%", 0}, {"80%", 1}, {"80%", 0}};
  return cr_make_param_array(retreat_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(retreat_case_t *c, session_retreat, a_full_disk_does_not_end_the_training, .timeout = 120) {
  double wanted_losses[STEPS], losses[STEPS];
  delta_test_values_t wanted, found;
  bool is_told;
  delta_test_expect_ok(train("unlimited", 0, UINT32_MAX, wanted_losses, &wanted, &is_told), "undisturbed");
  const uint32_t writes = count_writes(c->budget);
  uint32_t survived = 0;
  cr_assert_gt(writes, 0);
  for (uint32_t first = 0; first < writes; ++first) {
    delta_status_t status = train(c->budget, c->in_line, first, losses, &found, &is_told);
    if (status) {
      delta_test_expect_status(status, DELTA_STATUS_IO, "write number|changed states");
    } else {
      ++survived;
      cr_expect(is_told, "%s, write %u: nothing was said", c->budget, first);
      cr_expect_eq(memcmp(wanted_losses, losses, sizeof losses), 0, "%s, write %u: losses differ", c->budget, first);
      cr_expect_eq(memcmp(wanted.items, found.items, wanted.count * sizeof *wanted.items), 0, "%s, write %u: states differ", c->budget,
                   first);
    }
    free(found.items);
  }
  cr_expect_geq(2 * survived, writes, "%s: %u of %u", c->budget, survived, writes);
  printf("%s: a disk that fills at one of %u writes: %u go on\n", c->budget, writes, survived);
  free(wanted.items);
}

// At the smallest budget there is no way around the tier, and the error says so; it does no harm.
Test(session_retreat, without_a_plan_the_error_says_why) {
  delta_test_training_t training;
  delta_test_surprises_t surprises = DELTA_TEST_NO_SURPRISE;
  delta_run_report_t report;
  start(&training, "minimum", 0, &surprises);
  delta_test_expect_ok(run_step(&training, 0, &report), "before");
  surprises.write_that_fails = surprises.writes;
  delta_test_expect_status(run_step(&training, 1, &report), DELTA_STATUS_IO, "write number|schedule step|budget");
  delta_test_expect_ok(run_step(&training, 1, &report), "the disk is back");
  delta_test_training_close(&training);
}
