// Removes each wait of a schedule without which the verifier refuses it, once each, and trains on the emulated GPU: ThreadSanitizer must find what the wait was for, both when
// steps are put into the streams one by one and when a recording is replayed; with all waits it must find nothing. Each training is a process of its own. Prints a line a case and a
// total; skipped in builds without ThreadSanitizer.
//
//   run_cuda_waits [FOLDER] [--models NAME,NAME,...] [--verbose]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/allocator.h"
#include "runtime/session_parts.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/support/model_run.h"

enum { MOST_MODELS = 64, RACE_STATUS = 66, SKIP_STATUS = 77, ALL_WAITS = -1 };

static bool is_verbose;

// A training session within the smallest budget, and the program whose waits are removed.
typedef struct subject {
  delta_test_model_t model;
  delta_test_model_run_t run;
  delta_plan_t *plan;       // Owned.
  delta_session_t *session; // Owned.
  delta_live_program_t *program;
  int64_t batch;
} subject_t;

typedef struct totals {
  int passed, failed;
} totals_t;

static delta_status_t subject_open(subject_t *subject) {
  delta_plan_summary_t summary = {.struct_size = sizeof summary};
  delta_session_options_t options;
  subject->run = (delta_test_model_run_t){.model = &subject->model, .optimizer = "sgd", .device = "cuda", .threads = 1};
  DELTA_RETURN_IF_ERROR(delta_test_read_about(&subject->run));
  const delta_plan_options_t plan_options = delta_test_model_plan_options(&subject->run, "delta-fixed", "minimum");
  DELTA_RETURN_IF_ERROR(delta_plan_create(&plan_options, delta_allocator_system(), &subject->plan, &summary));
  delta_session_options_init(&options);
  options.plan = subject->plan;
  options.model_path = subject->model.path;
  options.seed = 1;
  options.estimate_costs = 1;
  DELTA_RETURN_IF_ERROR(delta_session_create(&options, delta_allocator_system(), &subject->session));
  subject->batch = summary.batch;
  const delta_batch_t batch = {.rows = subject->batch};
  return delta_session_find_program(subject->session, DELTA_PROGRAM_TRAIN, &batch, &subject->program);
}

static void subject_close(subject_t *subject) {
  delta_session_destroy(subject->session);
  delta_plan_free(subject->plan);
  subject->session = NULL;
  subject->plan = NULL;
}

// Takes wait `index` out of a step's list.
static void remove_wait(delta_schedule_step_t *step, uint32_t index) {
  --step->wait_count;
  memmove(&step->waits[index], &step->waits[index + 1], (step->wait_count - index) * sizeof *step->waits);
}

// ---- One training

static int train_without(subject_t *subject, int step, int wait) {
  delta_run_report_t report;
  delta_status_t status = subject_open(subject);
  // The executor reads the lists whenever it puts steps into the streams; what it has prepared does not depend on them.
  if (!status && step >= 0) remove_wait((delta_schedule_step_t *)&subject->program->schedule->steps[step], (uint32_t)wait);
  // Put step by step, recorded, replayed.
  for (uint64_t run = 0; run < 3 && !status; ++run) {
    status = delta_test_run_seeded(subject->session, DELTA_RUN_TRAIN, subject->batch, run, &report);
  }
  if (status) fprintf(stderr, "%s: %s\n", subject->model.name, delta_status_message(status));
  const int result = status ? 1 : 0;
  delta_status_free(status);
  subject_close(subject);
  return result;
}

// The exit status of such a training in a process of its own.
static int train_apart(const subject_t *subject, int step, int wait) {
  char step_text[16], wait_text[16];
  snprintf(step_text, sizeof step_text, "%d", step);
  snprintf(wait_text, sizeof wait_text, "%d", wait);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (!is_verbose && !freopen("/dev/null", "w", stderr)) _exit(1);
    execl("/proc/self/exe", "run_cuda_waits", "--train", subject->model.path, subject->model.about_path, step_text, wait_text,
          (char *)NULL);
    _exit(1);
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// ---- All of a model

static void judge(const subject_t *subject, int step, int wait, totals_t *totals) {
  const int status = train_apart(subject, step, wait), wanted = step == ALL_WAITS ? 0 : RACE_STATUS;
  const char *found = status == 0 ? "nothing was found" : status == RACE_STATUS ? "a race was found" : "the training failed";
  if (step == ALL_WAITS) {
    printf("%s %s with all waits: %s\n", status == wanted ? "ok  " : "FAIL", subject->model.name, found);
  } else {
    const delta_schedule_t *schedule = subject->program->schedule;
    printf("%s %s, step %d without its wait for step %u: %s\n", status == wanted ? "ok  " : "FAIL", subject->model.name, step,
           schedule->steps[step].waits[wait], found);
  }
  totals->passed += status == wanted;
  totals->failed += status != wanted;
  fflush(stdout);
}

// Whether the verifier refuses the schedule without a wait.
static delta_status_t find_necessary(const subject_t *subject, uint32_t step, uint32_t wait, bool *out_is_necessary) {
  const delta_live_program_t *program = subject->program;
  delta_schedule_t *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_schedule_copy(program->schedule, delta_allocator_system(), &copy));
  remove_wait(&copy->steps[step], wait);
  delta_status_t refusal = delta_schedule_verify(copy, program->parts.problem, copy->arena_bytes, delta_allocator_system());
  *out_is_necessary = refusal != NULL;
  delta_status_free(refusal);
  delta_schedule_free(copy);
  return DELTA_OK;
}

static delta_status_t run_model(subject_t *subject, totals_t *totals) {
  uint32_t waits = 0, necessary = 0;
  DELTA_RETURN_IF_ERROR(subject_open(subject));
  const delta_schedule_t *schedule = subject->program->schedule;
  judge(subject, ALL_WAITS, 0, totals);
  for (uint32_t step = 0; step < schedule->step_count; ++step) {
    for (uint32_t wait = 0; wait < schedule->steps[step].wait_count; ++wait) {
      bool is_necessary;
      DELTA_RETURN_IF_ERROR(find_necessary(subject, step, wait, &is_necessary));
      if (is_necessary) judge(subject, (int)step, (int)wait, totals);
      necessary += is_necessary;
      ++waits;
    }
  }
  printf("%s: %u waits, %u of them necessary\n", subject->model.name, waits, necessary);
  return DELTA_OK;
}

static bool has_thread_sanitizer(void) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  return true;
#endif
#endif
#ifdef __SANITIZE_THREAD__
  return true;
#endif
  return false;
}

static bool is_listed(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length])) return true;
  }
  return !list;
}

// Small granules, so that small models have to swap; everything is a little late.
static void configure(void) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.granule_bytes = DELTA_EMULATED_SMALL_GRANULE_BYTES;
  settings.copy_delay_seconds = 1e-3;
  settings.launch_delay_seconds = 1e-4;
  delta_emulated_configure(&settings);
}

int main(int argc, char **argv) {
  static delta_test_model_t models[MOST_MODELS];
  static subject_t subject;
  const char *only = "mlp,cnn", *folder = DELTA_SOURCE_FOLDER "/tests/models";
  configure();
  if (argc == 6 && strcmp(argv[1], "--train") == 0) {
    snprintf(subject.model.name, sizeof subject.model.name, "model");
    snprintf(subject.model.path, sizeof subject.model.path, "%s", argv[2]);
    snprintf(subject.model.about_path, sizeof subject.model.about_path, "%s", argv[3]);
    return train_without(&subject, atoi(argv[4]), atoi(argv[5]));
  }
  for (int k = 1; k < argc; ++k) {
    if (strcmp(argv[k], "--models") == 0 && k + 1 < argc) {
      only = argv[++k];
    } else if (strcmp(argv[k], "--verbose") == 0) {
      is_verbose = true;
    } else {
      folder = argv[k];
    }
  }
  if (!has_thread_sanitizer()) {
    printf("skip waits: this build has no ThreadSanitizer\n0 passed, 0 failed, 1 skipped\n");
    return SKIP_STATUS;
  }
  totals_t totals = {0};
  const size_t count = delta_test_list_models(folder, models, 0, MOST_MODELS);
  for (size_t m = 0; m < count; ++m) {
    if (!is_listed(only, models[m].name)) continue;
    subject.model = models[m];
    delta_status_t status = run_model(&subject, &totals);
    if (status) printf("FAIL %s: %s\n", models[m].name, delta_status_message(status));
    totals.failed += status != NULL;
    delta_status_free(status);
    subject_close(&subject);
  }
  printf("%d passed, %d failed, 0 skipped\n", totals.passed, totals.failed);
  return totals.failed > 0 || totals.passed == 0;
}
