// Pack: large blocks nested, the others by first fit in many orders, then in orders repaired where they fail.
//
// One pass takes the blocks in an order and gives each, with its group, the lowest gap among those already placed that live at the same time. What order is good differs
// between programs, so several are tried. A pass that misses the goal names the blocks to blame, those that end above it; placed earlier the next time
// they find room below: first all of them at the front, then, in a seeded local search, one by one, or what is in their way later. Every packing in which
// no block can be pushed down is the result of some order, so nothing is out of the search's reach. Passes stop at the goal or when the effort is used up; the best
// one stays.
#include "planner/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/region.h"
#include "planner/nest.h"
#include "planner/placed.h"

// Effort counts comparisons of a block with a placed one, or with a chunk of them, over all passes; 10^9 take about two seconds. A pass takes up to
// count^2 / 2 of them, in long programs count^2 / 64: few blocks get a number of passes, many blocks a time.
static const uint64_t MOST_EFFORT = 50 * 1000 * 1000, EFFORT_PER_BLOCK = 8 * 1000, EFFORT_PER_PAIR = 3000;
enum { PATIENCE = 60 };

// Blocks below this part of the bound that are alone find room anywhere: orders are searched without them, and they come last.
static const uint64_t SMALL_PARTS = 1024;
// A packing with the small ones last is taken when it is this near the bound.
static const uint64_t GOOD_ENOUGH_PARTS = 128;
static const uint64_t HASTY_EFFORT_PARTS = 8;

// Without a capacity the repair stops this near the bound: what is left is worth no more time.
static const uint64_t NEAR_ENOUGH_PARTS = 250;

// One way to order blocks: by key, largest first; ties by `second`, then by index.
typedef struct ranked_block {
  uint64_t key, second;
  uint32_t block;
} ranked_block_t;

typedef struct packer {
  delta_block_t *blocks;
  uint32_t count;       // of those that are placed
  uint32_t fixed_count; // of those at the front that have their places: orders are searched for the others
  uint32_t bound_step;
  uint64_t target_bytes;  // The first orders stop here,
  uint64_t goal_bytes;    // the repair here.
  delta_region_t region;  // Owns the tables.
  delta_placed_t placed;  // by the pass
  ranked_block_t *ranked; // for sorting
  uint32_t *order;        // of the pass
  uint32_t *best_order;   // of the best pass so far
  uint32_t *last_order;   // of the pass the repair goes on from
  uint64_t *offsets;      // of the pass, by block
  uint64_t *best_offsets;
  uint64_t *last_offsets;
  uint32_t *pass_of; // by block: the last pass that placed it
  uint32_t pass;
  uint64_t best_end_bytes;
  uint64_t effort, effort_limit;
  bool is_hasty;
  delta_random_sequence_t random;
} packer_t;

// The lowest place of a group at which all its blocks are clear of what is placed: it is raised until nobody raised it once around.
static uint64_t find_group(packer_t *packer, uint32_t member) {
  uint64_t base_bytes = 0;
  uint32_t at = member, raiser = member;
  do {
    const delta_block_t *block = &packer->blocks[at];
    const uint64_t least_bytes = base_bytes + block->group_bytes;
    const uint64_t found_bytes =
        delta_placed_find(&packer->placed, block->first, block->last, block->size_bytes, least_bytes, &packer->effort);
    if (found_bytes > least_bytes) raiser = at;
    base_bytes = found_bytes - block->group_bytes;
    at = block->next_in_group;
  } while (at != raiser);
  return base_bytes;
}

// Places a block, and with it its group. Returns the end of all that it placed.
static uint64_t place_block(packer_t *packer, uint32_t member) {
  uint64_t end_bytes = 0;
  const uint64_t base_bytes = find_group(packer, member);
  uint32_t at = member;
  do {
    const delta_block_t *block = &packer->blocks[at];
    const uint64_t offset_bytes = base_bytes + block->group_bytes, block_end_bytes = offset_bytes + block->size_bytes;
    delta_placed_add(&packer->placed, &(delta_placed_block_t){offset_bytes, block_end_bytes, block->first, block->last});
    packer->effort += DELTA_PLACED_CHUNK; // the adding
    packer->offsets[at] = offset_bytes;
    packer->pass_of[at] = packer->pass;
    if (block_end_bytes > end_bytes) end_bytes = block_end_bytes;
    at = block->next_in_group;
  } while (at != member);
  return end_bytes;
}

static uint32_t free_count(const packer_t *packer) { return packer->count - packer->fixed_count; }

// Puts the fixed blocks where they are. Returns their end.
static uint64_t place_fixed(packer_t *packer) {
  uint64_t end_bytes = 0;
  delta_placed_clear(&packer->placed);
  for (uint32_t i = 0; i < packer->fixed_count; ++i) {
    const delta_block_t *block = &packer->blocks[i];
    const uint64_t block_end_bytes = block->offset_bytes + block->size_bytes;
    delta_placed_add(&packer->placed, &(delta_placed_block_t){block->offset_bytes, block_end_bytes, block->first, block->last});
    packer->effort += DELTA_PLACED_CHUNK;
    packer->offsets[i] = block->offset_bytes;
    if (block_end_bytes > end_bytes) end_bytes = block_end_bytes;
  }
  return end_bytes;
}

// Places all blocks in packer->order. Returns the end.
static uint64_t run_pass(packer_t *packer) {
  uint64_t end_bytes = place_fixed(packer);
  ++packer->pass;
  for (uint32_t k = 0; k < free_count(packer); ++k) {
    if (packer->pass_of[packer->order[k]] == packer->pass) continue;
    const uint64_t block_end_bytes = place_block(packer, packer->order[k]);
    if (block_end_bytes > end_bytes) end_bytes = block_end_bytes;
  }
  return end_bytes;
}

static bool try_order(packer_t *packer) {
  const uint64_t end_bytes = run_pass(packer);
  if (end_bytes >= packer->best_end_bytes) return false;
  packer->best_end_bytes = end_bytes;
  memcpy(packer->best_offsets, packer->offsets, packer->count * sizeof *packer->offsets);
  memcpy(packer->best_order, packer->order, free_count(packer) * sizeof *packer->order);
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
  const uint32_t count = free_count(packer);
  for (uint32_t i = 0; i < count; ++i) {
    packer->ranked[i].block = packer->fixed_count + i;
    rank(packer, &packer->blocks[packer->fixed_count + i], &packer->ranked[i]);
  }
  qsort(packer->ranked, count, sizeof *packer->ranked, compare_ranks);
  for (uint32_t i = 0; i < count; ++i) packer->order[i] = packer->ranked[i].block;
}

static bool may_go_on(const packer_t *packer, uint64_t goal_bytes) {
  return packer->best_end_bytes > goal_bytes && packer->effort < packer->effort_limit;
}

static bool sticks_out(const packer_t *packer, uint32_t block) {
  return packer->offsets[block] + packer->blocks[block].size_bytes > packer->goal_bytes;
}

// Moves the blocks that end above the goal to the front, keeping their order among themselves and that of the others.
static void blame_blocks(packer_t *packer) {
  uint32_t *others = (uint32_t *)packer->ranked;
  uint32_t front = 0, other_count = 0;
  for (uint32_t k = 0; k < free_count(packer); ++k) {
    const uint32_t block = packer->order[k];
    if (sticks_out(packer, block)) {
      packer->order[front++] = block;
    } else {
      others[other_count++] = block;
    }
  }
  memcpy(packer->order + front, others, other_count * sizeof *others);
}

static void copy_packing(const packer_t *packer, uint32_t *to_order, uint64_t *to_offsets, const uint32_t *order, const uint64_t *offsets) {
  memcpy(to_order, order, free_count(packer) * sizeof *order);
  memcpy(to_offsets, offsets, packer->count * sizeof *offsets);
}

static void search_orders(packer_t *packer) {
  for (size_t i = 0; i < sizeof rank_functions / sizeof *rank_functions && may_go_on(packer, packer->target_bytes); ++i) {
    sort_order(packer, rank_functions[i]);
    try_order(packer);
  }
  copy_packing(packer, packer->order, packer->offsets, packer->best_order, packer->best_offsets);
  for (int since_better = 0; since_better < PATIENCE && may_go_on(packer, packer->goal_bytes);) {
    blame_blocks(packer);
    since_better = try_order(packer) ? 0 : since_better + 1;
  }
}

// ---- Repair

// Bytes above the goal over all blocks: unlike the end, this falls with every block that finds room.
static uint64_t sum_excess(const packer_t *packer) {
  uint64_t excess_bytes = 0;
  for (uint32_t i = 0; i < packer->count; ++i) {
    if (sticks_out(packer, i)) excess_bytes += packer->offsets[i] + packer->blocks[i].size_bytes - packer->goal_bytes;
  }
  return excess_bytes;
}

// The place in the order of a block that ends above the goal, drawn among them; the count when there is none.
static uint32_t draw_blamed(packer_t *packer) {
  uint32_t chosen = packer->count, seen = 0;
  for (uint32_t k = 0; k < free_count(packer); ++k) {
    if (sticks_out(packer, packer->order[k]) && delta_random_below(&packer->random, ++seen) == 0) chosen = k;
  }
  return chosen;
}

// The place in the order of a block that lives with `block`, drawn with chances proportional to the bytes.
static uint32_t draw_neighbour(packer_t *packer, const delta_block_t *block) {
  uint64_t seen_bytes = 0;
  uint32_t chosen = 0;
  for (uint32_t k = 0; k < free_count(packer); ++k) {
    const delta_block_t *other = &packer->blocks[packer->order[k]];
    if (other->size_bytes == 0 || other->last < block->first || other->first > block->last) continue;
    seen_bytes += other->size_bytes;
    if (delta_random_next(&packer->random) % seen_bytes < other->size_bytes) chosen = k;
  }
  return chosen;
}

static void move_in_order(uint32_t *order, uint32_t from, uint32_t to) {
  const uint32_t block = order[from];
  if (from > to) {
    memmove(&order[to + 1], &order[to], (from - to) * sizeof *order);
  } else {
    memmove(&order[from], &order[from + 1], (to - from) * sizeof *order);
  }
  order[to] = block;
}

// A block in the way or one that sticks out goes elsewhere in the order, the latter earlier.
static void change_order(packer_t *packer) {
  const uint32_t blamed = draw_blamed(packer);
  if (blamed == packer->count) return;
  if (delta_random_below(&packer->random, 2) == 0) {
    move_in_order(packer->order, blamed, delta_random_below(&packer->random, blamed + 1));
  } else {
    const uint32_t neighbour = draw_neighbour(packer, &packer->blocks[packer->order[blamed]]);
    move_in_order(packer->order, neighbour, delta_random_below(&packer->random, free_count(packer)));
  }
}

// Changes the best order a little, again and again, and goes on from the result unless it is worse by more than a small drawn share.
static void repair(packer_t *packer) {
  copy_packing(packer, packer->order, packer->offsets, packer->best_order, packer->best_offsets);
  copy_packing(packer, packer->last_order, packer->last_offsets, packer->order, packer->offsets);
  uint64_t last_excess_bytes = sum_excess(packer);
  while (may_go_on(packer, packer->goal_bytes)) {
    const uint32_t changes = 1 + delta_random_below(&packer->random, 2);
    for (uint32_t i = 0; i < changes; ++i) change_order(packer);
    try_order(packer);
    packer->effort += packer->count; // the draws
    const uint64_t excess_bytes = sum_excess(packer);
    const uint64_t tolerated_bytes = last_excess_bytes / 100 * delta_random_below(&packer->random, 100) / 100;
    if (excess_bytes <= last_excess_bytes + tolerated_bytes) {
      copy_packing(packer, packer->last_order, packer->last_offsets, packer->order, packer->offsets);
      last_excess_bytes = excess_bytes;
    } else {
      copy_packing(packer, packer->order, packer->offsets, packer->last_order, packer->last_offsets);
    }
  }
}

static delta_status_t allocate_tables(packer_t *packer) {
  const uint32_t count = packer->count;
  DELTA_RETURN_IF_ERROR(delta_placed_init(&packer->placed, count, &packer->region));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->ranked));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->order));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->best_order));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->last_order));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->offsets));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->last_offsets));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&packer->region, count, &packer->pass_of));
  return DELTA_REGION_ALLOCATE(&packer->region, count, &packer->best_offsets);
}

static uint64_t limit_effort(uint64_t count) {
  const uint64_t by_pairs = count < 4096 ? count * count * EFFORT_PER_PAIR : UINT64_MAX, by_blocks = MOST_EFFORT + count * EFFORT_PER_BLOCK;
  return by_pairs < by_blocks ? by_pairs : by_blocks;
}

// Searches for a packing of the packer's blocks, for a while or, repairing, until its effort is used up. Their offsets are set.
static delta_status_t pack_searching(packer_t *packer, bool repairs, delta_allocator_t allocator) {
  delta_region_init(&packer->region, allocator);
  delta_status_t status = allocate_tables(packer);
  if (!status) {
    packer->best_end_bytes = UINT64_MAX;
    packer->effort_limit = limit_effort(packer->count) / (packer->is_hasty ? HASTY_EFFORT_PARTS : 1);
    search_orders(packer);
    if (repairs) repair(packer);
    for (uint32_t i = 0; i < packer->count; ++i) packer->blocks[i].offset_bytes = packer->best_offsets[i];
  }
  delta_region_deinit(&packer->region);
  return status;
}

// ---- Parts

// One way to go about it: nested blocks, those of at least a part of the bound, have places of their own first; then come those that count, and the others at last.
typedef struct packing_way {
  uint32_t nested_parts; // of the bound; 0: none are nested
  bool is_backward;      // nested from the last step to the first
  uint32_t small_parts;  // what is below this part of the bound does not count; 0: all does
  bool repairs;
  bool is_hasty; // is tried in haste, too
} packing_way_t;

static const packing_way_t packing_ways[] = {
    {.small_parts = SMALL_PARTS, .is_hasty = true},
    {.nested_parts = 8, .small_parts = SMALL_PARTS, .repairs = true, .is_hasty = true},
    {.nested_parts = 20, .small_parts = SMALL_PARTS, .repairs = true, .is_hasty = true},
    {.nested_parts = 40, .small_parts = SMALL_PARTS, .repairs = true, .is_hasty = true},
    {.nested_parts = 8, .is_backward = true, .small_parts = SMALL_PARTS, .repairs = true, .is_hasty = true},
    {.nested_parts = 20, .is_backward = true, .small_parts = SMALL_PARTS, .repairs = true},
    {.nested_parts = 40, .is_backward = true, .small_parts = SMALL_PARTS, .repairs = true},
    {.nested_parts = 80, .small_parts = SMALL_PARTS, .repairs = true},
    {.small_parts = SMALL_PARTS, .repairs = true, .is_hasty = true},
    {.repairs = true},
};

static uint64_t largest_in_group(const delta_block_t *blocks, uint32_t block) {
  uint64_t largest_bytes = blocks[block].size_bytes;
  for (uint32_t at = blocks[block].next_in_group; at != block; at = blocks[at].next_in_group) {
    if (blocks[at].size_bytes > largest_bytes) largest_bytes = blocks[at].size_bytes;
  }
  return largest_bytes;
}

enum { NESTED, COUNTS, SMALL, CLASSES };

// Orders are searched for what is large, and for what decides the places of others.
static int classify(const delta_block_t *blocks, uint32_t block, const packing_way_t *way, uint64_t bound_bytes) {
  if (way->nested_parts > 0 && largest_in_group(blocks, block) >= bound_bytes / way->nested_parts) return NESTED;
  const bool is_large = way->small_parts == 0 || blocks[block].size_bytes >= bound_bytes / way->small_parts;
  return is_large || blocks[block].next_in_group != block ? COUNTS : SMALL;
}

// The blocks class by class, each in their order; `places` says where each went.
static void part_blocks(const delta_block_t *blocks, uint32_t count, const packing_way_t *way, uint64_t bound_bytes, delta_block_t *parted,
                        uint32_t *places, uint32_t counts[CLASSES]) {
  uint32_t next[CLASSES] = {0};
  memset(counts, 0, CLASSES * sizeof *counts);
  for (uint32_t i = 0; i < count; ++i) ++counts[classify(blocks, i, way, bound_bytes)];
  for (int c = 1; c < CLASSES; ++c) next[c] = next[c - 1] + counts[c - 1];
  for (uint32_t i = 0; i < count; ++i) places[i] = next[classify(blocks, i, way, bound_bytes)]++;
  for (uint32_t i = 0; i < count; ++i) {
    parted[places[i]] = blocks[i];
    parted[places[i]].next_in_group = places[blocks[i].next_in_group];
  }
}

// Places the blocks from `first` on at the lowest gaps beside those before, which have their offsets. Returns the end of all.
static delta_status_t place_rest(packer_t *packer, uint32_t first, delta_allocator_t allocator, uint64_t *out_end_bytes) {
  const uint32_t count = packer->count;
  delta_region_init(&packer->region, allocator);
  delta_status_t status = allocate_tables(packer);
  if (!status) {
    packer->fixed_count = first;
    for (uint32_t i = first; i < count; ++i) {
      const delta_block_t *block = &packer->blocks[i];
      packer->ranked[i - first] = (ranked_block_t){.key = block->size_bytes, .second = lifetime(block), .block = i};
    }
    qsort(packer->ranked, count - first, sizeof *packer->ranked, compare_ranks);
    for (uint32_t k = 0; k < count - first; ++k) packer->order[k] = packer->ranked[k].block;
    *out_end_bytes = run_pass(packer);
    for (uint32_t i = 0; i < count; ++i) packer->blocks[i].offset_bytes = packer->offsets[i];
  }
  delta_region_deinit(&packer->region);
  return status;
}

// The most that the blocks take at once; where a group changes its form, a little more.
static delta_status_t find_peak(const delta_block_t *blocks, uint32_t count, delta_region_t *scratch, uint64_t *out_peak_bytes) {
  uint32_t last = 0;
  int64_t *live_bytes = NULL;
  for (uint32_t i = 0; i < count; ++i) last = blocks[i].last > last ? blocks[i].last : last;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, (size_t)last + 2, &live_bytes));
  for (uint32_t i = 0; i < count; ++i) {
    live_bytes[blocks[i].first] += (int64_t)blocks[i].size_bytes;
    live_bytes[blocks[i].last + 1] -= (int64_t)blocks[i].size_bytes;
  }
  *out_peak_bytes = 0;
  for (uint32_t s = 0; s <= last; ++s) {
    live_bytes[s + 1] += live_bytes[s];
    if ((uint64_t)live_bytes[s] > *out_peak_bytes) *out_peak_bytes = (uint64_t)live_bytes[s];
  }
  return DELTA_OK;
}

// More blocks than this are not few.
enum { MOST_NESTED = 1024, NEST_EFFORT = 1000 * 1000, ROOMS_TRIED = 3 };

static void reverse_time(delta_block_t *blocks, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t first = blocks[i].first;
    blocks[i].first = UINT32_MAX - 1 - blocks[i].last;
    blocks[i].last = UINT32_MAX - 1 - first;
  }
}

// Gives the nested blocks, those at the front, their places: in as little as they need, so that above them there is room for what lives long, or at least below the goal.
static delta_status_t nest_blocks(packer_t *packer, uint32_t count, bool is_backward, delta_region_t *scratch, bool *out_found) {
  uint64_t least_bytes = 0, *offsets = NULL;
  *out_found = false;
  if (count == 0 || count > MOST_NESTED) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, count, &offsets));
  DELTA_RETURN_IF_ERROR(find_peak(packer->blocks, count, scratch, &least_bytes));
  if (least_bytes > packer->goal_bytes) least_bytes = packer->goal_bytes;
  if (is_backward) reverse_time(packer->blocks, count);
  for (int i = 0; i <= ROOMS_TRIED && !*out_found; ++i) {
    const uint64_t room_bytes = least_bytes + (packer->goal_bytes - least_bytes) / ROOMS_TRIED * (uint64_t)i;
    DELTA_RETURN_IF_ERROR(delta_nest(packer->blocks, count, room_bytes, NEST_EFFORT, scratch, offsets, out_found));
  }
  if (is_backward) reverse_time(packer->blocks, count);
  for (uint32_t i = 0; i < count && *out_found; ++i) packer->blocks[i].offset_bytes = offsets[i];
  return DELTA_OK;
}

// Goes one way. *inout_end_bytes falls when a better packing was found; the goal's blocks have its offsets then.
static delta_status_t try_way(const packer_t *goal, const packing_way_t *way, uint64_t bound_bytes, delta_region_t *scratch,
                              uint64_t *inout_end_bytes) {
  const uint32_t count = goal->count;
  uint32_t *places = NULL, counts[CLASSES];
  packer_t packer = *goal;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, count, &packer.blocks));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, count, &places));
  part_blocks(goal->blocks, count, way, bound_bytes, packer.blocks, places, counts);
  if (way->nested_parts > 0) {
    bool is_nested = false;
    DELTA_RETURN_IF_ERROR(nest_blocks(&packer, counts[NESTED], way->is_backward, scratch, &is_nested));
    if (!is_nested) return DELTA_OK;
  }
  packer.fixed_count = counts[NESTED];
  packer.count = counts[NESTED] + counts[COUNTS];
  DELTA_RETURN_IF_ERROR(pack_searching(&packer, way->repairs, scratch->allocator));
  uint64_t end_bytes = packer.best_end_bytes;
  if (counts[SMALL] > 0) {
    packer.count = count;
    DELTA_RETURN_IF_ERROR(place_rest(&packer, counts[NESTED] + counts[COUNTS], scratch->allocator, &end_bytes));
  }
  if (end_bytes >= *inout_end_bytes) return DELTA_OK;
  *inout_end_bytes = end_bytes;
  for (uint32_t i = 0; i < count; ++i) goal->blocks[i].offset_bytes = packer.blocks[places[i]].offset_bytes;
  return DELTA_OK;
}

// With more blocks than this every pass takes long: only the ways of repairs are open.
enum { MANY_BLOCKS = 4096 };

// Whether a packing is as good as another way's would have to be.
static bool is_good_enough(const packer_t *goal, const delta_pack_goal_t *asked, uint64_t end_bytes) {
  const bool is_strict = goal->goal_bytes == asked->capacity_bytes && goal->count <= MANY_BLOCKS;
  return end_bytes <= goal->goal_bytes || (!is_strict && end_bytes <= asked->bound_bytes + asked->bound_bytes / GOOD_ENOUGH_PARTS);
}

static bool is_open(const packing_way_t *way, const packer_t *goal) {
  if (goal->is_hasty && !way->is_hasty) return false;
  return goal->count <= MANY_BLOCKS || (way->repairs && way->nested_parts == 0);
}

static delta_status_t pack_within(const packer_t *goal, const delta_pack_goal_t *asked, delta_allocator_t allocator,
                                  uint64_t *out_end_bytes) {
  *out_end_bytes = goal->count > 0 ? UINT64_MAX : 0;
  for (size_t w = 0; w < sizeof packing_ways / sizeof *packing_ways && !is_good_enough(goal, asked, *out_end_bytes); ++w) {
    if (!is_open(&packing_ways[w], goal)) continue;
    delta_region_t scratch;
    delta_region_init(&scratch, allocator);
    delta_status_t status = try_way(goal, &packing_ways[w], asked->bound_bytes, &scratch, out_end_bytes);
    delta_region_deinit(&scratch);
    if (status) return status;
  }
  return DELTA_OK;
}

delta_status_t delta_pack(delta_block_t *blocks, uint32_t count, const delta_pack_goal_t *goal, delta_allocator_t allocator,
                          uint64_t *out_end_bytes) {
  const bool limited = goal->capacity_bytes > goal->bound_bytes && goal->capacity_bytes != UINT64_MAX;
  packer_t packer = {.blocks = blocks,
                     .count = count,
                     .bound_step = goal->bound_step,
                     .target_bytes = limited ? goal->capacity_bytes : goal->bound_bytes,
                     .is_hasty = goal->is_hasty};
  packer.goal_bytes = packer.target_bytes + (limited ? 0 : goal->bound_bytes / NEAR_ENOUGH_PARTS);
  return pack_within(&packer, goal, allocator, out_end_bytes);
}
