// Search state: the gaps of a round, the memory to evaluate them, and which of them are parts of one tensor.
#include "planner/search_state.h"

#include <math.h>

static delta_status_t allocate_lists(delta_search_state_t *state) {
  delta_region_t *region = &state->region;
  const uint32_t gaps = state->map.gap_count, steps = state->problem->step_count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->now.actions));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->before.actions));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->best.actions));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->spare));
  for (int i = 0; i < DELTA_SEARCH_SEEDS; ++i) {
    state->seeds[i].evaluation = (delta_evaluation_t){.seconds = INFINITY};
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->seeds[i].actions));
  }
  for (int i = 0; i < DELTA_RUNNERS_MOST; ++i) DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->runners[i].actions));
  state->runner_count = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->items));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->refused));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->active));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->candidates));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->next_kin));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->next_alike));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, gaps, &state->is_led));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)steps + 1, &state->place_seconds));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)steps + 1, &state->positions));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)steps + 1, &state->room_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)steps + 1, &state->left_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, steps, &state->stamps));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, steps, &state->pending));
  for (uint32_t p = 0; p < steps; ++p) {
    state->place_seconds[p + 1] = state->place_seconds[p] + state->problem->steps[state->order->steps[p]].seconds;
  }
  return DELTA_OK;
}

// ---- Parts of one tensor

static uint32_t count_gaps(const delta_gap_map_t *map, uint32_t tensor) { return map->starts[tensor + 1] - map->starts[tensor]; }

static bool has_parts(const delta_gap_map_t *map, uint32_t tensor) {
  for (uint32_t g = map->starts[tensor]; g < map->starts[tensor + 1]; ++g) {
    if (map->is_part[g]) return true;
  }
  return false;
}

// Whether all tensors of a ring have the same gaps.
static bool is_even(const delta_search_state_t *state, uint32_t tensor) {
  for (uint32_t next = delta_problem_next_kin(state->problem, tensor);; next = delta_problem_next_kin(state->problem, next)) {
    if (count_gaps(&state->map, next) != count_gaps(&state->map, tensor) || has_parts(&state->map, next)) return false;
    if (next == tensor) return true;
  }
}

static void link_kin(delta_search_state_t *state) {
  const delta_gap_map_t *map = &state->map;
  for (uint32_t g = 0; g < map->gap_count; ++g) state->next_kin[g] = g;
  for (uint32_t t = 0; t < state->problem->tensor_count; ++t) {
    const uint32_t next = delta_problem_next_kin(state->problem, t);
    if (next == t || !is_even(state, t)) continue;
    for (uint32_t k = 0; k < count_gaps(map, t); ++k) {
      state->next_kin[map->starts[t] + k] = map->starts[next] + k;
      if (next > t) state->is_led[map->starts[next] + k] = true;
    }
  }
}

void delta_search_set(const delta_search_state_t *state, uint8_t *actions, uint32_t gap, uint8_t action) {
  uint32_t next = gap;
  do {
    if (state->map.allowed[next] >> action & 1) actions[next] = action;
    next = state->next_kin[next];
  } while (state->is_together && next != gap);
}

// ---- Life cycle

void delta_search_state_deinit(delta_search_state_t *state) {
  delta_array_deinit(state->allocator, &state->full_before);
  delta_array_deinit(state->allocator, &state->offers);
  delta_quick_deinit(&state->quick);
  delta_gap_map_deinit(&state->map);
  delta_region_deinit(&state->region);
}

delta_status_t delta_search_state_init(delta_search_state_t *state) {
  delta_region_init(&state->region, state->allocator);
  delta_liberties_t liberties = state->options->liberties;
  liberties.may_swap &= delta_search_lane_seconds(state) > 0;
  DELTA_RETURN_IF_ERROR(delta_gap_map_init(&state->map, state->problem, state->order, &liberties, state->splits.items, state->splits.count,
                                           state->allocator));
  DELTA_RETURN_IF_ERROR(delta_quick_init(&state->quick, state->problem, &state->map, state->allocator));
  DELTA_RETURN_IF_ERROR(allocate_lists(state));
  link_kin(state);
  return DELTA_OK;
}
