// Device: what runs a plan. One struct of functions per driver (runtime/cpu, runtime/cuda: the same file names in both); everything above it sees only this.
//
// A kernel neither allocates nor synchronizes: its workspace is a planned buffer and order comes from lanes and events. Functions may be called by the
// thread that created the device only, unless a driver says more.
#ifndef DELTA_RUNTIME_DEVICE_H_
#define DELTA_RUNTIME_DEVICE_H_

#include <delta/log.h>

#include "onnx/graph/graph.h"
#include "plans/problem.h"
#include "plans/schedule.h"
#include "runtime/roofline.h"
#include "runtime/tier.h"

enum { DELTA_DEVICE_NAME_BYTES = 48, DELTA_DEVICE_TEXT_BYTES = 64 };

typedef struct delta_device delta_device_t;
typedef struct delta_kernel delta_kernel_t;
typedef struct delta_arena delta_arena_t;

// A kernel that could run a node, in the driver's order of preference (fast first, reference last).
typedef struct delta_kernel_offer {
  const char *name;
  size_t workspace_bytes;
  bool works_in_row;   // DELTA_STEP_IN_ROW: where the first output has the first input's address, all lie one behind another
  const char *refusal; // NULL: it can run the node; else why not
  bool is_last_resort; // neither measured nor compared: only where no other can run the node
} delta_kernel_offer_t;

// Addresses of one launch: one per node input and output, NULL where left out. Of a virtual input (onnx/graph/virtual.h): where the addresses of its parts are.
typedef struct delta_kernel_buffers {
  const void *const *inputs;
  void *const *outputs;
  void *workspace;
} delta_kernel_buffers_t;

typedef struct delta_device_options {
  int32_t threads;        // compute threads; 0: as many as the process may use
  bool reference_kernels; // only the plain reference kernels (tests)
  delta_log_sink_t log;
} delta_device_options_t;

// The word for host memory where a tier's folder is asked for.
#define DELTA_TIER_MEMORY "memory"

typedef struct delta_tier_options {
  const char *folder; // of a file, DELTA_TIER_MEMORY, or NULL: the device's own choice
  delta_log_sink_t log;
} delta_tier_options_t;

typedef struct delta_device_driver {
  const char *name; // "cpu"
  void (*destroy)(delta_device_t *device);

  // Memory. The arena is a reserved address range; only committed bytes count against the budget. Sizes are multiples of granule_bytes.
  delta_status_t (*arena_reserve)(delta_device_t *device, size_t reserve_bytes, delta_arena_t **out_arena);
  delta_status_t (*arena_commit)(delta_arena_t *arena, size_t committed_bytes); // grows or shrinks to this; shrinking gives pages back
  void (*arena_destroy)(delta_arena_t *arena);
  void *(*arena_address)(delta_arena_t *arena, size_t offset_bytes);
  size_t (*arena_committed)(const delta_arena_t *arena); // bytes that are committed now; NULL: the driver does not know
  delta_status_t (*tier_create)(delta_device_t *device, const delta_tier_options_t *options, delta_allocator_t allocator,
                                delta_tier_t **out_tier); // empty; the device outlives it

  // Kernels. `rank` counts from 0 over the offers for a node; false in *out_exists after the last.
  delta_status_t (*kernel_query)(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, uint32_t rank,
                                 delta_kernel_offer_t *out_offer, bool *out_exists);
  delta_status_t (*kernel_prepare)(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, uint32_t rank,
                                   delta_kernel_t **out_kernel);
  void (*kernel_destroy)(delta_kernel_t *kernel); // NULL is fine.

  // Lanes. On a device without queues of its own a launch runs before the call returns, and events are already reached.
  delta_status_t (*launch)(delta_device_t *device, delta_lane_t lane, delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers);
  delta_status_t (*signal)(delta_device_t *device, delta_lane_t lane, uint32_t event);
  delta_status_t (*wait)(delta_device_t *device, delta_lane_t lane, uint32_t event);
  delta_status_t (*synchronize)(delta_device_t *device);

  // Host access to device memory, after synchronize.
  delta_status_t (*write)(delta_device_t *device, void *destination, const void *source, size_t size_bytes);
  delta_status_t (*read)(delta_device_t *device, void *destination, const void *source, size_t size_bytes);
} delta_device_driver_t;

struct delta_device {
  const delta_device_driver_t *driver;
  const char *name; // "cpu", or that of a device that is not there, by its profile
  delta_allocator_t allocator;
  delta_log_sink_t log;
  int32_t threads;
  bool host_addressable;  // device memory can be read and written by the host directly
  bool reads_virtual;     // its kernels refuse virtual inputs where they cannot read them; else none may be given any
  size_t granule_bytes;   // of committed memory
  size_t alignment_bytes; // of buffers
  char instruction_set[DELTA_DEVICE_TEXT_BYTES]; // what the numerics depend on
  char libraries[DELTA_DEVICE_TEXT_BYTES];
  delta_roofline_t roofline;                                  // rough, until nodes are measured
  double offload_bytes_per_second, prefetch_bytes_per_second; // to the tier below and back: rough, until they are measured
  const struct delta_profile
      *profile; // all that is known of a device that is not there; NULL of those that are. Lives as long as the device
};

// Opens "cpu" (later "cuda[:N]"). NOT_FOUND or UNSUPPORTED name the device and what there is. Those that are not there: runtime/absent.h.
DELTA_MUST_USE delta_status_t delta_device_open(const char *name, const delta_device_options_t *options, delta_allocator_t allocator,
                                                delta_device_t **out_device);
void delta_device_close(delta_device_t *device); // NULL is fine.

// Bytes the device can give this process now: limits of the process and its group respected.
DELTA_MUST_USE delta_status_t delta_device_free_bytes(delta_device_t *device, uint64_t *out_free_bytes);

#endif // DELTA_RUNTIME_DEVICE_H_
