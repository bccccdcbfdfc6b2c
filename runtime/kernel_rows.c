// Kernel rows: making a kernel of a row, and what a row offers.
#include "runtime/kernel_rows.h"

#include "onnx/graph/virtual.h"

delta_status_t delta_kernel_make(const delta_kernel_row_t *row, delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node_id,
                                 uint32_t rank, delta_kernel_t **out_kernel) {
  *out_kernel = NULL;
  const delta_node_t *node = delta_graph_node(graph, node_id);
  if (!row)
    return delta_status_make(INTERNAL, "node '%s' (%s) has no kernel number %u", node->name, delta_core_op_info(node->op)->name, rank);
  delta_kernel_t *kernel = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(device->allocator, 1, &kernel));
  *kernel = (delta_kernel_t){.row = row, .device = device, .graph = graph, .node = node, .threads = device->threads};
  delta_status_t status = row->prepare(kernel);
  if (status) {
    delta_kernel_free(kernel);
    return delta_status_annotate(status, "node '%s' (%s), kernel %s", node->name, delta_core_op_info(node->op)->name, row->name);
  }
  *out_kernel = kernel;
  return DELTA_OK;
}

void delta_kernel_free(delta_kernel_t *kernel) {
  if (!kernel) return;
  kernel->row->release(kernel);
  delta_release(kernel->device->allocator, kernel);
}

delta_status_t delta_kernel_offer(const delta_kernel_row_t *row, delta_device_t *device, const delta_graph_t *graph,
                                  delta_node_id_t node_id, uint32_t rank, delta_kernel_offer_t *out_offer, bool *out_exists) {
  *out_offer = (delta_kernel_offer_t){0};
  *out_exists = row != NULL;
  if (!row) return DELTA_OK;
  const delta_node_t *node = delta_graph_node(graph, node_id);
  out_offer->name = row->name;
  out_offer->refusal = row->refuse(graph, node);
  if (out_offer->refusal) return DELTA_OK;
  // The workspace is known only once the kernel is made: a library states its own.
  delta_kernel_t *kernel = NULL;
  delta_status_t status = device->driver->kernel_prepare(device, graph, node_id, rank, &kernel);
  if (status && delta_status_code(status) == DELTA_STATUS_UNSUPPORTED) {
    delta_status_free(status);
    out_offer->refusal = "its library has no implementation for these shapes";
    return DELTA_OK;
  }
  if (status) return status;
  out_offer->workspace_bytes = kernel->workspace_bytes;
  out_offer->works_in_row = kernel->works_in_row;
  if (!kernel->reads_virtual && delta_reads_virtual(graph, node)) out_offer->refusal = "it reads no parts in place of a whole";
  delta_kernel_free(kernel);
  return DELTA_OK;
}
