// Pack: first fit in many orders, then repeated with the blocks that stuck out of the bound moved to the front.
//
// One pass takes the blocks in an order and gives each the lowest gap among those already placed that live at the same time. What order is good differs
// between programs, so several are tried. A pass that misses the bound names the blocks to blame, those that end above it; placed earlier the next time
// they find room below. Passes stop at the bound or when the effort is used up; the best one stays.
#include "planner/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/region.h"

// Effort counts comparisons of a block with a placed one over all passes; 10^9 take about two seconds.
static const uint64_t LEAST_EFFORT = 200 * 1000 * 1000, EFFORT_PER_BLOCK = 30 * 1000;
enum { MOST_PASSES = 400, PATIENCE = 60 };

// A placed block, as the scan reads it.
typedef struct placed_block {
  uint64_t begin_bytes, end_bytes;
  uint32_t first, last;
} placed_block_t;

// One way to order blocks: by key, largest first; ties by `second`, then by index.
typedef struct ranked_block {
  uint64_t key, second;
  uint32_t block;
} ranked_block_t;

typedef struct packer {
  delta_block_t *blocks;
  uint32_t count;
  uint64_t bound_bytes;
  uint32_t bound_step;
  delta_region_t region;  // Owns the tables.
  placed_block_t *placed; // sorted by begin_bytes
  ranked_block_t *ranked; // for sorting
  uint32_t *order;        // of the pass
  uint32_t *best_order;   // of the best pass so far
  uint64_t *offsets;      // of the pass, by block
  uint64_t *best_offsets; // by block
  uint64_t best_end_bytes;
  uint64_t effort, effort_limit;
} packer_t;

// The lowest offset at which the block overlaps nothing placed, and where in the list it goes.
static uint64_t find_gap(packer_t *packer, const delta_block_t *block, uint32_t placed_count, uint32_t *out_position) {
  uint64_t top_bytes = 0;
  uint32_t i = 0;
  for (; i < placed_count; ++i) {
    const placed_block_t *placed = &packer->placed[i];
    if (placed->last < block->first || placed->first > block->last) continue;
    if (placed->begin_bytes >= top_bytes + block->size_bytes) break;
    if (placed->end_bytes > top_bytes) top_bytes = placed->end_bytes;
  }
  packer->effort += i;
  uint32_t low = 0, high = i;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (packer->placed[middle].begin_bytes < top_bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *out_position = low;
  return top_bytes;
}

// Places all blocks in packer->order. Returns the end.
static uint64_t run_pass(packer_t *packer) {
  uint64_t end_bytes = 0;
  for (uint32_t k = 0; k < packer->count; ++k) {
    const delta_block_t *block = &packer->blocks[packer->order[k]];
    uint32_t position;
    const uint64_t offset_bytes = find_gap(packer, block, k, &position);
    memmove(&packer->placed[position + 1], &packer->placed[position], (k - position) * sizeof *packer->placed);
    packer->placed[position] = (placed_block_t){offset_bytes, offset_bytes + block->size_bytes, block->first, block->last};
    packer->offsets[packer->order[k]] = offset_bytes;
    if (offset_bytes + block->size_bytes > end_bytes) end_bytes = offset_bytes + block->size_bytes;
  }
  return end_bytes;
}

static bool try_order(packer_t *packer) {
  const uint64_t end_bytes = run_pass(packer);
  if (end_bytes >= packer->best_end_bytes) return false;
  packer->best_end_bytes = end_bytes;
  memcpy(packer->best_offsets, packer->offsets, packer->count * sizeof *packer->offsets);
  memcpy(packer->best_order, packer->order, packer->count * sizeof *packer->order);
  return true;
}

static uint64_t lifetime(const delta_block_t *block) { return (uint64_t)(block->last - block->first) + 1; }

static bool lives_at_bound(const packer_t *packer, const delta_block_t *block) {
  return block->first <= packer->bound_step && block->last >= packer->bound_step;
}

// The orders tried first.
typedef void (*rank_function_t)(const packer_t *packer, const delta_block_t *block, ranked_block_t *out_rank);

static void rank_by_lifetime(const packer_t *packer, const delta_block_t *block, ranked_block_t *out_rank) {
  (void)packer;
  out_rank->key = lifetime(block);
  out_rank->second = block->size_bytes;
}

static void rank_by_size(const packer_t *packer, const delta_block_t *block, ranked_block_t *out_rank) {
  (void)packer;
  out_rank->key = block->size_bytes;
  out_rank->second = lifetime(block);
}

static void rank_by_area(const packer_t *packer, const delta_block_t *block, ranked_block_t *out_rank) {
  (void)packer;
  out_rank->key = lifetime(block) * block->size_bytes;
  out_rank->second = lifetime(block);
}

static void rank_by_start(const packer_t *packer, const delta_block_t *block, ranked_block_t *out_rank) {
  (void)packer;
  out_rank->key = UINT32_MAX - block->first;
  out_rank->second = lifetime(block);
}

// What lives at the fullest step stacks up without gaps, the longest-lived at the bottom; the rest by size finds room beside it.
static void rank_by_peak(const packer_t *packer, const delta_block_t *block, ranked_block_t *out_rank) {
  const bool at_bound = lives_at_bound(packer, block);
  out_rank->key = at_bound ? UINT64_MAX : block->size_bytes;
  out_rank->second = lifetime(block);
}

static void rank_by_peak_area(const packer_t *packer, const delta_block_t *block, ranked_block_t *out_rank) {
  const bool at_bound = lives_at_bound(packer, block);
  out_rank->key = at_bound ? UINT64_MAX : block->size_bytes * lifetime(block);
  out_rank->second = lifetime(block);
}

static const rank_function_t rank_functions[] = {rank_by_lifetime, rank_by_peak,      rank_by_area,
                                                 rank_by_size,     rank_by_peak_area, rank_by_start};

static int compare_ranks(const void *left, const void *right) {
  const ranked_block_t *a = left, *b = right;
  if (a->key != b->key) return a->key > b->key ? -1 : 1;
  if (a->second != b->second) return a->second > b->second ? -1 : 1;
  return a->block < b->block ? -1 : a->block > b->block;
}

static void sort_order(packer_t *packer, rank_function_t rank) {
  for (uint32_t i = 0; i < packer->count; ++i) {
    packer->ranked[i].block = i;
    rank(packer, &packer->blocks[i], &packer->ranked[i]);
  }
  qsort(packer->ranked, packer->count, sizeof *packer->ranked, compare_ranks);
  for (uint32_t i = 0; i < packer->count; ++i) packer->order[i] = packer->ranked[i].block;
}

static bool may_go_on(const packer_t *packer) {
  return packer->best_end_bytes > packer->bound_bytes && packer->effort < packer->effort_limit;
}

// Moves the blocks that end above the bound to the front, keeping their order among themselves and that of the others.
static void blame_blocks(packer_t *packer) {
  uint32_t *others = (uint32_t *)packer->ranked;
  uint32_t front = 0, other_count = 0;
  for (uint32_t k = 0; k < packer->count; ++k) {
    const uint32_t block = packer->order[k];
    if (packer->offsets[block] + packer->blocks[block].size_bytes > packer->bound_bytes) {
      packer->order[front++] = block;
    } else {
      others[other_count++] = block;
    }
  }
  memcpy(packer->order + front, others, other_count * sizeof *others);
}

static void search_orders(packer_t *packer) {
  for (size_t i = 0; i < sizeof rank_functions / sizeof *rank_functions && may_go_on(packer); ++i) {
    sort_order(packer, rank_functions[i]);
    try_order(packer);
  }
  memcpy(packer->order, packer->best_order, packer->count * sizeof *packer->order);
  memcpy(packer->offsets, packer->best_offsets, packer->count * sizeof *packer->offsets);
  for (int pass = 0, since_better = 0; pass < MOST_PASSES && since_better < PATIENCE && may_go_on(packer); ++pass) {
    blame_blocks(packer);
    since_better = try_order(packer) ? 0 : since_better + 1;
  }
}

static delta_status_t allocate_tables(packer_t *packer) {
  const uint32_t count = packer->count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, (size_t)count + 1, &packer->placed));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->ranked));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->order));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->best_order));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->offsets));
  return DELTA_REGION_ALLOCATE(&packer->region, count, &packer->best_offsets);
}

delta_status_t delta_pack(delta_block_t *blocks, uint32_t count, uint64_t bound_bytes, uint32_t bound_step, delta_allocator_t allocator,
                          uint64_t *out_end_bytes) {
  packer_t packer = {.blocks = blocks,
                     .count = count,
                     .bound_bytes = bound_bytes,
                     .bound_step = bound_step,
                     .best_end_bytes = UINT64_MAX,
                     .effort_limit = LEAST_EFFORT + count * EFFORT_PER_BLOCK};
  delta_region_init(&packer.region, allocator);
  delta_status_t status = allocate_tables(&packer);
  if (!status) {
    search_orders(&packer);
    for (uint32_t i = 0; i < count; ++i) blocks[i].offset_bytes = packer.best_offsets[i];
    *out_end_bytes = count > 0 ? packer.best_end_bytes : 0;
  }
  delta_region_deinit(&packer.region);
  return status;
}
