// The table of CPU kernels and how a node finds its rows.
#include "runtime/cpu/kernel.h"

#include <omp.h>

#include "onnx/graph/virtual.h"
#include "runtime/cpu/device.h"

static const delta_cpu_kernel_row_t kernel_rows[] = {
#define DELTA_KERNEL(op, name, refuse, prepare, run, release) {DELTA_CORE_##op, name, refuse, prepare, run, release},
#include "runtime/cpu/kernels.inc"
#undef DELTA_KERNEL
    {DELTA_CORE_OP_COUNT, NULL, NULL, NULL, NULL, NULL},
};

static delta_status_t run_reference(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_reference_args_t args = {
      .graph = kernel->graph,
      .node = kernel->node,
      .inputs = buffers->inputs,
      .outputs = buffers->outputs,
      .allocator = kernel->device->allocator,
  };
  return delta_reference_node(&args);
}

static const delta_cpu_kernel_row_t reference_row = {DELTA_CORE_OP_COUNT,       "reference",   delta_cpu_accept,
                                                     delta_cpu_prepare_nothing, run_reference, delta_cpu_release_state};

const char *delta_cpu_accept(const delta_graph_t *graph, const delta_node_t *node) {
  (void)graph, (void)node;
  return NULL;
}

delta_status_t delta_cpu_prepare_nothing(delta_kernel_t *kernel) {
  (void)kernel;
  return DELTA_OK;
}

void delta_cpu_release_state(delta_kernel_t *kernel) { delta_release(kernel->device->allocator, kernel->state); }

static bool is_float32_or_absent(const delta_tensor_t *tensor) { return !tensor || tensor->dtype == DELTA_DTYPE_FLOAT32; }

const char *delta_cpu_refuse_unless_float32(const delta_graph_t *graph, const delta_node_t *node) {
  for (uint32_t i = 0; i < node->input_count; ++i) {
    if (!is_float32_or_absent(delta_node_input(graph, node, i))) return "an input is not float32";
  }
  for (uint32_t i = 0; i < node->output_count; ++i) {
    if (!is_float32_or_absent(delta_node_output(graph, node, i))) return "an output is not float32";
  }
  return NULL;
}

// The row of the given rank for an operator; the reference after the last; NULL behind that.
static const delta_cpu_kernel_row_t *find_row(const delta_device_t *device, delta_core_op_t op, uint32_t rank) {
  uint32_t seen = 0;
  if (!((const delta_cpu_device_t *)device)->reference_kernels) {
    for (const delta_cpu_kernel_row_t *row = kernel_rows; row->name; ++row) {
      if (row->op == op && seen++ == rank) return row;
    }
  }
  return seen == rank ? &reference_row : NULL;
}

delta_status_t delta_cpu_kernel_prepare(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node_id, uint32_t rank,
                                        delta_kernel_t **out_kernel) {
  *out_kernel = NULL;
  const delta_node_t *node = delta_graph_node(graph, node_id);
  const delta_cpu_kernel_row_t *row = find_row(device, node->op, rank);
  if (!row)
    return delta_status_make(INTERNAL, "node '%s' (%s) has no kernel number %u", node->name, delta_core_op_info(node->op)->name, rank);
  delta_kernel_t *kernel = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(device->allocator, 1, &kernel));
  *kernel = (delta_kernel_t){.row = row, .device = device, .graph = graph, .node = node, .threads = device->threads};
  omp_set_num_threads(device->threads);
  delta_status_t status = row->prepare(kernel);
  if (status) {
    delta_cpu_kernel_destroy(kernel);
    return delta_status_annotate(status, "node '%s' (%s), kernel %s", node->name, delta_core_op_info(node->op)->name, row->name);
  }
  *out_kernel = kernel;
  return DELTA_OK;
}

void delta_cpu_kernel_destroy(delta_kernel_t *kernel) {
  if (!kernel) return;
  kernel->row->release(kernel);
  delta_release(kernel->device->allocator, kernel);
}

delta_status_t delta_cpu_kernel_query(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node_id, uint32_t rank,
                                      delta_kernel_offer_t *out_offer, bool *out_exists) {
  *out_offer = (delta_kernel_offer_t){0};
  const delta_node_t *node = delta_graph_node(graph, node_id);
  const delta_cpu_kernel_row_t *row = find_row(device, node->op, rank);
  *out_exists = row != NULL;
  if (!row) return DELTA_OK;
  out_offer->name = row->name;
  out_offer->is_last_resort = row == &reference_row;
  out_offer->refusal = row->refuse(graph, node);
  if (out_offer->refusal) return DELTA_OK;
  // The workspace is known only once the kernel is made: a library's primitive states its own.
  delta_kernel_t *kernel = NULL;
  delta_status_t status = delta_cpu_kernel_prepare(device, graph, node_id, rank, &kernel);
  if (status && delta_status_code(status) == DELTA_STATUS_UNSUPPORTED) {
    delta_status_free(status);
    out_offer->refusal = "its library has no implementation for these shapes";
    return DELTA_OK;
  }
  if (status) return status;
  out_offer->workspace_bytes = kernel->workspace_bytes;
  out_offer->works_in_row = kernel->works_in_row;
  if (!kernel->reads_virtual && delta_reads_virtual(graph, node)) out_offer->refusal = "it reads no parts in place of a whole";
  delta_cpu_kernel_destroy(kernel);
  return DELTA_OK;
}

delta_status_t delta_cpu_launch(delta_device_t *device, delta_lane_t lane, delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  (void)lane;
  // Another library of the process may have changed the team's size, on which results depend.
  if (omp_get_max_threads() != device->threads) omp_set_num_threads(device->threads);
  return kernel->row->run(kernel, buffers);
}
