// Session: what one run of a program does to states and says in its report, compared with the same computed by hand or by another way.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/training.h"

enum { BATCH = 12 };
static const double rate = 0.125;

// The first gradients, from one step of sgd: (before - after) / rate.
static delta_test_values_t gradients_by_sgd(delta_session_t *session, int64_t first, int64_t rows) {
  delta_test_values_t before = delta_test_read_states(session, "parameter");
  delta_test_run(session, DELTA_RUN_TRAIN, first, rows, rate);
  delta_test_values_t after = delta_test_read_states(session, "parameter");
  for (size_t i = 0; i < before.count; ++i) before.items[i] = (before.items[i] - after.items[i]) / rate;
  free(after.items);
  return before;
}

// --- gradients

// The loss is differentiable in every parameter, so a difference quotient along a direction gives the same as the gradient.
Test(session, gradients_are_those_of_the_loss) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_test_training_open(&training, delta_test_mlp, &options);
  delta_test_values_t gradients = gradients_by_sgd(training.session, 0, BATCH);
  delta_test_reset_states(training.session);
  float weights[24], moved[24];
  delta_test_expect_ok(delta_session_read(training.session, "w1", weights, sizeof weights), "w1");
  double losses[2], slope = 0;
  const double step = 1e-3;
  for (int side = 0; side < 2; ++side) {
    for (int i = 0; i < 24; ++i) moved[i] = weights[i] + (float)((side ? step : -step) * (i % 3 - 1));
    delta_test_expect_ok(delta_session_write(training.session, "w1", moved, sizeof moved), "w1");
    losses[side] = delta_test_run(training.session, DELTA_RUN_EVALUATE, 0, BATCH, 0).loss;
  }
  for (int i = 0; i < 24; ++i) slope += gradients.items[i] * (i % 3 - 1); // w1 is the first state
  cr_expect_float_eq((losses[1] - losses[0]) / (2 * step), slope, 1e-3);
  cr_expect_gt(fabs(slope), 0.01);
  free(gradients.items);
  delta_test_training_close(&training);
}

// --- accumulation

typedef struct accumulation_case {
  char name[24];
  char model; // 'm'lp or 'b'atch normalization, whose statistics are those of each micro-batch: not the same as the full batch
  char optimizer[12];
  bool ignores; // labels are unevenly ignored: none of the first micro-batch counts
  double clip;
} accumulation_case_t;

ParameterizedTestParameters(session, accumulate_and_apply_equal_the_full_batch) {
  static accumulation_case_t cases[] = {
      {"plain", 'm', "sgd", false, 0},      {"ignored labels", 'm', "sgd", true, 0},
      {"clipped", 'm', "sgd", false, 0.05}, {"ignored and clipped", 'm', "sgd", true, 0.05},
      {"adamw", 'm', "adamw", true, 0},     {"lamb, clipped", 'm', "lamb", true, 0.05},
      {"rmsprop", 'm', "rmsprop", true, 0}, {"adagrad", 'm', "adagrad", false, 0},
      {"adam", 'm', "adam", false, 0},
  };
  return cr_make_param_array(accumulation_case_t, cases, sizeof cases / sizeof *cases);
}

// Labels of `rows` samples from `first`, of which those of the first third and every fifth do not count.
static void ignore_labels(delta_test_batch_t *batch, int64_t first, int64_t rows, bool ignores) {
  int64_t *labels = delta_test_batch_find(batch, "label");
  for (int64_t i = 0; i < rows && ignores; ++i) {
    if (first + i < BATCH / 3 || (first + i) % 5 == 0) labels[i] = -100;
  }
}

static delta_run_report_t run_ignoring(delta_session_t *session, delta_run_program_t program, int64_t first, int64_t rows, bool ignores) {
  delta_test_batch_t batch;
  delta_test_batch_make(session, first, rows, &batch);
  ignore_labels(&batch, first, rows, ignores);
  delta_run_report_t report = {.struct_size = sizeof report};
  delta_test_expect_ok(delta_session_run(session, program, &batch.batch, rate, &report), "run");
  delta_test_batch_free(&batch);
  return report;
}

ParameterizedTest(accumulation_case_t *c, session, accumulate_and_apply_equal_the_full_batch) {
  enum { MICRO = BATCH / 3, UPDATES = 3 };
  delta_test_training_t full, apart;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.optimizer = c->optimizer;
  options.clip_gradient_norm = c->clip;
  delta_test_training_open(&full, delta_test_mlp, &options);
  options.batch = MICRO;
  options.accumulate = 3;
  delta_test_training_open(&apart, delta_test_mlp, &options);
  for (int update = 0; update < UPDATES; ++update) {
    delta_run_report_t whole = run_ignoring(full.session, DELTA_RUN_TRAIN, 0, BATCH, c->ignores);
    double sum = 0, count = 0;
    for (int64_t first = 0; first < BATCH; first += MICRO) {
      delta_run_report_t part = run_ignoring(apart.session, DELTA_RUN_ACCUMULATE, first, MICRO, c->ignores);
      if (part.label_count > 0) sum += part.loss * part.label_count;
      count += part.label_count;
    }
    delta_run_report_t applied = {.struct_size = sizeof applied};
    delta_test_expect_ok(delta_session_run(apart.session, DELTA_RUN_APPLY, NULL, rate, &applied), "apply");
    cr_expect_float_eq(sum / count, whole.loss, 1e-5, "%s: loss %g and %g", c->name, sum / count, whole.loss);
    cr_expect_float_eq(applied.loss, whole.loss, 1e-5, "%s: loss of the update", c->name);
    cr_expect_float_eq(applied.gradient_norm, whole.gradient_norm, 1e-5, "%s: norm", c->name);
    cr_expect_eq(whole.gradient_norm >= 0, c->clip > 0);
  }
  delta_test_values_t a = delta_test_read_states(full.session, "parameter"), b = delta_test_read_states(apart.session, "parameter");
  cr_expect_lt(delta_test_distance(&a, &b), 2e-5, "%s: parameters differ by %g", c->name, delta_test_distance(&a, &b));
  free(a.items);
  free(b.items);
  delta_test_training_close(&full);
  delta_test_training_close(&apart);
}

// The accumulators are cleared by the update: a second one without a micro-batch has nothing to apply, and says so.
Test(session, an_update_needs_labels) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.accumulate = 2;
  delta_test_training_open(&training, delta_test_mlp, &options);
  delta_run_report_t report = {.struct_size = sizeof report};
  delta_test_run(training.session, DELTA_RUN_ACCUMULATE, 0, BATCH, rate);
  delta_test_expect_ok(delta_session_run(training.session, DELTA_RUN_APPLY, NULL, rate, &report), "apply");
  delta_test_values_t before = delta_test_read_states(training.session, NULL);
  delta_test_expect_status(delta_session_run(training.session, DELTA_RUN_APPLY, NULL, rate, &report), DELTA_STATUS_NOT_A_NUMBER,
                           "no label|mean|no state was changed");
  delta_test_values_t after = delta_test_read_states(training.session, NULL);
  cr_expect_eq(delta_test_distance(&before, &after), 0);
  free(before.items);
  free(after.items);
  delta_test_training_close(&training);
}

// --- clipping

Test(session, clipping_scales_all_gradients_to_the_norm) {
  const double clip = 0.03;
  delta_test_training_t plain, clipped;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_test_training_open(&plain, delta_test_mlp, &options);
  options.clip_gradient_norm = clip;
  delta_test_training_open(&clipped, delta_test_mlp, &options);
  delta_test_values_t gradients = gradients_by_sgd(plain.session, 0, BATCH), before = delta_test_read_states(clipped.session, "parameter");
  double squares = 0;
  for (size_t i = 0; i < gradients.count; ++i) squares += gradients.items[i] * gradients.items[i];
  double norm = sqrt(squares);
  cr_assert_gt(norm, 2 * clip);
  delta_run_report_t report = delta_test_run(clipped.session, DELTA_RUN_TRAIN, 0, BATCH, rate);
  cr_expect_float_eq(report.gradient_norm, norm, 1e-5);
  delta_test_values_t after = delta_test_read_states(clipped.session, "parameter");
  for (size_t i = 0; i < before.count; ++i) before.items[i] -= rate * gradients.items[i] * clip / (norm + 1e-6);
  cr_expect_lt(delta_test_distance(&before, &after), 1e-6);
  free(gradients.items);
  free(before.items);
  free(after.items);
  delta_test_training_close(&plain);
  delta_test_training_close(&clipped);
}

// --- partial batches and switching

typedef struct model_case {
  char name[16];
  char policy[8];
  bool has_batchnorm;
} model_case_t;

ParameterizedTestParameters(session, partial_batch_equals_a_plan_of_its_size) {
  static model_case_t cases[] = {
      {"mlp", "none", false}, {"batchnorm", "none", true}, {"mlp", "eager", false}, {"batchnorm", "eager", true}};
  return cr_make_param_array(model_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(model_case_t *c, session, partial_batch_equals_a_plan_of_its_size) {
  enum { PARTIAL = 5 };
  const char *text = c->has_batchnorm ? delta_test_batchnorm : delta_test_mlp;
  delta_test_training_t large, small;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.momentum = 0.5;
  options.policy = c->policy;
  delta_test_training_open(&large, text, &options);
  options.batch = PARTIAL;
  delta_test_training_open(&small, text, &options);
  for (int step = 0; step < 2; ++step) {
    double a = delta_test_run(large.session, DELTA_RUN_TRAIN, 100 * step, PARTIAL, rate).loss;
    double b = delta_test_run(small.session, DELTA_RUN_TRAIN, 100 * step, PARTIAL, rate).loss;
    cr_expect_float_eq(a, b, 1e-6, "%s: losses %g and %g", c->name, a, b);
  }
  delta_test_values_t a = delta_test_read_states(large.session, NULL), b = delta_test_read_states(small.session, NULL);
  cr_expect_lt(delta_test_distance(&a, &b), 1e-6, "%s: states differ by %g", c->name, delta_test_distance(&a, &b));
  free(a.items);
  free(b.items);
  delta_test_training_close(&large);
  delta_test_training_close(&small);
}

// Programs share one state area: running others in between changes nothing of what a training computes.
Test(session, switching_programs_moves_no_state) {
  delta_test_training_t alone, switching;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.optimizer = "adamw";
  delta_test_training_open(&alone, delta_test_batchnorm, &options);
  delta_test_training_open(&switching, delta_test_batchnorm, &options);
  for (int step = 0; step < 3; ++step) {
    delta_test_run(alone.session, DELTA_RUN_TRAIN, 100 * step, BATCH, rate);
    delta_test_run(switching.session, DELTA_RUN_TRAIN, 100 * step, BATCH, rate);
    delta_test_values_t before = delta_test_read_states(switching.session, NULL);
    delta_test_run(switching.session, DELTA_RUN_EVALUATE, 0, BATCH, 0);
    delta_test_run(switching.session, DELTA_RUN_EVALUATE, 0, 3, 0);
    delta_test_values_t after = delta_test_read_states(switching.session, NULL);
    cr_expect_eq(delta_test_distance(&before, &after), 0, "an evaluation changed states");
    free(before.items);
    free(after.items);
  }
  delta_test_values_t a = delta_test_read_states(alone.session, NULL), b = delta_test_read_states(switching.session, NULL);
  cr_expect_eq(delta_test_distance(&a, &b), 0);
  free(a.items);
  free(b.items);
  delta_test_training_close(&alone);
  delta_test_training_close(&switching);
}

// --- evaluation

// By running statistics a sample's loss does not depend on the batch it stands in; by batch statistics it would.
Test(session, evaluation_uses_running_statistics) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(4);
  delta_test_training_open(&training, delta_test_batchnorm, &options);
  double sum = 0;
  for (int64_t i = 0; i < 4; ++i) sum += delta_test_run(training.session, DELTA_RUN_EVALUATE, i, 1, 0).loss;
  double together = delta_test_run(training.session, DELTA_RUN_EVALUATE, 0, 4, 0).loss;
  double trained = delta_test_run(training.session, DELTA_RUN_TRAIN, 0, 4, 0).loss;
  cr_expect_float_eq(sum / 4, together, 1e-6);
  cr_expect_gt(fabs(together - trained), 1e-3, "the training step does not use batch statistics");
  delta_test_training_close(&training);
}

Test(session, evaluation_counts_correct_labels) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_test_training_open(&training, delta_test_mlp, &options);
  delta_test_batch_t batch;
  delta_test_batch_make(training.session, 0, BATCH, &batch);
  int64_t *labels = delta_test_batch_find(&batch, "label");
  labels[2] = labels[7] = -100;
  delta_run_report_t report = {.struct_size = sizeof report};
  delta_test_expect_ok(delta_session_run(training.session, DELTA_RUN_EVALUATE, &batch.batch, 0, &report), "evaluate");
  float logits[BATCH][3];
  size_t size_bytes = 0;
  delta_test_expect_ok(delta_session_read_output(training.session, "logits", BATCH, logits, sizeof logits, &size_bytes), "logits");
  cr_assert_eq(size_bytes, sizeof logits);
  double correct = 0, loss = 0;
  for (int i = 0; i < BATCH; ++i) {
    if (labels[i] < 0) continue;
    int best = logits[i][1] > logits[i][0] ? 1 : 0;
    if (logits[i][2] > logits[i][best]) best = 2;
    correct += best == labels[i];
    double sum = 0;
    for (int k = 0; k < 3; ++k) sum += exp(logits[i][k]);
    loss += log(sum) - logits[i][labels[i]];
  }
  cr_expect_eq(report.correct, correct);
  cr_expect_eq(report.label_count, BATCH - 2);
  cr_expect_float_eq(report.loss, loss / (BATCH - 2), 1e-5);
  cr_expect_eq(delta_session_has_accuracy(training.session), 1);
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

// --- plans from files

// A plan that comes from a file has the numbers of the one that was written, and accumulates as that does.
Test(session, loaded_plan_is_the_saved_one) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.accumulate = 4;
  options.learning_rate = 0.25;
  delta_test_training_open(&training, delta_test_mlp, &options);
  char path[DELTA_TEST_PATH_BYTES];
  delta_test_folder_path(&training.folder, "saved.plan", path);
  delta_test_expect_ok(delta_plan_save(training.plan, path), "save");
  delta_plan_t *loaded = NULL;
  delta_test_expect_ok(delta_plan_load(path, delta_allocator_system(), &loaded), "load");
  delta_plan_summary_t saved = {.struct_size = sizeof saved}, read = saved;
  delta_test_expect_ok(delta_plan_summarize(training.plan, &saved), "summary");
  delta_test_expect_ok(delta_plan_summarize(loaded, &read), "summary");
  cr_expect_gt(read.nodes, 0);
  cr_expect_gt(read.trainable_parameters, 0);
  cr_expect_eq(read.nodes, saved.nodes);
  cr_expect_eq(read.trainable_parameters, saved.trainable_parameters);
  cr_expect_eq(read.trainable_tensors, saved.trainable_tensors);
  cr_expect_eq(read.batch, saved.batch);
  cr_expect_eq(read.arena_bytes, saved.arena_bytes);
  cr_expect_eq(read.accumulate, 4);
  cr_expect_eq(read.learning_rate, 0.25);
  delta_plan_free(loaded);
  delta_test_training_close(&training);
}

// --- dropout

// The loss is linear in w: it is w times its own gradient if, and only if, forward and backward pass draw the same mask.
static const char linear_dropout[] =
    "input x float32 [N,16]\n"
    "init w float32 [16] 0\n"
    "init ratio float32 [] 0.5\n"
    "init mode bool [] 1\n"
    "node Mul x w -> h\n"
    "node Dropout h ratio mode -> d\n"
    "node ReduceMean d -> loss : keepdims=0\n"
    "output loss\n";

ParameterizedTestParameters(session, dropout_draws_one_mask_in_a_step) {
  static model_case_t cases[] = {{"dropout", "none", false}, {"dropout", "eager", false}};
  return cr_make_param_array(model_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(model_case_t *c, session, dropout_draws_one_mask_in_a_step) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(8);
  options.loss = "output:loss";
  options.policy = c->policy;
  delta_test_training_open(&training, linear_dropout, &options);
  double losses[4];
  for (int step = 0; step < 4; ++step) {
    delta_test_values_t before = delta_test_read_state(training.session, "w");
    losses[step] = delta_test_run(training.session, DELTA_RUN_TRAIN, 0, 8, rate).loss;
    delta_test_values_t after = delta_test_read_state(training.session, "w");
    double product = 0;
    for (size_t i = 0; i < before.count; ++i) product += before.items[i] * (before.items[i] - after.items[i]) / rate;
    cr_expect_float_eq(product, losses[step], 1e-5, "step %d: %g and %g", step, product, losses[step]);
    delta_test_expect_ok(delta_session_write(training.session, "w", (float[16]){1, 2, 3}, 16 * sizeof(float)), "w");
    free(before.items);
    free(after.items);
  }
  cr_expect_neq(losses[1], losses[2], "two steps draw the same mask");
  double evaluated = delta_test_run(training.session, DELTA_RUN_EVALUATE, 0, 8, 0).loss;
  cr_expect_eq(evaluated, delta_test_run(training.session, DELTA_RUN_EVALUATE, 0, 8, 0).loss, "evaluation draws masks");
  delta_test_training_close(&training);
}

// --- the same numbers

static delta_test_values_t train_some(const char *text, const char *policy, int threads, double *out_loss) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.policy = policy;
  options.threads = threads;
  options.momentum = 0.9;
  delta_test_training_open(&training, text, &options);
  for (int step = 0; step < 3; ++step) *out_loss = delta_test_run(training.session, DELTA_RUN_TRAIN, 100 * step, BATCH, rate).loss;
  delta_test_values_t states = delta_test_read_states(training.session, "parameter");
  delta_test_training_close(&training);
  return states;
}

typedef struct twin_case {
  char name[32];
  char policies[2][8];
  int threads[2];
  double allowed; // 0: bit for bit
} twin_case_t;

ParameterizedTestParameters(session, equal_runs_give_equal_numbers) {
  static twin_case_t cases[] = {
      {"repeated", {"none", "none"}, {1, 1}, 0},
      {"repeated, two threads", {"none", "none"}, {2, 2}, 0},
      {"one thread and two", {"none", "none"}, {1, 2}, 1e-5},
      {"none and eager", {"none", "eager"}, {1, 1}, 1e-5},
  };
  return cr_make_param_array(twin_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(twin_case_t *c, session, equal_runs_give_equal_numbers) {
  static const char *const texts[] = {delta_test_mlp, delta_test_batchnorm};
  for (int k = 0; k < 2; ++k) {
    double losses[2];
    delta_test_values_t a = train_some(texts[k], c->policies[0], c->threads[0], &losses[0]);
    delta_test_values_t b = train_some(texts[k], c->policies[1], c->threads[1], &losses[1]);
    cr_expect_leq(delta_test_distance(&a, &b), c->allowed, "%s, model %d: parameters differ by %g", c->name, k,
                  delta_test_distance(&a, &b));
    cr_expect_leq(fabs(losses[0] - losses[1]), c->allowed, "%s, model %d: losses %g and %g", c->name, k, losses[0], losses[1]);
    free(a.items);
    free(b.items);
  }
}

// --- export

typedef struct export_case {
  char name[16];
  int for_training;
} export_case_t;

ParameterizedTestParameters(session, exported_model_evaluates_alike) {
  static export_case_t cases[] = {{"inference", 0}, {"training", 1}};
  return cr_make_param_array(export_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(export_case_t *c, session, exported_model_evaluates_alike) {
  delta_test_training_t first, second = {0};
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_test_training_open(&first, delta_test_batchnorm, &options);
  for (int step = 0; step < 3; ++step) delta_test_run(first.session, DELTA_RUN_TRAIN, 100 * step, BATCH, rate);
  delta_run_report_t trained = delta_test_run(first.session, DELTA_RUN_EVALUATE, 0, BATCH, 0);
  delta_test_folder_make(&second.folder);
  delta_test_folder_path(&second.folder, "model.onnx", second.model_path);
  delta_test_expect_ok(delta_session_export(first.session, second.model_path, c->for_training), "export");
  delta_test_expect_ok(delta_test_training_plan(&second, &options, delta_allocator_system()), "plan");
  delta_test_expect_ok(delta_test_training_start(&second, delta_allocator_system()), "session");
  delta_run_report_t read = delta_test_run(second.session, DELTA_RUN_EVALUATE, 0, BATCH, 0);
  cr_expect_float_eq(read.loss, trained.loss, 1e-6, "%s: %g and %g", c->name, read.loss, trained.loss);
  cr_expect_eq(read.correct, trained.correct);
  // In the form it was given the model trains on just as it would have.
  double a = delta_test_run(first.session, DELTA_RUN_TRAIN, 0, BATCH, 0).loss;
  double b = delta_test_run(second.session, DELTA_RUN_TRAIN, 0, BATCH, 0).loss;
  cr_expect_eq(fabs(a - b) < 1e-6, c->for_training, "%s: %g and %g", c->name, a, b);
  delta_test_training_close(&first);
  delta_test_training_close(&second);
}
