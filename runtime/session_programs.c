// Programs of a session: built, compared with the plan or planned anew, verified, and given an executor.
#include <stdio.h>
#include <string.h>

#include "runtime/plan_options.h"
#include "runtime/session_parts.h"

enum { DEFAULT_OTHER_PROGRAMS = 8 };
static const double DEFAULT_PATIENCE_SECONDS = 60;

void delta_session_free_program(delta_session_t *session, delta_live_program_t *program) {
  if (!program) return;
  delta_session_drop_changes(program);
  delta_executor_destroy(program->executor);
  delta_schedule_free(program->own_schedule);
  delta_release(session->allocator, program->dims);
  delta_release(session->allocator, program->inputs);
  delta_release(session->allocator, program->staging);
  delta_release(session->allocator, program->times);
  delta_program_deinit(&program->parts);
  delta_release(session->allocator, program);
}

static delta_status_t check_graph(const delta_plan_program_t *planned, const delta_live_program_t *program) {
  char hash[DELTA_SHA256_TEXT_BYTES];
  delta_graph_hash(program->parts.graph, hash);
  if (strcmp(hash, planned->graph_hash) == 0) return DELTA_OK;
  return delta_status_make(
      MISMATCH,
      "the plan's program for %lld rows is of another graph: it was made by another version or edited; make a new plan with deltaplan",
      (long long)planned->batch);
}

// What a program may take: a lower budget that has been asked for holds at once, also while the plan for it is being made.
static uint64_t usable_budget(const delta_session_t *session) {
  return session->wanted_budget_bytes < session->budget_bytes ? session->wanted_budget_bytes : session->budget_bytes;
}

// "a batch of 4 rows, seq = 12", for messages.
enum { SHAPE_TEXT_BYTES = 256 };
static const char *shape_text(const delta_session_t *session, const delta_live_program_t *program, char buffer[SHAPE_TEXT_BYTES]) {
  int length = snprintf(buffer, SHAPE_TEXT_BYTES, "a batch of %lld rows", (long long)program->parts.batch);
  for (size_t i = 0; program->dims && i < session->build.import.dim_count && length < SHAPE_TEXT_BYTES; ++i) {
    length += snprintf(buffer + length, SHAPE_TEXT_BYTES - (size_t)length, ", %.64s = %lld", program->dims[i].symbol,
                       (long long)program->dims[i].size);
  }
  return buffer;
}

// Plans a batch that the plan does not have, within the budget. Where it does not fit, *out_needed_bytes is what would be enough beside the states.
static delta_status_t plan_schedule(delta_session_t *session, delta_live_program_t *program, uint64_t *out_needed_bytes) {
  delta_policy_t policy;
  DELTA_RETURN_IF_ERROR(delta_policy_parse(session->plan->policy, &policy));
  const uint64_t capacity_bytes = delta_budget_capacity(usable_budget(session), session->state_bytes, session->device->granule_bytes);
  delta_planner_result_t result = {0};
  delta_status_t status = delta_program_plan(&program->parts, policy, session->plan->levers, capacity_bytes, session->allocator, &result);
  char shape[SHAPE_TEXT_BYTES];
  if (delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT) *out_needed_bytes = result.minimum_budget_bytes;
  if (status) return delta_status_annotate(status, "%s", shape_text(session, program, shape));
  program->own_schedule = result.schedule;
  program->schedule = result.schedule;
  return DELTA_OK;
}

static delta_status_t commit_bytes(delta_session_t *session, uint64_t wanted_bytes) {
  if (wanted_bytes <= session->committed_bytes) return DELTA_OK;
  if (wanted_bytes > usable_budget(session)) {
    return delta_status_make(DOES_NOT_FIT, "a program needs %llu bytes, the budget is %llu: give a larger --budget",
                             (unsigned long long)wanted_bytes, (unsigned long long)usable_budget(session));
  }
  DELTA_RETURN_IF_ERROR(session->device->driver->arena_commit(session->arena, wanted_bytes));
  session->committed_bytes = wanted_bytes;
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
  return commit_bytes(session, rounded_bytes);
}

// A step has its own place among the times: steps of several lanes may end at once.
static void on_step(void *self, const delta_step_event_t *event) {
  const delta_live_program_t *program = self;
  // A changed schedule has other steps.
  const bool is_planned = event->schedule_step == &program->schedule->steps[event->step];
  if (program->times && is_planned)
    program->times[event->step] = (delta_step_times_t){.start_seconds = event->start_seconds, .end_seconds = event->end_seconds};
  if (program->tally) delta_tally_add(program->tally, program->parts.graph, program->parts.selection, event);
}

// What lies below the arena is made when a program first swaps.
delta_status_t delta_session_reserve_tier(delta_session_t *session, uint64_t size_bytes) {
  if (size_bytes == 0) return DELTA_OK;
  if (!session->tier) {
    const delta_tier_options_t options = {.folder = session->options.tier, .log = session->options.log};
    DELTA_RETURN_IF_ERROR(session->device->driver->tier_create(session->device, &options, session->allocator, &session->tier));
  }
  if (!session->lanes && session->tier->is_beside_compute && !session->options.copies_in_line) {
    DELTA_RETURN_IF_ERROR(delta_lanes_create(session->allocator, &session->lanes));
  }
  return delta_tier_reserve(session->tier, size_bytes);
}

// Room for the times of a schedule's steps, where they are wanted; else NULL.
delta_status_t delta_session_allocate_times(delta_session_t *session, const delta_schedule_t *schedule, delta_step_times_t **out_times) {
  *out_times = NULL;
  return session->options.record_steps ? DELTA_ALLOCATE(session->allocator, schedule->step_count, out_times) : DELTA_OK;
}

delta_status_t delta_session_create_executor(delta_session_t *session, const delta_live_program_t *program, const delta_plan_t *plan,
                                             const delta_schedule_t *schedule, delta_executor_t **out_executor) {
  const delta_executor_options_t options = {
      .device = session->device,
      .graph = program->parts.graph,
      .problem = program->parts.problem,
      .tensor_of_storage = program->parts.tensor_of_storage,
      .selection = program->parts.selection,
      .schedule = schedule,
      .plan = plan,
      .arena = session->arena,
      .state_bytes = plan->totals.state_bytes,
      .tier = session->tier,
      .lanes = session->lanes,
      .copies_in_line = session->options.copies_in_line != 0,
      .patience_seconds = session->options.copy_timeout_seconds > 0 ? session->options.copy_timeout_seconds : DEFAULT_PATIENCE_SECONDS,
      .predecessor = program->executor,
      .audits = session->options.verify != 0,
      .poison = session->options.verify_arena != 0,
      .on_step = session->options.time_steps || session->options.record_steps ? on_step : NULL,
      .self = (void *)program,
  };
  return delta_executor_create(&options, session->allocator, out_executor);
}

// Gives a program with a schedule what it needs to run.
static delta_status_t prepare_program(delta_session_t *session, delta_live_program_t *program) {
  const delta_schedule_t *schedule = program->schedule;
  delta_status_t status = delta_schedule_verify(schedule, program->parts.problem, schedule->arena_bytes, session->allocator);
  if (status) return delta_status_annotate(status, "the plan was edited or damaged: make a new one with deltaplan");
  DELTA_RETURN_IF_ERROR(commit_for(session, schedule));
  DELTA_RETURN_IF_ERROR(delta_session_reserve_tier(session, schedule->host_bytes));
  DELTA_RETURN_IF_ERROR(delta_session_allocate_times(session, schedule, &program->times));
  return delta_session_create_executor(session, program, session->plan, schedule, &program->executor);
}

// The first planned program of a kind: other batches lie in its layouts, and are run by its kernels.
static uint32_t find_kind(const delta_plan_t *plan, delta_program_kind_t kind) {
  uint32_t index = 0;
  while (index < plan->program_count && plan->programs[index].kind != kind) ++index;
  return index;
}

static delta_program_choice_t choice_of(const delta_session_t *session, delta_program_kind_t kind, const delta_plan_program_t *planned) {
  const delta_plan_t *plan = session->plan;
  const uint32_t index = find_kind(plan, kind);
  const delta_plan_program_t *model = planned ? planned : index < plan->program_count ? &plan->programs[index] : NULL;
  delta_program_choice_t choice = {.profiler = session->profiler};
  if (model) choice.layouts = (delta_layout_source_t){.is_given = true, .layouts = model->layouts, .count = model->layout_count};
  if (planned) {
    choice.kernels = (delta_kernel_source_t){.is_given = true, .names = planned->kernels, .count = planned->kernel_count};
  } else if (model) {
    const delta_program_parts_t *parts = &session->programs.items[index]->parts;
    choice.kernels = (delta_kernel_source_t){.like_graph = parts->graph, .like = parts->selection};
  }
  return choice;
}

// Builds a program as it was planned, or for another batch. It has no schedule yet.
static delta_status_t build_program(delta_session_t *session, delta_program_kind_t kind, int64_t rows, const delta_plan_program_t *planned,
                                    delta_live_program_t *program) {
  if (session->options.time_steps) program->tally = &session->tally;
  // A model that fixes its dimensions has one batch size, which need not be told.
  int64_t batch = kind == DELTA_PROGRAM_APPLY || session->build.import.batch == 0 ? session->build.import.batch : rows;
  const delta_program_choice_t choice = choice_of(session, kind, planned);
  delta_build_options_t build = session->build;
  if (program->dims) build.import.dims = program->dims;
  DELTA_RETURN_IF_ERROR(
      delta_program_build(session->model, &build, kind, batch, session->device, &choice, session->allocator, &program->parts));
  if (kind != DELTA_PROGRAM_APPLY && program->parts.batch != rows) {
    return delta_status_make(INVALID_ARGUMENT, "a batch of %lld rows: the model fixes its batch at %lld", (long long)rows,
                             (long long)program->parts.batch);
  }
  DELTA_RETURN_IF_ERROR(delta_status_annotate(delta_plan_check_states(session->plan, program->parts.graph),
                                              "the plan does not fit its model: make a new one with deltaplan"));
  if (planned) DELTA_RETURN_IF_ERROR(check_graph(planned, program));
  return delta_session_describe_inputs(session, program);
}

// ---- Dimensions

// The size that a batch gives dimension number `index` of the plan.
static int64_t dim_size(const delta_session_t *session, const delta_batch_t *batch, size_t index) {
  const delta_dim_binding_t *planned = &session->build.import.dims[index];
  for (size_t k = 0; k < batch->dim_count; ++k) {
    if (strcmp(batch->dims[k].name, planned->symbol) == 0) return batch->dims[k].size;
  }
  return planned->size;
}

static bool has_dims(const delta_session_t *session, const delta_live_program_t *program, const delta_batch_t *batch) {
  const delta_dim_binding_t *dims = program->dims ? program->dims : session->build.import.dims;
  for (size_t i = 0; i < session->build.import.dim_count; ++i) {
    if (dims[i].size != dim_size(session, batch, i)) return false;
  }
  return true;
}

static bool is_planned_dim(const delta_session_t *session, const char *name) {
  for (size_t i = 0; i < session->build.import.dim_count; ++i) {
    if (strcmp(session->build.import.dims[i].symbol, name) == 0) return true;
  }
  return false;
}

static delta_status_t check_dims(const delta_session_t *session, const delta_batch_t *batch) {
  if (batch->dim_count > 0 && !batch->dims)
    return delta_status_make(INVALID_ARGUMENT, "a batch of %zu dimensions has no list of them", batch->dim_count);
  for (size_t k = 0; k < batch->dim_count; ++k) {
    const delta_dim_t *dim = &batch->dims[k];
    if (!dim->name) return delta_status_make(INVALID_ARGUMENT, "dimension %zu of the batch has no name", k);
    if (!is_planned_dim(session, dim->name))
      return delta_status_make(
          INVALID_ARGUMENT, "dimension '%.80s' of the batch: the plan gives it no size; make a plan with --dim %.80s=N to change it later",
          dim->name, dim->name);
    if (dim->size < 1 || dim->size > DELTA_MOST_ROWS)
      return delta_status_make(INVALID_ARGUMENT, "dimension '%.80s' of the batch is %lld: give from 1 to %lld", dim->name,
                               (long long)dim->size, (long long)DELTA_MOST_ROWS);
  }
  return DELTA_OK;
}

static delta_status_t copy_dims(delta_session_t *session, const delta_batch_t *batch, delta_live_program_t *program) {
  const size_t count = session->build.import.dim_count;
  if (batch->dim_count == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(session->allocator, count, &program->dims));
  for (size_t i = 0; i < count; ++i)
    program->dims[i] = (delta_dim_binding_t){.symbol = session->build.import.dims[i].symbol, .size = dim_size(session, batch, i)};
  return DELTA_OK;
}

// ---- The list

// Puts a built program into the session's list, which owns it.
static delta_status_t add_program(delta_session_t *session, delta_program_kind_t kind, const delta_batch_t *batch,
                                  const delta_plan_program_t *planned, delta_live_program_t **out_program) {
  delta_live_program_t *program = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(session->allocator, 1, &program));
  delta_status_t status = copy_dims(session, batch, program);
  if (!status) status = build_program(session, kind, batch->rows, planned, program);
  if (!status) status = delta_array_push(session->allocator, &session->programs, &program);
  if (status) {
    delta_session_free_program(session, program);
    return status;
  }
  *out_program = program;
  return DELTA_OK;
}

// Keeps as many programs of other batches as may be, the latest used.
static void drop_oldest(delta_session_t *session) {
  const size_t planned = session->plan->program_count;
  const size_t most = session->options.other_programs > 0 ? (size_t)session->options.other_programs : DEFAULT_OTHER_PROGRAMS;
  while (session->programs.count > planned + most) {
    size_t oldest = planned;
    for (size_t i = planned; i < session->programs.count; ++i) {
      if (session->programs.items[i]->last_use < session->programs.items[oldest]->last_use) oldest = i;
    }
    delta_live_program_t *program = session->programs.items[oldest];
    if (session->evaluated == program) session->evaluated = NULL;
    session->programs.items[oldest] = session->programs.items[--session->programs.count];
    delta_session_free_program(session, program);
  }
}

static delta_status_t try_other_batch(delta_session_t *session, delta_program_kind_t kind, const delta_batch_t *batch,
                                      uint64_t *out_needed_bytes, delta_live_program_t **out_program) {
  delta_live_program_t *program = NULL;
  DELTA_RETURN_IF_ERROR(add_program(session, kind, batch, NULL, &program));
  delta_status_t status = delta_plan_apply_homes(session->plan, program->parts.problem);
  if (!status) status = plan_schedule(session, program, out_needed_bytes);
  if (!status) status = prepare_program(session, program);
  if (status) {
    --session->programs.count;
    delta_session_free_program(session, program);
    return status;
  }
  program->last_use = ++session->use_count;
  drop_oldest(session);
  *out_program = program;
  return DELTA_OK;
}

// A batch size, or a dimension, that the plan does not have. Where it does not fit beside the states, some of them go below, for which all is planned anew; with them there a
// program may need more, so that is done again.
static delta_status_t make_other_batch(delta_session_t *session, delta_program_kind_t kind, const delta_batch_t *batch,
                                       delta_live_program_t **out_program) {
  enum { MOST_CHANGES = 3 };
  for (int changes = 0;; ++changes) {
    uint64_t needed_bytes = 0;
    bool is_made = false;
    delta_status_t status = try_other_batch(session, kind, batch, &needed_bytes, out_program);
    if (needed_bytes == 0 || changes == MOST_CHANGES) return status;
    delta_status_t change = delta_session_make_room(session, needed_bytes, &is_made);
    if (!is_made && (!change || delta_status_code(change) == DELTA_STATUS_DOES_NOT_FIT)) {
      delta_status_free(change);
      return status;
    }
    delta_status_free(status);
    DELTA_RETURN_IF_ERROR(change);
  }
}

static bool is_for(const delta_session_t *session, const delta_live_program_t *program, delta_program_kind_t kind,
                   const delta_batch_t *batch) {
  if (program->parts.kind != kind) return false;
  return kind == DELTA_PROGRAM_APPLY || (program->parts.batch == batch->rows && has_dims(session, program, batch));
}

delta_status_t delta_session_find_program(delta_session_t *session, delta_program_kind_t kind, const delta_batch_t *batch,
                                          delta_live_program_t **out_program) {
  DELTA_RETURN_IF_ERROR(check_dims(session, batch));
  for (size_t i = 0; i < session->programs.count; ++i) {
    delta_live_program_t *program = session->programs.items[i];
    if (is_for(session, program, kind, batch)) {
      program->last_use = ++session->use_count;
      *out_program = program;
      return DELTA_OK;
    }
  }
  bool accumulates = session->build.accumulates;
  if (!accumulates && (kind == DELTA_PROGRAM_ACCUMULATE || kind == DELTA_PROGRAM_APPLY)) {
    return delta_status_make(INVALID_ARGUMENT, "the plan does not accumulate gradients: make it with --accumulate N");
  }
  if (accumulates && kind == DELTA_PROGRAM_TRAIN) {
    return delta_status_make(INVALID_ARGUMENT,
                             "the plan accumulates gradients over %lld micro-batches: run ACCUMULATE for each and then APPLY in place of "
                             "TRAIN, or make the plan without --accumulate",
                             (long long)session->plan->accumulate);
  }
  return make_other_batch(session, kind, batch, out_program);
}

// Equal numerics_id, seed and data give equal bits: what would compute otherwise is not run under the plan's name.
static delta_status_t check_numerics(const delta_session_t *session) {
  const delta_program_parts_t **parts = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(session->allocator, session->programs.count, &parts));
  for (size_t i = 0; i < session->programs.count; ++i) parts[i] = &session->programs.items[i]->parts;
  char id[DELTA_NUMERICS_ID_BYTES];
  delta_program_numerics_id(parts, session->programs.count, session->device, id);
  delta_release(session->allocator, parts);
  if (strcmp(id, session->plan->numerics.id) == 0) return DELTA_OK;
  return delta_status_make(
      MISMATCH,
      "the plan has numerics %s, this build of the model has %s: made by another version or edited; make a new plan with deltaplan",
      session->plan->numerics.id, id);
}

// All programs that the plan has are made, and so checked, when the session opens.
delta_status_t delta_session_make_planned(delta_session_t *session) {
  if (session->plan->program_count == 0) return delta_status_make(MALFORMED, "the plan has no program: make a new plan with deltaplan");
  DELTA_RETURN_IF_ERROR(delta_status_annotate(delta_plan_check_places(session->plan, session->device->alignment_bytes),
                                              "the plan was edited or damaged: make a new one with deltaplan"));
  for (uint32_t i = 0; i < session->plan->program_count; ++i) {
    const delta_plan_program_t *planned = &session->plan->programs[i];
    delta_live_program_t *program = NULL;
    const delta_batch_t batch = {.rows = planned->batch};
    DELTA_RETURN_IF_ERROR(add_program(session, planned->kind, &batch, planned, &program));
  }
  DELTA_RETURN_IF_ERROR(check_numerics(session));
  if (session->budget_bytes < session->plan->totals.arena_bytes) DELTA_RETURN_IF_ERROR(delta_session_plan_again(session));
  // At once for all programs: a device whose arena cannot grow has room for each then.
  DELTA_RETURN_IF_ERROR(commit_bytes(session, session->plan->totals.arena_bytes));
  for (uint32_t i = 0; i < session->plan->program_count; ++i) {
    delta_live_program_t *program = session->programs.items[i];
    DELTA_RETURN_IF_ERROR(delta_plan_apply_homes(session->plan, program->parts.problem));
    program->schedule = session->plan->programs[i].schedule;
    DELTA_RETURN_IF_ERROR(prepare_program(session, program));
  }
  return DELTA_OK;
}
