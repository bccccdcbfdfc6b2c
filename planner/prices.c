// Prices: what it costs to let a tensor go in a gap.
#include <math.h>

#include "planner/search_state.h"

#define NONE DELTA_PROBLEM_NONE
// What takes more steps to make again is no candidate.
enum { MOST_CLOSURE_STEPS = 256 };

// Adds what a missing input costs; what has to run for it goes on the stack.
static double visit_input(delta_search_state_t *state, const uint8_t *actions, uint32_t tensor, uint32_t place, uint32_t *pending_count) {
  const delta_gap_map_t *map = &state->map;
  if (delta_problem_tensor_is_state(&state->problem->tensors[tensor])) return 0;
  const uint8_t action = actions[delta_gap_map_find(map, tensor, place)];
  if (action == DELTA_ACTION_KEEP) return 0;
  if (delta_action_swaps((delta_action_t)action))
    return delta_problem_prefetch_seconds(state->problem, state->problem->tensors[tensor].size_bytes);
  const uint32_t producer = map->producers[tensor];
  if (state->stamps[producer] == state->stamp) return 0;
  state->stamps[producer] = state->stamp;
  state->pending[(*pending_count)++] = producer;
  return 0;
}

double delta_search_closure_seconds(delta_search_state_t *state, const uint8_t *actions, uint32_t tensor, uint32_t place) {
  const uint32_t producer = state->map.producers[tensor];
  uint32_t pending_count = 0;
  double seconds = 0;
  if (producer == NONE) return INFINITY;
  state->stamps[producer] = ++state->stamp;
  state->pending[pending_count++] = producer;
  for (uint32_t count = 0; pending_count > 0; ++count) {
    if (count == MOST_CLOSURE_STEPS) return INFINITY;
    const delta_problem_step_t *step = &state->problem->steps[state->pending[--pending_count]];
    if (!(step->flags & DELTA_STEP_PURE)) return INFINITY;
    seconds += step->seconds;
    for (uint32_t k = 0; k < step->input_count; ++k) seconds += visit_input(state, actions, step->inputs[k], place, &pending_count);
  }
  return seconds;
}

static bool is_swapped_elsewhere(const delta_search_state_t *state, const uint8_t *actions, uint32_t gap) {
  const uint32_t tensor = state->map.tensors[gap];
  for (uint32_t g = state->map.starts[tensor]; g < state->map.starts[tensor + 1]; ++g) {
    if (g != gap && delta_action_swaps((delta_action_t)actions[g])) return true;
  }
  return false;
}

// A copy that hides is not free: others could have used the lane. What is below already, as states that have their homes there are, only has to come back.
static double swap_price(const delta_search_state_t *state, const uint8_t *actions, uint32_t gap, double lane_price) {
  const delta_problem_t *problem = state->problem;
  const delta_gap_map_t *map = &state->map;
  const uint32_t tensor = map->tensors[gap];
  const size_t size_bytes = problem->tensors[tensor].size_bytes;
  const double back_price = state->back_part * lane_price * delta_problem_prefetch_bytes(problem, size_bytes);
  if ((problem->tensors[tensor].flags & DELTA_TENSOR_STATE) || is_swapped_elsewhere(state, actions, gap)) return back_price;
  const double copy_seconds = delta_problem_offload_seconds(problem, size_bytes) + delta_problem_prefetch_seconds(problem, size_bytes);
  const double window_seconds = state->place_seconds[map->ends[gap]] - state->place_seconds[map->begins[map->starts[tensor]]];
  return lane_price * delta_problem_offload_bytes(problem, size_bytes) + back_price + fmax(0, copy_seconds - window_seconds) +
         delta_problem_drag_seconds(problem, size_bytes);
}

double delta_search_price(delta_search_state_t *state, const uint8_t *actions, uint32_t gap, delta_action_t action, double lane_price) {
  if (!(state->map.allowed[gap] >> action & 1)) return INFINITY;
  const uint32_t tensor = state->map.tensors[gap];
  switch (action) {
    case DELTA_ACTION_SWAP:
    case DELTA_ACTION_SWAP_LATE:
      return swap_price(state, actions, gap, lane_price);
    case DELTA_ACTION_REBUILD_HOLD:
      return delta_search_closure_seconds(state, actions, tensor, state->map.ends[gap]);
    case DELTA_ACTION_REBUILD_DROP:
      return 2 * delta_search_closure_seconds(state, actions, tensor, state->map.ends[gap]);
    default:
      return lane_price * (double)state->problem->tensors[tensor].size_bytes;
  }
}
