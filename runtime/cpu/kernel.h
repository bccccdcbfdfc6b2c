// CPU kernels: rows of runtime/cpu/kernels.inc, for each core operator fast ones first and the plain reference last.
//
// A row has four functions: refuse (why it cannot run a node, NULL when it can), prepare (makes what a run needs: a primitive, loop bounds; states the
// workspace), run (neither allocates nor synchronizes), release. Kernels are deterministic for a given thread count: work is cut by static rules.
#ifndef DELTA_RUNTIME_CPU_KERNEL_H_
#define DELTA_RUNTIME_CPU_KERNEL_H_

#include "runtime/kernel_rows.h"

// Counts changes of kernels of ours after which they give other bits or take other times: part of the names of the libraries, by which profiles and plans know
// that they were made with others.
enum { DELTA_CPU_KERNELS_REVISION = 4 };

typedef struct delta_cpu_kernel_row {
  delta_kernel_row_t base;
  delta_status_t (*run)(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers);
} delta_cpu_kernel_row_t;

static inline delta_status_t delta_cpu_kernel_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  return ((const delta_cpu_kernel_row_t *)kernel->row)->run(kernel, buffers);
}

DELTA_MUST_USE delta_status_t delta_cpu_kernel_query(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node,
                                                     uint32_t rank, delta_kernel_offer_t *out_offer, bool *out_exists);
DELTA_MUST_USE delta_status_t delta_cpu_kernel_prepare(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node,
                                                       uint32_t rank, delta_kernel_t **out_kernel);
DELTA_MUST_USE delta_status_t delta_cpu_launch(delta_device_t *device, delta_lane_t lane, delta_kernel_t *kernel,
                                               const delta_kernel_buffers_t *buffers);

// The functions of all rows.
#define DELTA_KERNEL(op, name, refuse, prepare, run, release)                              \
  const char *refuse(const delta_graph_t *graph, const delta_node_t *node);                \
  delta_status_t prepare(delta_kernel_t *kernel);                                          \
  delta_status_t run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers); \
  void release(delta_kernel_t *kernel);
#include "runtime/cpu/kernels.inc"
#undef DELTA_KERNEL

// Shared by rows that need nothing special.
const char *delta_cpu_accept(const delta_graph_t *graph, const delta_node_t *node);
delta_status_t delta_cpu_prepare_nothing(delta_kernel_t *kernel);
void delta_cpu_release_state(delta_kernel_t *kernel); // delta_release of kernel->state
// Refuses unless all inputs and outputs present are float32.
const char *delta_cpu_refuse_unless_float32(const delta_graph_t *graph, const delta_node_t *node);

#endif // DELTA_RUNTIME_CPU_KERNEL_H_
