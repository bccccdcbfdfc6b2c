// Looking at results: the outputs that must be finite, and, when a run is checked, every float result.
#include <math.h>

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

// Values of a tensor where the host can read them, until the next call.
static delta_status_t view_values(delta_executor_t *executor, const void *address, size_t size_bytes, const void **out_data) {
  delta_device_t *device = executor->options.device;
  *out_data = address;
  if (device->host_addressable) return DELTA_OK;
  if (size_bytes > executor->values_bytes) {
    delta_release(executor->allocator, executor->values);
    executor->values = NULL;
    executor->values_bytes = 0;
    DELTA_RETURN_IF_ERROR(delta_allocate(executor->allocator, size_bytes, 1, &executor->values));
    executor->values_bytes = size_bytes;
  }
  *out_data = executor->values;
  return device->driver->read(device, executor->values, address, size_bytes);
}

// Whether the checks asked for stop the run after a step, and the output to blame.
static delta_status_t must_stop(delta_executor_t *executor, const delta_run_options_t *options, const delta_prepared_step_t *step,
                                uint32_t *out_output, bool *out_stops) {
  const delta_graph_t *graph = executor->options.graph;
  *out_stops = false;
  for (uint32_t i = 0; step->node && i < step->node->output_count && !*out_stops; ++i) {
    delta_tensor_id_t id = step->node->outputs[i];
    if (delta_tensor_is_none(id)) continue;
    const delta_tensor_t *tensor = delta_graph_tensor(graph, id);
    const void *data = NULL;
    *out_output = find_watched(graph, options, id);
    const bool is_watched = *out_output != DELTA_INDEX_NONE;
    if (!is_watched && !(options->check_values && delta_dtype_is_float(tensor->dtype))) continue;
    DELTA_RETURN_IF_ERROR(view_values(executor, step->buffers.outputs[i], delta_tensor_bytes(tensor), &data));
    *out_stops = is_watched && !isfinite(delta_element_load_double(data, tensor->dtype, 0));
    if (options->check_values && !*out_stops) *out_stops = delta_has_bad_value(data, tensor->dtype, &tensor->shape);
  }
  return DELTA_OK;
}

// Whether a step of the schedule writes a state other than a counter.
static bool changes_states(const delta_executor_t *executor, uint32_t step) {
  const delta_problem_t *problem = executor->options.problem;
  if (!executor->steps[step].node) return false;
  const delta_problem_step_t *problem_step = &problem->steps[executor->options.schedule->steps[step].problem_step];
  for (uint32_t i = 0; i < problem_step->output_count; ++i) {
    const delta_problem_tensor_t *tensor = &problem->tensors[problem_step->outputs[i]];
    if (tensor->becomes_state != DELTA_PROBLEM_NONE && tensor->kind != DELTA_CLASS_OTHER) return true;
  }
  return false;
}

static void stop_at(const delta_executor_t *executor, uint32_t index, delta_run_result_t *result) {
  result->stopped = true;
  result->step = index;
  result->node_name = executor->steps[index].node->name;
}

delta_status_t delta_executor_check_step(delta_executor_t *executor, const delta_run_options_t *options, uint32_t index,
                                         delta_run_result_t *result) {
  bool stops = false;
  DELTA_RETURN_IF_ERROR(must_stop(executor, options, &executor->steps[index], &result->output, &stops));
  if (stops) {
    stop_at(executor, index, result);
  } else {
    result->updates_done += changes_states(executor, index);
  }
  return DELTA_OK;
}

// Whether the output that a step computes, as it stands after the run, is one that must be finite and is not.
static delta_status_t is_bad_output(delta_executor_t *executor, const delta_run_options_t *options, const delta_node_t *node,
                                    uint32_t *out_output, bool *out_bad) {
  const delta_graph_t *graph = executor->options.graph;
  *out_bad = false;
  for (uint32_t i = 0; i < node->output_count && !*out_bad; ++i) {
    if (delta_tensor_is_none(node->outputs[i])) continue;
    *out_output = find_watched(graph, options, node->outputs[i]);
    if (*out_output == DELTA_INDEX_NONE) continue;
    const delta_tensor_t *tensor = delta_graph_tensor(graph, node->outputs[i]);
    const void *data = NULL;
    DELTA_RETURN_IF_ERROR(view_values(executor, executor->outputs[*out_output], delta_tensor_bytes(tensor), &data));
    *out_bad = !isfinite(delta_element_load_double(data, tensor->dtype, 0));
  }
  return DELTA_OK;
}

delta_status_t delta_executor_check_end(delta_executor_t *executor, const delta_run_options_t *options, delta_run_result_t *result) {
  const uint32_t step_count = executor->options.schedule->step_count;
  result->ran_all = true;
  result->updates_done = 0;
  for (uint32_t s = 0; s < step_count; ++s) result->updates_done += changes_states(executor, s);
  for (uint32_t s = 0; s < step_count; ++s) {
    const delta_node_t *node = executor->steps[s].node;
    bool is_bad = false;
    if (node) DELTA_RETURN_IF_ERROR(is_bad_output(executor, options, node, &result->output, &is_bad));
    if (!is_bad) continue;
    stop_at(executor, s, result);
    return DELTA_OK;
  }
  return DELTA_OK;
}
