// Select: which kernel runs each node. Depends on graph, device and thread count, never on the budget; what it chooses is named by the numerics_id.
#ifndef DELTA_RUNTIME_SELECT_H_
#define DELTA_RUNTIME_SELECT_H_

#include "base/sha256.h"
#include "runtime/device.h"
#include "runtime/profile.h"

typedef struct delta_selection {
  delta_allocator_t allocator;
  uint32_t *ranks;          // Owned; per graph node: rank of the offer that runs it (0 for views)
  const char **names;       // Owned list of the driver's static strings; per graph node: its kernel (NULL for views)
  delta_node_cost_t *costs; // Owned; per graph node
  uint32_t node_count;
} delta_selection_t;

// The first offer that does not refuse. UNSUPPORTED lists a node's offers and why each refused. Costs are those of delta_node_seconds.
DELTA_MUST_USE delta_status_t delta_select(delta_device_t *device, const delta_graph_t *graph, const delta_profile_t *profile,
                                           delta_allocator_t allocator, delta_selection_t **out_selection);

// What a node takes: as measured, or, where the profile does not say, by its roofline; without a profile by the device's. 0 for views.
double delta_node_seconds(const delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, const delta_profile_t *profile);
void delta_selection_free(delta_selection_t *selection); // NULL is fine.

// Adds the graph and the kernel of every node to a hash: the graph's part of a numerics_id.
void delta_selection_hash(const delta_graph_t *graph, const delta_selection_t *selection, delta_sha256_t *hash);

#endif // DELTA_RUNTIME_SELECT_H_
