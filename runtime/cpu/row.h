// Row moves: the units of a whole and its parts put from one order into the other where they lie. Every unit moves once, around the cycles of the permutation.
#ifndef DELTA_RUNTIME_CPU_ROW_H_
#define DELTA_RUNTIME_CPU_ROW_H_

#include "onnx/graph/units.h"

typedef struct delta_row_moves {
  int64_t unit_bytes;
  uint32_t
      *places; // Owned; cycle after cycle: each unit's place, which takes the unit of the next one, the last of a cycle that of its first
  uint32_t count;
} delta_row_moves_t;

// For a node that delta_units_are_few.
DELTA_MUST_USE delta_status_t delta_row_moves_init(delta_row_moves_t *moves, const delta_graph_t *graph, const delta_node_t *node,
                                                   delta_allocator_t allocator);
void delta_row_moves_deinit(delta_row_moves_t *moves, delta_allocator_t allocator); // Safe on a zeroed struct.
void delta_row_moves_run(const delta_row_moves_t *moves, void *bytes, int32_t threads);

#endif // DELTA_RUNTIME_CPU_ROW_H_
