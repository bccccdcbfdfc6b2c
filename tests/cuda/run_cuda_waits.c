// Removes each wait of a schedule without which the verifier refuses it, once each, and trains on the emulated GPU: ThreadSanitizer or a wrong result must find what the wait was
// for; with all waits nothing is found. Steps are first put into the streams one by one, then recorded and replayed, in the worst order that is left: the stream of the step that is no longer
// waited for goes on only when no other can. Each training is a process of its own. Prints a line a case and a total; skipped in builds without ThreadSanitizer.
//
//   run_cuda_waits [FOLDER] [--models NAME,NAME,...] [--verbose]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/sha256.h"
#include "runtime/session_parts.h"
#include "tests/cuda/apart.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/support/model_run.h"

enum { MOST_MODELS = 64, RUNS = 3, BAD_VALUE_STATUS = 4, ALL_WAITS = -1, NO_STREAM = -1 };

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

// Small granules, so that small models have to swap; everything is a little late.
static void configure(int late_stream) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.granule_bytes = DELTA_EMULATED_SMALL_GRANULE_BYTES;
  settings.copy_delay_seconds = 1e-3;
  settings.launch_delay_seconds = 1e-4;
  settings.late_stream = late_stream;
  delta_emulated_configure(&settings);
}

// Prints the losses and a hash of the states: what the training came to.
static delta_status_t train(subject_t *subject) {
  delta_run_report_t report;
  uint8_t *states = NULL;
  size_t size_bytes = 0;
  // Put step by step, recorded, replayed.
  for (uint64_t run = 0; run < RUNS; ++run) {
    DELTA_RETURN_IF_ERROR(delta_test_run_seeded(subject->session, DELTA_RUN_TRAIN, subject->batch, run, &report));
    printf("loss %a\n", report.loss);
  }
  if (subject->program->ran != subject->program->executor) return delta_status_make(INTERNAL, "the plan was not followed");
  DELTA_RETURN_IF_ERROR(delta_test_read_all_states(subject->session, &states, &size_bytes));
  char digest[DELTA_SHA256_TEXT_BYTES];
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  delta_sha256_update(&hash, states, size_bytes);
  delta_sha256_final_text(&hash, digest);
  printf("states %s\n", digest);
  delta_release(delta_allocator_system(), states);
  return DELTA_OK;
}

// Takes a wait out. With all of them, `wait` is the stream that is late.
static int train_without(subject_t *subject, int step, int wait) {
  configure(step == ALL_WAITS ? wait : NO_STREAM);
  delta_status_t status = subject_open(subject);
  if (!status && step != ALL_WAITS) {
    // The executor reads the lists whenever it puts steps into the streams; what it has prepared does not depend on them.
    const delta_schedule_t *schedule = subject->program->schedule;
    delta_schedule_step_t *waiting = &schedule->steps[step];
    // A recording begins with the stream of compute, and the others come to it in the order of lanes.
    configure((int)schedule->steps[waiting->waits[wait]].lane);
    remove_wait(waiting, (uint32_t)wait);
  }
  if (!status) status = train(subject);
  if (status) fprintf(stderr, "%s: %s\n", subject->model.name, delta_status_message(status));
  const int result = !status ? 0 : delta_status_code(status) == DELTA_STATUS_NOT_A_NUMBER ? BAD_VALUE_STATUS : 1;
  delta_status_free(status);
  subject_close(subject);
  return result;
}

// The exit status of such a training in a process of its own.
static int train_apart(const subject_t *subject, int step, int wait, delta_process_result_t *out_result) {
  char step_text[16], wait_text[16];
  snprintf(step_text, sizeof step_text, "%d", step);
  snprintf(wait_text, sizeof wait_text, "%d", wait);
  const char *arguments[] = {NULL, "--train", subject->model.path, subject->model.about_path, step_text, wait_text, NULL};
  return delta_apart_run(arguments, is_verbose, out_result);
}

// ---- All of a model

static void count_case(bool is_passed, totals_t *totals) {
  totals->passed += is_passed;
  totals->failed += !is_passed;
  fflush(stdout);
}

// With all waits, whichever stream is late: always the same, which is what is right.
static void judge_whole(const subject_t *subject, delta_process_result_t *out_right, totals_t *totals) {
  static delta_process_result_t result;
  int status = train_apart(subject, ALL_WAITS, NO_STREAM, out_right);
  bool is_same = true;
  for (int late = 0; late < DELTA_LANE_COUNT && status == 0 && is_same; ++late) {
    status = train_apart(subject, ALL_WAITS, late, &result);
    is_same = strcmp(result.output, out_right->output) == 0;
  }
  const bool is_right = status == 0 && is_same;
  printf("%s %s with all waits: %s\n", is_right ? "ok  " : "FAIL", subject->model.name,
         is_right                            ? "nothing was found"
         : status == DELTA_APART_RACE_STATUS ? "a race was found"
         : status == 0                       ? "a wrong result was found"
                                             : "the training failed");
  count_case(is_right, totals);
}

static void judge_without(const subject_t *subject, int step, int wait, const delta_process_result_t *right, totals_t *totals) {
  static delta_process_result_t result;
  const int status = train_apart(subject, step, wait, &result);
  const bool has_ended = status == 0 || status == DELTA_APART_RACE_STATUS || status == BAD_VALUE_STATUS;
  const bool is_race = status == DELTA_APART_RACE_STATUS, is_wrong = has_ended && strcmp(result.output, right->output) != 0;
  printf("%s %s, step %d without its wait for step %u: %s\n", is_race || is_wrong ? "ok  " : "FAIL", subject->model.name, step,
         subject->program->schedule->steps[step].waits[wait],
         !has_ended            ? "the training failed"
         : is_race && is_wrong ? "a race and a wrong result"
         : is_race             ? "a race"
         : is_wrong            ? "a wrong result"
                               : "nothing was found");
  count_case(is_race || is_wrong, totals);
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
  static delta_process_result_t right;
  uint32_t waits = 0, necessary = 0;
  DELTA_RETURN_IF_ERROR(subject_open(subject));
  const delta_schedule_t *schedule = subject->program->schedule;
  judge_whole(subject, &right, totals);
  for (uint32_t step = 0; step < schedule->step_count; ++step) {
    for (uint32_t wait = 0; wait < schedule->steps[step].wait_count; ++wait) {
      bool is_necessary;
      DELTA_RETURN_IF_ERROR(find_necessary(subject, step, wait, &is_necessary));
      if (is_necessary) judge_without(subject, (int)step, (int)wait, &right, totals);
      necessary += is_necessary;
      ++waits;
    }
  }
  printf("%s: %u waits, %u of them necessary\n", subject->model.name, waits, necessary);
  return DELTA_OK;
}

int main(int argc, char **argv) {
  static delta_test_model_t models[MOST_MODELS];
  static subject_t subject;
  const char *only = "mlp,cnn", *folder = DELTA_SOURCE_FOLDER "/tests/models";
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
  if (!delta_apart_finds_races("waits")) return DELTA_APART_SKIP_STATUS;
  configure(NO_STREAM);
  totals_t totals = {0};
  const size_t count = delta_test_list_models(folder, models, 0, MOST_MODELS);
  for (size_t m = 0; m < count; ++m) {
    if (!delta_test_is_listed(only, models[m].name)) continue;
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
