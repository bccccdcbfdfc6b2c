// Session faults: every allocation of planning, opening a session and running it fails once, and from then on. The outcome is an error or
// success, never a crash, and nothing leaks.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "tests/support/training.h"

// What is done with a failing allocator; the plan and session that were made are freed by the caller.
static delta_status_t plan_and_run(delta_test_training_t *training, const delta_plan_options_t *options, delta_allocator_t allocator) {
  delta_test_batch_t batch = {0};
  delta_run_report_t report = {.struct_size = sizeof report};
  delta_run_program_t program = options->accumulate > 1 ? DELTA_RUN_ACCUMULATE : DELTA_RUN_TRAIN;
  delta_status_t status = delta_test_training_plan(training, options, allocator);
  if (!status) status = delta_test_training_start(training, allocator);
  if (status) return status;
  delta_test_batch_make(training->session, 0, 4, &batch);
  status = delta_session_run(training->session, program, &batch.batch, 0.1, &report);
  if (!status && options->accumulate > 1) status = delta_session_run(training->session, DELTA_RUN_APPLY, NULL, 0.1, &report);
  delta_test_batch_free(&batch);
  // A batch size that the plan does not have is planned now.
  delta_test_batch_make(training->session, 0, 3, &batch);
  if (!status) status = delta_session_run(training->session, DELTA_RUN_EVALUATE, &batch.batch, 0, &report);
  delta_test_batch_free(&batch);
  return status;
}

typedef struct fault_case {
  char name[24];
  bool has_batchnorm;
  int64_t accumulate;
  delta_test_failure_t failure;
  size_t stride; // every how many calls one is made to fail
  int verify;
} fault_case_t;

ParameterizedTestParameters(session_faults, failed_allocations) {
  static fault_case_t cases[] = {
      {"mlp, once", false, 1, DELTA_TEST_FAIL_ONCE, 1, 0},
      {"mlp, verified", false, 1, DELTA_TEST_FAIL_ONCE, 3, 1},
      {"mlp, from then on", false, 1, DELTA_TEST_FAIL_FROM_THEN_ON, 1, 0},
      {"batchnorm, once", true, 2, DELTA_TEST_FAIL_ONCE, 5, 0},
      {"batchnorm, from then on", true, 2, DELTA_TEST_FAIL_FROM_THEN_ON, 5, 0},
  };
  return cr_make_param_array(fault_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(fault_case_t *c, session_faults, failed_allocations) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(4);
  options.accumulate = c->accumulate;
  delta_test_training_write(&training, c->has_batchnorm ? delta_test_batchnorm : delta_test_mlp);
  training.verify = c->verify;
  bool succeeded = false;
  size_t n = 1;
  for (delta_test_allocator_t faults; !succeeded; n += c->stride) {
    delta_test_allocator_init(&faults, n, c->failure);
    training.plan = NULL;
    training.session = NULL;
    delta_status_t status = plan_and_run(&training, &options, delta_test_allocator_interface(&faults));
    succeeded = faults.call_count < n;
    cr_assert(delta_status_code(status) == DELTA_STATUS_OUT_OF_MEMORY || (!status && c->failure == DELTA_TEST_FAIL_ONCE) || succeeded,
              "%s: call %zu: %s", c->name, n, delta_status_message(status));
    cr_assert(!succeeded || !status, "%s: %s", c->name, delta_status_message(status));
    delta_status_free(status);
    delta_session_destroy(training.session);
    delta_plan_free(training.plan);
    cr_assert_eq(faults.live_blocks, 0, "%s: call %zu leaks %zu blocks", c->name, n, (size_t)faults.live_blocks);
  }
  cr_expect_gt(n, 100 * c->stride);
  training.plan = NULL;
  training.session = NULL;
  delta_test_training_close(&training);
}
