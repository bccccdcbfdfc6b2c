// Faults of files while a training runs: reads and writes that do less than they were asked for or are interrupted change nothing; errors of a disk are named, and what was safe stays so; files that
// are cut behind the reader's back are found. The calls of the system are this program's own.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/session_parts.h"
#include "tests/support/training.h"

enum { BATCH = 96, STEPS = 3, BLOCK_BYTES = 4096 };

// What happens to the calls below; copies run on threads.
typedef struct io_faults {
  atomic_bool is_short;                           // half of what is asked for, in whole blocks where there are some
  atomic_bool is_interrupted;                     // every second call
  atomic_int reads_left, writes_left, syncs_left; // before one fails; below 0: none does
  atomic_int error;
  atomic_uint count;
} io_faults_t;

static io_faults_t faults = {.reads_left = -1, .writes_left = -1, .syncs_left = -1};

// Whether a call fails, with errno set.
static bool fails(atomic_int *left) {
  const unsigned number = atomic_fetch_add(&faults.count, 1);
  if (atomic_load(&faults.is_interrupted) && number % 2 == 0) {
    errno = EINTR;
    return true;
  }
  if (atomic_load(left) < 0 || atomic_fetch_sub(left, 1) > 0) return false;
  atomic_store(left, 0);
  errno = atomic_load(&faults.error);
  return true;
}

static size_t shortened(size_t size_bytes) {
  if (!atomic_load(&faults.is_short) || size_bytes < 2) return size_bytes;
  const size_t half_bytes = size_bytes / 2;
  return half_bytes < BLOCK_BYTES ? size_bytes % BLOCK_BYTES ? half_bytes : size_bytes : half_bytes / BLOCK_BYTES * BLOCK_BYTES;
}

ssize_t pread(int descriptor, void *buffer, size_t size_bytes, off_t offset) {
  return fails(&faults.reads_left) ? -1 : syscall(SYS_pread64, descriptor, buffer, shortened(size_bytes), offset);
}

ssize_t pwrite(int descriptor, const void *buffer, size_t size_bytes, off_t offset) {
  return fails(&faults.writes_left) ? -1 : syscall(SYS_pwrite64, descriptor, buffer, shortened(size_bytes), offset);
}

int fsync(int descriptor) { return fails(&faults.syncs_left) ? -1 : (int)syscall(SYS_fsync, descriptor); }

static void stop_faults(void) {
  faults.is_short = faults.is_interrupted = false;
  faults.reads_left = faults.writes_left = faults.syncs_left = -1;
}

// ---- A training that swaps

static void start(delta_test_training_t *training, const char *budget, delta_log_sink_t log) {
  delta_plan_options_t plan_options = delta_test_plan_options(BATCH);
  plan_options.budget = budget;
  plan_options.policy = "delta-fixed";
  plan_options.optimizer = "adamw";
  delta_test_training_prepare(training, delta_test_wide_mlp, &plan_options);
  delta_session_options_t options = delta_test_session_options(training);
  options.tier = training->folder.path;
  options.log = log;
  delta_test_training_start_on(training, &options, NULL);
}

static delta_status_t run_step(delta_test_training_t *training, int step, delta_run_report_t *report) {
  return delta_test_try_run(training->session, DELTA_RUN_TRAIN, 100 * step, BATCH, 0.05, report);
}

static delta_test_values_t train(const char *budget, double losses[STEPS]) {
  delta_test_training_t training;
  delta_run_report_t report;
  start(&training, budget, (delta_log_sink_t){0});
  for (int step = 0; step < STEPS; ++step) {
    delta_test_expect_ok(run_step(&training, step, &report), "step");
    losses[step] = report.loss;
  }
  delta_test_values_t states = delta_test_read_states(training.session, NULL);
  delta_test_training_close(&training);
  return states;
}

typedef struct harmless_case {
  char name[24];
  bool is_short, is_interrupted, has_timer;
} harmless_case_t;

ParameterizedTestParameters(io_faults, calls_that_do_less_change_nothing) {
  static harmless_case_t cases[] = {
      {"short", true, false, false}, {"interrupted", false, true, false}, {"both, and signals", true, true, true}};
  return cr_make_param_array(harmless_case_t, cases, sizeof cases / sizeof *cases);
}

static atomic_uint alarms;
static void on_alarm(int number) { atomic_fetch_add(&alarms, (unsigned)(number == SIGALRM)); }

// Signals interrupt calls, and come every millisecond.
static void start_timer(void) {
  const struct sigaction action = {.sa_handler = on_alarm};
  const struct itimerval interval = {.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &interval, NULL);
}

ParameterizedTest(harmless_case_t *c, io_faults, calls_that_do_less_change_nothing) {
  double wanted_losses[STEPS], losses[STEPS];
  delta_test_values_t wanted = train("unlimited", wanted_losses);
  if (c->has_timer) start_timer();
  faults.is_short = c->is_short;
  faults.is_interrupted = c->is_interrupted;
  faults.count = 0;
  delta_test_values_t found = train("minimum", losses);
  stop_faults();
  setitimer(ITIMER_REAL, &(const struct itimerval){.it_value = {0}}, NULL);
  cr_expect_gt(faults.count, 20, "%s: the calls are this program's", c->name);
  cr_expect(!c->has_timer || alarms > 0);
  cr_expect_eq(memcmp(wanted_losses, losses, sizeof losses), 0, "%s: losses differ", c->name);
  cr_assert_eq(wanted.count, found.count);
  cr_expect_eq(memcmp(wanted.items, found.items, wanted.count * sizeof *wanted.items), 0, "%s: states differ", c->name);
  free(wanted.items);
  free(found.items);
}

typedef struct error_case {
  char name[24];
  int error;
  bool reads;
  char words[64];
} error_case_t;

ParameterizedTestParameters(io_faults, errors_of_the_disk_are_named) {
  static error_case_t cases[] = {
      {"a read", EIO, true, "schedule step|copying tensor '|from the tier|cannot read"},
      {"a write", EIO, false, "schedule step|copying tensor '|to the tier|cannot write"},
      {"a full disk", ENOSPC, false, "schedule step|copying tensor '|to the tier|cannot write|space"},
  };
  return cr_make_param_array(error_case_t, cases, sizeof cases / sizeof *cases);
}

// At the smallest budget nothing can be kept: a copy that fails is an error, and the session goes on when the disk does.
ParameterizedTest(error_case_t *c, io_faults, errors_of_the_disk_are_named) {
  delta_test_training_t training;
  delta_run_report_t report;
  start(&training, "minimum", (delta_log_sink_t){0});
  delta_test_expect_ok(run_step(&training, 0, &report), "before");
  faults.error = c->error;
  *(c->reads ? &faults.reads_left : &faults.writes_left) = 3;
  delta_test_expect_status(run_step(&training, 1, &report), DELTA_STATUS_IO, c->words);
  stop_faults();
  delta_test_expect_ok(run_step(&training, 2, &report), "after");
  delta_test_training_close(&training);
}

// ---- Checkpoints

Test(io_faults, a_checkpoint_that_cannot_be_written_leaves_the_one_before) {
  static atomic_int *const lefts[] = {&faults.syncs_left, &faults.writes_left};
  delta_test_training_t training;
  delta_run_report_t report;
  char path[DELTA_TEST_PATH_BYTES];
  delta_training_position_t position = {.struct_size = sizeof position, .step = 1}, found = position;
  start(&training, "unlimited", (delta_log_sink_t){0});
  delta_test_folder_path(&training.folder, "checkpoint.safetensors", path);
  delta_test_expect_ok(delta_session_save(training.session, path, &position), "save");
  delta_test_expect_ok(run_step(&training, 0, &report), "step");
  position.step = 2;
  for (size_t i = 0; i < sizeof lefts / sizeof *lefts; ++i) {
    faults.error = EIO;
    *lefts[i] = 0;
    delta_test_expect_status(delta_session_save(training.session, path, &position), DELTA_STATUS_IO, "checkpoint.safetensors");
    stop_faults();
    delta_test_expect_ok(delta_session_restore(training.session, path, &found), "restore");
    cr_expect_eq(found.step, 1);
  }
  delta_test_training_close(&training);
}

// ---- Files that are cut

typedef struct cutter {
  const char *path;
  int64_t step;
} cutter_t;

static delta_status_t cut_file(void *self, const delta_train_step_t *step) {
  const cutter_t *cutter = self;
  if (step->step == cutter->step) cr_assert_eq(truncate(cutter->path, 200), 0);
  return DELTA_OK;
}

static void write_npy(const char *path, const char *type, int64_t rows, int columns, const void *data, size_t size_bytes) {
  char header[128];
  char shape[32];
  snprintf(shape, sizeof shape, columns ? "(%lld, %d)" : "(%lld,)", (long long)rows, columns);
  const int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
  memset(header + length, ' ', sizeof header - (size_t)length);
  header[117] = '\n';
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file);
  cr_assert_eq(fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file), 10);
  cr_assert_eq(fwrite(header, 1, 118, file), 118);
  cr_assert_eq(fwrite(data, 1, size_bytes, file), size_bytes);
  cr_assert_eq(fclose(file), 0);
}

Test(io_faults, a_data_file_that_is_cut_while_training_is_named) {
  enum { ROWS = 64 };
  static float x[ROWS][4];
  static int64_t labels[ROWS];
  delta_test_training_t training;
  const delta_plan_options_t plan_options = delta_test_plan_options(8);
  delta_train_options_t options;
  delta_train_result_t result = {.struct_size = sizeof result};
  char x_path[DELTA_TEST_PATH_BYTES], label_path[DELTA_TEST_PATH_BYTES], spec[3 * DELTA_TEST_PATH_BYTES];
  delta_test_training_open(&training, delta_test_mlp, &plan_options);
  delta_test_folder_path(&training.folder, "x.npy", x_path);
  delta_test_folder_path(&training.folder, "label.npy", label_path);
  write_npy(x_path, "<f4", ROWS, 4, x, sizeof x);
  write_npy(label_path, "<i8", ROWS, 0, labels, sizeof labels);
  snprintf(spec, sizeof spec, "x=%s,label=%s", x_path, label_path);
  cutter_t cutter = {.path = x_path, .step = 3};
  delta_train_options_init(&options);
  options.data = spec;
  options.epochs = 2;
  options.shuffle = false;
  options.on_step = cut_file;
  options.self = &cutter;
  delta_test_expect_status(delta_session_train(training.session, &options, &result), DELTA_STATUS_MALFORMED, "step 4|x.npy|truncated");
  cr_expect_eq(result.steps, 3);
  delta_test_training_close(&training);
}

// The model is read again when what was trained is written.
Test(io_faults, a_model_that_is_cut_while_training_is_named) {
  delta_test_training_t training;
  delta_run_report_t report;
  char path[DELTA_TEST_PATH_BYTES];
  start(&training, "unlimited", (delta_log_sink_t){0});
  cr_assert_eq(truncate(training.model_path, 300), 0);
  delta_test_expect_ok(run_step(&training, 0, &report), "a step needs no model");
  delta_test_folder_path(&training.folder, "trained.onnx", path);
  delta_status_t status = delta_session_export(training.session, path, 0);
  cr_expect_neq(delta_status_code(status), DELTA_STATUS_OK);
  cr_expect_not_null(strstr(delta_status_message(status), "model.onnx"), "%s", delta_status_message(status));
  cr_expect_neq(access(path, F_OK), 0, "a broken model was written");
  delta_status_free(status);
  delta_test_training_close(&training);
}
