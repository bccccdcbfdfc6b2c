// DROPOUT and RANDOM: rows.
#include "runtime/cuda/random.h"

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/stream_source.h"

const char *delta_cuda_dropout_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  if (!delta_dtype_is_float(delta_node_input(graph, node, 0)->dtype)) return "the input is not of a float type";
  return delta_cuda_stream_refuse(graph, node, 1);
}

const char *delta_cuda_random_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  return delta_cuda_stream_refuse(graph, node, 0);
}

delta_status_t delta_cuda_dropout_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_dropout_attrs_t *attrs = kernel->node->attrs;
  const delta_tensor_t *x = delta_kernel_input(kernel, 0);
  const delta_cuda_stream_t source = delta_cuda_stream_of(kernel, buffers, 1, attrs->stream);
  const delta_cuda_dropout_t dropout = {x->dtype, (uint64_t)delta_shape_count(&x->shape), attrs->ratio, (uint64_t)attrs->first};
  return DELTA_CUDA_CHECK(delta_cuda_dropout_launch(&dropout, &source, buffers->inputs[0], buffers->outputs[0],
                                                    delta_kernel_output_data(kernel, buffers, 1), stream));
}

delta_status_t delta_cuda_random_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_random_attrs_t *attrs = kernel->node->attrs;
  const delta_cuda_stream_t source = delta_cuda_stream_of(kernel, buffers, 0, attrs->stream);
  const delta_cuda_random_t random = {attrs->dtype, (uint64_t)delta_shape_count(&attrs->shape), attrs->normal, attrs->low, attrs->high};
  return DELTA_CUDA_CHECK(delta_cuda_random_launch(&random, &source, buffers->outputs[0], stream));
}
