// The table of CUDA kernels and how a node finds its rows.
#include "runtime/cuda/kernel.h"

static const delta_cuda_kernel_row_t kernel_rows[] = {
#define DELTA_KERNEL(op, name, variant, refuse, prepare, run, release) {{DELTA_CORE_##op, name, refuse, prepare, release}, variant, run},
#include "runtime/cuda/kernels.inc"
#undef DELTA_KERNEL
    {.base = {.op = DELTA_CORE_OP_COUNT}},
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
static const delta_kernel_row_t *find_row(const delta_graph_t *graph, delta_node_id_t node, uint32_t rank) {
  const delta_core_op_t op = delta_graph_node(graph, node)->op;
  for (const delta_cuda_kernel_row_t *row = kernel_rows; row->base.name; ++row) {
    if (row->base.op == op && rank-- == 0) return &row->base;
  }
  return NULL;
}

delta_status_t delta_cuda_kernel_prepare(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, uint32_t rank,
                                         delta_kernel_t **out_kernel) {
  *out_kernel = NULL;
  DELTA_RETURN_IF_ERROR(delta_cuda_use(delta_cuda_device(device)));
  return delta_kernel_make(find_row(graph, node, rank), device, graph, node, rank, out_kernel);
}

delta_status_t delta_cuda_kernel_query(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, uint32_t rank,
                                       delta_kernel_offer_t *out_offer, bool *out_exists) {
  return delta_kernel_offer(find_row(graph, node, rank), device, graph, node, rank, out_offer, out_exists);
}

delta_status_t delta_cuda_launch(delta_device_t *device, delta_lane_t lane, delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  delta_status_t status = delta_cuda_kernel_row(kernel)->run(kernel, buffers, delta_cuda_device(device)->streams[lane]);
  return delta_status_annotate(status, "node '%s' (%s), kernel %s", kernel->node->name, delta_core_op_info(kernel->node->op)->name,
                               kernel->row->name);
}
