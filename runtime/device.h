// Device: what runs a plan. One struct of functions per driver (runtime/cpu, runtime/cuda: the same file names in both); everything above it sees only this.
//
// A kernel neither allocates nor synchronizes: its workspace is a planned buffer and order comes from lanes and events. Functions may be called by the
// thread that created the device only, unless a driver says more.
//
// A device either runs a launch before the call returns, and the runtime has threads for copies (lanes.h), or it has queues, one a lane: then calls only put work
// into them, and until `synchronize` nobody knows how far it is.
#ifndef DELTA_RUNTIME_DEVICE_H_
#define DELTA_RUNTIME_DEVICE_H_

#include <delta/log.h>

#include "onnx/graph/graph.h"
#include "plans/float_math.h"
#include "plans/problem.h"
#include "plans/schedule.h"
#include "runtime/roofline.h"
#include "runtime/tier.h"

enum { DELTA_DEVICE_NAME_BYTES = 48, DELTA_DEVICE_TEXT_BYTES = 64 };

typedef struct delta_device delta_device_t;
typedef struct delta_kernel delta_kernel_t;
typedef struct delta_arena delta_arena_t;
typedef struct delta_recording delta_recording_t;

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
  int32_t threads;         // compute threads; 0: as many as the process may use
  delta_float_math_t math; // refused where the device has no such
  bool reference_kernels;  // only the plain reference kernels (tests)
  delta_log_sink_t log;
} delta_device_options_t;

// The word for host memory where a tier's folder is asked for.
#define DELTA_TIER_MEMORY "memory"

typedef struct delta_tier_options {
  const char *folder; // of a file, DELTA_TIER_MEMORY, or NULL: the device's own choice
  delta_log_sink_t log;
} delta_tier_options_t;

typedef struct delta_device_driver {
  void (*destroy)(delta_device_t *device);
  delta_status_t (*free_bytes)(delta_device_t *device, uint64_t *out_free_bytes);

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

  // Lanes.
  delta_status_t (*launch)(delta_device_t *device, delta_lane_t lane, delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers);
  delta_status_t (*synchronize)(delta_device_t *device); // waits for all that was put into queues

  // Of devices that have queues; NULL for others. All but `elapsed` and `recording_destroy` only put something into a queue. Events (of order) and marks (of time) are
  // numbered from 0 and used by all programs in turn; queues_reserve makes as many as there are not yet, and so does not happen during a step.
  delta_status_t (*queues_reserve)(delta_device_t *device, uint32_t event_count, uint32_t mark_count);
  delta_status_t (*signal)(delta_device_t *device, delta_lane_t lane, uint32_t event);
  delta_status_t (*wait)(delta_device_t *device, delta_lane_t lane, uint32_t event);
  delta_status_t (*mark)(delta_device_t *device, delta_lane_t lane, uint32_t mark);
  delta_status_t (*elapsed)(delta_device_t *device, uint32_t from_mark, uint32_t to_mark, double *out_seconds); // after synchronize
  delta_status_t (*fill)(delta_device_t *device, delta_lane_t lane, void *address, uint8_t value, size_t size_bytes);
  // What is put into the queues between the two is not run but recorded, with its order, and runs at each replay. record_end is called also after a failure in between.
  delta_status_t (*record_begin)(delta_device_t *device);
  delta_status_t (*record_end)(delta_device_t *device, delta_recording_t **out_recording);
  delta_status_t (*replay)(delta_device_t *device, delta_recording_t *recording);
  void (*recording_destroy)(delta_device_t *device, delta_recording_t *recording); // NULL is fine.

  // Host access to device memory, after synchronize.
  delta_status_t (*write)(delta_device_t *device, void *destination, const void *source, size_t size_bytes);
  delta_status_t (*read)(delta_device_t *device, void *destination, const void *source, size_t size_bytes);
} delta_device_driver_t;

struct delta_device {
  const delta_device_driver_t *driver;
  const char *name; // "cpu", "cuda:0", or that of a device that is not there, by its profile; lives as long as the device
  delta_allocator_t allocator;
  delta_log_sink_t log;
  int32_t threads;
  delta_float_math_t math;                 // never UNSAID
  bool host_addressable;                   // device memory can be read and written by the host directly
  bool has_queues;                         // calls return before their work has been done
  bool reads_virtual;                      // its kernels refuse virtual inputs where they cannot read them; else none may be given any
  size_t granule_bytes;                    // of committed memory
  size_t alignment_bytes;                  // of buffers
  uint64_t reserve_bytes;                  // of what is free, left to the device's system and libraries; not in free_bytes
  char processor[DELTA_DEVICE_TEXT_BYTES]; // as its maker names it; empty: that of the host
  char instruction_set[DELTA_DEVICE_TEXT_BYTES]; // what the numerics depend on
  char libraries[DELTA_DEVICE_TEXT_BYTES];
  delta_roofline_t roofline;                                  // rough, until nodes are measured
  double offload_bytes_per_second, prefetch_bytes_per_second; // to the tier below and back: rough, until they are measured
  const struct delta_profile
      *profile; // all that is known of a device that is not there; NULL of those that are. Lives as long as the device
};

// A driver: a row of the table in device.c, or of a module.
typedef struct delta_driver_row {
  const char *name;                             // "cpu", "cuda"
  delta_status_t (*count)(uint32_t *out_count); // NOT_FOUND says why there is none
  delta_status_t (*open)(uint32_t ordinal, const delta_device_options_t *options, delta_allocator_t allocator, delta_device_t **out_device);
} delta_driver_row_t;

// What a module exports under the name "delta_NAME_module": its driver, and what must agree with whoever opens it.
typedef struct delta_driver_module {
  const char *version;               // DELTA_VERSION_STRING
  size_t device_bytes, driver_bytes; // of the structures above
  delta_driver_row_t row;
} delta_driver_module_t;
#define DELTA_DRIVER_MODULE(version_, ...)                                                                                               \
  {                                                                                                                                      \
    .version = (version_), .device_bytes = sizeof(delta_device_t), .driver_bytes = sizeof(delta_device_driver_t), .row = { __VA_ARGS__ } \
  }

// Opens "cpu" or "cuda[:N]" (N from 0). NOT_FOUND or UNSUPPORTED name the device and what there is, or why there is none. Those that are not there: runtime/absent.h.
DELTA_MUST_USE delta_status_t delta_device_open(const char *name, const delta_device_options_t *options, delta_allocator_t allocator,
                                                delta_device_t **out_device);
void delta_device_close(delta_device_t *device); // NULL is fine.

// Whether there may be a device of this name.
bool delta_device_is_name(const char *name);

// The names of drivers that delta_device_open knows, in order; NULL behind the last.
const char *delta_driver_name(uint32_t index);
// How many devices such a driver has; NOT_FOUND says why there is none.
DELTA_MUST_USE delta_status_t delta_driver_count(const char *driver, uint32_t *out_count);

// Bytes the device can give this process now: limits of the process and its group respected.
DELTA_MUST_USE delta_status_t delta_device_free_bytes(delta_device_t *device, uint64_t *out_free_bytes);

#endif // DELTA_RUNTIME_DEVICE_H_
