// Addresses come from the schedule's buffers and the plan's states; they are looked up once per step when the executor is made.
#include "runtime/executor.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

// One schedule step, ready to launch.
typedef struct delta_prepared_step {
  const delta_node_t *node; // NULL: a copy
  delta_kernel_t *kernel;   // Borrowed from executor->kernels.
  delta_kernel_buffers_t buffers;
  void *copied; // of a copy: what goes below or comes back
  size_t copied_bytes;
} delta_prepared_step_t;

// Bytes without a value before or after a step.
typedef struct delta_void_range {
  uint32_t step;
  void *address;
  size_t size_bytes;
} delta_void_range_t;
typedef DELTA_ARRAY(delta_void_range_t) delta_void_ranges_t;

struct delta_executor {
  delta_executor_options_t options;
  delta_allocator_t allocator;
  delta_region_t region;    // Owns the address lists.
  delta_kernel_t **kernels; // Owned; per graph node.
  delta_prepared_step_t *steps;
  void **inputs;                  // per graph input
  void **outputs;                 // per graph output
  size_t *state_offsets;          // per problem tensor that is a state or becomes one
  delta_void_ranges_t born, dead; // by step: what it writes first, what it reads last; only when poisoning
};

enum { DELTA_POISON_BYTE = 0xFF }; // a quiet NaN in every float type

// The arena offset of each problem tensor that is a state or becomes one.
static delta_status_t resolve_states(delta_executor_t *executor) {
  const delta_executor_options_t *o = &executor->options;
  delta_map_t by_name;
  delta_map_init(&by_name, executor->allocator);
  delta_status_t status = DELTA_OK;
  for (uint32_t i = 0; i < o->plan->state_count; ++i)
    DELTA_GOTO_IF_ERROR(status, delta_map_set(&by_name, o->plan->states[i].name, i), cleanup);
  for (size_t i = 0; i < o->graph->states.count; ++i) {
    const delta_state_t *state = &o->graph->states.items[i];
    uint32_t place = delta_map_find(&by_name, state->name);
    if (place == DELTA_MAP_NONE) {
      status = delta_status_make(MISMATCH, "the plan has no place for state '%s': make a new plan", state->name);
      goto cleanup;
    }
    if (delta_tensor_is_none(state->current)) continue;
    uint32_t tensor = o->tensor_of_storage[state->current.index];
    if (tensor != DELTA_PROBLEM_NONE) executor->state_offsets[tensor] = o->plan->states[place].offset_bytes;
  }
  for (uint32_t i = 0; i < o->problem->tensor_count; ++i) {
    uint32_t state = o->problem->tensors[i].becomes_state;
    if (state != DELTA_PROBLEM_NONE) executor->state_offsets[i] = executor->state_offsets[state];
  }
cleanup:
  delta_map_deinit(&by_name);
  return status;
}

static void *buffer_address(const delta_executor_t *executor, uint32_t buffer) {
  const delta_executor_options_t *o = &executor->options;
  return o->device->driver->arena_address(o->arena, o->state_bytes + o->schedule->buffers[buffer].offset_bytes);
}

static void *state_address(const delta_executor_t *executor, uint32_t tensor) {
  const delta_executor_options_t *o = &executor->options;
  return o->device->driver->arena_address(o->arena, executor->state_offsets[tensor]);
}

static bool is_in_state_area(const delta_problem_t *problem, uint32_t tensor) {
  return delta_problem_tensor_is_state(&problem->tensors[tensor]);
}

// The address of graph tensor `id` at a step whose buffers for problem tensors `tensors` are `buffers`.
static void *step_address(const delta_executor_t *executor, delta_tensor_id_t id, const uint32_t *tensors, const uint32_t *buffers,
                          uint32_t count) {
  if (delta_tensor_is_none(id)) return NULL;
  const delta_executor_options_t *o = &executor->options;
  uint32_t tensor = o->tensor_of_storage[id.index];
  if (is_in_state_area(o->problem, tensor)) return state_address(executor, tensor);
  for (uint32_t i = 0; i < count; ++i) {
    if (tensors[i] == tensor) return buffer_address(executor, buffers[i]);
  }
  return NULL;
}

static delta_status_t prepare_kernel(delta_executor_t *executor, uint32_t node) {
  if (executor->kernels[node]) return DELTA_OK;
  const delta_executor_options_t *o = &executor->options;
  return o->device->driver->kernel_prepare(o->device, o->graph, (delta_node_id_t){node}, o->selection->ranks[node],
                                           &executor->kernels[node]);
}

static delta_status_t prepare_copy(delta_executor_t *executor, uint32_t index) {
  const delta_executor_options_t *o = &executor->options;
  const delta_schedule_step_t *step = &o->schedule->steps[index];
  const uint32_t buffer = step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0];
  if (!o->tier) return delta_status_make(INTERNAL, "step %u copies a tensor, but there is no tier below the arena", index);
  executor->steps[index].copied = buffer_address(executor, buffer);
  executor->steps[index].copied_bytes = o->schedule->buffers[buffer].size_bytes;
  return DELTA_OK;
}

static delta_status_t prepare_step(delta_executor_t *executor, uint32_t index) {
  const delta_executor_options_t *o = &executor->options;
  const delta_schedule_step_t *step = &o->schedule->steps[index];
  delta_prepared_step_t *prepared = &executor->steps[index];
  if (step->kind != DELTA_STEP_RUN) return prepare_copy(executor, index);
  const delta_problem_step_t *problem_step = &o->problem->steps[step->problem_step];
  const delta_node_t *node = delta_graph_node(o->graph, (delta_node_id_t){problem_step->node});
  DELTA_RETURN_IF_ERROR(prepare_kernel(executor, problem_step->node));
  const void **inputs = NULL;
  void **outputs = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, node->input_count, &inputs));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, node->output_count, &outputs));
  for (uint32_t i = 0; i < node->input_count; ++i) {
    inputs[i] = step_address(executor, node->inputs[i], problem_step->inputs, step->inputs, step->input_count);
  }
  for (uint32_t i = 0; i < node->output_count; ++i) {
    outputs[i] = step_address(executor, node->outputs[i], problem_step->outputs, step->outputs, step->output_count);
  }
  prepared->node = node;
  prepared->kernel = executor->kernels[problem_step->node];
  prepared->buffers = (delta_kernel_buffers_t){
      .inputs = inputs,
      .outputs = outputs,
      .workspace = step->workspace == DELTA_PROBLEM_NONE ? NULL : buffer_address(executor, step->workspace),
  };
  return DELTA_OK;
}

// The buffer that holds problem tensor `tensor` before the first step (an input) or after the last (an output).
static uint32_t find_end_buffer(const delta_schedule_t *schedule, uint32_t tensor, bool at_start) {
  for (uint32_t i = 0; i < schedule->buffer_count; ++i) {
    const delta_buffer_t *buffer = &schedule->buffers[i];
    if (buffer->tensor != tensor) continue;
    if (at_start ? buffer->first_step == 0 : buffer->last_step + 1 == schedule->step_count) return i;
  }
  return DELTA_PROBLEM_NONE;
}

static void *end_address(const delta_executor_t *executor, delta_tensor_id_t id, bool at_start) {
  const delta_executor_options_t *o = &executor->options;
  uint32_t tensor = o->tensor_of_storage[id.index];
  if (tensor == DELTA_PROBLEM_NONE) return NULL;
  if (is_in_state_area(o->problem, tensor)) return state_address(executor, tensor);
  uint32_t buffer = find_end_buffer(o->schedule, tensor, at_start);
  return buffer == DELTA_PROBLEM_NONE ? NULL : buffer_address(executor, buffer);
}

static delta_status_t resolve_ends(delta_executor_t *executor) {
  const delta_graph_t *graph = executor->options.graph;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, graph->inputs.count, &executor->inputs));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, graph->outputs.count, &executor->outputs));
  for (size_t i = 0; i < graph->inputs.count; ++i) executor->inputs[i] = end_address(executor, graph->inputs.items[i], true);
  for (size_t i = 0; i < graph->outputs.count; ++i) {
    executor->outputs[i] = end_address(executor, graph->outputs.items[i].tensor, false);
    if (!executor->outputs[i])
      return delta_status_make(MISMATCH, "output '%s' has no bytes after the last step: make a new plan", graph->outputs.items[i].name);
  }
  return DELTA_OK;
}

static delta_status_t push_range(delta_executor_t *executor, delta_void_ranges_t *ranges, uint32_t step, uint32_t buffer) {
  const delta_void_range_t range = {
      .step = step, .address = buffer_address(executor, buffer), .size_bytes = executor->options.schedule->buffers[buffer].size_bytes};
  return delta_array_push(executor->allocator, ranges, &range);
}

// Whether a buffer has a value before the first step.
static bool holds_input(const delta_executor_t *executor, uint32_t buffer) {
  uint32_t tensor = executor->options.schedule->buffers[buffer].tensor;
  return tensor != DELTA_PROBLEM_NONE && (executor->options.problem->tensors[tensor].flags & DELTA_TENSOR_INPUT) &&
         executor->options.schedule->buffers[buffer].first_step == 0;
}

// Lists what begins and ends with each step, except what an in-place output takes over.
static delta_status_t list_void_ranges(delta_executor_t *executor) {
  const delta_schedule_t *schedule = executor->options.schedule;
  bool *taken = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, schedule->buffer_count, &taken));
  for (uint32_t i = 0; i < schedule->buffer_count; ++i) {
    if (schedule->buffers[i].inplace_of != DELTA_PROBLEM_NONE) taken[schedule->buffers[i].inplace_of] = true;
  }
  for (uint32_t step = 0; step < schedule->step_count; ++step) {
    for (uint32_t i = 0; i < schedule->buffer_count; ++i) {
      const delta_buffer_t *buffer = &schedule->buffers[i];
      bool is_born = buffer->first_step == step && buffer->inplace_of == DELTA_PROBLEM_NONE && !holds_input(executor, i);
      bool is_dead = buffer->last_step == step && !taken[i] && step + 1 < schedule->step_count;
      if (is_born) DELTA_RETURN_IF_ERROR(push_range(executor, &executor->born, step, i));
      if (is_dead) DELTA_RETURN_IF_ERROR(push_range(executor, &executor->dead, step, i));
    }
  }
  return DELTA_OK;
}

delta_status_t delta_executor_create(const delta_executor_options_t *options, delta_allocator_t allocator,
                                     delta_executor_t **out_executor) {
  *out_executor = NULL;
  delta_executor_t *executor = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &executor));
  executor->options = *options;
  executor->allocator = allocator;
  delta_region_init(&executor->region, allocator);
  delta_status_t status = DELTA_OK;
  const delta_schedule_t *schedule = options->schedule;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, options->graph->nodes.count, &executor->kernels), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_REGION_ALLOCATE(&executor->region, schedule->step_count, &executor->steps), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_REGION_ALLOCATE(&executor->region, options->problem->tensor_count, &executor->state_offsets), cleanup);
  DELTA_GOTO_IF_ERROR(status, resolve_states(executor), cleanup);
  for (uint32_t i = 0; i < schedule->step_count; ++i) DELTA_GOTO_IF_ERROR(status, prepare_step(executor, i), cleanup);
  DELTA_GOTO_IF_ERROR(status, resolve_ends(executor), cleanup);
  if (options->poison) DELTA_GOTO_IF_ERROR(status, list_void_ranges(executor), cleanup);
  *out_executor = executor;
  executor = NULL;
cleanup:
  delta_executor_destroy(executor);
  return status;
}

void delta_executor_destroy(delta_executor_t *executor) {
  if (!executor) return;
  if (executor->kernels) {
    for (size_t i = 0; i < executor->options.graph->nodes.count; ++i)
      executor->options.device->driver->kernel_destroy(executor->kernels[i]);
  }
  delta_release(executor->allocator, executor->kernels);
  delta_array_deinit(executor->allocator, &executor->born);
  delta_array_deinit(executor->allocator, &executor->dead);
  delta_region_deinit(&executor->region);
  delta_release(executor->allocator, executor);
}

void *delta_executor_input(delta_executor_t *executor, uint32_t index) { return executor->inputs[index]; }

const void *delta_executor_output(const delta_executor_t *executor, uint32_t index) { return executor->outputs[index]; }

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

// Copies run on the calling thread: they have ended when this returns.
static delta_status_t copy_tensor(delta_executor_t *executor, uint32_t index, double *inout_seconds) {
  const delta_executor_options_t *o = &executor->options;
  const delta_schedule_step_t *step = &o->schedule->steps[index];
  const delta_prepared_step_t *prepared = &executor->steps[index];
  const double start_seconds = delta_clock_seconds();
  delta_status_t status = step->kind == DELTA_STEP_SWAP_OUT
                              ? delta_tier_write(o->tier, step->host_offset_bytes, prepared->copied, prepared->copied_bytes)
                              : delta_tier_read(o->tier, step->host_offset_bytes, prepared->copied, prepared->copied_bytes);
  *inout_seconds += delta_clock_seconds() - start_seconds;
  return status ? delta_status_annotate(status, "step %u", index) : DELTA_OK;
}

static delta_status_t launch_kernel(delta_executor_t *executor, uint32_t index) {
  const delta_executor_options_t *o = &executor->options;
  const delta_prepared_step_t *prepared = &executor->steps[index];
  delta_status_t status = o->device->driver->launch(o->device, o->schedule->steps[index].lane, prepared->kernel, &prepared->buffers);
  return status ? delta_status_annotate(status, "step %u, node '%s'", index, prepared->node->name) : DELTA_OK;
}

// A step's waits before it, its event after it.
static delta_status_t run_step(delta_executor_t *executor, uint32_t index, double *inout_copy_seconds) {
  const delta_executor_options_t *o = &executor->options;
  const delta_device_driver_t *driver = o->device->driver;
  const delta_schedule_step_t *step = &o->schedule->steps[index];
  delta_prepared_step_t *prepared = &executor->steps[index];
  for (uint32_t i = 0; i < step->wait_count; ++i) DELTA_RETURN_IF_ERROR(driver->wait(o->device, step->lane, step->waits[i]));
  delta_step_event_t event = {.step = index, .schedule_step = step, .node = prepared->node};
  if (o->on_step) event.start_seconds = delta_clock_seconds();
  DELTA_RETURN_IF_ERROR(prepared->node ? launch_kernel(executor, index) : copy_tensor(executor, index, inout_copy_seconds));
  if (o->on_step) {
    event.end_seconds = delta_clock_seconds();
    o->on_step(o->self, &event);
  }
  return driver->signal(o->device, step->lane, index);
}

delta_status_t delta_executor_run(delta_executor_t *executor, const delta_run_options_t *options, delta_run_result_t *out_result) {
  const delta_executor_options_t *o = &executor->options;
  *out_result = (delta_run_result_t){0};
  size_t born_cursor = 0, dead_cursor = 0;
  for (uint32_t i = 0; i < o->schedule->step_count; ++i) {
    poison(&executor->born, i, &born_cursor);
    DELTA_RETURN_IF_ERROR(run_step(executor, i, &out_result->copy_seconds));
    const delta_prepared_step_t *prepared = &executor->steps[i];
    if (must_stop(executor, options, prepared, &out_result->output)) {
      out_result->stopped = true;
      out_result->step = i;
      out_result->node_name = prepared->node->name;
      return DELTA_OK;
    }
    if (prepared->node && changes_states(o->problem, &o->problem->steps[o->schedule->steps[i].problem_step])) ++out_result->updates_done;
    poison(&executor->dead, i, &dead_cursor);
  }
  return o->device->driver->synchronize(o->device);
}
