// Pages of docs/ that describe files: they have every member that is written, and none that is not.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "plans/plan_json.h"
#include "plans/problem_json.h"
#include "runtime/metrics.h"
#include "runtime/profile.h"
#include "tests/support/format_page.h"
#include "tests/support/plan_sample.h"
#include "tests/support/workplace.h"

Test(format_pages, plan) {
  delta_plan_t *plan = delta_test_sample_plan(3);
  delta_alternative_t alternative = {.before = 0, .after = 1, .rebuild_seconds = 0.5};
  // What a plan has only sometimes.
  plan->totals.host_budget_bytes = 1 << 20;
  plan->numerics.math = DELTA_FLOAT_MATH_TF32;
  plan->states[0].is_below = true;
  plan->programs[1].schedule->alternatives = &alternative;
  plan->programs[1].schedule->alternative_count = 1;
  plan->programs[0].schedule->steps[0].workspace = 0;
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  delta_test_must(delta_plan_to_json(plan, &text));
  delta_test_expect_page("plan-format.md", text.items, NULL);
  delta_text_deinit(&text);
  delta_plan_free(plan);
}

Test(format_pages, profile) {
  delta_profile_t *profile = NULL;
  delta_test_must(delta_profile_create_empty(delta_allocator_system(), &profile));
  profile->device = profile->processor = profile->instruction_set = profile->libraries = "cpu";
  profile->math = DELTA_FLOAT_MATH_TF32; // float32 is not written
  for (uint32_t id = 0; id < DELTA_PROFILE_COUNT; ++id) delta_profile_set_number(profile, (delta_profile_id_t)id, 1, "assumed");
  delta_test_must(
      delta_profile_set(profile, &(delta_profile_entry_t){.key = "conv/1", .kernel = "fast", .seconds = 1, .workspace_bytes = 64}));
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  delta_test_must(delta_profile_to_json(profile, &text));
  delta_test_expect_page("profile-format.md", text.items, "kernels");
  delta_text_deinit(&text);
  delta_profile_free(profile);
}

Test(format_pages, problem) {
  // Every field that is read; what is written is the same.
  static const char whole[] =
      "{\"budget_bytes\": 4096, \"host_budget_bytes\": 4096, \"d2h_bytes_per_s\": 2, \"h2d_bytes_per_s\": 2, \"shared_bytes_per_s\": 3,"
      " \"d2h_start_s\": 1, \"h2d_start_s\": 1, \"d2h_start_drag\": 0.1, \"h2d_start_drag\": 0.1, \"d2h_drag\": 0.1, \"h2d_drag\": 0.1,"
      " \"tensors\": [{\"name\": \"x\", \"bytes\": 64, \"initial\": true}, {\"name\": \"y\", \"bytes\": 64, \"output\": true},"
      " {\"name\": \"p\", \"bytes\": 64, \"pinned\": true}, {\"name\": \"whole\", \"bytes\": 64}, {\"name\": \"left\", \"bytes\": 32},"
      " {\"name\": \"right\", \"bytes\": 32},"
      " {\"name\": \"w\", \"bytes\": 64, \"state\": true, \"below\": true}, {\"name\": \"v\", \"bytes\": 64, \"becomes\": \"w\"}],"
      " \"nodes\": [{\"name\": \"f\", \"compute_s\": 1, \"inputs\": [\"x\"], \"outputs\": [\"y\", \"p\", \"whole\"], \"workspace_bytes\": "
      "64,"
      " \"pure\": false, \"kind\": \"product\", \"inplace\": [[\"x\", \"y\"]]},"
      " {\"name\": \"g\", \"compute_s\": 1, \"inputs\": [\"whole\"], \"outputs\": [\"left\", \"right\"], \"in_row\": true},"
      " {\"name\": \"h\", \"compute_s\": 1, \"inputs\": [\"w\"], \"outputs\": [\"v\"]}]}";
  delta_problem_t *problem = NULL;
  delta_test_must(delta_problem_from_json(whole, strlen(whole), "whole.json", delta_allocator_system(), &problem));
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  delta_test_must(delta_problem_to_json(problem, &text));
  delta_test_expect_page("problem-format.md", text.items, NULL);
  delta_text_deinit(&text);
  delta_problem_free(problem);
}

// Metrics of a step and an evaluation with all that they may have, of a plan, and of a sweep.
Test(format_pages, output, .timeout = 60) {
  const delta_train_step_t step = {.has_gradient_norm = true, .host_bytes = 4096};
  const delta_train_evaluation_t evaluation = {.has_accuracy = true};
  delta_workplace_t w;
  delta_metrics_t metrics;
  char path[DELTA_TEST_PATH_BYTES];
  delta_workplace_open(&w);
  delta_test_folder_path(&w.folder, "m.jsonl", path);
  delta_test_must(delta_metrics_open(path, false, delta_allocator_system(), &metrics));
  delta_test_must(delta_metrics_write_step(&metrics, &step));
  delta_test_must(delta_metrics_write_evaluation(&metrics, &evaluation));
  delta_test_must(delta_metrics_close(&metrics));
  delta_workplace_expect(&w, "deltaplan model.onnx --loss cross_entropy --batch 4 --json > plan.json");
  delta_workplace_expect(
      &w, "deltaplan --fit model.onnx --loss cross_entropy --batch 4 --profile estimate --budget 1,unlimited --json > sweep.json");
  delta_workplace_expect(
      &w, "(echo '['; head -n 1 m.jsonl; echo ,; tail -n 1 m.jsonl; echo ,; cat plan.json; echo ,; cat sweep.json; echo ']') > all.json");
  char *text = delta_workplace_read(&w, "all.json");
  cr_assert_not_null(text);
  delta_test_expect_page("output.md", text, NULL);
  free(text);
  delta_workplace_close(&w);
}
