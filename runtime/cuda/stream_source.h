// Stream source: a node's two inputs, seed and draw, from which a stream of random numbers gets its key. What DROPOUT, RANDOM and attention share.
#ifndef DELTA_RUNTIME_CUDA_STREAM_SOURCE_H_
#define DELTA_RUNTIME_CUDA_STREAM_SOURCE_H_

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/random.h"

// Refuses types that kernels do not read; `seed_input` is the seed's, the draw follows it. Inputs that are left out are fine.
static inline const char *delta_cuda_stream_refuse(const delta_graph_t *graph, const delta_node_t *node, uint32_t seed_input) {
  for (uint32_t k = seed_input; k < seed_input + 2 && k < node->input_count; ++k) {
    const delta_tensor_t *number = delta_node_input(graph, node, k);
    if (number && number->dtype != DELTA_DTYPE_INT64 && number->dtype != DELTA_DTYPE_INT32)
      return "seed and draw are neither int32 nor int64";
  }
  return NULL;
}

// With seed NULL where the inputs are left out.
static inline delta_cuda_stream_t delta_cuda_stream_of(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers,
                                                       uint32_t seed_input, uint64_t stream) {
  delta_cuda_stream_t source = {.stream = stream};
  if (!delta_kernel_input_data(kernel, buffers, seed_input + 1)) return source;
  source.seed = buffers->inputs[seed_input];
  source.draw = buffers->inputs[seed_input + 1];
  source.seed_dtype = delta_kernel_input(kernel, seed_input)->dtype;
  source.draw_dtype = delta_kernel_input(kernel, seed_input + 1)->dtype;
  return source;
}

#endif // DELTA_RUNTIME_CUDA_STREAM_SOURCE_H_
