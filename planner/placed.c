// Chunks are split in two when they are full; a block goes before those of the same address.
#include "planner/placed.h"

#include <string.h>

delta_status_t delta_placed_init(delta_placed_t *placed, uint32_t capacity, delta_region_t *region) {
  // A chunk that was split has at least half of its blocks.
  const size_t chunk_capacity = (size_t)capacity / (DELTA_PLACED_CHUNK / 2) + 2;
  *placed = (delta_placed_t){0};
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, chunk_capacity, &placed->pool));
  return DELTA_REGION_ALLOCATE(region, chunk_capacity, &placed->chunks);
}

void delta_placed_clear(delta_placed_t *placed) { placed->chunk_count = 0; }

static int64_t find_largest_gap(const delta_placed_chunk_t *chunk) {
  int64_t gap_bytes = INT64_MIN;
  uint64_t top_bytes = chunk->blocks[0].end_bytes;
  for (uint32_t i = 1; i < chunk->count; ++i) {
    const delta_placed_block_t *block = &chunk->blocks[i];
    const int64_t here_bytes = (int64_t)(block->begin_bytes - top_bytes);
    if (here_bytes > gap_bytes) gap_bytes = here_bytes;
    if (block->end_bytes > top_bytes) top_bytes = block->end_bytes;
  }
  return gap_bytes;
}

// The step through a chunk whose blocks all live with the new one: true when none of the gaps in it, or before it, is large enough.
static bool passes(delta_placed_chunk_t *chunk, uint64_t size_bytes, uint64_t *inout_top_bytes, uint64_t *inout_effort) {
  if (chunk->blocks[0].begin_bytes >= *inout_top_bytes + size_bytes) return false;
  if (!chunk->knows_gap) {
    chunk->gap_bytes = find_largest_gap(chunk);
    chunk->knows_gap = true;
    *inout_effort += chunk->count;
  }
  if (chunk->gap_bytes >= (int64_t)size_bytes) return false;
  if (chunk->most_end_bytes > *inout_top_bytes) *inout_top_bytes = chunk->most_end_bytes;
  return true;
}

// Goes through the blocks of a chunk; true when the gap has been found. Which of them live is as good as random, so nothing branches on it.
static bool scan(const delta_placed_chunk_t *chunk, uint32_t first, uint32_t last, uint64_t size_bytes, uint64_t *inout_top_bytes) {
  uint64_t top_bytes = *inout_top_bytes;
  bool found = false;
  for (uint32_t i = 0; i < chunk->count && !found; ++i) {
    const delta_placed_block_t *block = &chunk->blocks[i];
    const bool lives = (block->last >= first) & (block->first <= last);
    const uint64_t end_bytes = block->end_bytes & (0 - (uint64_t)lives);
    found = lives & (block->begin_bytes >= top_bytes + size_bytes);
    if (!found) top_bytes = end_bytes > top_bytes ? end_bytes : top_bytes;
  }
  *inout_top_bytes = top_bytes;
  return found;
}

uint64_t delta_placed_find(delta_placed_t *placed, uint32_t first, uint32_t last, uint64_t size_bytes, uint64_t least_bytes,
                           uint64_t *inout_effort) {
  uint64_t top_bytes = least_bytes;
  for (uint32_t c = 0; c < placed->chunk_count; ++c) {
    delta_placed_chunk_t *chunk = placed->chunks[c];
    ++*inout_effort;
    if (chunk->most_last < first || chunk->least_first > last) continue;
    const bool all_live = chunk->most_first <= last && chunk->least_last >= first;
    if (all_live && passes(chunk, size_bytes, &top_bytes, inout_effort)) continue;
    *inout_effort += chunk->count;
    if (scan(chunk, first, last, size_bytes, &top_bytes)) break;
  }
  return top_bytes;
}

// ---- Adding

static void begin_summary(delta_placed_chunk_t *chunk) {
  chunk->knows_gap = false;
  chunk->least_first = chunk->least_last = UINT32_MAX;
  chunk->most_first = chunk->most_last = 0;
  chunk->most_end_bytes = 0;
}

static void add_to_summary(delta_placed_chunk_t *chunk, const delta_placed_block_t *block) {
  chunk->knows_gap = false;
  if (block->first < chunk->least_first) chunk->least_first = block->first;
  if (block->first > chunk->most_first) chunk->most_first = block->first;
  if (block->last < chunk->least_last) chunk->least_last = block->last;
  if (block->last > chunk->most_last) chunk->most_last = block->last;
  if (block->end_bytes > chunk->most_end_bytes) chunk->most_end_bytes = block->end_bytes;
}

static void summarize(delta_placed_chunk_t *chunk) {
  begin_summary(chunk);
  for (uint32_t i = 0; i < chunk->count; ++i) add_to_summary(chunk, &chunk->blocks[i]);
}

// Puts an empty chunk at place `at` of the list.
static delta_placed_chunk_t *open_chunk(delta_placed_t *placed, uint32_t at) {
  delta_placed_chunk_t *chunk = &placed->pool[placed->chunk_count];
  memmove(&placed->chunks[at + 1], &placed->chunks[at], (placed->chunk_count - at) * sizeof *placed->chunks);
  placed->chunks[at] = chunk;
  ++placed->chunk_count;
  chunk->count = 0;
  begin_summary(chunk);
  return chunk;
}

// The last chunk that begins below the address, where the block belongs; the first one when none does.
static uint32_t find_chunk(const delta_placed_t *placed, uint64_t begin_bytes) {
  uint32_t low = 0, high = placed->chunk_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (placed->chunks[middle]->blocks[0].begin_bytes < begin_bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low > 0 ? low - 1 : 0;
}

static void split_chunk(delta_placed_t *placed, uint32_t at) {
  enum { HALF = DELTA_PLACED_CHUNK / 2 };
  delta_placed_chunk_t *low = placed->chunks[at], *high = open_chunk(placed, at + 1);
  memcpy(high->blocks, low->blocks + HALF, HALF * sizeof *high->blocks);
  low->count = high->count = HALF;
  summarize(low);
  summarize(high);
}

void delta_placed_add(delta_placed_t *placed, const delta_placed_block_t *block) {
  if (placed->chunk_count == 0) open_chunk(placed, 0);
  uint32_t at = find_chunk(placed, block->begin_bytes);
  if (placed->chunks[at]->count == DELTA_PLACED_CHUNK) {
    split_chunk(placed, at);
    at = find_chunk(placed, block->begin_bytes);
  }
  delta_placed_chunk_t *chunk = placed->chunks[at];
  uint32_t position = chunk->count;
  for (; position > 0 && chunk->blocks[position - 1].begin_bytes >= block->begin_bytes; --position) {
    chunk->blocks[position] = chunk->blocks[position - 1];
  }
  chunk->blocks[position] = *block;
  ++chunk->count;
  add_to_summary(chunk, block);
}
