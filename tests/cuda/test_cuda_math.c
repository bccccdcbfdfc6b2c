// TF32 as a stated choice: what is asked for is what matrix products and convolutions do, what plans and profiles keep, and what a machine without it refuses.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "plans/plan.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/support/training.h"

enum { ROWS = 16, STEPS = 3 };

static void configure(int capability_major) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.granule_bytes = DELTA_EMULATED_SMALL_GRANULE_BYTES;
  if (capability_major > 0) settings.capability_major = capability_major;
  delta_emulated_reset();
  delta_emulated_configure(&settings);
  setenv("XDG_CACHE_HOME", DELTA_BINARY_FOLDER "/tests/cache", 1);
}

static delta_plan_options_t options_of(const char *device, const char *math) {
  delta_plan_options_t options = delta_test_plan_options(ROWS);
  options.device = device;
  options.math = math;
  return options;
}

// Training by a plan that has been to a file and back: its states, and the plan's name.
static delta_test_values_t states_by(const char *model, const char *math, const char *wanted_math, char out_id[17]) {
  delta_test_training_t training;
  char path[DELTA_TEST_PATH_BYTES];
  configure(0);
  delta_test_training_write(&training, model);
  const delta_plan_options_t options = options_of("cuda:0", math);
  delta_plan_summary_t summary = {.struct_size = sizeof summary};
  delta_test_expect_ok(delta_test_training_plan(&training, &options, delta_allocator_system()), "plan");
  delta_test_folder_path(&training.folder, "model.plan", path);
  delta_test_expect_ok(delta_plan_save(training.plan, path), "saving");
  delta_plan_free(training.plan);
  delta_test_expect_ok(delta_plan_load(path, delta_allocator_system(), &training.plan), "loading");
  delta_test_expect_ok(delta_plan_summarize(training.plan, &summary), "summary");
  cr_expect_str_eq(summary.math, wanted_math);
  memcpy(out_id, summary.numerics_id, sizeof summary.numerics_id);
  delta_test_expect_ok(delta_test_training_start(&training, delta_allocator_system()), "session");
  delta_test_reset_states(training.session);
  for (int step = 0; step < STEPS; ++step) delta_test_run(training.session, DELTA_RUN_TRAIN, step * ROWS, ROWS, 0.05);
  const delta_test_values_t states = delta_test_read_states(training.session, NULL);
  delta_test_training_close(&training);
  cr_expect_eq(delta_emulated_reports(), 0, "%s", delta_emulated_last_report());
  return states;
}

static bool are_equal(const delta_test_values_t *a, const delta_test_values_t *b) {
  return a->count == b->count && memcmp(a->items, b->items, a->count * sizeof *a->items) == 0;
}

// Other sums, and near: 10 bits of fraction.
static void expect_near(const delta_test_values_t *a, const delta_test_values_t *b) {
  cr_assert_eq(a->count, b->count);
  for (size_t k = 0; k < a->count; ++k) cr_assert_float_eq(a->items[k], b->items[k], 2e-2, "element %zu", k);
}

static void check_model(const char *model) {
  char unsaid_id[17], float_id[17], narrow_id[17], again_id[17];
  delta_test_values_t unsaid = states_by(model, NULL, "float32", unsaid_id), full = states_by(model, "float32", "float32", float_id),
                      narrow = states_by(model, "tf32", "tf32", narrow_id), again = states_by(model, "tf32", "tf32", again_id);
  cr_expect(are_equal(&unsaid, &full) && strcmp(unsaid_id, float_id) == 0, "the default is float32");
  cr_expect(are_equal(&narrow, &again) && strcmp(narrow_id, again_id) == 0, "equal choices give equal bits");
  cr_expect(!are_equal(&full, &narrow), "TF32 was asked for and is not there");
  cr_expect_str_neq(float_id, narrow_id);
  expect_near(&full, &narrow);
  free(unsaid.items), free(full.items), free(narrow.items), free(again.items);
}

Test(cuda_math, matrix_products_are_by_the_plan, .timeout = 120) { check_model(delta_test_mlp); }
Test(cuda_math, convolutions_are_by_the_plan, .timeout = 120) { check_model(delta_test_batchnorm); }

// A plan whose word was changed is no plan of that build.
Test(cuda_math, a_changed_word_is_refused, .timeout = 120) {
  delta_test_training_t training;
  configure(0);
  delta_test_training_write(&training, delta_test_mlp);
  const delta_plan_options_t options = options_of("cuda:0", "tf32");
  delta_test_expect_ok(delta_test_training_plan(&training, &options, delta_allocator_system()), "plan");
  training.plan->numerics.math = DELTA_FLOAT_MATH_FLOAT32;
  delta_test_expect_status(delta_test_training_start(&training, delta_allocator_system()), DELTA_STATUS_MISMATCH, "numerics|deltaplan");
  delta_test_training_close(&training);
}

typedef struct refusal {
  const char *device, *math;
  int capability_major;
  const char *override;
  delta_status_code_t code;
  const char *words;
} refusal_t;

static const refusal_t refusals[] = {
    {"cuda:0", "tf32", 7, NULL, DELTA_STATUS_UNSUPPORTED, "cuda:0|--math tf32|sm_70|sm_80"},
    {"cuda:0", "tf32", 8, "0", DELTA_STATUS_UNSUPPORTED, "--math tf32|NVIDIA_TF32_OVERRIDE"},
    {"cuda:0", "float32", 7, "0", DELTA_STATUS_OK, NULL},
    {"cuda:0", "tf32", 8, "1", DELTA_STATUS_OK, NULL},
    {"cuda:0", "bfloat16", 0, NULL, DELTA_STATUS_INVALID_ARGUMENT, "--math|bfloat16|float32|tf32"},
    {"cuda:0", "unsaid", 0, NULL, DELTA_STATUS_INVALID_ARGUMENT, "--math|unsaid"},
    {"cpu", "tf32", 0, NULL, DELTA_STATUS_INVALID_ARGUMENT, "--math tf32|CPU"},
    {"cpu", "float32", 0, NULL, DELTA_STATUS_OK, NULL},
};

Test(cuda_math, what_there_is_not_is_refused, .timeout = 120) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; ++i) {
    const refusal_t *row = &refusals[i];
    delta_test_training_t training;
    configure(row->capability_major);
    if (row->override) setenv("NVIDIA_TF32_OVERRIDE", row->override, 1);
    delta_test_training_write(&training, delta_test_mlp);
    const delta_plan_options_t options = options_of(row->device, row->math);
    delta_status_t status = delta_test_training_plan(&training, &options, delta_allocator_system());
    if (row->code == DELTA_STATUS_OK)
      delta_test_expect_ok(status, row->device);
    else
      delta_test_expect_status(status, row->code, row->words);
    delta_test_training_close(&training);
    unsetenv("NVIDIA_TF32_OVERRIDE");
  }
}

// Costs measured one way are not those of the other: a saved profile says which, and so does the cache's file.
Test(cuda_math, profiles_keep_it, .timeout = 120) {
  delta_test_training_t training;
  char saved[DELTA_TEST_PATH_BYTES];
  configure(0);
  delta_test_training_write(&training, delta_test_mlp);
  delta_test_folder_path(&training.folder, "gpu.json", saved);
  setenv("XDG_CACHE_HOME", training.folder.path, 1);
  delta_plan_options_t options = options_of("cuda:0", "tf32");
  options.profile = "measure";
  options.save_profile = saved;
  delta_test_expect_ok(delta_test_training_plan(&training, &options, delta_allocator_system()), "measuring");
  delta_plan_free(training.plan), training.plan = NULL;
  options.profile = saved;
  options.save_profile = NULL;
  options.math = "float32";
  delta_test_expect_status(delta_test_training_plan(&training, &options, delta_allocator_system()), DELTA_STATUS_MISMATCH,
                           "gpu.json|tf32|float32|--math");
  options = options_of(saved, "float32");
  options.profile = "measure";
  delta_test_expect_status(delta_test_training_plan(&training, &options, delta_allocator_system()), DELTA_STATUS_MISMATCH,
                           "gpu.json|tf32|--math|float32");
  options.math = NULL;
  delta_test_expect_ok(delta_test_training_plan(&training, &options, delta_allocator_system()), "planning by the profile");
  cr_expect_eq(training.plan->numerics.math, DELTA_FLOAT_MATH_TF32);
  delta_test_training_close(&training);
}
