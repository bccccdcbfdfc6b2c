// Choosing a kernel for every node: the first row that does not refuse.
#include "runtime/select.h"

#include "base/text.h"
#include "onnx/graph/attention_dims.h"

#include <assert.h>
#include <string.h>

// Rough speeds of one core, used until the device has been profiled: they order choices by size, and are never shown as measurements.
static const double assumed_flops_per_second = 4e10;
static const double assumed_bytes_per_second = 6e9;
static const double assumed_launch_seconds = 1e-6;

// Multiply-adds of the operators that are bound by arithmetic, times two.
static double node_flops(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_tensor_t *first = delta_node_input(graph, node, 0), *second = node->input_count > 1 ? delta_node_input(graph, node, 1) : NULL;
  switch (node->op) {
    case DELTA_CORE_MATMUL: {
      const delta_matmul_attrs_t *attrs = node->attrs;
      int64_t inner = first->shape.dims[first->shape.rank - (attrs->transpose_a ? 2 : 1)];
      return 2.0 * (double)inner * (double)delta_shape_count(&delta_node_output(graph, node, 0)->shape);
    }
    case DELTA_CORE_CONV:
    case DELTA_CORE_CONV_DATA: {
      assert(second);
      const delta_tensor_t *convolved = node->op == DELTA_CORE_CONV ? delta_node_output(graph, node, 0) : first;
      double per_output = (double)delta_shape_count_range(&second->shape, 1, second->shape.rank);
      return 2.0 * per_output * (double)delta_shape_count(&convolved->shape);
    }
    case DELTA_CORE_CONV_WEIGHT: {
      assert(second);
      const delta_tensor_t *weight = delta_node_output(graph, node, 0);
      double per_output = (double)delta_shape_count_range(&weight->shape, 1, weight->shape.rank);
      return 2.0 * per_output * (double)delta_shape_count(&second->shape);
    }
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

static double estimate_seconds(const delta_graph_t *graph, const delta_node_t *node, int32_t threads) {
  double bytes = 0;
  for (uint32_t i = 0; i < node->input_count; ++i) {
    const delta_tensor_t *tensor = delta_node_input(graph, node, i);
    if (tensor) bytes += (double)delta_tensor_bytes(tensor);
  }
  for (uint32_t i = 0; i < node->output_count; ++i) {
    const delta_tensor_t *tensor = delta_node_output(graph, node, i);
    if (tensor) bytes += (double)delta_tensor_bytes(tensor);
  }
  double compute_seconds = node_flops(graph, node) / (assumed_flops_per_second * threads);
  double memory_seconds = bytes / assumed_bytes_per_second;
  return assumed_launch_seconds + (compute_seconds > memory_seconds ? compute_seconds : memory_seconds);
}

// Says of every offer why it cannot run the node.
static delta_status_t no_kernel(const delta_graph_t *graph, const delta_node_t *node, const delta_text_t *refusals) {
  (void)graph;
  return delta_status_make(UNSUPPORTED, "node '%s' (%s): no kernel can run it:%s", node->name, delta_core_op_info(node->op)->name,
                           refusals->items ? refusals->items : " there is none");
}

static delta_status_t select_node(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t id, delta_selection_t *selection) {
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
          (delta_node_cost_t){.seconds = estimate_seconds(graph, node, device->threads), .workspace_bytes = offer.workspace_bytes};
      goto cleanup;
    }
    DELTA_GOTO_IF_ERROR(status, delta_text_append(&refusals, " %s: %s;", offer.name, offer.refusal), cleanup);
  }
cleanup:
  delta_text_deinit(&refusals);
  return status;
}

delta_status_t delta_select(delta_device_t *device, const delta_graph_t *graph, delta_allocator_t allocator,
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
    if (delta_core_op_info(graph->nodes.items[i].op)->flags & DELTA_CORE_FLAG_VIEW) continue;
    DELTA_GOTO_IF_ERROR(status, select_node(device, graph, (delta_node_id_t){i}, selection), cleanup);
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
