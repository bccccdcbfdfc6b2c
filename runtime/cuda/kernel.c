// The table of CUDA kernels and how a node finds its rows.
#include "runtime/cuda/kernel.h"

static const delta_cuda_kernel_row_t kernel_rows[] = {
#define DELTA_KERNEL(op, name, variant, refuse, prepare, run, release) {DELTA_CORE_##op, name, variant, refuse, prepare, run, release},
#include "runtime/cuda/kernels.inc"
#undef DELTA_KERNEL
    {.op = DELTA_CORE_OP_COUNT},
};

const char *delta_cuda_accept(const delta_graph_t *graph, const delta_node_t *node) {
  (void)graph, (void)node;
  return NULL;
}

delta_status_t delta_cuda_prepare_nothing(delta_kernel_t *kernel) {
  (void)kernel;
  return DELTA_OK;
}

void delta_cuda_release_state(delta_kernel_t *kernel) { delta_release(kernel->device->allocator, kernel->state); }

const char *delta_cuda_refuse_unless_float(const delta_graph_t *graph, const delta_node_t *node) {
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *tensor = delta_node_input(graph, node, k);
    if (tensor && !delta_dtype_is_float(tensor->dtype)) return "an input is not of a float type";
  }
  for (uint32_t k = 0; k < node->output_count; ++k) {
    const delta_tensor_t *tensor = delta_node_output(graph, node, k);
    if (tensor && !delta_dtype_is_float(tensor->dtype)) return "an output is not of a float type";
  }
  return NULL;
}

// The row of the given rank for an operator; NULL behind the last.
static const delta_cuda_kernel_row_t *find_row(delta_core_op_t op, uint32_t rank) {
  for (const delta_cuda_kernel_row_t *row = kernel_rows; row->name; ++row) {
    if (row->op == op && rank-- == 0) return row;
  }
  return NULL;
}

delta_status_t delta_cuda_kernel_prepare(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node_id, uint32_t rank,
                                         delta_kernel_t **out_kernel) {
  *out_kernel = NULL;
  const delta_node_t *node = delta_graph_node(graph, node_id);
  const delta_cuda_kernel_row_t *row = find_row(node->op, rank);
  if (!row)
    return delta_status_make(INTERNAL, "node '%s' (%s) has no kernel number %u", node->name, delta_core_op_info(node->op)->name, rank);
  delta_kernel_t *kernel = NULL;
  DELTA_RETURN_IF_ERROR(delta_cuda_use(delta_cuda_device(device)));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(device->allocator, 1, &kernel));
  *kernel = (delta_kernel_t){.row = row, .device = device, .graph = graph, .node = node};
  delta_status_t status = row->prepare(kernel);
  if (status) {
    delta_cuda_kernel_destroy(kernel);
    return delta_status_annotate(status, "node '%s' (%s), kernel %s", node->name, delta_core_op_info(node->op)->name, row->name);
  }
  *out_kernel = kernel;
  return DELTA_OK;
}

void delta_cuda_kernel_destroy(delta_kernel_t *kernel) {
  if (!kernel) return;
  kernel->row->release(kernel);
  delta_release(kernel->device->allocator, kernel);
}

delta_status_t delta_cuda_kernel_query(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node_id, uint32_t rank,
                                       delta_kernel_offer_t *out_offer, bool *out_exists) {
  *out_offer = (delta_kernel_offer_t){0};
  const delta_node_t *node = delta_graph_node(graph, node_id);
  const delta_cuda_kernel_row_t *row = find_row(node->op, rank);
  *out_exists = row != NULL;
  if (!row) return DELTA_OK;
  out_offer->name = row->name;
  out_offer->refusal = row->refuse(graph, node);
  if (out_offer->refusal) return DELTA_OK;
  // The workspace is known only once the kernel is made: a library states its own.
  delta_kernel_t *kernel = NULL;
  delta_status_t status = delta_cuda_kernel_prepare(device, graph, node_id, rank, &kernel);
  if (status && delta_status_code(status) == DELTA_STATUS_UNSUPPORTED) {
    delta_status_free(status);
    out_offer->refusal = "its library has no implementation for these shapes";
    return DELTA_OK;
  }
  if (status) return status;
  out_offer->workspace_bytes = kernel->workspace_bytes;
  out_offer->works_in_row = kernel->works_in_row;
  delta_cuda_kernel_destroy(kernel);
  return DELTA_OK;
}

delta_status_t delta_cuda_launch(delta_device_t *device, delta_lane_t lane, delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  delta_status_t status = kernel->row->run(kernel, buffers, delta_cuda_device(device)->streams[lane]);
  return delta_status_annotate(status, "node '%s' (%s), kernel %s", kernel->node->name, delta_core_op_info(kernel->node->op)->name,
                               kernel->row->name);
}
