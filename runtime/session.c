// Session: programs of a plan over one arena. Programs are built again and compared with the plan when the session is made; a batch size that the plan
// does not have is planned when it first comes, in the same arena and state area, and kept.
#include <delta/session.h>

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "onnx/export.h"
#include "plans/plan.h"
#include "runtime/executor.h"
#include "runtime/plan_options.h"
#include "runtime/program.h"

// A program ready to run.
typedef struct delta_live_program {
  delta_program_parts_t parts;
  delta_schedule_t *own_schedule; // Owned; NULL when the plan's is used.
  const delta_schedule_t *schedule;
  delta_executor_t *executor; // Owned.
} delta_live_program_t;

struct delta_session {
  delta_allocator_t allocator;
  delta_session_options_t options;
  const delta_plan_t *plan; // Borrowed.
  delta_model_t *model;
  delta_device_t *device;
  delta_arena_t *arena;
  size_t state_bytes;
  uint64_t committed_bytes;
  uint64_t budget_bytes;
  delta_build_options_t build;
  DELTA_ARRAY(delta_live_program_t *) programs; // Owned.
  delta_live_program_t *evaluated;              // the program whose outputs can be read; NULL for none
};

static double now_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void delta_session_options_init(delta_session_options_t *options) { *options = (delta_session_options_t){.struct_size = sizeof *options}; }

// --- opening ---------------------------------------------------------------------------------------------------------------------------------

// The model's path: as given, or beside the plan.
static delta_status_t find_model(const delta_session_options_t *options, delta_text_t *path) {
  if (options->model_path) return delta_text_append(path, "%s", options->model_path);
  if (!options->plan_path) return delta_status_make(INVALID_ARGUMENT, "neither the plan's path nor the model's is given");
  const char *slash = strrchr(options->plan_path, '/');
  int folder_length = slash ? (int)(slash - options->plan_path + 1) : 0;
  return delta_text_append(path, "%.*s%s", folder_length, options->plan_path, options->plan->model_file);
}

static delta_status_t open_model(delta_session_t *session) {
  delta_text_t path;
  delta_text_init(&path, session->allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, find_model(&session->options, &path), cleanup);
  const delta_model_options_t options = {
      .path = path.items, .external_folder = session->options.external_data, .log = session->options.log};
  status = delta_model_load(&options, session->allocator, &session->model);
  if (status && delta_status_code(status) == DELTA_STATUS_NOT_FOUND)
    status = delta_status_annotate(status, "the plan's model (give --model FILE)");
  if (!status && strcmp(session->model->sha256, session->plan->model_sha256) != 0) {
    status = delta_status_make(
        MISMATCH, "model '%s' is not the one the plan was made for (another SHA-256): make a new plan with deltaplan", path.items);
  }
cleanup:
  delta_text_deinit(&path);
  return status;
}

static delta_status_t open_device(delta_session_t *session) {
  const delta_plan_numerics_t *numerics = &session->plan->numerics;
  const delta_device_options_t options = {.threads = numerics->threads, .log = session->options.log};
  DELTA_RETURN_IF_ERROR(delta_device_open(numerics->device, &options, session->allocator, &session->device));
  const delta_device_t *device = session->device;
  if (strcmp(device->instruction_set, numerics->instruction_set) != 0 || strcmp(device->libraries, numerics->libraries) != 0) {
    return delta_status_make(
        MISMATCH, "the plan is for instruction set %s with %s, this machine has %s with %s: make a new plan with 'deltaplan %s -o PLAN'",
        numerics->instruction_set, numerics->libraries, device->instruction_set, device->libraries, session->plan->model_file);
  }
  return DELTA_OK;
}

// --- programs --------------------------------------------------------------------------------------------------------------------------------

static void free_program(delta_session_t *session, delta_live_program_t *program) {
  if (!program) return;
  delta_executor_destroy(program->executor);
  delta_schedule_free(program->own_schedule);
  delta_program_deinit(&program->parts);
  delta_release(session->allocator, program);
}

// Takes the plan's schedule after checking that the graph is the one it was made for.
static delta_status_t adopt_schedule(const delta_plan_program_t *planned, delta_live_program_t *program) {
  char hash[DELTA_SHA256_TEXT_BYTES];
  delta_graph_hash(program->parts.graph, hash);
  if (strcmp(hash, planned->graph_hash) != 0) {
    return delta_status_make(
        MISMATCH,
        "the plan's program for %lld rows is of another graph: it was made by another version or edited; make a new plan with deltaplan",
        (long long)planned->batch);
  }
  program->schedule = planned->schedule;
  return DELTA_OK;
}

// Plans a batch size that the plan does not have, within the budget.
static delta_status_t plan_schedule(delta_session_t *session, delta_live_program_t *program) {
  delta_policy_t policy;
  DELTA_RETURN_IF_ERROR(delta_policy_parse(session->plan->policy, &policy));
  uint64_t budget_bytes = session->budget_bytes;
  uint64_t capacity_bytes = budget_bytes == UINT64_MAX            ? UINT64_MAX
                            : budget_bytes > session->state_bytes ? budget_bytes - session->state_bytes
                                                                  : 0;
  delta_planner_result_t result = {0};
  delta_status_t status = delta_program_plan(&program->parts, policy, session->plan->levers, capacity_bytes, session->allocator, &result);
  if (status) return delta_status_annotate(status, "a batch of %lld rows", (long long)program->parts.batch);
  program->own_schedule = result.schedule;
  program->schedule = result.schedule;
  return DELTA_OK;
}

// Commits what a program needs beyond what is committed. New pages are touched once here, not during a step.
static delta_status_t commit_for(delta_session_t *session, const delta_schedule_t *schedule) {
  size_t granule_bytes = session->device->granule_bytes;
  size_t wanted_bytes = session->state_bytes, rounded_bytes;
  if (!delta_size_add(wanted_bytes, schedule->arena_bytes, &wanted_bytes) ||
      !delta_size_align(wanted_bytes, granule_bytes, &rounded_bytes)) {
    return delta_status_make(OUT_OF_MEMORY, "the program's arena does not fit the address space");
  }
  if (rounded_bytes <= session->committed_bytes) return DELTA_OK;
  if (rounded_bytes > session->budget_bytes) {
    return delta_status_make(DOES_NOT_FIT, "a program needs %zu bytes, the budget is %llu: give a larger --budget", rounded_bytes,
                             (unsigned long long)session->budget_bytes);
  }
  DELTA_RETURN_IF_ERROR(session->device->driver->arena_commit(session->arena, rounded_bytes));
  session->committed_bytes = rounded_bytes;
  return DELTA_OK;
}

static delta_status_t create_executor(delta_session_t *session, delta_live_program_t *program) {
  DELTA_RETURN_IF_ERROR(
      delta_schedule_verify(program->schedule, program->parts.problem, program->schedule->arena_bytes, session->allocator));
  DELTA_RETURN_IF_ERROR(commit_for(session, program->schedule));
  const delta_executor_options_t options = {
      .device = session->device,
      .graph = program->parts.graph,
      .problem = program->parts.problem,
      .tensor_of_storage = program->parts.tensor_of_storage,
      .selection = program->parts.selection,
      .schedule = program->schedule,
      .plan = session->plan,
      .arena = session->arena,
      .state_bytes = session->state_bytes,
      .poison = session->options.verify_arena != 0,
  };
  return delta_executor_create(&options, session->allocator, &program->executor);
}

static delta_status_t make_program(delta_session_t *session, delta_program_kind_t kind, int64_t rows, const delta_plan_program_t *planned,
                                   delta_live_program_t **out_program) {
  delta_live_program_t *program = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(session->allocator, 1, &program));
  delta_status_t status = DELTA_OK;
  int64_t batch = kind == DELTA_PROGRAM_APPLY ? session->build.import.batch : rows;
  DELTA_GOTO_IF_ERROR(
      status,
      delta_program_build(session->model, &session->build, kind, batch, session->device, false, session->allocator, &program->parts),
      cleanup);
  if (planned) {
    DELTA_GOTO_IF_ERROR(status, adopt_schedule(planned, program), cleanup);
  } else {
    DELTA_GOTO_IF_ERROR(status, plan_schedule(session, program), cleanup);
  }
  DELTA_GOTO_IF_ERROR(status, create_executor(session, program), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_array_push(session->allocator, &session->programs, &program), cleanup);
  *out_program = program;
  program = NULL;
cleanup:
  free_program(session, program);
  return status;
}

static delta_status_t find_program(delta_session_t *session, delta_program_kind_t kind, int64_t rows, delta_live_program_t **out_program) {
  for (size_t i = 0; i < session->programs.count; ++i) {
    delta_live_program_t *program = session->programs.items[i];
    if (program->parts.kind == kind && (kind == DELTA_PROGRAM_APPLY || program->parts.batch == rows)) {
      *out_program = program;
      return DELTA_OK;
    }
  }
  bool accumulates = session->build.accumulates;
  if (!accumulates && (kind == DELTA_PROGRAM_ACCUMULATE || kind == DELTA_PROGRAM_APPLY)) {
    return delta_status_make(INVALID_ARGUMENT, "the plan does not accumulate gradients: make it with --accumulate N");
  }
  return make_program(session, kind, rows, NULL, out_program);
}

// Plans of before are checked in one go: all programs that the plan has are made when the session opens.
static delta_status_t make_planned_programs(delta_session_t *session) {
  for (uint32_t i = 0; i < session->plan->program_count; ++i) {
    const delta_plan_program_t *planned = &session->plan->programs[i];
    delta_live_program_t *program = NULL;
    DELTA_RETURN_IF_ERROR(make_program(session, planned->kind, planned->batch, planned, &program));
  }
  return DELTA_OK;
}

// --- states ----------------------------------------------------------------------------------------------------------------------------------

static void *state_address(const delta_session_t *session, const delta_plan_state_t *state) {
  return session->device->driver->arena_address(session->arena, state->offset_bytes);
}

static size_t state_content_bytes(const delta_plan_state_t *state) {
  return (size_t)delta_shape_count(&state->shape) * delta_dtype_bytes(state->dtype);
}

static const delta_plan_state_t *find_state(const delta_session_t *session, const char *name) {
  for (uint32_t i = 0; i < session->plan->state_count; ++i) {
    if (strcmp(session->plan->states[i].name, name) == 0) return &session->plan->states[i];
  }
  return NULL;
}

static delta_status_t initialize_state(delta_session_t *session, const delta_plan_state_t *state, const delta_state_t *source) {
  void *address = state_address(session, state);
  size_t size_bytes = state_content_bytes(state);
  if (source->initializer != DELTA_INDEX_NONE) {
    return delta_model_read_tensor(session->model, &session->model->initializers[source->initializer], address, size_bytes);
  }
  int64_t count = delta_shape_count(&state->shape);
  for (int64_t i = 0; i < count; ++i) delta_element_store_double(address, state->dtype, (size_t)i, source->initial_value);
  return DELTA_OK;
}

// Gives every state its first value; every program's list is looked at, since not every program knows every state.
static delta_status_t initialize_states(delta_session_t *session) {
  bool *done = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(session->allocator, session->plan->state_count, &done));
  delta_status_t status = DELTA_OK;
  for (size_t p = 0; p < session->programs.count; ++p) {
    const delta_graph_t *graph = session->programs.items[p]->parts.graph;
    for (size_t i = 0; i < graph->states.count; ++i) {
      const delta_plan_state_t *state = find_state(session, graph->states.items[i].name);
      if (!state || done[state - session->plan->states]) continue;
      DELTA_GOTO_IF_ERROR(status, initialize_state(session, state, &graph->states.items[i]), cleanup);
      done[state - session->plan->states] = true;
    }
  }
cleanup:
  delta_release(session->allocator, done);
  return status;
}

// The plan's budget, or the one that replaces it. What the device has free is no reason to refuse a plan that was given a size.
static delta_status_t resolve_budget(delta_session_t *session) {
  const delta_plan_totals_t *totals = &session->plan->totals;
  session->budget_bytes = totals->budget_bytes;
  if (!session->options.budget) return DELTA_OK;
  return delta_budget_resolve(session->options.budget, UINT64_MAX, totals->unlimited_peak_bytes, totals->minimum_budget_bytes,
                              &session->budget_bytes);
}

static delta_status_t reserve_arena(delta_session_t *session) {
  const delta_plan_t *plan = session->plan;
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    size_t end = plan->states[i].offset_bytes + plan->states[i].size_bytes;
    if (end > session->state_bytes) session->state_bytes = end;
  }
  // Address space costs nothing: a batch size that comes later may need a little more than the planned ones.
  size_t reserve_bytes;
  if (!delta_size_mul(plan->totals.arena_bytes, 2, &reserve_bytes) || !delta_size_add(reserve_bytes, (size_t)64 << 20, &reserve_bytes)) {
    return delta_status_make(OUT_OF_MEMORY, "an arena of %llu bytes does not fit the address space",
                             (unsigned long long)plan->totals.arena_bytes);
  }
  return session->device->driver->arena_reserve(session->device, reserve_bytes, &session->arena);
}

delta_status_t delta_session_create(const delta_session_options_t *options, delta_allocator_t allocator, delta_session_t **out_session) {
  *out_session = NULL;
  if (options->struct_size != sizeof *options)
    return delta_status_make(INVALID_ARGUMENT, "session options: call delta_session_options_init first");
  if (!options->plan) return delta_status_make(INVALID_ARGUMENT, "session options: no plan given");
  delta_session_t *session = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &session));
  session->allocator = allocator;
  session->options = *options;
  session->plan = options->plan;
  session->build = options->plan->build;
  session->build.import.log = options->log;
  session->build.import.levers = options->plan->levers;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, resolve_budget(session), cleanup);
  DELTA_GOTO_IF_ERROR(status, open_model(session), cleanup);
  DELTA_GOTO_IF_ERROR(status, open_device(session), cleanup);
  DELTA_GOTO_IF_ERROR(status, reserve_arena(session), cleanup);
  DELTA_GOTO_IF_ERROR(status, make_planned_programs(session), cleanup);
  DELTA_GOTO_IF_ERROR(status, initialize_states(session), cleanup);
  *out_session = session;
  session = NULL;
cleanup:
  delta_session_destroy(session);
  return status;
}

void delta_session_destroy(delta_session_t *session) {
  if (!session) return;
  for (size_t i = 0; i < session->programs.count; ++i) free_program(session, session->programs.items[i]);
  delta_array_deinit(session->allocator, &session->programs);
  if (session->arena) session->device->driver->arena_destroy(session->arena);
  delta_device_close(session->device);
  delta_model_free(session->model);
  delta_release(session->allocator, session);
}

// --- running ---------------------------------------------------------------------------------------------------------------------------------

static delta_status_t check_range(const delta_session_t *session, const delta_live_program_t *program, uint32_t input, const void *data);
static uint32_t model_input(const delta_graph_t *graph, size_t index);

static const delta_tensor_t *input_tensor(const delta_live_program_t *program, uint32_t index) {
  return delta_graph_tensor(program->parts.graph, program->parts.graph->inputs.items[index]);
}

// Copies the caller's feed for input `index` into place.
static delta_status_t copy_feed(delta_session_t *session, delta_live_program_t *program, uint32_t index, const delta_batch_t *batch) {
  const delta_tensor_t *tensor = input_tensor(program, index);
  size_t size_bytes = delta_tensor_bytes(tensor);
  for (size_t i = 0; i < batch->feed_count; ++i) {
    const delta_feed_t *feed = &batch->feeds[i];
    if (strcmp(feed->name, tensor->name) != 0) continue;
    if (feed->size_bytes != size_bytes) {
      return delta_status_make(INVALID_ARGUMENT, "input '%s': %zu bytes given, %lld rows need %zu", tensor->name, feed->size_bytes,
                               (long long)batch->rows, size_bytes);
    }
    DELTA_RETURN_IF_ERROR(check_range(session, program, index, feed->data));
    return session->device->driver->write(session->device, delta_executor_input(program->executor, index), feed->data, size_bytes);
  }
  return delta_status_make(INVALID_ARGUMENT, "input '%s' is not among the feeds", tensor->name);
}

// Lets the caller write all inputs of the model where they are read.
static delta_status_t fill_in_place(delta_session_t *session, delta_live_program_t *program, const delta_batch_t *batch) {
  enum { MOST_INPUTS = 256 };
  void *buffers[MOST_INPUTS];
  const delta_graph_t *graph = program->parts.graph;
  size_t count = 0;
  for (uint32_t index; (index = model_input(graph, count)) != DELTA_INDEX_NONE; ++count) {
    if (count == MOST_INPUTS) return delta_status_make(UNSUPPORTED, "the model has more than %d inputs", MOST_INPUTS);
    buffers[count] = delta_executor_input(program->executor, index);
  }
  DELTA_RETURN_IF_ERROR(batch->fill(batch->self, buffers));
  for (size_t i = 0; i < count; ++i) DELTA_RETURN_IF_ERROR(check_range(session, program, model_input(graph, i), buffers[i]));
  return DELTA_OK;
}

// Writes a scalar of Delta's own (seed, learning rate).
static void set_own_input(delta_session_t *session, delta_live_program_t *program, uint32_t index, double learning_rate) {
  const delta_tensor_t *tensor = input_tensor(program, index);
  void *address = delta_executor_input(program->executor, index);
  if (strcmp(tensor->name, DELTA_NAME_SEED) == 0) {
    delta_element_store_int64(address, tensor->dtype, 0, (int64_t)session->options.seed);
  } else {
    delta_element_store_double(address, tensor->dtype, 0, learning_rate);
  }
}

static delta_status_t feed_inputs(delta_session_t *session, delta_live_program_t *program, const delta_batch_t *batch,
                                  double learning_rate) {
  for (uint32_t i = 0; i < program->parts.graph->inputs.count; ++i) {
    if (delta_is_own_name(input_tensor(program, i)->name)) {
      set_own_input(session, program, i, learning_rate);
    } else if (!batch->fill) {
      DELTA_RETURN_IF_ERROR(copy_feed(session, program, i, batch));
    }
  }
  return batch->fill ? fill_in_place(session, program, batch) : DELTA_OK;
}

static uint32_t find_output_index(const delta_graph_t *graph, const char *name) {
  for (uint32_t i = 0; i < graph->outputs.count; ++i) {
    if (strcmp(graph->outputs.items[i].name, name) == 0) return i;
  }
  return DELTA_INDEX_NONE;
}

// A scalar output by name, or `fallback` where the program has none.
static double read_scalar(const delta_live_program_t *program, const char *name, double fallback) {
  uint32_t index = find_output_index(program->parts.graph, name);
  if (index == DELTA_INDEX_NONE) return fallback;
  const delta_tensor_t *tensor = delta_graph_tensor(program->parts.graph, program->parts.graph->outputs.items[index].tensor);
  return delta_element_load_double(delta_executor_output(program->executor, index), tensor->dtype, 0);
}

static void fill_report(const delta_session_t *session, const delta_live_program_t *program, double seconds, delta_run_report_t *report) {
  double rows = (double)program->parts.batch;
  *report = (delta_run_report_t){
      .struct_size = sizeof *report,
      .label_count = read_scalar(program, DELTA_NAME_LABEL_COUNT, rows),
      .correct = read_scalar(program, DELTA_NAME_CORRECT, -1),
      .gradient_norm = read_scalar(program, DELTA_NAME_GRADIENT_NORM, -1),
      .seconds = seconds,
      .arena_peak_bytes = session->committed_bytes,
  };
  report->loss = read_scalar(program, DELTA_NAME_LOSS, read_scalar(program, DELTA_NAME_LOSS_SUM, NAN) / report->label_count);
}

// The loss is not finite: runs again, looking at every value, to name where it began.
static delta_status_t explain_bad_loss(delta_session_t *session, delta_live_program_t *program, const delta_batch_t *batch,
                                       double learning_rate, const delta_run_result_t *stopped) {
  delta_run_result_t found = {0};
  const delta_run_options_t checked = {.finite_output = DELTA_INDEX_NONE, .check_values = true};
  DELTA_RETURN_IF_ERROR(feed_inputs(session, program, batch, learning_rate));
  DELTA_RETURN_IF_ERROR(delta_executor_run(program->executor, &checked, &found));
  const char *node = found.stopped ? found.node_name : stopped->node_name;
  const char *states = stopped->updates_done ? "states were already being updated in this step" : "no state was changed by this step";
  return delta_status_make(
      NOT_A_NUMBER,
      "the loss is not a finite number; the first such value comes from node '%s'; %s. Lower --lr, clip gradients, or check the data", node,
      states);
}

static const delta_program_kind_t program_kinds[] = {
    [DELTA_PROGRAM_RUN_TRAIN] = DELTA_PROGRAM_TRAIN,
    [DELTA_PROGRAM_RUN_ACCUMULATE] = DELTA_PROGRAM_ACCUMULATE,
    [DELTA_PROGRAM_RUN_APPLY] = DELTA_PROGRAM_APPLY,
    [DELTA_PROGRAM_RUN_EVALUATE] = DELTA_PROGRAM_EVALUATE,
};

delta_status_t delta_session_run(delta_session_t *session, delta_run_program_t which, const delta_batch_t *batch, double learning_rate,
                                 delta_run_report_t *out_report) {
  if ((size_t)which >= sizeof program_kinds / sizeof *program_kinds)
    return delta_status_make(INVALID_ARGUMENT, "program %d does not exist", (int)which);
  delta_program_kind_t kind = program_kinds[which];
  static const delta_batch_t no_batch = {0};
  if (!batch) batch = &no_batch;
  if (kind != DELTA_PROGRAM_APPLY && batch->rows < 1)
    return delta_status_make(INVALID_ARGUMENT, "a batch of %lld rows: give at least one", (long long)batch->rows);
  delta_live_program_t *program = NULL;
  DELTA_RETURN_IF_ERROR(find_program(session, kind, batch->rows, &program));
  session->evaluated = NULL;
  double start_seconds = now_seconds();
  DELTA_RETURN_IF_ERROR(feed_inputs(session, program, batch, learning_rate));
  bool trains = kind == DELTA_PROGRAM_TRAIN || kind == DELTA_PROGRAM_ACCUMULATE;
  delta_run_result_t result = {0};
  const delta_run_options_t run = {.finite_output = trains ? find_output_index(program->parts.graph, DELTA_NAME_LOSS) : DELTA_INDEX_NONE};
  DELTA_RETURN_IF_ERROR(delta_executor_run(program->executor, &run, &result));
  if (result.stopped) return explain_bad_loss(session, program, batch, learning_rate, &result);
  if (kind == DELTA_PROGRAM_EVALUATE) session->evaluated = program;
  if (out_report) fill_report(session, program, now_seconds() - start_seconds, out_report);
  return DELTA_OK;
}

// --- inputs ----------------------------------------------------------------------------------------------------------------------------------

// The program whose inputs describe what a data reader supplies.
static const delta_live_program_t *feeding_program(const delta_session_t *session) { return session->programs.items[0]; }

// Index in graph->inputs of the model's input number `index`.
static uint32_t model_input(const delta_graph_t *graph, size_t index) {
  size_t seen = 0;
  for (uint32_t i = 0; i < graph->inputs.count; ++i) {
    if (delta_is_own_name(delta_graph_tensor(graph, graph->inputs.items[i])->name)) continue;
    if (seen++ == index) return i;
  }
  return DELTA_INDEX_NONE;
}

size_t delta_session_input_count(const delta_session_t *session) {
  const delta_graph_t *graph = feeding_program(session)->parts.graph;
  size_t count = 0;
  while (model_input(graph, count) != DELTA_INDEX_NONE) ++count;
  return count;
}

static void describe_range(const delta_session_t *session, const delta_live_program_t *program, uint32_t input, delta_input_info_t *info) {
  const delta_tensor_t *tensor = input_tensor(program, input);
  if (delta_dtype_is_float(tensor->dtype)) return;
  if (strcmp(tensor->name, DELTA_NAME_LABEL) == 0) {
    info->maximum = program->parts.facts.label_classes;
    info->has_ignore = program->parts.facts.label_classes > 0;
    info->ignore_value = session->build.ignore_index;
  } else {
    delta_graph_input_range(program->parts.graph, program->parts.graph->inputs.items[input], &info->minimum, &info->maximum);
  }
}

static delta_status_t check_range(const delta_session_t *session, const delta_live_program_t *program, uint32_t input, const void *data) {
  delta_input_info_t info = {0};
  describe_range(session, program, input, &info);
  if (info.minimum == info.maximum) return DELTA_OK;
  const delta_tensor_t *tensor = input_tensor(program, input);
  int64_t count = delta_shape_count(&tensor->shape);
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = delta_element_load_int64(data, tensor->dtype, (size_t)i);
    if ((value >= info.minimum && value < info.maximum) || (info.has_ignore && value == info.ignore_value)) continue;
    return delta_status_make(MISMATCH, "input '%s': element %lld is %lld, legal are %lld to %lld", tensor->name, (long long)i,
                             (long long)value, (long long)info.minimum, (long long)info.maximum - 1);
  }
  return DELTA_OK;
}

delta_status_t delta_session_input(const delta_session_t *session, size_t index, delta_input_info_t *out_info) {
  const delta_live_program_t *program = feeding_program(session);
  uint32_t input = model_input(program->parts.graph, index);
  if (input == DELTA_INDEX_NONE)
    return delta_status_make(INVALID_ARGUMENT, "input number %zu: the model has %zu", index, delta_session_input_count(session));
  const delta_tensor_t *tensor = input_tensor(program, input);
  *out_info = (delta_input_info_t){.name = tensor->name, .dtype = delta_dtype_name(tensor->dtype), .rank = tensor->shape.rank};
  memcpy(out_info->dims, tensor->shape.dims, sizeof out_info->dims);
  describe_range(session, program, input, out_info);
  return DELTA_OK;
}

int delta_session_has_fixed_batch(const delta_session_t *session) {
  for (uint32_t i = 0; i < session->model->input_count; ++i) {
    const delta_model_type_t *type = &session->model->values[session->model->inputs[i].index].type;
    if (type->has_shape && type->rank > 0 && type->dims[0].size >= 0) return 1;
  }
  return 0;
}

int delta_session_has_accuracy(const delta_session_t *session) { return feeding_program(session)->parts.facts.has_accuracy; }

// --- states and outputs ----------------------------------------------------------------------------------------------------------------------

size_t delta_session_state_count(const delta_session_t *session) { return session->plan->state_count; }

static const char *const state_kind_names[] = {
#define STATE_KIND_NAME(id, name) name,
    DELTA_STATE_KINDS(STATE_KIND_NAME)
#undef STATE_KIND_NAME
};

delta_status_t delta_session_state(const delta_session_t *session, size_t index, delta_state_info_t *out_info) {
  if (index >= session->plan->state_count)
    return delta_status_make(INVALID_ARGUMENT, "state number %zu: there are %u", index, session->plan->state_count);
  const delta_plan_state_t *state = &session->plan->states[index];
  *out_info = (delta_state_info_t){
      .name = state->name,
      .kind = state_kind_names[state->kind],
      .dtype = delta_dtype_name(state->dtype),
      .rank = state->shape.rank,
      .size_bytes = state_content_bytes(state),
  };
  memcpy(out_info->dims, state->shape.dims, sizeof out_info->dims);
  return DELTA_OK;
}

// The state called `name`, when `size_bytes` is its size.
static delta_status_t find_sized_state(const delta_session_t *session, const char *name, size_t size_bytes,
                                       const delta_plan_state_t **out_state) {
  *out_state = find_state(session, name);
  if (!*out_state) return delta_status_make(NOT_FOUND, "there is no parameter or state called '%s'", name);
  if (state_content_bytes(*out_state) != size_bytes) {
    return delta_status_make(INVALID_ARGUMENT, "state '%s' has %zu bytes, the buffer %zu", name, state_content_bytes(*out_state),
                             size_bytes);
  }
  return DELTA_OK;
}

delta_status_t delta_session_read(delta_session_t *session, const char *name, void *buffer, size_t size_bytes) {
  const delta_plan_state_t *state = NULL;
  DELTA_RETURN_IF_ERROR(find_sized_state(session, name, size_bytes, &state));
  return session->device->driver->read(session->device, buffer, state_address(session, state), size_bytes);
}

delta_status_t delta_session_write(delta_session_t *session, const char *name, const void *buffer, size_t size_bytes) {
  const delta_plan_state_t *state = NULL;
  DELTA_RETURN_IF_ERROR(find_sized_state(session, name, size_bytes, &state));
  return session->device->driver->write(session->device, state_address(session, state), buffer, size_bytes);
}

delta_status_t delta_session_read_output(delta_session_t *session, const char *name, int64_t rows, void *buffer, size_t capacity_bytes,
                                         size_t *out_size_bytes) {
  const delta_live_program_t *program = session->evaluated;
  if (!program || program->parts.batch != rows) {
    return delta_status_make(INVALID_ARGUMENT, "output '%s': the last run was no evaluation of %lld rows", name, (long long)rows);
  }
  uint32_t index = find_output_index(program->parts.graph, name);
  if (index == DELTA_INDEX_NONE) return delta_status_make(NOT_FOUND, "the model has no output called '%s'", name);
  *out_size_bytes = delta_tensor_bytes(delta_graph_tensor(program->parts.graph, program->parts.graph->outputs.items[index].tensor));
  if (!buffer) return DELTA_OK;
  if (capacity_bytes < *out_size_bytes)
    return delta_status_make(INVALID_ARGUMENT, "output '%s' has %zu bytes, the buffer %zu", name, *out_size_bytes, capacity_bytes);
  return session->device->driver->read(session->device, buffer, delta_executor_output(program->executor, index), *out_size_bytes);
}

static delta_status_t export_value(void *self, const char *name, void *buffer, size_t size_bytes, bool *out_replaced) {
  delta_session_t *session = self;
  const delta_plan_state_t *state = find_state(session, name);
  *out_replaced = state != NULL;
  return state ? delta_session_read(session, name, buffer, size_bytes) : DELTA_OK;
}

delta_status_t delta_session_export(delta_session_t *session, const char *path, int for_training) {
  const delta_export_options_t options = {.path = path, .for_training = for_training != 0, .read_value = export_value, .self = session};
  return delta_model_export(session->model, &options);
}
