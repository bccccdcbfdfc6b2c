// SPLIT and CONCAT: one copy for each part. Where the whole and its parts have the same bytes, units change their places instead.
#include <assert.h>

#include "runtime/cpu/copy.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/row.h"

typedef struct parts_state {
  delta_copy_t *copies; // Owned; by part
  delta_row_moves_t moves;
} parts_state_t;

// A part left out has an empty copy.
static void list_copies(const delta_kernel_t *kernel, const delta_tensor_t *whole, bool into_whole, uint32_t count, delta_copy_t *copies) {
  const delta_split_attrs_t *attrs = kernel->node->attrs;
  delta_strided_t in_whole = delta_strided_dense(&whole->shape);
  for (uint32_t k = 0; k < count; ++k) {
    const delta_tensor_t *part =
        into_whole ? delta_node_input(kernel->graph, kernel->node, k) : delta_node_output(kernel->graph, kernel->node, k);
    delta_shape_t box = part ? part->shape : (delta_shape_t){.rank = 1};
    delta_strided_t in_part = delta_strided_dense(&box);
    delta_copy_init(&copies[k], &box, delta_dtype_bytes(whole->dtype), into_whole ? &in_whole : &in_part,
                    into_whole ? &in_part : &in_whole);
    assert(part || !into_whole); // what is put together is all there
    in_whole.start += (into_whole ? part->shape.dims[attrs->axis] : attrs->sizes[k]) * in_whole.strides[attrs->axis];
  }
}

static delta_status_t prepare_parts(delta_kernel_t *kernel, const delta_tensor_t *whole, bool into_whole) {
  const delta_allocator_t allocator = kernel->device->allocator;
  const uint32_t count = into_whole ? kernel->node->input_count : kernel->node->output_count;
  parts_state_t *state = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &state));
  kernel->state = state;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, count, &state->copies));
  list_copies(kernel, whole, into_whole, count, state->copies);
  kernel->works_in_row = delta_units_are_few(kernel->graph, kernel->node);
  return kernel->works_in_row ? delta_row_moves_init(&state->moves, kernel->graph, kernel->node, allocator) : DELTA_OK;
}

void delta_cpu_parts_release(delta_kernel_t *kernel) {
  const delta_allocator_t allocator = kernel->device->allocator;
  parts_state_t *state = kernel->state;
  if (!state) return;
  delta_row_moves_deinit(&state->moves, allocator);
  delta_release(allocator, state->copies);
  delta_release(allocator, state);
}

// The whole and its parts have the same bytes.
static bool lies_in_row(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  return kernel->works_in_row && buffers->inputs[0] == buffers->outputs[0];
}

delta_status_t delta_cpu_split_prepare(delta_kernel_t *kernel) {
  return prepare_parts(kernel, delta_node_input(kernel->graph, kernel->node, 0), false);
}

delta_status_t delta_cpu_split_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const parts_state_t *state = kernel->state;
  if (lies_in_row(kernel, buffers)) {
    delta_row_moves_run(&state->moves, buffers->outputs[0], kernel->threads);
    return DELTA_OK;
  }
  for (uint32_t k = 0; k < kernel->node->output_count; ++k)
    if (buffers->outputs[k]) delta_copy_run(&state->copies[k], buffers->outputs[k], buffers->inputs[0], kernel->threads);
  return DELTA_OK;
}

delta_status_t delta_cpu_concat_prepare(delta_kernel_t *kernel) {
  return prepare_parts(kernel, delta_node_output(kernel->graph, kernel->node, 0), true);
}

delta_status_t delta_cpu_concat_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const parts_state_t *state = kernel->state;
  if (lies_in_row(kernel, buffers)) {
    delta_row_moves_run(&state->moves, buffers->outputs[0], kernel->threads);
    return DELTA_OK;
  }
  for (uint32_t k = 0; k < kernel->node->input_count; ++k)
    delta_copy_run(&state->copies[k], buffers->outputs[0], buffers->inputs[k], kernel->threads);
  return DELTA_OK;
}
