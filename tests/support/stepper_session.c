// Stepper on plans and sessions of a driver: the way every user's training goes. The arena is verified, guard pages around it and dead bytes poisoned, unless the kind wants
// steps that are recorded.
//
// The options of a build are turned into those of a plan. A forward pass exactly as exported is no program of a plan, so its schedule takes
// the place of all of the plan's.
#include <string.h>

#include <delta/delta.h>

#include "plans/plan.h"
#include "runtime/program.h"
#include "tests/support/stepper.h"

struct delta_stepper {
  delta_allocator_t allocator;
  delta_plan_t *plan;       // Owned.
  delta_session_t *session; // Owned.
  delta_build_facts_t facts;
  delta_run_report_t report; // of the last run
  int64_t rows;
};

#define SECOND_NAME(id, name, ...) name,
static const char *const loss_names[] = {DELTA_LOSSES(SECOND_NAME)};
static const char *const optimizer_names[] = {DELTA_OPTIMIZERS(SECOND_NAME)};
#undef SECOND_NAME

static const char *const split_names[DELTA_PARTS_MAX + 1] = {"off", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                                             "9",   "10", "11", "12", "13", "14", "15", "16"};

// A kind of plan and session.
typedef struct session_kind {
  const char *policy, *layout, *device;
  bool verifies;
} session_kind_t;

static delta_plan_options_t plan_options(const delta_model_t *model, const delta_build_options_t *build, int threads,
                                         const session_kind_t *kind) {
  delta_plan_options_t options;
  delta_plan_options_init(&options);
  options.profile = "estimate";
  options.layout = kind->layout;
  options.device = kind->device;
  options.split = split_names[build->parts];
  const delta_optimizer_options_t *optimizer = &build->optimizer;
  options.model_path = model->path;
  options.policy = kind->policy;
  options.budget = "unlimited";
  options.batch = build->import.batch;
  options.loss = loss_names[build->loss];
  options.class_axis = build->class_axis;
  options.ignore_index = build->ignore_index;
  options.clip_gradient_norm = build->clip_gradient_norm;
  options.accumulate = build->accumulates ? 2 : 1;
  options.threads = threads;
  if (optimizer->kind == DELTA_OPTIMIZER_NONE) return options;
  options.optimizer = optimizer_names[optimizer->kind];
  options.momentum = optimizer->momentum;
  options.weight_decay = optimizer->weight_decay;
  options.beta1 = optimizer->beta1;
  options.beta2 = optimizer->beta2;
  options.epsilon = optimizer->epsilon;
  options.nesterov = optimizer->nesterov;
  return options;
}

// Leaves the plan the evaluation alone, planned again exactly as exported.
static delta_status_t replan_as_exported(delta_stepper_t *stepper, const delta_model_t *model) {
  delta_plan_t *plan = stepper->plan;
  const delta_device_options_t device_options = {.threads = plan->numerics.threads, .math = plan->numerics.math};
  delta_device_t *device = NULL;
  delta_program_parts_t parts = {0};
  const delta_program_choice_t choice = {.layouts = {.is_forced = true, .forced = DELTA_LAYOUT_PLAIN}};
  delta_planner_result_t result = {0};
  delta_policy_t policy;
  delta_status_t status = DELTA_OK;
  plan->build.import.as_exported = true;
  DELTA_GOTO_IF_ERROR(status, delta_policy_parse(plan->policy, &policy), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_device_open(plan->numerics.device, &device_options, stepper->allocator, &device), cleanup);
  DELTA_GOTO_IF_ERROR(
      status, delta_program_build(model, &plan->build, DELTA_PROGRAM_EVALUATE, stepper->rows, device, &choice, stepper->allocator, &parts),
      cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_program_plan(&parts, policy, plan->levers, UINT64_MAX, stepper->allocator, &result), cleanup);
  for (uint32_t i = 0; i < plan->program_count; ++i) delta_schedule_free(plan->programs[i].schedule);
  plan->program_count = 1;
  plan->programs[0] = (delta_plan_program_t){.kind = DELTA_PROGRAM_EVALUATE, .batch = stepper->rows, .schedule = result.schedule};
  delta_graph_hash(parts.graph, plan->programs[0].graph_hash);
  DELTA_GOTO_IF_ERROR(status, delta_program_record(&parts, plan, &plan->programs[0]), cleanup);
  delta_program_numerics_id(&(const delta_program_parts_t *){&parts}, 1, device, plan->numerics.id);
cleanup:
  delta_program_deinit(&parts);
  delta_device_close(device);
  return status;
}

static delta_status_t open_session(delta_stepper_t *stepper, const delta_model_t *model, bool verifies) {
  delta_session_options_t options;
  delta_session_options_init(&options);
  options.plan = stepper->plan;
  options.model_path = model->path;
  options.seed = 1;
  options.verify_arena = verifies;
  return delta_session_create(&options, stepper->allocator, &stepper->session);
}

static void session_destroy(delta_stepper_t *stepper) {
  if (!stepper) return;
  delta_session_destroy(stepper->session);
  delta_plan_free(stepper->plan);
  delta_release(stepper->allocator, stepper);
}

static delta_status_t create_with(const delta_model_t *model, const delta_build_options_t *build, int threads, const session_kind_t *kind,
                                  delta_allocator_t allocator, delta_stepper_t **out_stepper) {
  delta_stepper_t *stepper = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &stepper));
  stepper->allocator = allocator;
  const delta_plan_options_t options = plan_options(model, build, threads, kind);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_plan_create(&options, allocator, &stepper->plan, NULL), cleanup);
  stepper->facts.trainable_parameters = stepper->plan->totals.trainable_parameters;
  stepper->facts.trainable_tensors = stepper->plan->totals.trainable_tensors;
  stepper->rows = stepper->plan->build.import.batch;
  if (build->import.as_exported) DELTA_GOTO_IF_ERROR(status, replan_as_exported(stepper, model), cleanup);
  DELTA_GOTO_IF_ERROR(status, open_session(stepper, model, kind->verifies), cleanup);
  *out_stepper = stepper;
  stepper = NULL;
cleanup:
  session_destroy(stepper);
  return status;
}

// One function for each kind: policy, layout, device, whether the arena is verified.
#define DELTA_STEPPER_CREATE(function, ...)                                                                                                \
  static delta_status_t function(const delta_model_t *model, const delta_build_options_t *build, int threads, delta_allocator_t allocator, \
                                 delta_stepper_t **out_stepper) {                                                                          \
    return create_with(model, build, threads, &(const session_kind_t){__VA_ARGS__}, allocator, out_stepper);                               \
  }
DELTA_STEPPER_CREATE(create_none, "none", "auto", "cpu", true)
DELTA_STEPPER_CREATE(create_plain, "none", "plain", "cpu", true)
DELTA_STEPPER_CREATE(create_channels_last, "none", "channels_last", "cpu", true)
DELTA_STEPPER_CREATE(create_blocked_8, "none", "blocked_8", "cpu", true)
DELTA_STEPPER_CREATE(create_blocked_16, "none", "blocked_16", "cpu", true)
DELTA_STEPPER_CREATE(create_eager, "eager", "auto", "cpu", true)
DELTA_STEPPER_CREATE(create_cuda, "none", "auto", "cuda", false)
DELTA_STEPPER_CREATE(create_cuda_verified, "none", "auto", "cuda", true)
#undef DELTA_STEPPER_CREATE

static const delta_run_program_t run_programs[] = {
    [DELTA_PROGRAM_TRAIN] = DELTA_RUN_TRAIN,
    [DELTA_PROGRAM_ACCUMULATE] = DELTA_RUN_ACCUMULATE,
    [DELTA_PROGRAM_APPLY] = DELTA_RUN_APPLY,
    [DELTA_PROGRAM_EVALUATE] = DELTA_RUN_EVALUATE,
};

static delta_status_t session_run(delta_stepper_t *stepper, delta_program_kind_t program, const delta_stepper_feed_t *feeds,
                                  size_t feed_count) {
  enum { MOST_FEEDS = 16 };
  delta_feed_t own[MOST_FEEDS];
  size_t count = 0;
  float rate = 0;
  for (size_t i = 0; i < feed_count && count < MOST_FEEDS; ++i) {
    if (strcmp(feeds[i].name, DELTA_NAME_RATE) == 0) memcpy(&rate, feeds[i].data, sizeof rate);
    if (delta_is_own_name(feeds[i].name)) continue;
    own[count++] = (delta_feed_t){.name = feeds[i].name, .data = feeds[i].data, .size_bytes = feeds[i].size_bytes};
  }
  const delta_batch_t batch = {.rows = stepper->rows, .feeds = own, .feed_count = count};
  stepper->report = (delta_run_report_t){.struct_size = sizeof stepper->report};
  return delta_session_run(stepper->session, run_programs[program], &batch, rate, &stepper->report);
}

static void store_doubles(const void *data, delta_dtype_t dtype, double *values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = delta_element_load_double(data, dtype, i);
}

// Outputs of the model are float32.
static delta_status_t session_read_output(delta_stepper_t *stepper, delta_program_kind_t program, const char *name, double *values,
                                          size_t count) {
  (void)program;
  if (strcmp(name, DELTA_NAME_LOSS) == 0 || strcmp(name, DELTA_NAME_LABEL_COUNT) == 0) {
    values[0] = strcmp(name, DELTA_NAME_LOSS) == 0 ? stepper->report.loss : stepper->report.label_count;
    return count == 1 ? DELTA_OK : delta_status_make(MISMATCH, "'%s' is one number, asked for %zu", name, count);
  }
  float *output = NULL;
  size_t size_bytes = 0;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(stepper->allocator, count, &output));
  delta_status_t status = delta_session_read_output(stepper->session, name, stepper->rows, output, count * sizeof *output, &size_bytes);
  if (!status && size_bytes != count * sizeof *output)
    status = delta_status_make(MISMATCH, "output '%s' has %zu bytes, asked for %zu elements", name, size_bytes, count);
  if (!status) store_doubles(output, DELTA_DTYPE_FLOAT32, values, count);
  delta_release(stepper->allocator, output);
  return status;
}

static const delta_plan_state_t *find_state(const delta_plan_t *plan, const char *name) {
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    if (strcmp(plan->states[i].name, name) == 0) return &plan->states[i];
  }
  return NULL;
}

static delta_status_t session_read_state(delta_stepper_t *stepper, const char *name, double *values, size_t count) {
  const delta_plan_state_t *state = find_state(stepper->plan, name);
  if (!state) return delta_status_make(NOT_FOUND, "there is no state '%s'", name);
  void *data = NULL;
  DELTA_RETURN_IF_ERROR(delta_allocate(stepper->allocator, count, delta_dtype_bytes(state->dtype), &data));
  delta_status_t status = delta_session_read(stepper->session, name, data, count * delta_dtype_bytes(state->dtype));
  if (!status) store_doubles(data, state->dtype, values, count);
  delta_release(stepper->allocator, data);
  return status;
}

static const delta_build_facts_t *session_facts(const delta_stepper_t *stepper, delta_program_kind_t program) {
  (void)program;
  return &stepper->facts;
}

#define SESSION_STEPPER(kind_name, create_function)                                                                                   \
  {                                                                                                                                   \
    .name = kind_name, .create = create_function, .destroy = session_destroy, .run = session_run, .read_output = session_read_output, \
    .read_state = session_read_state, .facts = session_facts                                                                          \
  }
const delta_stepper_kind_t delta_stepper_session = SESSION_STEPPER("cpu", create_none);
const delta_stepper_kind_t delta_stepper_layouts[] = {
    SESSION_STEPPER("cpu-plain", create_plain),
    SESSION_STEPPER("cpu-channels-last", create_channels_last),
    SESSION_STEPPER("cpu-blocked-8", create_blocked_8),
    SESSION_STEPPER("cpu-blocked-16", create_blocked_16),
};
const delta_stepper_kind_t delta_stepper_session_eager = SESSION_STEPPER("cpu-eager", create_eager);
const delta_stepper_kind_t delta_stepper_cuda[] = {SESSION_STEPPER("cuda", create_cuda),
                                                   SESSION_STEPPER("cuda-verified", create_cuda_verified)};
