// Tier: the memory below the arena. A device makes the one it has (device.h): a file, or host memory that is taken once. Its size is set before a step, and
// nothing is allocated during one.
//
// One thread may write while another reads: the two lanes. Everything else belongs to one thread at a time, while no copy runs.
#ifndef DELTA_RUNTIME_TIER_H_
#define DELTA_RUNTIME_TIER_H_

#include <stdbool.h>
#include <stdint.h>

#include <delta/log.h>

#include "base/allocator.h"
#include "plans/schedule.h"

typedef struct delta_tier delta_tier_t;

// The functions of one kind of tier. Sizes are whole blocks of DELTA_HOST_BLOCK_BYTES, ranges have been checked.
typedef struct delta_tier_driver {
  void (*destroy)(delta_tier_t *tier);
  delta_status_t (*resize)(delta_tier_t *tier, uint64_t size_bytes); // what is within both sizes stays
  delta_status_t (*write)(delta_tier_t *tier, uint64_t offset_bytes, const void *data, size_t size_bytes);
  delta_status_t (*read)(delta_tier_t *tier, uint64_t offset_bytes, void *data, size_t size_bytes);
  // Puts a copy into the queue of a lane and returns. NULL where the device has no queues.
  delta_status_t (*enqueue)(delta_tier_t *tier, delta_lane_t lane, bool writes, uint64_t offset_bytes, void *memory, size_t size_bytes);
} delta_tier_driver_t;

struct delta_tier {
  const delta_tier_driver_t *driver;
  delta_allocator_t allocator;
  uint64_t size_bytes;
  uint32_t resizes;       // what was recorded before the last one names other addresses
  bool is_beside_compute; // copies take no processor from compute for long, so lanes of their own pay
};

// An empty file in `folder`; NULL: $TMPDIR, or /var/tmp without it. It has no name, so nothing is left of it after any death of the process. Reads and writes bypass
// the system's page cache where the file system can; where it cannot, a note says so. NOT_FOUND or IO name the folder.
DELTA_MUST_USE delta_status_t delta_tier_create_file(const char *folder, delta_log_sink_t log, delta_allocator_t allocator,
                                                     delta_tier_t **out_tier);
void delta_tier_destroy(delta_tier_t *tier); // NULL is fine.

// Makes room for at least size_bytes. IO or OUT_OF_MEMORY name what was wanted; what is in the tier stays.
DELTA_MUST_USE delta_status_t delta_tier_reserve(delta_tier_t *tier, uint64_t size_bytes);
// Gives back what lies behind size_bytes.
DELTA_MUST_USE delta_status_t delta_tier_trim(delta_tier_t *tier, uint64_t size_bytes);
uint64_t delta_tier_size_bytes(const delta_tier_t *tier);

// `offset_bytes` is a multiple of DELTA_HOST_BLOCK_BYTES and what is copied lies in the reserved size; the rest of its last block is undefined after a write.
DELTA_MUST_USE delta_status_t delta_tier_write(delta_tier_t *tier, uint64_t offset_bytes, const void *data, size_t size_bytes);
DELTA_MUST_USE delta_status_t delta_tier_read(delta_tier_t *tier, uint64_t offset_bytes, void *data, size_t size_bytes);
// The same in the queue of a lane of the device, below (`writes`) or back.
DELTA_MUST_USE delta_status_t delta_tier_enqueue(delta_tier_t *tier, delta_lane_t lane, bool writes, uint64_t offset_bytes, void *memory,
                                                 size_t size_bytes);

#endif // DELTA_RUNTIME_TIER_H_
