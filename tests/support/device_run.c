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

// Operands of a launch, where the device can reach them.
enum { MOST_OPERANDS = 64, PLACE_BYTES = 256 };
typedef struct placed {
  const void *inputs[MOST_OPERANDS];
  void *outputs[MOST_OPERANDS];
  void *workspace;      // Owned by the host's allocator where the device has no arena.
  delta_arena_t *arena; // Owned; NULL: the host's memory is the device's
} placed_t;

static size_t operand_bytes(const delta_graph_t *graph, delta_tensor_id_t id) {
  return delta_tensor_is_none(id) ? 0 : delta_tensor_bytes(delta_graph_tensor(graph, id));
}

// The next place in the arena for so many bytes.
static size_t take_place(size_t *end_bytes, size_t size_bytes) {
  const size_t offset_bytes = *end_bytes;
  *end_bytes += (size_bytes / PLACE_BYTES + 1) * PLACE_BYTES;
  return offset_bytes;
}

// Copies to an arena of the device's memory.
static delta_status_t place_in_arena(delta_device_t *device, const delta_reference_args_t *args, size_t workspace_bytes, placed_t *placed) {
  const delta_node_t *node = args->node;
  size_t end_bytes = 0, offsets[2][MOST_OPERANDS];
  for (uint32_t k = 0; k < node->input_count; ++k) offsets[0][k] = take_place(&end_bytes, operand_bytes(args->graph, node->inputs[k]));
  for (uint32_t k = 0; k < node->output_count; ++k) offsets[1][k] = take_place(&end_bytes, operand_bytes(args->graph, node->outputs[k]));
  const size_t workspace_offset = take_place(&end_bytes, workspace_bytes), granule_bytes = device->granule_bytes;
  end_bytes = (end_bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
  DELTA_RETURN_IF_ERROR(device->driver->arena_reserve(device, end_bytes, &placed->arena));
  DELTA_RETURN_IF_ERROR(device->driver->arena_commit(placed->arena, end_bytes));
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (!args->inputs[k]) continue;
    void *address = device->driver->arena_address(placed->arena, offsets[0][k]);
    placed->inputs[k] = address;
    DELTA_RETURN_IF_ERROR(device->driver->write(device, address, args->inputs[k], operand_bytes(args->graph, node->inputs[k])));
  }
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (args->outputs[k]) placed->outputs[k] = device->driver->arena_address(placed->arena, offsets[1][k]);
  }
  placed->workspace = device->driver->arena_address(placed->arena, workspace_offset);
  return DELTA_OK;
}

static delta_status_t place(delta_device_t *device, const delta_reference_args_t *args, size_t workspace_bytes, placed_t *placed) {
  const delta_node_t *node = args->node;
  if (node->input_count > MOST_OPERANDS || node->output_count > MOST_OPERANDS) {
    return delta_status_make(UNSUPPORTED, "node '%s' has more than %d operands", node->name, MOST_OPERANDS);
  }
  if (!device->host_addressable) return place_in_arena(device, args, workspace_bytes, placed);
  if (node->input_count) memcpy(placed->inputs, args->inputs, node->input_count * sizeof *placed->inputs);
  if (node->output_count) memcpy(placed->outputs, args->outputs, node->output_count * sizeof *placed->outputs);
  return delta_allocate(args->allocator, workspace_bytes, 1, &placed->workspace);
}

static delta_status_t fetch(delta_device_t *device, const delta_reference_args_t *args, const placed_t *placed) {
  const delta_node_t *node = args->node;
  for (uint32_t k = 0; k < node->output_count && placed->arena; ++k) {
    if (!args->outputs[k]) continue;
    DELTA_RETURN_IF_ERROR(device->driver->read(device, args->outputs[k], placed->outputs[k], operand_bytes(args->graph, node->outputs[k])));
  }
  return DELTA_OK;
}

static void unplace(delta_device_t *device, const delta_reference_args_t *args, placed_t *placed) {
  if (device->host_addressable) {
    delta_release(args->allocator, placed->workspace);
  } else {
    device->driver->arena_destroy(placed->arena);
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
  placed_t placed = {0};
  delta_status_t status = device->driver->kernel_prepare(device, args->graph, id, rank, &kernel);
  if (status) goto cleanup;
  DELTA_GOTO_IF_ERROR(status, place(device, args, offer.workspace_bytes, &placed), cleanup);
  const delta_kernel_buffers_t buffers = {placed.inputs, placed.outputs, placed.workspace};
  DELTA_GOTO_IF_ERROR(status, device->driver->launch(device, DELTA_LANE_COMPUTE, kernel, &buffers), cleanup);
  DELTA_GOTO_IF_ERROR(status, device->driver->synchronize(device), cleanup);
  status = fetch(device, args, &placed);
cleanup:
  device->driver->kernel_destroy(kernel);
  unplace(device, args, &placed);
  return delta_status_annotate(status, "kernel '%s'", offer.name);
}

static delta_status_t run_graph_on(const char *device_name, delta_reference_values_t *values) {
  const delta_device_options_t options = {0};
  delta_device_t *device = NULL;
  delta_status_t status = delta_device_open(device_name, &options, delta_allocator_system(), &device);
  if (!status) status = delta_reference_run_graph_by(values, run_on_device, device);
  delta_device_close(device);
  return status;
}

delta_status_t delta_test_cpu_run_graph(delta_reference_values_t *values) { return run_graph_on("cpu", values); }

delta_status_t delta_test_cuda_run_graph(delta_reference_values_t *values) { return run_graph_on("cuda", values); }
