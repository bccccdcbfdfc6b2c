// Choosing a kernel for every node: the first row that does not refuse.
#include "runtime/select.h"

#include "base/text.h"
#include "onnx/graph/attention_dims.h"
#include "onnx/graph/plain_node.h"

#include <string.h>

// Rough speeds of one core, used until the device has been profiled: they order choices by size, and are never shown as measurements.
static const double assumed_flops_per_second = 4e10;
static const double assumed_bytes_per_second = 6e9;
static const double assumed_launch_seconds = 1e-6;
static const double assumed_plain_conv_slowdown = 2;

// Arithmetic of a convolution: every element of the convolved tensor takes a product with each weight of one filter.
static double conv_flops(const delta_graph_t *graph, const delta_node_t *node) {
  const bool by_weight = node->op == DELTA_CORE_CONV_WEIGHT;
  const delta_tensor_t *weight = by_weight ? delta_node_output(graph, node, 0) : delta_node_input(graph, node, 1);
  const delta_tensor_t *convolved =
      node->op == DELTA_CORE_CONV ? delta_node_output(graph, node, 0) : delta_node_input(graph, node, by_weight);
  return 2.0 * (double)delta_shape_count_range(&weight->shape, 1, weight->shape.rank) * (double)delta_shape_count(&convolved->shape);
}

double delta_node_flops(const delta_graph_t *graph, const delta_node_t *node) {
  switch (node->op) {
    case DELTA_CORE_MATMUL: {
      const delta_matmul_attrs_t *attrs = node->attrs;
      const delta_shape_t *a = &delta_node_input(graph, node, 0)->shape;
      int64_t inner = a->dims[a->rank - (attrs->transpose_a ? 2 : 1)];
      return 2.0 * (double)inner * (double)delta_shape_count(&delta_node_output(graph, node, 0)->shape);
    }
    case DELTA_CORE_CONV:
    case DELTA_CORE_CONV_DATA:
    case DELTA_CORE_CONV_WEIGHT:
      return conv_flops(graph, node);
    case DELTA_CORE_ATTENTION:
    case DELTA_CORE_ATTENTION_GRAD: {
      const delta_attention_dims_t dims = delta_attention_dims_of(graph, node);
      const bool forward = node->op == DELTA_CORE_ATTENTION;
      const int64_t per_score = forward ? dims.size + dims.value_size : 3 * dims.size + 2 * dims.value_size;
      return 2.0 * (double)per_score * (double)delta_shape_count(&dims.scores);
    }
    default:
      return 0;
  }
}

double delta_node_bytes(const delta_graph_t *graph, const delta_node_t *node) {
  double bytes = 0;
  for (uint32_t i = 0; i < node->input_count; ++i) {
    const delta_tensor_t *tensor = delta_node_input(graph, node, i);
    if (tensor) bytes += (double)delta_tensor_bytes(tensor);
  }
  for (uint32_t i = 0; i < node->output_count; ++i) {
    const delta_tensor_t *tensor = delta_node_output(graph, node, i);
    if (tensor) bytes += (double)delta_tensor_bytes(tensor);
  }
  return bytes;
}

static bool is_plain_conv(const delta_node_t *node) {
  bool is_conv = node->op == DELTA_CORE_CONV || node->op == DELTA_CORE_CONV_DATA || node->op == DELTA_CORE_CONV_WEIGHT;
  return is_conv && !delta_node_has_layouts(node);
}

static double estimate_seconds(const delta_graph_t *graph, const delta_node_t *node, int32_t threads) {
  double compute_seconds = delta_node_flops(graph, node) / (assumed_flops_per_second * threads);
  if (is_plain_conv(node)) compute_seconds *= assumed_plain_conv_slowdown;
  double memory_seconds = delta_node_bytes(graph, node) / assumed_bytes_per_second;
  return assumed_launch_seconds + (compute_seconds > memory_seconds ? compute_seconds : memory_seconds);
}

static bool is_view(const delta_node_t *node) { return delta_core_op_info(node->op)->flags & DELTA_CORE_FLAG_VIEW; }

double delta_node_seconds(const delta_device_t *device, const delta_graph_t *graph, delta_node_id_t id, const delta_profile_t *profile) {
  const delta_node_t *node = delta_graph_node(graph, id);
  if (is_view(node)) return 0;
  double seconds;
  char key[DELTA_PROFILE_KEY_BYTES];
  if (profile) {
    delta_profile_key(graph, node, key);
    if (delta_profile_find(profile, key, &seconds)) return seconds;
  }
  return estimate_seconds(graph, node, device->threads);
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
      selection->costs[id.index] =
          (delta_node_cost_t){.seconds = delta_node_seconds(device, graph, id, profile), .workspace_bytes = offer.workspace_bytes};
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
    if (is_view(&graph->nodes.items[i])) continue;
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
