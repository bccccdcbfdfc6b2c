// Plans as JSON: what is written is read back and written again as the same bytes; wrong files give one clear message; memory may run out anywhere.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/plan_sample.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

static char *text_of(const delta_plan_t *plan) {
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  delta_test_must(delta_plan_to_json(plan, &text));
  return text.items;
}

static delta_status_t read_text(const char *text, delta_allocator_t allocator, delta_plan_t **out_plan) {
  return delta_plan_from_json(text, strlen(text), "sample.plan", allocator, out_plan);
}

Test(plan_json, reading_and_writing_give_the_same_bytes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    delta_plan_t *plan = delta_test_sample_plan(seed), *again = NULL;
    char *text = text_of(plan);
    delta_status_t status = read_text(text, delta_allocator_system(), &again);
    cr_assert_null(status, "seed %llu: %s", (unsigned long long)seed, delta_status_message(status));
    char *second = text_of(again);
    cr_assert_str_eq(text, second);
    free(text);
    free(second);
    delta_plan_free(plan);
    delta_plan_free(again);
  }
}

Test(plan_json, what_is_read_is_what_was_written) {
  delta_plan_t *plan = delta_test_sample_plan(3), *again = NULL;
  char *text = text_of(plan);
  delta_test_must(read_text(text, delta_allocator_system(), &again));
  cr_assert_eq(again->build.loss, DELTA_LOSS_CROSS_ENTROPY);
  cr_assert_eq(again->build.ignore_index, -100);
  cr_assert_eq(again->build.import.batch, 16);
  cr_assert_eq(again->build.import.dim_count, 1);
  cr_assert_str_eq(again->build.import.dims[0].symbol, "length");
  cr_assert_eq(again->build.import.dims[0].size, 128);
  cr_assert_eq(again->build.import.batchnorm, DELTA_BATCHNORM_FREEZE);
  cr_assert_eq(again->build.import.levers, plan->levers);
  cr_assert_eq(again->levers, plan->levers);
  cr_assert_null(again->build.loss_output);
  cr_assert_eq(again->build.optimizer.kind, DELTA_OPTIMIZER_ADAMW);
  cr_assert_eq(again->build.optimizer.epsilon, 1e-8);
  cr_assert_eq(again->build.freeze_count, 2);
  cr_assert_str_eq(again->build.freeze[1], "head \"quoted\"\n*");
  cr_assert_eq(again->build.train_count, 0);
  cr_assert_eq(again->learning_rate, 0.1);
  cr_assert_eq(again->totals.budget_bytes, UINT64_MAX);
  cr_assert_eq(again->program_count, plan->program_count);
  const delta_schedule_t *before = plan->programs[0].schedule, *after = again->programs[0].schedule;
  cr_assert_eq(before->buffer_count, after->buffer_count);
  cr_assert_arr_eq(before->buffers, after->buffers, before->buffer_count * sizeof *before->buffers);
  cr_assert_eq(before->step_count, after->step_count);
  cr_assert_eq(before->steps[1].start_seconds, after->steps[1].start_seconds);
  delta_plan_free(plan);
  delta_plan_free(again);
  free(text);
}

Test(plan_json, a_schedule_that_was_read_is_verified_as_before) {
  delta_plan_t *plan = delta_test_sample_plan(5), *again = NULL;
  char *text = text_of(plan);
  delta_test_must(read_text(text, delta_allocator_system(), &again));
  for (uint32_t i = 0; i < again->program_count; ++i) {
    delta_problem_t *problem = delta_test_sample_problem(5, i);
    delta_test_must(delta_schedule_verify(again->programs[i].schedule, problem, UINT64_MAX, delta_allocator_system()));
    delta_problem_free(problem);
  }
  delta_plan_free(plan);
  delta_plan_free(again);
  free(text);
}

// ---- Wrong files: the first `from` of the sample becomes `to`.

typedef struct wrong_case {
  const char *from, *to;
  delta_status_code_t code;
  const char *message; // a part of it
} wrong_case_t;

static const wrong_case_t wrong_cases[] = {
    {"\"version\": 2", "\"version\": 3", DELTA_STATUS_MISMATCH, "written by a newer version: plan format 3, this program reads 2"},
    {"\"version\": 2", "\"version\": 1", DELTA_STATUS_MISMATCH, "written by an older version: plan format 1, this program reads 2"},
    {"\"version\": 2", "\"version\": 0", DELTA_STATUS_MALFORMED, "version"},
    {"\"version\": 2,", "", DELTA_STATUS_MALFORMED, "version: expected a number, but it is missing"},
    {"\"delta plan\"", "\"another\"", DELTA_STATUS_MALFORMED, "not a plan"},
    {"\"policy\"", "\"version\"", DELTA_STATUS_MALFORMED, "twice"},
    {"\"model.onnx\"", "\"../model.onnx\"", DELTA_STATUS_MALFORMED, "model.file"},
    {"\"model.onnx\"", "\"..\"", DELTA_STATUS_MALFORMED, "model.file"},
    {"\"model.onnx\"", "12", DELTA_STATUS_MALFORMED, "model.file: expected a string"},
    {"\"sha256\": \"0", "\"sha256\": \"", DELTA_STATUS_MALFORMED, "64 hexadecimal digits"},
    {"\"sha256\": \"0", "\"sha256\": \"X", DELTA_STATUS_MALFORMED, "64 hexadecimal digits"},
    {"\"cross_entropy\"", "\"crossentropy\"", DELTA_STATUS_MALFORMED, "knows no 'crossentropy'"},
    {"\"levers\": [\"fuse\"", "\"levers\": [\"fuze\"", DELTA_STATUS_MALFORMED, "'fuze' is unknown"},
    {"\"levers\": [\"fuse\"", "\"levers\": [\"fuse\", \"fuse\"", DELTA_STATUS_MALFORMED, "out of order"},
    {"\"learning_rate\": 0.1", "\"learning_rate\": null", DELTA_STATUS_MALFORMED, "learning_rate: expected a number"},
    {"\"learning_rate\": 0.1", "\"learning_rate\": 1e999", DELTA_STATUS_MALFORMED, "learning_rate"},
    {"\"learning_rate\": 0.1", "\"learning_rate\": NaN", DELTA_STATUS_MALFORMED, "not valid JSON"},
    {"\"dims\": [", "\"dims\": [7, ", DELTA_STATUS_MALFORMED, "build.dims[0]: expected an object"},
    {"\"freeze\": [", "\"freeze\": [7, ", DELTA_STATUS_MALFORMED, "freeze: expected a string"},
    {"\"threads\": 2", "\"threads\": 2.5", DELTA_STATUS_MALFORMED, "numerics.threads: expected an integer"},
    {"\"threads\": 2", "\"threads\": 9007199254740993", DELTA_STATUS_MALFORMED, "numerics.threads"},
    {"\"threads\": 2", "\"threads\": 2, \"math\": \"float16\"", DELTA_STATUS_MALFORMED, "math: this program knows no 'float16'"},
    {"\"threads\": 2", "\"threads\": 2, \"math\": \"float32\"", DELTA_STATUS_MALFORMED, "numerics.math: expected 'tf32'"},
    {"\"threads\": 2", "\"threads\": 2, \"math\": \"unsaid\"", DELTA_STATUS_MALFORMED, "numerics.math: expected 'tf32'"},
    {"\"threads\": 2", "\"threads\": 2, \"math\": 32", DELTA_STATUS_MALFORMED, "math: expected a string"},
    {"\"name\": \"s1\"", "\"name\": \"s0\"", DELTA_STATUS_MALFORMED, "'s0' appears twice"},
    {"\"shape\": [5", "\"shape\": [5, 1, 1, 1, 1, 1, 1, 1, 1", DELTA_STATUS_MALFORMED, "too many dimensions"},
    {"\"shape\": [5", "\"shape\": [9007199254740991, 9007199254740991", DELTA_STATUS_MALFORMED, "more elements"},
    {"\"shape\": [5", "\"shape\": [-5", DELTA_STATUS_MALFORMED, "shape"},
    {"\"shape\": [5", "\"shape\": [500000", DELTA_STATUS_MALFORMED, "too small for its shape"},
    {"\"state_bytes\": ", "\"state_bytes\": 1", DELTA_STATUS_MALFORMED, "totals."},
    {"\"budget_bytes\": null", "\"budget_bytes\": 64", DELTA_STATUS_MALFORMED, "totals.arena_bytes"},
    {"\"kind\": \"train\"", "\"kind\": \"evaluate\"", DELTA_STATUS_MALFORMED, "a second 'evaluate' program"},
    {"\"tensor\": [", "\"tensor\": [1, ", DELTA_STATUS_MALFORMED, "buffers.tensor has"},
    {"\"tensor\": [", "\"tensor\": [[], ", DELTA_STATUS_MALFORMED, "programs[0].schedule.buffers.tensor[0]: expected an integer"},
    {"\"first_step\": [", "\"first_step\": [-1, ", DELTA_STATUS_MALFORMED, "programs[0].schedule.buffers.first_step"},
    {"\"last_step\": [0", "\"last_step\": [7000", DELTA_STATUS_MALFORMED, "does not live from one step to a later one"},
    {"\"inplace_of\": [-1", "\"inplace_of\": [70000", DELTA_STATUS_MALFORMED, "takes over the bytes of a buffer that does not exist"},
    {"\"offset_bytes\": [", "\"offset_bytes\": [90071992547", DELTA_STATUS_MALFORMED, "lies outside the arena"},
    {"\"peak_step\": ", "\"peak_step\": 99", DELTA_STATUS_MALFORMED, "peak_step"},
    {"{\"run\": 0", "{\"walk\": 0", DELTA_STATUS_MALFORMED, "expected one of 'run', 'swap_out', 'swap_in'"},
    {"{\"run\": 0", "{\"run\": 0, \"swap_in\": 0", DELTA_STATUS_MALFORMED, "expected one of"},
    {"{\"run\": ", "{\"run\": -1", DELTA_STATUS_MALFORMED, "schedule.steps[0].run"},
    {"\"in\": [", "\"in\": [70000, ", DELTA_STATUS_MALFORMED, "programs[0].schedule.steps[0].in[0]"},
    {"\"start\": 0", "\"waits\": [0], \"start\": 0", DELTA_STATUS_MALFORMED, "programs[0].schedule.steps[0].waits[0]"},
    {"\"start\": 0", "\"start\": \"0\"", DELTA_STATUS_MALFORMED, "programs[0].schedule.steps[0].start: expected a number"},
    {"\"programs\": [", "\"programs\": {}, \"other\": [", DELTA_STATUS_MALFORMED, "programs: expected an array"},
};

static void check_wrong(const char *text, const wrong_case_t *wrong) {
  delta_plan_t *read = NULL;
  const char *found = strstr(text, wrong->from);
  cr_assert_not_null(found, "the sample has no %s", wrong->from);
  char *changed = malloc(strlen(text) + strlen(wrong->to) + 1);
  sprintf(changed, "%.*s%s%s", (int)(found - text), text, wrong->to, found + strlen(wrong->from));
  delta_status_t status = read_text(changed, delta_allocator_system(), &read);
  const char *message = delta_status_message(status);
  cr_expect_eq(delta_status_code(status), wrong->code, "%s to %s: %s", wrong->from, wrong->to, message);
  cr_expect_not_null(strstr(message, wrong->message), "%s to %s: %s", wrong->from, wrong->to, message);
  cr_expect_eq(strncmp(message, "sample.plan: ", 13), 0, "%s to %s: %s", wrong->from, wrong->to, message);
  delta_status_free(status);
  free(changed);
}

Test(plan_json, wrong_files_are_refused) {
  delta_plan_t *plan = delta_test_sample_plan(3);
  char *text = text_of(plan);
  for (size_t i = 0; i < sizeof wrong_cases / sizeof *wrong_cases; ++i) check_wrong(text, &wrong_cases[i]);
  delta_plan_free(plan);
  free(text);
}

Test(plan_json, deep_nesting_is_refused) {
  const size_t depth = 200000;
  char *text = malloc(depth + 1);
  memset(text, '[', depth);
  text[depth] = 0;
  delta_plan_t *plan = NULL;
  delta_status_t status = read_text(text, delta_allocator_system(), &plan);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_MALFORMED);
  delta_status_free(status);
  free(text);
}

Test(plan_json, every_truncation_is_refused) {
  delta_plan_t *plan = delta_test_sample_plan(1), *read = NULL;
  char *text = text_of(plan);
  // The last bytes are the closing brace and a newline.
  for (size_t length = strlen(text) - 2; length > 0; length -= length > 400 ? 173 : 1) {
    text[length] = 0;
    delta_status_t status = read_text(text, delta_allocator_system(), &read);
    cr_assert_eq(delta_status_code(status), DELTA_STATUS_MALFORMED);
    delta_status_free(status);
  }
  delta_plan_free(plan);
  free(text);
}

Test(plan_json, numbers_that_a_file_cannot_hold_are_not_written) {
  delta_plan_t *plan = delta_test_sample_plan(1);
  plan->build.ignore_index = INT64_MIN;
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  delta_status_t status = delta_plan_to_json(plan, &text);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_UNSUPPORTED);
  delta_status_free(status);
  delta_text_deinit(&text);
  delta_plan_free(plan);
}

Test(plan_json, files_are_saved_and_loaded) {
  delta_plan_t *plan = delta_test_sample_plan(2), *again = NULL, *missing = NULL;
  const char *path = DELTA_BINARY_FOLDER "/test_plan_json.plan";
  delta_test_must(delta_plan_save(plan, path));
  delta_test_must(delta_plan_load(path, delta_allocator_system(), &again));
  char *text = text_of(plan), *second = text_of(again);
  cr_assert_str_eq(text, second);
  remove(path);
  delta_status_t status = delta_plan_load(path, delta_allocator_system(), &missing);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_NOT_FOUND);
  delta_status_free(status);
  delta_plan_free(plan);
  delta_plan_free(again);
  free(text);
  free(second);
}

// ---- Memory that runs out

static delta_status_t write_and_read(const delta_plan_t *plan, delta_allocator_t allocator) {
  delta_text_t text;
  delta_plan_t *again = NULL;
  delta_text_init(&text, allocator);
  delta_status_t status = delta_plan_to_json(plan, &text);
  if (!status) status = delta_plan_from_json(text.items, text.count, "sample.plan", allocator, &again);
  delta_plan_free(again);
  delta_text_deinit(&text);
  return status;
}

Test(plan_json, memory_may_run_out_at_any_allocation) {
  delta_plan_t *plan = delta_test_sample_plan(4);
  for (int failure = 0; failure < 2; ++failure) {
    for (delta_test_trial_t trial = {.failure = (delta_test_failure_t)failure}; delta_test_trial_begin(&trial);) {
      delta_test_trial_end(&trial, write_and_read(plan, delta_test_trial_allocator(&trial)), "plan");
    }
  }
  delta_plan_free(plan);
}
