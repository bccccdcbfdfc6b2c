// Running a program on a device with queues: every step goes into the queue of its lane, behind the events that it waits for, and the thread waits once, at the end. The first
// run is put there step by step, so that libraries have loaded what they load late; the second is recorded and replayed, and so are all that follow as long as addresses stay.
// Runs that are looked at on their way (checks of values, poison, times by step) are put there step by step again.
#include "base/clock.h"
#include "base/log.h"
#include "runtime/executor_parts.h"

enum { MARK_START, MARK_END, FIRST_STEP_MARK }; // of the compute lane, around the run

static delta_lane_t lane_of(const delta_executor_t *executor, uint32_t index) {
  return executor->options.copies_in_line ? DELTA_LANE_COMPUTE : executor->options.schedule->steps[index].lane;
}

// ---- Preparing

static uint32_t take_mark(delta_executor_queues_t *queues, bool is_wanted) { return is_wanted ? queues->mark_count++ : DELTA_INDEX_NONE; }

// Copies are timed always, steps that compute where someone wants to know, and waits of compute where there are any.
static void number_marks(delta_executor_t *executor) {
  delta_executor_queues_t *queues = &executor->queues;
  queues->mark_count = FIRST_STEP_MARK;
  for (uint32_t i = 0; i < executor->options.schedule->step_count; ++i) {
    const delta_schedule_step_t *step = &executor->options.schedule->steps[i];
    const bool is_copy = executor->steps[i].copy != NULL, is_timed = is_copy || executor->options.on_step;
    const bool has_waits = !is_copy && step->wait_count > 0 && executor->overlaps;
    queues->marks[i].waits = take_mark(queues, has_waits);
    queues->marks[i].begin = take_mark(queues, is_timed || has_waits);
    queues->marks[i].end = take_mark(queues, is_timed);
  }
}

static void find_awaited(delta_executor_t *executor) {
  const delta_schedule_t *schedule = executor->options.schedule;
  for (uint32_t i = 0; i < schedule->step_count && executor->overlaps; ++i) {
    for (uint32_t w = 0; w < schedule->steps[i].wait_count; ++w) executor->queues.is_awaited[schedule->steps[i].waits[w]] = true;
  }
}

delta_status_t delta_executor_prepare_queues(delta_executor_t *executor) {
  const delta_executor_options_t *o = &executor->options;
  delta_executor_queues_t *queues = &executor->queues;
  const uint32_t step_count = o->schedule->step_count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, step_count, &queues->is_awaited));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, step_count, &queues->marks));
  find_awaited(executor);
  number_marks(executor);
  return o->device->driver->queues_reserve(o->device, step_count, queues->mark_count);
}

void delta_executor_free_queues(delta_executor_t *executor) {
  const delta_executor_options_t *o = &executor->options;
  if (executor->queues.recording) o->device->driver->recording_destroy(o->device, executor->queues.recording);
  executor->queues.recording = NULL;
}

// ---- Putting steps into queues

static delta_status_t put_mark(const delta_executor_t *executor, delta_lane_t lane, uint32_t mark) {
  const delta_executor_options_t *o = &executor->options;
  return mark == DELTA_INDEX_NONE ? DELTA_OK : o->device->driver->mark(o->device, lane, mark);
}

static delta_status_t put_poison(const delta_executor_t *executor, delta_lane_t lane, const delta_void_ranges_t *ranges, uint32_t step,
                                 size_t *cursor) {
  delta_device_t *device = executor->options.device;
  for (; *cursor < ranges->count && ranges->items[*cursor].step == step; ++*cursor) {
    const delta_void_range_t *range = &ranges->items[*cursor];
    DELTA_RETURN_IF_ERROR(device->driver->fill(device, lane, range->address, DELTA_POISON_BYTE, range->size_bytes));
  }
  return DELTA_OK;
}

static delta_status_t put_copy(const delta_executor_t *executor, delta_lane_t lane, uint32_t index) {
  const delta_executor_options_t *o = &executor->options;
  const delta_schedule_step_t *step = &o->schedule->steps[index];
  const delta_lane_copy_t *copy = executor->steps[index].copy;
  const bool writes = step->kind == DELTA_STEP_SWAP_OUT;
  return delta_status_annotate(delta_tier_enqueue(o->tier, lane, writes, step->host_offset_bytes, copy->memory, copy->size_bytes),
                               "step %u, copying tensor '%s' %s the tier below", index, copy->tensor_name, writes ? "to" : "from");
}

static delta_status_t put_waits(const delta_executor_t *executor, delta_lane_t lane, uint32_t index) {
  const delta_executor_options_t *o = &executor->options;
  const delta_schedule_step_t *step = &o->schedule->steps[index];
  for (uint32_t w = 0; w < step->wait_count && executor->overlaps; ++w) {
    DELTA_RETURN_IF_ERROR(o->device->driver->wait(o->device, lane, step->waits[w]));
  }
  return DELTA_OK;
}

typedef struct poison_cursors {
  size_t born, dead;
} poison_cursors_t;

static delta_status_t put_step(delta_executor_t *executor, uint32_t index, poison_cursors_t *cursors) {
  const delta_executor_options_t *o = &executor->options;
  const delta_lane_t lane = lane_of(executor, index);
  const delta_step_marks_t *marks = &executor->queues.marks[index];
  DELTA_RETURN_IF_ERROR(put_mark(executor, lane, marks->waits));
  DELTA_RETURN_IF_ERROR(put_waits(executor, lane, index));
  DELTA_RETURN_IF_ERROR(put_poison(executor, lane, &executor->born, index, &cursors->born));
  DELTA_RETURN_IF_ERROR(put_mark(executor, lane, marks->begin));
  DELTA_RETURN_IF_ERROR(executor->steps[index].copy ? put_copy(executor, lane, index) : delta_executor_launch(executor, index));
  DELTA_RETURN_IF_ERROR(put_mark(executor, lane, marks->end));
  DELTA_RETURN_IF_ERROR(put_poison(executor, lane, &executor->dead, index, &cursors->dead));
  return executor->queues.is_awaited[index] ? o->device->driver->signal(o->device, lane, index) : DELTA_OK;
}

// What a step did is known when it has ended: what went wrong on the device, and its values.
static delta_status_t look_at_step(delta_executor_t *executor, const delta_run_options_t *options, uint32_t index,
                                   delta_run_result_t *result) {
  delta_device_t *device = executor->options.device;
  const delta_prepared_step_t *prepared = &executor->steps[index];
  const char *what = prepared->node ? "node" : "copying tensor",
             *name = prepared->node ? prepared->node->name : prepared->copy->tensor_name;
  DELTA_RETURN_IF_ERROR(delta_status_annotate(device->driver->synchronize(device), "step %u, %s '%s'", index, what, name));
  if (executor->auditor) DELTA_RETURN_IF_ERROR(delta_auditor_leave(executor->auditor, index));
  return delta_executor_check_step(executor, options, index, result);
}

// What the device did wrong may be told by a later call, so the step that made that call is blamed only where each step is waited for.
static delta_status_t doubt(delta_status_t status) {
  if (delta_status_code(status) != DELTA_STATUS_IO) return status;
  return delta_status_annotate(status, "one of the steps of this run (deltarun --verify waits for each, and names it)");
}

// Puts all steps into the queues. Where each is looked at, a check may stop.
static delta_status_t put_steps(delta_executor_t *executor, const delta_run_options_t *options, bool is_looked_at,
                                delta_run_result_t *result) {
  poison_cursors_t cursors = {0};
  DELTA_RETURN_IF_ERROR(put_mark(executor, DELTA_LANE_COMPUTE, MARK_START));
  for (uint32_t i = 0; i < executor->options.schedule->step_count && !result->stopped; ++i) {
    if (executor->auditor) DELTA_RETURN_IF_ERROR(delta_auditor_enter(executor->auditor, i));
    delta_status_t status = put_step(executor, i, &cursors);
    DELTA_RETURN_IF_ERROR(is_looked_at ? status : doubt(status));
    if (is_looked_at) DELTA_RETURN_IF_ERROR(look_at_step(executor, options, i, result));
  }
  return put_mark(executor, DELTA_LANE_COMPUTE, MARK_END);
}

// ---- Recordings

static bool is_current(const delta_executor_t *executor) {
  const delta_tier_t *tier = executor->options.tier;
  return executor->queues.recording && (!tier || tier->resizes == executor->queues.recorded_resizes);
}

// A library that cannot be recorded is no error: the program then runs step by step, as it did before.
static void record(delta_executor_t *executor, const delta_run_options_t *options) {
  const delta_executor_options_t *o = &executor->options;
  const delta_device_driver_t *driver = o->device->driver;
  delta_executor_queues_t *queues = &executor->queues;
  delta_run_result_t unused = {0};
  delta_executor_free_queues(executor);
  delta_status_t status = driver->record_begin(o->device);
  if (!status) status = put_steps(executor, options, false, &unused);
  status = delta_status_join(status, driver->record_end(o->device, &queues->recording));
  queues->recorded_resizes = o->tier ? o->tier->resizes : 0;
  if (!status) return;
  delta_executor_free_queues(executor);
  queues->refuses_recording = true;
  delta_log(o->device->log, DELTA_LOG_NOTE, "the program runs step by step, since it was not recorded: %s", delta_status_message(status));
  delta_status_free(status);
}

// Puts a run into the queues: as a recording where there is one or may be one.
static delta_status_t put_run(delta_executor_t *executor, const delta_run_options_t *options, bool is_looked_at,
                              delta_run_result_t *result) {
  const delta_executor_options_t *o = &executor->options;
  delta_executor_queues_t *queues = &executor->queues;
  const bool may_record = !is_looked_at && !o->on_step && queues->runs > 0 && !queues->refuses_recording;
  if (may_record && !is_current(executor)) record(executor, options);
  if (may_record && queues->recording) return o->device->driver->replay(o->device, queues->recording);
  ++queues->runs;
  return put_steps(executor, options, is_looked_at, result);
}

// ---- Times

static delta_status_t between(const delta_executor_t *executor, uint32_t from_mark, uint32_t to_mark, double *out_seconds) {
  delta_device_t *device = executor->options.device;
  return device->driver->elapsed(device, from_mark, to_mark, out_seconds);
}

// A lane's copies: in which it copied, and in which it had some left and waited.
static delta_status_t time_copies(const delta_executor_t *executor, delta_run_result_t *result) {
  const delta_schedule_t *schedule = executor->options.schedule;
  double last_seconds[DELTA_LANE_COUNT] = {0};
  for (uint32_t i = 0; i < schedule->step_count; ++i) {
    const delta_step_marks_t *marks = &executor->queues.marks[i];
    if (!executor->steps[i].copy) continue;
    const delta_lane_t lane = schedule->steps[i].lane;
    double seconds;
    DELTA_RETURN_IF_ERROR(between(executor, marks->begin, marks->end, &seconds));
    DELTA_RETURN_IF_ERROR(between(executor, MARK_START, marks->end, &last_seconds[lane]));
    result->lanes[lane].busy_seconds += seconds;
    if (executor->options.copies_in_line) result->lanes[DELTA_LANE_COMPUTE].wait_seconds += seconds;
  }
  for (int l = 0; l < DELTA_LANE_COUNT && executor->overlaps; ++l) {
    const double wait_seconds = last_seconds[l] - result->lanes[l].busy_seconds;
    result->lanes[l].wait_seconds = wait_seconds > 0 ? wait_seconds : 0;
  }
  return DELTA_OK;
}

static delta_status_t time_lanes(const delta_executor_t *executor, delta_run_result_t *result) {
  delta_lane_times_t *compute = &result->lanes[DELTA_LANE_COMPUTE];
  double seconds;
  DELTA_RETURN_IF_ERROR(time_copies(executor, result));
  for (uint32_t i = 0; i < executor->options.schedule->step_count; ++i) {
    const delta_step_marks_t *marks = &executor->queues.marks[i];
    if (marks->waits == DELTA_INDEX_NONE) continue;
    DELTA_RETURN_IF_ERROR(between(executor, marks->waits, marks->begin, &seconds));
    compute->wait_seconds += seconds;
  }
  DELTA_RETURN_IF_ERROR(between(executor, MARK_START, MARK_END, &seconds));
  compute->busy_seconds = seconds - compute->wait_seconds;
  return DELTA_OK;
}

static delta_status_t report_steps(const delta_executor_t *executor, double start_seconds) {
  for (uint32_t i = 0; executor->options.on_step && i < executor->options.schedule->step_count; ++i) {
    const delta_step_marks_t *marks = &executor->queues.marks[i];
    double begin, end;
    DELTA_RETURN_IF_ERROR(between(executor, MARK_START, marks->begin, &begin));
    DELTA_RETURN_IF_ERROR(between(executor, MARK_START, marks->end, &end));
    delta_executor_report_step(executor, i, start_seconds + begin, start_seconds + end);
  }
  return DELTA_OK;
}

delta_status_t delta_executor_run_queues(delta_executor_t *executor, const delta_run_options_t *options, delta_run_result_t *result) {
  delta_device_t *device = executor->options.device;
  const bool is_looked_at = options->check_values || executor->options.poison || executor->auditor;
  const double start_seconds = delta_clock_seconds();
  result->cancelled = options->cancels && atomic_load_explicit(options->cancels, memory_order_relaxed);
  if (result->cancelled) return DELTA_OK;
  if (executor->auditor) DELTA_RETURN_IF_ERROR(delta_auditor_begin(executor->auditor, options->arena_bytes));
  delta_status_t status = put_run(executor, options, is_looked_at, result);
  status = delta_status_join(status, doubt(device->driver->synchronize(device)));
  if (status || result->stopped) return status;
  if (executor->auditor) DELTA_RETURN_IF_ERROR(delta_auditor_end(executor->auditor));
  DELTA_RETURN_IF_ERROR(time_lanes(executor, result));
  DELTA_RETURN_IF_ERROR(report_steps(executor, start_seconds));
  return is_looked_at ? DELTA_OK : delta_executor_check_end(executor, options, result);
}
