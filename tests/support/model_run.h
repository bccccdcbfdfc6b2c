// Models of a folder, trained with data that a seed determines: what the programs that walk a collection share. Needs no test framework.
#ifndef DELTA_TESTS_SUPPORT_MODEL_RUN_H_
#define DELTA_TESTS_SUPPORT_MODEL_RUN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <delta/delta.h>

enum { DELTA_TEST_MODEL_PATH_BYTES = 1024, DELTA_TEST_MODEL_NAME_BYTES = 256 };

typedef struct delta_test_model {
  char path[DELTA_TEST_MODEL_PATH_BYTES], about_path[DELTA_TEST_MODEL_PATH_BYTES], name[DELTA_TEST_MODEL_NAME_BYTES];
} delta_test_model_t;

// How a model is trained.
typedef struct delta_test_model_run {
  const delta_test_model_t *model;
  const char *optimizer;
  const char *device; // NULL: the CPU, with measured costs; on others costs are estimated
  int threads;
  int64_t batch; // 0: that of about.json, or 8
  char loss[DELTA_TEST_MODEL_NAME_BYTES];
  int64_t class_axis, ignore_index;
  const char *policy;        // of the budgets; for those who look at it
  double time_limit_seconds; // of each plan's search; 0: the default
} delta_test_model_run_t;

// Appends the models of a folder to a list of `count`; returns the new count, at most `most`. FOLDER has a folder per model with model.onnx and perhaps about.json,
// which names the loss; or .onnx files, which train by cross entropy. Sorted by name.
size_t delta_test_list_models(const char *folder, delta_test_model_t *models, size_t count, size_t most);
// Whether a name is in a list with commas; in no list (NULL) every name is.
bool delta_test_is_listed(const char *list, const char *name);
// Loss and batch of about.json; without the file, cross entropy.
delta_status_t delta_test_read_about(delta_test_model_run_t *run);
delta_plan_options_t delta_test_model_plan_options(const delta_test_model_run_t *run, const char *policy, const char *budget);

// Runs a program on data that a seed determines.
delta_status_t delta_test_run_seeded(delta_session_t *session, delta_run_program_t program, int64_t rows, uint64_t seed,
                                     delta_run_report_t *out_report);
// The same; `feeding` is called when the data has been written. NULL: nothing is.
delta_status_t delta_test_run_seeded_with(delta_session_t *session, delta_run_program_t program, int64_t rows, uint64_t seed,
                                          delta_status_t (*feeding)(void *self), void *self, delta_run_report_t *out_report);
// All states, one after another; the caller frees *out_states.
delta_status_t delta_test_read_all_states(delta_session_t *session, uint8_t **out_states, size_t *out_size_bytes);

// A number that `state` determines, which moves on.
uint64_t delta_test_next_bits(uint64_t *state);

#endif // DELTA_TESTS_SUPPORT_MODEL_RUN_H_
