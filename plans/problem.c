// Problem: life cycle, and the check that every later stage relies on.
#include "plans/problem.h"

#include <math.h>

#include "base/checked.h"

// Sums of sizes stay below this, so that arena offsets fit JSON's exact integers and additions of two sums cannot overflow.
static const uint64_t LARGEST_SUM_BYTES = UINT64_C(1) << 52;

delta_status_t delta_problem_create(delta_allocator_t allocator, delta_problem_t **out_problem) {
  delta_problem_t *problem = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &problem));
  problem->allocator = allocator;
  delta_region_init(&problem->region, allocator);
  problem->alignment_bytes = 1;
  problem->budget_bytes = problem->host_budget_bytes = UINT64_MAX;
  *out_problem = problem;
  return DELTA_OK;
}

void delta_problem_free(delta_problem_t *problem) {
  if (!problem) return;
  delta_region_deinit(&problem->region);
  delta_release(problem->allocator, problem);
}

bool delta_problem_buffer_bytes(size_t data_bytes, size_t alignment_bytes, size_t *out_size_bytes) {
  return delta_size_align(data_bytes > 0 ? data_bytes : 1, alignment_bytes, out_size_bytes);
}

// What the walk over the steps has seen of a tensor.
typedef struct tensor_trace {
  uint32_t producer;  // step, or DELTA_PROBLEM_NONE
  uint32_t successor; // of a state: the tensor that becomes it, or DELTA_PROBLEM_NONE
  uint32_t listed_in; // last step in whose list it was seen, plus one
} tensor_trace_t;

static delta_status_t check_size(const delta_problem_t *problem, const char *what, const char *name, size_t size_bytes,
                                 uint64_t *inout_sum_bytes) {
  if (size_bytes % problem->alignment_bytes != 0) {
    return delta_status_make(MALFORMED, "%s '%s': %zu bytes are not a multiple of the alignment, %zu", what, name, size_bytes,
                             problem->alignment_bytes);
  }
  if (size_bytes > LARGEST_SUM_BYTES - *inout_sum_bytes) {
    return delta_status_make(MALFORMED, "%s '%s': with its %zu bytes the sum of all sizes passes 2^52", what, name, size_bytes);
  }
  *inout_sum_bytes += size_bytes;
  return DELTA_OK;
}

static delta_status_t check_becomes(const delta_problem_t *problem, uint32_t index, tensor_trace_t *traces) {
  const delta_problem_tensor_t *tensor = &problem->tensors[index];
  const uint32_t state = tensor->becomes_state;
  if (state >= problem->tensor_count || !(problem->tensors[state].flags & DELTA_TENSOR_STATE)) {
    return delta_status_make(MALFORMED, "tensor '%s' becomes tensor %u, which is no state", tensor->name, state);
  }
  const delta_problem_tensor_t *old = &problem->tensors[state];
  if (tensor->flags & (DELTA_TENSOR_STATE | DELTA_TENSOR_INPUT)) {
    return delta_status_make(MALFORMED, "tensor '%s' becomes state '%s' but is not made by a step", tensor->name, old->name);
  }
  if (traces[state].successor != DELTA_PROBLEM_NONE) {
    return delta_status_make(MALFORMED, "tensors '%s' and '%s' both become state '%s'", problem->tensors[traces[state].successor].name,
                             tensor->name, old->name);
  }
  if (tensor->size_bytes != old->size_bytes) {
    return delta_status_make(MALFORMED, "tensor '%s' of %zu bytes becomes state '%s' of %zu", tensor->name, tensor->size_bytes, old->name,
                             old->size_bytes);
  }
  if (old->flags & DELTA_TENSOR_OUTPUT) {
    return delta_status_make(MALFORMED, "state '%s' is an output and is updated: its old value would be lost", old->name);
  }
  if ((tensor->flags ^ old->flags) & DELTA_TENSOR_BELOW) {
    return delta_status_make(MALFORMED, "tensor '%s' and state '%s' disagree about the state's home", tensor->name, old->name);
  }
  traces[state].successor = index;
  return DELTA_OK;
}

static delta_status_t check_home(const delta_problem_t *problem, const delta_problem_tensor_t *tensor) {
  if (!(tensor->flags & DELTA_TENSOR_BELOW) || !(tensor->flags & DELTA_TENSOR_STATE)) return DELTA_OK;
  const uint64_t home_bytes = problem->home_bytes;
  if (tensor->home_offset_bytes <= home_bytes && tensor->size_bytes <= home_bytes - tensor->home_offset_bytes) return DELTA_OK;
  return delta_status_make(MALFORMED, "state '%s' has its home at %zu, beyond the %llu bytes of homes", tensor->name,
                           tensor->home_offset_bytes, (unsigned long long)home_bytes);
}

static delta_status_t check_tensors(const delta_problem_t *problem, tensor_trace_t *traces, uint64_t *inout_sum_bytes) {
  const uint32_t known_flags = DELTA_TENSOR_STATE | DELTA_TENSOR_INPUT | DELTA_TENSOR_OUTPUT | DELTA_TENSOR_BELOW | DELTA_TENSOR_PINNED;
  for (uint32_t i = 0; i < problem->tensor_count; ++i) {
    const delta_problem_tensor_t *tensor = &problem->tensors[i];
    if (!tensor->name) return delta_status_make(MALFORMED, "tensor %u has no name", i);
    if (tensor->size_bytes == 0) return delta_status_make(MALFORMED, "tensor '%s' has no bytes", tensor->name);
    DELTA_RETURN_IF_ERROR(check_size(problem, "tensor", tensor->name, tensor->size_bytes, inout_sum_bytes));
    const bool twice = (tensor->flags & DELTA_TENSOR_STATE) && (tensor->flags & DELTA_TENSOR_INPUT);
    const bool is_state = (tensor->flags & DELTA_TENSOR_STATE) || tensor->becomes_state != DELTA_PROBLEM_NONE;
    const bool is_homeless = (tensor->flags & DELTA_TENSOR_BELOW) && !is_state;
    const bool is_misplaced = (tensor->flags & DELTA_TENSOR_PINNED) && (is_state || !(tensor->flags & DELTA_TENSOR_OUTPUT));
    if ((tensor->flags & ~known_flags) || twice || is_homeless || is_misplaced || (unsigned)tensor->kind >= DELTA_CLASS_COUNT) {
      return delta_status_make(MALFORMED, "tensor '%s' has unknown or contradicting flags", tensor->name);
    }
    DELTA_RETURN_IF_ERROR(check_home(problem, tensor));
    if (tensor->becomes_state != DELTA_PROBLEM_NONE) DELTA_RETURN_IF_ERROR(check_becomes(problem, i, traces));
  }
  return DELTA_OK;
}

// Indices of one list of a step: in range and each once. `mark` differs for every list.
static delta_status_t check_list(const delta_problem_t *problem, const delta_problem_step_t *step, const uint32_t *items, uint32_t count,
                                 uint32_t mark, tensor_trace_t *traces) {
  for (uint32_t k = 0; k < count; ++k) {
    if (items[k] >= problem->tensor_count) {
      return delta_status_make(MALFORMED, "step '%s' names tensor %u of %u", step->name, items[k], problem->tensor_count);
    }
    if (traces[items[k]].listed_in == mark) {
      return delta_status_make(MALFORMED, "step '%s' lists tensor '%s' twice", step->name, problem->tensors[items[k]].name);
    }
    traces[items[k]].listed_in = mark;
  }
  return DELTA_OK;
}

static bool list_contains(const uint32_t *items, uint32_t count, uint32_t tensor) {
  for (uint32_t k = 0; k < count; ++k) {
    if (items[k] == tensor) return true;
  }
  return false;
}

static delta_status_t check_inplace(const delta_problem_t *problem, const delta_problem_step_t *step) {
  for (uint32_t k = 0; k < step->inplace_count; ++k) {
    const delta_inplace_pair_t pair = step->inplace[k];
    if (!list_contains(step->inputs, step->input_count, pair.input) || !list_contains(step->outputs, step->output_count, pair.output)) {
      return delta_status_make(MALFORMED, "step '%s': in-place pair %u is not an input and an output of it", step->name, k);
    }
    const delta_problem_tensor_t *input = &problem->tensors[pair.input], *output = &problem->tensors[pair.output];
    const bool is_update = output->becomes_state == pair.input;
    const bool has_state = delta_problem_tensor_is_state(input) || delta_problem_tensor_is_state(output);
    if ((has_state && !is_update) || (input->flags & DELTA_TENSOR_OUTPUT) || input->size_bytes != output->size_bytes) {
      return delta_status_make(MALFORMED, "step '%s': tensor '%s' cannot take the bytes of '%s'", step->name, output->name, input->name);
    }
  }
  return DELTA_OK;
}

static delta_status_t check_row_list(const delta_problem_t *problem, const delta_problem_step_t *step, const uint32_t *items,
                                     uint32_t count, uint32_t banned_flags, uint64_t *out_sum_bytes) {
  *out_sum_bytes = 0;
  for (uint32_t k = 0; k < count; ++k) {
    const delta_problem_tensor_t *tensor = &problem->tensors[items[k]];
    if ((tensor->flags & banned_flags) || tensor->becomes_state != DELTA_PROBLEM_NONE) {
      return delta_status_make(MALFORMED, "step '%s': tensor '%s' cannot lie in a row with others", step->name, tensor->name);
    }
    *out_sum_bytes += tensor->size_bytes;
  }
  return DELTA_OK;
}

// One whole on one side, its parts on the other.
static delta_status_t check_row(const delta_problem_t *problem, const delta_problem_step_t *step) {
  uint64_t input_bytes = 0, output_bytes = 0;
  if (!(step->flags & DELTA_STEP_IN_ROW)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(
      check_row_list(problem, step, step->inputs, step->input_count, DELTA_TENSOR_STATE | DELTA_TENSOR_OUTPUT, &input_bytes));
  DELTA_RETURN_IF_ERROR(check_row_list(problem, step, step->outputs, step->output_count, 0, &output_bytes));
  const uint32_t parts = step->input_count > step->output_count ? step->input_count : step->output_count;
  const bool has_whole = parts > 1 && step->input_count + step->output_count == parts + 1;
  if (has_whole && input_bytes == output_bytes) return DELTA_OK;
  return delta_status_make(MALFORMED, "step '%s' works in a row, but %llu bytes in and %llu bytes out are not one whole and its parts",
                           step->name, (unsigned long long)input_bytes, (unsigned long long)output_bytes);
}

static delta_status_t check_inputs(const delta_problem_t *problem, const delta_problem_step_t *step, const tensor_trace_t *traces) {
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const delta_problem_tensor_t *tensor = &problem->tensors[step->inputs[k]];
    const bool given = tensor->flags & (DELTA_TENSOR_STATE | DELTA_TENSOR_INPUT);
    if (!given && traces[step->inputs[k]].producer == DELTA_PROBLEM_NONE) {
      return delta_status_make(MALFORMED, "step '%s' reads tensor '%s' before any step makes it", step->name, tensor->name);
    }
  }
  return DELTA_OK;
}

static delta_status_t check_outputs(const delta_problem_t *problem, uint32_t index, tensor_trace_t *traces) {
  const delta_problem_step_t *step = &problem->steps[index];
  bool updates = false;
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const delta_problem_tensor_t *tensor = &problem->tensors[step->outputs[k]];
    if (tensor->flags & (DELTA_TENSOR_STATE | DELTA_TENSOR_INPUT)) {
      return delta_status_make(MALFORMED, "step '%s' makes tensor '%s', which is given", step->name, tensor->name);
    }
    tensor_trace_t *trace = &traces[step->outputs[k]];
    if (trace->producer != DELTA_PROBLEM_NONE) {
      return delta_status_make(MALFORMED, "steps '%s' and '%s' both make tensor '%s'", problem->steps[trace->producer].name, step->name,
                               tensor->name);
    }
    trace->producer = index;
    updates |= tensor->becomes_state != DELTA_PROBLEM_NONE;
  }
  const bool is_update = step->flags & DELTA_STEP_UPDATE, is_pure = step->flags & DELTA_STEP_PURE;
  if (updates != is_update || (is_update && is_pure)) {
    return delta_status_make(MALFORMED, "step '%s': its flags and its outputs disagree about the states it writes", step->name);
  }
  return DELTA_OK;
}

static delta_status_t check_step(const delta_problem_t *problem, uint32_t index, tensor_trace_t *traces, uint64_t *inout_sum_bytes) {
  const delta_problem_step_t *step = &problem->steps[index];
  if (!step->name) return delta_status_make(MALFORMED, "step %u has no name", index);
  if (!(step->seconds >= 0) || !isfinite(step->seconds)) {
    return delta_status_make(MALFORMED, "step '%s' takes %g seconds", step->name, step->seconds);
  }
  DELTA_RETURN_IF_ERROR(check_size(problem, "step", step->name, step->workspace_bytes, inout_sum_bytes));
  DELTA_RETURN_IF_ERROR(check_list(problem, step, step->inputs, step->input_count, 2 * index + 1, traces));
  DELTA_RETURN_IF_ERROR(check_list(problem, step, step->outputs, step->output_count, 2 * index + 2, traces));
  DELTA_RETURN_IF_ERROR(check_inputs(problem, step, traces));
  DELTA_RETURN_IF_ERROR(check_inplace(problem, step));
  DELTA_RETURN_IF_ERROR(check_row(problem, step));
  return check_outputs(problem, index, traces);
}

static delta_status_t check_frame(const delta_problem_t *problem) {
  const size_t alignment = problem->alignment_bytes;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    return delta_status_make(MALFORMED, "the alignment, %zu, is no power of two", alignment);
  }
  const double rates[] = {problem->offload_bytes_per_second, problem->prefetch_bytes_per_second, problem->shared_bytes_per_second};
  for (size_t i = 0; i < sizeof rates / sizeof *rates; ++i) {
    if (!(rates[i] >= 0) || !isfinite(rates[i])) return delta_status_make(MALFORMED, "a bandwidth of %g bytes a second", rates[i]);
  }
  const double starts[] = {problem->offload_start_seconds, problem->prefetch_start_seconds};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; ++i) {
    if (!(starts[i] >= 0) || !isfinite(starts[i]) || !isfinite(starts[i] * rates[i]))
      return delta_status_make(MALFORMED, "copies that start in %g seconds, at %g bytes a second", starts[i], rates[i]);
  }
  const double drags[] = {problem->offload_start_drag, problem->prefetch_start_drag, problem->offload_drag, problem->prefetch_drag};
  for (size_t i = 0; i < sizeof drags / sizeof *drags; ++i) {
    if (!(drags[i] >= 0 && drags[i] <= DELTA_PROBLEM_MOST_DRAG))
      return delta_status_make(MALFORMED, "copies that take %g of compute's speed: 0 to %g is possible", drags[i], DELTA_PROBLEM_MOST_DRAG);
  }
  if (problem->step_count > UINT32_MAX / 2 - 2) return delta_status_make(MALFORMED, "%u steps are too many", problem->step_count);
  return DELTA_OK;
}

delta_status_t delta_problem_check(const delta_problem_t *problem) {
  DELTA_RETURN_IF_ERROR(check_frame(problem));
  tensor_trace_t *traces = NULL;
  uint64_t sum_bytes = 0;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(problem->allocator, problem->tensor_count, &traces));
  for (uint32_t i = 0; i < problem->tensor_count; ++i) traces[i].producer = traces[i].successor = DELTA_PROBLEM_NONE;
  DELTA_GOTO_IF_ERROR(status, check_tensors(problem, traces, &sum_bytes), cleanup);
  for (uint32_t i = 0; i < problem->step_count; ++i) {
    DELTA_GOTO_IF_ERROR(status, check_step(problem, i, traces, &sum_bytes), cleanup);
  }
  for (uint32_t i = 0; i < problem->tensor_count; ++i) {
    const delta_problem_tensor_t *tensor = &problem->tensors[i];
    if (traces[i].producer != DELTA_PROBLEM_NONE || (tensor->flags & (DELTA_TENSOR_STATE | DELTA_TENSOR_INPUT))) continue;
    status = delta_status_make(MALFORMED, "no step makes tensor '%s'", tensor->name);
    goto cleanup;
  }
cleanup:
  delta_release(problem->allocator, traces);
  return status;
}

void delta_problem_set_home(delta_problem_t *problem, uint32_t state, bool is_below, size_t home_offset_bytes) {
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    delta_problem_tensor_t *tensor = &problem->tensors[t];
    if (t != state && tensor->becomes_state != state) continue;
    tensor->flags = is_below ? tensor->flags | DELTA_TENSOR_BELOW : tensor->flags & ~(uint32_t)DELTA_TENSOR_BELOW;
    tensor->home_offset_bytes = t == state && is_below ? home_offset_bytes : 0;
  }
}

double delta_problem_work_seconds(const delta_problem_t *problem) {
  double seconds = 0;
  for (uint32_t s = 0; s < problem->step_count; ++s) seconds += problem->steps[s].seconds;
  return seconds;
}

delta_status_t delta_problem_with_own_homes(const delta_problem_t *problem, delta_region_t *region, delta_problem_t **out_problem) {
  delta_problem_t *own = NULL;
  void *tensors = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, 1, &own));
  DELTA_RETURN_IF_ERROR(delta_region_copy(region, problem->tensors, problem->tensor_count, sizeof *problem->tensors, &tensors));
  *own = *problem;
  own->tensors = tensors;
  own->region = (delta_region_t){0};
  *out_problem = own;
  return DELTA_OK;
}
