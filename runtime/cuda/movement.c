// Movement: CONSTANT, VIEW, TRANSPOSE, SLICE, SLICE_GRAD, PAD, PAD_GRAD and TRILU. Elements are moved as bytes, whatever their type.
#include "runtime/cuda/movement.h"

#include <string.h>

#include "runtime/cuda/copy.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/table.h"

// ---- Constants and views

delta_status_t delta_cuda_constant_prepare(delta_kernel_t *kernel) {
  const delta_constant_attrs_t *attrs = kernel->node->attrs;
  return delta_cuda_table_make(kernel->device, attrs->data, delta_tensor_bytes(delta_kernel_output(kernel, 0)), &kernel->state);
}

void delta_cuda_constant_release(delta_kernel_t *kernel) { delta_cuda_table_free(kernel->state); }

static delta_status_t copy_all(const delta_kernel_t *kernel, const void *from, void *to, cudaStream_t stream) {
  const size_t size_bytes = delta_tensor_bytes(delta_kernel_output(kernel, 0));
  if (size_bytes == 0 || from == to) return DELTA_OK;
  return DELTA_CUDA_CHECK(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToDevice, stream));
}

delta_status_t delta_cuda_constant_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  return copy_all(kernel, kernel->state, buffers->outputs[0], stream);
}

delta_status_t delta_cuda_view_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  return copy_all(kernel, buffers->inputs[0], buffers->outputs[0], stream);
}

// ---- One box

static delta_status_t make_copies(delta_kernel_t *kernel, size_t count, delta_cuda_copy_t **out_copies) {
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, count, out_copies));
  kernel->state = *out_copies;
  return DELTA_OK;
}

delta_status_t delta_cuda_copy_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  return DELTA_CUDA_CHECK(delta_cuda_copy_launch(kernel->state, buffers->outputs[0], buffers->inputs[0], stream));
}

// A box placed among zeros.
delta_status_t delta_cuda_place_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const size_t size_bytes = delta_tensor_bytes(delta_kernel_output(kernel, 0));
  if (size_bytes) DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaMemsetAsync(buffers->outputs[0], 0, size_bytes, stream)));
  return delta_cuda_copy_run(kernel, buffers, stream);
}

delta_status_t delta_cuda_transpose_prepare(delta_kernel_t *kernel) {
  const delta_transpose_attrs_t *attrs = kernel->node->attrs;
  const delta_tensor_t *x = delta_kernel_input(kernel, 0), *y = delta_kernel_output(kernel, 0);
  delta_cuda_copy_t *copy = NULL;
  DELTA_RETURN_IF_ERROR(make_copies(kernel, 1, &copy));
  int64_t x_strides[DELTA_MAX_RANK];
  delta_shape_strides(&x->shape, x_strides);
  delta_strided_t from = {0}, to = {0};
  delta_shape_strides(&y->shape, to.strides);
  for (int32_t d = 0; d < y->shape.rank; ++d) from.strides[d] = x_strides[attrs->permutation[d]];
  delta_cuda_copy_init(copy, &y->shape, delta_dtype_bytes(y->dtype), &to, &from);
  return DELTA_OK;
}

// The slice itself, and its gradient, which goes the other way.
static delta_status_t prepare_slice(delta_kernel_t *kernel, const delta_shape_t *whole, bool into_whole) {
  const delta_slice_attrs_t *attrs = kernel->node->attrs;
  delta_cuda_copy_t *copy = NULL;
  DELTA_RETURN_IF_ERROR(make_copies(kernel, 1, &copy));
  const delta_strided_t in_whole = delta_strided_slice(attrs, whole);
  delta_strided_t in_part = {0};
  delta_shape_strides(&attrs->shape, in_part.strides);
  delta_cuda_copy_init(copy, &attrs->shape, delta_dtype_bytes(delta_kernel_input(kernel, 0)->dtype), into_whole ? &in_whole : &in_part,
                       into_whole ? &in_part : &in_whole);
  return DELTA_OK;
}

delta_status_t delta_cuda_slice_prepare(delta_kernel_t *kernel) {
  return prepare_slice(kernel, &delta_kernel_input(kernel, 0)->shape, false);
}

delta_status_t delta_cuda_slice_grad_prepare(delta_kernel_t *kernel) {
  const delta_slice_attrs_t *attrs = kernel->node->attrs;
  return prepare_slice(kernel, &attrs->data_shape, true);
}

// ---- Padding

static delta_cuda_pad_mode_t pad_mode_of(delta_pad_mode_t mode) {
  static const delta_cuda_pad_mode_t modes[] = {[DELTA_PAD_CONSTANT] = DELTA_CUDA_PAD_CONSTANT,
                                                [DELTA_PAD_REFLECT] = DELTA_CUDA_PAD_REFLECT,
                                                [DELTA_PAD_EDGE] = DELTA_CUDA_PAD_EDGE,
                                                [DELTA_PAD_WRAP] = DELTA_CUDA_PAD_WRAP};
  return modes[mode];
}

static delta_cuda_pad_t pad_of(const delta_kernel_t *kernel, const delta_tensor_t *x, const delta_tensor_t *y) {
  const delta_pad_attrs_t *attrs = kernel->node->attrs;
  delta_cuda_pad_t pad = {.dtype = x->dtype,
                          .element_bytes = (int32_t)delta_dtype_bytes(x->dtype),
                          .mode = pad_mode_of(attrs->mode),
                          .rank = x->shape.rank,
                          .x_count = (uint64_t)delta_shape_count(&x->shape),
                          .y_count = (uint64_t)delta_shape_count(&y->shape)};
  delta_shape_strides(&x->shape, pad.x_strides);
  delta_shape_strides(&y->shape, pad.y_strides);
  for (int32_t d = 0; d < pad.rank; ++d) {
    pad.x_dims[d] = delta_divisor_of((uint64_t)x->shape.dims[d], pad.x_count);
    pad.y_dims[d] = delta_divisor_of((uint64_t)y->shape.dims[d], pad.y_count);
    pad.first[d] = attrs->begin[d] < 0 ? -attrs->begin[d] : 0;
    pad.kept[d] = x->shape.dims[d] - pad.first[d] - (attrs->end[d] < 0 ? -attrs->end[d] : 0);
    pad.before[d] = attrs->begin[d] > 0 ? attrs->begin[d] : 0;
    pad.after[d] = attrs->end[d] > 0 ? attrs->end[d] : 0;
  }
  char value[sizeof pad.value] = {0};
  delta_element_store_double(value, x->dtype, 0, attrs->value);
  memcpy(&pad.value, value, sizeof value);
  return pad;
}

delta_status_t delta_cuda_pad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_pad_t pad = pad_of(kernel, delta_kernel_input(kernel, 0), delta_kernel_output(kernel, 0));
  return DELTA_CUDA_CHECK(delta_cuda_pad_launch(&pad, buffers->inputs[0], buffers->outputs[0], stream));
}

delta_status_t delta_cuda_pad_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_pad_t pad = pad_of(kernel, delta_kernel_output(kernel, 0), delta_kernel_input(kernel, 0));
  return DELTA_CUDA_CHECK(delta_cuda_pad_grad_launch(&pad, buffers->inputs[0], buffers->outputs[0], stream));
}

// ---- Triangles

delta_status_t delta_cuda_trilu_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_trilu_attrs_t *attrs = kernel->node->attrs;
  const delta_tensor_t *x = delta_kernel_input(kernel, 0);
  const delta_cuda_triangle_t triangle = {.element_bytes = (int32_t)delta_dtype_bytes(x->dtype),
                                          .count = (uint64_t)delta_shape_count(&x->shape),
                                          .rows = x->shape.dims[x->shape.rank - 2],
                                          .columns = x->shape.dims[x->shape.rank - 1],
                                          .k = attrs->k,
                                          .upper = attrs->upper};
  return DELTA_CUDA_CHECK(delta_cuda_triangle_launch(&triangle, buffers->inputs[0], buffers->outputs[0], stream));
}
