// Closure: what must run again before a dropped tensor exists again. Tensors that wait for others stand on a stack; since producers come before their
// readers in the problem, none can wait for itself, and the stack is never higher than there are tensors.
#include "planner/expansion.h"

static bool is_resident(const delta_expansion_t *expansion, uint32_t tensor) {
  return delta_problem_tensor_is_state(&expansion->problem->tensors[tensor]) || expansion->residences[tensor].buffer != DELTA_PROBLEM_NONE;
}

static delta_status_t add_visitor(delta_expansion_t *expansion, uint32_t tensor) {
  delta_residence_t *residence = &expansion->residences[tensor];
  if (residence->is_visitor) return DELTA_OK;
  residence->is_visitor = true;
  return delta_array_push(expansion->allocator, &expansion->visitors, &tensor);
}

delta_status_t delta_expansion_check_again(const delta_expansion_t *expansion, uint32_t problem_step) {
  const delta_problem_t *problem = expansion->problem;
  const delta_problem_step_t *step = &problem->steps[problem_step];
  if (!(step->flags & DELTA_STEP_PURE)) {
    return delta_status_make(INVALID_ARGUMENT, "step '%s' gives another result when it runs again", step->name);
  }
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (!expansion->is_overwritten[step->inputs[k]]) continue;
    return delta_status_make(INVALID_ARGUMENT, "step '%s' reads state '%s', which has been written since", step->name,
                             problem->tensors[step->inputs[k]].name);
  }
  return DELTA_OK;
}

// Whether the producer may run once more here.
static delta_status_t check_rebuild(const delta_expansion_t *expansion, uint32_t tensor) {
  const uint32_t producer = expansion->residences[tensor].producer;
  const char *name = expansion->problem->tensors[tensor].name;
  if (producer == DELTA_PROBLEM_NONE) {
    return delta_status_make(INVALID_ARGUMENT, "tensor '%s' cannot be rebuilt: no step makes it", name);
  }
  return delta_status_annotate(delta_expansion_check_again(expansion, producer), "tensor '%s' cannot be rebuilt", name);
}

// The first input of the tensor's producer that is missing, or NONE.
static uint32_t find_missing(const delta_expansion_t *expansion, uint32_t tensor) {
  const delta_problem_step_t *step = &expansion->problem->steps[expansion->residences[tensor].producer];
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (!is_resident(expansion, step->inputs[k])) return step->inputs[k];
  }
  return DELTA_PROBLEM_NONE;
}

static delta_status_t run_again(delta_expansion_t *expansion, uint32_t tensor) {
  const uint32_t producer = expansion->residences[tensor].producer;
  const delta_problem_step_t *step = &expansion->problem->steps[producer];
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (!is_resident(expansion, step->outputs[k])) DELTA_RETURN_IF_ERROR(add_visitor(expansion, step->outputs[k]));
  }
  ++expansion->schedule->recomputed_nodes;
  return delta_expansion_run(expansion, producer);
}

// One look at the tensor on top of the stack: it is there, or comes, or something it needs goes on top.
static delta_status_t advance_top(delta_expansion_t *expansion) {
  const uint32_t tensor = expansion->pending.items[expansion->pending.count - 1];
  delta_residence_t *residence = &expansion->residences[tensor];
  if (!is_resident(expansion, tensor)) {
    if (residence->is_on_host) {
      DELTA_RETURN_IF_ERROR(add_visitor(expansion, tensor));
      DELTA_RETURN_IF_ERROR(delta_expansion_swap_in(expansion, tensor));
    } else {
      DELTA_RETURN_IF_ERROR(check_rebuild(expansion, tensor));
      const uint32_t missing = find_missing(expansion, tensor);
      if (missing != DELTA_PROBLEM_NONE) return delta_array_push(expansion->allocator, &expansion->pending, &missing);
      DELTA_RETURN_IF_ERROR(run_again(expansion, tensor));
    }
  }
  residence->is_wanted = true;
  --expansion->pending.count;
  return DELTA_OK;
}

delta_status_t delta_expansion_ensure(delta_expansion_t *expansion, uint32_t tensor) {
  if (is_resident(expansion, tensor)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_array_push(expansion->allocator, &expansion->pending, &tensor));
  while (expansion->pending.count > 0) DELTA_RETURN_IF_ERROR(advance_top(expansion));
  return DELTA_OK;
}

void delta_expansion_dismiss_visitors(delta_expansion_t *expansion) {
  for (size_t i = 0; i < expansion->visitors.count; ++i) {
    const uint32_t tensor = expansion->visitors.items[i];
    delta_residence_t *residence = &expansion->residences[tensor];
    const delta_action_t action = delta_expansion_action(expansion, tensor);
    const bool stays = action == DELTA_ACTION_KEEP || (action == DELTA_ACTION_REBUILD_HOLD && residence->is_wanted);
    if (!stays) residence->buffer = DELTA_PROBLEM_NONE;
    residence->is_visitor = residence->is_wanted = false;
  }
  expansion->visitors.count = 0;
}
