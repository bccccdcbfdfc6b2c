// Nest: places for few large blocks, found by a search through time that tries every place at which blocks can meet.
#ifndef DELTA_PLANNER_NEST_H_
#define DELTA_PLANNER_NEST_H_

#include "base/region.h"
#include "planner/pack.h"

// Looks for offsets[] of the blocks, by block, that end within capacity_bytes. Blocks of a group follow each other in their ring. *out_found: there are such offsets. Else the
// effort, in comparisons of blocks, is used up, more live at once than the search takes, or no arrangement fits. The same each time. Tables are of the region.
DELTA_MUST_USE delta_status_t delta_nest(const delta_block_t *blocks, uint32_t count, uint64_t capacity_bytes, uint64_t effort_limit,
                                         delta_region_t *region, uint64_t *offsets, bool *out_found);

#endif // DELTA_PLANNER_NEST_H_
