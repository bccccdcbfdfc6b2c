// Creation and execution of oneDNN primitives with planned scratchpads.
#include "runtime/cpu/onednn.h"

#include <string.h>

delta_status_t delta_onednn_status(dnnl_status_t result, const char *call) {
  switch (result) {
    case dnnl_success:
      return DELTA_OK;
    case dnnl_out_of_memory:
      return delta_status_make(OUT_OF_MEMORY, "oneDNN has no memory for %s", call);
    case dnnl_unimplemented:
      return delta_status_make(UNSUPPORTED, "oneDNN does not implement %s for these shapes", call);
    default:
      return delta_status_make(INTERNAL, "oneDNN: %s failed with code %d", call, (int)result);
  }
}

delta_status_t delta_onednn_init(delta_onednn_primitive_t *primitive) {
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(delta_onednn_call_engine_create(&primitive->engine, dnnl_cpu, 0)));
  return DELTA_ONEDNN(delta_onednn_call_stream_create(&primitive->stream, primitive->engine, dnnl_stream_default_flags));
}

delta_status_t delta_onednn_open(delta_kernel_t *kernel, delta_onednn_primitive_t **out_primitive) {
  delta_onednn_primitive_t *primitive = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &primitive));
  kernel->state = primitive;
  *out_primitive = primitive;
  return delta_onednn_init(primitive);
}

// `sums`: post-operations of the primitive, or NULL.
static delta_status_t describe(const delta_onednn_primitive_t *primitive, const void *descriptor, const_dnnl_post_ops_t sums,
                               dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out_description) {
  dnnl_primitive_attr_t attributes = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, DELTA_ONEDNN(delta_onednn_call_primitive_attr_create(&attributes)), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user)), cleanup);
  if (sums) DELTA_GOTO_IF_ERROR(status, DELTA_ONEDNN(delta_onednn_call_primitive_attr_set_post_ops(attributes, sums)), cleanup);
  status = DELTA_ONEDNN(delta_onednn_call_primitive_desc_create(out_description, descriptor, attributes, primitive->engine, hint));
cleanup:
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  return status;
}

delta_status_t delta_onednn_describe(const delta_onednn_primitive_t *primitive, const void *descriptor, dnnl_primitive_desc_t hint,
                                     dnnl_primitive_desc_t *out_description) {
  return describe(primitive, descriptor, NULL, hint, out_description);
}

delta_status_t delta_onednn_describe_adding(const delta_onednn_primitive_t *primitive, const void *descriptor,
                                            dnnl_primitive_desc_t *out_description) {
  dnnl_post_ops_t sums = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, DELTA_ONEDNN(delta_onednn_call_post_ops_create(&sums)), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ONEDNN(delta_onednn_call_post_ops_append_sum(sums, 1.0f)), cleanup);
  status = describe(primitive, descriptor, sums, NULL, out_description);
cleanup:
  if (sums) dnnl_post_ops_destroy(sums);
  return status;
}

delta_status_t delta_onednn_make(delta_onednn_primitive_t *primitive, dnnl_primitive_desc_t description, size_t *out_scratchpad_bytes) {
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(delta_onednn_call_primitive_create(&primitive->primitive, description)));
  const dnnl_memory_desc_t *scratchpad = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
  *out_scratchpad_bytes = scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;
  if (*out_scratchpad_bytes == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_onednn_add(primitive, DNNL_ARG_SCRATCHPAD, scratchpad));
  primitive->scratchpad = primitive->args[primitive->arg_count - 1].memory;
  return DELTA_OK;
}

delta_status_t delta_onednn_build(delta_kernel_t *kernel, dnnl_primitive_desc_t description) {
  return delta_onednn_make(kernel->state, description, &kernel->workspace_bytes);
}

size_t delta_onednn_reserve(delta_kernel_t *kernel, size_t size_bytes) {
  enum { ALIGNMENT_BYTES = 64 };
  const size_t offset_bytes = kernel->workspace_bytes;
  kernel->workspace_bytes = (offset_bytes + size_bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
  return offset_bytes;
}

delta_status_t delta_onednn_reorder(const delta_onednn_primitive_t *primitive, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                                    dnnl_primitive_t *out_reorder) {
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_primitive_desc_t description = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, DELTA_ONEDNN(delta_onednn_call_primitive_attr_create(&attributes)), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user)), cleanup);
  DELTA_GOTO_IF_ERROR(status,
                      DELTA_ONEDNN(delta_onednn_call_reorder_primitive_desc_create(&description, from, primitive->engine, to,
                                                                                   primitive->engine, attributes)),
                      cleanup);
  const dnnl_memory_desc_t *scratchpad = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
  if (scratchpad && dnnl_memory_desc_get_size(scratchpad) > 0) {
    status = delta_status_make(UNSUPPORTED, "oneDNN's conversion of a layout needs a scratchpad");
    goto cleanup;
  }
  status = DELTA_ONEDNN(delta_onednn_call_primitive_create(out_reorder, description));
cleanup:
  if (description) dnnl_primitive_desc_destroy(description);
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  return status;
}

delta_status_t delta_onednn_convert(const delta_onednn_primitive_t *primitive, dnnl_primitive_t reorder, dnnl_memory_t from,
                                    dnnl_memory_t to) {
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(delta_onednn_call_primitive_execute(reorder, primitive->stream, 2, args)));
  return DELTA_ONEDNN(delta_onednn_call_stream_wait(primitive->stream));
}

delta_status_t delta_onednn_add(delta_onednn_primitive_t *primitive, int argument, const dnnl_memory_desc_t *layout) {
  if (primitive->arg_count == DELTA_ONEDNN_MAX_ARGS)
    return delta_status_make(INTERNAL, "oneDNN: more than %d arguments", DELTA_ONEDNN_MAX_ARGS);
  dnnl_memory_t memory = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(delta_onednn_call_memory_create(&memory, layout, primitive->engine, DNNL_MEMORY_NONE)));
  primitive->args[primitive->arg_count++] = (dnnl_exec_arg_t){.arg = argument, .memory = memory};
  return DELTA_OK;
}

delta_status_t delta_onednn_execute_primitive(const delta_onednn_primitive_t *primitive, const void *const *addresses, void *scratchpad) {
  for (int i = 0; i < primitive->arg_count; ++i) {
    bool is_scratchpad = primitive->args[i].memory == primitive->scratchpad;
    void *address = is_scratchpad ? scratchpad : (void *)(uintptr_t)addresses[i];
    DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(delta_onednn_call_memory_set_data_handle(primitive->args[i].memory, address)));
  }
  DELTA_RETURN_IF_ERROR(
      DELTA_ONEDNN(delta_onednn_call_primitive_execute(primitive->primitive, primitive->stream, primitive->arg_count, primitive->args)));
  return DELTA_ONEDNN(delta_onednn_call_stream_wait(primitive->stream));
}

delta_status_t delta_onednn_execute(const delta_kernel_t *kernel, const void *const *addresses, void *workspace) {
  return delta_onednn_execute_primitive(kernel->state, addresses, workspace);
}

void delta_onednn_deinit(delta_onednn_primitive_t *primitive) {
  for (int i = 0; i < primitive->arg_count; ++i) dnnl_memory_destroy(primitive->args[i].memory);
  if (primitive->primitive) dnnl_primitive_destroy(primitive->primitive);
  if (primitive->stream) dnnl_stream_destroy(primitive->stream);
  if (primitive->engine) dnnl_engine_destroy(primitive->engine);
}

void delta_onednn_release(delta_kernel_t *kernel) {
  if (!kernel->state) return;
  delta_onednn_deinit(kernel->state);
  delta_release(kernel->device->allocator, kernel->state);
}

// Inside oneDNN sizes are int in many places, and larger ones end in divisions by zero: no description of such a tensor is made, so that another
// kernel takes the node.
static delta_status_t check_size(const int64_t *dims, int32_t rank) {
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d) {
    if (dims[d] > INT32_MAX || __builtin_mul_overflow(count, dims[d] > 0 ? dims[d] : 1, &count) || count > INT32_MAX) {
      char text[DELTA_SHAPE_TEXT_BYTES];
      delta_shape_t shape = {.rank = rank < DELTA_MAX_RANK ? rank : DELTA_MAX_RANK};
      memcpy(shape.dims, dims, (size_t)shape.rank * sizeof *dims);
      return delta_status_make(UNSUPPORTED, "oneDNN does not take a tensor of %s elements", delta_shape_text(&shape, text));
    }
  }
  return DELTA_OK;
}

delta_status_t delta_onednn_strided(const int64_t *dims, const int64_t *strides, int32_t rank, dnnl_memory_desc_t *out_layout) {
  DELTA_RETURN_IF_ERROR(check_size(dims, rank));
  dnnl_dims_t dnnl_dims = {0}, dnnl_strides = {0};
  memcpy(dnnl_dims, dims, (size_t)rank * sizeof *dims);
  memcpy(dnnl_strides, strides, (size_t)rank * sizeof *strides);
  return DELTA_ONEDNN(dnnl_memory_desc_init_by_strides(out_layout, rank, dnnl_dims, dnnl_f32, dnnl_strides));
}

delta_status_t delta_onednn_dense(const int64_t *dims, int32_t rank, dnnl_memory_desc_t *out_layout) {
  int64_t strides[DNNL_MAX_NDIMS];
  int64_t stride = 1;
  DELTA_RETURN_IF_ERROR(check_size(dims, rank)); // also: the strides do not overflow
  for (int32_t d = rank - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= dims[d] > 0 ? dims[d] : 1;
  }
  return delta_onednn_strided(dims, strides, rank, out_layout);
}

delta_status_t delta_onednn_layout(const delta_shape_t *plain, delta_layout_t layout, dnnl_memory_desc_t *out_layout) {
  enum { LEAST_RANK = 3, RANKS = 3 };
  static const dnnl_format_tag_t tags[DELTA_LAYOUT_COUNT][RANKS] = {
      [DELTA_LAYOUT_PLAIN] = {dnnl_ncw, dnnl_nchw, dnnl_ncdhw},
      [DELTA_LAYOUT_CHANNELS_LAST] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc},
      [DELTA_LAYOUT_BLOCKED_8] = {dnnl_nCw8c, dnnl_nChw8c, dnnl_nCdhw8c},
      [DELTA_LAYOUT_BLOCKED_16] = {dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c},
  };
  DELTA_RETURN_IF_ERROR(check_size(plain->dims, plain->rank));
  dnnl_dims_t dims = {0};
  memcpy(dims, plain->dims, (size_t)plain->rank * sizeof *dims);
  return DELTA_ONEDNN(dnnl_memory_desc_init_by_tag(out_layout, plain->rank, dims, dnnl_f32, tags[layout][plain->rank - LEAST_RANK]));
}
