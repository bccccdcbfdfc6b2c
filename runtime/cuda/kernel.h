// CUDA kernels: rows of runtime/cuda/kernels.inc, for each core operator fast ones first and the most general last. There is no reference behind them: what no
// row takes cannot run on the device, and the refusals say why.
//
// A row has the functions that rows of runtime/cpu have; run puts its work into the stream it is given and returns. It neither allocates nor waits, so that it
// can be captured: tables that a kernel reads are brought to the device when it is prepared. Kernels are deterministic: sums have a fixed order, and nothing is added
// by atomic operations on floats.
#ifndef DELTA_RUNTIME_CUDA_KERNEL_H_
#define DELTA_RUNTIME_CUDA_KERNEL_H_

#include "runtime/cuda/device.h"
#include "runtime/kernel_rows.h"

// Counts changes of kernels of ours after which they give other bits or take other times: part of the names of the libraries, by which profiles and plans know
// that they were made with others.
enum { DELTA_CUDA_KERNELS_REVISION = 1 };

typedef struct delta_cuda_kernel_row {
  delta_kernel_row_t base;
  int32_t variant; // tells rows apart that share functions: an algorithm of a library
  delta_status_t (*run)(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream);
} delta_cuda_kernel_row_t;

static inline const delta_cuda_kernel_row_t *delta_cuda_kernel_row(const delta_kernel_t *kernel) {
  return (const delta_cuda_kernel_row_t *)kernel->row;
}

DELTA_MUST_USE delta_status_t delta_cuda_kernel_query(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node,
                                                      uint32_t rank, delta_kernel_offer_t *out_offer, bool *out_exists);
DELTA_MUST_USE delta_status_t delta_cuda_kernel_prepare(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node,
                                                        uint32_t rank, delta_kernel_t **out_kernel);
// Puts the kernel's work into the lane's stream. Errors name the node and the kernel.
DELTA_MUST_USE delta_status_t delta_cuda_launch(delta_device_t *device, delta_lane_t lane, delta_kernel_t *kernel,
                                                const delta_kernel_buffers_t *buffers);

// The functions of all rows.
#define DELTA_KERNEL(op, name, variant, refuse, prepare, run, release)                                          \
  const char *refuse(const delta_graph_t *graph, const delta_node_t *node);                                     \
  delta_status_t prepare(delta_kernel_t *kernel);                                                               \
  delta_status_t run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream); \
  void release(delta_kernel_t *kernel);
#include "runtime/cuda/kernels.inc"
#undef DELTA_KERNEL

// Shared by rows that need nothing special.
const char *delta_cuda_accept(const delta_graph_t *graph, const delta_node_t *node);
delta_status_t delta_cuda_prepare_nothing(delta_kernel_t *kernel);
void delta_cuda_release_state(delta_kernel_t *kernel); // delta_release of kernel->state
// Refuses unless all inputs and outputs that are there are of float types.
const char *delta_cuda_refuse_unless_float(const delta_graph_t *graph, const delta_node_t *node);

static inline const delta_tensor_t *delta_kernel_input(const delta_kernel_t *kernel, uint32_t k) {
  return delta_node_input(kernel->graph, kernel->node, k);
}
static inline const delta_tensor_t *delta_kernel_output(const delta_kernel_t *kernel, uint32_t k) {
  return delta_node_output(kernel->graph, kernel->node, k);
}
// Buffer k, or NULL beyond the node's list.
static inline const void *delta_kernel_input_data(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, uint32_t k) {
  return k < kernel->node->input_count ? buffers->inputs[k] : NULL;
}
static inline void *delta_kernel_output_data(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, uint32_t k) {
  return k < kernel->node->output_count ? buffers->outputs[k] : NULL;
}

#endif // DELTA_RUNTIME_CUDA_KERNEL_H_
