// Sessions within budgets: the same bits with states and activations below the arena, states that are read, written and exported from there, micro-steps and other
// batches in the same budget, and messages for what cannot be.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "plans/plan.h"
#include "tests/support/training.h"

enum { BATCH = 24, WEIGHT_COUNT = 64 * 64 };
static const double rate = 0.05;

static delta_plan_options_t plan_options(const char *budget, int accumulate) {
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.budget = budget;
  options.optimizer = "adamw";
  options.accumulate = accumulate;
  return options;
}

static uint32_t count_below(const delta_plan_t *plan) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->state_count; ++i) count += plan->states[i].is_below;
  return count;
}

// Losses and states after some steps, a batch of another size and an evaluation.
typedef struct trained {
  double losses[6];
  delta_test_values_t states;
  uint64_t most_committed_bytes, host_bytes;
} trained_t;

static void take(delta_test_training_t *training, trained_t *trained, int slot, delta_run_program_t program, int64_t rows) {
  const delta_run_report_t report = delta_test_run(training->session, program, 100 * slot, rows, rate);
  trained->losses[slot] = program == DELTA_RUN_APPLY ? 0 : report.loss;
  if (report.arena_peak_bytes > trained->most_committed_bytes) trained->most_committed_bytes = report.arena_peak_bytes;
  trained->host_bytes = report.host_bytes;
}

static trained_t train(delta_test_training_t *training, bool accumulates) {
  trained_t trained = {0};
  const delta_run_program_t step = accumulates ? DELTA_RUN_ACCUMULATE : DELTA_RUN_TRAIN;
  take(training, &trained, 0, step, BATCH);
  take(training, &trained, 1, step, BATCH - 7);
  if (accumulates) take(training, &trained, 2, DELTA_RUN_APPLY, 0);
  take(training, &trained, 3, step, BATCH);
  if (accumulates) take(training, &trained, 4, DELTA_RUN_APPLY, 0);
  take(training, &trained, 5, DELTA_RUN_EVALUATE, BATCH);
  trained.states = delta_test_read_states(training->session, NULL);
  return trained;
}

typedef struct budget_case {
  char name[40];
  char budget[16];
  int accumulate;
  bool swaps_states;
} budget_case_t;

ParameterizedTestParameters(session_budget, results_do_not_depend_on_the_budget) {
  static budget_case_t cases[] = {
      {"smallest", "minimum", 1, true},   {"smallest, micro-steps", "minimum", 2, true},
      {"60 %", "60%", 1, true},           {"90 %, micro-steps", "90%", 2, true},
      {"all there is", "100%", 1, false},
  };
  return cr_make_param_array(budget_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(budget_case_t *c, session_budget, results_do_not_depend_on_the_budget) {
  delta_test_training_t free_training, training;
  const delta_plan_options_t without = plan_options("unlimited", c->accumulate), within = plan_options(c->budget, c->accumulate);
  delta_test_training_open(&free_training, delta_test_wide_mlp, &without);
  delta_test_training_open(&training, delta_test_wide_mlp, &within);
  trained_t wanted = train(&free_training, c->accumulate > 1), found = train(&training, c->accumulate > 1);
  cr_expect_eq(memcmp(wanted.losses, found.losses, sizeof wanted.losses), 0, "%s: losses differ", c->name);
  cr_expect_eq(wanted.states.count, found.states.count);
  cr_expect_eq(memcmp(wanted.states.items, found.states.items, wanted.states.count * sizeof *wanted.states.items), 0, "%s: states differ",
               c->name);
  cr_expect_leq(found.most_committed_bytes, training.plan->totals.budget_bytes, "%s", c->name);
  cr_expect_eq(count_below(training.plan) > 0, c->swaps_states, "%s: %u states below", c->name, count_below(training.plan));
  cr_expect_eq(found.host_bytes > 0, c->swaps_states, "%s: %llu bytes below", c->name, (unsigned long long)found.host_bytes);
  cr_expect_eq(count_below(free_training.plan), 0);
  free(wanted.states.items);
  free(found.states.items);
  delta_test_training_close(&free_training);
  delta_test_training_close(&training);
}

static void open_smallest(delta_test_training_t *training) {
  const delta_plan_options_t options = plan_options("minimum", 1);
  delta_test_training_open(training, delta_test_wide_mlp, &options);
  cr_assert_gt(count_below(training->plan), 0);
}

Test(session_budget, states_below_are_read_and_written) {
  delta_test_training_t training;
  open_smallest(&training);
  static float written[WEIGHT_COUNT], back[WEIGHT_COUNT];
  for (int i = 0; i < WEIGHT_COUNT; ++i) written[i] = (float)i / 7;
  delta_test_expect_ok(delta_session_write(training.session, "w2", written, sizeof written), "write");
  delta_test_expect_ok(delta_session_read(training.session, "w2", back, sizeof back), "read");
  cr_expect_eq(memcmp(written, back, sizeof back), 0);
  delta_test_training_close(&training);
}

static void export_trained(const char *budget, char **out_file, size_t *out_size) {
  delta_test_training_t training;
  const delta_plan_options_t options = plan_options(budget, 1);
  delta_test_training_open(&training, delta_test_wide_mlp, &options);
  for (int step = 0; step < 3; ++step) delta_test_run(training.session, DELTA_RUN_TRAIN, 10 * step, BATCH, rate);
  char path[DELTA_TEST_PATH_BYTES];
  delta_test_folder_path(&training.folder, "trained.onnx", path);
  delta_test_expect_ok(delta_session_export(training.session, path, 0), "export");
  delta_test_expect_ok(delta_file_read_all(path, 1 << 24, delta_allocator_system(), out_file, out_size), path);
  delta_test_training_close(&training);
}

Test(session_budget, exports_are_the_same_files) {
  char *without = NULL, *within = NULL;
  size_t without_bytes, within_bytes;
  export_trained("unlimited", &without, &without_bytes);
  export_trained("minimum", &within, &within_bytes);
  cr_assert_eq(without_bytes, within_bytes);
  cr_expect_eq(memcmp(without, within, within_bytes), 0);
  free(without);
  free(within);
}

Test(session_budget, a_bad_value_below_is_found) {
  delta_test_training_t training;
  open_smallest(&training);
  static float weights[WEIGHT_COUNT];
  weights[WEIGHT_COUNT - 1] = NAN;
  delta_test_expect_ok(delta_session_write(training.session, "w3", weights, sizeof weights), "w3");
  delta_test_batch_t batch;
  delta_test_batch_make(training.session, 0, BATCH, &batch);
  delta_test_expect_status(delta_session_run(training.session, DELTA_RUN_TRAIN, &batch.batch, rate, NULL), DELTA_STATUS_NOT_A_NUMBER,
                           "state|w3");
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

Test(session_budget, a_plan_says_where_states_lie) {
  delta_test_training_t training;
  open_smallest(&training);
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  delta_plan_t *read = NULL;
  delta_test_expect_ok(delta_plan_to_json(training.plan, &text), "write");
  delta_test_expect_ok(delta_plan_from_json(text.items, text.count, "a plan", delta_allocator_system(), &read), "read");
  cr_assert_eq(read->state_count, training.plan->state_count);
  for (uint32_t i = 0; i < read->state_count; ++i) {
    cr_expect_eq(read->states[i].is_below, training.plan->states[i].is_below);
    cr_expect_eq(read->states[i].home_offset_bytes, training.plan->states[i].home_offset_bytes);
    cr_expect_eq(read->states[i].offset_bytes, training.plan->states[i].offset_bytes);
  }
  delta_plan_free(read);
  delta_text_deinit(&text);
  delta_test_training_close(&training);
}

Test(session_budget, one_granule_less_is_refused_with_the_number_that_would_do) {
  delta_test_training_t training;
  open_smallest(&training);
  char less[32], words[64];
  const uint64_t minimum_bytes = training.plan->totals.minimum_budget_bytes;
  snprintf(less, sizeof less, "%llu", (unsigned long long)minimum_bytes - 4096);
  snprintf(words, sizeof words, "--budget %llu|step|largest tensors", (unsigned long long)minimum_bytes);
  delta_plan_free(training.plan);
  training.plan = NULL;
  const delta_plan_options_t options = plan_options(less, 1);
  delta_session_destroy(training.session);
  training.session = NULL;
  delta_test_expect_status(delta_test_training_plan(&training, &options, delta_allocator_system()), DELTA_STATUS_DOES_NOT_FIT, words);
  delta_test_training_close(&training);
}

// With less room below than it would take, more is made again; without any nothing is swapped, and the smallest budget is larger.
Test(session_budget, the_room_below_is_a_budget_too) {
  static const char *const rooms[] = {"1GiB", "48KiB", "0"};
  uint64_t minimum_bytes[3];
  for (size_t i = 0; i < 3; ++i) {
    delta_test_training_t training;
    delta_plan_options_t options = plan_options("minimum", 1);
    options.host_budget = rooms[i];
    delta_test_training_open(&training, delta_test_wide_mlp, &options);
    const uint64_t room_bytes = training.plan->totals.host_budget_bytes;
    for (uint32_t p = 0; p < training.plan->program_count; ++p) cr_expect_leq(training.plan->programs[p].schedule->host_bytes, room_bytes);
    minimum_bytes[i] = training.plan->totals.minimum_budget_bytes;
    trained_t trained = train(&training, false);
    cr_expect_leq(trained.host_bytes, room_bytes);
    free(trained.states.items);
    delta_test_training_close(&training);
  }
  cr_expect_lt(minimum_bytes[0], minimum_bytes[1]);
  cr_expect_lt(minimum_bytes[1], minimum_bytes[2]);
}
