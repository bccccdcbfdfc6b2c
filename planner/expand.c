// Expand: from order and decisions to steps with clones and transfers, buffers with lifetimes, in-place pairs and the peak.
//
// The walk goes through the base order. Before a step its inputs are made resident; after it each of them enters its next gap, whose action says whether it
// stays. Since a buffer lives to its last actual use and no longer, staying costs nothing when nobody comes.
#include "planner/expansion.h"
#include "planner/live.h"

#include <stdlib.h>
#include <string.h>

static const char *const action_names[] = {
#define DELTA_ACTION_NAME(id, name) [DELTA_ACTION_##id] = name,
    DELTA_ACTIONS(DELTA_ACTION_NAME)
#undef DELTA_ACTION_NAME
};

// By tensor, use, place.
static int compare_decisions(const delta_decision_t *a, const delta_decision_t *b) {
  if (a->tensor != b->tensor) return a->tensor < b->tensor ? -1 : 1;
  if (a->use != b->use) return a->use < b->use ? -1 : 1;
  return a->place < b->place ? -1 : a->place > b->place;
}

static delta_status_t check_decisions(const delta_problem_t *problem, const delta_decisions_t *decisions) {
  if (delta_action_swaps(decisions->tail)) return delta_status_make(INVALID_ARGUMENT, "swapping is no action for all tails");
  for (size_t i = 0; i < decisions->count; ++i) {
    const delta_decision_t *decision = &decisions->items[i];
    const delta_decision_t *before = i > 0 ? &decisions->items[i - 1] : NULL;
    if (decision->tensor >= problem->tensor_count || (unsigned)decision->action >= sizeof action_names / sizeof *action_names) {
      return delta_status_make(INVALID_ARGUMENT, "decision %zu names tensor %u of %u and action %d", i, decision->tensor,
                               problem->tensor_count, (int)decision->action);
    }
    if (before && compare_decisions(before, decision) >= 0) {
      return delta_status_make(INVALID_ARGUMENT, "decisions %zu and %zu are not sorted by tensor, use and place", i - 1, i);
    }
    if (decision->action != DELTA_ACTION_KEEP && delta_problem_tensor_is_state(&problem->tensors[decision->tensor])) {
      return delta_status_make(INVALID_ARGUMENT, "decision %zu: '%s' for state '%s', which lies in the state area", i,
                               action_names[decision->action], problem->tensors[decision->tensor].name);
    }
  }
  return DELTA_OK;
}

static delta_status_t check_order(const delta_expansion_t *expansion) {
  const uint32_t step_count = expansion->problem->step_count;
  bool valid = expansion->order->step_count == step_count;
  for (uint32_t p = 0; valid && p < step_count; ++p) valid = expansion->order->steps[p] < step_count;
  return valid ? DELTA_OK : delta_status_make(INVALID_ARGUMENT, "the order is not one of the problem's %u steps", step_count);
}

// What the decisions do not change.
static void index_tensors(delta_expansion_t *expansion) {
  const delta_problem_t *problem = expansion->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &problem->tensors[t];
    expansion->at_start[t] = (delta_residence_t){
        .buffer = DELTA_PROBLEM_NONE,
        .producer = DELTA_PROBLEM_NONE,
        .is_on_host = (tensor->flags & DELTA_TENSOR_STATE) && (tensor->flags & DELTA_TENSOR_BELOW),
        .host_offset_bytes = tensor->home_offset_bytes,
    };
  }
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_problem_step_t *step = &problem->steps[s];
    for (uint32_t k = 0; k < step->input_count; ++k) ++expansion->at_start[step->inputs[k]].all_uses;
    for (uint32_t k = 0; k < step->output_count; ++k) {
      delta_residence_t *residence = &expansion->at_start[step->outputs[k]];
      residence->producer = s;
      residence->has_tail = (step->flags & DELTA_STEP_PURE) && !(problem->tensors[step->outputs[k]].flags & DELTA_TENSOR_OUTPUT);
    }
  }
}

static int compare_splits(const void *left, const void *right) {
  const delta_split_t *a = left, *b = right;
  if (a->place != b->place) return a->place < b->place ? -1 : 1;
  return a->decision < b->decision ? -1 : a->decision > b->decision;
}

// Decisions that begin amid a gap, by place.
static delta_status_t list_splits(delta_expansion_t *expansion) {
  const delta_decisions_t *decisions = expansion->decisions;
  expansion->splits.count = 0;
  expansion->next_split = 0;
  for (uint32_t i = 0; i < decisions->count; ++i) {
    if (decisions->items[i].place == 0) continue;
    DELTA_RETURN_IF_ERROR(delta_array_push(expansion->allocator, &expansion->splits, &((delta_split_t){decisions->items[i].place, i})));
  }
  if (expansion->splits.count > 0) qsort(expansion->splits.items, expansion->splits.count, sizeof *expansion->splits.items, compare_splits);
  return DELTA_OK;
}

// Puts everything back to before the first step.
static delta_status_t start(delta_expansion_t *expansion, const delta_decisions_t *decisions) {
  const uint32_t tensor_count = expansion->problem->tensor_count;
  const delta_region_t region = expansion->schedule->region;
  *expansion->schedule = (delta_schedule_t){.region = region, .host_bytes = expansion->problem->home_bytes};
  DELTA_RETURN_IF_ERROR(delta_region_reset(&expansion->schedule->region));
  expansion->decisions = decisions;
  expansion->steps.count = expansion->buffers.count = expansion->visitors.count = expansion->pending.count = 0;
  memcpy(expansion->residences, expansion->at_start, tensor_count * sizeof *expansion->residences);
  memset(expansion->is_overwritten, 0, tensor_count * sizeof *expansion->is_overwritten);
  size_t next = 0;
  for (uint32_t t = 0; t < tensor_count; ++t) {
    while (next < decisions->count && decisions->items[next].tensor < t) ++next;
    expansion->residences[t].decision = (uint32_t)next;
  }
  return list_splits(expansion);
}

// Whether the tensor will be copied below before it is ever dropped otherwise: then it is copied as soon as it exists, while it is still in use.
static bool is_copied_first(const delta_expansion_t *expansion, uint32_t tensor) {
  const delta_decisions_t *decisions = expansion->decisions;
  for (size_t i = expansion->residences[tensor].decision; i < decisions->count && decisions->items[i].tensor == tensor; ++i) {
    if (decisions->items[i].action != DELTA_ACTION_KEEP) return decisions->items[i].action == DELTA_ACTION_SWAP;
  }
  return false;
}

// The tensor is in a new gap, by being made or used.
static delta_status_t enter_gap(delta_expansion_t *expansion, uint32_t tensor) {
  delta_residence_t *residence = &expansion->residences[tensor];
  const delta_action_t action = delta_expansion_action(expansion, tensor);
  if (action == DELTA_ACTION_KEEP) return DELTA_OK;
  if (delta_action_swaps(action)) DELTA_RETURN_IF_ERROR(delta_expansion_swap_out(expansion, tensor));
  residence->buffer = DELTA_PROBLEM_NONE;
  return DELTA_OK;
}

static delta_status_t begin_tensor(delta_expansion_t *expansion, uint32_t tensor) {
  const bool goes_home = expansion->problem->tensors[tensor].becomes_state != DELTA_PROBLEM_NONE;
  const bool is_early = goes_home || (!expansion->decisions->late_offload && is_copied_first(expansion, tensor));
  if (is_early) DELTA_RETURN_IF_ERROR(delta_expansion_swap_out(expansion, tensor));
  return enter_gap(expansion, tensor);
}

static delta_status_t begin_inputs(delta_expansion_t *expansion) {
  const delta_problem_t *problem = expansion->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (!(problem->tensors[t].flags & DELTA_TENSOR_INPUT)) continue;
    DELTA_RETURN_IF_ERROR(delta_expansion_add_buffer(expansion, t, problem->tensors[t].size_bytes, &expansion->residences[t].buffer));
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (problem->tensors[t].flags & DELTA_TENSOR_INPUT) DELTA_RETURN_IF_ERROR(begin_tensor(expansion, t));
  }
  return DELTA_OK;
}

static void count_use(delta_expansion_t *expansion, uint32_t tensor) {
  const delta_decisions_t *decisions = expansion->decisions;
  delta_residence_t *residence = &expansion->residences[tensor];
  ++residence->uses;
  residence->is_split = false;
  while (residence->decision < decisions->count && decisions->items[residence->decision].tensor == tensor &&
         decisions->items[residence->decision].use < residence->uses) {
    ++residence->decision;
  }
}

// Gaps whose action changes after this place: a visitor's is looked at next, others enter the second part here.
static delta_status_t pass_splits(delta_expansion_t *expansion, uint32_t place) {
  for (; expansion->next_split < expansion->splits.count; ++expansion->next_split) {
    const delta_split_t *split = &expansion->splits.items[expansion->next_split];
    const delta_decision_t *decision = &expansion->decisions->items[split->decision];
    delta_residence_t *residence = &expansion->residences[decision->tensor];
    if (split->place > place) return DELTA_OK;
    if (decision->use != residence->uses) continue;
    residence->decision = split->decision;
    residence->is_split = true;
    if (residence->buffer == DELTA_PROBLEM_NONE || residence->is_visitor || delta_action_stays(decision->action)) continue;
    if (delta_action_swaps(decision->action)) DELTA_RETURN_IF_ERROR(delta_expansion_swap_out(expansion, decision->tensor));
    residence->buffer = DELTA_PROBLEM_NONE;
  }
  return DELTA_OK;
}

static delta_status_t expand_place(delta_expansion_t *expansion, uint32_t place) {
  const delta_problem_t *problem = expansion->problem;
  const uint32_t problem_step = expansion->order->steps[place];
  const delta_problem_step_t *step = &problem->steps[problem_step];
  for (uint32_t k = 0; k < step->input_count; ++k) DELTA_RETURN_IF_ERROR(delta_expansion_ensure(expansion, step->inputs[k]));
  DELTA_RETURN_IF_ERROR(delta_expansion_run(expansion, problem_step));
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (!delta_problem_tensor_is_state(&problem->tensors[step->outputs[k]])) {
      DELTA_RETURN_IF_ERROR(begin_tensor(expansion, step->outputs[k]));
    }
  }
  for (uint32_t k = 0; k < step->input_count; ++k) {
    count_use(expansion, step->inputs[k]);
    if (!delta_problem_tensor_is_state(&problem->tensors[step->inputs[k]])) {
      DELTA_RETURN_IF_ERROR(enter_gap(expansion, step->inputs[k]));
    }
  }
  DELTA_RETURN_IF_ERROR(pass_splits(expansion, place));
  delta_expansion_dismiss_visitors(expansion);
  return DELTA_OK;
}

// Outputs have to be there at the end.
static delta_status_t keep_outputs(delta_expansion_t *expansion) {
  const delta_problem_t *problem = expansion->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (problem->tensors[t].flags & DELTA_TENSOR_OUTPUT) DELTA_RETURN_IF_ERROR(delta_expansion_ensure(expansion, t));
  }
  for (uint32_t t = 0; t < problem->tensor_count && expansion->steps.count > 0; ++t) {
    const delta_problem_tensor_t *tensor = &problem->tensors[t];
    if (!(tensor->flags & DELTA_TENSOR_OUTPUT) || delta_problem_tensor_is_state(tensor)) continue;
    expansion->buffers.items[expansion->residences[t].buffer].last_step = (uint32_t)expansion->steps.count - 1;
  }
  return DELTA_OK;
}

// Runs a step of a given list, for the first time or again.
static delta_status_t expand_run(delta_expansion_t *expansion, uint32_t problem_step, bool *has_run) {
  const delta_problem_t *problem = expansion->problem;
  if (problem_step >= problem->step_count) return delta_status_make(INVALID_ARGUMENT, "there is no step %u to run", problem_step);
  const delta_problem_step_t *step = &problem->steps[problem_step];
  if (has_run[problem_step]) DELTA_RETURN_IF_ERROR(delta_expansion_check_again(expansion, problem_step));
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const bool is_there = delta_problem_tensor_is_state(&problem->tensors[step->inputs[k]]) ||
                          expansion->residences[step->inputs[k]].buffer != DELTA_PROBLEM_NONE;
    if (is_there) continue;
    return delta_status_make(INVALID_ARGUMENT, "step '%s' runs before its input '%s' is there", step->name,
                             problem->tensors[step->inputs[k]].name);
  }
  for (uint32_t k = 0; k < step->output_count; ++k) expansion->residences[step->outputs[k]].buffer = DELTA_PROBLEM_NONE;
  expansion->schedule->recomputed_nodes += has_run[problem_step];
  has_run[problem_step] = true;
  return delta_expansion_run(expansion, problem_step);
}

static delta_status_t expand_runs(delta_expansion_t *expansion, const delta_decisions_t *decisions) {
  const delta_problem_t *problem = expansion->problem;
  bool *has_run = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(expansion->allocator, problem->step_count, &has_run));
  delta_status_t status = DELTA_OK;
  for (uint32_t i = 0; i < decisions->run_count && !status; ++i) status = expand_run(expansion, decisions->runs[i], has_run);
  for (uint32_t s = 0; s < problem->step_count && !status; ++s) {
    if (!has_run[s]) status = delta_status_make(INVALID_ARGUMENT, "step '%s' never runs", problem->steps[s].name);
  }
  delta_release(expansion->allocator, has_run);
  return status;
}

static delta_status_t expand_order(delta_expansion_t *expansion) {
  for (uint32_t p = 0; p < expansion->order->step_count; ++p) DELTA_RETURN_IF_ERROR(expand_place(expansion, p));
  return DELTA_OK;
}

delta_status_t delta_expansion_make(delta_expansion_t *expansion, const delta_decisions_t *decisions) {
  static const delta_decisions_t nothing_decided = {0};
  delta_schedule_t *schedule = expansion->schedule;
  DELTA_RETURN_IF_ERROR(check_decisions(expansion->problem, decisions));
  DELTA_RETURN_IF_ERROR(start(expansion, decisions->runs ? &nothing_decided : decisions));
  DELTA_RETURN_IF_ERROR(begin_inputs(expansion));
  DELTA_RETURN_IF_ERROR(decisions->runs ? expand_runs(expansion, decisions) : expand_order(expansion));
  DELTA_RETURN_IF_ERROR(keep_outputs(expansion));
  DELTA_RETURN_IF_ERROR(delta_expansion_choose_inplace(expansion));
  schedule->steps = expansion->steps.items;
  schedule->step_count = (uint32_t)expansion->steps.count;
  schedule->buffers = expansion->buffers.items;
  schedule->buffer_count = (uint32_t)expansion->buffers.count;
  return DELTA_OK;
}

static delta_status_t allocate_tables(delta_expansion_t *expansion) {
  const uint32_t tensor_count = expansion->problem->tensor_count;
  DELTA_RETURN_IF_ERROR(delta_schedule_create(expansion->allocator, &expansion->schedule));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&expansion->tables, tensor_count, &expansion->at_start));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&expansion->tables, tensor_count, &expansion->residences));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&expansion->tables, tensor_count, &expansion->is_overwritten));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(expansion->allocator, &expansion->steps, expansion->problem->step_count));
  return delta_array_reserve(expansion->allocator, &expansion->buffers, tensor_count);
}

delta_status_t delta_expansion_init(delta_expansion_t *expansion, const delta_problem_t *problem, const delta_order_t *order,
                                    delta_allocator_t allocator) {
  *expansion = (delta_expansion_t){.problem = problem, .order = order, .allocator = allocator};
  delta_region_init(&expansion->tables, allocator);
  delta_status_t status = check_order(expansion);
  if (!status) status = allocate_tables(expansion);
  if (!status) {
    index_tensors(expansion);
  } else {
    delta_expansion_deinit(expansion);
  }
  return status;
}

void delta_expansion_deinit(delta_expansion_t *expansion) {
  if (!expansion->problem) return;
  delta_array_deinit(expansion->allocator, &expansion->steps);
  delta_array_deinit(expansion->allocator, &expansion->buffers);
  delta_array_deinit(expansion->allocator, &expansion->visitors);
  delta_array_deinit(expansion->allocator, &expansion->pending);
  delta_array_deinit(expansion->allocator, &expansion->is_taken);
  delta_array_deinit(expansion->allocator, &expansion->is_part);
  delta_array_deinit(expansion->allocator, &expansion->splits);
  delta_schedule_free(expansion->schedule);
  delta_region_deinit(&expansion->tables);
  *expansion = (delta_expansion_t){0};
}

// Moves the schedule out, with steps and buffers of its own.
static delta_status_t take_schedule(delta_expansion_t *expansion, delta_schedule_t **out_schedule) {
  delta_schedule_t *schedule = expansion->schedule;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&schedule->region, expansion->steps.items, expansion->steps.count, sizeof *expansion->steps.items,
                                          (void **)&schedule->steps));
  DELTA_RETURN_IF_ERROR(delta_region_copy(&schedule->region, expansion->buffers.items, expansion->buffers.count,
                                          sizeof *expansion->buffers.items, (void **)&schedule->buffers));
  DELTA_RETURN_IF_ERROR(delta_live_measure_peak(schedule, expansion->allocator));
  *out_schedule = schedule;
  expansion->schedule = NULL;
  return DELTA_OK;
}

delta_status_t delta_expand(const delta_problem_t *problem, const delta_order_t *order, const delta_decisions_t *decisions,
                            delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  static const delta_decisions_t all_kept = {0};
  delta_expansion_t expansion;
  DELTA_RETURN_IF_ERROR(delta_expansion_init(&expansion, problem, order, allocator));
  delta_status_t status = delta_expansion_make(&expansion, decisions ? decisions : &all_kept);
  if (!status) status = take_schedule(&expansion, out_schedule);
  delta_expansion_deinit(&expansion);
  return status;
}
