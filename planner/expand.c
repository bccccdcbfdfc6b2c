// Expand: from order and decisions to steps, buffers with lifetimes, in-place choices and the peak. In this version every tensor is kept from its
// production to its last use: each has one buffer, and every step runs once.
#include "planner/planner.h"

typedef struct expansion {
  const delta_problem_t *problem;
  const delta_order_t *order;
  delta_schedule_t *schedule;
  delta_region_t scratch;
  uint32_t *last_use;  // by tensor: last position in the order that makes or reads it
  uint32_t *buffer_of; // by tensor; DELTA_PROBLEM_NONE: not in the arena
  bool *is_taken;      // by buffer: another took its bytes over
} expansion_t;

static const char *const action_names[] = {
#define DELTA_ACTION_NAME(id, name) [DELTA_ACTION_##id] = name,
    DELTA_ACTIONS(DELTA_ACTION_NAME)
#undef DELTA_ACTION_NAME
};

static delta_status_t check_decisions(const delta_problem_t *problem, const delta_decisions_t *decisions) {
  for (size_t i = 0; decisions && i < decisions->count; ++i) {
    const delta_decision_t *decision = &decisions->items[i];
    const delta_decision_t *before = i > 0 ? &decisions->items[i - 1] : NULL;
    if (decision->tensor >= problem->tensor_count || (unsigned)decision->action >= sizeof action_names / sizeof *action_names) {
      return delta_status_make(INVALID_ARGUMENT, "decision %zu names tensor %u of %u and action %d", i, decision->tensor,
                               problem->tensor_count, (int)decision->action);
    }
    if (before && (before->tensor > decision->tensor || (before->tensor == decision->tensor && before->use >= decision->use))) {
      return delta_status_make(INVALID_ARGUMENT, "decisions %zu and %zu are not sorted by tensor and use", i - 1, i);
    }
    if (decision->action != DELTA_ACTION_KEEP) {
      return delta_status_make(UNSUPPORTED, "tensor '%s': the action '%s' is not available in this version",
                               problem->tensors[decision->tensor].name, action_names[decision->action]);
    }
  }
  return DELTA_OK;
}

static delta_status_t check_order(const expansion_t *expansion) {
  const uint32_t step_count = expansion->problem->step_count;
  bool valid = expansion->order->step_count == step_count;
  for (uint32_t p = 0; valid && p < step_count; ++p) valid = expansion->order->steps[p] < step_count;
  return valid ? DELTA_OK : delta_status_make(INVALID_ARGUMENT, "the order is not one of the problem's %u steps", step_count);
}

static const delta_problem_step_t *step_at(const expansion_t *expansion, uint32_t position) {
  return &expansion->problem->steps[expansion->order->steps[position]];
}

static void find_last_uses(expansion_t *expansion) {
  const delta_problem_t *problem = expansion->problem;
  for (uint32_t p = 0; p < expansion->order->step_count; ++p) {
    const delta_problem_step_t *step = step_at(expansion, p);
    for (uint32_t k = 0; k < step->input_count; ++k) expansion->last_use[step->inputs[k]] = p;
    for (uint32_t k = 0; k < step->output_count; ++k) expansion->last_use[step->outputs[k]] = p;
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if ((problem->tensors[t].flags & DELTA_TENSOR_OUTPUT) && problem->step_count > 0) expansion->last_use[t] = problem->step_count - 1;
  }
}

static delta_status_t allocate_lists(expansion_t *expansion) {
  const delta_problem_t *problem = expansion->problem;
  delta_schedule_t *schedule = expansion->schedule;
  const size_t most_buffers = (size_t)problem->tensor_count + problem->step_count;
  if (most_buffers >= DELTA_PROBLEM_NONE) return delta_status_make(UNSUPPORTED, "the program has more than 2^32 buffers");
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, problem->step_count, &schedule->steps));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, most_buffers, &schedule->buffers));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&expansion->scratch, problem->tensor_count, &expansion->last_use));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&expansion->scratch, problem->tensor_count, &expansion->buffer_of));
  return DELTA_REGION_ALLOCATE(&expansion->scratch, most_buffers, &expansion->is_taken);
}

static uint32_t add_buffer(expansion_t *expansion, uint32_t tensor, size_t size_bytes, uint32_t first_step, uint32_t last_step) {
  delta_schedule_t *schedule = expansion->schedule;
  schedule->buffers[schedule->buffer_count] = (delta_buffer_t){
      .tensor = tensor, .size_bytes = size_bytes, .first_step = first_step, .last_step = last_step, .inplace_of = DELTA_PROBLEM_NONE};
  return schedule->buffer_count++;
}

static void add_tensor_buffer(expansion_t *expansion, uint32_t tensor, uint32_t first_step) {
  expansion->buffer_of[tensor] =
      add_buffer(expansion, tensor, expansion->problem->tensors[tensor].size_bytes, first_step, expansion->last_use[tensor]);
}

// The best pair left at a step: its input dies here and is not taken, its output has no bytes yet; the largest, of equal ones the first listed.
static const delta_inplace_pair_t *find_inplace_pair(const expansion_t *expansion, const delta_problem_step_t *step, uint32_t position) {
  const delta_inplace_pair_t *best = NULL;
  size_t best_bytes = 0;
  for (uint32_t k = 0; k < step->inplace_count; ++k) {
    const delta_inplace_pair_t *pair = &step->inplace[k];
    const uint32_t input = expansion->buffer_of[pair->input], output = expansion->buffer_of[pair->output];
    const size_t size_bytes = expansion->problem->tensors[pair->input].size_bytes;
    const bool dies = expansion->last_use[pair->input] == position && !expansion->is_taken[input];
    if (!dies || expansion->schedule->buffers[output].inplace_of != DELTA_PROBLEM_NONE || size_bytes <= best_bytes) continue;
    best = pair;
    best_bytes = size_bytes;
  }
  return best;
}

static void choose_inplace(expansion_t *expansion, const delta_problem_step_t *step, uint32_t position) {
  for (;;) {
    const delta_inplace_pair_t *pair = find_inplace_pair(expansion, step, position);
    if (!pair) return;
    const uint32_t input = expansion->buffer_of[pair->input];
    expansion->schedule->buffers[expansion->buffer_of[pair->output]].inplace_of = input;
    expansion->is_taken[input] = true;
  }
}

static delta_status_t copy_buffer_list(expansion_t *expansion, const uint32_t *tensors, uint32_t count, uint32_t **out_buffers) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&expansion->schedule->region, count, out_buffers));
  for (uint32_t k = 0; k < count; ++k) (*out_buffers)[k] = expansion->buffer_of[tensors[k]];
  return DELTA_OK;
}

static delta_status_t expand_step(expansion_t *expansion, uint32_t position) {
  const delta_problem_step_t *step = step_at(expansion, position);
  delta_schedule_step_t *run = &expansion->schedule->steps[expansion->schedule->step_count++];
  *run = (delta_schedule_step_t){.kind = DELTA_STEP_RUN,
                                 .lane = DELTA_LANE_COMPUTE,
                                 .problem_step = expansion->order->steps[position],
                                 .input_count = step->input_count,
                                 .output_count = step->output_count,
                                 .workspace = DELTA_PROBLEM_NONE};
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t tensor = step->outputs[k];
    if (!delta_problem_tensor_is_state(&expansion->problem->tensors[tensor])) add_tensor_buffer(expansion, tensor, position);
  }
  choose_inplace(expansion, step, position);
  if (step->workspace_bytes > 0) run->workspace = add_buffer(expansion, DELTA_PROBLEM_NONE, step->workspace_bytes, position, position);
  DELTA_RETURN_IF_ERROR(copy_buffer_list(expansion, step->inputs, step->input_count, &run->inputs));
  return copy_buffer_list(expansion, step->outputs, step->output_count, &run->outputs);
}

// The largest sum of live buffers: a difference list over the steps, less what in-place pairs share.
static delta_status_t measure_peak(expansion_t *expansion) {
  delta_schedule_t *schedule = expansion->schedule;
  int64_t *change = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&expansion->scratch, (size_t)schedule->step_count + 2, &change));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    const uint32_t first = buffer->first_step + (buffer->inplace_of != DELTA_PROBLEM_NONE);
    change[first] += (int64_t)buffer->size_bytes;
    change[buffer->last_step + 1] -= (int64_t)buffer->size_bytes;
  }
  int64_t live_bytes = 0;
  for (uint32_t p = 0; p < schedule->step_count || p == 0; ++p) {
    live_bytes += change[p];
    if ((uint64_t)live_bytes <= schedule->peak_bytes) continue;
    schedule->peak_bytes = (uint64_t)live_bytes;
    schedule->peak_step = p;
  }
  return DELTA_OK;
}

static delta_status_t expand_kept(expansion_t *expansion) {
  const delta_problem_t *problem = expansion->problem;
  DELTA_RETURN_IF_ERROR(allocate_lists(expansion));
  find_last_uses(expansion);
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    expansion->buffer_of[t] = DELTA_PROBLEM_NONE;
    if (problem->tensors[t].flags & DELTA_TENSOR_INPUT) add_tensor_buffer(expansion, t, 0);
  }
  for (uint32_t p = 0; p < problem->step_count; ++p) DELTA_RETURN_IF_ERROR(expand_step(expansion, p));
  return measure_peak(expansion);
}

delta_status_t delta_expand(const delta_problem_t *problem, const delta_order_t *order, const delta_decisions_t *decisions,
                            delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  expansion_t expansion = {.problem = problem, .order = order};
  DELTA_RETURN_IF_ERROR(check_decisions(problem, decisions));
  DELTA_RETURN_IF_ERROR(check_order(&expansion));
  DELTA_RETURN_IF_ERROR(delta_schedule_create(allocator, &expansion.schedule));
  delta_region_init(&expansion.scratch, allocator);
  delta_status_t status = expand_kept(&expansion);
  delta_region_deinit(&expansion.scratch);
  if (status) {
    delta_schedule_free(expansion.schedule);
    return status;
  }
  *out_schedule = expansion.schedule;
  return DELTA_OK;
}
