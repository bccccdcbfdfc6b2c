// Reductions to sums and means, and moments, as compiled code.
#include "runtime/cpu/sums.h"

static const char *plan_reduce(const delta_graph_t *graph, const delta_node_t *node, delta_sums_t *sums) {
  const delta_reduce_attrs_t *attrs = node->attrs;
  delta_tile_space_t space;
  bool is_wanted[DELTA_EXPR_MAX_OUTPUTS] = {false};
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) {
    is_wanted[k] = delta_node_output(graph, node, k) != NULL;
    if (attrs->kinds[k] != DELTA_REDUCE_SUM && attrs->kinds[k] != DELTA_REDUCE_MEAN) return "it is neither a sum nor a mean";
  }
  delta_tile_space_init(&space, graph, node, &attrs->shape, attrs->axes);
  return delta_sums_plan(sums, &space, &attrs->expr, is_wanted);
}

const char *delta_cpu_reduce_compiled_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_reduce_refuse(graph, node);
  delta_sums_t sums;
  return reason ? reason : plan_reduce(graph, node, &sums);
}

static delta_status_t make_sums(delta_kernel_t *kernel, const char *(*plan)(const delta_graph_t *, const delta_node_t *, delta_sums_t *)) {
  delta_sums_t *sums = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &sums));
  kernel->state = sums;
  const char *reason = plan(kernel->graph, kernel->node, sums);
  if (reason) return delta_status_make(UNSUPPORTED, "%s", reason);
  kernel->workspace_bytes = delta_sums_workspace_bytes(sums);
  return delta_compiled_make(&sums->compiled);
}

delta_status_t delta_cpu_reduce_compiled_prepare(delta_kernel_t *kernel) { return make_sums(kernel, plan_reduce); }

void delta_cpu_sums_release(delta_kernel_t *kernel) {
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

// Moments take one pass: the sums of x and of the square of d = x - s, where s is the result's first element, near the others. The mean is sum(x) / n, and
// the variance sum(d^2) / n - (mean - s)^2 loses nothing that matters.
enum { X, SHIFT, DIFFERENCE, SQUARE, MOMENT_INSTRS };
static delta_expr_instr_t moment_instrs[MOMENT_INSTRS] = {
    [X] = {.op = DELTA_EXPR_INPUT, .operands = {X}},
    [SHIFT] = {.op = DELTA_EXPR_INPUT, .operands = {SHIFT}},
    [DIFFERENCE] = {.op = DELTA_EXPR_SUB, .operands = {X, SHIFT}},
    [SQUARE] = {.op = DELTA_EXPR_MUL, .operands = {DIFFERENCE, DIFFERENCE}},
};
static const delta_expr_t moment_expr = {.compute = DELTA_DTYPE_FLOAT32,
                                         .input_count = 2,
                                         .instr_count = MOMENT_INSTRS,
                                         .output_count = 2,
                                         .outputs = {X, SQUARE},
                                         .instrs = moment_instrs};

static const char *plan_moments(const delta_graph_t *graph, const delta_node_t *node, delta_sums_t *sums) {
  const delta_moments_attrs_t *attrs = node->attrs;
  const bool is_wanted[DELTA_EXPR_MAX_OUTPUTS] = {true, true};
  delta_tile_space_t space;
  delta_tile_space_init(&space, graph, node, &delta_node_input(graph, node, 0)->shape, attrs->axes);
  space.input_count = 2;
  space.dtypes[SHIFT] = space.dtypes[X];
  for (int32_t d = 0; d < space.rank; ++d) space.strides[SHIFT][d] = space.reduced[d] ? 0 : space.strides[X][d];
  return delta_sums_plan(sums, &space, &moment_expr, is_wanted);
}

const char *delta_cpu_moments_compiled_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_moments_refuse(graph, node);
  delta_sums_t sums;
  return reason ? reason : plan_moments(graph, node, &sums);
}

delta_status_t delta_cpu_moments_compiled_prepare(delta_kernel_t *kernel) { return make_sums(kernel, plan_moments); }

// Where the elements of a result begin: its first run, and its place in the period.
static int64_t first_element(const delta_sums_t *sums, int64_t result) {
  const delta_tile_space_t *space = &sums->runs.space;
  int64_t kept = result / sums->runs.period, offset = result % sums->runs.period;
  for (int32_t d = sums->runs.outer_rank - 1; d >= 0; --d) {
    if (space->reduced[d]) continue;
    offset += kept % space->dims[d] * space->strides[X][d];
    kept /= space->dims[d];
  }
  return offset;
}

delta_status_t delta_cpu_moments_compiled_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_sums_t *sums = kernel->state;
  const float *x = buffers->inputs[0];
  float *mean = buffers->outputs[0], *variance = buffers->outputs[1];
  const void *const inputs[] = {x, x};
  const double count = (double)sums->elements_per_result;
  double *partial = buffers->workspace;
  delta_sums_run(sums, kernel->threads, inputs, partial);
  for (int64_t r = 0; r < sums->results; ++r) {
    const double average = delta_sums_total(sums, partial, 0, r) / count;
    const double shift = average - (double)x[first_element(sums, r)];
    const double spread = delta_sums_total(sums, partial, 1, r) / count - shift * shift;
    mean[r] = (float)average;
    variance[r] = spread < 0 ? 0.0f : (float)spread;
  }
  return DELTA_OK;
}
