// Another budget in a running session: the same bits as without, bytes within what was asked for, states where they can be read and written all the while; what cannot be
// is refused and told of. And batches of other sizes: a bounded number of programs.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/session_parts.h"
#include "tests/support/training.h"

enum { BATCH = 48, STEPS = 6, PATIENCE_SECONDS = 60 };

static void open_training(delta_test_training_t *training, const char *policy, const char *budget, int accumulate) {
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.policy = policy;
  options.budget = budget;
  options.optimizer = "adamw";
  options.accumulate = accumulate;
  delta_test_training_open(training, delta_test_wide_mlp, &options);
}

typedef struct change_case {
  char name[32], policy[16], planned[16];
  int accumulate;
  char budgets[STEPS][16]; // asked for before each step; empty: none
} change_case_t;

ParameterizedTestParameters(session_change, results_do_not_change) {
  static change_case_t cases[] = {
      {"lowered", "delta-fixed", "unlimited", 1, {"", "60%", "", "minimum"}},
      {"raised", "delta-fixed", "minimum", 1, {"", "100%", "", "", "unlimited"}},
      {"down and up", "delta-fixed", "80%", 1, {"minimum", "unlimited", "", "minimum", "70%", ""}},
      {"asked for twice", "delta-fixed", "unlimited", 1, {"", "minimum", "minimum", "unlimited", "unlimited", "90%"}},
      {"micro-steps", "delta-fixed", "unlimited", 2, {"", "60%", "", "minimum", "100%", ""}},
      {"a policy that keeps all", "none", "unlimited", 1, {"", "70%", "", "unlimited"}},
      {"by search", "delta", "unlimited", 1, {"", "60%"}},
  };
  return cr_make_param_array(change_case_t, cases, sizeof cases / sizeof *cases);
}

static delta_run_report_t run_step(delta_session_t *session, int accumulate, int step) {
  const delta_run_program_t program = accumulate > 1 ? DELTA_RUN_ACCUMULATE : DELTA_RUN_TRAIN;
  const delta_run_report_t report = delta_test_run(session, program, 100 * step, step == 2 ? BATCH - 5 : BATCH, 0.05);
  if (accumulate > 1 && step % 2 == 1) delta_test_run(session, DELTA_RUN_APPLY, 0, 0, 0.05);
  return report;
}

ParameterizedTest(change_case_t *c, session_change, results_do_not_change) {
  delta_test_training_t quiet, changed;
  open_training(&quiet, "none", "unlimited", c->accumulate);
  open_training(&changed, c->policy, c->planned, c->accumulate);
  uint32_t event_count = 0;
  // A plan for a larger budget is made beside the steps and may be ready after the last of them: as many more as it takes.
  const double patience_ends = delta_clock_seconds() + PATIENCE_SECONDS;
  for (int step = 0; step < STEPS || (event_count == 0 && delta_clock_seconds() < patience_ends); ++step) {
    if (step < STEPS && c->budgets[step][0])
      delta_test_expect_ok(delta_session_set_budget(changed.session, c->budgets[step]), c->budgets[step]);
    const uint64_t wanted_bytes = changed.session->wanted_budget_bytes;
    const delta_run_report_t wanted = run_step(quiet.session, c->accumulate, step), found = run_step(changed.session, c->accumulate, step);
    cr_expect_eq(wanted.loss, found.loss, "%s: step %d: loss %.9g, not %.9g", c->name, step, found.loss, wanted.loss);
    cr_expect_leq(found.arena_peak_bytes, wanted_bytes, "%s: step %d", c->name, step);
    event_count += (uint32_t)found.event_count;
  }
  cr_expect_gt(event_count, 0, "%s: nothing was told", c->name);
  delta_test_values_t wanted = delta_test_read_states(quiet.session, NULL), found = delta_test_read_states(changed.session, NULL);
  cr_assert_eq(wanted.count, found.count);
  cr_expect_eq(memcmp(wanted.items, found.items, wanted.count * sizeof *wanted.items), 0, "%s: states differ", c->name);
  free(wanted.items);
  free(found.items);
  delta_test_training_close(&quiet);
  delta_test_training_close(&changed);
}

Test(session_change, a_session_may_begin_below_the_plan) {
  delta_test_training_t training;
  open_training(&training, "delta-fixed", "unlimited", 1);
  const double wanted = delta_test_run(training.session, DELTA_RUN_TRAIN, 0, BATCH, 0.05).loss;
  delta_session_destroy(training.session);
  delta_session_options_t options = delta_test_session_options(&training);
  options.budget = "minimum";
  delta_test_training_start_on(&training, &options, NULL);
  const delta_run_report_t found = delta_test_run(training.session, DELTA_RUN_TRAIN, 0, BATCH, 0.05);
  cr_expect_eq(found.loss, wanted);
  cr_expect_leq(found.arena_peak_bytes, training.plan->totals.minimum_budget_bytes);
  cr_expect_gt(found.host_bytes, 0);
  // A busy machine may add what it was late with, and nothing else.
  size_t told = 0;
  for (size_t e = 0; e < found.event_count; ++e) {
    const bool tells = strstr(found.events[e], "below the plan's") != NULL;
    cr_expect(tells || strstr(found.events[e], "late") || strstr(found.events[e], "slower"), "%s", found.events[e]);
    told += tells;
  }
  cr_expect_eq(told, 1);
  delta_session_destroy(training.session);
  training.session = NULL;
  options.budget = "4096";
  delta_test_expect_status(delta_session_create(&options, delta_allocator_system(), &training.session), DELTA_STATUS_DOES_NOT_FIT,
                           "--budget");
  delta_test_training_close(&training);
}

Test(session_change, a_budget_that_nothing_fits_is_refused) {
  delta_test_training_t training;
  open_training(&training, "delta-fixed", "unlimited", 1);
  delta_test_expect_status(delta_session_set_budget(training.session, "much"), DELTA_STATUS_INVALID_ARGUMENT, "--budget|much");
  delta_test_expect_ok(delta_session_set_budget(training.session, "4096"), "4096");
  const delta_run_report_t report = delta_test_run(training.session, DELTA_RUN_TRAIN, 0, BATCH, 0.05);
  cr_assert_eq(report.event_count, 1);
  cr_expect_not_null(strstr(report.events[0], "refused"), "%s", report.events[0]);
  cr_expect_eq(delta_session_budget(training.session), UINT64_MAX);
  cr_expect_eq(delta_test_run(training.session, DELTA_RUN_TRAIN, 0, BATCH, 0.05).event_count, 0, "told twice");
  delta_test_training_close(&training);
}

// Parameters written and read between changes are the same ones, wherever they lie.
Test(session_change, states_can_be_read_and_written_in_between) {
  enum { WEIGHTS = 64 * 64 };
  static float written[WEIGHTS], back[WEIGHTS];
  static const char *const budgets[] = {"minimum", "70%", "unlimited", "minimum"};
  delta_test_training_t training;
  open_training(&training, "delta-fixed", "unlimited", 1);
  for (size_t i = 0; i < sizeof budgets / sizeof *budgets; ++i) {
    for (int k = 0; k < WEIGHTS; ++k) written[k] = (float)(k % 11) / 64 + (float)i;
    delta_test_expect_ok(delta_session_write(training.session, "w2", written, sizeof written), "write");
    delta_test_expect_ok(delta_session_set_budget(training.session, budgets[i]), budgets[i]);
    delta_test_run(training.session, DELTA_RUN_EVALUATE, 0, BATCH, 0);
    delta_test_expect_ok(delta_session_read(training.session, "w2", back, sizeof back), "read");
    cr_expect_eq(memcmp(written, back, sizeof back), 0, "%s", budgets[i]);
  }
  delta_test_training_close(&training);
}

// Whatever the session is doing, it can be closed.
Test(session_change, a_session_is_closed_while_a_plan_is_made) {
  delta_test_training_t training;
  open_training(&training, "delta-fixed", "minimum", 1);
  delta_test_expect_ok(delta_session_set_budget(training.session, "unlimited"), "unlimited");
  delta_test_training_close(&training);
}

Test(session_change, programs_of_other_batches_are_bounded) {
  delta_test_training_t training;
  open_training(&training, "delta-fixed", "80%", 1);
  training.session->options.other_programs = 2;
  const size_t planned = training.plan->program_count;
  double first_losses[5];
  for (int round = 0; round < 2; ++round) {
    for (int k = 0; k < 5; ++k) {
      const double loss = delta_test_run(training.session, DELTA_RUN_EVALUATE, 0, BATCH - 1 - k, 0).loss;
      if (round == 0) first_losses[k] = loss;
      cr_expect_eq(loss, first_losses[k]);
      cr_expect_leq(training.session->programs.count, planned + 2);
    }
  }
  delta_live_program_t *program = NULL;
  delta_test_run(training.session, DELTA_RUN_EVALUATE, 0, BATCH - 4, 0);
  delta_test_run(training.session, DELTA_RUN_EVALUATE, 0, BATCH - 1, 0);
  delta_test_expect_ok(
      delta_session_find_program(training.session, DELTA_PROGRAM_EVALUATE, &(const delta_batch_t){.rows = BATCH - 4}, &program), "kept");
  cr_expect_eq(program->last_use, training.session->use_count);
  cr_expect_eq(training.session->programs.count, planned + 2);
  delta_test_training_close(&training);
}

// A batch that does not fit beside the states runs when some of them have gone below: as without a budget, bit for bit.
Test(session_change, states_make_room_for_a_larger_batch) {
  delta_test_training_t quiet, tight;
  open_training(&quiet, "none", "unlimited", 1);
  open_training(&tight, "delta-fixed", "100%", 1);
  const size_t state_bytes = tight.session->state_bytes;
  for (int step = 0; step < 3; ++step) {
    const int64_t rows = step == 1 ? 3 * BATCH : BATCH;
    const delta_run_report_t wanted = delta_test_run(quiet.session, DELTA_RUN_TRAIN, 100 * step, rows, 0.05),
                             found = delta_test_run(tight.session, DELTA_RUN_TRAIN, 100 * step, rows, 0.05);
    cr_expect_eq(wanted.loss, found.loss, "step %d: loss %.9g, not %.9g", step, found.loss, wanted.loss);
    cr_expect_leq(found.arena_peak_bytes, tight.session->budget_bytes);
    cr_expect_gt(wanted.arena_peak_bytes, step == 1 ? tight.session->budget_bytes : 0, "the case is too small");
  }
  cr_expect_lt(tight.session->state_bytes, state_bytes, "no state went below");
  delta_test_values_t wanted = delta_test_read_states(quiet.session, NULL), found = delta_test_read_states(tight.session, NULL);
  cr_expect_eq(delta_test_distance(&wanted, &found), 0);
  free(wanted.items);
  free(found.items);
  delta_test_training_close(&quiet);
  delta_test_training_close(&tight);
}
