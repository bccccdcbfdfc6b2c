// Training: a small model from text, planned and opened as a session, with data that a seed determines. What the tests of sessions share.
#ifndef DELTA_TESTS_SUPPORT_TRAINING_H_
#define DELTA_TESTS_SUPPORT_TRAINING_H_

#include <delta/delta.h>

#include "runtime/device.h"
#include "tests/support/model_file.h"

// Two layers of x [N, 4] to logits [N, 3].
extern const char delta_test_mlp[];
// Four layers of x [N, 32] to logits [N, 5], whose activations and states are worth moving.
extern const char delta_test_wide_mlp[];
// Convolution and batch normalization of x [N, 2, 5, 5] to logits [N, 3].
extern const char delta_test_batchnorm[];

typedef struct delta_test_training {
  delta_test_folder_t folder;
  char model_path[DELTA_TEST_PATH_BYTES];
  delta_plan_t *plan;
  delta_session_t *session;
  int verify; // of the session's options, when it is opened
} delta_test_training_t;

// Options of a plan for cross entropy at `batch` rows, one thread, no budget; change what differs.
delta_plan_options_t delta_test_plan_options(int64_t batch);

// Writes the model, plans it and opens a session with a verified arena. All parameters get values that depend on their names alone. Fails
// the running test when something does not work.
void delta_test_training_open(delta_test_training_t *training, const char *model_text, const delta_plan_options_t *options);
void delta_test_training_close(delta_test_training_t *training);
// The steps of open one by one, for tests of what they refuse.
void delta_test_training_write(delta_test_training_t *training, const char *model_text);
DELTA_MUST_USE delta_status_t delta_test_training_plan(delta_test_training_t *training, const delta_plan_options_t *options,
                                                       delta_allocator_t allocator);
DELTA_MUST_USE delta_status_t delta_test_training_start(delta_test_training_t *training, delta_allocator_t allocator);
// The same by steps that must work, for sessions with other options or devices: the model is written and planned; what the options of its session are, with estimated costs and no
// verified arena; the session is opened on a device that it takes (NULL: the plan's), and the states get their values.
void delta_test_training_prepare(delta_test_training_t *training, const char *model_text, const delta_plan_options_t *options);
delta_session_options_t delta_test_session_options(const delta_test_training_t *training);
void delta_test_training_start_on(delta_test_training_t *training, const delta_session_options_t *options, delta_device_t *device);

// Gives every parameter its values again, and every other state the one it began with.
void delta_test_reset_states(delta_session_t *session);

// Samples number first, first + 1, ... of endless data for a session's inputs: floats are about [-1, 1], integers within their range.
enum { DELTA_TEST_MOST_FEEDS = 4 };
typedef struct delta_test_batch {
  delta_batch_t batch; // feeds point below
  delta_feed_t feeds[DELTA_TEST_MOST_FEEDS];
  void *data[DELTA_TEST_MOST_FEEDS]; // Owned.
} delta_test_batch_t;
void delta_test_batch_make(const delta_session_t *session, int64_t first, int64_t rows, delta_test_batch_t *batch);
void delta_test_batch_free(delta_test_batch_t *batch);
void *delta_test_batch_find(delta_test_batch_t *batch, const char *name);

// Runs a program on such samples.
DELTA_MUST_USE delta_status_t delta_test_try_run(delta_session_t *session, delta_run_program_t program, int64_t first, int64_t rows,
                                                 double rate, delta_run_report_t *out_report);
// The same; fails the running test when it does not work.
delta_run_report_t delta_test_run(delta_session_t *session, delta_run_program_t program, int64_t first, int64_t rows, double rate);

// All states, one after another; the caller frees. Kinds other than `kind` are left out unless it is NULL.
typedef struct delta_test_values {
  double *items;
  size_t count;
} delta_test_values_t;
delta_test_values_t delta_test_read_states(delta_session_t *session, const char *kind);
delta_test_values_t delta_test_read_state(delta_session_t *session, const char *name);
// Largest difference of two lists of one length; infinite when a value is not a number.
double delta_test_distance(const delta_test_values_t *a, const delta_test_values_t *b);

// Expects a status of a code whose message has all `words` (tests/support/words.h), and frees it.
void delta_test_expect_status(delta_status_t status, delta_status_code_t code, const char *words);
// Expects success.
void delta_test_expect_ok(delta_status_t status, const char *what);

#endif // DELTA_TESTS_SUPPORT_TRAINING_H_
