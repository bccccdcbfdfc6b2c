// Trainer: epochs, steps, partial batches, accumulation, schedules and stopping, each compared with the same steps made one by one.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tests/support/data_files.h"
#include "tests/support/training.h"
#include "tests/support/words.h"

enum { SAMPLES = 10, PIXELS = 4, MOST_RECORDS = 64 };

// A model without symbolic dimensions: its batch is fixed.
static const char fixed_mlp[] =
    "input x float32 [4,4]\n"
    "init w float32 [4,3] 0\n"
    "node MatMul x w -> logits\n"
    "output logits\n";

typedef struct fixture {
  delta_test_training_t training;
  float x[SAMPLES][PIXELS];
  int64_t labels[SAMPLES];
  char spec[2 * DELTA_TEST_PATH_BYTES];
  // What the callbacks saw.
  delta_train_step_t steps[MOST_RECORDS];
  size_t step_count;
  delta_train_evaluation_t evaluations[MOST_RECORDS];
  size_t evaluation_count;
  int64_t total_steps;
  char log[2048];
  volatile sig_atomic_t stop;
  int64_t stop_after, fail_after;
} fixture_t;

static void write_array(const fixture_t *f, const char *name, const char *descr, const char *shape, const void *data, size_t size_bytes) {
  delta_test_bytes_t bytes = {0};
  delta_test_npy(&bytes, descr, shape, data, size_bytes);
  delta_test_folder_write(&f->training.folder, name, bytes.data, bytes.count);
  delta_test_bytes_free(&bytes);
}

static void open_fixture(fixture_t *f, const char *model, int64_t batch, int64_t accumulate) {
  *f = (fixture_t){0};
  delta_plan_options_t options = delta_test_plan_options(batch);
  options.accumulate = accumulate;
  delta_test_training_open(&f->training, model, &options);
  for (int i = 0; i < SAMPLES; ++i) {
    for (int k = 0; k < PIXELS; ++k) f->x[i][k] = (float)sin(1 + i * PIXELS + k);
    f->labels[i] = (i * i + 1) % 3;
  }
  write_array(f, "x.npy", "<f4", "(10, 4)", f->x, sizeof f->x);
  write_array(f, "y.npy", "<i8", "(10,)", f->labels, sizeof f->labels);
  snprintf(f->spec, sizeof f->spec, "x=%s/x.npy,label=%s/y.npy", f->training.folder.path, f->training.folder.path);
}

static delta_status_t on_begin(void *self, int64_t total_steps) {
  ((fixture_t *)self)->total_steps = total_steps;
  return DELTA_OK;
}

static delta_status_t on_step(void *self, const delta_train_step_t *step) {
  fixture_t *f = self;
  cr_assert_lt(f->step_count, MOST_RECORDS);
  f->steps[f->step_count++] = *step;
  f->stop = f->stop_after && step->step >= f->stop_after;
  if (f->fail_after && step->step >= f->fail_after) return delta_status_make(IO, "the disk is full");
  return DELTA_OK;
}

static delta_status_t on_evaluation(void *self, const delta_train_evaluation_t *evaluation) {
  fixture_t *f = self;
  f->evaluations[f->evaluation_count++] = *evaluation;
  return DELTA_OK;
}

static void on_log(void *self, delta_log_level_t level, const char *line) {
  fixture_t *f = self;
  size_t used = strlen(f->log);
  snprintf(f->log + used, sizeof f->log - used, "%d %s\n", (int)level, line);
}

static delta_train_options_t train_options(fixture_t *f) {
  delta_train_options_t options;
  delta_train_options_init(&options);
  options.data = f->spec;
  options.epochs = 1;
  options.learning_rate = 0.25;
  options.shuffle = false;
  options.log = (delta_log_sink_t){.self = f, .write = on_log};
  options.stop_requested = &f->stop;
  options.on_begin = on_begin;
  options.on_step = on_step;
  options.on_evaluation = on_evaluation;
  options.self = f;
  return options;
}

static delta_train_result_t run_trainer(fixture_t *f, const delta_train_options_t *options) {
  delta_train_result_t result = {.struct_size = sizeof result};
  delta_test_expect_ok(delta_session_train(f->training.session, options, &result), "training");
  return result;
}

// One step on the samples [first, first + rows), in the order of the file.
static double step_by_hand(fixture_t *f, delta_run_program_t program, int first, int rows, double rate) {
  const delta_feed_t feeds[] = {{"x", f->x[first], (size_t)rows * sizeof f->x[0]},
                                {"label", f->labels + first, (size_t)rows * sizeof *f->labels}};
  const delta_batch_t batch = {.rows = rows, .feeds = feeds, .feed_count = 2};
  delta_run_report_t report = {.struct_size = sizeof report};
  delta_test_expect_ok(delta_session_run(f->training.session, program, &batch, rate, &report), "step");
  return report.loss;
}

// --- batches

Test(trainer, epoch_ends_with_the_partial_batch) {
  fixture_t trained, by_hand;
  open_fixture(&trained, delta_test_mlp, 4, 1);
  open_fixture(&by_hand, delta_test_mlp, 4, 1);
  delta_train_options_t options = train_options(&trained);
  options.epochs = 2;
  delta_train_result_t result = run_trainer(&trained, &options);
  cr_expect_eq(result.steps, 6);
  cr_expect_eq(trained.total_steps, 6);
  static const int firsts[] = {0, 4, 8}, rows[] = {4, 4, 2};
  for (size_t i = 0; i < 6; ++i) {
    double loss = step_by_hand(&by_hand, DELTA_RUN_TRAIN, firsts[i % 3], rows[i % 3], 0.25);
    cr_expect_eq(trained.steps[i].loss, loss, "step %zu: %g and %g", i, trained.steps[i].loss, loss);
    cr_expect_eq(trained.steps[i].step, (int64_t)i + 1);
    cr_expect_eq(trained.steps[i].epoch, (int64_t)i / 3 + 1);
    cr_expect_gt(trained.steps[i].samples_per_second, 0);
    cr_expect_gt(trained.steps[i].arena_peak_bytes, 0);
    cr_expect_not(trained.steps[i].has_gradient_norm);
  }
  delta_test_values_t a = delta_test_read_states(trained.training.session, NULL),
                      b = delta_test_read_states(by_hand.training.session, NULL);
  cr_expect_eq(delta_test_distance(&a, &b), 0);
  free(a.items);
  free(b.items);
  delta_test_training_close(&trained.training);
  delta_test_training_close(&by_hand.training);
}

typedef struct drop_case {
  char name[24];
  bool is_fixed, drop_last;
  int64_t steps;
  char note[48];
} drop_case_t;

ParameterizedTestParameters(trainer, partial_batches_are_dropped_with_a_note) {
  static drop_case_t cases[] = {
      {"kept", false, false, 3, ""},
      {"dropped", false, true, 2, "2 samples|--drop-last"},
      {"fixed batch", true, false, 2, "2 samples|fixes its batch"},
  };
  return cr_make_param_array(drop_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(drop_case_t *c, trainer, partial_batches_are_dropped_with_a_note) {
  fixture_t f;
  open_fixture(&f, c->is_fixed ? fixed_mlp : delta_test_mlp, 4, 1);
  delta_train_options_t options = train_options(&f);
  options.drop_last = c->drop_last;
  options.evaluation = f.spec;
  delta_train_result_t result = run_trainer(&f, &options);
  cr_expect_eq(result.steps, c->steps, "%s: %lld steps", c->name, (long long)result.steps);
  cr_expect_eq(c->note[0] == '\0', f.log[0] == '\0', "%s: %s", c->name, f.log);
  cr_expect(delta_words_all(f.log, c->note), "%s: %s", c->name, f.log);
  // An evaluation leaves out only what the model cannot take.
  cr_expect_eq(result.last_evaluation.samples, c->is_fixed ? 8 : 10);
  delta_test_training_close(&f.training);
}

Test(trainer, data_smaller_than_a_batch) {
  fixture_t f;
  open_fixture(&f, delta_test_mlp, 16, 1);
  delta_train_options_t options = train_options(&f);
  cr_expect_eq(run_trainer(&f, &options).steps, 1);
  options.drop_last = true;
  delta_train_result_t result = {.struct_size = sizeof result};
  delta_test_expect_status(delta_session_train(f.training.session, &options, &result), DELTA_STATUS_INVALID_ARGUMENT,
                           "10 samples|16|--batch");
  delta_test_training_close(&f.training);
}

Test(trainer, an_epoch_ends_an_update) {
  fixture_t trained, by_hand;
  open_fixture(&trained, delta_test_mlp, 2, 3);
  open_fixture(&by_hand, delta_test_mlp, 2, 3);
  delta_train_options_t options = train_options(&trained);
  cr_expect_eq(run_trainer(&trained, &options).steps, 2); // three micro-batches and two
  for (int first = 0; first < SAMPLES; first += 2) {
    step_by_hand(&by_hand, DELTA_RUN_ACCUMULATE, first, 2, 0.25);
    if (first == 4 || first == 8)
      delta_test_expect_ok(delta_session_run(by_hand.training.session, DELTA_RUN_APPLY, NULL, 0.25, NULL), "apply");
  }
  delta_test_values_t a = delta_test_read_states(trained.training.session, NULL),
                      b = delta_test_read_states(by_hand.training.session, NULL);
  cr_expect_eq(delta_test_distance(&a, &b), 0);
  free(a.items);
  free(b.items);
  delta_test_training_close(&trained.training);
  delta_test_training_close(&by_hand.training);
}

// --- order

// Losses of one-sample steps at rate zero name the samples, so they show the order.
static void losses_of(uint64_t seed, bool shuffle, double losses[2 * SAMPLES]) {
  fixture_t f;
  open_fixture(&f, delta_test_mlp, 1, 1);
  delta_train_options_t options = train_options(&f);
  options.epochs = 2;
  options.shuffle = shuffle;
  options.seed = seed;
  options.learning_rate = 0;
  run_trainer(&f, &options);
  for (size_t i = 0; i < 2 * SAMPLES; ++i) losses[i] = f.steps[i].loss;
  delta_test_training_close(&f.training);
}

static int compare_doubles(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

Test(trainer, order_is_by_the_seed) {
  double plain[2 * SAMPLES], one[2 * SAMPLES], again[2 * SAMPLES], other[2 * SAMPLES];
  losses_of(1, false, plain);
  losses_of(1, true, one);
  losses_of(1, true, again);
  losses_of(2, true, other);
  const size_t epoch_bytes = SAMPLES * sizeof *plain;
  cr_expect_eq(memcmp(plain, plain + SAMPLES, epoch_bytes), 0, "without shuffling all epochs are alike");
  cr_expect_eq(memcmp(one, again, 2 * epoch_bytes), 0, "one seed gives one order");
  cr_expect_neq(memcmp(one, other, epoch_bytes), 0, "another seed gives another order");
  cr_expect_neq(memcmp(one, one + SAMPLES, epoch_bytes), 0, "another epoch has another order");
  for (int epoch = 0; epoch < 2; ++epoch) qsort(one + epoch * SAMPLES, SAMPLES, sizeof *one, compare_doubles);
  qsort(plain, SAMPLES, sizeof *plain, compare_doubles);
  cr_expect_eq(memcmp(one, plain, epoch_bytes), 0, "an epoch has every sample once");
  cr_expect_eq(memcmp(one + SAMPLES, plain, epoch_bytes), 0);
}

// --- rates

typedef struct rate_case {
  char name[16];
  char schedule[12];
  int64_t warmup;
  double rates[5];
} rate_case_t;

ParameterizedTestParameters(trainer, schedules_reach_the_update) {
  static rate_case_t cases[] = {
      {"constant", "constant", 0, {0.4, 0.4, 0.4, 0.4, 0.4}},
      {"linear", "linear", 0, {0.4, 0.32, 0.24, 0.16, 0.08}},
      {"warmup", "constant", 2, {0.2, 0.4, 0.4, 0.4, 0.4}},
      {"cosine", "cosine", 0, {0.4, 0.36180339887, 0.26180339887, 0.13819660113, 0.03819660113}},
      {"step", "step", 0, {0.4, 0.4, 0.04, 0.04, 0.004}},
  };
  return cr_make_param_array(rate_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(rate_case_t *c, trainer, schedules_reach_the_update) {
  fixture_t trained, by_hand;
  open_fixture(&trained, delta_test_mlp, SAMPLES, 1);
  open_fixture(&by_hand, delta_test_mlp, SAMPLES, 1);
  delta_train_options_t options = train_options(&trained);
  options.epochs = 0;
  options.steps = 5;
  options.learning_rate = 0.4;
  options.schedule = c->schedule;
  options.warmup_steps = c->warmup;
  cr_expect_eq(run_trainer(&trained, &options).steps, 5);
  for (int i = 0; i < 5; ++i) {
    cr_expect_float_eq(trained.steps[i].learning_rate, c->rates[i], 1e-9, "%s: step %d: %g", c->name, i + 1,
                       trained.steps[i].learning_rate);
    step_by_hand(&by_hand, DELTA_RUN_TRAIN, 0, SAMPLES, c->rates[i]);
  }
  delta_test_values_t a = delta_test_read_states(trained.training.session, NULL),
                      b = delta_test_read_states(by_hand.training.session, NULL);
  cr_expect_lt(delta_test_distance(&a, &b), 1e-6, "%s: states differ by %g", c->name, delta_test_distance(&a, &b));
  free(a.items);
  free(b.items);
  delta_test_training_close(&trained.training);
  delta_test_training_close(&by_hand.training);
}

// --- evaluation

Test(trainer, evaluation_after_each_epoch_is_over_all_samples) {
  fixture_t f;
  open_fixture(&f, delta_test_mlp, 4, 1);
  delta_train_options_t options = train_options(&f);
  options.epochs = 3;
  options.evaluation = f.spec;
  delta_train_result_t result = run_trainer(&f, &options);
  cr_assert_eq(f.evaluation_count, 3);
  cr_expect_eq(f.evaluations[1].step, 6);
  cr_expect_eq(f.evaluations[1].epoch, 2);
  cr_expect_eq(result.last_evaluation.samples, SAMPLES);
  double whole = step_by_hand(&f, DELTA_RUN_EVALUATE, 0, SAMPLES, 0);
  cr_expect_float_eq(result.last_evaluation.loss, whole, 1e-6);
  cr_expect(result.last_evaluation.has_accuracy && result.last_evaluation.accuracy >= 0 && result.last_evaluation.accuracy <= 1);
  options.data = NULL;
  options.epochs = 0;
  cr_expect_float_eq(run_trainer(&f, &options).last_evaluation.loss, whole, 1e-6);
  delta_test_training_close(&f.training);
}

Test(trainer, evaluation_without_labels_says_so) {
  fixture_t f;
  open_fixture(&f, delta_test_mlp, 4, 1);
  for (int i = 0; i < SAMPLES; ++i) f.labels[i] = -100;
  write_array(&f, "y.npy", "<i8", "(10,)", f.labels, sizeof f.labels);
  delta_train_options_t options = train_options(&f);
  options.data = NULL;
  options.epochs = 0;
  options.evaluation = f.spec;
  cr_expect(isnan(run_trainer(&f, &options).last_evaluation.loss));
  cr_expect(delta_words_all(f.log, "no label|mean"), "%s", f.log);
  delta_test_training_close(&f.training);
}

// --- ends

Test(trainer, stop_ends_after_the_step) {
  fixture_t f;
  open_fixture(&f, delta_test_mlp, 4, 1);
  delta_train_options_t options = train_options(&f);
  options.epochs = 5;
  f.stop_after = 4;
  delta_train_result_t result = run_trainer(&f, &options);
  cr_expect(result.stopped);
  cr_expect_eq(result.steps, 4);
  options.data = NULL;
  options.epochs = 0;
  options.evaluation = f.spec;
  cr_expect(run_trainer(&f, &options).stopped, "an evaluation goes on");
  cr_expect_eq(f.evaluation_count, 0);
  delta_test_training_close(&f.training);
}

typedef struct error_case {
  char name[24];
  char change; // what is wrong
  delta_status_code_t code;
  char words[48];
} error_case_t;

ParameterizedTestParameters(trainer, errors) {
  static error_case_t cases[] = {
      {"callback", 'c', DELTA_STATUS_IO, "the disk is full"},
      {"no such file", 'f', DELTA_STATUS_NOT_FOUND, "--data|nowhere.npy"},
      {"evaluation's file", 'e', DELTA_STATUS_NOT_FOUND, "--eval|nowhere.npy"},
      {"label", 'l', DELTA_STATUS_MISMATCH, "label|3"},
      {"NaN", 'n', DELTA_STATUS_NOT_A_NUMBER, "step 2|not a finite number|--lr"},
      {"nothing to do", '0', DELTA_STATUS_INVALID_ARGUMENT, "--data|--eval"},
      {"no end", 's', DELTA_STATUS_INVALID_ARGUMENT, "--steps|--epochs"},
      {"two ends", 'b', DELTA_STATUS_INVALID_ARGUMENT, "one of|--steps|--epochs"},
      {"negative end", '-', DELTA_STATUS_INVALID_ARGUMENT, "--steps|--epochs|negative"},
      {"rate", 'r', DELTA_STATUS_INVALID_ARGUMENT, "--lr|finite"},
      {"warm-up", 'w', DELTA_STATUS_INVALID_ARGUMENT, "--warmup|-1"},
      {"schedule", 'k', DELTA_STATUS_INVALID_ARGUMENT, "sometimes|cosine"},
      {"struct", '?', DELTA_STATUS_INVALID_ARGUMENT, "delta_train_options_init"},
      {"no samples", 'z', DELTA_STATUS_MISMATCH, "--data|no samples"},
  };
  return cr_make_param_array(error_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(error_case_t *c, trainer, errors) {
  fixture_t f;
  open_fixture(&f, delta_test_mlp, 4, 1);
  delta_train_options_t options = train_options(&f);
  if (c->change == 'c') f.fail_after = 2;
  if (c->change == 'f') options.data = "x=nowhere.npy,label=nowhere.npy";
  if (c->change == 'e') options.evaluation = "x=nowhere.npy,label=nowhere.npy";
  if (c->change == '0') options.data = NULL;
  if (c->change == 's') options.epochs = 0;
  if (c->change == 'b') options.steps = 1;
  if (c->change == '-') options.epochs = -1;
  if (c->change == 'r') options.learning_rate = NAN;
  if (c->change == 'w') options.warmup_steps = -1;
  if (c->change == 'k') options.schedule = "sometimes";
  if (c->change == '?') options.struct_size = 8;
  if (c->change == 'l') {
    f.labels[7] = 3;
    write_array(&f, "y.npy", "<i8", "(10,)", f.labels, sizeof f.labels);
  }
  if (c->change == 'n') options.learning_rate = 1e38;
  if (c->change == 'z') {
    write_array(&f, "x.npy", "<f4", "(0, 4)", f.x, 0);
    write_array(&f, "y.npy", "<i8", "(0,)", f.labels, 0);
  }
  delta_train_result_t result = {.struct_size = sizeof result};
  delta_test_expect_status(delta_session_train(f.training.session, &options, &result), c->code, c->words);
  cr_expect_eq(result.steps,
               c->change == 'c'                       ? 2
               : c->change == 'l' || c->change == 'n' ? 1
                                                      : 0,
               "%s: %lld steps", c->name, (long long)result.steps);
  delta_test_training_close(&f.training);
}
