// Pack: offline storage allocation. Blocks with fixed lifetimes get offsets so that no two that live at once overlap, in as little memory as can be.
#ifndef DELTA_PLANNER_PACK_H_
#define DELTA_PLANNER_PACK_H_

#include <stdint.h>

#include "base/allocator.h"

// Bytes needed from step `first` to step `last`, both included.
typedef struct delta_block {
  uint32_t first, last;
  uint64_t size_bytes;
  uint64_t offset_bytes; // result
} delta_block_t;

// Sets every block's offset; *out_end_bytes is the largest offset + size. `bound_bytes` is the largest sum of blocks that live at once, at which step `bound_step`: no
// packing is smaller, so the search ends when it is reached. Deterministic; the effort is bounded by a number of comparisons, not by time.
// Memory is linear in `count`.
DELTA_MUST_USE delta_status_t delta_pack(delta_block_t *blocks, uint32_t count, uint64_t bound_bytes, uint32_t bound_step,
                                         delta_allocator_t allocator, uint64_t *out_end_bytes);

#endif // DELTA_PLANNER_PACK_H_
