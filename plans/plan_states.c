// States: where each lies, the same in all programs of a plan: in the state area, or in the tier below.
#include "base/checked.h"
#include "base/map.h"
#include "plans/plan.h"

delta_tensor_class_t delta_class_of_state(delta_state_kind_t kind) {
  static const delta_tensor_class_t classes[] = {
      [DELTA_STATE_PARAMETER] = DELTA_CLASS_PARAMETERS,  [DELTA_STATE_FROZEN] = DELTA_CLASS_PARAMETERS,
      [DELTA_STATE_STATISTIC] = DELTA_CLASS_PARAMETERS,  [DELTA_STATE_MOMENT] = DELTA_CLASS_OPTIMIZER,
      [DELTA_STATE_ACCUMULATOR] = DELTA_CLASS_GRADIENTS, [DELTA_STATE_COUNTER] = DELTA_CLASS_OTHER,
  };
  return classes[kind];
}

static delta_status_t compare_state(const delta_plan_state_t *placed, const delta_state_t *state) {
  if (placed->kind == state->kind && placed->dtype == state->dtype && delta_shape_equal(&placed->shape, &state->shape)) return DELTA_OK;
  char placed_shape[DELTA_SHAPE_TEXT_BYTES], shape[DELTA_SHAPE_TEXT_BYTES];
  return delta_status_make(MISMATCH, "state '%s': the plan has %s %s, the graph %s %s", state->name, delta_dtype_name(placed->dtype),
                           delta_shape_text(&placed->shape, placed_shape), delta_dtype_name(state->dtype),
                           delta_shape_text(&state->shape, shape));
}

static delta_status_t append_state(delta_plan_t *plan, const delta_state_t *state, size_t alignment_bytes, uint64_t *inout_end_bytes) {
  delta_plan_state_t *placed = &plan->states[plan->state_count];
  const size_t data_bytes = (size_t)delta_shape_count(&state->shape) * delta_dtype_bytes(state->dtype);
  size_t end_bytes;
  *placed = (delta_plan_state_t){.kind = state->kind, .dtype = state->dtype, .shape = state->shape, .offset_bytes = *inout_end_bytes};
  if (!delta_problem_buffer_bytes(data_bytes, alignment_bytes, &placed->size_bytes) ||
      !delta_size_add(placed->offset_bytes, placed->size_bytes, &end_bytes)) {
    return delta_status_make(UNSUPPORTED, "state '%s': the states are larger than memory can be", state->name);
  }
  char *name = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_format(&plan->region, &name, "%s", state->name));
  placed->name = name;
  *inout_end_bytes = end_bytes;
  ++plan->state_count;
  return DELTA_OK;
}

// Makes room for the states of a graph behind those there are.
static delta_status_t grow_list(delta_plan_t *plan, size_t extra) {
  const size_t count = plan->state_count + extra;
  if (count >= UINT32_MAX) return delta_status_make(UNSUPPORTED, "a plan of %zu states", count);
  delta_plan_state_t *states = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, count, &states));
  for (uint32_t i = 0; i < plan->state_count; ++i) states[i] = plan->states[i];
  plan->states = states;
  return DELTA_OK;
}

static delta_status_t place_states(delta_plan_t *plan, const delta_graph_t *graph, size_t alignment_bytes, delta_map_t *placed) {
  uint64_t end_bytes = 0;
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    DELTA_RETURN_IF_ERROR(delta_map_set(placed, plan->states[i].name, i));
    end_bytes = plan->states[i].offset_bytes + (plan->states[i].is_below ? 0 : plan->states[i].size_bytes);
  }
  DELTA_RETURN_IF_ERROR(grow_list(plan, graph->states.count));
  for (size_t i = 0; i < graph->states.count; ++i) {
    const delta_state_t *state = &graph->states.items[i];
    const uint32_t index = delta_map_find(placed, state->name);
    if (index != DELTA_MAP_NONE) {
      DELTA_RETURN_IF_ERROR(compare_state(&plan->states[index], state));
    } else {
      DELTA_RETURN_IF_ERROR(append_state(plan, state, alignment_bytes, &end_bytes));
      DELTA_RETURN_IF_ERROR(delta_map_set(placed, state->name, plan->state_count - 1));
    }
  }
  plan->totals.state_bytes = end_bytes;
  return DELTA_OK;
}

delta_status_t delta_plan_place_states(delta_plan_t *plan, const delta_graph_t *graph, size_t alignment_bytes) {
  delta_map_t placed;
  delta_map_init(&placed, plan->allocator);
  const uint32_t count_before = plan->state_count;
  delta_status_t status = place_states(plan, graph, alignment_bytes, &placed);
  delta_map_deinit(&placed);
  if (status) plan->state_count = count_before;
  return status;
}

static delta_status_t check_states(const delta_plan_t *plan, const delta_graph_t *graph, delta_map_t *placed) {
  for (uint32_t i = 0; i < plan->state_count; ++i) DELTA_RETURN_IF_ERROR(delta_map_set(placed, plan->states[i].name, i));
  for (size_t i = 0; i < graph->states.count; ++i) {
    const delta_state_t *state = &graph->states.items[i];
    const uint32_t index = delta_map_find(placed, state->name);
    if (index == DELTA_MAP_NONE) return delta_status_make(MISMATCH, "state '%s': the plan has no place for it", state->name);
    DELTA_RETURN_IF_ERROR(compare_state(&plan->states[index], state));
  }
  return DELTA_OK;
}

delta_status_t delta_plan_check_states(const delta_plan_t *plan, const delta_graph_t *graph) {
  delta_map_t placed;
  delta_map_init(&placed, graph->allocator);
  delta_status_t status = check_states(plan, graph, &placed);
  delta_map_deinit(&placed);
  return status;
}

static uint64_t whole_blocks(uint64_t size_bytes) { return delta_size_round_up(size_bytes, DELTA_HOST_BLOCK_BYTES); }

void delta_plan_set_homes(delta_plan_t *plan, const bool *is_below) {
  uint64_t end_bytes = 0, home_bytes = 0;
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    delta_plan_state_t *state = &plan->states[i];
    state->is_below = is_below[i];
    state->offset_bytes = (size_t)end_bytes;
    state->home_offset_bytes = state->is_below ? (size_t)home_bytes : 0;
    if (state->is_below) {
      home_bytes += whole_blocks(state->size_bytes);
    } else {
      end_bytes += state->size_bytes;
    }
  }
  plan->totals.state_bytes = end_bytes;
}

delta_status_t delta_plan_check_places(const delta_plan_t *plan, size_t alignment_bytes) {
  uint64_t end_bytes = 0, home_bytes = 0;
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    const delta_plan_state_t *state = &plan->states[i];
    size_t size_bytes;
    DELTA_RETURN_IF_ERROR(delta_shape_validate(&state->shape, delta_dtype_bytes(state->dtype), state->name));
    if (!delta_problem_buffer_bytes(delta_plan_state_content_bytes(state), alignment_bytes, &size_bytes) ||
        state->size_bytes != size_bytes || state->offset_bytes != end_bytes ||
        state->home_offset_bytes != (state->is_below ? home_bytes : 0)) {
      return delta_status_make(
          MISMATCH, "state '%s': its size or place in the plan is not that of its shape, or not behind the state before it", state->name);
    }
    *(state->is_below ? &home_bytes : &end_bytes) += state->is_below ? whole_blocks(size_bytes) : size_bytes;
  }
  if (plan->totals.state_bytes == end_bytes) return DELTA_OK;
  return delta_status_make(MISMATCH, "the plan's states take %llu bytes, not %llu", (unsigned long long)end_bytes,
                           (unsigned long long)plan->totals.state_bytes);
}

uint64_t delta_plan_home_bytes(const delta_plan_t *plan) {
  uint64_t home_bytes = 0;
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    if (plan->states[i].is_below) home_bytes = plan->states[i].home_offset_bytes + whole_blocks(plan->states[i].size_bytes);
  }
  return home_bytes;
}

static delta_status_t set_homes_by_name(const delta_plan_t *plan, delta_problem_t *problem, delta_map_t *by_name) {
  for (uint32_t i = 0; i < plan->state_count; ++i) DELTA_RETURN_IF_ERROR(delta_map_set(by_name, plan->states[i].name, i));
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (!(problem->tensors[t].flags & DELTA_TENSOR_STATE)) continue;
    const uint32_t index = delta_map_find(by_name, problem->tensors[t].name);
    const bool is_below = index != DELTA_MAP_NONE && plan->states[index].is_below;
    delta_problem_set_home(problem, t, is_below, is_below ? plan->states[index].home_offset_bytes : 0);
  }
  return DELTA_OK;
}

delta_status_t delta_plan_apply_homes(const delta_plan_t *plan, delta_problem_t *problem) {
  delta_map_t by_name;
  delta_map_init(&by_name, plan->allocator);
  problem->home_bytes = delta_plan_home_bytes(plan);
  problem->host_budget_bytes = plan->totals.host_budget_bytes;
  delta_status_t status = set_homes_by_name(plan, problem, &by_name);
  delta_map_deinit(&by_name);
  return status;
}
