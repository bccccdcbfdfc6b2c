// MAX_POOL, AVERAGE_POOL and their gradients: rows.
#include "runtime/cuda/pool.h"

#include "onnx/graph/window.h"
#include "runtime/cuda/kernel.h"

static bool is_gradient(delta_core_op_t op) { return op == DELTA_CORE_MAX_POOL_GRAD || op == DELTA_CORE_AVERAGE_POOL_GRAD; }

const char *delta_cuda_pool_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_pool_attrs_t *attrs = node->attrs;
  const delta_window_geometry_t window = delta_window_geometry(&attrs->window, attrs->data_spatial, attrs->out_spatial);
  if (node->op != DELTA_CORE_MAX_POOL && !delta_dtype_is_float(delta_node_input(graph, node, 0)->dtype))
    return "the input is not of a float type";
  enum { MOST = 1 << 24 }; // sums of products of two such stay within int32
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) {
    const int64_t reach = (window.kernel[d] - 1) * window.dilations[d] + window.strides[d] + window.pads[d] + window.pads_end[d];
    if (window.data[d] > MOST || window.out[d] > MOST || reach > MOST) return "a spatial dimension is too large";
    if (window.out[d] * window.strides[d] > 4 * (int64_t)MOST) return "a spatial dimension is too large";
  }
  return NULL;
}

// The channels that lie side by side: of a plain tensor one, of a blocked one those of a block.
static int64_t channels_of(const delta_pool_attrs_t *attrs, const delta_shape_t *physical) {
  return attrs->layout == DELTA_LAYOUT_PLAIN ? 1 : physical->dims[physical->rank - 1];
}

static delta_cuda_pool_t pool_of(const delta_kernel_t *kernel) {
  static const delta_cuda_pool_index_t indices[] = {[DELTA_POOL_INDEX_WINDOW] = DELTA_CUDA_POOL_WINDOW,
                                                    [DELTA_POOL_INDEX_FLAT] = DELTA_CUDA_POOL_FLAT,
                                                    [DELTA_POOL_INDEX_FLAT_COLUMN] = DELTA_CUDA_POOL_FLAT_COLUMN};
  const delta_pool_attrs_t *attrs = kernel->node->attrs;
  const delta_tensor_t *input = delta_kernel_input(kernel, 0), *output = delta_kernel_output(kernel, 0);
  const bool backwards = is_gradient(kernel->node->op);
  const delta_tensor_t *data = backwards ? output : input, *out = backwards ? input : output;
  const delta_window_geometry_t window = delta_window_geometry(&attrs->window, attrs->data_spatial, attrs->out_spatial);
  delta_cuda_pool_t pool = {.dtype = input->dtype,
                            .index = indices[attrs->index],
                            .count_include_pad = attrs->count_include_pad,
                            .data_count = window.data_count,
                            .out_count = window.out_count,
                            .data_elements = (uint64_t)delta_shape_count(&data->shape),
                            .out_elements = (uint64_t)delta_shape_count(&out->shape)};
  const uint64_t largest = pool.data_elements > pool.out_elements ? pool.data_elements : pool.out_elements;
  pool.by_channels = delta_divisor_of((uint64_t)channels_of(attrs, &input->shape), largest);
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) {
    pool.kernel[d] = (int32_t)window.kernel[d];
    pool.strides[d] = (int32_t)window.strides[d];
    pool.dilations[d] = (int32_t)window.dilations[d];
    pool.pads[d] = (int32_t)window.pads[d];
    pool.pads_end[d] = (int32_t)window.pads_end[d];
    pool.data[d] = (int32_t)window.data[d];
    pool.out[d] = (int32_t)window.out[d];
    pool.by_data[d] = delta_divisor_of((uint64_t)window.data[d], largest);
    pool.by_out[d] = delta_divisor_of((uint64_t)window.out[d], largest);
  }
  return pool;
}

delta_status_t delta_cuda_max_pool_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_pool_t pool = pool_of(kernel);
  return DELTA_CUDA_CHECK(
      delta_cuda_max_pool_launch(&pool, buffers->inputs[0], buffers->outputs[0], delta_kernel_output_data(kernel, buffers, 1), stream));
}

delta_status_t delta_cuda_max_pool_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_pool_t pool = pool_of(kernel);
  return DELTA_CUDA_CHECK(delta_cuda_max_pool_grad_launch(&pool, buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], stream));
}

delta_status_t delta_cuda_average_pool_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_pool_t pool = pool_of(kernel);
  return DELTA_CUDA_CHECK(delta_cuda_average_pool_launch(&pool, buffers->inputs[0], buffers->outputs[0], stream));
}

delta_status_t delta_cuda_average_pool_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_cuda_pool_t pool = pool_of(kernel);
  return DELTA_CUDA_CHECK(delta_cuda_average_pool_grad_launch(&pool, buffers->inputs[0], buffers->outputs[0], stream));
}
