// Device run: one kernel is prepared, launched and destroyed at a time, so that nothing but the node's own buffers is in use.
#include "tests/support/device_run.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

enum { ALIGNMENT_BYTES = 64 };

static void *allocate_aligned(void *self, size_t size_bytes) {
  (void)self;
  size_t rounded_bytes;
  if (!delta_size_align(size_bytes, ALIGNMENT_BYTES, &rounded_bytes)) return NULL;
  return aligned_alloc(ALIGNMENT_BYTES, rounded_bytes);
}

static void release_aligned(void *self, void *pointer) {
  (void)self;
  free(pointer);
}

static void *reallocate_aligned(void *self, void *pointer, size_t size_bytes) {
  void *moved = allocate_aligned(self, size_bytes);
  if (moved && pointer) {
    const size_t held_bytes = malloc_usable_size(pointer);
    memcpy(moved, pointer, held_bytes < size_bytes ? held_bytes : size_bytes);
    free(pointer);
  }
  return moved;
}

delta_allocator_t delta_test_aligned_allocator(void) {
  return (delta_allocator_t){.allocate = allocate_aligned, .reallocate = reallocate_aligned, .release = release_aligned};
}

// The first kernel that does not refuse the node.
static delta_status_t choose_kernel(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t id, uint32_t *out_rank,
                                    delta_kernel_offer_t *out_offer) {
  bool exists = true;
  for (*out_rank = 0;; ++*out_rank) {
    DELTA_RETURN_IF_ERROR(device->driver->kernel_query(device, graph, id, *out_rank, out_offer, &exists));
    if (!exists) return delta_status_make(UNSUPPORTED, "node '%s': no kernel of the device runs it", delta_graph_node(graph, id)->name);
    if (!out_offer->refusal) return DELTA_OK;
  }
}

static delta_status_t run_on_device(void *self, const delta_reference_args_t *args) {
  delta_device_t *device = self;
  if (delta_core_op_info(args->node->op)->flags & DELTA_CORE_FLAG_VIEW) return delta_reference_view(args); // no work of a device
  const delta_node_id_t id = {(uint32_t)(args->node - args->graph->nodes.items)};
  uint32_t rank;
  delta_kernel_offer_t offer;
  DELTA_RETURN_IF_ERROR(choose_kernel(device, args->graph, id, &rank, &offer));
  delta_kernel_t *kernel = NULL;
  void *workspace = NULL;
  delta_status_t status = device->driver->kernel_prepare(device, args->graph, id, rank, &kernel);
  if (status) goto cleanup;
  DELTA_GOTO_IF_ERROR(status, delta_allocate(args->allocator, offer.workspace_bytes, 1, &workspace), cleanup);
  const delta_kernel_buffers_t buffers = {args->inputs, args->outputs, workspace};
  DELTA_GOTO_IF_ERROR(status, device->driver->launch(device, DELTA_LANE_COMPUTE, kernel, &buffers), cleanup);
  DELTA_GOTO_IF_ERROR(status, device->driver->synchronize(device), cleanup);
cleanup:
  device->driver->kernel_destroy(kernel);
  delta_release(args->allocator, workspace);
  return delta_status_annotate(status, "kernel '%s'", offer.name);
}

delta_status_t delta_test_cpu_run_graph(delta_reference_values_t *values) {
  const delta_device_options_t options = {0};
  delta_device_t *device = NULL;
  delta_status_t status = delta_device_open("cpu", &options, delta_allocator_system(), &device);
  if (!status) status = delta_reference_run_graph_by(values, run_on_device, device);
  delta_device_close(device);
  return status;
}
