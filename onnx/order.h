// Order: a topological order of nodes, or a cycle.
#ifndef DELTA_ONNX_ORDER_H_
#define DELTA_ONNX_ORDER_H_

#include <stdint.h>

#include "base/allocator.h"

enum { DELTA_ORDER_NONE = UINT32_MAX };

// The producers of node n are producers[begins[n]] to producers[begins[n + 1] - 1]; DELTA_ORDER_NONE entries are no nodes.
typedef struct delta_order_edges {
  uint32_t node_count;
  const uint32_t *begins; // node_count + 1 entries
  const uint32_t *producers;
} delta_order_edges_t;

// Writes a topological order (node_count entries) to out_order: the given one where that is already sorted, and as near to it as is simple
// otherwise. When there is none, writes the nodes of one cycle to out_order, in order, and their number to *out_cycle_count (else 0).
DELTA_MUST_USE delta_status_t delta_order_sort(const delta_order_edges_t *edges, delta_allocator_t allocator, uint32_t *out_order,
                                               uint32_t *out_cycle_count);

#endif // DELTA_ONNX_ORDER_H_
