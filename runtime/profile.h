// Profile: what kernels take on one device, how fast it copies, and what it has. A profile is a file (docs/profile-format.md): equal profile, equal selection.
//
// Costs are found by a key that names the operator and everything its time depends on: attributes with layouts, types and physical shapes. Under it every
// kernel that was measured has its own, in the driver's order of preference. What has no cost is estimated by the profile's roofline.
#ifndef DELTA_RUNTIME_PROFILE_H_
#define DELTA_RUNTIME_PROFILE_H_

#include "base/map.h"
#include "base/text.h"
#include "plans/problem.h"
#include "runtime/device.h"

enum { DELTA_PROFILE_KEY_BYTES = 96, DELTA_PROFILE_VERSION = 3 };

// X(IDENTIFIER, name, least, most): what a device has. reserve_bytes is what is left to its system, drivers and libraries when no budget is given.
#define DELTA_PROFILE_DEVICE_NUMBERS(X)        \
  X(MEMORY_BYTES, memory_bytes, 1048576, 1e15) \
  X(RESERVE_BYTES, reserve_bytes, 0, 1e15)     \
  X(GRANULE_BYTES, granule_bytes, 64, 1 << 30) \
  X(ALIGNMENT_BYTES, alignment_bytes, 1, 4096)

// Copies between the arena and the tier below it, each way alone, and both ways together (0: they do not share).
#define DELTA_PROFILE_TRANSFER_NUMBERS(X)           \
  X(OFFLOAD, offload_bytes_per_second, 1e3, 1e15)   \
  X(PREFETCH, prefetch_bytes_per_second, 1e3, 1e15) \
  X(SHARED, shared_bytes_per_second, 0, 1e15)

// The same beside compute; copies within memory; what a copy takes to start, and what compute loses of its speed while one starts and while its bytes are copied: of
// devices that were measured.
#define DELTA_PROFILE_OPTIONAL_NUMBERS(X)                                 \
  X(OFFLOAD_BESIDE, offload_beside_compute_bytes_per_second, 1e3, 1e15)   \
  X(PREFETCH_BESIDE, prefetch_beside_compute_bytes_per_second, 1e3, 1e15) \
  X(COPY, copy_bytes_per_second, 1e3, 1e15)                               \
  X(OFFLOAD_START, offload_start_seconds, 0, 1)                           \
  X(PREFETCH_START, prefetch_start_seconds, 0, 1)                         \
  X(OFFLOAD_START_DRAG, offload_start_drag, 0, DELTA_PROBLEM_MOST_DRAG)   \
  X(PREFETCH_START_DRAG, prefetch_start_drag, 0, DELTA_PROBLEM_MOST_DRAG) \
  X(OFFLOAD_DRAG, offload_drag, 0, DELTA_PROBLEM_MOST_DRAG)               \
  X(PREFETCH_DRAG, prefetch_drag, 0, DELTA_PROBLEM_MOST_DRAG)

#define DELTA_PROFILE_NUMBERS(X) \
  DELTA_PROFILE_DEVICE_NUMBERS(X) DELTA_ROOFLINE_NUMBERS(X) DELTA_PROFILE_TRANSFER_NUMBERS(X) DELTA_PROFILE_OPTIONAL_NUMBERS(X)
typedef enum delta_profile_id {
#define DELTA_PROFILE_ENUM(id, name, least, most) DELTA_PROFILE_##id,
  DELTA_PROFILE_NUMBERS(DELTA_PROFILE_ENUM)
#undef DELTA_PROFILE_ENUM
      DELTA_PROFILE_COUNT
} delta_profile_id_t;

typedef struct delta_profile_number {
  double value;
  const char *source; // "measured", or where it comes from, or why it is assumed; NULL: not known
} delta_profile_number_t;

typedef struct delta_profile_entry {
  const char *key;
  const char *kernel;
  double seconds;
  size_t workspace_bytes;
  uint32_t next; // index of the next kernel's entry under the key; DELTA_MAP_NONE: none
} delta_profile_entry_t;

typedef struct delta_profile {
  delta_allocator_t allocator;
  delta_region_t region; // Owns strings.
  // What it was measured with; a profile of another machine is not used for this one.
  const char *device, *instruction_set, *libraries, *processor;
  int32_t threads;
  delta_float_math_t math;
  delta_map_t keys; // key -> index of its first entry
  DELTA_ARRAY(delta_profile_entry_t) entries;
  delta_profile_number_t numbers[DELTA_PROFILE_COUNT];
} delta_profile_t;

// A profile of nothing, to be filled by a reader.
DELTA_MUST_USE delta_status_t delta_profile_create_empty(delta_allocator_t allocator, delta_profile_t **out_profile);
// A profile of a device with what it says of itself and no costs: its roofline and speeds of transfers are assumed.
DELTA_MUST_USE delta_status_t delta_profile_create(delta_device_t *device, delta_allocator_t allocator, delta_profile_t **out_profile);
void delta_profile_free(delta_profile_t *profile); // NULL is fine.

// Sets a number. Whoever measures gives the source "measured".
void delta_profile_set_number(delta_profile_t *profile, delta_profile_id_t id, double value, const char *source); // `source` is borrowed
static inline double delta_profile_number(const delta_profile_t *profile, delta_profile_id_t id) { return profile->numbers[id].value; }
extern const char delta_profile_measured[]; // the source of what was measured
bool delta_profile_is_measured(const delta_profile_t *profile, delta_profile_id_t id);
// The numbers of its roofline.
delta_roofline_t delta_profile_roofline(const delta_profile_t *profile);

// The key of a node.
void delta_profile_key(const delta_graph_t *graph, const delta_node_t *node, char out_key[DELTA_PROFILE_KEY_BYTES]);
// The first cost under a key, and the one after another; NULL when there is none. Borrowed until the next change.
const delta_profile_entry_t *delta_profile_first(const delta_profile_t *profile, const char *key);
const delta_profile_entry_t *delta_profile_next(const delta_profile_t *profile, const delta_profile_entry_t *entry);
// The cost of a kernel; NULL when there is none, or no profile.
const delta_profile_entry_t *delta_profile_find(const delta_profile_t *profile, const char *key, const char *kernel);
// Of measured kernels the one to take: the first whose workspace is within `most_workspace_bytes`, or a later one that is better. Without one within, the first.
// NULL when none is measured, or without a profile.
const delta_profile_entry_t *delta_profile_best(const delta_profile_t *profile, const char *key, size_t most_workspace_bytes);
// Whether a later kernel is better: faster by a twentieth, so that what is as good as equal does not change with the weather. A larger workspace (by more than
// 1 MiB) must be worth three of them, and a smaller one is worth three.
bool delta_profile_is_better(const delta_profile_entry_t *later, const delta_profile_entry_t *best);
// Sets or replaces the cost of a kernel; strings are copied, `next` is ignored.
DELTA_MUST_USE delta_status_t delta_profile_set(delta_profile_t *profile, const delta_profile_entry_t *entry);

// Takes over costs and numbers of a profile of the same device with the same threads, math, instruction set, processor and
// libraries; MISMATCH names what differs, and `path`.
DELTA_MUST_USE delta_status_t delta_profile_merge(delta_profile_t *profile, const delta_profile_t *other, const char *path);

// The cache's file for a profile under $XDG_CACHE_HOME/delta (or ~/.cache/delta), its folders made. NOT_FOUND without a home.
DELTA_MUST_USE delta_status_t delta_profile_cache_path(const delta_profile_t *profile,
                                                       char **out_path); // owned by the caller, profile's allocator

// ---- Files, as JSON

// How a reader takes a broken number or cost: as an error, or as one that is measured again.
typedef enum delta_profile_reading { DELTA_PROFILE_STRICT, DELTA_PROFILE_FORGIVING } delta_profile_reading_t;

// Any device's profile. MALFORMED names file, member and what is wanted.
DELTA_MUST_USE delta_status_t delta_profile_parse(const char *text, size_t size_bytes, const char *name, delta_profile_reading_t reading,
                                                  delta_allocator_t allocator, delta_profile_t **out_profile);
DELTA_MUST_USE delta_status_t delta_profile_load(const char *path, delta_profile_reading_t reading, delta_allocator_t allocator,
                                                 delta_profile_t **out_profile);
// Loads and merges.
DELTA_MUST_USE delta_status_t delta_profile_read(delta_profile_t *profile, const char *path, delta_profile_reading_t reading);
// Appends the file's text; equal profiles give equal texts.
DELTA_MUST_USE delta_status_t delta_profile_to_json(const delta_profile_t *profile, delta_text_t *text);
DELTA_MUST_USE delta_status_t delta_profile_write(const delta_profile_t *profile, const char *path); // aside, then renamed

#endif // DELTA_RUNTIME_PROFILE_H_
