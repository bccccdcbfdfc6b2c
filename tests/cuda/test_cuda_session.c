// Sessions on the emulated GPU: steps that are recorded and replayed, budgets that give memory back, and what is said when a call, a kernel or a number goes wrong.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulation/emulation.h"
#include "tests/support/training.h"

enum { ROWS = 64, STEPS = 6, SMALL_GRANULE_BYTES = 4096 };

// Granules of a page, so that budgets of small models mean something; what compiles at run time is kept beside what was built.
static void configure(void) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.granule_bytes = SMALL_GRANULE_BYTES;
  delta_emulated_reset();
  delta_emulated_configure(&settings);
  setenv("XDG_CACHE_HOME", DELTA_BINARY_FOLDER "/tests/cache", 1);
}

static delta_plan_options_t plan_options(void) {
  delta_plan_options_t options = delta_test_plan_options(ROWS);
  options.device = "cuda:0";
  options.optimizer = "sgd";
  options.momentum = 0.9;
  return options;
}

typedef struct session_choice {
  bool verifies, in_line;
} session_choice_t;

static delta_status_t start(delta_test_training_t *training, const session_choice_t *choice) {
  delta_session_options_t options;
  delta_session_options_init(&options);
  options.plan = training->plan;
  options.model_path = training->model_path;
  options.verify_arena = choice->verifies;
  options.copies_in_line = choice->in_line;
  options.estimate_costs = 1;
  return delta_session_create(&options, delta_allocator_system(), &training->session);
}

static void open_training(delta_test_training_t *training, const delta_plan_options_t *options, const session_choice_t *choice) {
  configure();
  delta_test_training_write(training, delta_test_wide_mlp);
  delta_test_expect_ok(delta_test_training_plan(training, options, delta_allocator_system()), "plan");
  delta_test_expect_ok(start(training, choice), "session");
  delta_test_reset_states(training->session);
}

static void close_training(delta_test_training_t *training) {
  delta_test_training_close(training);
  cr_expect_eq(delta_emulated_used_bytes(), 0, "device memory is left");
  cr_expect_eq(delta_emulated_reports(), 0, "%s", delta_emulated_last_report());
}

static void train(delta_session_t *session, int first, int count) {
  for (int step = first; step < first + count; ++step) delta_test_run(session, DELTA_RUN_TRAIN, step * ROWS, ROWS, 0.05);
}

// The states after some steps; the caller frees their items.
static delta_test_values_t states_after_steps(const delta_plan_options_t *options, const session_choice_t *choice) {
  delta_test_training_t training;
  open_training(&training, options, choice);
  train(training.session, 0, STEPS);
  const delta_test_values_t states = delta_test_read_states(training.session, NULL);
  close_training(&training);
  return states;
}

static delta_status_t run_step(delta_session_t *session, double rate) {
  delta_test_batch_t batch;
  delta_test_batch_make(session, 0, ROWS, &batch);
  delta_status_t status = delta_session_run(session, DELTA_RUN_TRAIN, &batch.batch, rate, NULL);
  delta_test_batch_free(&batch);
  return status;
}

// ---- Recordings

Test(cuda_session, a_program_is_recorded_once_and_replayed, .timeout = 120) {
  delta_test_training_t training;
  const delta_plan_options_t options = plan_options();
  open_training(&training, &options, &(session_choice_t){0});
  delta_emulated_reset();
  train(training.session, 0, STEPS);
  cr_expect_eq(delta_emulated_calls("cudaGraphInstantiate"), 1);
  cr_expect_eq(delta_emulated_calls("cudaGraphLaunch"), STEPS - 1);
  close_training(&training);
}

Test(cuda_session, a_step_takes_no_memory_and_makes_nothing, .timeout = 120) {
  static const char *const calls[] = {
      "cudaMalloc",           "cudaMallocHost",      "cuMemCreate",     "cudaEventCreateWithFlags", "cudaStreamCreateWithFlags",
      "cudaGraphInstantiate", "nvrtcCompileProgram", "cuModuleLoadData"};
  delta_test_training_t training;
  delta_plan_options_t options = plan_options();
  options.budget = "minimum";
  options.policy = "swap";
  open_training(&training, &options, &(session_choice_t){0});
  train(training.session, 0, 2);
  delta_emulated_reset();
  train(training.session, 2, STEPS);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) cr_expect_eq(delta_emulated_calls(calls[i]), 0, "%s", calls[i]);
  cr_expect_eq(delta_emulated_calls("cudaGraphLaunch"), STEPS);
  close_training(&training);
}

// Waiting for the GPU: once a stream at the end of a step, and for what is brought and read outside it, however much a plan copies.
static uint32_t waits_of_a_step(const delta_plan_options_t *options, uint32_t *out_copies) {
  enum { MODES = 3 }; // step by step, recorded, replayed
  uint32_t waits[MODES];
  delta_test_training_t training;
  open_training(&training, options, &(session_choice_t){0});
  for (int mode = 0; mode < MODES; ++mode) {
    delta_emulated_reset();
    train(training.session, mode, 1);
    waits[mode] = delta_emulated_calls("cudaStreamSynchronize");
    if (mode == 0) *out_copies = delta_emulated_calls("cudaMemcpyAsync");
    cr_expect_eq(waits[mode], waits[0], "mode %d: %u waits, not %u", mode, waits[mode], waits[0]);
    cr_expect_eq(delta_emulated_calls("cudaDeviceSynchronize") + delta_emulated_calls("cudaEventSynchronize"), 0);
  }
  close_training(&training);
  return waits[0];
}

Test(cuda_session, a_step_is_waited_for_at_its_end_only, .timeout = 120) {
  uint32_t kept_copies, swapped_copies;
  delta_plan_options_t options = plan_options();
  const uint32_t waits = waits_of_a_step(&options, &kept_copies);
  options.budget = "minimum";
  options.policy = "swap";
  cr_expect_eq(waits_of_a_step(&options, &swapped_copies), waits);
  cr_expect_gt(swapped_copies, kept_copies);
}

// A library that cannot be recorded: the program goes on step by step.
Test(cuda_session, a_recording_that_fails_changes_nothing, .timeout = 120) {
  delta_test_training_t training;
  const delta_plan_options_t options = plan_options();
  const delta_test_values_t wanted = states_after_steps(&options, &(session_choice_t){0});
  open_training(&training, &options, &(session_choice_t){0});
  delta_emulated_reset();
  delta_emulated_fail("cudaStreamBeginCapture", 1, 1);
  train(training.session, 0, STEPS);
  cr_expect_eq(delta_emulated_calls("cudaGraphLaunch"), 0);
  const delta_test_values_t found = delta_test_read_states(training.session, NULL);
  cr_expect_eq(delta_test_distance(&wanted, &found), 0);
  free(found.items);
  free(wanted.items);
  close_training(&training);
}

// ---- Budgets

typedef struct budget_case {
  const char *name, *policy, *budget;
  session_choice_t choice;
} budget_case_t;

Test(cuda_session, every_budget_gives_the_same_bits, .timeout = 300) {
  static const budget_case_t cases[] = {
      {"verified", "delta", "unlimited", {.verifies = true}},
      {"swapped", "swap", "minimum", {0}},
      {"swapped, verified", "swap", "minimum", {.verifies = true}},
      {"swapped, in line", "swap", "minimum", {.in_line = true}},
      {"least", "delta", "minimum", {0}},
  };
  const delta_plan_options_t unlimited = plan_options();
  const delta_test_values_t wanted = states_after_steps(&unlimited, &(session_choice_t){0});
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    delta_plan_options_t options = plan_options();
    options.policy = cases[i].policy;
    options.budget = cases[i].budget;
    options.time_limit_seconds = 1;
    const delta_test_values_t found = states_after_steps(&options, &cases[i].choice);
    cr_expect_eq(delta_test_distance(&wanted, &found), 0, "%s", cases[i].name);
    free(found.items);
  }
  free(wanted.items);
}

Test(cuda_session, a_lower_budget_gives_memory_back_and_is_recorded_anew, .timeout = 120) {
  delta_test_training_t training;
  const delta_plan_options_t options = plan_options();
  const delta_test_values_t wanted = states_after_steps(&options, &(session_choice_t){0});
  open_training(&training, &options, &(session_choice_t){0});
  train(training.session, 0, 3);
  const uint64_t before_bytes = delta_emulated_used_bytes();
  delta_test_expect_ok(delta_session_set_budget(training.session, "80%"), "budget");
  delta_emulated_reset();
  train(training.session, 3, 3);
  const uint64_t after_bytes = delta_emulated_used_bytes();
  cr_expect_leq(after_bytes, delta_session_budget(training.session));
  cr_expect_lt(after_bytes, before_bytes);
  cr_expect_eq(delta_emulated_calls("cudaGraphInstantiate"), 1);
  cr_expect_eq(delta_emulated_calls("cudaGraphLaunch"), 2, "the first step of a plan goes step by step, all others are launched as one");
  delta_test_values_t found = delta_test_read_states(training.session, NULL);
  cr_expect_eq(delta_test_distance(&wanted, &found), 0);
  free(found.items);
  free(wanted.items);
  close_training(&training);
}

// ---- What goes wrong

Test(cuda_session, a_device_without_room_says_what_it_has, .timeout = 120) {
  delta_test_training_t training;
  const delta_plan_options_t options = plan_options();
  configure();
  delta_test_training_write(&training, delta_test_wide_mlp);
  delta_test_expect_ok(delta_test_training_plan(&training, &options, delta_allocator_system()), "plan");
  delta_emulated_fail("cuMemCreate", 3, 1);
  delta_test_expect_status(start(&training, &(session_choice_t){0}), DELTA_STATUS_OUT_OF_MEMORY, "cuMemCreate|asked for|are free");
  close_training(&training);
}

Test(cuda_session, a_failed_call_names_step_and_node, .timeout = 120) {
  delta_test_training_t training;
  const delta_plan_options_t options = plan_options();
  open_training(&training, &options, &(session_choice_t){0});
  delta_emulated_fail("cublasLtMatmul", 2, 1);
  delta_status_t status = run_step(training.session, 0.1);
  cr_assert(status);
  delta_test_expect_status(status, delta_status_code(status), "step |node '|cublasLtMatmul");
  delta_emulated_reset();
  delta_test_expect_ok(run_step(training.session, 0.1), "the step after it");
  close_training(&training);
}

// What a kernel does wrong is known later; where each step is waited for it has a name.
Test(cuda_session, a_fault_on_the_device_is_told_of, .timeout = 120) {
  for (int verifies = 0; verifies < 2; ++verifies) {
    delta_test_training_t training;
    const delta_plan_options_t options = plan_options();
    open_training(&training, &options, &(session_choice_t){.verifies = verifies});
    delta_emulated_fail_run("cublasLtMatmul", 2);
    delta_status_t status = run_step(training.session, 0.1);
    cr_assert(status);
    // Without it any later call may be the one that tells.
    delta_test_expect_status(status, DELTA_STATUS_IO,
                             verifies ? "step |node '|cudaStreamSynchronize" : "one of the steps|illegal memory access");
    delta_emulated_reset();
    delta_test_training_close(&training);
  }
}

Test(cuda_session, a_loss_that_is_no_number_is_found_at_the_end, .timeout = 120) {
  enum { WEIGHTS = 64 * 5 };
  delta_test_training_t training;
  float weights[WEIGHTS];
  const delta_plan_options_t options = plan_options();
  for (int i = 0; i < WEIGHTS; ++i) weights[i] = i == 7 ? NAN : 0.1f;
  open_training(&training, &options, &(session_choice_t){0});
  delta_test_expect_ok(run_step(training.session, 0.1), "the first step");
  delta_test_expect_ok(delta_session_write(training.session, "w4", weights, sizeof weights), "w4");
  delta_test_expect_status(run_step(training.session, 0.1), DELTA_STATUS_NOT_A_NUMBER,
                           "the loss is not a finite number|had ended the step|checkpoint");
  close_training(&training);
}
