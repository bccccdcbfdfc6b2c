// Running a prepared program: kernels on the calling thread in the order of the schedule, copies on their lanes or between the kernels, and what is looked at after each
// step.
#include <string.h>

#include "base/clock.h"
#include "runtime/executor_parts.h"

// Fills the ranges of a step. The cursor goes through the list once in a run, past those of steps that have run before.
static void poison(const delta_void_ranges_t *ranges, uint32_t step, size_t *cursor) {
  while (*cursor < ranges->count && ranges->items[*cursor].step < step) ++*cursor;
  for (; *cursor < ranges->count && ranges->items[*cursor].step == step; ++*cursor) {
    memset(ranges->items[*cursor].address, DELTA_POISON_BYTE, ranges->items[*cursor].size_bytes);
  }
}

delta_status_t delta_executor_launch(delta_executor_t *executor, uint32_t index) {
  const delta_executor_options_t *o = &executor->options;
  const delta_prepared_step_t *prepared = &executor->steps[index];
  return delta_status_annotate(o->device->driver->launch(o->device, o->schedule->steps[index].lane, prepared->kernel, &prepared->buffers),
                               "step %u, node '%s'", index, prepared->node->name);
}

// A copy between two steps that compute.
static delta_status_t copy_in_line(delta_executor_t *executor, uint32_t index, delta_run_result_t *result) {
  const delta_lane_t lane = executor->options.schedule->steps[index].lane;
  delta_lane_copy_t *copy = executor->steps[index].copy;
  delta_status_t status = delta_lane_copy_run(&executor->work, lane, index, copy);
  const double seconds = copy->end_seconds - copy->start_seconds;
  result->lanes[lane].busy_seconds += seconds;
  result->lanes[lane].copied_bytes += (double)copy->size_bytes;
  ++result->lanes[lane].copies;
  result->lanes[DELTA_LANE_COMPUTE].wait_seconds += seconds;
  return status;
}

void delta_executor_report_step(const delta_executor_t *executor, uint32_t index, double start_seconds, double end_seconds) {
  const delta_executor_options_t *o = &executor->options;
  const delta_step_event_t event = {.step = index,
                                    .schedule_step = &o->schedule->steps[index],
                                    .node = executor->steps[index].node,
                                    .start_seconds = start_seconds,
                                    .end_seconds = end_seconds};
  o->on_step(o->self, &event);
}

// One step on the calling thread, between its waits and its event.
static delta_status_t run_step(delta_executor_t *executor, const delta_run_options_t *options, uint32_t index, delta_run_result_t *result) {
  const bool is_reported = executor->options.on_step != NULL, is_timed = is_reported || options->step_seconds;
  const double start_seconds = is_timed ? delta_clock_seconds() : 0;
  if (executor->auditor) DELTA_RETURN_IF_ERROR(delta_auditor_enter(executor->auditor, index));
  DELTA_RETURN_IF_ERROR(executor->steps[index].copy ? copy_in_line(executor, index, result) : delta_executor_launch(executor, index));
  if (executor->auditor) DELTA_RETURN_IF_ERROR(delta_auditor_leave(executor->auditor, index));
  const double end_seconds = is_timed ? delta_clock_seconds() : 0;
  if (options->step_seconds) options->step_seconds[index] = end_seconds - start_seconds;
  if (is_reported) delta_executor_report_step(executor, index, start_seconds, end_seconds);
  return DELTA_OK;
}

// Whether the run is to pause before a step.
static bool must_pause(const delta_run_options_t *options, uint32_t index) {
  return (options->pause_step > 0 && index >= options->pause_step) || (options->wants_pause && options->wants_pause(options->self));
}

// Waits for the copies that a step needs. False: not all of them came.
static bool wait_for_copies(delta_executor_t *executor, const delta_run_options_t *options, uint32_t index, delta_run_result_t *result) {
  if (!executor->overlaps) return true;
  const delta_lane_wait_t wait = delta_lanes_wait(executor->options.lanes, index, options->late_seconds);
  result->is_paused = result->is_late = wait == DELTA_LANE_LATE;
  return wait == DELTA_LANE_READY;
}

// The steps of the calling thread. Stops early where a check says so, where the run pauses, or where a copy has failed: its status is the lanes'. *out_limit: the steps
// that were come to.
static delta_status_t run_steps(delta_executor_t *executor, const delta_run_options_t *options, delta_run_result_t *result,
                                uint32_t *out_limit) {
  const delta_executor_options_t *o = &executor->options;
  size_t born_cursor = 0, dead_cursor = 0;
  for (uint32_t i = options->from.ended[DELTA_LANE_COMPUTE]; i < o->schedule->step_count; ++i) {
    const delta_prepared_step_t *prepared = &executor->steps[i];
    if (prepared->copy && executor->overlaps) continue;
    *out_limit = i;
    if (options->cancels && result->updates_done == 0 && atomic_load_explicit(options->cancels, memory_order_relaxed)) {
      result->cancelled = true;
      result->step = i;
      return DELTA_OK;
    }
    result->is_paused = prepared->node && must_pause(options, i);
    if (result->is_paused) return DELTA_OK;
    if (!wait_for_copies(executor, options, i, result)) return DELTA_OK;
    poison(&executor->born, i, &born_cursor);
    DELTA_RETURN_IF_ERROR(run_step(executor, options, i, result));
    DELTA_RETURN_IF_ERROR(delta_executor_check_step(executor, options, i, result));
    if (result->stopped) return DELTA_OK;
    poison(&executor->dead, i, &dead_cursor);
    if (executor->overlaps) delta_lanes_signal(o->lanes, i);
  }
  *out_limit = o->schedule->step_count;
  return DELTA_OK;
}

static void report_copies(const delta_executor_t *executor) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    const delta_lane_copies_t *copies = &executor->work.copies[l];
    for (uint32_t i = 0; i < copies->count; ++i) {
      const delta_lane_copy_t *copy = &copies->items[i];
      if (copy->end_seconds > copy->start_seconds) delta_executor_report_step(executor, copy->step, copy->start_seconds, copy->end_seconds);
    }
  }
}

// Whether a copy of these has failed in this pass.
static bool any_has_failed(const delta_lane_copies_t *copies) {
  for (uint32_t i = 0; i < copies->count; ++i) {
    if (copies->items[i].has_failed) return true;
  }
  return false;
}

static bool is_start(const delta_run_point_t *point) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    if (point->ended[l] > 0) return false;
  }
  return true;
}

// How far a run has come in which compute came to step `limit`.
static delta_run_point_t find_point(const delta_executor_t *executor, uint32_t limit) {
  delta_run_point_t point = {.ended = {[DELTA_LANE_COMPUTE] = limit}};
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    const delta_lane_copies_t *copies = &executor->work.copies[l];
    for (uint32_t i = 0; i < copies->count && copies->items[i].is_done; ++i) point.ended[l] = copies->items[i].step + 1;
  }
  return point;
}

delta_status_t delta_executor_run(delta_executor_t *executor, const delta_run_options_t *options, delta_run_result_t *out_result) {
  const delta_executor_options_t *o = &executor->options;
  *out_result = (delta_run_result_t){0};
  if (o->device->has_queues) return delta_executor_run_queues(executor, options, out_result);
  uint32_t limit = 0;
  const double start_seconds = delta_clock_seconds();
  if (executor->overlaps) DELTA_RETURN_IF_ERROR(delta_lanes_check(o->lanes));
  if (is_start(&options->from)) delta_keeper_reset(&executor->keeper, options->arena_bytes);
  executor->keeper.arena_bytes = options->arena_bytes;
  delta_lane_work_begin(&executor->work, &options->from);
  if (executor->auditor) DELTA_RETURN_IF_ERROR(delta_auditor_begin(executor->auditor, options->arena_bytes));
  if (executor->overlaps) DELTA_RETURN_IF_ERROR(delta_lanes_begin(o->lanes, &executor->work, &options->from));
  delta_status_t status = run_steps(executor, options, out_result, &limit);
  if (executor->overlaps) {
    const bool is_at_step = options->pause_step > 0 && limit >= options->pause_step && !out_result->is_late;
    const uint32_t last = !out_result->is_paused ? limit : is_at_step ? options->pause_step : 0;
    status = delta_status_join(status, delta_lanes_end(o->lanes, last, out_result->lanes));
    if (!status && o->on_step) report_copies(executor);
  } else {
    delta_lane_times_t *compute = &out_result->lanes[DELTA_LANE_COMPUTE];
    compute->busy_seconds = delta_clock_seconds() - start_seconds - compute->wait_seconds;
  }
  if (!status && executor->auditor && !out_result->stopped && !out_result->cancelled) status = delta_auditor_end(executor->auditor);
  out_result->failed_below = status && any_has_failed(&executor->work.copies[DELTA_LANE_OFFLOAD]);
  out_result->kept_tensors = atomic_load(&executor->keeper.count);
  out_result->why_kept = executor->keeper.cause;
  out_result->has_failed_copy = out_result->failed_below || (status && any_has_failed(&executor->work.copies[DELTA_LANE_PREFETCH]));
  out_result->point = find_point(executor, limit);
  return status;
}

void delta_executor_list_ended(const delta_executor_t *executor, const delta_run_point_t *point, bool *has_run, bool *has_failed) {
  const delta_schedule_t *schedule = executor->options.schedule;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_lane_copy_t *copy = executor->steps[s].copy;
    has_run[s] = s < point->ended[schedule->steps[s].lane];
    has_failed[s] = copy && copy->has_failed;
  }
}

const delta_keeper_t *delta_executor_keeper(const delta_executor_t *executor) { return &executor->keeper; }

void delta_executor_adopt_kept(delta_executor_t *executor, const delta_keeper_t *from, const uint32_t *steps) {
  delta_keeper_adopt(&executor->keeper, from, steps);
}
