// Running a prepared program: kernels on the calling thread in the order of the schedule, copies on their lanes or between the kernels, and what is looked at after each
// step.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/executor_parts.h"

// Whether a value is not finite, `allowed` aside.
static bool has_value_beyond(const void *data, delta_dtype_t dtype, const delta_shape_t *shape, double allowed) {
  if (!delta_dtype_is_float(dtype)) return false;
  int64_t count = delta_shape_count(shape);
  for (int64_t i = 0; i < count; ++i) {
    double value = delta_element_load_double(data, dtype, (size_t)i);
    if (!isfinite(value) && value != allowed) return true;
  }
  return false;
}

bool delta_has_bad_value(const void *data, delta_dtype_t dtype, const delta_shape_t *shape) {
  return has_value_beyond(data, dtype, shape, -INFINITY);
}

bool delta_has_infinite_value(const void *data, delta_dtype_t dtype, const delta_shape_t *shape) {
  return has_value_beyond(data, dtype, shape, 0);
}

// Which of the outputs that must be finite a tensor is; DELTA_INDEX_NONE: none of them.
static uint32_t find_watched(const delta_graph_t *graph, const delta_run_options_t *options, delta_tensor_id_t id) {
  for (size_t k = 0; k < sizeof options->finite_outputs / sizeof *options->finite_outputs; ++k) {
    const uint32_t output = options->finite_outputs[k];
    if (output == DELTA_INDEX_NONE) continue;
    if (delta_graph_tensor(graph, graph->outputs.items[output].tensor)->storage.index == id.index) return output;
  }
  return DELTA_INDEX_NONE;
}

// Whether the checks asked for stop the run after this step, and the output to blame.
static bool must_stop(const delta_executor_t *executor, const delta_run_options_t *options, const delta_prepared_step_t *step,
                      uint32_t *out_output) {
  const delta_graph_t *graph = executor->options.graph;
  for (uint32_t i = 0; step->node && i < step->node->output_count; ++i) {
    delta_tensor_id_t id = step->node->outputs[i];
    if (delta_tensor_is_none(id)) continue;
    const delta_tensor_t *tensor = delta_graph_tensor(graph, id);
    const void *data = step->buffers.outputs[i];
    *out_output = find_watched(graph, options, id);
    if (*out_output != DELTA_INDEX_NONE && !isfinite(delta_element_load_double(data, tensor->dtype, 0))) return true;
    if (options->check_values && delta_has_bad_value(data, tensor->dtype, &tensor->shape)) return true;
  }
  return false;
}

// Whether a step writes a state other than a counter.
static bool changes_states(const delta_problem_t *problem, const delta_problem_step_t *step) {
  for (uint32_t i = 0; i < step->output_count; ++i) {
    const delta_problem_tensor_t *tensor = &problem->tensors[step->outputs[i]];
    if (tensor->becomes_state != DELTA_PROBLEM_NONE && tensor->kind != DELTA_CLASS_OTHER) return true;
  }
  return false;
}

// Fills the ranges of a step. The cursor goes through the list once in a run.
static void poison(const delta_void_ranges_t *ranges, uint32_t step, size_t *cursor) {
  for (; *cursor < ranges->count && ranges->items[*cursor].step == step; ++*cursor) {
    memset(ranges->items[*cursor].address, DELTA_POISON_BYTE, ranges->items[*cursor].size_bytes);
  }
}

static delta_status_t launch_kernel(delta_executor_t *executor, uint32_t index) {
  const delta_executor_options_t *o = &executor->options;
  const delta_prepared_step_t *prepared = &executor->steps[index];
  delta_status_t status = o->device->driver->launch(o->device, o->schedule->steps[index].lane, prepared->kernel, &prepared->buffers);
  return status ? delta_status_annotate(status, "step %u, node '%s'", index, prepared->node->name) : DELTA_OK;
}

// A copy between two steps that compute.
static delta_status_t copy_in_line(delta_executor_t *executor, uint32_t index, delta_run_result_t *result) {
  const delta_lane_t lane = executor->options.schedule->steps[index].lane;
  delta_lane_copy_t *copy = executor->steps[index].copy;
  delta_status_t status = delta_lane_copy_run(&executor->work, lane, index, copy);
  const double seconds = copy->end_seconds - copy->start_seconds;
  result->lanes[lane].busy_seconds += seconds;
  result->lanes[DELTA_LANE_COMPUTE].wait_seconds += seconds;
  return status;
}

static void report_step(const delta_executor_t *executor, uint32_t index, double start_seconds, double end_seconds) {
  const delta_executor_options_t *o = &executor->options;
  const delta_step_event_t event = {.step = index,
                                    .schedule_step = &o->schedule->steps[index],
                                    .node = executor->steps[index].node,
                                    .start_seconds = start_seconds,
                                    .end_seconds = end_seconds};
  o->on_step(o->self, &event);
}

// One step on the calling thread, between its waits and its event.
static delta_status_t run_step(delta_executor_t *executor, uint32_t index, delta_run_result_t *result) {
  const bool is_reported = executor->options.on_step != NULL;
  const double start_seconds = is_reported ? delta_clock_seconds() : 0;
  if (executor->auditor) DELTA_RETURN_IF_ERROR(delta_auditor_enter(executor->auditor, index));
  DELTA_RETURN_IF_ERROR(executor->steps[index].copy ? copy_in_line(executor, index, result) : launch_kernel(executor, index));
  if (executor->auditor) DELTA_RETURN_IF_ERROR(delta_auditor_leave(executor->auditor, index));
  if (is_reported) report_step(executor, index, start_seconds, delta_clock_seconds());
  return DELTA_OK;
}

// The device's own events, for one that has queues.
static delta_status_t wait_on_device(const delta_executor_t *executor, uint32_t index) {
  const delta_executor_options_t *o = &executor->options;
  const delta_schedule_step_t *step = &o->schedule->steps[index];
  for (uint32_t w = 0; w < step->wait_count; ++w) {
    DELTA_RETURN_IF_ERROR(o->device->driver->wait(o->device, step->lane, step->waits[w]));
  }
  return DELTA_OK;
}

// The steps of the calling thread. Stops early where a check says so, or a copy has failed: its status is the lanes'. *out_limit: the steps that were come to.
static delta_status_t run_steps(delta_executor_t *executor, const delta_run_options_t *options, delta_run_result_t *result,
                                uint32_t *out_limit) {
  const delta_executor_options_t *o = &executor->options;
  size_t born_cursor = 0, dead_cursor = 0;
  for (uint32_t i = 0; i < o->schedule->step_count; ++i) {
    const delta_prepared_step_t *prepared = &executor->steps[i];
    if (prepared->copy && executor->overlaps) continue;
    *out_limit = i;
    if (options->cancels && result->updates_done == 0 && atomic_load_explicit(options->cancels, memory_order_relaxed)) {
      result->cancelled = true;
      result->step = i;
      return DELTA_OK;
    }
    DELTA_RETURN_IF_ERROR(wait_on_device(executor, i));
    if (executor->overlaps && !delta_lanes_wait(o->lanes, i)) return DELTA_OK;
    poison(&executor->born, i, &born_cursor);
    DELTA_RETURN_IF_ERROR(run_step(executor, i, result));
    if (must_stop(executor, options, prepared, &result->output)) {
      result->stopped = true;
      result->step = i;
      result->node_name = prepared->node->name;
      return DELTA_OK;
    }
    if (prepared->node && changes_states(o->problem, &o->problem->steps[o->schedule->steps[i].problem_step])) ++result->updates_done;
    poison(&executor->dead, i, &dead_cursor);
    DELTA_RETURN_IF_ERROR(o->device->driver->signal(o->device, o->schedule->steps[i].lane, i));
    if (executor->overlaps) delta_lanes_signal(o->lanes, i);
  }
  *out_limit = o->schedule->step_count;
  return o->device->driver->synchronize(o->device);
}

static void report_copies(const delta_executor_t *executor) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    const delta_lane_copies_t *copies = &executor->work.copies[l];
    for (uint32_t i = 0; i < copies->count; ++i) {
      const delta_lane_copy_t *copy = &copies->items[i];
      if (copy->end_seconds > copy->start_seconds) report_step(executor, copy->step, copy->start_seconds, copy->end_seconds);
    }
  }
}

static void forget_failures(delta_executor_t *executor) {
  delta_lane_copies_t *copies = &executor->work.copies[DELTA_LANE_OFFLOAD];
  for (uint32_t i = 0; i < copies->count; ++i) copies->items[i].has_failed = false;
}

// Whether a copy to the tier below has failed for good.
static bool has_failed_below(const delta_executor_t *executor) {
  const delta_lane_copies_t *copies = &executor->work.copies[DELTA_LANE_OFFLOAD];
  for (uint32_t i = 0; i < copies->count; ++i) {
    if (copies->items[i].has_failed) return true;
  }
  return false;
}

delta_status_t delta_executor_run(delta_executor_t *executor, const delta_run_options_t *options, delta_run_result_t *out_result) {
  const delta_executor_options_t *o = &executor->options;
  *out_result = (delta_run_result_t){0};
  uint32_t limit = 0;
  const double start_seconds = delta_clock_seconds();
  delta_keeper_reset(&executor->keeper, options->arena_bytes);
  forget_failures(executor);
  if (executor->auditor) DELTA_RETURN_IF_ERROR(delta_auditor_begin(executor->auditor, options->arena_bytes));
  if (executor->overlaps) DELTA_RETURN_IF_ERROR(delta_lanes_begin(o->lanes, &executor->work));
  delta_status_t status = run_steps(executor, options, out_result, &limit);
  if (executor->overlaps) {
    status = delta_status_join(status, delta_lanes_end(o->lanes, limit, out_result->lanes));
    if (!status && o->on_step) report_copies(executor);
  } else {
    delta_lane_times_t *compute = &out_result->lanes[DELTA_LANE_COMPUTE];
    compute->busy_seconds = delta_clock_seconds() - start_seconds - compute->wait_seconds;
  }
  if (!status && executor->auditor && !out_result->stopped && !out_result->cancelled) status = delta_auditor_end(executor->auditor);
  out_result->failed_below = status && has_failed_below(executor);
  out_result->kept_tensors = atomic_load(&executor->keeper.count);
  out_result->why_kept = executor->keeper.cause;
  return status;
}
