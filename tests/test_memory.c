// Memory: the planned peak is what is committed, the budget is hard, steps allocate nothing, and the process needs little beside its arena.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plans/plan.h"
#include "runtime/session_parts.h"
#include "tests/support/process.h"
#include "tests/support/training.h"

enum { BATCH = 16 };
static const double mebibyte = 1 << 20;

static uint64_t arena_bytes(const delta_plan_t *plan) {
  delta_plan_summary_t summary = {.struct_size = sizeof summary};
  delta_test_expect_ok(delta_plan_summarize(plan, &summary), "summary");
  return summary.arena_bytes;
}

// --- planned and committed

// Length and rights of the mapping that holds `address`, as the system sees it.
static uint64_t mapping_bytes(const void *address, char out_rights[5]) {
  FILE *maps = fopen("/proc/self/maps", "r");
  cr_assert_not_null(maps);
  unsigned long begin, end;
  char line[512];
  uint64_t bytes = 0;
  while (fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx %4s", &begin, &end, out_rights) != 3 || (uintptr_t)address < begin || (uintptr_t)address >= end) continue;
    bytes = end - begin;
    break;
  }
  fclose(maps);
  return bytes;
}

typedef struct memory_case {
  char name[24];
  bool has_batchnorm;
  char policy[8];
  char optimizer[8];
  int64_t accumulate;
  double clip;
} memory_case_t;

#define MEMORY_CASES                                                                                                                 \
  {                                                                                                                                  \
    {"mlp", false, "none", "sgd", 1, 0}, {"mlp, adamw", false, "none", "adamw", 1, 0}, {"mlp, clipped", false, "none", "sgd", 1, 1}, \
        {"mlp, accumulated", false, "none", "adam", 4, 1}, {"mlp, eager", false, "eager", "sgd", 1, 0},                              \
        {"batchnorm", true, "none", "sgd", 1, 0}, {"batchnorm, accumulated", true, "none", "sgd", 2, 0},                             \
        {"batchnorm, eager", true, "eager", "adamw", 1, 0},                                                                          \
  }

static delta_plan_options_t options_of(const memory_case_t *c) {
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.policy = c->policy;
  options.optimizer = c->optimizer;
  options.accumulate = c->accumulate;
  options.clip_gradient_norm = c->clip;
  return options;
}

static const char *text_of(const memory_case_t *c) { return c->has_batchnorm ? delta_test_batchnorm : delta_test_mlp; }

static void run_all(delta_session_t *session, const memory_case_t *c, delta_run_report_t *report) {
  delta_test_run(session, c->accumulate > 1 ? DELTA_RUN_ACCUMULATE : DELTA_RUN_TRAIN, 0, BATCH, 0.1);
  if (c->accumulate > 1) delta_test_expect_ok(delta_session_run(session, DELTA_RUN_APPLY, NULL, 0.1, report), "apply");
  *report = delta_test_run(session, DELTA_RUN_EVALUATE, 0, BATCH, 0);
}

ParameterizedTestParameters(memory, planned_is_committed) {
  static memory_case_t cases[] = MEMORY_CASES;
  return cr_make_param_array(memory_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(memory_case_t *c, memory, planned_is_committed) {
  delta_test_training_t training;
  const delta_plan_options_t options = options_of(c);
  delta_test_training_open(&training, text_of(c), &options);
  delta_run_report_t report = {.struct_size = sizeof report};
  run_all(training.session, c, &report);
  const delta_plan_totals_t *totals = &training.plan->totals;
  cr_expect_eq(report.arena_peak_bytes, totals->arena_bytes, "%s: planned %llu, committed %llu", c->name,
               (unsigned long long)totals->arena_bytes, (unsigned long long)report.arena_peak_bytes);
  char rights[5];
  const uint8_t *start = training.session->device->driver->arena_address(training.session->arena, 0);
  cr_expect_eq(mapping_bytes(start, rights), totals->arena_bytes);
  cr_expect_str_eq(rights, "rw-p");
  cr_expect_gt(mapping_bytes(start - 1, rights), 0);
  cr_expect_str_eq(rights, "---p", "no guard page before the arena");
  cr_expect_gt(mapping_bytes(start + totals->arena_bytes, rights), 0);
  cr_expect_str_eq(rights, "---p", "no guard page behind the arena");
  // Live bytes cannot be more than the arena, and the arena is not much more than they are.
  cr_expect_leq(totals->peak_bytes, totals->arena_bytes);
  uint64_t sum = 0;
  for (int i = 0; i < DELTA_CLASS_COUNT; ++i) sum += totals->memory_bytes[i];
  cr_expect_eq(sum, totals->peak_bytes, "%s: kinds add up to %llu of %llu", c->name, (unsigned long long)sum,
               (unsigned long long)totals->peak_bytes);
  delta_test_training_close(&training);
}

// --- the budget

ParameterizedTestParameters(memory, least_budget_works_and_one_byte_less_does_not) {
  static memory_case_t cases[] = MEMORY_CASES;
  return cr_make_param_array(memory_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(memory_case_t *c, memory, least_budget_works_and_one_byte_less_does_not) {
  delta_test_training_t training;
  delta_plan_options_t options = options_of(c);
  delta_test_training_open(&training, text_of(c), &options);
  delta_plan_summary_t free_summary = {.struct_size = sizeof free_summary};
  delta_test_expect_ok(delta_plan_summarize(training.plan, &free_summary), "summary");
  delta_session_destroy(training.session);
  delta_plan_free(training.plan);
  training.session = NULL;
  training.plan = NULL;
  char least[32], less[32];
  snprintf(least, sizeof least, "%llu", (unsigned long long)free_summary.minimum_budget_bytes);
  snprintf(less, sizeof less, "%llu", (unsigned long long)free_summary.minimum_budget_bytes - 1);
  options.model_path = training.model_path;
  options.budget = less;
  delta_plan_summary_t summary = {.struct_size = sizeof summary};
  delta_test_expect_status(delta_plan_create(&options, delta_allocator_system(), &training.plan, &summary), DELTA_STATUS_DOES_NOT_FIT,
                           least);
  cr_expect_null(training.plan);
  cr_expect_eq(summary.minimum_budget_bytes, free_summary.minimum_budget_bytes);
  cr_expect_eq(summary.budget_bytes, free_summary.minimum_budget_bytes - 1);
  cr_expect_eq(summary.unlimited_peak_bytes, free_summary.unlimited_peak_bytes);
  static const char *const words[] = {NULL, "minimum"};
  for (int i = 0; i < 2; ++i) {
    options.budget = words[i] ? words[i] : least;
    delta_test_expect_ok(delta_plan_create(&options, delta_allocator_system(), &training.plan, NULL), options.budget);
    cr_expect_leq(arena_bytes(training.plan), free_summary.minimum_budget_bytes);
    delta_test_expect_ok(delta_test_training_start(&training, delta_allocator_system()), options.budget);
    delta_test_reset_states(training.session);
    delta_run_report_t report = {.struct_size = sizeof report};
    run_all(training.session, c, &report);
    cr_expect_leq(report.arena_peak_bytes, free_summary.minimum_budget_bytes);
    delta_session_destroy(training.session);
    delta_plan_free(training.plan);
    training.session = NULL;
    training.plan = NULL;
  }
  delta_test_training_close(&training);
}

typedef struct budget_case {
  char text[16];
  int exits; // 0 fits, 3 does not, 2 is no budget
} budget_case_t;

ParameterizedTestParameters(memory, budget_texts) {
  static budget_case_t cases[] = {{"unlimited", 0}, {"minimum", 0}, {"100%", 0}, {"250%", 0}, {"10%", 3},  {"8GiB", 0}, {"1MB", 0},
                                  {"1024", 3},      {"0", 3},       {"0%", 2},   {"-5%", 2},  {"much", 2}, {"8XB", 2},  {"", 2}};
  return cr_make_param_array(budget_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(budget_case_t *c, memory, budget_texts) {
  static const delta_status_code_t codes[] = {DELTA_STATUS_OK, DELTA_STATUS_OK, DELTA_STATUS_INVALID_ARGUMENT, DELTA_STATUS_DOES_NOT_FIT};
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(BATCH);
  options.budget = c->text;
  delta_test_training_write(&training, delta_test_mlp);
  delta_status_t status = delta_test_training_plan(&training, &options, delta_allocator_system());
  cr_expect_eq(delta_status_code(status), codes[c->exits], "'%s': %s", c->text, delta_status_message(status));
  delta_status_free(status);
  delta_test_training_close(&training);
}

// A session's own budget replaces the plan's, for the programs that are planned later too.
Test(memory, budget_of_a_session) {
  delta_test_training_t training;
  const delta_plan_options_t plan_options = delta_test_plan_options(BATCH);
  delta_test_training_prepare(&training, delta_test_mlp, &plan_options);
  char least[32], less[32];
  snprintf(least, sizeof least, "%llu", (unsigned long long)training.plan->totals.arena_bytes);
  snprintf(less, sizeof less, "%llu", (unsigned long long)training.plan->totals.arena_bytes - 1);
  delta_session_options_t options = delta_test_session_options(&training);
  options.budget = less;
  delta_test_expect_status(delta_session_create(&options, delta_allocator_system(), &training.session), DELTA_STATUS_DOES_NOT_FIT, least);
  cr_expect_null(training.session);
  options.budget = least;
  delta_test_expect_ok(delta_session_create(&options, delta_allocator_system(), &training.session), "session");
  delta_test_run(training.session, DELTA_RUN_TRAIN, 0, BATCH / 2, 0.1);
  delta_test_batch_t batch;
  delta_test_batch_make(training.session, 0, 64 * BATCH, &batch);
  delta_test_expect_status(delta_session_run(training.session, DELTA_RUN_TRAIN, &batch.batch, 0.1, NULL), DELTA_STATUS_DOES_NOT_FIT,
                           "budget|1024 rows");
  delta_test_batch_free(&batch);
  delta_test_run(training.session, DELTA_RUN_TRAIN, 0, BATCH, 0.1);
  delta_test_training_close(&training);
}

// --- steps allocate nothing

ParameterizedTestParameters(memory, steps_allocate_nothing) {
  static memory_case_t cases[] = MEMORY_CASES;
  return cr_make_param_array(memory_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(memory_case_t *c, memory, steps_allocate_nothing) {
  delta_test_allocator_t counting;
  delta_test_allocator_init(&counting, 0, DELTA_TEST_FAIL_ONCE);
  delta_test_training_t training;
  const delta_plan_options_t options = options_of(c);
  delta_test_training_write(&training, text_of(c));
  delta_test_expect_ok(delta_test_training_plan(&training, &options, delta_test_allocator_interface(&counting)), "plan");
  delta_test_expect_ok(delta_test_training_start(&training, delta_test_allocator_interface(&counting)), "session");
  delta_test_reset_states(training.session);
  size_t before = counting.call_count;
  delta_run_report_t report = {.struct_size = sizeof report};
  for (int step = 0; step < 3; ++step) run_all(training.session, c, &report);
  cr_expect_eq(counting.call_count, before, "%s: %zu allocations in three steps", c->name, counting.call_count - before);
  delta_test_training_close(&training);
  cr_expect_eq(counting.live_blocks, 0);
}

// --- the process beside its arena

enum { WIDE_ROWS = 8192, WIDE_COLUMNS = 12288 };

// A model of one matrix of 384 MiB: its bytes are a hole at the end of the file, or of the data file beside it. As many again are the
// matrix's gradient.
static void write_wide_model(const delta_test_folder_t *folder, bool external) {
  const int64_t dims[2] = {WIDE_ROWS, WIDE_COLUMNS}, x_dims[2] = {2, WIDE_ROWS}, y_dims[2] = {2, WIDE_COLUMNS};
  const uint64_t weight_bytes = (uint64_t)WIDE_ROWS * WIDE_COLUMNS * sizeof(float);
  delta_test_message_t graph = {0}, tensor = delta_test_tensor_head("w", 1, dims, 2);
  delta_test_message_t x = delta_test_value_info("x", 1, x_dims, 2), y = delta_test_value_info("y", 1, y_dims, 2);
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, "MatMul:x,w>y@product");
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INPUT, &x);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_OUTPUT, &y);
  if (external) {
    delta_test_put_external(&tensor, "location", "wide.data");
    delta_test_put_varint(&tensor, DELTA_TEST_TENSOR_LOCATION, 1);
  }
  char path[DELTA_TEST_PATH_BYTES];
  delta_test_message_t model = {0};
  if (external) {
    delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &tensor);
    model = delta_test_model_message(&graph, "13");
    delta_test_folder_write(folder, "model.onnx", model.bytes, model.count);
    delta_test_folder_write(folder, "wide.data", "", 0);
    cr_assert_eq(truncate(delta_test_folder_path(folder, "wide.data", path), (off_t)weight_bytes), 0);
  } else {
    // The lengths in front of nested messages count the bytes that are not there yet.
    delta_test_put_open(&tensor, 9, weight_bytes);
    delta_test_put_open(&graph, DELTA_TEST_GRAPH_INITIALIZER, tensor.count + weight_bytes);
    delta_test_put_raw(&graph, tensor.bytes, tensor.count);
    delta_test_put_varint(&model, 1, 8);
    delta_test_put_opsets(&model, DELTA_TEST_MODEL_OPSET, "13");
    delta_test_put_open(&model, DELTA_TEST_MODEL_GRAPH, graph.count + weight_bytes);
    delta_test_put_raw(&model, graph.bytes, graph.count);
    delta_test_folder_write(folder, "model.onnx", model.bytes, model.count);
    cr_assert_eq(truncate(delta_test_folder_path(folder, "model.onnx", path), (off_t)(model.count + weight_bytes)), 0);
    delta_test_message_free(&graph);
    delta_test_message_free(&tensor);
  }
  delta_test_message_free(&model);
}

typedef struct process_case {
  char name[16];
  bool external;
} process_case_t;

ParameterizedTestParameters(memory, process_beside_the_arena) {
  static process_case_t cases[] = {{"in the file", false}, {"external data", true}};
  return cr_make_param_array(process_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(process_case_t *c, memory, process_beside_the_arena, .timeout = 120) {
  if (!delta_process_is_plain_build()) DELTA_SKIP("memory beside the arena: a sanitizer needs its own");
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  write_wide_model(&folder, c->external);
  char model[DELTA_TEST_PATH_BYTES], plan_path[DELTA_TEST_PATH_BYTES], trained[DELTA_TEST_PATH_BYTES];
  delta_test_folder_path(&folder, "model.onnx", model);
  delta_test_folder_path(&folder, "model.plan", plan_path);
  delta_test_folder_path(&folder, "trained.onnx", trained);
  static delta_process_result_t planned, run;
  const char *const plan_arguments[] = {
      DELTA_BINARY_FOLDER "/deltaplan", model, "-o", plan_path, "--loss", "mse", "--budget", "unlimited", "--profile", "estimate", NULL};
  delta_process_run(&(delta_process_t){.arguments = plan_arguments, .limit_seconds = 60}, &planned);
  cr_assert_eq(planned.exit_status, 0, "%s", planned.error);
  cr_expect_lt(planned.peak_bytes, 64 * mebibyte, "%s: planning takes %.1f MiB", c->name, planned.peak_bytes / mebibyte);
  delta_plan_t *plan = NULL;
  delta_test_expect_ok(delta_plan_load(plan_path, delta_allocator_system(), &plan), "plan");
  double arena = (double)arena_bytes(plan);
  delta_plan_free(plan);
  cr_assert_gt(arena, 500 * mebibyte);
  const char *const run_arguments[] = {
      DELTA_BINARY_FOLDER "/deltarun", plan_path, "--data", "synthetic:samples=4", "--steps", "2", "-o", trained, NULL};
  delta_process_run(&(delta_process_t){.arguments = run_arguments, .limit_seconds = 100}, &run);
  cr_assert_eq(run.exit_status, 0, "%s", run.error);
  cr_expect_lt(run.peak_bytes - arena, 64 * mebibyte, "%s: %.1f MiB beside an arena of %.1f MiB", c->name,
               (run.peak_bytes - arena) / mebibyte, arena / mebibyte);
  cr_expect_gt(run.peak_bytes, 0.9 * arena, "the arena was not used");
  delta_test_folder_remove(&folder);
}
