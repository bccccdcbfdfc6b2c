// Trains models while memory, disk and processor do not behave as planned, and compares with training that nothing disturbs: losses, weights, optimizer states and statistics
// must be the same to the last bit, and every step lies within the budget that was asked for before it. What goes wrong is drawn from the number of the script: budgets cut and
// raised between and amid steps, copies that are late, a disk that is slow or full, slow operators, memory that others take, a batch of another size. Prints a line per script
// that fails, how many steps it took at most to react to each kind of surprise, and a total.
//
//   run_surprises [FOLDER] [--scripts N] [--first N] [--threads N] [--models NAME,NAME,...] [--device NAME (cpu)] [--verbose]
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "runtime/session_parts.h"
#include "tests/support/model_run.h"
#include "tests/support/surprise_device.h"

enum { MOST_MODELS = 64, STEPS = 6, MOST_LAUNCHES = 60 };

// X(identifier, text): surprises that are answered; what is printed of each is how many steps came between it and the answer, at most.
#define KINDS(X)                                  \
  X(CUT, "a budget cut between steps")            \
  X(CUT_AMID, "a budget cut amid a step")         \
  X(SHORT, "memory that others take")             \
  X(SLOW_DISK, "a disk that is slow, waited for") \
  X(FULL_DISK, "a full disk")

typedef enum kind {
#define KIND_ENUM(id, text) id,
  KINDS(KIND_ENUM)
#undef KIND_ENUM
      KIND_COUNT
} kind_t;

static const char *const kind_texts[] = {
#define KIND_TEXT(id, text) text,
    KINDS(KIND_TEXT)
#undef KIND_TEXT
};

typedef struct reactions {
  uint32_t times, longest;
  uint32_t within; // answered in the step itself
} reactions_t;

static reactions_t reactions[KIND_COUNT];
static int ended_count; // scripts that ended at a full disk

static bool is_verbose;
static const char *device_name; // NULL: the CPU

typedef struct outcome {
  double losses[STEPS + 1]; // steps and an evaluation
  int ended;                // steps, before a full disk left nothing that could be done; STEPS + 1: it did not
  uint8_t *states;          // Owned.
  size_t state_bytes;
} outcome_t;

// A model, and what its undisturbed training gives.
typedef struct subject {
  delta_test_model_t model;
  delta_test_model_run_t run;
  delta_plan_summary_t summary;
  outcome_t wanted;
} subject_t;

// Budgets are parts of the way from the smallest (0) to what the training takes without one (1).
typedef struct script {
  uint32_t number;
  uint64_t state; // of what is drawn
  double planned;
  double budgets[STEPS];     // asked for before the step; below 0: no change
  bool is_inside[STEPS];     // asked for while the step is fed
  bool is_elsewhere[STEPS];  // asked for by another thread amid the step
  uint32_t launches[STEPS];  // or before this operator of it; 0: not amid it
  double disk_speeds[STEPS]; // bytes a second; 0: as it is
  bool is_full[STEPS];       // no write works
  double slownesses[STEPS];  // of operators
  double short_parts[STEPS]; // of the arena that the system cannot give any more; 0: none
  delta_memory_numbers_t memory;
  uint64_t committed_bytes;       // when it was so
  const delta_session_t *session; // that is disturbed
  delta_test_surprises_t surprises;
} script_t;

static double draw(script_t *script) { return (double)(delta_test_next_bits(&script->state) >> 11) * 0x1p-53; }

static bool draw_if(script_t *script, double probability) { return draw(script) < probability; }

static script_t make_script(uint32_t number) {
  script_t script = {.number = number, .state = number * UINT64_C(7919) + 1, .surprises = DELTA_TEST_NO_SURPRISE};
  script.surprises.seed = number;
  script.planned = draw(&script) * draw(&script);
  if (draw_if(&script, 0.7)) script.surprises.copy_delay_seconds = 2e-3 * draw(&script);
  if (draw_if(&script, 0.3)) script.surprises.kernel_delay_seconds = 2e-4 * draw(&script);
  for (int step = 0; step < STEPS; ++step) {
    script.budgets[step] = draw_if(&script, 0.5) ? draw(&script) * draw(&script) : -1;
    script.is_inside[step] = draw_if(&script, 0.3);
    if (draw_if(&script, 0.4)) script.launches[step] = 1 + (uint32_t)(draw(&script) * MOST_LAUNCHES);
    script.is_elsewhere[step] = script.launches[step] > 0 && draw_if(&script, 0.4);
    if (draw_if(&script, 0.2)) script.disk_speeds[step] = 2e5 + 4e6 * draw(&script);
    script.is_full[step] = draw_if(&script, 0.1);
    if (draw_if(&script, 0.15)) script.slownesses[step] = 2 + 2 * draw(&script);
    if (draw_if(&script, 0.15)) script.short_parts[step] = 0.3 * draw(&script);
  }
  return script;
}

static void format_budget(const subject_t *subject, double part, char out_text[32]) {
  const uint64_t least_bytes = subject->summary.minimum_budget_bytes, most_bytes = subject->summary.unlimited_peak_bytes + (64 << 10);
  snprintf(out_text, 32, "%llu", (unsigned long long)(least_bytes + (uint64_t)(part * (double)(most_bytes - least_bytes))));
}

// Asks for a step's budget, within the step or before it.
static delta_status_t change_budget(const subject_t *subject, delta_session_t *session, const script_t *script, int step) {
  char budget[32];
  if (script->budgets[step] < 0) return DELTA_OK;
  format_budget(subject, script->budgets[step], budget);
  return delta_session_set_budget(session, budget);
}

// What a step's feed knows, and what happens amid a step.
typedef struct feed {
  const subject_t *subject;
  delta_session_t *session;
  script_t *script;
  int step;
  uint32_t first_launch; // of the step
  uint64_t wanted_bytes; // before what is asked for amid it
} feed_t;

static delta_status_t change_inside(void *self) {
  const feed_t *feed = self;
  const bool is_inside = feed->script->is_inside[feed->step] && feed->script->launches[feed->step] == 0;
  return is_inside ? change_budget(feed->subject, feed->session, feed->script, feed->step) : DELTA_OK;
}

// Another thread asks while the step runs, or when it has just ended.
static void *change_elsewhere(void *self) {
  const feed_t *feed = self;
  const struct timespec delay = {.tv_nsec = 20000L * feed->script->launches[feed->step]};
  nanosleep(&delay, NULL);
  delta_status_free(change_budget(feed->subject, feed->session, feed->script, feed->step));
  return NULL;
}

static void change_amid(void *self, uint32_t launch) {
  const feed_t *feed = self;
  const uint32_t wanted = feed->script->launches[feed->step];
  if (wanted == 0 || feed->script->is_elsewhere[feed->step] || launch - feed->first_launch + 1 != wanted) return;
  delta_status_free(change_budget(feed->subject, feed->session, feed->script, feed->step));
}

// What the arena gives back is there for others.
static void read_played(void *self, delta_memory_numbers_t *out_numbers) {
  const script_t *script = self;
  *out_numbers = script->memory;
  out_numbers->system_left_bytes += (int64_t)script->committed_bytes - (int64_t)script->session->committed_bytes;
}

// Sets what the device and the system do in a step.
static void disturb(const feed_t *feed) {
  script_t *script = feed->script;
  const int step = feed->step;
  // A state whose home is below has no other place: a disk that is full then ends the training.
  const bool may_be_full = script->is_full[step] && delta_plan_home_bytes(feed->session->plan) == 0;
  script->surprises.copy_bytes_per_second = script->disk_speeds[step];
  script->surprises.kernel_slowness = script->slownesses[step];
  script->surprises.write_that_fails = may_be_full ? script->surprises.writes : UINT32_MAX;
  script->surprises.writes_that_fail = may_be_full ? UINT32_MAX - script->surprises.writes : 0;
  script->session = feed->session;
  script->committed_bytes = feed->session->committed_bytes;
  script->memory = (delta_memory_numbers_t){.system_left_bytes = INT64_C(1) << 40, .process_left_bytes = INT64_MAX};
  if (script->short_parts[step] > 0) {
    const double short_bytes = script->short_parts[step] * (double)feed->session->committed_bytes;
    script->memory.system_left_bytes = (INT64_C(48) << 20) - (int64_t)short_bytes;
  }
}

// A surprise was answered after so many steps.
static void note(kind_t kind, uint32_t steps) {
  reactions_t *entry = &reactions[kind];
  ++entry->times;
  entry->within += steps == 0;
  if (steps > entry->longest) entry->longest = steps;
}

static bool has_event(const delta_run_report_t *report, const char *text) {
  for (size_t e = 0; e < report->event_count; ++e) {
    if (strstr(report->events[e], text)) return true;
  }
  return false;
}

// A cut that has been asked for and is not done yet: the step since which, or -1.
typedef struct pending {
  int cut_step;
  uint64_t wanted_bytes;
  kind_t kind;
} pending_t;

static void note_cut(const feed_t *feed, pending_t *pending) {
  if (pending->cut_step < 0 || feed->session->committed_bytes > pending->wanted_bytes) return;
  note(pending->kind, (uint32_t)(feed->step - pending->cut_step));
  pending->cut_step = -1;
}

// Looks at what a step did about what happened.
static void note_reactions(const feed_t *feed, const delta_run_report_t *report, pending_t *pending) {
  const delta_session_t *session = feed->session;
  const script_t *script = feed->script;
  const bool is_amid = script->budgets[feed->step] >= 0 && (script->launches[feed->step] > 0 || script->is_inside[feed->step]);
  note_cut(feed, pending);
  // One that was refused, or taken back, is not waited for.
  if (has_event(report, "refused") || session->wanted_budget_bytes > pending->wanted_bytes) pending->cut_step = -1;
  if (session->wanted_budget_bytes < feed->wanted_bytes && pending->cut_step < 0) {
    pending->cut_step = feed->step;
    pending->wanted_bytes = session->wanted_budget_bytes;
    pending->kind = script->short_parts[feed->step] > 0 ? SHORT : is_amid ? CUT_AMID : CUT;
  }
  note_cut(feed, pending);
  if (has_event(report, "copies are late") || has_event(report, "slower copies")) note(SLOW_DISK, 0);
  if (has_event(report, "is one that fails")) note(FULL_DISK, 0);
}

// Whether a step failed since a copy did, for which there was neither room nor another way: the error names the tensor.
static bool has_ended(delta_status_t status) {
  return delta_status_code(status) == DELTA_STATUS_IO && strstr(delta_status_message(status), "is one that fails") &&
         strstr(delta_status_message(status), "copying tensor '");
}

// Steps, the third with a sample less, and an evaluation.
static delta_status_t train(const subject_t *subject, delta_session_t *session, int64_t batch, script_t *script, outcome_t *outcome) {
  delta_run_report_t report;
  pending_t pending = {.cut_step = -1};
  outcome->ended = STEPS + 1;
  bool is_short = false;
  script->session = session;
  session->pressure.reader = (delta_memory_reader_t){.read = read_played, .self = script};
  session->pressure.period_seconds = 0.002;
  for (int step = 0; step < STEPS; ++step) {
    feed_t feed = {.subject = subject,
                   .session = session,
                   .script = script,
                   .step = step,
                   .first_launch = script->surprises.launches,
                   .wanted_bytes = session->wanted_budget_bytes};
    if (!script->is_inside[step] && script->launches[step] == 0) DELTA_RETURN_IF_ERROR(change_budget(subject, session, script, step));
    const uint64_t wanted_bytes = session->wanted_budget_bytes, user_bytes = session->reflex.user_bytes;
    script->surprises.on_launch = change_amid;
    script->surprises.self = &feed;
    disturb(&feed);
    is_short |= script->short_parts[step] > 0;
    const int64_t rows = step == 2 && batch > 1 && !delta_session_has_fixed_batch(session) ? batch - 1 : batch;
    pthread_t thread;
    const bool is_elsewhere = script->is_elsewhere[step] && pthread_create(&thread, NULL, change_elsewhere, &feed) == 0;
    delta_status_t status = delta_test_run_seeded_with(session, DELTA_RUN_TRAIN, rows, (uint64_t)step, change_inside, &feed, &report);
    if (is_elsewhere) pthread_join(thread, NULL);
    if (has_ended(status)) {
      outcome->ended = step;
      ++ended_count;
      if (is_verbose) printf("%s, script %u, step %d: %s\n", subject->model.name, script->number, step, delta_status_message(status));
      delta_status_free(status);
      return DELTA_OK;
    }
    DELTA_RETURN_IF_ERROR(status);
    outcome->losses[step] = report.loss;
    for (size_t e = 0; e < report.event_count; ++e) {
      // Good reasons are a full disk, so that states could not be moved, and others who take more memory than can be given.
      const bool may_refuse = strstr(report.events[e], "is one that fails") || is_short;
      if (strstr(report.events[e], "refused") && !may_refuse) return delta_status_make(INTERNAL, "step %d: %s", step, report.events[e]);
      if (is_verbose) printf("%s, script %u, step %d: %s\n", subject->model.name, script->number, step, report.events[e]);
    }
    note_reactions(&feed, &report, &pending);
    // What was asked for before the step, as far as the system gave it, or amid the step. When the system gives it again is a matter of time: at any look.
    // Where it was refused, the one before it still holds.
    const uint64_t held_bytes = has_event(&report, "refused") ? session->budget_bytes : 0;
    const uint64_t asked_bytes = has_event(&report, "memory is back") ? user_bytes : wanted_bytes;
    const uint64_t before_bytes = held_bytes > asked_bytes ? held_bytes : asked_bytes;
    const uint64_t most_bytes = before_bytes > session->reflex.user_bytes ? before_bytes : session->reflex.user_bytes;
    if (report.arena_peak_bytes > most_bytes) {
      return delta_status_make(INTERNAL, "step %d: %llu bytes committed, the budget is %llu", step,
                               (unsigned long long)report.arena_peak_bytes, (unsigned long long)most_bytes);
    }
  }
  script->surprises.on_launch = NULL;
  DELTA_RETURN_IF_ERROR(delta_test_run_seeded(session, DELTA_RUN_EVALUATE, batch, 99, &report));
  outcome->losses[STEPS] = report.loss;
  return delta_test_read_all_states(session, &outcome->states, &outcome->state_bytes);
}

// Plans within a budget and trains on a device that follows the script.
static delta_status_t plan_and_train(const subject_t *subject, const char *policy, const char *budget, script_t *script,
                                     delta_plan_summary_t *summary, outcome_t *outcome) {
  const delta_plan_options_t options = delta_test_model_plan_options(&subject->run, policy, budget);
  delta_plan_t *plan = NULL;
  delta_session_t *session = NULL;
  delta_device_t *device = NULL;
  delta_session_options_t session_options;
  delta_session_options_init(&session_options);
  *outcome = (outcome_t){0};
  *summary = (delta_plan_summary_t){.struct_size = sizeof *summary};
  delta_status_t status = delta_plan_create(&options, delta_allocator_system(), &plan, summary);
  session_options.plan = plan;
  session_options.model_path = subject->model.path;
  session_options.seed = 1;
  session_options.estimate_costs = 1;
  if (!status) status = delta_test_surprise_device_open(subject->run.threads, &script->surprises, &device);
  if (!status) status = delta_session_create_on(&session_options, device, delta_allocator_system(), &session);
  if (!status) status = train(subject, session, summary->batch, script, outcome);
  delta_session_destroy(session);
  delta_plan_free(plan);
  return status;
}

static delta_status_t prepare(subject_t *subject, int threads) {
  subject->run = (delta_test_model_run_t){.model = &subject->model, .optimizer = "adamw", .device = device_name, .threads = threads};
  DELTA_RETURN_IF_ERROR(delta_test_read_about(&subject->run));
  script_t quiet = {.surprises = DELTA_TEST_NO_SURPRISE};
  for (int step = 0; step < STEPS; ++step) quiet.budgets[step] = -1;
  delta_plan_summary_t without;
  DELTA_RETURN_IF_ERROR(plan_and_train(subject, "none", "unlimited", &quiet, &without, &subject->wanted));
  const delta_plan_options_t options = delta_test_model_plan_options(&subject->run, "delta-fixed", "minimum");
  delta_plan_t *plan = NULL;
  subject->summary.struct_size = sizeof subject->summary;
  delta_status_t status = delta_plan_create(&options, delta_allocator_system(), &plan, &subject->summary);
  delta_plan_free(plan);
  subject->summary.unlimited_peak_bytes = without.arena_bytes;
  return status;
}

static const char *judge(const subject_t *subject, const outcome_t *found) {
  const outcome_t *wanted = &subject->wanted;
  if (memcmp(wanted->losses, found->losses, (size_t)found->ended * sizeof *wanted->losses) != 0) return "losses differ";
  if (found->ended <= STEPS) return NULL;
  if (wanted->state_bytes != found->state_bytes || memcmp(wanted->states, found->states, wanted->state_bytes) != 0) return "states differ";
  return NULL;
}

static bool run_script(const subject_t *subject, uint32_t number) {
  script_t script = make_script(number);
  char budget[32];
  outcome_t found;
  delta_plan_summary_t summary;
  format_budget(subject, script.planned, budget);
  delta_status_t status = plan_and_train(subject, "delta-fixed", budget, &script, &summary, &found);
  const char *why = status ? delta_status_message(status) : judge(subject, &found);
  if (why) printf("FAIL %s, script %u, budget %s: %s\n", subject->model.name, number, budget, why);
  delta_status_free(status);
  delta_release(delta_allocator_system(), found.states);
  fflush(stdout);
  return !why;
}

// Those of the shared test material, for a run without a folder.
static size_t list_shared_models(delta_test_model_t *models) {
  const char *shared = getenv("DELTA_SHARED");
  char folder[DELTA_TEST_MODEL_PATH_BYTES];
  snprintf(folder, sizeof folder, "%s/models", shared ? shared : DELTA_DEFAULT_SHARED);
  return delta_test_list_models(folder, models, 0, MOST_MODELS);
}

int main(int argc, char **argv) {
  static delta_test_model_t models[MOST_MODELS];
  static subject_t subjects[MOST_MODELS];
  const char *only = NULL;
  size_t model_count = 0, count = 0;
  int threads = 1, scripts = 24, first = 0, passed = 0, failed = 0;
  for (int k = 1; k < argc; ++k) {
    const bool has_value = k + 1 < argc;
    if (strcmp(argv[k], "--threads") == 0 && has_value) {
      threads = atoi(argv[++k]);
    } else if (strcmp(argv[k], "--scripts") == 0 && has_value) {
      scripts = atoi(argv[++k]);
    } else if (strcmp(argv[k], "--first") == 0 && has_value) {
      first = atoi(argv[++k]);
    } else if (strcmp(argv[k], "--device") == 0 && has_value) {
      device_name = argv[++k];
    } else if (strcmp(argv[k], "--verbose") == 0) {
      is_verbose = true;
    } else if (strcmp(argv[k], "--models") == 0 && has_value) {
      only = argv[++k];
    } else {
      model_count = delta_test_list_models(argv[k], models, model_count, MOST_MODELS);
    }
  }
  if (model_count == 0) model_count = list_shared_models(models);
  for (size_t m = 0; m < model_count; ++m) {
    if (delta_test_is_listed(only, models[m].name)) subjects[count++].model = models[m];
  }
  if (count == 0) {
    printf("skip surprises: no model in the folder\n0 passed, 0 failed, 1 skipped\n");
    return 77;
  }
  for (size_t s = 0; s < count; ++s) {
    delta_status_t status = prepare(&subjects[s], threads);
    if (status) printf("FAIL %s, undisturbed: %s\n", subjects[s].model.name, delta_status_message(status));
    failed += status != NULL;
    delta_status_free(status);
  }
  for (int number = first; number < first + scripts && failed == 0; ++number) {
    const bool is_right = run_script(&subjects[(size_t)number % count], (uint32_t)number);
    passed += is_right;
    failed += !is_right;
  }
  for (size_t s = 0; s < count; ++s) delta_release(delta_allocator_system(), subjects[s].wanted.states);
  for (int k = 0; k < KIND_COUNT; ++k) {
    printf("%-32s %4u times, %4u answered within the step, the others after %u steps at most\n", kind_texts[k], reactions[k].times,
           reactions[k].within, reactions[k].longest);
  }
  printf("%d of the trainings ended at a full disk, with an error that names the tensor\n", ended_count);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed > 0;
}
