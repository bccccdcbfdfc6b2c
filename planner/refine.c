// Refine: a gap has one action for all its time, but closures may use its tensor on the way: held for one of them, it may go before the next.
#include <stdlib.h>

#include "planner/search_state.h"

enum { LEAST_SPLITS = 64, GAPS_PER_SPLIT = 4 };

static int compare_splits(const void *left, const void *right) {
  const delta_gap_split_t *a = left, *b = right;
  if (a->tensor != b->tensor) return a->tensor < b->tensor ? -1 : 1;
  return a->place < b->place ? -1 : a->place > b->place;
}

static delta_status_t add_split(delta_search_state_t *state, uint32_t tensor, uint32_t place, uint32_t most) {
  const uint32_t gap = delta_gap_map_find(&state->map, tensor, place);
  const bool is_inside = state->map.begins[gap] < place && place < state->map.ends[gap];
  if (!is_inside || state->map.allowed[gap] == 1 << DELTA_ACTION_KEEP || state->splits.count >= most) return DELTA_OK;
  return delta_array_push(state->allocator, &state->splits, &((delta_gap_split_t){tensor, place}));
}

// Splits of this round that the best plan makes use of.
static delta_status_t keep_splits(delta_search_state_t *state) {
  const delta_gap_map_t *map = &state->map;
  state->splits.count = 0;
  for (uint32_t g = 1; g < map->gap_count; ++g) {
    if (!map->is_part[g] || state->best.actions[g] == state->best.actions[g - 1]) continue;
    DELTA_RETURN_IF_ERROR(delta_array_push(state->allocator, &state->splits, &((delta_gap_split_t){map->tensors[g], map->begins[g]})));
  }
  return DELTA_OK;
}

delta_status_t delta_search_list_splits(delta_search_state_t *state) {
  const delta_quick_t *quick = &state->quick;
  const uint32_t whole_count = state->map.gap_count - (uint32_t)state->splits.count;
  const uint32_t most = LEAST_SPLITS + whole_count / GAPS_PER_SPLIT;
  DELTA_RETURN_IF_ERROR(delta_search_measure(state, &state->best));
  DELTA_RETURN_IF_ERROR(delta_quick_time(&state->quick, state->best.evaluation.seconds, &state->best.evaluation));
  DELTA_RETURN_IF_ERROR(keep_splits(state));
  for (size_t s = 0; s < quick->steps.count; ++s) {
    const delta_quick_step_t *step = &quick->steps.items[s];
    if (step->kind != DELTA_STEP_RUN || step->is_base || step->place >= state->order->step_count) continue;
    const delta_quick_row_t *row = &quick->rows[step->subject];
    for (uint32_t k = 0; k < row->input_count; ++k) {
      DELTA_RETURN_IF_ERROR(add_split(state, quick->lists[row->inputs + k], step->place, most));
    }
    for (uint32_t k = 0; k < row->output_count; ++k) {
      DELTA_RETURN_IF_ERROR(add_split(state, quick->lists[row->outputs + k], step->place, most));
    }
  }
  if (state->splits.count == 0) return DELTA_OK;
  qsort(state->splits.items, state->splits.count, sizeof *state->splits.items, compare_splits);
  size_t count = 1;
  for (size_t i = 1; i < state->splits.count; ++i) {
    if (compare_splits(&state->splits.items[i], &state->splits.items[count - 1]) != 0)
      state->splits.items[count++] = state->splits.items[i];
  }
  state->splits.count = count;
  return DELTA_OK;
}
