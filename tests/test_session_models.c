// Session models: every model of the test material through plan, session and export, by both policies: memory as planned, no allocation in
// a step, and the exported files evaluate as the session does.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "plans/plan.h"
#include "tests/support/training.h"

enum { MOST_MODELS = 64, NAME_BYTES = 64 };

typedef struct model_case {
  char name[NAME_BYTES];
  char policy[8];
} model_case_t;

typedef struct model_facts {
  char loss[32];
  int64_t class_axis, ignore_index, batch;
} model_facts_t;

static delta_json_document_t *read_about(const char *name) {
  char relative[2 * NAME_BYTES], path[DELTA_TEST_PATH_BYTES], *text = NULL;
  size_t size_bytes;
  snprintf(relative, sizeof relative, "models/%s/about.json", name);
  if (!delta_test_shared_path(relative, path)) return NULL;
  delta_json_document_t *about = NULL;
  delta_test_expect_ok(delta_file_read_all(path, 1 << 24, delta_allocator_system(), &text, &size_bytes), path);
  delta_test_expect_ok(delta_json_parse(text, size_bytes, path, delta_allocator_system(), &about), path);
  delta_release(delta_allocator_system(), text);
  return about;
}

static model_facts_t read_facts(const char *name) {
  model_facts_t facts = {.class_axis = 1, .ignore_index = -100};
  delta_json_document_t *about = read_about(name);
  const delta_json_value_t *root = delta_json_root(about), *loss = NULL;
  const char *loss_name = NULL;
  delta_test_expect_ok(delta_json_get_object(about, root, "loss", &loss), name);
  delta_test_expect_ok(delta_json_get_string(about, loss, "name", &loss_name), name);
  snprintf(facts.loss, sizeof facts.loss, "%s", strcmp(loss_name, "bce_logits") == 0 ? "bce_with_logits" : loss_name);
  delta_test_expect_ok(delta_json_get_int64(about, root, "batch_size", 1, 1 << 20, &facts.batch), name);
  if (delta_json_find(loss, "class_axis")) {
    delta_test_expect_ok(delta_json_get_int64(about, loss, "class_axis", -8, 8, &facts.class_axis), name);
    delta_test_expect_ok(delta_json_get_int64(about, loss, "ignore_index", -1000000, 1000000, &facts.ignore_index), name);
  }
  delta_json_free(about);
  return facts;
}

static delta_plan_options_t options_of(const model_case_t *c, const model_facts_t *facts) {
  delta_plan_options_t options = delta_test_plan_options(facts->batch);
  options.loss = facts->loss;
  options.class_axis = facts->class_axis;
  options.ignore_index = facts->ignore_index;
  options.policy = c->policy;
  return options;
}

static size_t list_cases(model_case_t *cases) {
  char folder[DELTA_TEST_PATH_BYTES];
  if (!delta_test_shared_path("models", folder)) return 0;
  DIR *directory = opendir(folder);
  size_t count = 0;
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    delta_json_document_t *about = entry->d_name[0] == '.' || strlen(entry->d_name) >= NAME_BYTES ? NULL : read_about(entry->d_name);
    for (int k = 0; about && k < 2 && count < 2 * MOST_MODELS; ++k) {
      strcpy(cases[count].name, entry->d_name);
      strcpy(cases[count++].policy, k ? "eager" : "none");
    }
    delta_json_free(about);
  }
  if (directory) closedir(directory);
  return count;
}

// Without the material there is one case without a name, which is skipped.
ParameterizedTestParameters(session_models, every_model_is_trained_and_exported) {
  static model_case_t cases[2 * MOST_MODELS];
  const size_t count = list_cases(cases);
  return cr_make_param_array(model_case_t, cases, count ? count : 1);
}

// The exported file, planned and opened by itself, evaluates samples to the same loss.
static void expect_export(delta_test_training_t *trained, const delta_plan_options_t *options, int for_training, double loss,
                          const char *name) {
  delta_test_training_t again = {0};
  delta_test_folder_make(&again.folder);
  delta_test_folder_path(&again.folder, "model.onnx", again.model_path);
  delta_test_expect_ok(delta_session_export(trained->session, again.model_path, for_training), name);
  delta_test_expect_ok(delta_test_training_plan(&again, options, delta_allocator_system()), name);
  delta_test_expect_ok(delta_test_training_start(&again, delta_allocator_system()), name);
  double found = delta_test_run(again.session, DELTA_RUN_EVALUATE, 0, options->batch, 0).loss;
  cr_expect_float_eq(found, loss, 1e-5 * fmax(1, fabs(loss)), "%s, for training %d: %.9g and %.9g", name, for_training, found, loss);
  delta_test_training_close(&again);
}

ParameterizedTest(model_case_t *c, session_models, every_model_is_trained_and_exported, .timeout = 120) {
  char path[DELTA_TEST_PATH_BYTES], relative[2 * NAME_BYTES];
  DELTA_SKIP_WITHOUT_SHARED("models", path);
  snprintf(relative, sizeof relative, "models/%s/model.onnx", c->name);
  delta_test_training_t training = {0};
  cr_assert(delta_test_shared_path(relative, training.model_path));
  delta_test_folder_make(&training.folder);
  const model_facts_t facts = read_facts(c->name);
  const delta_plan_options_t options = options_of(c, &facts);
  delta_test_allocator_t counting;
  delta_test_allocator_init(&counting, 0, DELTA_TEST_FAIL_ONCE);
  delta_test_expect_ok(delta_test_training_plan(&training, &options, delta_test_allocator_interface(&counting)), c->name);
  delta_test_expect_ok(delta_test_training_start(&training, delta_test_allocator_interface(&counting)), c->name);
  const size_t calls = counting.call_count;
  delta_run_report_t report = {.struct_size = sizeof report};
  for (int step = 0; step < 2; ++step) report = delta_test_run(training.session, DELTA_RUN_TRAIN, step * facts.batch, facts.batch, 1e-3);
  cr_expect_eq(report.arena_peak_bytes, training.plan->totals.arena_bytes, "%s: planned %llu, committed %llu", c->name,
               (unsigned long long)training.plan->totals.arena_bytes, (unsigned long long)report.arena_peak_bytes);
  const double loss = delta_test_run(training.session, DELTA_RUN_EVALUATE, 0, facts.batch, 0).loss;
  cr_expect(isfinite(loss));
  cr_expect_eq(counting.call_count, calls, "%s: %zu allocations in three programs", c->name, counting.call_count - calls);
  expect_export(&training, &options, 0, loss, c->name);
  expect_export(&training, &options, 1, loss, c->name);
  delta_test_training_close(&training);
  cr_expect_eq(counting.live_blocks, 0);
}
