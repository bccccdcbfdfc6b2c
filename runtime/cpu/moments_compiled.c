// Moments as compiled code: one pass sums the elements and their squares in float64, which hold the square of a float32 exactly; what cancels between the two
// is lost from the end of float64, not of float32.
#include "runtime/cpu/sums.h"

enum { SUM, SQUARES, SUMS };
static delta_expr_instr_t element[] = {{.op = DELTA_EXPR_INPUT}};
static const delta_expr_t sums_expr = {
    .compute = DELTA_DTYPE_FLOAT32, .input_count = 1, .instr_count = 1, .output_count = SUMS, .outputs = {0, 0}, .instrs = element};

static const char *plan_moments(const delta_graph_t *graph, const delta_node_t *node, delta_sums_t *sums) {
  const delta_moments_attrs_t *attrs = node->attrs;
  const delta_compiled_spec_t spec = {.expr = &sums_expr, .is_wanted = {[SUM] = true, [SQUARES] = true}, .is_square = {[SQUARES] = true}};
  delta_tile_space_t space;
  delta_tile_space_init(&space, graph, node, &delta_node_input(graph, node, 0)->shape, attrs->axes);
  return delta_sums_plan(sums, &space, &spec);
}

const char *delta_cpu_moments_compiled_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_moments_refuse(graph, node);
  delta_sums_t sums;
  return reason ? reason : plan_moments(graph, node, &sums);
}

delta_status_t delta_cpu_moments_compiled_prepare(delta_kernel_t *kernel) {
  delta_sums_t *sums = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &sums));
  kernel->state = sums;
  kernel->reads_virtual = true;
  const char *reason = plan_moments(kernel->graph, kernel->node, sums);
  if (reason) return delta_status_make(UNSUPPORTED, "%s", reason);
  kernel->workspace_bytes = delta_sums_workspace_bytes(sums);
  return delta_compiled_make(&sums->compiled);
}

void delta_cpu_moments_compiled_release(delta_kernel_t *kernel) {
  delta_sums_t *sums = kernel->state;
  if (!sums) return;
  delta_sums_deinit(sums);
  delta_release(kernel->device->allocator, sums);
}

delta_status_t delta_cpu_moments_compiled_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_sums_t *sums = kernel->state;
  const double count = (double)sums->elements_per_result;
  float *means = buffers->outputs[0], *variances = buffers->outputs[1];
  delta_sums_run(sums, kernel->threads, buffers->inputs, buffers->workspace);
  for (int64_t r = 0; r < sums->results; ++r) {
    const double mean = delta_sums_total(sums, buffers->workspace, SUM, r) / count;
    const double variance = delta_sums_total(sums, buffers->workspace, SQUARES, r) / count - mean * mean;
    means[r] = (float)mean;
    // Rounding may leave less than nothing; NaN stays.
    variances[r] = variance < 0 ? 0.0f : (float)variance;
  }
  return DELTA_OK;
}
