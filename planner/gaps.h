// Gaps: the times between two uses of a tensor in a base order, numbered. A search sets their actions in a dense list.
#ifndef DELTA_PLANNER_GAPS_H_
#define DELTA_PLANNER_GAPS_H_

#include "planner/planner.h"

// Which actions a search may take.
typedef struct delta_liberties {
  bool may_swap, may_rebuild;
} delta_liberties_t;

// A gap of a tensor is divided after a place of the order that lies within it.
typedef struct delta_gap_split {
  uint32_t tensor, place;
} delta_gap_split_t;

typedef struct delta_gap_map {
  const delta_problem_t *problem;
  const delta_order_t *order;
  delta_region_t region; // Owns the lists.
  uint32_t gap_count;
  uint32_t *starts;        // by tensor: its first gap, after its production; one more at the end
  uint32_t *tensors;       // by gap
  uint32_t *begins;        // by gap: the place in the order of the use before it; 0 for what is there from the start
  uint32_t *ends;          // by gap: the place of the next use; the order's length: none
  uint8_t *allowed;        // by gap: bit per action
  uint8_t *defaults;       // by gap: the action that is not listed as a decision
  uint32_t *uses;          // by gap: of its tensor before it
  bool *is_part;           // by gap: it begins where another is split
  uint32_t *producers;     // by tensor: problem step, or DELTA_PROBLEM_NONE
  uint32_t *split_starts;  // by place: first entry in split_tensors; one more at the end
  uint32_t *split_tensors; // those whose gaps are split after the place
} delta_gap_map_t;

// `problem` and `order` are borrowed. Splits are sorted by tensor and place, each once, and lie within gaps.
DELTA_MUST_USE delta_status_t delta_gap_map_init(delta_gap_map_t *map, const delta_problem_t *problem, const delta_order_t *order,
                                                 const delta_liberties_t *liberties, const delta_gap_split_t *splits, size_t split_count,
                                                 delta_allocator_t allocator);
void delta_gap_map_deinit(delta_gap_map_t *map); // Safe on a zeroed struct.

// The gap of a tensor that covers the place `place` of the order: between its last use before the place and the next.
uint32_t delta_gap_map_find(const delta_gap_map_t *map, uint32_t tensor, uint32_t place);

// Lists the actions that are not the default; `items` has gap_count entries.
void delta_gap_map_decide(const delta_gap_map_t *map, const uint8_t *actions, delta_decision_t *items, delta_decisions_t *out_decisions);

#endif // DELTA_PLANNER_GAPS_H_
