// Addresses come from the schedule's buffers and the plan's states; they are looked up once per step when the executor is made.
#include "onnx/graph/virtual.h"
#include "runtime/executor_parts.h"

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

// The address of a node's input; of a virtual one, that of a list of its parts' addresses.
static delta_status_t input_address(delta_executor_t *executor, delta_tensor_id_t id, const delta_problem_step_t *problem_step,
                                    const delta_schedule_step_t *step, const void **out_address) {
  const delta_node_t *parts = delta_virtual_node(executor->options.graph, id);
  const void **list = NULL;
  if (!parts) {
    *out_address = step_address(executor, id, problem_step->inputs, step->inputs, step->input_count);
    return DELTA_OK;
  }
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, parts->input_count, &list));
  for (uint32_t p = 0; p < parts->input_count; ++p) {
    list[p] = step_address(executor, parts->inputs[p], problem_step->inputs, step->inputs, step->input_count);
  }
  *out_address = list;
  return DELTA_OK;
}

static delta_status_t prepare_kernel(delta_executor_t *executor, uint32_t node) {
  if (executor->kernels[node]) return DELTA_OK;
  const delta_executor_options_t *o = &executor->options;
  if (o->predecessor && o->predecessor->kernels[node]) {
    executor->kernels[node] = o->predecessor->kernels[node];
    return DELTA_OK;
  }
  return o->device->driver->kernel_prepare(o->device, o->graph, (delta_node_id_t){node}, o->selection->ranks[node],
                                           &executor->kernels[node]);
}

static const char *buffer_name(const delta_executor_options_t *o, uint32_t buffer) {
  return o->problem->tensors[o->schedule->buffers[buffer].tensor].name;
}

// Makes room for the copies of each lane.
static delta_status_t allocate_copies(delta_executor_t *executor) {
  const delta_executor_options_t *o = &executor->options;
  uint32_t counts[DELTA_LANE_COUNT] = {0};
  for (uint32_t s = 0; s < o->schedule->step_count; ++s) ++counts[o->schedule->steps[s].lane];
  counts[DELTA_LANE_COMPUTE] = 0;
  executor->work = (delta_lane_work_t){.schedule = o->schedule, .tier = o->tier, .patience_seconds = o->patience_seconds};
  if (o->device->host_addressable) {
    executor->keeper.schedule = o->schedule;
    executor->keeper.problem = o->problem;
    executor->keeper.arena = o->device->driver->arena_address(o->arena, o->state_bytes);
    executor->work.keeper = &executor->keeper;
  }
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, counts[l], &executor->work.copies[l].items));
    executor->overlaps = executor->overlaps || (counts[l] > 0 && (o->device->has_queues ? !o->copies_in_line : o->lanes != NULL));
  }
  return DELTA_OK;
}

static delta_status_t prepare_copy(delta_executor_t *executor, uint32_t index) {
  const delta_executor_options_t *o = &executor->options;
  const delta_schedule_step_t *step = &o->schedule->steps[index];
  const uint32_t buffer = step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0];
  if (!o->tier) return delta_status_make(INTERNAL, "step %u copies a tensor, but there is no tier below the arena", index);
  delta_lane_copies_t *copies = &executor->work.copies[step->lane];
  delta_lane_copy_t *copy = &copies->items[copies->count++];
  *copy = (delta_lane_copy_t){.step = index,
                              .memory = buffer_address(executor, buffer),
                              .size_bytes = o->schedule->buffers[buffer].size_bytes,
                              .tensor_name = buffer_name(o, buffer)};
  executor->steps[index].copy = copy;
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
    DELTA_RETURN_IF_ERROR(input_address(executor, node->inputs[i], problem_step, step, &inputs[i]));
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

// Marks the buffers that copies on lanes of their own use: when they are done with one is not known on this thread.
static void mark_copied(const delta_executor_t *executor, bool *is_copied) {
  const delta_schedule_t *schedule = executor->options.schedule;
  for (uint32_t s = 0; s < schedule->step_count && executor->overlaps; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (step->kind != DELTA_STEP_RUN) is_copied[step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0]] = true;
  }
}

// Lists what begins and ends with each step, except what an in-place output takes over.
static delta_status_t list_void_ranges(delta_executor_t *executor) {
  const delta_schedule_t *schedule = executor->options.schedule;
  bool *taken = NULL, *is_copied = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, schedule->buffer_count, &taken));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&executor->region, schedule->buffer_count, &is_copied));
  mark_copied(executor, is_copied);
  for (uint32_t i = 0; i < schedule->buffer_count; ++i) {
    const delta_buffer_t *buffer = &schedule->buffers[i];
    if (buffer->inplace_of == DELTA_PROBLEM_NONE) continue;
    taken[buffer->inplace_of] = true;
    const delta_schedule_step_t *maker = &schedule->steps[buffer->first_step];
    for (uint32_t k = 0; delta_buffer_is_in_row(schedule->buffers, i) && k < maker->input_count; ++k) taken[maker->inputs[k]] = true;
  }
  for (uint32_t step = 0; step < schedule->step_count; ++step) {
    for (uint32_t i = 0; i < schedule->buffer_count; ++i) {
      const delta_buffer_t *buffer = &schedule->buffers[i];
      bool is_born = buffer->first_step == step && buffer->inplace_of == DELTA_PROBLEM_NONE && !holds_input(executor, i) && !is_copied[i];
      bool is_dead = buffer->last_step == step && !taken[i] && step + 1 < schedule->step_count && !is_copied[i];
      if (is_born) DELTA_RETURN_IF_ERROR(push_range(executor, &executor->born, step, i));
      if (is_dead) DELTA_RETURN_IF_ERROR(push_range(executor, &executor->dead, step, i));
    }
  }
  return DELTA_OK;
}

static delta_status_t create_auditor(delta_executor_t *executor) {
  const delta_executor_options_t *o = &executor->options;
  const delta_auditor_options_t options = {.device = o->device,
                                           .graph = o->graph,
                                           .problem = o->problem,
                                           .tensor_of_storage = o->tensor_of_storage,
                                           .schedule = o->schedule,
                                           .plan = o->plan,
                                           .arena = o->arena,
                                           .state_bytes = o->state_bytes,
                                           .tier = o->tier,
                                           .overlaps = executor->overlaps && !o->device->has_queues, // those wait for each step then
                                           .keeper = executor->work.keeper,
                                           .keeper_mutex = &executor->keeper_mutex};
  DELTA_RETURN_IF_ERROR(delta_auditor_create(&options, executor->allocator, &executor->auditor));
  pthread_mutex_init(&executor->keeper_mutex, NULL);
  executor->work.keeper_mutex = &executor->keeper_mutex;
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
  DELTA_GOTO_IF_ERROR(status, allocate_copies(executor), cleanup);
  for (uint32_t i = 0; i < schedule->step_count; ++i) DELTA_GOTO_IF_ERROR(status, prepare_step(executor, i), cleanup);
  DELTA_GOTO_IF_ERROR(status, resolve_ends(executor), cleanup);
  // An auditor has a pattern of its own in more than these bytes.
  if (options->poison && !options->audits) DELTA_GOTO_IF_ERROR(status, list_void_ranges(executor), cleanup);
  if (options->device->has_queues) DELTA_GOTO_IF_ERROR(status, delta_executor_prepare_queues(executor), cleanup);
  if (options->audits) DELTA_GOTO_IF_ERROR(status, create_auditor(executor), cleanup);
  *out_executor = executor;
  executor = NULL;
cleanup:
  delta_executor_destroy(executor);
  return status;
}

void delta_executor_take_kernels(delta_executor_t *executor) {
  delta_executor_t *lender = executor->options.predecessor;
  if (!lender) return;
  for (size_t i = 0; i < executor->options.graph->nodes.count; ++i) {
    if (lender->kernels[i] == executor->kernels[i]) lender->kernels[i] = NULL;
  }
  executor->options.predecessor = NULL;
}

void delta_executor_destroy(delta_executor_t *executor) {
  if (!executor) return;
  const delta_executor_t *lender = executor->options.predecessor;
  for (size_t i = 0; executor->kernels && i < executor->options.graph->nodes.count; ++i) {
    if (!lender || lender->kernels[i] != executor->kernels[i]) executor->options.device->driver->kernel_destroy(executor->kernels[i]);
  }
  delta_executor_free_queues(executor);
  delta_release(executor->allocator, executor->values);
  delta_release(executor->allocator, executor->kernels);
  delta_keeper_reset(&executor->keeper, 0);
  if (executor->auditor) pthread_mutex_destroy(&executor->keeper_mutex);
  delta_auditor_destroy(executor->auditor);
  delta_array_deinit(executor->allocator, &executor->born);
  delta_array_deinit(executor->allocator, &executor->dead);
  delta_region_deinit(&executor->region);
  delta_release(executor->allocator, executor);
}

void *delta_executor_input(delta_executor_t *executor, uint32_t index) { return executor->inputs[index]; }

const void *delta_executor_output(const delta_executor_t *executor, uint32_t index) { return executor->outputs[index]; }
