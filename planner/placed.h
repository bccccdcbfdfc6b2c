// Placed: the blocks of a packing that have their place, in order of address, and where among them another one fits.
//
// They stand in chunks that know what all their blocks have in common. A chunk whose blocks all live at another time, or which all live with the new one and
// leave no gap for it, is passed in one step: in long programs that is most of them.
#ifndef DELTA_PLANNER_PLACED_H_
#define DELTA_PLANNER_PLACED_H_

#include <stdint.h>

#include "base/region.h"

typedef struct delta_placed_block {
  uint64_t begin_bytes, end_bytes;
  uint32_t first, last; // steps of its life
} delta_placed_block_t;

enum { DELTA_PLACED_CHUNK = 64 };
typedef struct delta_placed_chunk {
  uint32_t count; // at least 1
  uint32_t least_first, most_first, least_last, most_last;
  uint64_t most_end_bytes;
  bool knows_gap;
  int64_t gap_bytes; // the largest between a block and the highest end of those before it in the chunk
  delta_placed_block_t blocks[DELTA_PLACED_CHUNK];
} delta_placed_chunk_t;

typedef struct delta_placed {
  delta_placed_chunk_t *pool;    // all chunks, of the region
  delta_placed_chunk_t **chunks; // those in use, by address
  uint32_t chunk_count;
} delta_placed_t;

// Room for `capacity` blocks, from the region.
DELTA_MUST_USE delta_status_t delta_placed_init(delta_placed_t *placed, uint32_t capacity, delta_region_t *region);
void delta_placed_clear(delta_placed_t *placed);

// The lowest offset from `least_bytes` on at which size_bytes overlap nothing that lives at some step of [first, last]. Adds to *inout_effort the comparisons made.
uint64_t delta_placed_find(delta_placed_t *placed, uint32_t first, uint32_t last, uint64_t size_bytes, uint64_t least_bytes,
                           uint64_t *inout_effort);
void delta_placed_add(delta_placed_t *placed, const delta_placed_block_t *block);

#endif // DELTA_PLANNER_PLACED_H_
