// Blocks: the buffers of a schedule as what is packed. A chain of in-place buffers is one block of its first buffer's bytes, from the first one's start to the last one's end. Blocks
// that lie in a row are a group.
#ifndef DELTA_PLANNER_BLOCKS_H_
#define DELTA_PLANNER_BLOCKS_H_

#include "base/region.h"
#include "planner/pack.h"
#include "plans/schedule.h"

typedef struct delta_schedule_blocks {
  delta_block_t *items; // in the order of their first buffers
  uint32_t count;
  uint32_t *block_of; // by buffer
} delta_schedule_blocks_t;

// The lists are the region's; offsets are zero.
DELTA_MUST_USE delta_status_t delta_schedule_blocks_make(const delta_schedule_t *schedule, delta_region_t *region,
                                                         delta_schedule_blocks_t *out_blocks);
// Whether a step takes over bytes in a row.
bool delta_step_makes_row(const delta_schedule_t *schedule, const delta_schedule_step_t *step);

#endif // DELTA_PLANNER_BLOCKS_H_
