// Advance: copies stand in a queue, so one that has to wait for its bytes holds up all that follow. The first of them choose first; a place that is free earlier is found by halving, as
// what is free for longer is so for less long, too.
#include "planner/advance.h"

#include <stdlib.h>
#include <string.h>

#include "planner/blocks.h"

typedef struct advancer {
  delta_block_t *blocks;
  uint32_t count;
  uint64_t capacity_bytes;
  uint32_t *by_offset; // blocks by address
} advancer_t;

typedef struct offset_rank {
  uint64_t offset_bytes;
  uint32_t block;
} offset_rank_t;

static int compare_ranks(const void *left, const void *right) {
  const offset_rank_t *a = left, *b = right;
  if (a->offset_bytes != b->offset_bytes) return a->offset_bytes < b->offset_bytes ? -1 : 1;
  return a->block < b->block ? -1 : a->block > b->block;
}

static delta_status_t sort_blocks(advancer_t *advancer, delta_region_t *region) {
  offset_rank_t *ranks = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, advancer->count, &ranks));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, advancer->count, &advancer->by_offset));
  for (uint32_t i = 0; i < advancer->count; ++i) ranks[i] = (offset_rank_t){advancer->blocks[i].offset_bytes, i};
  if (advancer->count > 0) qsort(ranks, advancer->count, sizeof *ranks, compare_ranks);
  for (uint32_t i = 0; i < advancer->count; ++i) advancer->by_offset[i] = ranks[i].block;
  return DELTA_OK;
}

// The lowest place of a block, were it there from `first` on, among the others. False: there is none within the capacity.
static bool find_place(const advancer_t *advancer, uint32_t block, uint32_t first, uint64_t *out_offset_bytes) {
  const delta_block_t *own = &advancer->blocks[block];
  uint64_t top_bytes = 0;
  for (uint32_t i = 0; i < advancer->count; ++i) {
    const delta_block_t *other = &advancer->blocks[advancer->by_offset[i]];
    if (advancer->by_offset[i] == block || other->last < first || other->first > own->last) continue;
    if (other->offset_bytes >= top_bytes + own->size_bytes) break;
    if (other->offset_bytes + other->size_bytes > top_bytes) top_bytes = other->offset_bytes + other->size_bytes;
  }
  *out_offset_bytes = top_bytes;
  return top_bytes + own->size_bytes <= advancer->capacity_bytes;
}

// Puts a block where its address says in the list.
static void move_in_list(advancer_t *advancer, uint32_t block, uint64_t offset_bytes) {
  uint32_t *list = advancer->by_offset, at = 0;
  while (list[at] != block) ++at;
  advancer->blocks[block].offset_bytes = offset_bytes;
  for (; at > 0 && advancer->blocks[list[at - 1]].offset_bytes > offset_bytes; --at) list[at] = list[at - 1];
  for (; at + 1 < advancer->count && advancer->blocks[list[at + 1]].offset_bytes < offset_bytes; ++at) list[at] = list[at + 1];
  list[at] = block;
}

// Gives a block the place that is free from the earliest step on.
static void advance_block(advancer_t *advancer, uint32_t block, uint32_t earliest) {
  delta_block_t *own = &advancer->blocks[block];
  uint64_t offset_bytes;
  uint32_t low = earliest, high = own->first;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (find_place(advancer, block, middle, &offset_bytes)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (high >= own->first || !find_place(advancer, block, high, &offset_bytes)) return;
  own->first = high;
  move_in_list(advancer, block, offset_bytes);
}

static delta_status_t advance_all(delta_schedule_t *schedule, const uint32_t *earliest_steps, uint64_t capacity_bytes,
                                  delta_region_t *region) {
  delta_schedule_blocks_t blocks;
  DELTA_RETURN_IF_ERROR(delta_schedule_blocks_make(schedule, region, &blocks));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) blocks.items[blocks.block_of[b]].offset_bytes = schedule->buffers[b].offset_bytes;
  advancer_t advancer = {.blocks = blocks.items, .count = blocks.count, .capacity_bytes = capacity_bytes};
  DELTA_RETURN_IF_ERROR(sort_blocks(&advancer, region));
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    if (schedule->steps[s].kind != DELTA_STEP_SWAP_IN) continue;
    const uint32_t buffer = schedule->steps[s].outputs[0], block = blocks.block_of[buffer];
    const bool is_alone = blocks.items[block].next_in_group == block && blocks.items[block].first == s;
    if (is_alone && earliest_steps[buffer] < s) advance_block(&advancer, block, earliest_steps[buffer]);
  }
  schedule->arena_bytes = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    delta_buffer_t *buffer = &schedule->buffers[b];
    buffer->offset_bytes = (size_t)blocks.items[blocks.block_of[b]].offset_bytes;
    if (buffer->offset_bytes + buffer->size_bytes > schedule->arena_bytes) {
      schedule->arena_bytes = buffer->offset_bytes + buffer->size_bytes;
    }
  }
  return DELTA_OK;
}

delta_status_t delta_advance_copies_back(delta_schedule_t *schedule, const uint32_t *earliest_steps, uint64_t capacity_bytes,
                                         delta_allocator_t allocator) {
  delta_region_t region;
  delta_region_init(&region, allocator);
  const delta_status_t status = advance_all(schedule, earliest_steps, capacity_bytes, &region);
  delta_region_deinit(&region);
  return status;
}
