// Choosing a kernel for every node: the first row that does not refuse.
#include "runtime/select.h"

#include "base/text.h"

#include <string.h>

// Whether a node has nothing to run.
static bool is_idle(const delta_node_t *node) { return (delta_core_op_info(node->op)->flags & DELTA_CORE_FLAG_VIEW) || node->is_virtual; }

double delta_node_seconds(const delta_device_t *device, const delta_graph_t *graph, delta_node_id_t id, const delta_profile_t *profile) {
  const delta_node_t *node = delta_graph_node(graph, id);
  if (is_idle(node)) return 0;
  if (!profile) profile = device->profile;
  if (!profile) return delta_roofline_seconds(&device->roofline, graph, node);
  double seconds;
  char key[DELTA_PROFILE_KEY_BYTES];
  delta_profile_key(graph, node, key);
  if (delta_profile_find(profile, key, &seconds)) return seconds;
  const delta_roofline_t roofline = delta_profile_roofline(profile);
  return delta_roofline_seconds(&roofline, graph, node);
}

// Says of every offer why it cannot run the node.
static delta_status_t no_kernel(const delta_graph_t *graph, const delta_node_t *node, const delta_text_t *refusals) {
  (void)graph;
  return delta_status_make(UNSUPPORTED, "node '%s' (%s): no kernel can run it:%s", node->name, delta_core_op_info(node->op)->name,
                           refusals->items ? refusals->items : " there is none");
}

static delta_status_t select_node(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t id, const delta_profile_t *profile,
                                  delta_selection_t *selection) {
  const delta_node_t *node = delta_graph_node(graph, id);
  delta_text_t refusals;
  delta_text_init(&refusals, device->allocator);
  delta_status_t status = DELTA_OK;
  for (uint32_t rank = 0;; ++rank) {
    delta_kernel_offer_t offer;
    bool exists = false;
    DELTA_GOTO_IF_ERROR(status, device->driver->kernel_query(device, graph, id, rank, &offer, &exists), cleanup);
    if (!exists) {
      status = no_kernel(graph, node, &refusals);
      goto cleanup;
    }
    if (!offer.refusal) {
      selection->ranks[id.index] = rank;
      selection->names[id.index] = offer.name;
      selection->costs[id.index] = (delta_node_cost_t){.seconds = delta_node_seconds(device, graph, id, profile),
                                                       .workspace_bytes = offer.workspace_bytes,
                                                       .works_in_row = offer.works_in_row};
      goto cleanup;
    }
    DELTA_GOTO_IF_ERROR(status, delta_text_append(&refusals, " %s: %s;", offer.name, offer.refusal), cleanup);
  }
cleanup:
  delta_text_deinit(&refusals);
  return status;
}

delta_status_t delta_select(delta_device_t *device, const delta_graph_t *graph, const delta_profile_t *profile, delta_allocator_t allocator,
                            delta_selection_t **out_selection) {
  *out_selection = NULL;
  delta_selection_t *selection = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &selection));
  delta_status_t status = DELTA_OK;
  selection->allocator = allocator;
  selection->node_count = (uint32_t)graph->nodes.count;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, selection->node_count, &selection->ranks), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, selection->node_count, &selection->names), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, selection->node_count, &selection->costs), cleanup);
  for (uint32_t i = 0; i < selection->node_count; ++i) {
    if (is_idle(&graph->nodes.items[i])) continue;
    DELTA_GOTO_IF_ERROR(status, select_node(device, graph, (delta_node_id_t){i}, profile, selection), cleanup);
  }
  *out_selection = selection;
  selection = NULL;
cleanup:
  delta_selection_free(selection);
  return status;
}

void delta_selection_free(delta_selection_t *selection) {
  if (!selection) return;
  delta_release(selection->allocator, selection->ranks);
  delta_release(selection->allocator, selection->names);
  delta_release(selection->allocator, selection->costs);
  delta_release(selection->allocator, selection);
}

void delta_selection_hash(const delta_graph_t *graph, const delta_selection_t *selection, delta_sha256_t *hash) {
  char graph_hash[DELTA_SHA256_TEXT_BYTES];
  delta_graph_hash(graph, graph_hash);
  delta_sha256_update(hash, graph_hash, strlen(graph_hash));
  for (uint32_t i = 0; i < selection->node_count; ++i) {
    const char *name = selection->names[i] ? selection->names[i] : "";
    delta_sha256_update(hash, name, strlen(name) + 1);
  }
}
