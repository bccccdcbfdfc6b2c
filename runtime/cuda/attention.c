// ATTENTION and ATTENTION_GRAD: rows.
#include "runtime/cuda/attention.h"

#include <math.h>

#include "onnx/graph/attention_dims.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/stream_source.h"

static uint32_t first_input(delta_core_op_t op) { return op == DELTA_CORE_ATTENTION ? 0 : DELTA_ATTENTION_GRAD_INPUTS; }

const char *delta_cuda_attention_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const uint32_t first = first_input(node->op), seed = first + DELTA_ATTENTION_SEED;
  const delta_dtype_t dtype = delta_node_input(graph, node, first)->dtype;
  if (!delta_dtype_is_float(dtype)) return "the queries are not of a float type";
  for (uint32_t k = 0; k < node->input_count && k < seed; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, node, k);
    if (input && input->dtype != dtype) return "the inputs are of different types";
  }
  return delta_cuda_stream_refuse(graph, node, seed);
}

static void add_mask_dimension(delta_cuda_mask_dims_t *dims, int64_t size, int64_t matrix_stride, int64_t mask_stride, uint64_t largest) {
  dims->dims[dims->rank] = delta_divisor_of((uint64_t)size, largest);
  dims->matrix_strides[dims->rank] = matrix_stride;
  dims->mask_strides[dims->rank] = mask_stride;
  dims->count *= (uint64_t)size;
  ++dims->rank;
}

static void describe_mask(delta_cuda_attention_t *self, const delta_attention_dims_t *dims, const delta_tensor_t *tensor) {
  const delta_attention_mask_t mask = delta_attention_mask(dims, &tensor->shape);
  const int32_t leading = dims->scores.rank - 2;
  self->mask_row = mask.row;
  self->mask_column = mask.column;
  self->mask_count = delta_shape_count(&tensor->shape);
  self->all.count = self->kept.count = self->repeated.count = 1;
  for (int32_t d = 0; d < leading; ++d) {
    const int64_t size = dims->scores.dims[d], matrix_stride = delta_shape_count_range(&dims->scores, d + 1, leading);
    const uint64_t largest = (uint64_t)dims->matrices;
    add_mask_dimension(&self->all, size, matrix_stride, mask.strides[d], largest);
    add_mask_dimension(mask.strides[d] ? &self->kept : &self->repeated, size, matrix_stride, mask.strides[d], largest);
  }
}

static delta_cuda_attention_t attention_of(const delta_kernel_t *kernel) {
  const delta_attention_attrs_t *attrs = kernel->node->attrs;
  const delta_attention_dims_t dims = delta_attention_dims_of(kernel->graph, kernel->node);
  const uint32_t first = first_input(kernel->node->op);
  delta_cuda_attention_t self = {.dtype = delta_kernel_input(kernel, first)->dtype,
                                 .matrices = dims.matrices,
                                 .heads = dims.heads,
                                 .queries = dims.queries,
                                 .keys = dims.keys,
                                 .size = dims.size,
                                 .value_size = dims.value_size,
                                 .scale = attrs->scale,
                                 .hidden_rows_zero = attrs->hidden_rows_zero,
                                 .threshold = (uint32_t)ceil(attrs->ratio * 0x1p24),
                                 .kept_factor = 1 / (1 - attrs->ratio),
                                 .first = (uint64_t)attrs->first};
  const delta_tensor_t *mask = delta_kernel_input(kernel, first + DELTA_ATTENTION_MASK);
  if (mask) describe_mask(&self, &dims, mask);
  return self;
}

delta_status_t delta_cuda_attention_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_attention_attrs_t *attrs = kernel->node->attrs;
  const delta_cuda_attention_t attention = attention_of(kernel);
  const delta_cuda_stream_t source = delta_cuda_stream_of(kernel, buffers, DELTA_ATTENTION_SEED, attrs->stream);
  return DELTA_CUDA_CHECK(delta_cuda_attention_launch(&attention, &source, buffers->inputs[DELTA_ATTENTION_QUERY],
                                                      buffers->inputs[DELTA_ATTENTION_KEY], buffers->inputs[DELTA_ATTENTION_VALUE],
                                                      delta_kernel_input_data(kernel, buffers, DELTA_ATTENTION_MASK), buffers->outputs[0],
                                                      delta_kernel_output_data(kernel, buffers, 1), stream));
}

delta_status_t delta_cuda_attention_grad_prepare(delta_kernel_t *kernel) {
  const delta_cuda_attention_t attention = attention_of(kernel);
  kernel->workspace_bytes = delta_cuda_attention_grad_workspace(&attention, delta_kernel_output(kernel, 3) != NULL);
  return DELTA_OK;
}

delta_status_t delta_cuda_attention_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_attention_attrs_t *attrs = kernel->node->attrs;
  const uint32_t first = DELTA_ATTENTION_GRAD_INPUTS;
  const delta_cuda_attention_t attention = attention_of(kernel);
  const delta_cuda_stream_t source = delta_cuda_stream_of(kernel, buffers, first + DELTA_ATTENTION_SEED, attrs->stream);
  const delta_cuda_attention_gradient_t gradient = {.dy = buffers->inputs[DELTA_ATTENTION_GRAD_DY],
                                                    .y = buffers->inputs[DELTA_ATTENTION_GRAD_Y],
                                                    .log_sums = buffers->inputs[DELTA_ATTENTION_GRAD_LOG_SUM],
                                                    .query = buffers->inputs[first + DELTA_ATTENTION_QUERY],
                                                    .key = buffers->inputs[first + DELTA_ATTENTION_KEY],
                                                    .value = buffers->inputs[first + DELTA_ATTENTION_VALUE],
                                                    .mask = delta_kernel_input_data(kernel, buffers, first + DELTA_ATTENTION_MASK),
                                                    .dquery = buffers->outputs[0],
                                                    .dkey = buffers->outputs[1],
                                                    .dvalue = buffers->outputs[2],
                                                    .dmask = delta_kernel_output_data(kernel, buffers, 3),
                                                    .workspace = buffers->workspace};
  return DELTA_CUDA_CHECK(delta_cuda_attention_grad_launch(&attention, &source, &gradient, stream));
}
