// Tier: the memory below the arena, for a device whose tier below is a file. The file has no name, so nothing is left of it after any death of the process; its
// size is set before a step and nothing is allocated during one. One thread at a time.
#ifndef DELTA_RUNTIME_TIER_H_
#define DELTA_RUNTIME_TIER_H_

#include <stdint.h>

#include <delta/log.h>

#include "base/allocator.h"

typedef struct delta_tier delta_tier_t;

// An empty file in `folder`; NULL: $TMPDIR, or /var/tmp without it. Reads and writes bypass the system's page cache where the file system can; where it
// cannot, a note says so. NOT_FOUND or IO name the folder.
DELTA_MUST_USE delta_status_t delta_tier_create(const char *folder, delta_log_sink_t log, delta_allocator_t allocator,
                                                delta_tier_t **out_tier);
void delta_tier_destroy(delta_tier_t *tier); // NULL is fine.

// Makes room for at least size_bytes. IO names folder and bytes when the disk has less; what is in the file stays.
DELTA_MUST_USE delta_status_t delta_tier_reserve(delta_tier_t *tier, uint64_t size_bytes);
uint64_t delta_tier_size_bytes(const delta_tier_t *tier);

// `offset_bytes` is a multiple of DELTA_HOST_BLOCK_BYTES and what is copied lies in the reserved size; the rest of its last block is undefined after a write.
DELTA_MUST_USE delta_status_t delta_tier_write(delta_tier_t *tier, uint64_t offset_bytes, const void *data, size_t size_bytes);
DELTA_MUST_USE delta_status_t delta_tier_read(delta_tier_t *tier, uint64_t offset_bytes, void *data, size_t size_bytes);

#endif // DELTA_RUNTIME_TIER_H_
