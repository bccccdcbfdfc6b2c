// EACH: the kernels of its sets, one after another. Which kind of kernel runs a set is what would run it as a node of its own.
#include "onnx/graph/each.h"

#include "runtime/cpu/kernel.h"

// Functions of the rows for POINTWISE, in their order of preference.
static const delta_cpu_kernel_row_t set_rows[] = {
    {{DELTA_CORE_POINTWISE, "compiled", delta_cpu_pointwise_compiled_refuse, delta_cpu_pointwise_compiled_prepare,
      delta_cpu_pointwise_compiled_release},
     delta_cpu_pointwise_compiled_run},
    {{DELTA_CORE_POINTWISE, "tiles", delta_cpu_pointwise_refuse, delta_cpu_pointwise_prepare, delta_cpu_release_state},
     delta_cpu_pointwise_run},
};
enum { SET_ROW_COUNT = sizeof set_rows / sizeof *set_rows };

typedef struct each_set {
  delta_each_set_t set;
  delta_kernel_t kernel;
} each_set_t;

typedef struct each_state {
  uint32_t count;
  each_set_t sets[];
} each_state_t;

static const delta_kernel_row_t *find_row(const delta_each_set_t *set) {
  for (size_t i = 0; i < SET_ROW_COUNT; ++i) {
    if (!set_rows[i].base.refuse(&set->graph, &set->node)) return &set_rows[i].base;
  }
  return NULL;
}

const char *delta_cpu_each_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_each_attrs_t *attrs = node->attrs;
  for (uint32_t i = 0; i < attrs->count; ++i) {
    delta_each_set_t set;
    delta_each_set_init(&set, graph, node, i);
    if (!find_row(&set)) return "no kernel runs one of its sets";
  }
  return NULL;
}

static delta_status_t prepare_set(const delta_kernel_t *kernel, uint32_t index, each_set_t *set) {
  delta_each_set_init(&set->set, kernel->graph, kernel->node, index);
  set->kernel = (delta_kernel_t){
      .row = find_row(&set->set), .device = kernel->device, .graph = &set->set.graph, .node = &set->set.node, .threads = kernel->threads};
  if (!set->kernel.row) return delta_status_make(INTERNAL, "node '%s': no kernel runs set %u", kernel->node->name, index);
  return set->kernel.row->prepare(&set->kernel);
}

delta_status_t delta_cpu_each_prepare(delta_kernel_t *kernel) {
  const delta_each_attrs_t *attrs = kernel->node->attrs;
  each_state_t *state = NULL;
  const size_t state_bytes = sizeof *state + attrs->count * sizeof *state->sets;
  DELTA_RETURN_IF_ERROR(delta_allocate(kernel->device->allocator, state_bytes, 1, (void **)&state));
  kernel->state = state;
  for (; state->count < attrs->count; ++state->count) {
    const delta_status_t status = prepare_set(kernel, state->count, &state->sets[state->count]);
    if (!status) continue;
    ++state->count; // what it made is released, too
    return status;
  }
  return DELTA_OK;
}

delta_status_t delta_cpu_each_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_each_attrs_t *attrs = kernel->node->attrs;
  const each_state_t *state = kernel->state;
  for (uint32_t i = 0; i < state->count; ++i) {
    const void *inputs[DELTA_EXPR_MAX_INPUTS];
    for (uint32_t k = 0; k < attrs->expr.input_count; ++k) inputs[k] = buffers->inputs[delta_each_input(attrs, i, k)];
    const delta_kernel_buffers_t own = {.inputs = inputs, .outputs = buffers->outputs + i * attrs->expr.output_count};
    DELTA_RETURN_IF_ERROR(delta_cpu_kernel_run(&state->sets[i].kernel, &own));
  }
  return DELTA_OK;
}

void delta_cpu_each_release(delta_kernel_t *kernel) {
  each_state_t *state = kernel->state;
  for (uint32_t i = 0; state && i < state->count; ++i) state->sets[i].kernel.row->release(&state->sets[i].kernel);
  delta_release(kernel->device->allocator, state);
}
