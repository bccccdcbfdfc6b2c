// Checkpoints: a session that is restored goes on to the last bit as the one that was saved; what does not fit or is damaged is refused by name and changes nothing.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "runtime/checkpoint_folder.h"
#include "tests/support/training.h"

enum { BATCH = 8, BEFORE = 3, AFTER = 3 };
static const double rate = 0.05;

static const delta_training_position_t sample_position = {.struct_size = sizeof sample_position,
                                                          .step = BEFORE,
                                                          .epoch = 1,
                                                          .epoch_samples = 16,
                                                          .data_samples = 24,
                                                          .seed = UINT64_MAX,
                                                          .shuffle = 1,
                                                          .schedule = "cosine \"from\" 0.1"};

static void train(delta_session_t *session, int first, int count) {
  for (int i = first; i < first + count; ++i) delta_test_run(session, DELTA_RUN_TRAIN, i * BATCH, BATCH, rate);
}

static void expect_equal_states(delta_session_t *a, delta_session_t *b, const char *name) {
  delta_test_values_t left = delta_test_read_states(a, NULL), right = delta_test_read_states(b, NULL);
  cr_expect_eq(left.count, right.count);
  cr_expect(left.count == right.count && memcmp(left.items, right.items, left.count * sizeof *left.items) == 0, "%s: states differ", name);
  free(left.items);
  free(right.items);
}

typedef struct resume_case {
  char name[24];
  bool has_batchnorm;
  char optimizer[12];
  char budget[12]; // of the session that saves; the other has none
} resume_case_t;

ParameterizedTestParameters(checkpoint, restored_sessions_go_on_bit_by_bit) {
  static resume_case_t cases[] = {
      {"sgd", false, "sgd", "unlimited"},         {"adamw", false, "adamw", "unlimited"}, {"batchnorm", true, "sgd", "unlimited"},
      {"states below", false, "adam", "minimum"}, {"lamb", true, "lamb", "minimum"},
  };
  return cr_make_param_array(resume_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(resume_case_t *c, checkpoint, restored_sessions_go_on_bit_by_bit) {
  delta_test_training_t saved, restored;
  char path[DELTA_TEST_PATH_BYTES];
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.optimizer = c->optimizer;
  options.budget = c->budget;
  const char *model = c->has_batchnorm ? delta_test_batchnorm : delta_test_mlp;
  delta_test_training_open(&saved, model, &options);
  options.budget = "unlimited";
  delta_test_training_open(&restored, model, &options);
  train(saved.session, 0, BEFORE);
  delta_test_folder_path(&saved.folder, "c.safetensors", path);
  delta_test_expect_ok(delta_session_save(saved.session, path, &sample_position), "save");
  delta_training_position_t position = {.struct_size = sizeof position};
  delta_test_expect_ok(delta_session_restore(restored.session, path, &position), "restore");
  cr_expect_eq(memcmp(&position, &sample_position, sizeof position), 0, "the position is another");
  expect_equal_states(saved.session, restored.session, c->name);
  train(saved.session, BEFORE, AFTER);
  train(restored.session, BEFORE, AFTER);
  expect_equal_states(saved.session, restored.session, c->name);
  delta_test_training_close(&saved);
  delta_test_training_close(&restored);
}

// --- what is refused

typedef struct mismatch_case {
  char name[24];
  bool has_batchnorm; // of the session that restores; the other has the mlp and sgd with momentum
  char optimizer[12];
  double momentum;
  char freeze[8];
  char words[64];
} mismatch_case_t;

ParameterizedTestParameters(checkpoint, what_does_not_fit_is_refused) {
  static mismatch_case_t cases[] = {
      {"another model", true, "sgd", 0.9, "", "another model"},
      {"another optimizer", false, "adam", 0, "", "sgd|adam"},
      {"no momentum", false, "sgd", 0, "", "momentum"},
      {"frozen weight", false, "sgd", 0.9, "w1", "'w1'|frozen"},
  };
  return cr_make_param_array(mismatch_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(mismatch_case_t *c, checkpoint, what_does_not_fit_is_refused) {
  delta_test_training_t saved, other, untouched;
  char path[DELTA_TEST_PATH_BYTES];
  const char *freeze[] = {c->freeze};
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.momentum = 0.9;
  delta_test_training_open(&saved, delta_test_mlp, &options);
  train(saved.session, 0, 1);
  delta_test_folder_path(&saved.folder, "c.safetensors", path);
  delta_test_expect_ok(delta_session_save(saved.session, path, &sample_position), "save");
  options.optimizer = c->optimizer;
  options.momentum = c->momentum;
  if (*c->freeze) {
    options.freeze = freeze;
    options.freeze_count = 1;
  }
  delta_test_training_open(&other, c->has_batchnorm ? delta_test_batchnorm : delta_test_mlp, &options);
  delta_test_training_open(&untouched, c->has_batchnorm ? delta_test_batchnorm : delta_test_mlp, &options);
  delta_training_position_t position = {.struct_size = sizeof position};
  delta_test_expect_status(delta_session_restore(other.session, path, &position), DELTA_STATUS_MISMATCH, c->words);
  expect_equal_states(other.session, untouched.session, c->name);
  delta_test_training_close(&saved);
  delta_test_training_close(&other);
  delta_test_training_close(&untouched);
}

// Wherever a byte of a checkpoint changes, it is found, and the session stays as it was. Changes of padding are none.
Test(checkpoint, damage_is_found) {
  delta_test_training_t saved, other, untouched;
  char path[DELTA_TEST_PATH_BYTES], *data = NULL;
  size_t size_bytes = 0, found = 0;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.momentum = 0.9;
  delta_test_training_open(&saved, delta_test_mlp, &options);
  delta_test_training_open(&other, delta_test_mlp, &options);
  delta_test_training_open(&untouched, delta_test_mlp, &options);
  train(saved.session, 0, BEFORE);
  delta_test_folder_path(&saved.folder, "c.safetensors", path);
  delta_test_expect_ok(delta_session_save(saved.session, path, &sample_position), "save");
  delta_test_expect_ok(delta_file_read_all(path, 1 << 20, delta_allocator_system(), &data, &size_bytes), "read");
  for (size_t i = 0; i < size_bytes; ++i) {
    const char before = data[i];
    if (before == ' ') continue;
    data[i] ^= 1 << i % 7;
    delta_test_folder_write(&saved.folder, "c.safetensors", data, size_bytes);
    data[i] = before;
    delta_training_position_t position = {.struct_size = sizeof position};
    delta_status_t status = delta_session_restore(other.session, path, &position);
    cr_expect(status && strstr(delta_status_message(status), "c.safetensors"), "byte %zu of %zu", i, size_bytes);
    found += status != NULL;
    delta_status_free(status);
  }
  cr_expect_gt(found, 1000);
  expect_equal_states(other.session, untouched.session, "after refused checkpoints");
  delta_release(delta_allocator_system(), data);
  delta_test_training_close(&saved);
  delta_test_training_close(&other);
  delta_test_training_close(&untouched);
}

// --- the folder

static size_t count_kept(const delta_checkpoint_folder_t *folder, const int64_t *steps, size_t count) {
  size_t kept = 0;
  char path[DELTA_TEST_PATH_BYTES];
  for (size_t i = 0; i < count; ++i) {
    snprintf(path, sizeof path, "%s/step-%012lld.safetensors", folder->path, (long long)steps[i]);
    kept += access(path, F_OK) == 0;
  }
  return kept;
}

Test(checkpoint, folder_keeps_the_newest_and_is_one_training_s) {
  static const int64_t steps[] = {5, 10, 999999999999};
  delta_test_training_t training;
  char path[DELTA_TEST_PATH_BYTES], leftover[DELTA_TEST_PATH_BYTES];
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_checkpoint_folder_t folder, second;
  delta_test_training_open(&training, delta_test_mlp, &options);
  delta_test_folder_path(&training.folder, "ck", path);
  delta_test_expect_ok(delta_checkpoint_folder_open(path, 2, delta_allocator_system(), &folder), "open");
  cr_expect_null(folder.last_path);
  delta_test_expect_status(delta_checkpoint_folder_open(path, 2, delta_allocator_system(), &second), DELTA_STATUS_INVALID_ARGUMENT,
                           "ck|another training");
  for (size_t i = 0; i < 3; ++i) {
    delta_training_position_t position = sample_position;
    position.step = steps[i];
    delta_test_expect_ok(delta_checkpoint_folder_save(&folder, training.session, &position), "save");
  }
  cr_expect_eq(count_kept(&folder, steps, 3), 2);
  cr_expect_eq(count_kept(&folder, steps, 1), 0, "the oldest goes");
  delta_checkpoint_folder_close(&folder);
  // A file of a killed process goes, others stay.
  delta_test_folder_path(&training.folder, "ck/step-000000000011.safetensors.tmp-77-0", leftover);
  close(open(leftover, O_CREAT | O_WRONLY, 0666));
  delta_test_expect_ok(delta_checkpoint_folder_open(path, 2, delta_allocator_system(), &folder), "open again");
  cr_expect_neq(access(leftover, F_OK), 0);
  cr_expect(strstr(folder.last_path, "999999999999"), "%s", folder.last_path);
  delta_checkpoint_folder_close(&folder);
  delta_test_training_close(&training);
}

// A failed save leaves the last checkpoint as it was.
Test(checkpoint, failed_save_changes_nothing) {
  delta_test_training_t training;
  char path[DELTA_TEST_PATH_BYTES];
  float weights[24];
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_checkpoint_folder_t folder;
  delta_test_training_open(&training, delta_test_mlp, &options);
  delta_test_folder_path(&training.folder, "ck", path);
  delta_test_expect_ok(delta_checkpoint_folder_open(path, 1, delta_allocator_system(), &folder), "open");
  delta_training_position_t position = sample_position;
  delta_test_expect_ok(delta_checkpoint_folder_save(&folder, training.session, &position), "save");
  delta_test_expect_ok(delta_session_read(training.session, "w1", weights, sizeof weights), "read");
  weights[5] = 1e30f * 1e30f;
  delta_test_expect_ok(delta_session_write(training.session, "w1", weights, sizeof weights), "write");
  ++position.step;
  delta_test_expect_status(delta_checkpoint_folder_save(&folder, training.session, &position), DELTA_STATUS_NOT_A_NUMBER, "'w1'");
  cr_expect(strstr(folder.last_path, "000000000003"), "%s", folder.last_path);
  weights[5] = 0;
  delta_test_expect_ok(delta_session_write(training.session, "w1", weights, sizeof weights), "write");
  delta_test_expect_ok(delta_session_restore(training.session, folder.last_path, &position), "the last one is whole");
  delta_checkpoint_folder_close(&folder);
  delta_test_training_close(&training);
}

typedef struct fault_case {
  char name[24];
  delta_test_failure_t failure;
} fault_case_t;

ParameterizedTestParameters(checkpoint, failed_allocations) {
  static fault_case_t cases[] = {{"once", DELTA_TEST_FAIL_ONCE}, {"from then on", DELTA_TEST_FAIL_FROM_THEN_ON}};
  return cr_make_param_array(fault_case_t, cases, sizeof cases / sizeof *cases);
}

static delta_status_t save_and_restore(delta_session_t *session, const char *path, delta_allocator_t allocator) {
  delta_checkpoint_folder_t folder = {.descriptor = -1};
  delta_training_position_t position = sample_position;
  delta_status_t status = delta_checkpoint_folder_open(path, 1, allocator, &folder);
  if (!status) status = delta_checkpoint_folder_save(&folder, session, &position);
  if (!status) status = delta_session_restore(session, folder.last_path, &position);
  delta_checkpoint_folder_close(&folder);
  return status;
}

ParameterizedTest(fault_case_t *c, checkpoint, failed_allocations) {
  delta_test_training_t training;
  delta_test_allocator_t faults;
  char path[DELTA_TEST_PATH_BYTES];
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  delta_test_allocator_init(&faults, 0, c->failure);
  delta_test_training_write(&training, delta_test_mlp);
  training.plan = NULL;
  training.session = NULL;
  delta_test_expect_ok(delta_test_training_plan(&training, &options, delta_allocator_system()), "plan");
  delta_test_expect_ok(delta_test_training_start(&training, delta_test_allocator_interface(&faults)), "start");
  delta_test_folder_path(&training.folder, "ck", path);
  const size_t live_bytes = faults.live_bytes;
  bool succeeded = false;
  for (size_t n = 1; !succeeded; ++n) {
    faults.fail_at = faults.call_count + n;
    const size_t last = faults.fail_at;
    delta_status_t status = save_and_restore(training.session, path, delta_test_allocator_interface(&faults));
    succeeded = faults.call_count < last;
    cr_assert(succeeded ? !status : !status || delta_status_code(status) == DELTA_STATUS_OUT_OF_MEMORY, "%s: call %zu: %s", c->name, n,
              delta_status_message(status));
    delta_status_free(status);
    faults.fail_at = 0;
    cr_assert_eq(faults.live_bytes, live_bytes, "%s: call %zu leaks", c->name, n);
  }
  delta_test_training_close(&training);
}
