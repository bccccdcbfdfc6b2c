// Moments as compiled code: the mean, then the variance as the mean of (x - mean)^2, rounded as the plain definition rounds it.
#include "runtime/cpu/sums.h"

enum { CACHE_BYTES = 2 << 20, LEAST_ITEMS = 16 };

// The two passes. Inputs are x and the mean.
enum { X, MEAN, DIFFERENCE, SQUARE };
static delta_expr_instr_t instrs[] = {
    [X] = {.op = DELTA_EXPR_INPUT, .operands = {X}},
    [MEAN] = {.op = DELTA_EXPR_INPUT, .operands = {MEAN}},
    [DIFFERENCE] = {.op = DELTA_EXPR_SUB, .operands = {X, MEAN}},
    [SQUARE] = {.op = DELTA_EXPR_MUL, .operands = {DIFFERENCE, DIFFERENCE}},
};
static const delta_expr_t mean_expr = {
    .compute = DELTA_DTYPE_FLOAT32, .input_count = 2, .instr_count = 1, .output_count = 1, .outputs = {X}, .instrs = instrs};
static const delta_expr_t variance_expr = {.compute = DELTA_DTYPE_FLOAT32,
                                           .input_count = 2,
                                           .instr_count = sizeof instrs / sizeof *instrs,
                                           .output_count = 1,
                                           .outputs = {SQUARE},
                                           .instrs = instrs};

typedef struct delta_moments_code {
  delta_sums_t mean, variance;
} delta_moments_code_t;

// The second input's strides are those of the results, in their order.
static void add_mean(delta_tile_space_t *space) {
  space->input_count = 2;
  space->dtypes[MEAN] = space->dtypes[X];
  int64_t stride = 1;
  for (int32_t d = space->rank - 1; d >= 0; --d) {
    space->strides[MEAN][d] = space->reduced[d] ? 0 : stride;
    if (!space->reduced[d]) stride *= space->dims[d];
  }
}

static const char *plan_moments(const delta_graph_t *graph, const delta_node_t *node, delta_moments_code_t *code) {
  const delta_moments_attrs_t *attrs = node->attrs;
  const delta_compiled_spec_t mean = {.expr = &mean_expr, .is_wanted = {true}}, variance = {.expr = &variance_expr, .is_wanted = {true}};
  delta_tile_space_t space;
  delta_tile_space_init(&space, graph, node, &delta_node_input(graph, node, 0)->shape, attrs->axes);
  add_mean(&space);
  const char *reason = delta_sums_plan(&code->mean, &space, &mean);
  return reason ? reason : delta_sums_plan(&code->variance, &space, &variance);
}

const char *delta_cpu_moments_compiled_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_moments_refuse(graph, node);
  delta_moments_code_t code;
  return reason ? reason : plan_moments(graph, node, &code);
}

delta_status_t delta_cpu_moments_compiled_prepare(delta_kernel_t *kernel) {
  delta_moments_code_t *code = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &code));
  kernel->state = code;
  kernel->reads_virtual = true;
  const char *reason = plan_moments(kernel->graph, kernel->node, code);
  if (reason) return delta_status_make(UNSUPPORTED, "%s", reason);
  kernel->workspace_bytes = delta_sums_workspace_bytes(&code->mean);
  DELTA_RETURN_IF_ERROR(delta_compiled_make(&code->mean.compiled));
  return delta_compiled_make(&code->variance.compiled);
}

void delta_cpu_moments_compiled_release(delta_kernel_t *kernel) {
  delta_moments_code_t *code = kernel->state;
  if (!code) return;
  delta_sums_deinit(&code->mean);
  delta_sums_deinit(&code->variance);
  delta_release(kernel->device->allocator, code);
}

// One pass over the results of kept combinations [begin, end).
static void run_pass(const delta_kernel_t *kernel, const delta_sums_t *sums, const void *const *inputs, int64_t begin, int64_t end,
                     double *partial, float *results) {
  delta_sums_run(sums, kernel->threads, inputs, begin, end, partial);
  for (int64_t r = begin * sums->width; r < end * sums->width; ++r)
    results[r] = (float)(delta_sums_total(sums, partial, 0, r) / (double)sums->elements_per_result);
}

// Kept combinations whose elements stay in cache from the first pass to the second, and are work enough for many threads.
static int64_t group_size(const delta_sums_t *sums) {
  const int64_t size_bytes = sums->runs.space.count / sums->kept * (int64_t)sizeof(float);
  const int64_t cached = CACHE_BYTES / size_bytes, least = (LEAST_ITEMS + sums->pieces - 1) / sums->pieces;
  return cached > least ? cached : least;
}

delta_status_t delta_cpu_moments_compiled_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_moments_code_t *code = kernel->state;
  const void *const inputs[] = {buffers->inputs[0], buffers->outputs[0]};
  const int64_t kept = code->mean.kept, group = group_size(&code->mean);
  for (int64_t begin = 0; begin < kept; begin += group) {
    const int64_t end = begin + group < kept ? begin + group : kept;
    run_pass(kernel, &code->mean, inputs, begin, end, buffers->workspace, buffers->outputs[0]);
    run_pass(kernel, &code->variance, inputs, begin, end, buffers->workspace, buffers->outputs[1]);
  }
  return DELTA_OK;
}
