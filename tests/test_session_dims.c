// Batches whose dimensions are other than planned: lengths of sequences, sizes of images. They compute what a plan of their own computes, within the budget and to the same bits at any; programs
// for recurring shapes are made once, and as many as asked for are kept.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "runtime/session_parts.h"
#include "tests/support/free_dims.h"
#include "tests/support/training.h"

enum { BATCH = 6, PLANNED = 10 };

static const char tokens[] =
    "input ids int64 [N,T]\n"
    "init table float32 [20,8] 0\n"
    "init w1 float32 [8,16] 0\n"
    "init w2 float32 [16,3] 0\n"
    "node Gather table ids -> e\n"
    "node MatMul e w1 -> a\n"
    "node Tanh a -> h\n"
    "node ReduceMean h -> m : axes=[1] keepdims=0\n"
    "node MatMul m w2 -> logits\n"
    "output logits\n";

// Feeds of one run, for dimensions of the caller's.
typedef struct shaped_batch {
  delta_batch_t batch;
  delta_dim_t dims[2];
  delta_feed_t feeds[DELTA_TEST_MOST_FEEDS];
  void *data[DELTA_TEST_MOST_FEEDS]; // Owned.
} shaped_batch_t;

// Samples for a session whose inputs have `planned` where they shall have `size`: in all dimensions after the first.
static void make_batch(const delta_session_t *session, int64_t rows, int64_t planned, int64_t size, uint64_t seed, shaped_batch_t *batch) {
  memset(batch, 0, sizeof *batch);
  size_t count = delta_session_input_count(session);
  cr_assert_leq(count, DELTA_TEST_MOST_FEEDS);
  for (size_t i = 0; i < count; ++i) {
    delta_input_info_t info;
    delta_test_expect_ok(delta_session_input(session, i, &info), "input");
    const bool is_float = strcmp(info.dtype, "float32") == 0;
    size_t elements = (size_t)rows;
    for (int d = 1; d < info.rank; ++d) elements *= (size_t)(info.dims[d] == planned ? size : info.dims[d]);
    batch->data[i] = malloc(elements * sizeof(int64_t));
    for (size_t k = 0; k < elements; ++k) {
      const uint64_t bits = (seed + k + 1) * UINT64_C(0x9E3779B97F4A7C15) >> 33;
      if (is_float) ((float *)batch->data[i])[k] = (float)(bits % 1000) / 500 - 1;
      if (!is_float) ((int64_t *)batch->data[i])[k] = info.minimum + (int64_t)(bits % (uint64_t)(info.maximum - info.minimum));
    }
    batch->feeds[i] =
        (delta_feed_t){.name = info.name, .data = batch->data[i], .size_bytes = elements * (is_float ? sizeof(float) : sizeof(int64_t))};
  }
  batch->batch = (delta_batch_t){.rows = rows, .feeds = batch->feeds, .feed_count = count, .dims = batch->dims};
}

static void add_dim(shaped_batch_t *batch, const char *name, int64_t size) {
  batch->dims[batch->batch.dim_count++] = (delta_dim_t){.name = name, .size = size};
}

static void free_batch(shaped_batch_t *batch) {
  for (size_t i = 0; i < DELTA_TEST_MOST_FEEDS; ++i) free(batch->data[i]);
}

static double run_tokens(delta_session_t *session, delta_run_program_t program, int64_t rows, int64_t planned, int64_t length) {
  shaped_batch_t batch;
  delta_run_report_t report = {.struct_size = sizeof report};
  make_batch(session, rows, planned, length, (uint64_t)length, &batch);
  if (length != planned) add_dim(&batch, "T", length);
  delta_test_expect_ok(delta_session_run(session, program, &batch.batch, 0.1, &report), "run");
  free_batch(&batch);
  return report.loss;
}

static void open_tokens(delta_test_training_t *training, int64_t length, const char *budget) {
  const delta_dim_t dim = {.name = "T", .size = length};
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.dims = &dim;
  options.dim_count = 1;
  options.policy = "delta-fixed";
  options.budget = budget;
  delta_test_training_open(training, tokens, &options);
}

// Losses and states are those of plans for the length.
Test(session_dims, another_length_computes_what_its_own_plan_does) {
  for (int64_t length = PLANNED - 3; length <= PLANNED + 3; length += 3) {
    delta_test_training_t fed, planned;
    open_tokens(&fed, PLANNED, "unlimited");
    open_tokens(&planned, length, "unlimited");
    for (int step = 0; step < 3; ++step) {
      const delta_run_program_t program = step < 2 ? DELTA_RUN_TRAIN : DELTA_RUN_EVALUATE;
      const double found = run_tokens(fed.session, program, BATCH - step % 2, PLANNED, length);
      const double wanted = run_tokens(planned.session, program, BATCH - step % 2, length, length);
      cr_expect_float_eq(found, wanted, 1e-6, "length %d, step %d: loss %.9g, not %.9g", (int)length, step, found, wanted);
    }
    delta_test_values_t a = delta_test_read_states(fed.session, NULL), b = delta_test_read_states(planned.session, NULL);
    cr_expect_lt(delta_test_distance(&a, &b), 1e-6);
    free(a.items);
    free(b.items);
    delta_test_training_close(&fed);
    delta_test_training_close(&planned);
  }
}

// Recurring lengths in turn, at the smallest budget and without one: the same bits, nothing committed beyond the budget.
Test(session_dims, lengths_in_turn_come_to_the_same_bits_at_any_budget) {
  static const char *const budgets[] = {"unlimited", "minimum"};
  static const int64_t lengths[] = {PLANNED, 4, 7, PLANNED, 4, 9, 7};
  enum { COUNT = sizeof lengths / sizeof *lengths };
  double losses[2][COUNT];
  delta_test_values_t states[2];
  for (int k = 0; k < 2; ++k) {
    delta_test_training_t training;
    open_tokens(&training, PLANNED, budgets[k]);
    for (int i = 0; i < COUNT; ++i) losses[k][i] = run_tokens(training.session, DELTA_RUN_TRAIN, BATCH, PLANNED, lengths[i]);
    cr_expect_eq(training.session->programs.count, training.plan->program_count + 3, "one program for each length");
    cr_expect_leq(training.session->committed_bytes, training.session->budget_bytes);
    states[k] = delta_test_read_states(training.session, NULL);
    delta_test_training_close(&training);
  }
  cr_expect_eq(memcmp(losses[0], losses[1], sizeof losses[0]), 0);
  cr_expect_eq(memcmp(states[0].items, states[1].items, states[0].count * sizeof *states[0].items), 0);
  free(states[0].items);
  free(states[1].items);
}

// A length that does not fit the budget is refused, and changes nothing.
Test(session_dims, a_length_that_does_not_fit_is_refused) {
  delta_test_training_t training;
  open_tokens(&training, PLANNED, "minimum");
  delta_test_values_t before = delta_test_read_states(training.session, NULL);
  shaped_batch_t batch;
  make_batch(training.session, BATCH, PLANNED, 4000, 1, &batch);
  add_dim(&batch, "T", 4000);
  delta_test_expect_status(delta_session_run(training.session, DELTA_RUN_TRAIN, &batch.batch, 0.1, NULL), DELTA_STATUS_DOES_NOT_FIT,
                           "a batch of 6 rows, T = 4000");
  delta_test_values_t after = delta_test_read_states(training.session, NULL);
  cr_expect_eq(delta_test_distance(&before, &after), 0);
  run_tokens(training.session, DELTA_RUN_TRAIN, BATCH, PLANNED, PLANNED);
  free_batch(&batch);
  free(before.items);
  free(after.items);
  delta_test_training_close(&training);
}

Test(session_dims, programs_of_other_lengths_are_bounded) {
  delta_test_training_t training;
  open_tokens(&training, PLANNED, "unlimited");
  training.session->options.other_programs = 2;
  double first[4];
  for (int round = 0; round < 2; ++round) {
    for (int k = 0; k < 4; ++k) {
      const double loss = run_tokens(training.session, DELTA_RUN_EVALUATE, BATCH, PLANNED, 2 + k);
      if (round == 0) first[k] = loss;
      cr_expect_eq(loss, first[k]);
      cr_expect_leq(training.session->programs.count, training.plan->program_count + 2);
    }
  }
  delta_test_training_close(&training);
}

typedef struct refusal_case {
  const char *name;
  int64_t size, bytes_for;
  const char *words;
} refusal_case_t;

Test(session_dims, wrong_dimensions_are_named) {
  static const refusal_case_t cases[] = {{"S", 4, 4, "'S'|--dim S"},
                                         {NULL, 4, 4, "dimension 0|no name"},
                                         {"T", 0, 4, "'T'|0|from 1"},
                                         {"T", 4, 5, "ids|240 bytes|need 192|int64 [6, 4]"}};
  delta_test_training_t training;
  open_tokens(&training, PLANNED, "unlimited");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    shaped_batch_t batch;
    make_batch(training.session, BATCH, PLANNED, cases[i].bytes_for, 1, &batch);
    add_dim(&batch, cases[i].name, cases[i].size);
    delta_test_expect_status(delta_session_run(training.session, DELTA_RUN_TRAIN, &batch.batch, 0.1, NULL), DELTA_STATUS_INVALID_ARGUMENT,
                             cases[i].words);
    free_batch(&batch);
  }
  delta_test_training_close(&training);
}

// ---- Models of the test material, with names in place of sizes

typedef struct model_case {
  char name[16];
  int64_t planned, smaller, larger;
  char dims[2][8];
} model_case_t;

ParameterizedTestParameters(session_dims, models) {
  static model_case_t cases[] = {{"lstm", 10, 7, 15, {"dim1", ""}}, {"unet", 18, 14, 22, {"dim2", "dim3"}}};
  return cr_make_param_array(model_case_t, cases, sizeof cases / sizeof *cases);
}

static double run_model(const model_case_t *c, delta_session_t *session, int64_t planned, int64_t size, uint64_t seed) {
  shaped_batch_t batch;
  delta_run_report_t report = {.struct_size = sizeof report};
  make_batch(session, 4, planned, size, seed, &batch);
  for (int d = 0; d < 2 && size != planned; ++d) {
    if (c->dims[d][0]) add_dim(&batch, c->dims[d], size);
  }
  delta_test_expect_ok(delta_session_run(session, DELTA_RUN_TRAIN, &batch.batch, 0.01, &report), c->name);
  free_batch(&batch);
  return report.loss;
}

static void open_model(const model_case_t *c, int64_t size, const char *policy, const char *budget, delta_test_training_t *training) {
  char relative[64], path[DELTA_TEST_PATH_BYTES];
  delta_dim_t dims[2];
  delta_plan_options_t options = delta_test_plan_options(4);
  memset(training, 0, sizeof *training);
  snprintf(relative, sizeof relative, "models/%s/model.onnx", c->name);
  cr_assert(delta_test_shared_path(relative, path));
  delta_test_folder_make(&training->folder);
  delta_test_folder_path(&training->folder, "model.onnx", training->model_path);
  delta_test_free_dims(path, (int)c->planned, training->model_path);
  for (int d = 0; d < 2 && c->dims[d][0]; ++d) dims[options.dim_count++] = (delta_dim_t){.name = c->dims[d], .size = size};
  options.dims = dims;
  options.policy = policy;
  options.budget = budget;
  delta_test_expect_ok(delta_test_training_plan(training, &options, delta_allocator_system()), c->name);
  delta_test_expect_ok(delta_test_training_start(training, delta_allocator_system()), c->name);
}

// Other sizes compute the same bits at the smallest budget, and what a plan of theirs does.
ParameterizedTest(model_case_t *c, session_dims, models, .timeout = 300) {
  char path[DELTA_TEST_PATH_BYTES];
  DELTA_SKIP_WITHOUT_SHARED("models/unet", path);
  delta_test_training_t wide, tight, own;
  open_model(c, c->planned, "none", "unlimited", &wide);
  open_model(c, c->planned, "delta-fixed", "minimum", &tight);
  for (int step = 0; step < 4; ++step) {
    const int64_t size = step % 2 ? c->smaller : c->planned;
    const double wanted = run_model(c, wide.session, c->planned, size, (uint64_t)step);
    cr_expect_eq(run_model(c, tight.session, c->planned, size, (uint64_t)step), wanted, "%s: step %d", c->name, step);
  }
  delta_test_training_close(&tight);
  delta_test_training_close(&wide);
  open_model(c, c->planned, "none", "unlimited", &wide);
  open_model(c, c->larger, "none", "unlimited", &own);
  for (int step = 0; step < 2; ++step) {
    const double wanted = run_model(c, own.session, c->larger, c->larger, 77),
                 found = run_model(c, wide.session, c->planned, c->larger, 77);
    cr_expect_float_eq(found, wanted, 1e-5 * fabs(wanted), "%s: loss %.9g, not %.9g", c->name, found, wanted);
  }
  delta_test_training_close(&own);
  delta_test_training_close(&wide);
}
