// Session errors: values that are not finite, wrong feeds, and plans that do not belong to the model or the machine. Each is one message
// that names the object and what to do, and leaves the session usable.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plans/plan.h"
#include "tests/support/indices.h"
#include "tests/support/training.h"

enum { BATCH = 6 };

static void open_mlp(delta_test_training_t *training) {
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_test_training_open(training, delta_test_mlp, &options);
}

// --- values that are not finite

typedef struct bad_value_case {
  char name[24];
  char input; // 'x': NaN in the input; 'l': all labels ignored; 'w': a weight is infinite; 'o': weights so large that a product overflows
  char words[64];
} bad_value_case_t;

ParameterizedTestParameters(session_errors, loss_that_is_not_finite) {
  static bad_value_case_t cases[] = {
      {"input", 'x', "not a finite number|input|x|no state was changed"},
      {"labels", 'l', "no label|-100|mean|no state was changed"},
      {"weight", 'w', "not a finite number|state|w2|no state was changed"},
      {"overflow", 'o', "not a finite number|node|n3|no state was changed"},
  };
  return cr_make_param_array(bad_value_case_t, cases, sizeof cases / sizeof *cases);
}

static void spoil(delta_session_t *session, delta_test_batch_t *batch, char input) {
  float weights[18];
  for (int i = 0; i < 18; ++i) weights[i] = input == 'o' ? (i % 2 ? 3e38f : -3e38f) : 1;
  if (input == 'w') weights[5] = INFINITY;
  if (input == 'o' || input == 'w') delta_test_expect_ok(delta_session_write(session, "w2", weights, sizeof weights), "w2");
  if (input == 'o') delta_test_expect_ok(delta_session_write(session, "b1", (float[6]){9, -9, 9, -9, 9, -9}, 6 * sizeof(float)), "b1");
  if (input == 'x') ((float *)delta_test_batch_find(batch, "x"))[7] = NAN;
  for (int i = 0; i < BATCH && input == 'l'; ++i) ((int64_t *)delta_test_batch_find(batch, "label"))[i] = -100;
}

ParameterizedTest(bad_value_case_t *c, session_errors, loss_that_is_not_finite) {
  delta_test_training_t training;
  open_mlp(&training);
  delta_test_batch_t batch;
  delta_test_batch_make(training.session, 0, BATCH, &batch);
  spoil(training.session, &batch, c->input);
  delta_test_values_t before = delta_test_read_states(training.session, NULL);
  delta_test_expect_status(delta_session_run(training.session, DELTA_RUN_TRAIN, &batch.batch, 0.1, NULL), DELTA_STATUS_NOT_A_NUMBER,
                           c->words);
  delta_test_values_t after = delta_test_read_states(training.session, NULL);
  cr_expect_eq(memcmp(before.items, after.items, before.count * sizeof *before.items), 0, "%s: states changed", c->name);
  delta_test_reset_states(training.session);
  cr_expect(isfinite(delta_test_run(training.session, DELTA_RUN_TRAIN, 0, BATCH, 0.1).loss), "%s: no training after it", c->name);
  free(before.items);
  free(after.items);
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

// --- gradients beyond the range of their squares

typedef struct norm_case {
  char name[24];
  double x, weight; // every input, every weight; the labels are zero
  double clip;
  bool accumulates;
  char words[64]; // of the error; "": the update is of length rate * clip
} norm_case_t;

ParameterizedTestParameters(session_errors, gradient_norm) {
  static norm_case_t cases[] = {
      {"ordinary", 1, 1, 0.5, false, ""},
      {"ordinary, summed", 1, 1, 0.5, true, ""},
      {"squares overflow", 1e10, 1, 2, false, ""},
      {"squares overflow, summed", 1e10, 1, 2, true, ""},
      {"infinite", 1e36, 1e-31, 2, false, "norm of the gradients|node|no state was changed|--lr"},
      {"infinite, summed", 1e36, 1e-31, 2, true, "norm of the gradients|state|w|no weight was changed|--lr"},
  };
  return cr_make_param_array(norm_case_t, cases, sizeof cases / sizeof *cases);
}

// Feeds with one value in every input but the label.
static void make_even_batch(delta_session_t *session, double value, delta_test_batch_t *batch) {
  delta_test_batch_make(session, 0, BATCH, batch);
  float *x = delta_test_batch_find(batch, "x"), *label = delta_test_batch_find(batch, "label");
  for (int i = 0; i < BATCH * 4; ++i) x[i] = (float)value;
  for (int i = 0; i < BATCH * 3; ++i) label[i] = 0;
}

ParameterizedTest(norm_case_t *c, session_errors, gradient_norm) {
  delta_test_training_t training;
  delta_test_batch_t batch;
  float weights[12], after[12];
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.loss = "mse";
  options.clip_gradient_norm = c->clip;
  options.accumulate = c->accumulates ? 2 : 1;
  delta_test_training_open(&training, "input x float32 [N,4]\ninit w float32 [4,3] 0\nnode MatMul x w -> y\noutput y\n", &options);
  for (int i = 0; i < 12; ++i) weights[i] = (float)c->weight;
  delta_test_expect_ok(delta_session_write(training.session, "w", weights, sizeof weights), "w");
  make_even_batch(training.session, c->x, &batch);
  if (c->accumulates) delta_test_expect_ok(delta_session_run(training.session, DELTA_RUN_ACCUMULATE, &batch.batch, 0, NULL), c->name);
  delta_run_report_t report = {.struct_size = sizeof report};
  delta_status_t status = delta_session_run(training.session, c->accumulates ? DELTA_RUN_APPLY : DELTA_RUN_TRAIN,
                                            c->accumulates ? NULL : &batch.batch, 0.125, &report);
  delta_test_expect_ok(delta_session_read(training.session, "w", after, sizeof after), "w");
  double squares = 0;
  for (int i = 0; i < 12; ++i) squares += pow((double)after[i] - (double)weights[i], 2);
  if (*c->words) {
    delta_test_expect_status(status, DELTA_STATUS_NOT_A_NUMBER, c->words);
    cr_expect_eq(squares, 0, "%s: the weights changed", c->name);
  } else {
    delta_test_expect_ok(status, c->name);
    cr_expect(isfinite(report.gradient_norm) && report.gradient_norm > c->clip, "%s: norm %g", c->name, report.gradient_norm);
    cr_expect_float_eq(sqrt(squares), 0.125 * c->clip, 1e-5, "%s: an update of length %g", c->name, sqrt(squares));
  }
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

// Where the message says that states have changed, they have, and where it says not, they have not.
Test(session_errors, what_is_said_of_states_is_true) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_test_training_open(&training, delta_test_batchnorm, &options);
  delta_test_batch_t batch;
  delta_test_batch_make(training.session, 0, BATCH, &batch);
  float scale[3] = {3e38f, 3e38f, 3e38f};
  delta_test_expect_ok(delta_session_write(training.session, "bn.scale", scale, sizeof scale), "bn.scale");
  delta_test_values_t before = delta_test_read_states(training.session, NULL);
  delta_status_t status = delta_session_run(training.session, DELTA_RUN_TRAIN, &batch.batch, 0.1, NULL);
  delta_test_values_t after = delta_test_read_states(training.session, NULL);
  bool unchanged = memcmp(before.items, after.items, before.count * sizeof *before.items) == 0;
  cr_expect_eq(strstr(delta_status_message(status), "no state was changed") != NULL, unchanged, "%s", delta_status_message(status));
  delta_test_expect_status(status, DELTA_STATUS_NOT_A_NUMBER, "not a finite number|node");
  free(before.items);
  free(after.items);
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

// A rate that throws the weights out is noticed at the next step, before that changes anything.
Test(session_errors, large_rate_stops_the_next_step) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.loss = "mse";
  delta_test_training_open(&training, "input x float32 [N,4]\ninit w float32 [4,3] 0\nnode MatMul x w -> y\noutput y\n", &options);
  delta_status_t status = DELTA_OK;
  int steps = 0;
  delta_test_batch_t batch;
  delta_test_batch_make(training.session, 0, BATCH, &batch);
  for (; steps < 100 && !status; ++steps) status = delta_session_run(training.session, DELTA_RUN_TRAIN, &batch.batch, 1e10, NULL);
  cr_expect_lt(steps, 10);
  delta_test_expect_status(status, DELTA_STATUS_NOT_A_NUMBER, "not a finite number|--lr");
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

// Weights that are no numbers are not handed on.
Test(session_errors, bad_weights_are_not_exported) {
  delta_test_training_t training;
  open_mlp(&training);
  char path[DELTA_TEST_PATH_BYTES];
  delta_test_folder_path(&training.folder, "bad.onnx", path);
  delta_state_info_t info = {0};
  for (size_t i = 0; i < delta_session_state_count(training.session); ++i) {
    delta_test_expect_ok(delta_session_state(training.session, i, &info), "state");
    if (strcmp(info.kind, "parameter") == 0) break;
  }
  float *values = malloc(info.size_bytes);
  for (size_t i = 0; i < info.size_bytes / sizeof *values; ++i) values[i] = NAN;
  delta_test_expect_ok(delta_session_write(training.session, info.name, values, info.size_bytes), "write");
  free(values);
  char words[128];
  snprintf(words, sizeof words, "%s|not finite|nothing is written", info.name);
  delta_test_expect_status(delta_session_export(training.session, path, 0), DELTA_STATUS_NOT_A_NUMBER, words);
  cr_expect_neq(access(path, F_OK), 0, "a model was written");
  delta_test_training_close(&training);
}

// A micro-batch in which no label counts adds nothing; it is no error.
Test(session_errors, micro_batch_without_labels_is_fine) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.accumulate = 2;
  delta_test_training_open(&training, delta_test_mlp, &options);
  delta_test_batch_t batch;
  delta_test_batch_make(training.session, 0, BATCH, &batch);
  spoil(training.session, &batch, 'l');
  delta_run_report_t report = {.struct_size = sizeof report};
  delta_test_expect_ok(delta_session_run(training.session, DELTA_RUN_ACCUMULATE, &batch.batch, 0.1, &report), "accumulate");
  cr_expect_eq(report.label_count, 0);
  delta_test_values_t sums = delta_test_read_states(training.session, "accumulator");
  for (size_t i = 0; i < sums.count; ++i) cr_expect_eq(sums.items[i], 0);
  free(sums.items);
  delta_test_expect_status(delta_session_run(training.session, DELTA_RUN_TRAIN, &batch.batch, 0.1, NULL), DELTA_STATUS_INVALID_ARGUMENT,
                           "accumulates|2 micro-batches|ACCUMULATE|APPLY|--accumulate");
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

// --- wrong calls

static delta_status_t refuse_fill(void *self, void *const *buffers) {
  (void)self, (void)buffers;
  return delta_status_make(IO, "the reader's own message");
}

Test(session_errors, wrong_calls) {
  delta_test_training_t training;
  open_mlp(&training);
  delta_session_t *session = training.session;
  delta_test_batch_t batch;
  delta_test_batch_make(session, 0, BATCH, &batch);
  delta_batch_t wrong = batch.batch;
  wrong.rows = 0;
  delta_test_expect_status(delta_session_run(session, DELTA_RUN_TRAIN, &wrong, 0.1, NULL), DELTA_STATUS_INVALID_ARGUMENT, "0 rows");
  delta_test_expect_status(delta_session_run(session, DELTA_RUN_TRAIN, NULL, 0.1, NULL), DELTA_STATUS_INVALID_ARGUMENT, "0 rows");
  static const double bad_rates[] = {-0.1, INFINITY, NAN};
  for (size_t i = 0; i < sizeof bad_rates / sizeof *bad_rates; ++i) {
    delta_test_expect_status(delta_session_run(session, DELTA_RUN_TRAIN, &batch.batch, bad_rates[i], NULL), DELTA_STATUS_INVALID_ARGUMENT,
                             "learning rate|finite");
  }
  delta_output_info_t output;
  cr_expect_eq(delta_session_output_count(session), 1);
  delta_test_expect_ok(delta_session_output(session, 0, &output), "output");
  cr_expect(output.rank == 2 && output.dims[0] == BATCH && output.dims[1] == 3);
  cr_expect_str_eq(output.name, "logits");
  cr_expect_str_eq(output.dtype, "float32");
  delta_test_expect_status(delta_session_output(session, 1, &output), DELTA_STATUS_INVALID_ARGUMENT, "output number 1|has 1");
  wrong.rows = BATCH - 1;
  delta_test_expect_status(delta_session_run(session, DELTA_RUN_TRAIN, &wrong, 0.1, NULL), DELTA_STATUS_INVALID_ARGUMENT, "x|96|80");
  wrong = batch.batch;
  wrong.feed_count = 1;
  delta_test_expect_status(delta_session_run(session, DELTA_RUN_TRAIN, &wrong, 0.1, NULL), DELTA_STATUS_INVALID_ARGUMENT,
                           "input|not among the feeds");
  delta_test_expect_status(delta_session_run(session, (delta_run_program_t)17, &batch.batch, 0.1, NULL), DELTA_STATUS_INVALID_ARGUMENT,
                           "program 17");
  delta_test_expect_status(delta_session_run(session, DELTA_RUN_APPLY, NULL, 0.1, NULL), DELTA_STATUS_INVALID_ARGUMENT, "--accumulate");
  delta_test_expect_status(delta_session_run(session, DELTA_RUN_TRAIN, &batch.batch, NAN, NULL), DELTA_STATUS_INVALID_ARGUMENT,
                           "learning rate");
  ((int64_t *)delta_test_batch_find(&batch, "label"))[3] = 3;
  delta_test_expect_status(delta_session_run(session, DELTA_RUN_TRAIN, &batch.batch, 0.1, NULL), DELTA_STATUS_MISMATCH,
                           "label|element 3 is 3|0 to 2");
  wrong = (delta_batch_t){.rows = BATCH, .fill = refuse_fill};
  delta_test_expect_status(delta_session_run(session, DELTA_RUN_TRAIN, &wrong, 0.1, NULL), DELTA_STATUS_IO, "the reader's own message");
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

// A list of feeds that is wrong in one place.
typedef struct feed_case {
  char name[24];
  delta_run_program_t program;
  size_t feed; // of x and label: the one changed
  const char *feed_name;
  bool has_data, has_list;
  const char *words;
} feed_case_t;

Test(session_errors, wrong_feeds) {
  static const feed_case_t cases[] = {
      {"another name", DELTA_RUN_TRAIN, 0, "z", true, true, "feed|z|no such input"},
      {"no name", DELTA_RUN_TRAIN, 1, NULL, true, true, "feed 1|no name"},
      {"our own name", DELTA_RUN_TRAIN, 0, "delta.rate", true, true, "delta.rate|no such input"},
      {"no data", DELTA_RUN_TRAIN, 0, "x", false, true, "x|no data"},
      {"no list", DELTA_RUN_TRAIN, 0, "x", true, false, "2 feeds|no list"},
      {"x twice", DELTA_RUN_TRAIN, 1, "x", true, true, "label|not among the feeds"},
      {"x twice, evaluated", DELTA_RUN_EVALUATE, 1, "x", true, true, "label|not among the feeds|only outputs are wanted"},
  };
  delta_test_training_t training;
  open_mlp(&training);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const feed_case_t *c = &cases[i];
    delta_test_batch_t batch;
    delta_test_batch_make(training.session, 0, BATCH, &batch);
    batch.feeds[c->feed].name = c->feed_name;
    if (!c->has_data) batch.feeds[c->feed].data = NULL;
    if (!c->has_list) batch.batch.feeds = NULL;
    delta_test_expect_status(delta_session_run(training.session, c->program, &batch.batch, 0.1, NULL), DELTA_STATUS_INVALID_ARGUMENT,
                             c->words);
    delta_test_batch_free(&batch);
  }
  delta_test_training_close(&training);
}

Test(session_errors, wrong_reports_and_states) {
  delta_test_training_t training;
  open_mlp(&training);
  delta_session_t *session = training.session;
  delta_test_batch_t batch;
  delta_test_batch_make(session, 0, BATCH, &batch);
  delta_run_report_t report = {0};
  float values[8] = {0};
  size_t size_bytes = 0;
  delta_input_info_t input;
  delta_state_info_t state;
  delta_test_expect_status(delta_session_run(session, DELTA_RUN_TRAIN, &batch.batch, 0.1, &report), DELTA_STATUS_INVALID_ARGUMENT,
                           "struct_size");
  delta_test_expect_status(delta_session_read(session, "nobody", values, 4), DELTA_STATUS_NOT_FOUND, "nobody");
  delta_test_expect_status(delta_session_read(session, "b1", values, 4), DELTA_STATUS_INVALID_ARGUMENT, "b1|24|4");
  delta_test_expect_status(delta_session_write(session, "b1", values, 32), DELTA_STATUS_INVALID_ARGUMENT, "b1|24|32");
  delta_test_expect_status(delta_session_input(session, 2, &input), DELTA_STATUS_INVALID_ARGUMENT, "2");
  delta_test_expect_status(delta_session_state(session, 99, &state), DELTA_STATUS_INVALID_ARGUMENT, "99");
  delta_test_expect_status(delta_session_read_output(session, "logits", BATCH, NULL, 0, &size_bytes), DELTA_STATUS_INVALID_ARGUMENT,
                           "evaluation");
  delta_test_run(session, DELTA_RUN_EVALUATE, 0, BATCH, 0);
  delta_test_expect_status(delta_session_read_output(session, "nobody", BATCH, NULL, 0, &size_bytes), DELTA_STATUS_NOT_FOUND, "nobody");
  delta_test_expect_status(delta_session_read_output(session, "logits", BATCH, values, sizeof values, &size_bytes),
                           DELTA_STATUS_INVALID_ARGUMENT, "logits|72|32");
  delta_test_expect_status(delta_session_export(session, "/no/such/folder/m.onnx", 0), DELTA_STATUS_NOT_FOUND, "/no/such/folder");
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

// --- plans that do not belong

static void other_instructions(delta_plan_t *plan) { plan->numerics.instruction_set = "sse1"; }
static void other_libraries(delta_plan_t *plan) { plan->numerics.libraries = "onednn 0.1"; }
static void other_model(delta_plan_t *plan) { plan->model_sha256[0] ^= 1; }
static void other_hash(delta_plan_t *plan) { plan->programs[0].graph_hash[5] ^= 1; }
static void other_threads(delta_plan_t *plan) { plan->numerics.threads += 1; }
static void other_numerics(delta_plan_t *plan) { plan->numerics.id[0] ^= 1; }
static void overlap(delta_plan_t *plan) {
  delta_schedule_t *schedule = plan->programs[0].schedule;
  for (uint32_t i = 0; i < schedule->buffer_count; ++i) schedule->buffers[i].offset_bytes = 0;
}
static void beyond_the_arena(delta_plan_t *plan) { plan->programs[0].schedule->buffers[0].offset_bytes += (size_t)1 << 40; }
static void smaller_arena(delta_plan_t *plan) { plan->programs[0].schedule->arena_bytes = 64; }
static void state_renamed(delta_plan_t *plan) { plan->states[0].name = "nobody"; }
static void state_of_another_shape(delta_plan_t *plan) { plan->states[0].shape.dims[0] += 1; }
static void no_programs(delta_plan_t *plan) {
  for (uint32_t i = 0; i < plan->program_count; ++i) delta_schedule_free(plan->programs[i].schedule);
  plan->program_count = 0;
}

typedef struct foreign_case {
  const char *name;
  void (*edit)(delta_plan_t *plan);
  delta_status_code_t code;
  const char *words;
} foreign_case_t;
static const foreign_case_t foreign_cases[] = {
    {"instructions", other_instructions, DELTA_STATUS_MISMATCH, "sse1|deltaplan"},
    {"libraries", other_libraries, DELTA_STATUS_MISMATCH, "onednn 0.1|deltaplan"},
    {"model", other_model, DELTA_STATUS_MISMATCH, "model.onnx|SHA-256|deltaplan"},
    {"graph", other_hash, DELTA_STATUS_MISMATCH, "graph|deltaplan"},
    {"threads", other_threads, DELTA_STATUS_MISMATCH, "numerics|deltaplan"},
    {"numerics", other_numerics, DELTA_STATUS_MISMATCH, "numerics|deltaplan"},
    {"overlap", overlap, DELTA_STATUS_MALFORMED, "deltaplan"},
    {"beyond the arena", beyond_the_arena, DELTA_STATUS_MALFORMED, "deltaplan"},
    {"smaller arena", smaller_arena, DELTA_STATUS_MALFORMED, "deltaplan"},
    {"state renamed", state_renamed, DELTA_STATUS_MISMATCH, "w1|deltaplan"},
    {"state's shape", state_of_another_shape, DELTA_STATUS_MISMATCH, "w1|deltaplan"},
    {"no programs", no_programs, DELTA_STATUS_MALFORMED, "program|deltaplan"},
};

ParameterizedTestParameters(session_errors, foreign_plans_are_refused) {
  return delta_test_indices(sizeof foreign_cases / sizeof *foreign_cases);
}

ParameterizedTest(size_t *index, session_errors, foreign_plans_are_refused) {
  const foreign_case_t *c = &foreign_cases[*index];
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_test_training_prepare(&training, delta_test_mlp, &options);
  c->edit(training.plan);
  delta_status_t status = delta_test_training_start(&training, delta_allocator_system());
  // With some instruction sets kernels for other threads ask for the same workspace; then the numerics tell.
  const bool told_by_numerics = c->edit == other_threads && status && delta_status_code(status) == DELTA_STATUS_MISMATCH;
  delta_test_expect_status(status, told_by_numerics ? DELTA_STATUS_MISMATCH : c->code, c->words);
  cr_expect_null(training.session, "%s", c->name);
  delta_test_training_close(&training);
}

// --- where the model is

static delta_status_t start_at(const delta_test_training_t *training, const char *plan_path, const char *model_path) {
  delta_session_options_t options;
  delta_session_options_init(&options);
  options.plan = training->plan;
  options.plan_path = plan_path;
  options.model_path = model_path;
  delta_session_t *session = NULL;
  delta_status_t status = delta_session_create(&options, delta_allocator_system(), &session);
  delta_session_destroy(session);
  return status;
}

Test(session_errors, model_stands_beside_the_plan_or_is_named) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_test_training_prepare(&training, delta_test_mlp, &options);
  char beside[DELTA_TEST_PATH_BYTES], moved[DELTA_TEST_PATH_BYTES];
  delta_test_folder_path(&training.folder, "any.plan", beside);
  delta_test_folder_path(&training.folder, "moved.onnx", moved);
  delta_test_expect_ok(start_at(&training, beside, NULL), "beside the plan");
  delta_test_expect_status(start_at(&training, "/elsewhere/any.plan", NULL), DELTA_STATUS_NOT_FOUND, "/elsewhere/model.onnx|--model");
  delta_test_expect_status(start_at(&training, NULL, NULL), DELTA_STATUS_INVALID_ARGUMENT, "model");
  cr_assert_eq(rename(training.model_path, moved), 0);
  delta_test_expect_status(start_at(&training, beside, NULL), DELTA_STATUS_NOT_FOUND, "model.onnx|--model");
  delta_test_expect_ok(start_at(&training, beside, moved), "named");
  cr_assert_eq(chdir(training.folder.path), 0);
  cr_assert_eq(rename("moved.onnx", "model.onnx"), 0);
  delta_test_expect_ok(start_at(&training, "any.plan", NULL), "beside the plan, without a folder");
  delta_test_training_close(&training);
}

Test(session_errors, options_must_be_initialized) {
  delta_session_options_t session_options = {0};
  delta_plan_options_t plan_options = {0};
  delta_session_t *session = NULL;
  delta_plan_t *plan = NULL;
  delta_plan_summary_t summary = {0};
  delta_test_expect_status(delta_session_create(&session_options, delta_allocator_system(), &session), DELTA_STATUS_INVALID_ARGUMENT,
                           "delta_session_options_init");
  delta_session_options_init(&session_options);
  delta_test_expect_status(delta_session_create(&session_options, delta_allocator_system(), &session), DELTA_STATUS_INVALID_ARGUMENT,
                           "plan");
  delta_test_expect_status(delta_plan_create(&plan_options, delta_allocator_system(), &plan, NULL), DELTA_STATUS_INVALID_ARGUMENT,
                           "delta_plan_options_init");
  delta_plan_options_init(&plan_options);
  delta_test_expect_status(delta_plan_create(&plan_options, delta_allocator_system(), &plan, NULL), DELTA_STATUS_INVALID_ARGUMENT, "model");
  plan_options.model_path = "model.onnx";
  delta_test_expect_status(delta_plan_create(&plan_options, delta_allocator_system(), &plan, &summary), DELTA_STATUS_INVALID_ARGUMENT,
                           "struct_size");
}
