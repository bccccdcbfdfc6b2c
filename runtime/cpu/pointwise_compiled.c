// Pointwise expressions as compiled code, threads over pieces of runs.
#include "runtime/cpu/runs.h"
#include "runtime/cpu/team.h"

enum { CHUNK_ELEMENTS = 8192, STREAM_LEAST_BYTES = 16 << 20, STREAM_ALIGNMENT_BYTES = 64 };

typedef struct delta_pointwise_code {
  delta_runs_t runs;
  delta_compiled_t compiled;
  int64_t chunks; // pieces of a run
  bool is_large;  // more than caches hold
} delta_pointwise_code_t;

// Why not, or NULL: then the plan is made.
static const char *plan_code(const delta_graph_t *graph, const delta_node_t *node, delta_pointwise_code_t *code) {
  const delta_pointwise_attrs_t *attrs = node->attrs;
  delta_tile_space_t space;
  delta_compiled_spec_t spec = {.expr = &attrs->expr};
  *code = (delta_pointwise_code_t){0};
  delta_tile_space_init(&space, graph, node, &attrs->shape, 0);
  if (space.count == 0) return "there are no elements";
  const char *reason = delta_runs_init(&code->runs, &space, delta_compiled_width());
  if (reason) return reason;
  for (uint32_t k = 0; k < node->input_count; ++k) spec.is_dense[k] = code->runs.is_dense[k];
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) {
    spec.is_wanted[k] = delta_node_output(graph, node, k) != NULL;
    if (spec.is_wanted[k] && attrs->dtypes[k] != DELTA_DTYPE_FLOAT32) return "an output is not float32";
  }
  code->chunks = (code->runs.length + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS;
  int64_t size_bytes = 0;
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) size_bytes += spec.is_wanted[k] ? space.count * (int64_t)sizeof(float) : 0;
  code->is_large = size_bytes >= STREAM_LEAST_BYTES;
  return delta_compiled_plan(&code->compiled, &spec);
}

const char *delta_cpu_pointwise_compiled_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_pointwise_attrs_t *attrs = node->attrs;
  if (attrs->expr.compute != DELTA_DTYPE_FLOAT32) return "the expression does not compute in float32";
  delta_pointwise_code_t code;
  return plan_code(graph, node, &code);
}

delta_status_t delta_cpu_pointwise_compiled_prepare(delta_kernel_t *kernel) {
  delta_pointwise_code_t *code = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &code));
  kernel->state = code;
  kernel->reads_virtual = true;
  const char *reason = plan_code(kernel->graph, kernel->node, code);
  if (reason) return delta_status_make(UNSUPPORTED, "%s", reason);
  return delta_compiled_make(&code->compiled);
}

void delta_cpu_pointwise_compiled_release(delta_kernel_t *kernel) {
  delta_pointwise_code_t *code = kernel->state;
  if (!code) return;
  delta_compiled_deinit(&code->compiled);
  delta_release(kernel->device->allocator, code);
}

// Stores around the cache save reading what is overwritten; where a result takes an input's place that has been read already.
static bool may_stream(const delta_pointwise_code_t *code, const delta_kernel_buffers_t *buffers) {
  if (!code->is_large || code->runs.length % DELTA_COMPILED_LANES != 0) return false;
  const delta_compiled_t *compiled = &code->compiled;
  for (uint16_t k = 0; k < compiled->spec.expr->output_count; ++k) {
    if (compiled->pointer_of_output[k] < 0) continue;
    if ((uintptr_t)buffers->outputs[k] % STREAM_ALIGNMENT_BYTES != 0) return false;
    for (uint16_t i = 0; i < compiled->spec.expr->input_count; ++i)
      if (buffers->inputs[i] == buffers->outputs[k]) return false;
  }
  return true;
}

// Items are chunks of runs.
static void run_chunks(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_pointwise_code_t *code = launch->kernel->state;
  const delta_runs_t *runs = &code->runs;
  const bool streams = may_stream(code, launch->buffers);
  delta_compiled_block_t block;
  delta_run_t found;
  delta_compiled_begin(&code->compiled, &block);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t run = item / code->chunks, from = item % code->chunks * CHUNK_ELEMENTS;
    const int64_t left = runs->length - from, count = left < CHUNK_ELEMENTS ? left : CHUNK_ELEMENTS;
    void *outputs[DELTA_EXPR_MAX_OUTPUTS];
    for (uint16_t k = 0; k < code->compiled.spec.expr->output_count; ++k)
      outputs[k] = launch->buffers->outputs[k] ? (float *)launch->buffers->outputs[k] + run * runs->length : NULL;
    if (from == 0 || item == begin) {
      delta_runs_find(runs, launch->buffers->inputs, run, &found);
      delta_runs_fill(runs, &code->compiled, &found, &block);
    }
    delta_runs_execute(&code->compiled, &found, outputs, from, count, streams, &block);
  }
  if (streams) delta_compiled_end_streams();
}

delta_status_t delta_cpu_pointwise_compiled_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_pointwise_code_t *code = kernel->state;
  const int64_t items = code->runs.count * code->chunks;
  const int64_t tensors = code->compiled.spec.expr->input_count + code->compiled.spec.expr->output_count;
  const int64_t elements = code->runs.length < CHUNK_ELEMENTS ? code->runs.length : CHUNK_ELEMENTS;
  delta_team_run(kernel->threads, items, tensors * elements * (int64_t)sizeof(float), run_chunks, &launch);
  return DELTA_OK;
}
