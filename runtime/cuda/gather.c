// GATHER, GATHER_GRAD, GATHER_ELEMENTS, SCATTER_ELEMENTS, GATHER_ND and SCATTER_ND: rows.
#include "runtime/cuda/gather.h"

#include "onnx/graph/access.h"
#include "runtime/cuda/kernel.h"

// Where a node has its indices.
static uint32_t indices_input(delta_core_op_t op) { return op == DELTA_CORE_GATHER_GRAD ? 0 : 1; }

const char *delta_cuda_gather_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_dtype_t indices = delta_node_input(graph, node, indices_input(node->op))->dtype;
  return indices == DELTA_DTYPE_INT64 || indices == DELTA_DTYPE_INT32 ? NULL : "the indices are neither int32 nor int64";
}

delta_status_t delta_cuda_gather_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_gather_attrs_t *attrs = kernel->node->attrs;
  const delta_tensor_t *x = delta_kernel_input(kernel, 0), *indices = delta_kernel_input(kernel, 1);
  const delta_lanes_t lanes = delta_lanes_of(&x->shape, attrs->axis);
  const delta_cuda_gather_t gather = {x->dtype, indices->dtype, lanes.outer, lanes.size, lanes.inner, delta_shape_count(&indices->shape)};
  return DELTA_CUDA_CHECK(delta_cuda_gather_launch(&gather, (int32_t)delta_dtype_bytes(x->dtype), buffers->inputs[0], buffers->inputs[1],
                                                   buffers->outputs[0], stream));
}

delta_status_t delta_cuda_gather_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_gather_attrs_t *attrs = kernel->node->attrs;
  const delta_tensor_t *indices = delta_kernel_input(kernel, 0), *dy = delta_kernel_input(kernel, 1);
  const delta_lanes_t lanes = delta_lanes_of(&attrs->data_shape, attrs->axis);
  const delta_cuda_gather_t gather = {dy->dtype, indices->dtype, lanes.outer, lanes.size, lanes.inner, delta_shape_count(&indices->shape)};
  return DELTA_CUDA_CHECK(delta_cuda_gather_grad_launch(&gather, buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], stream));
}

static delta_cuda_scatter_kind_t scatter_kind_of(delta_scatter_kind_t kind) {
  static const delta_cuda_scatter_kind_t kinds[] = {[DELTA_SCATTER_NONE] = DELTA_CUDA_SCATTER_NONE,
                                                    [DELTA_SCATTER_ADD] = DELTA_CUDA_SCATTER_ADD,
                                                    [DELTA_SCATTER_MUL] = DELTA_CUDA_SCATTER_MUL,
                                                    [DELTA_SCATTER_MAX] = DELTA_CUDA_SCATTER_MAX,
                                                    [DELTA_SCATTER_MIN] = DELTA_CUDA_SCATTER_MIN};
  return kinds[kind];
}

// y = data, before updates are applied to it.
static delta_status_t copy_data(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const size_t size_bytes = delta_tensor_bytes(delta_kernel_output(kernel, 0));
  if (size_bytes == 0 || buffers->inputs[0] == buffers->outputs[0]) return DELTA_OK;
  return DELTA_CUDA_CHECK(cudaMemcpyAsync(buffers->outputs[0], buffers->inputs[0], size_bytes, cudaMemcpyDeviceToDevice, stream));
}

// ---- One index for each element

static delta_cuda_elements_t elements_of(const delta_kernel_t *kernel, int32_t axis) {
  const delta_tensor_t *data = delta_kernel_input(kernel, 0), *indices = delta_kernel_input(kernel, 1);
  delta_cuda_elements_t elements = {.dtype = data->dtype,
                                    .element_bytes = (int32_t)delta_dtype_bytes(data->dtype),
                                    .indices = indices->dtype,
                                    .rank = indices->shape.rank,
                                    .axis = axis,
                                    .count = (uint64_t)delta_shape_count(&indices->shape),
                                    .axis_size = data->shape.dims[axis]};
  const int64_t along = indices->shape.dims[axis];
  elements.line_count = along ? elements.count / (uint64_t)along : 0;
  delta_shape_strides(&indices->shape, elements.index_strides);
  delta_shape_strides(&data->shape, elements.data_strides);
  for (int32_t d = 0; d < elements.rank; ++d) elements.dims[d] = delta_divisor_of((uint64_t)indices->shape.dims[d], elements.count);
  return elements;
}

delta_status_t delta_cuda_gather_elements_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_gather_attrs_t *attrs = kernel->node->attrs;
  const delta_cuda_elements_t elements = elements_of(kernel, attrs->axis);
  return DELTA_CUDA_CHECK(
      delta_cuda_gather_elements_launch(&elements, buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], stream));
}

delta_status_t delta_cuda_scatter_elements_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_scatter_attrs_t *attrs = kernel->node->attrs;
  delta_cuda_elements_t elements = elements_of(kernel, attrs->axis);
  elements.kind = scatter_kind_of(attrs->kind);
  DELTA_RETURN_IF_ERROR(copy_data(kernel, buffers, stream));
  return DELTA_CUDA_CHECK(
      delta_cuda_scatter_elements_launch(&elements, buffers->inputs[1], buffers->inputs[2], buffers->outputs[0], stream));
}

// ---- Tuples of indices

static delta_cuda_tuples_t tuples_of(const delta_kernel_t *kernel, int32_t batch_dims) {
  const delta_tensor_t *data = delta_kernel_input(kernel, 0), *indices = delta_kernel_input(kernel, 1);
  const delta_shape_t *shape = &indices->shape;
  delta_cuda_tuples_t tuples = {.dtype = data->dtype,
                                .element_bytes = (int32_t)delta_dtype_bytes(data->dtype),
                                .indices = indices->dtype,
                                .size = (int32_t)shape->dims[shape->rank - 1],
                                .tuples = (uint64_t)delta_shape_count_range(shape, 0, shape->rank - 1),
                                .batch_elements = delta_shape_count_range(&data->shape, batch_dims, data->shape.rank)};
  tuples.slice = delta_shape_count_range(&data->shape, batch_dims + tuples.size, data->shape.rank);
  const uint64_t count = tuples.tuples * (uint64_t)tuples.slice;
  tuples.by_slice = delta_divisor_of((uint64_t)tuples.slice, count);
  tuples.by_batch = delta_divisor_of((uint64_t)delta_shape_count_range(shape, batch_dims, shape->rank - 1), tuples.tuples);
  int64_t strides[DELTA_MAX_RANK];
  delta_shape_strides(&data->shape, strides);
  for (int32_t j = 0; j < tuples.size; ++j) {
    tuples.sizes[j] = data->shape.dims[batch_dims + j];
    tuples.strides[j] = strides[batch_dims + j];
  }
  return tuples;
}

delta_status_t delta_cuda_gather_nd_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_gather_attrs_t *attrs = kernel->node->attrs;
  const delta_cuda_tuples_t tuples = tuples_of(kernel, attrs->batch_dims);
  return DELTA_CUDA_CHECK(delta_cuda_gather_nd_launch(&tuples, buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], stream));
}

delta_status_t delta_cuda_scatter_nd_prepare(delta_kernel_t *kernel) {
  kernel->workspace_bytes = (size_t)tuples_of(kernel, 0).tuples * sizeof(int64_t);
  return DELTA_OK;
}

delta_status_t delta_cuda_scatter_nd_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_scatter_attrs_t *attrs = kernel->node->attrs;
  delta_cuda_tuples_t tuples = tuples_of(kernel, 0);
  tuples.kind = scatter_kind_of(attrs->kind);
  DELTA_RETURN_IF_ERROR(copy_data(kernel, buffers, stream));
  return DELTA_CUDA_CHECK(
      delta_cuda_scatter_nd_launch(&tuples, buffers->inputs[1], buffers->inputs[2], buffers->workspace, buffers->outputs[0], stream));
}
