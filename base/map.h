// Map from byte strings to 32-bit indices (hash table, open addressing). Keys are copied.
#ifndef DELTA_BASE_MAP_H_
#define DELTA_BASE_MAP_H_

#include <stdint.h>

#include "base/region.h"

#define DELTA_MAP_NONE UINT32_MAX

typedef struct delta_map {
  delta_allocator_t allocator;
  struct delta_map_slot *slots; // Owned.
  size_t slot_count;            // a power of two, or 0
  size_t count;
  delta_region_t keys; // Owned.
} delta_map_t;

void delta_map_init(delta_map_t *map, delta_allocator_t allocator);
void delta_map_deinit(delta_map_t *map); // Safe on a zeroed struct.

// The index stored under `key`, or DELTA_MAP_NONE.
uint32_t delta_map_find(const delta_map_t *map, const char *key);
// Stores `index` (not DELTA_MAP_NONE) under `key`; an existing entry is replaced.
DELTA_MUST_USE delta_status_t delta_map_set(delta_map_t *map, const char *key, uint32_t index);

#endif // DELTA_BASE_MAP_H_
