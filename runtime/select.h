// Select: which kernel runs each node. Depends on graph, device, profile and thread count, never on the budget; what it chooses is named by the numerics_id.
//
// Of the kernels that do not refuse a node the first is taken, or a later one that the profile knows to be better (delta_profile_is_better). A kernel whose
// workspace is out of proportion (delta_most_workspace_bytes) is taken only where there is no other. What a plan has chosen is taken as it is.
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

// What has been chosen before, and is not chosen again. All borrowed; zeroed: nothing has.
typedef struct delta_kernel_source {
  // A plan's: one name per node that runs. MISMATCH where there are more or fewer, or a node cannot be run by the kernel named.
  bool is_given;
  const char *const *names;
  uint32_t count;
  // Those of the same program for another batch: a node is run as the one of the same name there, or by the first kernel that does not refuse it.
  const delta_graph_t *like_graph;
  const delta_selection_t *like;
} delta_kernel_source_t;

typedef struct delta_select_options {
  delta_device_t *device;
  const delta_graph_t *graph;
  const delta_profile_t *profile; // NULL: that of the device, if it has one
  delta_kernel_source_t source;
} delta_select_options_t;

// UNSUPPORTED lists a node's offers and why each refused. Costs are those of delta_node_seconds.
DELTA_MUST_USE delta_status_t delta_select(const delta_select_options_t *options, delta_allocator_t allocator,
                                           delta_selection_t **out_selection);
void delta_selection_free(delta_selection_t *selection); // NULL is fine.

// What a node takes by the kernel to take: as measured, or, where the profile does not say, by its roofline; without a profile by the device's. 0 for views.
double delta_node_seconds(const delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, const delta_profile_t *profile);
// What a kernel's workspace may be where another kernel needs less.
size_t delta_most_workspace_bytes(const delta_graph_t *graph, const delta_node_t *node);

// Adds the graph and the kernel of every node to a hash: the graph's part of a numerics_id.
void delta_selection_hash(const delta_graph_t *graph, const delta_selection_t *selection, delta_sha256_t *hash);

#endif // DELTA_RUNTIME_SELECT_H_
