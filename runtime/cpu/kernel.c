// The table of CPU kernels and how a node finds its rows.
#include "runtime/cpu/kernel.h"

#include <omp.h>

#include "runtime/cpu/device.h"

static const delta_cpu_kernel_row_t kernel_rows[] = {
#define DELTA_KERNEL(op, name, refuse, prepare, run, release) {{DELTA_CORE_##op, name, refuse, prepare, release}, run},
#include "runtime/cpu/kernels.inc"
#undef DELTA_KERNEL
    {.base = {.op = DELTA_CORE_OP_COUNT}},
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

static const delta_cpu_kernel_row_t reference_row = {
    {DELTA_CORE_OP_COUNT, "reference", delta_cpu_accept, delta_cpu_prepare_nothing, delta_cpu_release_state}, run_reference};

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
static const delta_kernel_row_t *find_row(const delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, uint32_t rank) {
  const delta_core_op_t op = delta_graph_node(graph, node)->op;
  uint32_t seen = 0;
  if (!((const delta_cpu_device_t *)device)->reference_kernels) {
    for (const delta_cpu_kernel_row_t *row = kernel_rows; row->base.name; ++row) {
      if (row->base.op == op && seen++ == rank) return &row->base;
    }
  }
  return seen == rank ? &reference_row.base : NULL;
}

delta_status_t delta_cpu_kernel_prepare(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, uint32_t rank,
                                        delta_kernel_t **out_kernel) {
  omp_set_num_threads(device->threads);
  return delta_kernel_make(find_row(device, graph, node, rank), device, graph, node, rank, out_kernel);
}

delta_status_t delta_cpu_kernel_query(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, uint32_t rank,
                                      delta_kernel_offer_t *out_offer, bool *out_exists) {
  const delta_kernel_row_t *row = find_row(device, graph, node, rank);
  const delta_status_t status = delta_kernel_offer(row, device, graph, node, rank, out_offer, out_exists);
  out_offer->is_last_resort = row == &reference_row.base;
  return status;
}

delta_status_t delta_cpu_launch(delta_device_t *device, delta_lane_t lane, delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  (void)lane;
  // Another library of the process may have changed the team's size, on which results depend.
  if (omp_get_max_threads() != device->threads) omp_set_num_threads(device->threads);
  return delta_cpu_kernel_run(kernel, buffers);
}
