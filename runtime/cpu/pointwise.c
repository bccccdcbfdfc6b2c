// Pointwise expressions in float32, tile by tile, threads over tiles.
#include <string.h>

#include "runtime/cpu/team.h"
#include "runtime/cpu/tile.h"

const char *delta_cpu_pointwise_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  (void)graph;
  const delta_pointwise_attrs_t *attrs = node->attrs;
  return attrs->expr.compute == DELTA_DTYPE_FLOAT32 ? NULL : "the expression does not compute in float32";
}

delta_status_t delta_cpu_pointwise_prepare(delta_kernel_t *kernel) {
  const delta_pointwise_attrs_t *attrs = kernel->node->attrs;
  delta_tile_space_t *space = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &space));
  kernel->state = space;
  delta_tile_space_init(space, kernel->graph, kernel->node, &attrs->shape, 0);
  return DELTA_OK;
}

// Results that are an input's own elements are copied aside: another result may be stored onto them.
static void hold_inputs(const delta_expr_t *expr, int64_t count, delta_tile_values_t *values) {
  for (uint16_t k = 0; expr->output_count > 1 && k < expr->output_count; ++k) {
    const uint16_t i = expr->outputs[k];
    if (values->values[i] == values->storage[i]) continue;
    memcpy(values->storage[i], values->values[i], (size_t)count * sizeof(float));
    values->values[i] = values->storage[i];
  }
}

// Items are tiles.
static void pointwise_tiles(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_pointwise_attrs_t *attrs = launch->kernel->node->attrs;
  const delta_tile_space_t *space = launch->kernel->state;
  void *const *outputs = launch->buffers->outputs;
  delta_tile_values_t values;
  for (int64_t t = begin; t < end; ++t) {
    int64_t start = t * DELTA_TILE_ELEMENTS;
    int64_t count = space->count - start < DELTA_TILE_ELEMENTS ? space->count - start : DELTA_TILE_ELEMENTS;
    delta_tile_eval(&attrs->expr, space, launch->buffers->inputs, start, count, &values);
    hold_inputs(&attrs->expr, count, &values);
    // All results are there before any is stored: an output may have an input's bytes, element by element.
    for (uint16_t k = 0; k < attrs->expr.output_count; ++k) {
      if (outputs[k]) delta_tile_store(values.values[attrs->expr.outputs[k]], count, outputs[k], attrs->dtypes[k], start);
    }
  }
}

delta_status_t delta_cpu_pointwise_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_pointwise_attrs_t *attrs = kernel->node->attrs;
  const delta_tile_space_t *space = kernel->state;
  int64_t tile_count = (space->count + DELTA_TILE_ELEMENTS - 1) / DELTA_TILE_ELEMENTS;
  delta_team_run(kernel->threads, tile_count, delta_tile_work_bytes(&attrs->expr), pointwise_tiles, &launch);
  return DELTA_OK;
}
