// Trains every model of the folders given at three budgets, and compares with training without one: losses, weights, optimizer states and statistics must be the
// same to the last bit, committed bytes never above the budget, and one granule less than the smallest budget must be refused. Prints a line per case and a total.
//
//   run_budgets FOLDER... [--threads N] [--model NAME] [--batch N] [--policy NAME (delta)] [--time-limit SECONDS (1)]
//
// FOLDER has a folder per model with model.onnx and perhaps about.json, which names the loss; or .onnx files, which train by cross entropy.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <delta/delta.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

enum { PATH_BYTES = 1024, NAME_BYTES = 256, MOST_MODELS = 256, STEPS = 3, GRANULE_BYTES = 4096 };

typedef struct model_entry {
  char path[PATH_BYTES], about_path[PATH_BYTES], name[NAME_BYTES];
} model_entry_t;

typedef struct budget_run {
  const model_entry_t *model;
  const char *optimizer, *policy;
  int threads;
  double time_limit_seconds; // of each plan's search
  int64_t batch;
  char loss[NAME_BYTES];
  int64_t class_axis, ignore_index;
} budget_run_t;

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

// ---- Data: bits of a counter, scaled to each input's legal values

typedef struct data_source {
  delta_session_t *session;
  int64_t rows;
  uint64_t state;
} data_source_t;

static uint64_t next_bits(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static delta_status_t fill_inputs(void *self, void *const *buffers) {
  data_source_t *source = self;
  uint64_t state = source->state;
  for (size_t i = 0; i < delta_session_input_count(source->session); ++i) {
    delta_input_info_t info;
    DELTA_RETURN_IF_ERROR(delta_session_input(source->session, i, &info));
    delta_dtype_t dtype = DELTA_DTYPE_FLOAT32;
    for (int d = 0; d < DELTA_DTYPE_COUNT; ++d) {
      if (strcmp(delta_dtype_name((delta_dtype_t)d), info.dtype) == 0) dtype = (delta_dtype_t)d;
    }
    size_t count = (size_t)source->rows;
    for (int d = 1; d < info.rank; ++d) count *= (size_t)info.dims[d];
    const uint64_t span = info.maximum > info.minimum ? (uint64_t)(info.maximum - info.minimum) : 1;
    for (size_t k = 0; k < count; ++k) {
      const uint64_t bits = next_bits(&state);
      if (delta_dtype_is_float(dtype)) {
        delta_element_store_double(buffers[i], dtype, k, (double)(bits >> 11) * 0x1p-53);
      } else {
        delta_element_store_int64(buffers[i], dtype, k, info.minimum + (int64_t)(bits % span));
      }
    }
  }
  return DELTA_OK;
}

// ---- Training

static delta_plan_options_t plan_options(const budget_run_t *run, const char *policy, const char *budget) {
  delta_plan_options_t options;
  delta_plan_options_init(&options);
  options.model_path = run->model->path;
  options.policy = policy;
  options.budget = budget;
  options.time_limit_seconds = run->time_limit_seconds;
  options.batch = run->batch;
  options.loss = run->loss;
  options.class_axis = run->class_axis;
  options.ignore_index = run->ignore_index;
  options.optimizer = run->optimizer;
  options.momentum = strcmp(run->optimizer, "sgd") == 0 ? 0.9 : -1;
  options.threads = run->threads;
  options.init = "random"; // only where weights are missing
  return options;
}

static delta_status_t run_once(delta_session_t *session, delta_run_program_t program, int64_t rows, uint64_t seed, double *out_loss,
                               outcome_t *outcome) {
  data_source_t source = {.session = session, .rows = rows, .state = seed};
  const delta_batch_t batch = {.rows = rows, .fill = fill_inputs, .self = &source};
  delta_run_report_t report = {.struct_size = sizeof report};
  DELTA_RETURN_IF_ERROR(delta_session_run(session, program, &batch, 0.01, &report));
  *out_loss = report.loss;
  if (report.arena_peak_bytes > outcome->most_committed_bytes) outcome->most_committed_bytes = report.arena_peak_bytes;
  outcome->host_bytes = report.host_bytes;
  outcome->step_seconds = report.seconds;
  return DELTA_OK;
}

static delta_status_t read_states(delta_session_t *session, outcome_t *outcome) {
  for (int pass = 0; pass < 2; ++pass) {
    size_t at = 0;
    for (size_t i = 0; i < delta_session_state_count(session); ++i) {
      delta_state_info_t info;
      DELTA_RETURN_IF_ERROR(delta_session_state(session, i, &info));
      if (pass > 0) DELTA_RETURN_IF_ERROR(delta_session_read(session, info.name, outcome->states + at, info.size_bytes));
      at += info.size_bytes;
    }
    if (pass > 0) break;
    outcome->state_bytes = at;
    DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(delta_allocator_system(), at, &outcome->states));
  }
  return DELTA_OK;
}

static delta_status_t train(delta_session_t *session, int64_t batch, outcome_t *outcome) {
  int slot = 0;
  if (batch > 1 && !delta_session_has_fixed_batch(session)) {
    DELTA_RETURN_IF_ERROR(run_once(session, DELTA_RUN_TRAIN, batch - 1, 77, &outcome->losses[slot++], outcome));
  }
  for (int step = 0; step < STEPS; ++step) {
    DELTA_RETURN_IF_ERROR(run_once(session, DELTA_RUN_TRAIN, batch, (uint64_t)step, &outcome->losses[slot++], outcome));
  }
  const double step_seconds = outcome->step_seconds;
  DELTA_RETURN_IF_ERROR(run_once(session, DELTA_RUN_EVALUATE, batch, 99, &outcome->losses[slot++], outcome));
  outcome->step_seconds = step_seconds;
  return read_states(session, outcome);
}

static delta_status_t plan_and_train(const budget_run_t *run, const char *policy, const char *budget, outcome_t *outcome) {
  *outcome = (outcome_t){.summary = {.struct_size = sizeof outcome->summary}};
  const delta_plan_options_t options = plan_options(run, policy, budget);
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

static void report_failure(const budget_run_t *run, const char *what, const char *why, totals_t *totals) {
  printf("FAIL %s %s %s: %s\n", run->model->name, run->optimizer, what, why);
  ++totals->failed;
}

// One budget against the training without.
static void run_case(const budget_run_t *run, const char *what, const char *budget, const outcome_t *wanted, totals_t *totals) {
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
}

// One granule less than the smallest budget: no plan.
static void run_refusal(const budget_run_t *run, uint64_t minimum_bytes, totals_t *totals) {
  char budget[32];
  snprintf(budget, sizeof budget, "%llu", (unsigned long long)(minimum_bytes - GRANULE_BYTES));
  const delta_plan_options_t options = plan_options(run, run->policy, budget);
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

static void run_budgets(const budget_run_t *run, totals_t *totals) {
  outcome_t wanted;
  delta_status_t status = plan_and_train(run, "none", "unlimited", &wanted);
  if (status) {
    report_failure(run, "without a budget", delta_status_message(status), totals);
  } else {
    outcome_t least = {.summary = {.struct_size = sizeof least.summary}};
    const delta_plan_options_t options = plan_options(run, run->policy, "minimum");
    delta_plan_t *plan = NULL;
    status = delta_plan_create(&options, delta_allocator_system(), &plan, &least.summary);
    delta_plan_free(plan);
    const uint64_t minimum_bytes = least.summary.minimum_budget_bytes, kept_bytes = wanted.summary.arena_bytes;
    char half_way[32];
    snprintf(half_way, sizeof half_way, "%llu", (unsigned long long)(minimum_bytes + (kept_bytes - minimum_bytes) / 2));
    run_case(run, "minimum", "minimum", &wanted, totals);
    run_case(run, "half-way", half_way, &wanted, totals);
    run_case(run, "unlimited", "unlimited", &wanted, totals);
    run_refusal(run, minimum_bytes, totals);
  }
  delta_status_free(status);
  delta_release(delta_allocator_system(), wanted.states);
}

// ---- Models

// Loss and batch of about.json; without the file, cross entropy.
static delta_status_t read_about(budget_run_t *run) {
  const delta_allocator_t allocator = delta_allocator_system();
  char *text = NULL;
  size_t size_bytes;
  snprintf(run->loss, sizeof run->loss, "cross_entropy");
  run->class_axis = 1;
  run->ignore_index = -100;
  delta_status_t status = delta_file_read_all(run->model->about_path, 1 << 24, allocator, &text, &size_bytes);
  if (delta_status_code(status) == DELTA_STATUS_NOT_FOUND) {
    delta_status_free(status);
    if (run->batch == 0) run->batch = 8;
    return DELTA_OK;
  }
  delta_json_document_t *about = NULL;
  const delta_json_value_t *loss = NULL;
  const char *name = NULL;
  if (!status) status = delta_json_parse(text, size_bytes, run->model->about_path, allocator, &about);
  if (!status) status = delta_json_get_object(about, delta_json_root(about), "loss", &loss);
  if (!status) status = delta_json_get_string(about, loss, "name", &name);
  if (!status) snprintf(run->loss, sizeof run->loss, "%s", strcmp(name, "bce_logits") == 0 ? "bce_with_logits" : name);
  if (!status && delta_json_find(loss, "class_axis")) status = delta_json_get_int64(about, loss, "class_axis", -8, 8, &run->class_axis);
  if (!status && delta_json_find(loss, "ignore_index")) {
    status = delta_json_get_int64(about, loss, "ignore_index", -1000000, 1000000, &run->ignore_index);
  }
  if (!status && run->batch == 0) status = delta_json_get_int64(about, delta_json_root(about), "batch_size", 1, 1 << 20, &run->batch);
  delta_json_free(about);
  delta_release(allocator, text);
  return status;
}

static int compare_models(const void *a, const void *b) {
  return strcmp(((const model_entry_t *)a)->name, ((const model_entry_t *)b)->name);
}

static bool exists(const char *path) {
  FILE *file = fopen(path, "r");
  if (file) fclose(file);
  return file != NULL;
}

static size_t list_models(const char *folder, model_entry_t *models, size_t count) {
  DIR *directory = opendir(folder);
  for (struct dirent *entry; directory && count < MOST_MODELS && (entry = readdir(directory));) {
    model_entry_t *model = &models[count];
    const char *dot = strrchr(entry->d_name, '.');
    if (entry->d_name[0] == '.') continue;
    *model = (model_entry_t){0};
    snprintf(model->name, sizeof model->name, "%s", entry->d_name);
    if (dot && strcmp(dot, ".onnx") == 0) {
      snprintf(model->path, sizeof model->path, "%s/%s", folder, entry->d_name);
    } else {
      snprintf(model->path, sizeof model->path, "%s/%s/model.onnx", folder, entry->d_name);
      snprintf(model->about_path, sizeof model->about_path, "%s/%s/about.json", folder, entry->d_name);
    }
    if (exists(model->path)) ++count;
  }
  if (directory) closedir(directory);
  return count;
}

static void run_model(const budget_run_t *settings, const model_entry_t *model, totals_t *totals) {
  static const char *const optimizers[] = {"sgd", "adamw"};
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; ++i) {
    budget_run_t run = *settings;
    run.model = model;
    run.optimizer = optimizers[i];
    delta_status_t status = read_about(&run);
    if (status) {
      report_failure(&run, "about.json", delta_status_message(status), totals);
      delta_status_free(status);
    } else {
      run_budgets(&run, totals);
    }
  }
}

int main(int argc, char **argv) {
  static model_entry_t models[MOST_MODELS];
  const char *only = NULL;
  size_t count = 0;
  budget_run_t settings = {.policy = "delta", .threads = 1, .time_limit_seconds = 1};
  for (int k = 1; k < argc; ++k) {
    if (strcmp(argv[k], "--threads") == 0 && k + 1 < argc) {
      settings.threads = atoi(argv[++k]);
    } else if (strcmp(argv[k], "--model") == 0 && k + 1 < argc) {
      only = argv[++k];
    } else if (strcmp(argv[k], "--policy") == 0 && k + 1 < argc) {
      settings.policy = argv[++k];
    } else if (strcmp(argv[k], "--time-limit") == 0 && k + 1 < argc) {
      settings.time_limit_seconds = atof(argv[++k]);
    } else if (strcmp(argv[k], "--batch") == 0 && k + 1 < argc) {
      settings.batch = atoll(argv[++k]);
    } else {
      count = list_models(argv[k], models, count);
    }
  }
  if (count == 0) {
    fprintf(stderr,
            "usage: run_budgets FOLDER... [--threads N] [--model NAME] [--batch N] [--policy NAME] [--time-limit SECONDS]; "
            "FOLDER has models or a folder per model\n");
    return 2;
  }
  qsort(models, count, sizeof *models, compare_models);
  totals_t totals = {0};
  for (size_t k = 0; k < count; ++k) {
    if (only && strcmp(only, models[k].name) != 0) {
      printf("skip %s\n", models[k].name);
      ++totals.skipped;
    } else {
      run_model(&settings, &models[k], &totals);
    }
  }
  printf("%d passed, %d failed, %d skipped\n", totals.passed, totals.failed, totals.skipped);
  return totals.failed > 0;
}
