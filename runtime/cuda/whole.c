// SPLIT and CONCAT: one copy for each part. Where the whole and its parts have the same bytes, units change their places instead.
#include "onnx/graph/units.h"
#include "runtime/cuda/copy.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/row.h"
#include "runtime/cuda/table.h"

typedef struct parts_state {
  delta_cuda_copy_t *copies; // Owned; by part
  delta_cuda_row_t row;      // without units where both orders are the same
  void *sources;             // Owned; of the row
} parts_state_t;

static void init_part(delta_cuda_copy_t *copy, const delta_tensor_t *part, const delta_tensor_t *whole, int32_t axis, int64_t begin,
                      bool into_whole) {
  delta_strided_t in_part = delta_strided_dense(&part->shape), in_whole = delta_strided_dense(&whole->shape);
  in_whole.start = begin * in_whole.strides[axis];
  delta_cuda_copy_init(copy, &part->shape, delta_dtype_bytes(part->dtype), into_whole ? &in_whole : &in_part,
                       into_whole ? &in_part : &in_whole);
}

static delta_status_t prepare_row(delta_kernel_t *kernel, parts_state_t *state) {
  kernel->works_in_row = delta_units_are_few(kernel->graph, kernel->node);
  if (!kernel->works_in_row) return DELTA_OK;
  const delta_units_t units = delta_units_of(kernel->graph, kernel->node);
  if (units.lines == 1) return DELTA_OK;
  uint32_t sources[DELTA_UNITS_MAX];
  state->row = (delta_cuda_row_t){.units = (uint32_t)(units.lines * units.line_units), .unit_words = (uint64_t)units.unit_bytes / 4};
  delta_units_sources(kernel->graph, kernel->node, sources);
  DELTA_RETURN_IF_ERROR(delta_cuda_table_make(kernel->device, sources, state->row.units * sizeof *sources, &state->sources));
  state->row.sources = state->sources;
  return DELTA_OK;
}

// The copies of all parts, out of the whole or into it; a part of a SPLIT may be left out.
static delta_status_t prepare_parts(delta_kernel_t *kernel, bool into_whole) {
  const delta_allocator_t allocator = kernel->device->allocator;
  const delta_split_attrs_t *attrs = kernel->node->attrs;
  const uint32_t count = into_whole ? kernel->node->input_count : kernel->node->output_count;
  const delta_tensor_t *whole = into_whole ? delta_kernel_output(kernel, 0) : delta_kernel_input(kernel, 0);
  parts_state_t *state = NULL;
  int64_t begin = 0;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &state));
  kernel->state = state;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, count, &state->copies));
  for (uint32_t k = 0; k < count; ++k) {
    const delta_tensor_t *part = into_whole ? delta_kernel_input(kernel, k) : delta_kernel_output(kernel, k);
    if (part) init_part(&state->copies[k], part, whole, attrs->axis, begin, into_whole);
    begin += part ? part->shape.dims[attrs->axis] : attrs->sizes[k];
  }
  return prepare_row(kernel, state);
}

delta_status_t delta_cuda_split_prepare(delta_kernel_t *kernel) { return prepare_parts(kernel, false); }
delta_status_t delta_cuda_concat_prepare(delta_kernel_t *kernel) { return prepare_parts(kernel, true); }

void delta_cuda_parts_release(delta_kernel_t *kernel) {
  parts_state_t *state = kernel->state;
  if (!state) return;
  delta_cuda_table_free(state->sources);
  delta_release(kernel->device->allocator, state->copies);
  delta_release(kernel->device->allocator, state);
}

// The whole and its parts have the same bytes.
static bool lies_in_row(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  return kernel->works_in_row && buffers->inputs[0] == buffers->outputs[0];
}

static delta_status_t run_row(const parts_state_t *state, void *bytes, cudaStream_t stream) {
  return state->row.units == 0 ? DELTA_OK : DELTA_CUDA_CHECK(delta_cuda_row_launch(&state->row, bytes, stream));
}

delta_status_t delta_cuda_split_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const parts_state_t *state = kernel->state;
  if (lies_in_row(kernel, buffers)) return run_row(state, buffers->outputs[0], stream);
  for (uint32_t k = 0; k < kernel->node->output_count; ++k) {
    if (buffers->outputs[k])
      DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(delta_cuda_copy_launch(&state->copies[k], buffers->outputs[k], buffers->inputs[0], stream)));
  }
  return DELTA_OK;
}

delta_status_t delta_cuda_concat_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const parts_state_t *state = kernel->state;
  if (lies_in_row(kernel, buffers)) return run_row(state, buffers->outputs[0], stream);
  for (uint32_t k = 0; k < kernel->node->input_count; ++k)
    DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(delta_cuda_copy_launch(&state->copies[k], buffers->outputs[0], buffers->inputs[k], stream)));
  return DELTA_OK;
}
