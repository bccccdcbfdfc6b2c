// Chen et al., "Training deep nets with sublinear memory cost" (arXiv 1604.06174): checkpoints along the forward pass; what lies between two of them is made again, once, when
// the backward pass comes there. Where checkpoints may be is either where the forward pass is a chain for a moment, or anywhere.
#include <math.h>

#include "planner/rival.h"

#define NONE DELTA_PROBLEM_NONE
enum { MOST_LENGTHS = 40 };

typedef struct chen {
  delta_rival_t *rival;
  uint32_t *candidates; // tensors, in the order in which they are made
  uint32_t candidate_count;
  uint64_t *before_bytes; // by candidate: of all that waits for the backward pass and is made up to it
  bool *is_checkpoint;    // by tensor
} chen_t;

// The last segment has just run when the backward pass begins: it is kept.
static delta_status_t offer_checkpoints(const chen_t *chen) {
  delta_rival_t *rival = chen->rival;
  const delta_gap_map_t *map = &rival->map;
  uint32_t segmented = 0; // places up to the last checkpoint's
  for (uint32_t i = 0; i < chen->candidate_count; ++i) {
    if (chen->is_checkpoint[chen->candidates[i]]) segmented = map->begins[map->starts[chen->candidates[i]]] + 1;
  }
  delta_rival_reset(rival);
  for (uint32_t t = 0; t < rival->problem->tensor_count; ++t) {
    const uint32_t gap = delta_rival_turn_gap(rival, t);
    if (gap == NONE || map->begins[map->starts[t]] >= segmented) continue;
    const delta_action_t action = chen->is_checkpoint[t] ? DELTA_ACTION_KEEP : DELTA_ACTION_REBUILD_HOLD;
    if (delta_rival_may(rival, gap, action)) rival->actions[gap] = (uint8_t)action;
  }
  return delta_rival_offer(rival);
}

static void clear_checkpoints(chen_t *chen) {
  for (uint32_t i = 0; i < chen->candidate_count; ++i) chen->is_checkpoint[chen->candidates[i]] = false;
}

// Every k-th candidate, k the root of their number.
static delta_status_t offer_root(chen_t *chen) {
  const uint32_t every = (uint32_t)sqrt((double)chen->candidate_count);
  clear_checkpoints(chen);
  for (uint32_t i = every; every > 0 && i <= chen->candidate_count; i += every) chen->is_checkpoint[chen->candidates[i - 1]] = true;
  return offer_checkpoints(chen);
}

// A candidate is a checkpoint when more than segment_bytes wait since the last one.
static delta_status_t offer_segments(chen_t *chen, uint64_t segment_bytes) {
  uint64_t from_bytes = 0;
  clear_checkpoints(chen);
  for (uint32_t i = 0; i < chen->candidate_count; ++i) {
    if (chen->before_bytes[i] - from_bytes <= segment_bytes) continue;
    chen->is_checkpoint[chen->candidates[i]] = true;
    from_bytes = chen->before_bytes[i];
  }
  return offer_checkpoints(chen);
}

// Lists the tensors of the forward pass that may be checkpoints. With `crossings`, only those that are all that crosses a place.
static void list_candidates(chen_t *chen, const uint32_t *crossings) {
  const delta_rival_t *rival = chen->rival;
  const delta_gap_map_t *map = &rival->map;
  uint64_t bytes = 0;
  chen->candidate_count = 0;
  for (uint32_t p = 0; p < rival->turn; ++p) {
    const delta_problem_step_t *step = delta_rival_step(rival, p);
    for (uint32_t k = 0; k < step->output_count; ++k) {
      const uint32_t gap = delta_rival_turn_gap(rival, step->outputs[k]);
      if (gap == NONE) continue;
      const bool waits = !delta_rival_is_tail(rival, gap), is_read = map->begins[gap] > p;
      if (waits) bytes += rival->problem->tensors[step->outputs[k]].size_bytes;
      if (crossings ? !is_read || crossings[p + 1] != 1 : !waits) continue;
      chen->before_bytes[chen->candidate_count] = bytes;
      chen->candidates[chen->candidate_count++] = step->outputs[k];
    }
  }
}

static delta_status_t offer_all(chen_t *chen) {
  DELTA_RETURN_IF_ERROR(offer_root(chen));
  const uint64_t all_bytes = chen->candidate_count > 0 ? chen->before_bytes[chen->candidate_count - 1] : 0;
  for (uint64_t count = 1; count <= MOST_LENGTHS && count <= chen->candidate_count; ++count) {
    DELTA_RETURN_IF_ERROR(offer_segments(chen, all_bytes / count));
  }
  return DELTA_OK;
}

delta_status_t delta_rule_chen(delta_rival_t *rival) {
  chen_t chen = {.rival = rival};
  uint32_t *crossings = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, rival->problem->tensor_count, &chen.candidates));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, rival->problem->tensor_count, &chen.before_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, rival->problem->tensor_count, &chen.is_checkpoint));
  DELTA_RETURN_IF_ERROR(delta_rival_count_crossings(rival, &crossings));
  list_candidates(&chen, crossings);
  DELTA_RETURN_IF_ERROR(offer_all(&chen));
  clear_checkpoints(&chen);
  list_candidates(&chen, NULL);
  return offer_all(&chen);
}
