// Auditor: each kind of damage is found where it shows and named; without damage every model of the test material passes at its smallest budget, with the numbers of a run that nobody
// looks at.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session_parts.h"
#include "tests/support/indices.h"
#include "tests/support/faulty_device.h"
#include "tests/support/model_run.h"
#include "tests/support/training.h"

enum { BATCH = 97 }; // whose logits are no whole number of aligned units

// Opens a session that is looked at, on a device with faults.
static void start(delta_test_training_t *training, const char *policy, const char *budget, bool in_line, delta_test_faults_t *faults) {
  delta_plan_options_t plan_options = delta_test_plan_options(BATCH);
  delta_device_t *device = NULL;
  plan_options.budget = budget;
  plan_options.policy = policy;
  plan_options.optimizer = "adamw";
  delta_test_training_prepare(training, delta_test_wide_mlp, &plan_options);
  delta_session_options_t options = delta_test_session_options(training);
  options.copies_in_line = in_line;
  options.verify = 1;
  delta_test_expect_ok(delta_test_faulty_device_open(faults, &device), "device");
  delta_test_training_start_on(training, &options, device);
  faults->launches = faults->writes = faults->reads = 0;
}

static delta_status_t run_batch(delta_test_training_t *training) {
  delta_run_report_t report;
  return delta_test_try_run(training->session, DELTA_RUN_TRAIN, 0, BATCH, 0.05, &report);
}

// ---- Where damage is planted

static const delta_schedule_t *schedule_of(const delta_session_t *session) { return session->programs.items[0]->schedule; }

static const delta_problem_t *problem_of(const delta_session_t *session) { return session->programs.items[0]->parts.problem; }

static uint8_t *buffer_address(const delta_session_t *session, uint32_t buffer, size_t at_bytes) {
  return session->device->driver->arena_address(session->arena,
                                                session->state_bytes + schedule_of(session)->buffers[buffer].offset_bytes + at_bytes);
}

// How many operators run before a step.
static uint32_t launches_before(const delta_schedule_t *schedule, uint32_t step) {
  uint32_t count = 0;
  for (uint32_t s = 0; s < step; ++s) count += schedule->steps[s].kind == DELTA_STEP_RUN;
  return count;
}

// The bytes of data in a problem tensor.
static size_t data_bytes_of(const delta_session_t *session, uint32_t tensor) {
  const delta_program_parts_t *parts = &session->programs.items[0]->parts;
  for (uint32_t i = 0; i < parts->graph->tensors.count; ++i) {
    const delta_tensor_t *entry = &parts->graph->tensors.items[i];
    if (entry->storage.index == i && parts->tensor_of_storage[i] == tensor) return delta_tensor_bytes(entry);
  }
  return 0;
}

// Behind the data of what an operator gives, when it is no whole number of aligned units.
static void plant_behind_data(const delta_session_t *session, delta_test_faults_t *faults) {
  const delta_schedule_t *schedule = schedule_of(session);
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    if (buffer->tensor == DELTA_PROBLEM_NONE || buffer->inplace_of != DELTA_PROBLEM_NONE || buffer->first_step == 0) continue;
    const size_t data_bytes = data_bytes_of(session, buffer->tensor);
    if (data_bytes == 0 || data_bytes == buffer->size_bytes) continue;
    faults->launch = launches_before(schedule, buffer->first_step);
    faults->address = buffer_address(session, b, data_bytes);
    return;
  }
  cr_assert_fail("every tensor fills its buffer");
}

static bool is_free(const delta_schedule_t *schedule, uint32_t step, size_t at_bytes) {
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    const bool lives = buffer->first_step <= step && buffer->last_step >= step;
    if (lives && buffer->offset_bytes <= at_bytes && at_bytes < buffer->offset_bytes + buffer->size_bytes) return false;
  }
  return true;
}

// A byte of nobody, in the middle of the step.
static void plant_in_free_bytes(const delta_session_t *session, delta_test_faults_t *faults) {
  const delta_schedule_t *schedule = schedule_of(session);
  for (uint32_t s = schedule->step_count / 2; s < schedule->step_count; ++s) {
    for (size_t at_bytes = 0; at_bytes < schedule->arena_bytes && schedule->steps[s].kind == DELTA_STEP_RUN; at_bytes += 64) {
      if (!is_free(schedule, s, at_bytes)) continue;
      faults->launch = launches_before(schedule, s);
      faults->address = session->device->driver->arena_address(session->arena, session->state_bytes + at_bytes);
      return;
    }
  }
  cr_assert_fail("no free byte");
}

// The last committed byte, behind the program's own.
static void plant_at_the_end(const delta_session_t *session, delta_test_faults_t *faults) {
  cr_assert_gt(session->committed_bytes, session->state_bytes + schedule_of(session)->arena_bytes);
  faults->launch = 2;
  faults->address = session->device->driver->arena_address(session->arena, session->committed_bytes - 1);
}

// In an activation that is kept for some steps.
static void plant_in_kept(const delta_session_t *session, delta_test_faults_t *faults) {
  const delta_schedule_t *schedule = schedule_of(session);
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    if (buffer->tensor == DELTA_PROBLEM_NONE || problem_of(session)->tensors[buffer->tensor].kind != DELTA_CLASS_ACTIVATIONS) continue;
    if (buffer->last_step < buffer->first_step + 4 || buffer->first_step == 0) continue;
    faults->launch = launches_before(schedule, buffer->first_step) + 2;
    faults->address = buffer_address(session, b, 5);
    return;
  }
  cr_assert_fail("nothing is kept");
}

// In a weight, between its use and its update.
static void plant_in_state(const delta_session_t *session, delta_test_faults_t *faults) {
  cr_assert_not(session->plan->states[0].is_below);
  faults->launch = 1;
  faults->address = session->device->driver->arena_address(session->arena, session->plan->states[0].offset_bytes + 8);
}

// In what an operator gives when it runs again.
static void plant_in_rebuilt(const delta_session_t *session, delta_test_faults_t *faults) {
  const delta_schedule_t *schedule = schedule_of(session);
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    for (uint32_t earlier = 0; earlier < s && schedule->steps[s].kind == DELTA_STEP_RUN; ++earlier) {
      const delta_schedule_step_t *first = &schedule->steps[earlier];
      if (first->kind != DELTA_STEP_RUN || first->problem_step != schedule->steps[s].problem_step) continue;
      faults->launch = launches_before(schedule, s);
      faults->address = buffer_address(session, schedule->steps[s].outputs[0], 9);
      return;
    }
  }
  cr_assert_fail("nothing is run again");
}

// In a copy to the tier below of an activation; states whose home is there are copied at the beginning of the run, to be looked at.
static void plant_in_write(const delta_session_t *session, delta_test_faults_t *faults) {
  (void)session;
  faults->write = 0;
}

static uint32_t homes_of(const delta_session_t *session) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < session->plan->state_count; ++i) count += session->plan->states[i].is_below;
  return count;
}

static void plant_in_read(const delta_session_t *session, delta_test_faults_t *faults) { faults->read = homes_of(session); }

// In the last copy to the tier, a state's new value.
static void plant_in_home(const delta_session_t *session, delta_test_faults_t *faults) {
  cr_assert_gt(homes_of(session), 0, "no state has its home below");
  uint32_t writes = 0;
  for (uint32_t s = 0; s < schedule_of(session)->step_count; ++s) writes += schedule_of(session)->steps[s].kind == DELTA_STEP_SWAP_OUT;
  faults->write = writes - 1;
}

static void plant_commitment(const delta_session_t *session, delta_test_faults_t *faults) {
  faults->commit_launch = 3;
  faults->arena = session->arena;
  faults->commit_bytes = session->committed_bytes + session->device->granule_bytes;
}

typedef struct damage_case {
  const char *name, *policy, *budget;
  bool in_line;
  void (*plant)(const delta_session_t *session, delta_test_faults_t *faults);
  const char *words;
} damage_case_t;

static const damage_case_t damage_cases[] = {
    {"behind data", "none", "unlimited", false, plant_behind_data, "verify: step |node '|behind the data of tensor '|0xa5"},
    {"free bytes", "delta-fixed", "60%", true, plant_in_free_bytes, "verify: step |node '|leaves free|has 0xa4 where 0xa5|in use before"},
    {"free bytes without a budget", "none", "unlimited", false, plant_in_free_bytes, "verify: step |node '|leaves free"},
    {"end of the arena", "none", "unlimited", false, plant_at_the_end, "verify: step 2, node '|leaves free|has 0xa4|behind it"},
    {"kept", "none", "unlimited", false, plant_in_kept, "verify: step |node '|tensor '|which was kept|checksum|wanted|that of step "},
    {"state", "none", "unlimited", false, plant_in_state, "verify: step |tensor 'w1'|a state that was kept|time before the run"},
    {"rebuilt", "recompute", "minimum", false, plant_in_rebuilt, "verify: step |node '|dropped and made again|checksum|that of step "},
    {"tier, write", "delta-fixed", "60%", false, plant_in_write, "verify: step |tensor '|back from the tier below|checksum|that of "},
    {"tier, write, in line", "delta-fixed", "60%", true, plant_in_write, "verify: step |copying '|from the tier below|checksum"},
    {"tier, read", "swap", "90%", false, plant_in_read, "verify: step |tensor '|back from the tier below|checksum|wanted"},
    {"tier, home of a state", "delta-fixed", "minimum", false, plant_in_home, "verify: |state '|home is the tier below|checksum"},
    {"commitment", "none", "unlimited", false, plant_commitment, "verify: step 3, node '|bytes committed where"},
};

ParameterizedTestParameters(auditor, damage_is_named) { return delta_test_indices(sizeof damage_cases / sizeof *damage_cases); }

ParameterizedTest(size_t *index, auditor, damage_is_named) {
  const damage_case_t *c = &damage_cases[*index];
  delta_test_training_t training;
  delta_test_faults_t faults = DELTA_TEST_NO_FAULT;
  start(&training, c->policy, c->budget, c->in_line, &faults);
  delta_test_expect_ok(run_batch(&training), c->name);
  faults.launches = faults.writes = faults.reads = 0;
  c->plant(training.session, &faults);
  delta_test_expect_status(run_batch(&training), DELTA_STATUS_MISMATCH, c->words);
  delta_test_training_close(&training);
}

// A tensor that cannot be copied below lies in free bytes, which are then somebody's.
Test(auditor, what_is_kept_in_free_bytes_is_no_damage) {
  uint32_t kept = 0;
  for (uint32_t n = 0; n < 12; ++n) {
    delta_test_training_t training;
    delta_test_faults_t faults = DELTA_TEST_NO_FAULT;
    start(&training, "delta-fixed", "60%", n % 2, &faults);
    faults.failing_write = n;
    delta_status_t status = run_batch(&training);
    kept += status == NULL;
    cr_expect(!status || delta_status_code(status) == DELTA_STATUS_IO, "write %u: %s", n, delta_status_message(status));
    delta_status_free(status);
    delta_test_training_close(&training);
  }
  cr_expect_gt(kept, 0);
}

// ---- Models

enum { MOST_MODELS = 64, STEPS = 2 };

static size_t list_models(delta_test_model_t *models) {
  char folder[DELTA_TEST_PATH_BYTES];
  return delta_test_shared_path("models", folder) ? delta_test_list_models(folder, models, 0, MOST_MODELS) : 0;
}

// Without the material there is one model without a name, which is skipped.
ParameterizedTestParameters(auditor, models_pass_at_their_smallest_budget) {
  static delta_test_model_t models[MOST_MODELS];
  const size_t count = list_models(models);
  return cr_make_param_array(delta_test_model_t, models, count ? count : 1);
}

typedef struct outcome {
  double losses[STEPS + 2];
  uint8_t *states; // Owned.
  size_t state_bytes;
} outcome_t;

static outcome_t train_model(const delta_test_model_run_t *run, const char *policy, const char *budget, int verify) {
  outcome_t outcome = {.states = NULL};
  delta_plan_options_t options = delta_test_model_plan_options(run, policy, budget);
  options.profile = "estimate";
  delta_plan_t *plan = NULL;
  delta_session_t *session = NULL;
  delta_session_options_t session_options;
  delta_plan_summary_t summary = {.struct_size = sizeof summary};
  delta_run_report_t report;
  delta_session_options_init(&session_options);
  delta_test_expect_ok(delta_plan_create(&options, delta_allocator_system(), &plan, &summary), run->model->name);
  session_options.plan = plan;
  session_options.model_path = run->model->path;
  session_options.verify = verify;
  session_options.estimate_costs = 1;
  delta_test_expect_ok(delta_session_create(&session_options, delta_allocator_system(), &session), run->model->name);
  for (int step = 0; step < STEPS + 2; ++step) {
    const delta_run_program_t program = step < STEPS + 1 ? DELTA_RUN_TRAIN : DELTA_RUN_EVALUATE;
    const int64_t rows = step == 1 && !delta_session_has_fixed_batch(session) && summary.batch > 1 ? summary.batch - 1 : summary.batch;
    delta_test_expect_ok(delta_test_run_seeded(session, program, rows, (uint64_t)step, &report), run->model->name);
    outcome.losses[step] = report.loss;
  }
  delta_test_expect_ok(delta_test_read_all_states(session, &outcome.states, &outcome.state_bytes), run->model->name);
  delta_session_destroy(session);
  delta_plan_free(plan);
  return outcome;
}

ParameterizedTest(delta_test_model_t *model, auditor, models_pass_at_their_smallest_budget, .timeout = 300) {
  char path[DELTA_TEST_PATH_BYTES];
  DELTA_SKIP_WITHOUT_SHARED("models", path);
  delta_test_model_run_t run = {.model = model, .optimizer = "adamw", .threads = 1};
  delta_test_expect_ok(delta_test_read_about(&run), model->name);
  outcome_t wanted = train_model(&run, "none", "unlimited", 0), found = train_model(&run, "delta-fixed", "minimum", 1);
  cr_expect_eq(memcmp(wanted.losses, found.losses, sizeof wanted.losses), 0, "%s: losses differ", model->name);
  cr_assert_eq(wanted.state_bytes, found.state_bytes);
  cr_expect_eq(memcmp(wanted.states, found.states, wanted.state_bytes), 0, "%s: states differ", model->name);
  delta_release(delta_allocator_system(), wanted.states);
  delta_release(delta_allocator_system(), found.states);
}
