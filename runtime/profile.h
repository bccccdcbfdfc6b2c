// Profile: what kernels take on one machine, and how fast it copies. A profile is a file: equal profile, equal selection.
//
// A cost is found by a key that names the operator and everything its time depends on: attributes with layouts, types and physical shapes. It is that of
// the kernel which selection takes: the first that does not refuse.
#ifndef DELTA_RUNTIME_PROFILE_H_
#define DELTA_RUNTIME_PROFILE_H_

#include "base/map.h"
#include "runtime/device.h"

enum { DELTA_PROFILE_KEY_BYTES = 96 };

// X(field): copies between the arena and the tier below it, each alone and beside compute. 0: not measured.
#define DELTA_PROFILE_SPEEDS(X)              \
  X(copy_bytes_per_second)                   \
  X(offload_bytes_per_second)                \
  X(prefetch_bytes_per_second)               \
  X(offload_beside_compute_bytes_per_second) \
  X(prefetch_beside_compute_bytes_per_second)

typedef struct delta_profile_entry {
  const char *key;
  double seconds;
} delta_profile_entry_t;

typedef struct delta_profile {
  delta_allocator_t allocator;
  delta_region_t region; // Owns strings.
  // What it was measured with; a profile of another machine is not used for this one.
  const char *device, *instruction_set, *libraries, *processor;
  int32_t threads;
  delta_map_t keys; // key -> index of the entry
  DELTA_ARRAY(delta_profile_entry_t) entries;
#define DELTA_PROFILE_FIELD(field) double field;
  DELTA_PROFILE_SPEEDS(DELTA_PROFILE_FIELD)
#undef DELTA_PROFILE_FIELD
} delta_profile_t;

// An empty profile of a device.
DELTA_MUST_USE delta_status_t delta_profile_create(const delta_device_t *device, delta_allocator_t allocator,
                                                   delta_profile_t **out_profile);
void delta_profile_free(delta_profile_t *profile); // NULL is fine.

// The key of a node.
void delta_profile_key(const delta_graph_t *graph, const delta_node_t *node, char out_key[DELTA_PROFILE_KEY_BYTES]);
// False when there is no such cost; `profile` may be NULL.
bool delta_profile_find(const delta_profile_t *profile, const char *key, double *out_seconds);
// Sets or replaces a cost.
DELTA_MUST_USE delta_status_t delta_profile_set(delta_profile_t *profile, const char *key, double seconds);

// JSON. Reading takes the costs of a file made on the same device with the same threads, instruction set and libraries; MISMATCH names what differs.
// A broken entry is left out, so that it is measured again.
DELTA_MUST_USE delta_status_t delta_profile_write(const delta_profile_t *profile, const char *path); // aside, then renamed
DELTA_MUST_USE delta_status_t delta_profile_read(delta_profile_t *profile, const char *path);

// The cache's file for a profile under $XDG_CACHE_HOME/delta (or ~/.cache/delta), its folders made. NOT_FOUND without a home.
DELTA_MUST_USE delta_status_t delta_profile_cache_path(const delta_profile_t *profile,
                                                       char **out_path); // owned by the caller, profile's allocator

#endif // DELTA_RUNTIME_PROFILE_H_
