// Reductions to sums and means as compiled code.
#include "runtime/cpu/sums.h"

static const char *plan_reduce(const delta_graph_t *graph, const delta_node_t *node, delta_sums_t *sums) {
  const delta_reduce_attrs_t *attrs = node->attrs;
  delta_tile_space_t space;
  delta_compiled_spec_t spec = {.expr = &attrs->expr};
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) {
    spec.is_wanted[k] = delta_node_output(graph, node, k) != NULL;
    if (attrs->kinds[k] != DELTA_REDUCE_SUM && attrs->kinds[k] != DELTA_REDUCE_MEAN) return "it is neither a sum nor a mean";
  }
  delta_tile_space_init(&space, graph, node, &attrs->shape, attrs->axes);
  return delta_sums_plan(sums, &space, &spec);
}

const char *delta_cpu_reduce_compiled_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_reduce_refuse(graph, node);
  delta_sums_t sums;
  return reason ? reason : plan_reduce(graph, node, &sums);
}

delta_status_t delta_cpu_reduce_compiled_prepare(delta_kernel_t *kernel) {
  delta_sums_t *sums = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &sums));
  kernel->state = sums;
  kernel->reads_virtual = true;
  const char *reason = plan_reduce(kernel->graph, kernel->node, sums);
  if (reason) return delta_status_make(UNSUPPORTED, "%s", reason);
  kernel->workspace_bytes = delta_sums_workspace_bytes(sums);
  return delta_compiled_make(&sums->compiled);
}

void delta_cpu_reduce_compiled_release(delta_kernel_t *kernel) {
  if (!kernel->state) return;
  delta_sums_deinit(kernel->state);
  delta_release(kernel->device->allocator, kernel->state);
}

delta_status_t delta_cpu_reduce_compiled_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_sums_t *sums = kernel->state;
  const delta_reduce_attrs_t *attrs = kernel->node->attrs;
  double *partial = buffers->workspace;
  delta_sums_run(sums, kernel->threads, buffers->inputs, partial);
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) {
    const double divisor = attrs->kinds[k] == DELTA_REDUCE_MEAN ? (double)sums->elements_per_result : 1;
    for (int64_t r = 0; buffers->outputs[k] && r < sums->results; ++r)
      delta_element_store_double(buffers->outputs[k], attrs->dtypes[k], (size_t)r, delta_sums_total(sums, partial, k, r) / divisor);
  }
  return DELTA_OK;
}
