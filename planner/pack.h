// Pack: offline storage allocation. Blocks with fixed lifetimes get offsets so that no two that live at once overlap, in as little memory as can be.
#ifndef DELTA_PLANNER_PACK_H_
#define DELTA_PLANNER_PACK_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/allocator.h"

// Bytes needed from step `first` to step `last`, both included. Blocks of a group have fixed places among each other, at which no two that live at once overlap.
typedef struct delta_block {
  uint32_t first, last;
  uint64_t size_bytes;
  uint32_t next_in_group; // a ring of blocks: itself when it is alone
  uint64_t group_bytes;   // its place in the group
  uint64_t offset_bytes;  // result
} delta_block_t;

typedef struct delta_pack_goal {
  uint64_t bound_bytes;    // the largest sum of blocks that live at once: no packing is smaller
  uint32_t bound_step;     // where
  uint64_t capacity_bytes; // The first packing that fits is returned. UINT64_MAX: as small as can be found.
  bool is_hasty;           // a small part of the effort
} delta_pack_goal_t;

// Sets every block's offset; *out_end_bytes is the largest offset + size, which may be above the capacity when no packing was found that fits.
// Deterministic; the effort is bounded by a number of comparisons, not by time. Memory is linear in `count`.
DELTA_MUST_USE delta_status_t delta_pack(delta_block_t *blocks, uint32_t count, const delta_pack_goal_t *goal, delta_allocator_t allocator,
                                         uint64_t *out_end_bytes);

#endif // DELTA_PLANNER_PACK_H_
