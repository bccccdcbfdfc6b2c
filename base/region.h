// Region: many small allocations with one lifetime, released together. A graph, a model, a plan own one each.
// Not thread-safe.
#ifndef DELTA_BASE_REGION_H_
#define DELTA_BASE_REGION_H_

#include <stdarg.h>

#include "base/allocator.h"

typedef struct delta_region {
  delta_allocator_t allocator;
  struct delta_region_block *blocks; // Owned; newest first.
  size_t used_bytes;                 // of the newest block
  size_t total_bytes;                // of all blocks
} delta_region_t;

void delta_region_init(delta_region_t *region, delta_allocator_t allocator);
void delta_region_deinit(delta_region_t *region); // Safe on a zeroed struct.
// Forgets everything that was allocated and keeps the memory, as one block: work that is repeated allocates only the first times.
DELTA_MUST_USE delta_status_t delta_region_reset(delta_region_t *region);

// Zeroed memory of count * element_bytes, aligned to 16 bytes, valid until deinit. A zero product gives a non-NULL pointer.
DELTA_MUST_USE delta_status_t delta_region_allocate(delta_region_t *region, size_t count, size_t element_bytes, void **out_pointer);
#define DELTA_REGION_ALLOCATE(region, count, out_items) delta_region_allocate((region), (count), sizeof **(out_items), (void **)(out_items))

// Copies `count` elements into the region.
DELTA_MUST_USE delta_status_t delta_region_copy(delta_region_t *region, const void *items, size_t count, size_t element_bytes,
                                                void **out_pointer);
// Copies a string of known length and ends it with a zero byte.
DELTA_MUST_USE delta_status_t delta_region_copy_string(delta_region_t *region, const char *text, size_t length, char **out_text);
// Formats into the region.
DELTA_MUST_USE delta_status_t delta_region_format(delta_region_t *region, char **out_text, const char *format, ...) DELTA_PRINTF(3, 4);

#endif // DELTA_BASE_REGION_H_
