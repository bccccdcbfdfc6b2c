#include "tests/support/training.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/random.h"
#include "runtime/session_parts.h"
#include "tests/support/model_write.h"
#include "tests/support/words.h"

const char delta_test_mlp[] =
    "input x float32 [N,4]\n"
    "init w1 float32 [4,6] 0\n"
    "init b1 float32 [6] 0\n"
    "init w2 float32 [6,3] 0\n"
    "init b2 float32 [3] 0\n"
    "node MatMul x w1 -> a\n"
    "node Add a b1 -> b\n"
    "node Tanh b -> c\n"
    "node MatMul c w2 -> d\n"
    "node Add d b2 -> logits\n"
    "output logits\n";

const char delta_test_wide_mlp[] =
    "input x float32 [N,32]\n"
    "init w1 float32 [32,64] 0\n"
    "init w2 float32 [64,64] 0\n"
    "init w3 float32 [64,64] 0\n"
    "init w4 float32 [64,5] 0\n"
    "node MatMul x w1 -> a1\n"
    "node Tanh a1 -> h1\n"
    "node MatMul h1 w2 -> a2\n"
    "node Sigmoid a2 -> h2\n"
    "node MatMul h2 w3 -> a3\n"
    "node Tanh a3 -> h3\n"
    "node MatMul h3 w4 -> logits\n"
    "output logits\n";

const char delta_test_batchnorm[] =
    "opset 15\n"
    "input x float32 [N,2,5,5]\n"
    "init conv.w float32 [3,2,3,3] 0\n"
    "init bn.scale float32 [3] 0\n"
    "init bn.bias float32 [3] 0\n"
    "init bn.mean float32 [3] 0.25\n"
    "init bn.var float32 [3] 2\n"
    "node Conv x conv.w -> c : pads=[1,1,1,1] kernel_shape=[3,3]\n"
    "node BatchNormalization c bn.scale bn.bias bn.mean bn.var -> n mean var : training_mode=1 momentum=0.75\n"
    "node Relu n -> r\n"
    "node GlobalAveragePool r -> p\n"
    "node Flatten p -> logits\n"
    "output logits\n";

void delta_test_expect_ok(delta_status_t status, const char *what) { cr_assert_null(status, "%s: %s", what, delta_status_message(status)); }

void delta_test_expect_status(delta_status_t status, delta_status_code_t code, const char *words) {
  cr_expect_eq(delta_status_code(status), code, "wanted '%s', got '%s': %s", delta_status_code_text(code),
               delta_status_code_text(delta_status_code(status)), delta_status_message(status));
  cr_expect(delta_words_all(delta_status_message(status), words), "not all of '%s' are in: %s", words, delta_status_message(status));
  delta_status_free(status);
}

delta_plan_options_t delta_test_plan_options(int64_t batch) {
  delta_plan_options_t options;
  delta_plan_options_init(&options);
  options.profile = "estimate";
  options.batch = batch;
  options.loss = "cross_entropy";
  options.threads = 1;
  options.budget = "unlimited";
  options.time_limit_seconds = 0.5; // enough for small models, where a policy searches
  return options;
}

void delta_test_training_write(delta_test_training_t *training, const char *model_text) {
  *training = (delta_test_training_t){0};
  delta_test_folder_make(&training->folder);
  delta_test_folder_path(&training->folder, "model.onnx", training->model_path);
  delta_test_write_model(model_text, training->model_path);
}

delta_status_t delta_test_training_plan(delta_test_training_t *training, const delta_plan_options_t *options, delta_allocator_t allocator) {
  delta_plan_options_t own = *options;
  own.model_path = training->model_path;
  return delta_plan_create(&own, allocator, &training->plan, NULL);
}

delta_status_t delta_test_training_start(delta_test_training_t *training, delta_allocator_t allocator) {
  delta_session_options_t options = delta_test_session_options(training);
  options.verify_arena = 1;
  options.verify = training->verify;
  return delta_session_create(&options, allocator, &training->session);
}

void delta_test_training_prepare(delta_test_training_t *training, const char *model_text, const delta_plan_options_t *options) {
  delta_test_training_write(training, model_text);
  delta_test_expect_ok(delta_test_training_plan(training, options, delta_allocator_system()), "plan");
}

delta_session_options_t delta_test_session_options(const delta_test_training_t *training) {
  delta_session_options_t options;
  delta_session_options_init(&options);
  options.plan = training->plan;
  options.model_path = training->model_path;
  options.estimate_costs = 1;
  return options;
}

void delta_test_training_start_on(delta_test_training_t *training, const delta_session_options_t *options, delta_device_t *device) {
  const delta_allocator_t allocator = delta_allocator_system();
  delta_test_expect_ok(device ? delta_session_create_on(options, device, allocator, &training->session)
                              : delta_session_create(options, allocator, &training->session),
                       "session");
  delta_test_reset_states(training->session);
}

void delta_test_training_open(delta_test_training_t *training, const char *model_text, const delta_plan_options_t *options) {
  delta_test_training_prepare(training, model_text, options);
  delta_test_expect_ok(delta_test_training_start(training, delta_allocator_system()), "session");
  delta_test_reset_states(training->session);
}

void delta_test_training_close(delta_test_training_t *training) {
  delta_session_destroy(training->session);
  delta_plan_free(training->plan);
  delta_test_folder_remove(&training->folder);
}

static delta_dtype_t dtype_of(const char *name) {
  for (int i = 0; i < DELTA_DTYPE_COUNT; ++i) {
    if (strcmp(delta_dtype_name((delta_dtype_t)i), name) == 0) return (delta_dtype_t)i;
  }
  cr_assert_fail("no dtype '%s'", name);
  return DELTA_DTYPE_COUNT;
}

// In [-1, 1), by a name and an index.
static double value_at(const char *name, uint64_t index) {
  uint64_t stream = 14695981039346656037u;
  for (const char *at = name; *at; ++at) stream = (stream ^ (unsigned char)*at) * 1099511628211u;
  return 2.0 * delta_random_uniform(delta_random_word(delta_random_key(7, 0, stream), index)) - 1.0;
}

static void *allocate_or_fail(size_t size_bytes) {
  void *pointer = malloc(size_bytes + 1);
  cr_assert_not_null(pointer);
  return pointer;
}

// Parameters are random; a variance begins above zero, so that is kept apart from the means; moments, accumulators and counters are zero.
void delta_test_reset_states(delta_session_t *session) {
  for (size_t i = 0; i < delta_session_state_count(session); ++i) {
    delta_state_info_t info;
    delta_test_expect_ok(delta_session_state(session, i, &info), "state");
    delta_dtype_t dtype = dtype_of(info.dtype);
    void *data = allocate_or_fail(info.size_bytes);
    bool is_parameter = strcmp(info.kind, "parameter") == 0, is_statistic = strcmp(info.kind, "statistic") == 0;
    for (size_t k = 0; k < info.size_bytes / delta_dtype_bytes(dtype); ++k) {
      double random = value_at(info.name, k);
      delta_element_store_double(data, dtype, k, is_parameter ? random : is_statistic ? random + 2.0 : 0.0);
    }
    delta_test_expect_ok(delta_session_write(session, info.name, data, info.size_bytes), info.name);
    free(data);
  }
}

static void fill_input(const delta_input_info_t *info, int64_t first, int64_t rows, void *data, size_t row_elements) {
  delta_dtype_t dtype = dtype_of(info->dtype);
  double range = info->maximum > info->minimum ? (double)(info->maximum - info->minimum) : 2.0;
  for (size_t i = 0; i < (size_t)rows * row_elements; ++i) {
    double random = value_at(info->name, (uint64_t)first * row_elements + i);
    if (!delta_dtype_is_float(dtype)) random = floor((random + 1.0) / 2.0 * range) + (double)info->minimum;
    delta_element_store_double(data, dtype, i, random);
  }
}

void delta_test_batch_make(const delta_session_t *session, int64_t first, int64_t rows, delta_test_batch_t *batch) {
  *batch = (delta_test_batch_t){0};
  size_t count = delta_session_input_count(session);
  cr_assert_leq(count, DELTA_TEST_MOST_FEEDS);
  for (size_t i = 0; i < count; ++i) {
    delta_input_info_t info;
    delta_test_expect_ok(delta_session_input(session, i, &info), "input");
    size_t row_elements = 1;
    for (int d = 1; d < info.rank; ++d) row_elements *= (size_t)info.dims[d];
    size_t size_bytes = (size_t)rows * row_elements * delta_dtype_bytes(dtype_of(info.dtype));
    batch->data[i] = allocate_or_fail(size_bytes);
    fill_input(&info, first, rows, batch->data[i], row_elements);
    batch->feeds[i] = (delta_feed_t){.name = info.name, .data = batch->data[i], .size_bytes = size_bytes};
  }
  batch->batch = (delta_batch_t){.rows = rows, .feeds = batch->feeds, .feed_count = count};
}

void delta_test_batch_free(delta_test_batch_t *batch) {
  for (size_t i = 0; i < DELTA_TEST_MOST_FEEDS; ++i) free(batch->data[i]);
}

void *delta_test_batch_find(delta_test_batch_t *batch, const char *name) {
  for (size_t i = 0; i < batch->batch.feed_count; ++i) {
    if (strcmp(batch->feeds[i].name, name) == 0) return batch->data[i];
  }
  cr_assert_fail("no input '%s'", name);
  return NULL;
}

delta_status_t delta_test_try_run(delta_session_t *session, delta_run_program_t program, int64_t first, int64_t rows, double rate,
                                  delta_run_report_t *out_report) {
  delta_test_batch_t batch;
  delta_test_batch_make(session, first, rows, &batch);
  *out_report = (delta_run_report_t){.struct_size = sizeof *out_report};
  delta_status_t status = delta_session_run(session, program, &batch.batch, rate, out_report);
  delta_test_batch_free(&batch);
  return status;
}

delta_run_report_t delta_test_run(delta_session_t *session, delta_run_program_t program, int64_t first, int64_t rows, double rate) {
  delta_run_report_t report;
  delta_test_expect_ok(delta_test_try_run(session, program, first, rows, rate, &report), "run");
  return report;
}

static void append_state(delta_session_t *session, const delta_state_info_t *info, delta_test_values_t *values) {
  delta_dtype_t dtype = dtype_of(info->dtype);
  size_t count = info->size_bytes / delta_dtype_bytes(dtype);
  void *data = allocate_or_fail(info->size_bytes);
  delta_test_expect_ok(delta_session_read(session, info->name, data, info->size_bytes), info->name);
  values->items = realloc(values->items, (values->count + count + 1) * sizeof *values->items);
  cr_assert_not_null(values->items);
  for (size_t i = 0; i < count; ++i) values->items[values->count++] = delta_element_load_double(data, dtype, i);
  free(data);
}

delta_test_values_t delta_test_read_states(delta_session_t *session, const char *kind) {
  delta_test_values_t values = {0};
  for (size_t i = 0; i < delta_session_state_count(session); ++i) {
    delta_state_info_t info;
    delta_test_expect_ok(delta_session_state(session, i, &info), "state");
    if (!kind || strcmp(kind, info.kind) == 0) append_state(session, &info, &values);
  }
  return values;
}

delta_test_values_t delta_test_read_state(delta_session_t *session, const char *name) {
  delta_test_values_t values = {0};
  for (size_t i = 0; i < delta_session_state_count(session); ++i) {
    delta_state_info_t info;
    delta_test_expect_ok(delta_session_state(session, i, &info), "state");
    if (strcmp(name, info.name) == 0) append_state(session, &info, &values);
  }
  cr_assert_gt(values.count, 0, "no state '%s'", name);
  return values;
}

double delta_test_distance(const delta_test_values_t *a, const delta_test_values_t *b) {
  cr_assert_eq(a->count, b->count);
  double distance = 0;
  for (size_t i = 0; i < a->count; ++i) {
    double difference = fabs(a->items[i] - b->items[i]);
    if (isnan(difference)) return INFINITY;
    if (difference > distance) distance = difference;
  }
  return distance;
}
