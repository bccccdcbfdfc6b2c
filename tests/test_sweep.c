// Sweeps: whatever the model, policy and parts, a larger budget is never slower, what fits is what is said to fit, and no plan passes its budget.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/plan_sweep.h"
#include "tests/support/planning.h"
#include "tests/support/training.h"

// Out of order, and some twice.
static const char *const budgets[] = {"unlimited", "100%", "1",   "5%",  "10%", "15%", "20%", "25%",  "30%",     "35%",
                                      "40%",       "45%",  "50%", "55%", "60%", "70%", "80%", "120%", "minimum", "50%"};
enum { BUDGETS = sizeof budgets / sizeof *budgets, BATCH = 64 };

typedef struct sweep_case {
  char name[32];
  bool has_batchnorm; // else it is the wide one
  char policy[16], optimizer[8], split[8];
  double seconds;
} sweep_case_t;

ParameterizedTestParameters(sweep, is_monotone) {
  static sweep_case_t cases[] = {
      {"mlp", false, "delta", "sgd", "off", 1},
      {"mlp, states below", false, "delta", "adam", "off", 1},
      {"batchnorm", true, "delta", "sgd", "off", 0.5},
      {"batchnorm, no time", true, "delta", "sgd", "off", 0},
      {"mlp, parts", false, "delta", "adam", "4", 0.5},
      {"mlp, parts where needed", false, "delta", "adam", "auto", 1},
      {"batchnorm, whatever is fastest", true, "delta", "sgd", "on", 2},
      {"mlp, swaps", false, "swap", "sgd", "off", 0.5},
      {"batchnorm, rule", true, "delta-fixed", "adam", "off", 0.5},
      {"mlp, rival", false, "chen", "sgd", "off", 0.5},
      {"mlp, nothing released", false, "none", "sgd", "off", 0.5},
  };
  return cr_make_param_array(sweep_case_t, cases, sizeof cases / sizeof *cases);
}

static delta_plan_options_t write_model(delta_test_training_t *training, const char *text) {
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_test_training_write(training, text);
  options.model_path = training->model_path;
  return options;
}

static void expect_row(const sweep_case_t *c, const delta_sweep_t *sweep, const delta_sweep_row_t *row) {
  const unsigned long long budget_bytes = row->budget_bytes;
  const bool is_whole = strcmp(c->split, "on") != 0 && strcmp(c->split, "auto") != 0;
  cr_expect(!row->fits || row->budget_bytes >= sweep->minimum_budget_bytes, "%s: %llu fits", c->name, budget_bytes);
  cr_expect(row->fits || row->budget_bytes < sweep->minimum_budget_bytes || !is_whole, "%s: %llu does not fit", c->name, budget_bytes);
  if (!row->fits) return;
  cr_expect_leq(row->arena_bytes, row->budget_bytes, "%s: %llu", c->name, budget_bytes);
  cr_expect_leq(row->peak_bytes, row->arena_bytes, "%s: %llu", c->name, budget_bytes);
  cr_expect_leq(row->lower_bound_seconds, row->step_seconds * (1 + 1e-9), "%s: %llu", c->name, budget_bytes);
  cr_expect_eq(row->below_count > 0, row->below_bytes > 0, "%s: %llu", c->name, budget_bytes);
  cr_expect_eq(row->parts > 1, strcmp(row->split, "off") != 0, "%s: %llu", c->name, budget_bytes);
  if (is_whole) cr_expect_str_eq(row->split, c->split, "%s: %llu", c->name, budget_bytes);
}

ParameterizedTest(sweep_case_t *c, sweep, is_monotone, .timeout = 120) {
  delta_test_training_t training;
  delta_plan_options_t options = write_model(&training, c->has_batchnorm ? delta_test_batchnorm : delta_test_wide_mlp);
  delta_sweep_t sweep;
  options.policy = c->policy;
  options.optimizer = c->optimizer;
  options.split = c->split;
  options.time_limit_seconds = c->seconds;
  const delta_sweep_request_t request = {.options = &options, .budgets = budgets, .budget_count = BUDGETS};
  delta_test_expect_ok(delta_plan_sweep(&request, delta_allocator_system(), &sweep), c->name);
  cr_assert_eq(sweep.rows.count, BUDGETS);
  for (size_t r = 0; r < BUDGETS; ++r) {
    const delta_sweep_row_t *row = &sweep.rows.items[r], *before = r > 0 ? row - 1 : NULL;
    expect_row(c, &sweep, row);
    if (!before) continue;
    cr_expect_geq(row->budget_bytes, before->budget_bytes);
    cr_expect(!before->fits || row->fits, "%s: a hole at %llu", c->name, (unsigned long long)row->budget_bytes);
    if (before->fits) cr_expect_leq(row->step_seconds, before->step_seconds, "%s: %llu", c->name, (unsigned long long)row->budget_bytes);
  }
  const delta_sweep_row_t *first = &sweep.rows.items[0], *last = &sweep.rows.items[BUDGETS - 1];
  cr_expect_not(first->fits, "%s: one byte", c->name);
  cr_expect(last->fits && last->budget_bytes == UINT64_MAX, "%s: no budget", c->name);
  delta_sweep_deinit(&sweep);
  delta_test_training_close(&training);
}

// What a sweep says of a budget, a plan of its own can have: both have the same least budget, and the step without one.
Test(sweep, agrees_with_single_plans, .timeout = 60) {
  static const char *const words[] = {"minimum", "unlimited"};
  delta_test_training_t training;
  delta_plan_options_t options = write_model(&training, delta_test_wide_mlp);
  delta_sweep_t sweep;
  options.optimizer = "adam";
  const delta_sweep_request_t request = {.options = &options, .budgets = words, .budget_count = 2};
  delta_test_expect_ok(delta_plan_sweep(&request, delta_allocator_system(), &sweep), "sweep");
  for (int i = 0; i < 2; ++i) {
    delta_plan_summary_t summary = {.struct_size = sizeof summary};
    delta_plan_t *plan = NULL;
    options.budget = words[i];
    delta_test_expect_ok(delta_plan_create(&options, delta_allocator_system(), &plan, &summary), words[i]);
    delta_plan_free(plan);
    cr_expect_eq(sweep.rows.items[i].budget_bytes, summary.budget_bytes, "%s", words[i]);
    cr_expect_eq(sweep.minimum_budget_bytes, summary.minimum_budget_bytes, "%s", words[i]);
    cr_expect_eq(sweep.eager_peak_bytes, summary.eager_peak_bytes, "%s", words[i]);
    cr_expect_eq(sweep.unlimited_step_seconds, summary.unlimited_step_seconds, "%s", words[i]);
  }
  cr_expect_eq(sweep.rows.items[1].step_seconds, sweep.unlimited_step_seconds);
  delta_sweep_deinit(&sweep);
  delta_test_training_close(&training);
}

Test(sweep, names_what_is_wrong) {
  static const char *const wrong[] = {"50%", "much"};
  delta_test_training_t training;
  delta_plan_options_t options = write_model(&training, delta_test_wide_mlp);
  delta_sweep_t sweep;
  delta_sweep_request_t request = {.options = &options, .budgets = wrong, .budget_count = 2};
  delta_test_expect_status(delta_plan_sweep(&request, delta_allocator_system(), &sweep), DELTA_STATUS_INVALID_ARGUMENT, "--budget|much");
  delta_sweep_deinit(&sweep);
  options.model_path = "absent.onnx";
  request.budget_count = 1;
  delta_test_expect_status(delta_plan_sweep(&request, delta_allocator_system(), &sweep), DELTA_STATUS_NOT_FOUND, "absent.onnx");
  delta_sweep_deinit(&sweep);
  delta_test_training_close(&training);
}

// --- what a search begins with

// What a planner finds in a few evaluations, in all problems together, when it begins with what it found for a little less memory, or with nothing.
static double find_in_haste(bool begins_with_less) {
  enum { PROBLEMS = 12, STEPS = 40, LONG = 1500, SHORT = 40, LEAST = 4 };
  double sum = 0;
  for (uint64_t seed = 0; seed < PROBLEMS; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, STEPS);
    const delta_planner_options_t options = {.policy = DELTA_POLICY_DELTA, .early_update = true};
    delta_planner_t *less = NULL, *more = NULL;
    delta_planner_result_t result;
    delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &less));
    delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &more));
    cr_expect_null(delta_planner_decisions(less));
    const uint64_t least_bytes = delta_planner_minimum_bytes(less), kept_bytes = delta_planner_kept(less)->arena_bytes;
    const uint64_t part_bytes = (kept_bytes - least_bytes) / 20;
    delta_planner_set_effort(less, &(delta_planner_effort_t){.evaluation_limit = LONG});
    delta_test_must(delta_planner_plan(less, least_bytes + part_bytes * LEAST, &result));
    delta_schedule_free(result.schedule);
    const delta_decisions_t *start = begins_with_less ? delta_planner_decisions(less) : NULL;
    delta_planner_set_effort(more, &(delta_planner_effort_t){.evaluation_limit = SHORT, .start = start});
    delta_test_must(delta_planner_plan(more, least_bytes + part_bytes * (LEAST + 1), &result));
    sum += result.schedule->step_seconds / delta_planner_kept(more)->step_seconds;
    delta_schedule_free(result.schedule);
    delta_planner_destroy(less);
    delta_planner_destroy(more);
    delta_problem_free(problem);
  }
  return sum;
}

Test(sweep, searches_begin_with_the_plan_of_less, .timeout = 60) {
  const double anew = find_in_haste(false), begun = find_in_haste(true);
  cr_expect_lt(begun, anew, "%g with the plans of less, %g without", begun, anew);
}
