// Embedding: sessions in a program with threads: cancelling, two at once, many in a row; parameters, gradients and properties as a program handles them; models and checkpoints from memory.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/session_parts.h"
#include "tests/support/faulty_device.h"
#include "tests/support/sanitized.h"
#include "tests/support/training.h"

enum { BATCH = 24, STEPS = 4 };

// What a training comes to.
typedef struct outcome {
  double losses[STEPS];
  delta_test_values_t states;
} outcome_t;

static void expect_equal(const outcome_t *wanted, const outcome_t *found, const char *what) {
  cr_expect_eq(memcmp(wanted->losses, found->losses, sizeof wanted->losses), 0, "%s: losses differ", what);
  cr_assert_eq(wanted->states.count, found->states.count);
  cr_expect_eq(memcmp(wanted->states.items, found->states.items, wanted->states.count * sizeof *wanted->states.items), 0,
               "%s: states differ", what);
}

static delta_plan_options_t swapping_options(void) {
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.policy = "delta-fixed";
  options.budget = "60%";
  options.optimizer = "adamw";
  return options;
}

static delta_status_t run_step(delta_session_t *session, int step, double *out_loss) {
  delta_run_report_t report;
  delta_status_t status = delta_test_try_run(session, DELTA_RUN_TRAIN, 100 * step, BATCH, 0.05, &report);
  *out_loss = report.loss;
  return status;
}

// ---- Cancelling

// Another thread that cancels when an operator tells it to, while that operator waits.
typedef struct canceller {
  delta_session_t *session;
  pthread_t thread;
  sem_t begins, done;
  uint32_t launch;
  bool changes_budget; // amid every step: what is left of it is then changed
  bool ends;
} canceller_t;

static void *cancel_when_told(void *self) {
  canceller_t *canceller = self;
  while (true) {
    sem_wait(&canceller->begins);
    if (canceller->ends) return NULL;
    delta_session_cancel(canceller->session);
    sem_post(&canceller->done);
  }
}

static void on_launch(void *self, uint32_t number) {
  canceller_t *canceller = self;
  if (canceller->changes_budget && number % 11 == 4) {
    delta_test_expect_ok(delta_session_set_budget(canceller->session, number % 22 == 4 ? "75%" : "60%"), "budget");
  }
  if (number != canceller->launch) return;
  sem_post(&canceller->begins);
  sem_wait(&canceller->done);
}

static void start_cancellable(delta_test_training_t *training, delta_test_faults_t *faults) {
  const delta_plan_options_t plan_options = swapping_options();
  delta_device_t *device = NULL;
  delta_test_training_prepare(training, delta_test_wide_mlp, &plan_options);
  const delta_session_options_t options = delta_test_session_options(training);
  delta_test_expect_ok(delta_test_faulty_device_open(faults, &device), "device");
  delta_test_training_start_on(training, &options, device);
}

static outcome_t train_undisturbed(const char *model_text, const delta_plan_options_t *options) {
  outcome_t outcome;
  delta_test_training_t training;
  delta_test_training_open(&training, model_text, options);
  for (int step = 0; step < STEPS; ++step) delta_test_expect_ok(run_step(training.session, step, &outcome.losses[step]), "step");
  outcome.states = delta_test_read_states(training.session, NULL);
  delta_test_training_close(&training);
  return outcome;
}

// Whichever operator runs when another thread cancels, a run is made or not made, and the training that goes on comes to the same bits.
ParameterizedTestParameters(embedding, a_run_is_cancelled_as_a_whole) {
  static bool changes_budget[] = {false, true};
  return cr_make_param_array(bool, changes_budget, 2);
}

ParameterizedTest(bool *changes_budget, embedding, a_run_is_cancelled_as_a_whole, .timeout = 120) {
  const delta_plan_options_t plan_options = swapping_options();
  outcome_t wanted = train_undisturbed(delta_test_wide_mlp, &plan_options), found;
  delta_test_faults_t faults = DELTA_TEST_NO_FAULT;
  delta_test_training_t training;
  canceller_t canceller = {.launch = UINT32_MAX, .changes_budget = *changes_budget};
  uint32_t early = 0, late = 0;
  start_cancellable(&training, &faults);
  canceller.session = training.session;
  faults.on_launch = on_launch;
  faults.self = &canceller;
  sem_init(&canceller.begins, 0, 0);
  sem_init(&canceller.done, 0, 0);
  cr_assert_eq(pthread_create(&canceller.thread, NULL, cancel_when_told, &canceller), 0);
  const uint32_t launches = training.plan->programs[0].schedule->step_count;
  for (uint32_t launch = 0; launch < launches; ++launch) {
    delta_test_reset_states(training.session);
    faults.launches = 0;
    canceller.launch = launch;
    for (int step = 0; step < STEPS; ++step) {
      delta_status_t status = run_step(training.session, step, &found.losses[step]);
      canceller.launch = UINT32_MAX;
      if (!status) continue;
      cr_expect_eq(delta_status_code(status), DELTA_STATUS_INTERRUPTED, "%s", delta_status_message(status));
      delta_status_free(status);
      ++*(step == 0 ? &early : &late);
      --step;
    }
    found.states = delta_test_read_states(training.session, NULL);
    expect_equal(&wanted, &found, "cancelled");
    free(found.states.items);
  }
  cr_expect_gt(early, 2, "runs that stopped before they changed a state");
  cr_expect_gt(late, 2, "runs that went on, and the next one ended");
  canceller.ends = true;
  sem_post(&canceller.begins);
  pthread_join(canceller.thread, NULL);
  free(wanted.states.items);
  delta_test_training_close(&training);
}

static delta_status_t cancel_at_second_step(void *self, const delta_train_step_t *step) {
  if (step->step == 2) delta_session_cancel(self);
  return DELTA_OK;
}

Test(embedding, a_training_loop_is_cancelled_between_updates) {
  delta_test_training_t training;
  const delta_plan_options_t plan_options = delta_test_plan_options(4);
  delta_train_options_t options;
  delta_train_result_t result = {.struct_size = sizeof result};
  delta_test_training_open(&training, delta_test_mlp, &plan_options);
  delta_train_options_init(&options);
  options.data = "synthetic:samples=64";
  options.epochs = 1;
  options.on_step = cancel_at_second_step;
  options.self = training.session;
  delta_test_expect_status(delta_session_train(training.session, &options, &result), DELTA_STATUS_INTERRUPTED, "step 3|cancelled");
  cr_expect_eq(result.steps, 2);
  options.on_step = NULL;
  delta_test_expect_ok(delta_session_train(training.session, &options, &result), "again");
  cr_expect_eq(result.steps, 16);
  delta_test_training_close(&training);
}

// ---- Two at once

typedef struct worker {
  delta_session_t *session;
  pthread_t thread;
  outcome_t outcome;
  delta_status_t status;
} worker_t;

static void *work(void *self) {
  worker_t *worker = self;
  for (int step = 0; step < STEPS && !worker->status; ++step)
    worker->status = run_step(worker->session, step, &worker->outcome.losses[step]);
  return NULL;
}

typedef struct pair_case {
  char name[24];
  bool has_threads;
  bool shares_model; // the same model in both
} pair_case_t;

ParameterizedTestParameters(embedding, two_sessions_do_not_disturb_each_other) {
  static pair_case_t cases[] = {{"in two threads", true, false},
                                {"interleaved", false, false},
                                {"one model, threads", true, true},
                                {"one model, interleaved", false, true}};
  return cr_make_param_array(pair_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(pair_case_t *c, embedding, two_sessions_do_not_disturb_each_other) {
  delta_plan_options_t options[2] = {swapping_options(), delta_test_plan_options(BATCH)};
  const char *const texts[2] = {delta_test_wide_mlp, c->shares_model ? delta_test_wide_mlp : delta_test_batchnorm};
  delta_test_training_t trainings[2];
  worker_t workers[2] = {{0}};
  outcome_t wanted[2];
  options[1].threads = 2;
  options[1].momentum = 0.9;
  for (int k = 0; k < 2; ++k) {
    wanted[k] = train_undisturbed(texts[k], &options[k]);
    delta_test_training_open(&trainings[k], texts[k], &options[k]);
    workers[k].session = trainings[k].session;
  }
  for (int k = 0; k < 2 && c->has_threads; ++k) cr_assert_eq(pthread_create(&workers[k].thread, NULL, work, &workers[k]), 0);
  for (int k = 0; k < 2 && c->has_threads; ++k) pthread_join(workers[k].thread, NULL);
  for (int i = 0; i < 2 * STEPS && !c->has_threads; ++i) {
    delta_test_expect_ok(run_step(workers[i % 2].session, i / 2, &workers[i % 2].outcome.losses[i / 2]), c->name);
  }
  for (int k = 0; k < 2; ++k) {
    delta_test_expect_ok(workers[k].status, c->name);
    workers[k].outcome.states = delta_test_read_states(trainings[k].session, NULL);
    expect_equal(&wanted[k], &workers[k].outcome, c->name);
    free(wanted[k].states.items);
    free(workers[k].outcome.states.items);
    delta_test_training_close(&trainings[k]);
  }
}

// ---- Many in a row

// Without what the C library has been given back and keeps for later.
static size_t resident_bytes(void) {
  malloc_trim(0);
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  size_t kibibytes = 0;
  cr_assert_not_null(file);
  while (fgets(line, sizeof line, file) && sscanf(line, "VmRSS: %zu kB", &kibibytes) != 1) continue;
  fclose(file);
  return kibibytes << 10;
}

// Bytes of memory that 500 sessions leave behind; each gives `leak_bytes` on top, to see that they are seen.
static size_t growth_of_sessions(size_t leak_bytes) {
  enum { WARM_UP = 50, CYCLES = 500 };
  delta_test_training_t training;
  const delta_plan_options_t plan_options = swapping_options();
  void **leaked = calloc(WARM_UP + CYCLES, sizeof *leaked);
  size_t before_bytes = 0;
  double loss;
  delta_test_training_prepare(&training, delta_test_wide_mlp, &plan_options);
  for (int i = 0; i < WARM_UP + CYCLES; ++i) {
    if (i == WARM_UP) before_bytes = resident_bytes();
    delta_test_expect_ok(delta_test_training_start(&training, delta_allocator_system()), "session");
    delta_test_expect_ok(run_step(training.session, 0, &loss), "step");
    delta_session_destroy(training.session);
    training.session = NULL;
    if (leak_bytes > 0) memset(leaked[i] = malloc(leak_bytes), 1, leak_bytes);
  }
  const size_t after_bytes = resident_bytes();
  for (int i = 0; i < WARM_UP + CYCLES; ++i) free(leaked[i]);
  free(leaked);
  delta_test_training_close(&training);
  return after_bytes > before_bytes ? after_bytes - before_bytes : 0;
}

Test(embedding, five_hundred_sessions_leave_no_memory_behind, .timeout = 300) {
#ifdef DELTA_TEST_SANITIZED
  cr_skip_test("sanitizers keep what is freed");
#endif
  const size_t most_bytes = 512 << 10;
  const size_t growth_bytes = growth_of_sessions(0), leaking_bytes = growth_of_sessions(2048);
  cr_expect_lt(growth_bytes, most_bytes, "%zu bytes more after 500 sessions", growth_bytes);
  cr_expect_gt(leaking_bytes, most_bytes, "2 KiB a session are not seen: %zu", leaking_bytes);
}

// ---- Parameters, gradients, properties

Test(embedding, parameters_are_one_buffer) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  static const char *const frozen[] = {"w2"};
  options.freeze = frozen;
  options.freeze_count = 1;
  delta_test_training_open(&training, delta_test_mlp, &options);
  delta_session_t *session = training.session;
  enum { W1 = 24, B1 = 6, W2 = 18, B2 = 3 };
  cr_expect_eq(delta_session_parameters_bytes(session, 1), (W1 + B1 + B2) * sizeof(float));
  cr_expect_eq(delta_session_parameters_bytes(session, 0), (W1 + B1 + W2 + B2) * sizeof(float));
  float values[W1 + B1 + B2], more[W1 + B1 + W2 + B2], w1[W1];
  delta_test_expect_ok(delta_session_read_parameters(session, 1, values, sizeof values), "read");
  delta_test_expect_ok(delta_session_read(session, "w1", w1, sizeof w1), "w1");
  cr_expect_eq(memcmp(values, w1, sizeof w1), 0);
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i) values[i] = (float)i;
  delta_test_expect_ok(delta_session_write_parameters(session, 1, values, sizeof values), "write");
  delta_test_expect_ok(delta_session_read(session, "w1", w1, sizeof w1), "w1");
  cr_expect_eq(w1[W1 - 1], W1 - 1);
  delta_test_expect_ok(delta_session_read_parameters(session, 0, more, sizeof more), "read all");
  delta_test_expect_status(delta_session_read_parameters(session, 0, values, sizeof values), DELTA_STATUS_INVALID_ARGUMENT, "204|132");
  delta_state_info_t info;
  delta_test_expect_ok(delta_session_find_state(session, "w2", &info), "w2");
  cr_expect_str_eq(info.kind, "frozen");
  cr_expect_eq(info.size_bytes, W2 * sizeof(float));
  delta_test_expect_status(delta_session_find_state(session, "w3", &info), DELTA_STATUS_NOT_FOUND, "w3");
  delta_test_training_close(&training);
}

Test(embedding, gradients_are_forgotten) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.accumulate = 2;
  delta_test_values_t states[2];
  for (int forgets = 0; forgets < 2; ++forgets) {
    delta_test_training_open(&training, delta_test_mlp, &options);
    if (forgets) {
      delta_test_run(training.session, DELTA_RUN_ACCUMULATE, 500, BATCH, 0);
      delta_test_expect_ok(delta_session_clear_gradients(training.session), "clear");
    }
    delta_test_run(training.session, DELTA_RUN_ACCUMULATE, 0, BATCH, 0);
    delta_test_expect_ok(delta_session_run(training.session, DELTA_RUN_APPLY, NULL, 0.1, NULL), "apply");
    states[forgets] = delta_test_read_states(training.session, "parameter");
    delta_test_training_close(&training);
  }
  cr_expect_eq(delta_test_distance(&states[0], &states[1]), 0);
  free(states[0].items);
  free(states[1].items);
}

Test(embedding, properties_are_in_checkpoints) {
  delta_test_training_t training;
  const delta_plan_options_t options = delta_test_plan_options(BATCH);
  char path[DELTA_TEST_PATH_BYTES];
  delta_training_position_t position = {.struct_size = sizeof position};
  delta_test_training_open(&training, delta_test_mlp, &options);
  delta_session_t *session = training.session;
  delta_test_folder_path(&training.folder, "checkpoint.safetensors", path);
  delta_test_expect_ok(delta_session_set_property(session, "best loss", "0.25"), "set");
  delta_test_expect_ok(delta_session_set_property(session, "note", "a \"text\"\nof two lines"), "set");
  delta_test_expect_ok(delta_session_set_property(session, "gone", "x"), "set");
  delta_test_expect_ok(delta_session_set_property(session, "gone", NULL), "remove");
  delta_test_expect_ok(delta_session_set_property(session, "best loss", "0.125"), "set again");
  cr_expect_eq(delta_session_property_count(session), 2);
  delta_test_expect_ok(delta_session_save(session, path, &position), "save");
  delta_session_destroy(session);
  delta_test_expect_ok(delta_test_training_start(&training, delta_allocator_system()), "session");
  session = training.session;
  cr_expect_null(delta_session_property(session, "best loss"));
  delta_test_expect_ok(delta_session_restore(session, path, &position), "restore");
  cr_assert_eq(delta_session_property_count(session), 2);
  cr_expect_str_eq(delta_session_property_name(session, 0), "best loss");
  cr_expect_null(delta_session_property_name(session, 2));
  cr_expect_str_eq(delta_session_property(session, "best loss"), "0.125");
  cr_expect_str_eq(delta_session_property(session, "note"), "a \"text\"\nof two lines");
  delta_test_expect_status(delta_session_set_property(session, "", "x"), DELTA_STATUS_INVALID_ARGUMENT, "name");
  delta_test_training_close(&training);
}

// ---- From memory

// A file that is memory, with the bytes of another; its path is written to `out_path`.
static int copy_to_memory(const char *path, char out_path[64]) {
  const int descriptor = memfd_create("delta", MFD_CLOEXEC);
  FILE *file = fopen(path, "rb");
  char bytes[4096];
  size_t count;
  cr_assert(descriptor >= 0 && file);
  while ((count = fread(bytes, 1, sizeof bytes, file)) > 0) cr_assert_eq(write(descriptor, bytes, count), (ssize_t)count);
  fclose(file);
  snprintf(out_path, 64, "/proc/self/fd/%d", descriptor);
  return descriptor;
}

Test(embedding, models_and_checkpoints_come_from_memory) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  char model_path[64], checkpoint_path[DELTA_TEST_PATH_BYTES], memory_path[64];
  delta_training_position_t position = {.struct_size = sizeof position, .step = 7};
  delta_test_training_write(&training, delta_test_mlp);
  const int model = copy_to_memory(training.model_path, model_path);
  cr_assert_eq(unlink(training.model_path), 0);
  strcpy(training.model_path, model_path);
  delta_test_expect_ok(delta_test_training_plan(&training, &options, delta_allocator_system()), "plan");
  delta_test_expect_ok(delta_test_training_start(&training, delta_allocator_system()), "session");
  const double loss = delta_test_run(training.session, DELTA_RUN_TRAIN, 0, BATCH, 0.1).loss;
  delta_test_folder_path(&training.folder, "checkpoint.safetensors", checkpoint_path);
  delta_test_expect_ok(delta_session_save(training.session, checkpoint_path, &position), "save");
  const int checkpoint = copy_to_memory(checkpoint_path, memory_path);
  const double second = delta_test_run(training.session, DELTA_RUN_TRAIN, 0, BATCH, 0.1).loss;
  delta_test_expect_ok(delta_session_restore(training.session, memory_path, &position), "restore");
  cr_expect_eq(position.step, 7);
  cr_expect_eq(delta_test_run(training.session, DELTA_RUN_TRAIN, 0, BATCH, 0.1).loss, second);
  cr_expect_neq(loss, second);
  close(model);
  close(checkpoint);
  delta_test_training_close(&training);
}

Test(embedding, rates_are_those_of_the_training_loop) {
  double rate = 0;
  delta_test_expect_ok(delta_learning_rate("linear", 0.5, 2, 10, 0, &rate), "warm-up");
  cr_expect_float_eq(rate, 0.25, 1e-12);
  delta_test_expect_ok(delta_learning_rate("linear", 0.5, 2, 10, 6, &rate), "half");
  cr_expect_float_eq(rate, 0.25, 1e-12);
  delta_test_expect_status(delta_learning_rate("best", 0.5, 2, 10, 6, &rate), DELTA_STATUS_INVALID_ARGUMENT, "best|cosine");
  delta_test_expect_status(delta_learning_rate("linear", 0.5, 0, 0, 0, &rate), DELTA_STATUS_INVALID_ARGUMENT, "step 0 of 0");
}
