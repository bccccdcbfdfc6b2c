// Matrix products whose second operand is first brought, in the workspace, into the layout that oneDNN likes best. Worth it where the library's kernels for
// plain layouts are slow and the product is long; the profile says where.
#include "runtime/cpu/matmul.h"

typedef struct delta_matmul_packed {
  delta_onednn_primitive_t primitive;
  dnnl_primitive_t reorder; // Owned.
  dnnl_memory_t plain;      // Owned; the operand as it comes
  dnnl_memory_t packed;     // one of the primitive's arguments, at the start of the workspace
  size_t scratchpad_offset;
} delta_matmul_packed_t;

const char *delta_cpu_matmul_packed_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_matmul_refuse(graph, node);
  if (reason) return reason;
  const delta_shape_t *b_shape = &delta_node_input(graph, node, 1)->shape;
  return delta_matmul_is_single(b_shape) ? NULL : "the second operand is many matrices";
}

// Describes the product with the second operand as the library likes it; UNSUPPORTED where that is how it comes.
static delta_status_t describe(const delta_kernel_t *kernel, const delta_matmul_layouts_t *layouts,
                               dnnl_primitive_desc_t *out_description) {
  const delta_matmul_packed_t *state = kernel->state;
  delta_matmul_layouts_t wanted = *layouts;
  DELTA_RETURN_IF_ERROR(
      DELTA_ONEDNN(dnnl_memory_desc_init_by_tag(&wanted.b, layouts->b.ndims, layouts->b.dims, dnnl_f32, dnnl_format_tag_any)));
  DELTA_RETURN_IF_ERROR(delta_matmul_describe(kernel, &state->primitive, &wanted, out_description));
  const dnnl_memory_desc_t *packed = dnnl_primitive_desc_query_md(*out_description, dnnl_query_weights_md, 0);
  if (!dnnl_memory_desc_equal(packed, &layouts->b)) return DELTA_OK;
  return delta_status_make(UNSUPPORTED, "oneDNN takes the operand as it comes");
}

delta_status_t delta_cpu_matmul_packed_prepare(delta_kernel_t *kernel) {
  delta_matmul_packed_t *state = NULL;
  delta_matmul_layouts_t layouts;
  dnnl_primitive_desc_t description = NULL;
  size_t scratchpad_bytes;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &state));
  kernel->state = state;
  DELTA_GOTO_IF_ERROR(status, delta_onednn_init(&state->primitive), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_matmul_layouts(kernel, &layouts), cleanup);
  DELTA_GOTO_IF_ERROR(status, describe(kernel, &layouts, &description), cleanup);
  const dnnl_memory_desc_t *packed = dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(&state->primitive, DNNL_ARG_SRC, &layouts.a), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(&state->primitive, DNNL_ARG_WEIGHTS, packed), cleanup);
  state->packed = state->primitive.args[state->primitive.arg_count - 1].memory;
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(&state->primitive, DNNL_ARG_DST, &layouts.y), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_matmul_add_bias(&state->primitive, &layouts), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_reorder(&state->primitive, &layouts.b, packed, &state->reorder), cleanup);
  DELTA_GOTO_IF_ERROR(
      status, DELTA_ONEDNN(delta_onednn_call_memory_create(&state->plain, &layouts.b, state->primitive.engine, DNNL_MEMORY_NONE)), cleanup);
  delta_onednn_reserve(kernel, dnnl_memory_desc_get_size(packed)); // at the start
  DELTA_GOTO_IF_ERROR(status, delta_onednn_make(&state->primitive, description, &scratchpad_bytes), cleanup);
  state->scratchpad_offset = delta_onednn_reserve(kernel, scratchpad_bytes);
cleanup:
  if (description) dnnl_primitive_desc_destroy(description);
  return status;
}

delta_status_t delta_cpu_matmul_packed_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_matmul_packed_t *state = kernel->state;
  const void *addresses[] = {buffers->inputs[0], buffers->workspace, buffers->outputs[0], delta_matmul_bias(kernel, buffers)};
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(delta_onednn_call_memory_set_data_handle(state->plain, (void *)(uintptr_t)buffers->inputs[1])));
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(delta_onednn_call_memory_set_data_handle(state->packed, buffers->workspace)));
  DELTA_RETURN_IF_ERROR(delta_onednn_convert(&state->primitive, state->reorder, state->plain, state->packed));
  delta_matmul_begin_sum(kernel, buffers);
  return delta_onednn_execute_primitive(&state->primitive, addresses, (char *)buffers->workspace + state->scratchpad_offset);
}

void delta_cpu_matmul_packed_release(delta_kernel_t *kernel) {
  delta_matmul_packed_t *state = kernel->state;
  if (!state) return;
  if (state->reorder) dnnl_primitive_destroy(state->reorder);
  if (state->plain) dnnl_memory_destroy(state->plain);
  delta_onednn_deinit(&state->primitive);
  delta_release(kernel->device->allocator, state);
}
