// Trains every model of the folders given at three budgets, and compares with training without one: losses, weights, optimizer states and statistics must be the
// same to the last bit, committed bytes never above the budget, and one granule less than the smallest budget must be refused. Prints a line per case and a total.
//
//   run_budgets [FOLDER...] [--threads N] [--model NAME] [--graph NAME] [--batch N] [--optimizer NAME] [--policy NAME (delta)] [--time-limit SECONDS (1)]
//               [--device NAME (cpu)] [--granule BYTES (4096)] [--partial all-but-one|half (all-but-one)]
//
// FOLDER (the shared models) has a folder per model with model.onnx and perhaps about.json, which names the loss; or .onnx files, which train by cross entropy. NAME is one of the
// shared graphs of full size, whose weights are drawn; without the shared material it is skipped (exit 77). --optimizer: one, of sgd and adamw both. --partial: how many rows a
// smaller batch has; on a device with large alignments an odd number of them can need more memory than a whole batch, since parts no longer fill whole units of it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <delta/delta.h>

#include "base/allocator.h"
#include "tests/support/model_run.h"
#include "tests/support/support.h"

enum { MOST_MODELS = 256, STEPS = 3 };

static uint64_t granule_bytes = 4096;
static bool halves_batch;

// What a training left behind.
typedef struct outcome {
  double losses[STEPS + 2]; // steps, a partial batch, an evaluation
  uint8_t *states;          // Owned.
  size_t state_bytes;
  uint64_t most_committed_bytes, host_bytes;
  double step_seconds;
  delta_plan_summary_t summary;
} outcome_t;

typedef struct totals {
  int passed, failed, skipped;
} totals_t;

// ---- Training

static delta_status_t run_once(delta_session_t *session, delta_run_program_t program, int64_t rows, uint64_t seed, double *out_loss,
                               outcome_t *outcome) {
  delta_run_report_t report;
  DELTA_RETURN_IF_ERROR(delta_test_run_seeded(session, program, rows, seed, &report));
  *out_loss = report.loss;
  if (report.arena_peak_bytes > outcome->most_committed_bytes) outcome->most_committed_bytes = report.arena_peak_bytes;
  outcome->host_bytes = report.host_bytes;
  outcome->step_seconds = report.seconds;
  return DELTA_OK;
}

static delta_status_t train(delta_session_t *session, int64_t batch, outcome_t *outcome) {
  int slot = 0;
  if (batch > 1 && !delta_session_has_fixed_batch(session)) {
    const int64_t rows = halves_batch ? batch / 2 : batch - 1;
    DELTA_RETURN_IF_ERROR(run_once(session, DELTA_RUN_TRAIN, rows, 77, &outcome->losses[slot++], outcome));
  }
  for (int step = 0; step < STEPS; ++step) {
    DELTA_RETURN_IF_ERROR(run_once(session, DELTA_RUN_TRAIN, batch, (uint64_t)step, &outcome->losses[slot++], outcome));
  }
  const double step_seconds = outcome->step_seconds;
  DELTA_RETURN_IF_ERROR(run_once(session, DELTA_RUN_EVALUATE, batch, 99, &outcome->losses[slot++], outcome));
  outcome->step_seconds = step_seconds;
  return delta_test_read_all_states(session, &outcome->states, &outcome->state_bytes);
}

static delta_status_t plan_and_train(const delta_test_model_run_t *run, const char *policy, const char *budget, outcome_t *outcome) {
  *outcome = (outcome_t){.summary = {.struct_size = sizeof outcome->summary}};
  const delta_plan_options_t options = delta_test_model_plan_options(run, policy, budget);
  delta_plan_t *plan = NULL;
  delta_session_t *session = NULL;
  delta_session_options_t session_options;
  delta_session_options_init(&session_options);
  delta_status_t status = delta_plan_create(&options, delta_allocator_system(), &plan, &outcome->summary);
  session_options.plan = plan;
  session_options.model_path = run->model->path;
  session_options.seed = 1;
  session_options.verify_arena = 1;
  if (!status) status = delta_session_create(&session_options, delta_allocator_system(), &session);
  if (!status) status = train(session, outcome->summary.batch, outcome);
  delta_session_destroy(session);
  delta_plan_free(plan);
  return status;
}

// ---- Judging

static bool same_bits(const outcome_t *a, const outcome_t *b) {
  return a->state_bytes == b->state_bytes && memcmp(a->states, b->states, a->state_bytes) == 0 &&
         memcmp(a->losses, b->losses, sizeof a->losses) == 0;
}

static const char *judge(const outcome_t *wanted, const outcome_t *found) {
  if (!same_bits(wanted, found)) return "results differ";
  if (found->most_committed_bytes > found->summary.budget_bytes) return "committed more than the budget";
  if (strcmp(wanted->summary.numerics_id, found->summary.numerics_id) != 0) return "numerics_id differs";
  return NULL;
}

static void report_failure(const delta_test_model_run_t *run, const char *what, const char *why, totals_t *totals) {
  printf("FAIL %s %s %s: %s\n", run->model->name, run->optimizer, what, why);
  ++totals->failed;
}

// One budget against the training without. Returns the least budget that the plan names; 0 where there is none.
static uint64_t run_case(const delta_test_model_run_t *run, const char *what, const char *budget, const outcome_t *wanted,
                         totals_t *totals) {
  outcome_t found;
  delta_status_t status = plan_and_train(run, run->policy, budget, &found);
  const char *why = status ? delta_status_message(status) : judge(wanted, &found);
  if (why) {
    report_failure(run, what, why, totals);
  } else {
    printf("ok   %s %s %s: budget %lld, arena %llu of %llu, states %llu, host %llu, %u swapped, %u run again, step %.2f ms of %.2f\n",
           run->model->name, run->optimizer, what, (long long)found.summary.budget_bytes, (unsigned long long)found.most_committed_bytes,
           (unsigned long long)wanted->most_committed_bytes, (unsigned long long)found.summary.state_bytes,
           (unsigned long long)found.host_bytes, found.summary.swapped_tensors, found.summary.recomputed_nodes, 1e3 * found.step_seconds,
           1e3 * wanted->step_seconds);
    ++totals->passed;
  }
  delta_status_free(status);
  delta_release(delta_allocator_system(), found.states);
  fflush(stdout);
  return found.summary.minimum_budget_bytes;
}

// One granule less than the smallest budget: no plan.
static void run_refusal(const delta_test_model_run_t *run, uint64_t minimum_bytes, totals_t *totals) {
  char budget[32];
  snprintf(budget, sizeof budget, "%llu", (unsigned long long)(minimum_bytes - granule_bytes));
  const delta_plan_options_t options = delta_test_model_plan_options(run, run->policy, budget);
  delta_plan_t *plan = NULL;
  delta_status_t status = delta_plan_create(&options, delta_allocator_system(), &plan, NULL);
  if (delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT) {
    printf("ok   %s %s below the smallest budget: refused\n", run->model->name, run->optimizer);
    ++totals->passed;
  } else {
    report_failure(run, "below the smallest budget", status ? delta_status_message(status) : "a plan was made", totals);
  }
  delta_status_free(status);
  delta_plan_free(plan);
}

static void run_budgets(const delta_test_model_run_t *run, totals_t *totals) {
  outcome_t wanted;
  delta_status_t status = plan_and_train(run, "none", "unlimited", &wanted);
  if (status) {
    report_failure(run, "without a budget", delta_status_message(status), totals);
  } else {
    const uint64_t minimum_bytes = run_case(run, "minimum", "minimum", &wanted, totals), kept_bytes = wanted.summary.arena_bytes;
    char half_way[32];
    snprintf(half_way, sizeof half_way, "%llu", (unsigned long long)(minimum_bytes + (kept_bytes - minimum_bytes) / 2));
    run_case(run, "unlimited", "unlimited", &wanted, totals);
    if (minimum_bytes == 0) {
      report_failure(run, "smallest budget", "there is no plan that names it", totals);
    } else {
      run_case(run, "half-way", half_way, &wanted, totals);
      run_refusal(run, minimum_bytes, totals);
    }
  }
  delta_status_free(status);
  delta_release(delta_allocator_system(), wanted.states);
}

// ---- Models

static void run_model(const delta_test_model_run_t *settings, const delta_test_model_t *model, totals_t *totals) {
  static const char *const optimizers[] = {"sgd", "adamw"};
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; ++i) {
    delta_test_model_run_t run = *settings;
    if (settings->optimizer && strcmp(settings->optimizer, optimizers[i]) != 0) continue;
    run.model = model;
    run.optimizer = optimizers[i];
    delta_status_t status = delta_test_read_about(&run);
    if (status) {
      report_failure(&run, "about.json", delta_status_message(status), totals);
      delta_status_free(status);
    } else {
      run_budgets(&run, totals);
    }
  }
}

typedef struct arguments {
  delta_test_model_t models[MOST_MODELS];
  size_t count;
  const char *only; // NULL: all
  bool has_folder;
  bool lacks_shared; // what was asked for is not there
  delta_test_model_run_t settings;
} arguments_t;

// Adds one of the shared graphs of full size.
static void add_graph(arguments_t *arguments, const char *name) {
  char relative[DELTA_TEST_MODEL_NAME_BYTES];
  delta_test_model_t model = {0};
  snprintf(relative, sizeof relative, "graphs/%s.onnx", name);
  snprintf(model.name, sizeof model.name, "%s", name);
  if (arguments->count == MOST_MODELS || !delta_test_shared_path(relative, model.path)) {
    arguments->lacks_shared = true;
  } else {
    arguments->models[arguments->count++] = model;
  }
}

// The shared models, where nothing else is asked for.
static void add_shared_models(arguments_t *arguments) {
  char path[DELTA_TEST_PATH_BYTES];
  if (arguments->has_folder || arguments->count > 0 || arguments->lacks_shared) return;
  if (delta_test_shared_path("models", path)) {
    arguments->count = delta_test_list_models(path, arguments->models, 0, MOST_MODELS);
  } else {
    arguments->lacks_shared = true;
  }
}

// Takes an option with its value. False: it is none.
static bool take_option(arguments_t *arguments, const char *option, const char *value) {
  delta_test_model_run_t *settings = &arguments->settings;
  if (strcmp(option, "--threads") == 0) {
    settings->threads = atoi(value);
  } else if (strcmp(option, "--model") == 0) {
    arguments->only = value;
  } else if (strcmp(option, "--graph") == 0) {
    add_graph(arguments, value);
  } else if (strcmp(option, "--optimizer") == 0) {
    settings->optimizer = value;
  } else if (strcmp(option, "--policy") == 0) {
    settings->policy = value;
  } else if (strcmp(option, "--time-limit") == 0) {
    settings->time_limit_seconds = atof(value);
  } else if (strcmp(option, "--batch") == 0) {
    settings->batch = atoll(value);
  } else if (strcmp(option, "--device") == 0) {
    settings->device = value;
  } else if (strcmp(option, "--granule") == 0) {
    granule_bytes = strtoull(value, NULL, 10);
  } else if (strcmp(option, "--partial") == 0) {
    halves_batch = strcmp(value, "half") == 0;
  } else {
    return false;
  }
  return true;
}

static int print_usage(void) {
  fprintf(
      stderr,
      "usage: run_budgets [FOLDER...] [--threads N] [--model NAME] [--graph NAME] [--batch N] [--optimizer NAME] [--policy NAME] "
      "[--time-limit SECONDS] [--device NAME] [--granule BYTES] [--partial all-but-one|half]; FOLDER has models or a folder per model\n");
  return 2;
}

int main(int argc, char **argv) {
  enum { SKIPPED = 77 };
  static arguments_t arguments = {.settings = {.threads = 1, .policy = "delta", .time_limit_seconds = 1}};
  for (int k = 1; k < argc; ++k) {
    if (k + 1 < argc && take_option(&arguments, argv[k], argv[k + 1])) {
      ++k;
    } else if (strncmp(argv[k], "--", 2) == 0) {
      return print_usage();
    } else {
      arguments.has_folder = true;
      arguments.count = delta_test_list_models(argv[k], arguments.models, arguments.count, MOST_MODELS);
    }
  }
  add_shared_models(&arguments);
  if (arguments.lacks_shared) {
    printf("skip: the shared material is not there\n");
    return SKIPPED;
  }
  if (arguments.count == 0) return print_usage();
  totals_t totals = {0};
  for (size_t k = 0; k < arguments.count; ++k) {
    const bool is_asked = !arguments.only || strcmp(arguments.only, arguments.models[k].name) == 0;
    if (is_asked) run_model(&arguments.settings, &arguments.models[k], &totals);
  }
  printf("%d passed, %d failed, %d skipped\n", totals.passed, totals.failed, totals.skipped);
  return totals.failed > 0;
}
