// Rivals' plans executed: whatever the policy, in the smallest budget that it reaches, the bits are those without a budget.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "plans/plan.h"
#include "runtime/integer_solver.h"
#include "tests/support/training.h"

enum { BATCH = 16, STEPS = 3 };
static const double rate = 0.05;

static const char conv_net[] =
    "input x float32 [N,2,12,12]\n"
    "init w1 float32 [8,2,3,3] 0\n"
    "init w2 float32 [8,8,3,3] 0\n"
    "init w3 float32 [8,8,3,3] 0\n"
    "init w4 float32 [8,8,3,3] 0\n"
    "init v float32 [8,4] 0\n"
    "node Conv x w1 -> a1 : pads=[1,1,1,1]\n"
    "node Tanh a1 -> h1\n"
    "node Conv h1 w2 -> a2 : pads=[1,1,1,1]\n"
    "node Tanh a2 -> h2\n"
    "node Conv h2 w3 -> a3 : pads=[1,1,1,1]\n"
    "node Sigmoid a3 -> h3\n"
    "node Conv h3 w4 -> a4 : pads=[1,1,1,1]\n"
    "node Tanh a4 -> h4\n"
    "node GlobalAveragePool h4 -> p\n"
    "node Flatten p -> f\n"
    "node MatMul f v -> logits\n"
    "output logits\n";

typedef struct trained {
  double losses[STEPS + 1];
  delta_test_values_t states;
  uint64_t most_committed_bytes;
} trained_t;

static void train(delta_test_training_t *training, const delta_plan_options_t *options, trained_t *trained) {
  *trained = (trained_t){0};
  delta_test_training_open(training, conv_net, options);
  for (int i = 0; i <= STEPS; ++i) {
    const delta_run_program_t program = i < STEPS ? DELTA_RUN_TRAIN : DELTA_RUN_EVALUATE;
    const delta_run_report_t report = delta_test_run(training->session, program, 100 * i, BATCH, rate);
    trained->losses[i] = report.loss;
    if (report.arena_peak_bytes > trained->most_committed_bytes) trained->most_committed_bytes = report.arena_peak_bytes;
  }
  trained->states = delta_test_read_states(training->session, NULL);
}

typedef struct policy_case {
  char policy[16];
} policy_case_t;

ParameterizedTestParameters(rivals_session, results_do_not_depend_on_the_policy) {
  static policy_case_t cases[] = {{"chen"}, {"checkmate"}, {"dtr"}, {"superneurons"}, {"vdnn"}, {"capuchin"}, {"tsplit"}, {"pofo"}};
  return cr_make_param_array(policy_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(policy_case_t *c, rivals_session, results_do_not_depend_on_the_policy, .timeout = 120) {
  if (strcmp(c->policy, "checkmate") == 0 && !delta_cbc_is_installed()) cr_skip_test("the program 'cbc' is not installed");
  delta_test_training_t free_training, training;
  trained_t wanted, found;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  train(&free_training, &options, &wanted);
  options.policy = c->policy;
  options.budget = "minimum";
  options.time_limit_seconds = 5;
  train(&training, &options, &found);
  const delta_schedule_t *schedule = training.plan->programs[0].schedule;
  cr_expect_lt(training.plan->totals.budget_bytes, free_training.plan->totals.arena_bytes, "%s saves nothing", c->policy);
  cr_expect_leq(found.most_committed_bytes, training.plan->totals.budget_bytes, "%s", c->policy);
  cr_expect_gt(schedule->swapped_tensors + schedule->recomputed_nodes, 0, "%s does nothing", c->policy);
  cr_expect_eq(memcmp(wanted.losses, found.losses, sizeof wanted.losses), 0, "%s: losses differ", c->policy);
  cr_expect_eq(wanted.states.count, found.states.count);
  cr_expect_eq(memcmp(wanted.states.items, found.states.items, wanted.states.count * sizeof *wanted.states.items), 0, "%s: states differ",
               c->policy);
  free(wanted.states.items);
  free(found.states.items);
  delta_test_training_close(&free_training);
  delta_test_training_close(&training);
}
