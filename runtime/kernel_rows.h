// Kernel rows: what the drivers' tables of kernels have in common. A driver's row begins with one of these and goes on with the function that runs the kernel, whose parameters are the
// driver's own.
#ifndef DELTA_RUNTIME_KERNEL_ROWS_H_
#define DELTA_RUNTIME_KERNEL_ROWS_H_

#include "runtime/device.h"

typedef struct delta_kernel_row {
  delta_core_op_t op;
  const char *name; // NULL behind the last of a table
  // A reason in a few words, or NULL.
  const char *(*refuse)(const delta_graph_t *graph, const delta_node_t *node);
  // Fills kernel->state (from the device's allocator) and kernel->workspace_bytes. UNSUPPORTED: a library has nothing for these shapes.
  delta_status_t (*prepare)(delta_kernel_t *kernel);
  void (*release)(delta_kernel_t *kernel); // also of what a failed prepare has left
} delta_kernel_row_t;

struct delta_kernel {
  const delta_kernel_row_t *row; // the beginning of a row of the device's driver
  delta_device_t *device;        // Borrowed.
  const delta_graph_t *graph;    // Borrowed.
  const delta_node_t *node;      // Borrowed.
  int32_t threads;               // that compute
  void *state;                   // Owned; the row's.
  size_t workspace_bytes;
  bool works_in_row;  // set by prepare: as a kernel offer's
  bool reads_virtual; // set by prepare: it takes virtual inputs
};

// What device->driver->kernel_prepare does with the row that it found; NULL: there is none of this rank, which is a mistake of ours.
DELTA_MUST_USE delta_status_t delta_kernel_make(const delta_kernel_row_t *row, delta_device_t *device, const delta_graph_t *graph,
                                                delta_node_id_t node, uint32_t rank, delta_kernel_t **out_kernel);
void delta_kernel_free(delta_kernel_t *kernel); // NULL is fine.
// What device->driver->kernel_query does with it; NULL: no such kernel exists.
DELTA_MUST_USE delta_status_t delta_kernel_offer(const delta_kernel_row_t *row, delta_device_t *device, const delta_graph_t *graph,
                                                 delta_node_id_t node, uint32_t rank, delta_kernel_offer_t *out_offer, bool *out_exists);

#endif // DELTA_RUNTIME_KERNEL_ROWS_H_
