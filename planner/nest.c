// Nest: depth first over the blocks in order of their starts.
//
// What an arrangement leads to depends only on where those lie that still live when the next block begins: an arrangement that led nowhere is remembered, and not tried again
// however it comes about. A place is tried where a block touches another one, or an end of the arena, or would if one that comes later lay between. It is passed over
// when at some later start what must be there then does not fit into the gaps that are left.
#include "planner/nest.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
// Places of a block that are tried; blocks that wait for a gap and are looked at; later starts that are looked at.
enum { MOST_LIVE = 96, MOST_PLACES = 48, MOST_WAITING = 12, HORIZON = 16, MEMORY_BITS = 14, MEMORY_PROBES = 16, EASY_PARTS = 8 };

typedef struct nest_place {
  uint64_t offset_bytes;
  uint64_t mismatch; // the less, the better it suits its neighbours
} nest_place_t;

// Where blocks lie that live when a block begins; a group lies there from its first member's start on.
typedef struct nest_frame {
  uint32_t live[MOST_LIVE]; // by address
  uint32_t live_count;
  nest_place_t places[MOST_PLACES]; // of the block, the best first
  uint32_t place_count, next_place;
} nest_frame_t;

typedef struct nest {
  const delta_block_t *blocks;
  uint32_t count;
  uint64_t capacity_bytes;
  uint64_t *offsets; // by block
  uint32_t *order;   // groups by their first start: the member that begins first
  uint32_t order_count;
  uint32_t *by_start;   // blocks by start
  nest_frame_t *frames; // by place in the order
  uint64_t *memory;     // hashes of arrangements that led nowhere
  uint64_t effort, effort_limit;
} nest_t;

static bool meet(const delta_block_t *a, const delta_block_t *b) { return a->first <= b->last && b->first <= a->last; }
static uint64_t end_of(const nest_t *nest, uint32_t block) { return nest->offsets[block] + nest->blocks[block].size_bytes; }

// ---- Places of a block

static void add_place(nest_frame_t *frame, uint64_t offset_bytes, uint64_t mismatch) {
  for (uint32_t i = 0; i < frame->place_count; ++i) {
    if (frame->places[i].offset_bytes == offset_bytes) return;
  }
  if (frame->place_count == MOST_PLACES && frame->places[MOST_PLACES - 1].mismatch <= mismatch) return;
  if (frame->place_count < MOST_PLACES) ++frame->place_count;
  uint32_t at = frame->place_count - 1;
  for (; at > 0 && frame->places[at - 1].mismatch > mismatch; --at) frame->places[at] = frame->places[at - 1];
  frame->places[at] = (nest_place_t){offset_bytes, mismatch};
}

// What lies above and below a gap; NONE: an end of the arena.
typedef struct nest_gap {
  uint64_t begin_bytes, end_bytes;
  uint32_t below, above;
} nest_gap_t;

// A place that fills its gap is better than one beside a block, and that is better than one beside nothing; then who ends when its neighbour ends suits best, and who lasts long at an end
// of the arena.
static const uint64_t TOUCHES_ONE = UINT64_C(1) << 32, TOUCHES_NONE = UINT64_C(2) << 32;

static uint64_t compare_ends(const nest_t *nest, const delta_block_t *block, uint32_t neighbour) {
  const uint32_t last = neighbour == NONE ? UINT32_MAX / 2 : nest->blocks[neighbour].last;
  return block->last > last ? block->last - last : last - block->last;
}

static void list_places_in(nest_t *nest, uint32_t block, const nest_gap_t *gap, nest_frame_t *frame) {
  const delta_block_t *entry = &nest->blocks[block];
  const uint64_t low = gap->begin_bytes, high = gap->end_bytes - entry->size_bytes;
  const uint64_t below = compare_ends(nest, entry, gap->below), above = compare_ends(nest, entry, gap->above);
  if (low == high) {
    add_place(frame, low, below < above ? below : above);
    return;
  }
  add_place(frame, low, TOUCHES_ONE + below);
  add_place(frame, high, TOUCHES_ONE + above);
  uint32_t i = 0;
  for (; i < nest->count && nest->blocks[nest->by_start[i]].first <= entry->last; ++i) {
    const delta_block_t *later = &nest->blocks[nest->by_start[i]];
    if (later->first <= entry->first || later->size_bytes > high - low) continue;
    add_place(frame, low + later->size_bytes, TOUCHES_NONE + below);
    add_place(frame, high - later->size_bytes, TOUCHES_NONE + above);
  }
  nest->effort += i / EASY_PARTS;
}

static void list_places(nest_t *nest, uint32_t block, nest_frame_t *frame) {
  const delta_block_t *entry = &nest->blocks[block];
  nest_gap_t gap = {.below = NONE};
  frame->place_count = frame->next_place = 0;
  for (uint32_t i = 0; i <= frame->live_count; ++i) {
    const uint32_t other = i < frame->live_count ? frame->live[i] : NONE;
    if (other != NONE && !meet(&nest->blocks[other], entry)) continue;
    gap.above = other;
    gap.end_bytes = other == NONE ? nest->capacity_bytes : nest->offsets[other];
    if (gap.end_bytes >= gap.begin_bytes + entry->size_bytes) list_places_in(nest, block, &gap, frame);
    if (other == NONE) break;
    if (end_of(nest, other) > gap.begin_bytes) {
      gap.begin_bytes = end_of(nest, other);
      gap.below = other;
    }
  }
  nest->effort += frame->live_count;
}

// ---- Whether what comes later fits

// Puts the items from `item` on into gaps, the largest first.
static bool fill_gaps(nest_t *nest, uint64_t *gaps, uint32_t gap_count, const uint64_t *items, uint32_t item_count) {
  if (item_count == 0) return true;
  for (uint32_t g = 0; g < gap_count; ++g) {
    bool is_same = false;
    for (uint32_t k = 0; k < g && !is_same; ++k) is_same = gaps[k] == gaps[g];
    ++nest->effort;
    if (is_same || gaps[g] < items[0]) continue;
    gaps[g] -= items[0];
    const bool fits = fill_gaps(nest, gaps, gap_count, items + 1, item_count - 1);
    gaps[g] += items[0];
    if (fits) return true;
  }
  return false;
}

static void insert_largest(uint64_t *items, uint32_t *inout_count, uint64_t item) {
  uint32_t at = *inout_count < MOST_WAITING ? (*inout_count)++ : MOST_WAITING;
  if (at == MOST_WAITING && items[MOST_WAITING - 1] >= item) return;
  if (at == MOST_WAITING) --at;
  for (; at > 0 && items[at - 1] < item; --at) items[at] = items[at - 1];
  items[at] = item;
}

// At a step: those that live then and have no place fit into the gaps between those that have one.
static bool fits_at(nest_t *nest, const nest_frame_t *frame, uint32_t from, uint32_t step) {
  uint64_t items[MOST_WAITING], gaps[MOST_LIVE + 1], top_bytes = 0;
  uint32_t item_count = 0, gap_count = 0;
  for (uint32_t i = from; i < nest->order_count; ++i) {
    uint32_t member = nest->order[i];
    if (nest->blocks[member].first > step) break;
    uint64_t largest_bytes = 0;
    do {
      const delta_block_t *block = &nest->blocks[member];
      if (block->first <= step && block->last >= step && block->size_bytes > largest_bytes) largest_bytes = block->size_bytes;
      member = block->next_in_group;
    } while (member != nest->order[i]);
    ++nest->effort;
    if (largest_bytes > 0) insert_largest(items, &item_count, largest_bytes);
  }
  if (item_count == 0) return true;
  for (uint32_t i = 0; i < frame->live_count; ++i) {
    const uint32_t other = frame->live[i];
    const delta_block_t *block = &nest->blocks[other];
    if (block->last < step || block->first > step) continue;
    if (nest->offsets[other] > top_bytes && gap_count < MOST_LIVE) gaps[gap_count++] = nest->offsets[other] - top_bytes;
    if (end_of(nest, other) > top_bytes) top_bytes = end_of(nest, other);
  }
  if (nest->capacity_bytes > top_bytes) gaps[gap_count++] = nest->capacity_bytes - top_bytes;
  nest->effort += frame->live_count;
  return fill_gaps(nest, gaps, gap_count, items, item_count);
}

// The next starts of those from place `from` of the order on, while one of what has been placed last lives.
static bool fits_later(nest_t *nest, const nest_frame_t *frame, uint32_t from, uint32_t last) {
  uint32_t seen = 0, step = NONE;
  for (uint32_t i = from; i < nest->order_count && seen < HORIZON; ++i) {
    const uint32_t first = nest->blocks[nest->order[i]].first;
    if (first > last) break;
    if (first == step) continue;
    step = first;
    ++seen;
    if (!fits_at(nest, frame, from, step)) return false;
  }
  return true;
}

// ---- Arrangements

static void insert_by_address(const nest_t *nest, nest_frame_t *frame, uint32_t block) {
  uint32_t at = frame->live_count++;
  for (; at > 0 && nest->offsets[frame->live[at - 1]] > nest->offsets[block]; --at) frame->live[at] = frame->live[at - 1];
  frame->live[at] = block;
}

static bool is_clear(nest_t *nest, const nest_frame_t *frame, uint32_t block) {
  nest->effort += frame->live_count;
  for (uint32_t i = 0; i < frame->live_count; ++i) {
    const uint32_t other = frame->live[i];
    if (meet(&nest->blocks[block], &nest->blocks[other]) && nest->offsets[other] < end_of(nest, block) &&
        nest->offsets[block] < end_of(nest, other))
      return false;
  }
  return true;
}

// Gives a group its place, beside what the frame has. False: it is not clear, or ends outside.
static bool place_group(nest_t *nest, const nest_frame_t *frame, uint32_t block, uint64_t offset_bytes) {
  uint32_t member = block;
  do {
    const delta_block_t *entry = &nest->blocks[member];
    if (offset_bytes + entry->group_bytes < nest->blocks[block].group_bytes) return false;
    nest->offsets[member] = offset_bytes + entry->group_bytes - nest->blocks[block].group_bytes;
    if (end_of(nest, member) > nest->capacity_bytes || !is_clear(nest, frame, member)) return false;
    member = entry->next_in_group;
  } while (member != block);
  return true;
}

// The frame of the next block, after `block` has its place. False: too many live.
static bool open_frame(nest_t *nest, uint32_t depth, uint32_t block) {
  const nest_frame_t *frame = &nest->frames[depth];
  nest_frame_t *next = &nest->frames[depth + 1];
  const uint32_t now = depth + 1 < nest->order_count ? nest->blocks[nest->order[depth + 1]].first : UINT32_MAX;
  next->live_count = 0;
  for (uint32_t i = 0; i < frame->live_count; ++i) {
    if (nest->blocks[frame->live[i]].last >= now) next->live[next->live_count++] = frame->live[i];
  }
  uint32_t member = block;
  do {
    if (nest->blocks[member].last >= now) {
      if (next->live_count == MOST_LIVE) return false;
      insert_by_address(nest, next, member);
    }
    member = nest->blocks[member].next_in_group;
  } while (member != block);
  return true;
}

// Of what the next block finds. Blocks that are alike may change places; who comes later, with its group, is told apart by its start. Never 0.
static uint64_t hash_frame(const nest_t *nest, uint32_t depth) {
  const nest_frame_t *frame = &nest->frames[depth];
  const uint32_t now = nest->blocks[nest->order[depth]].first;
  uint64_t hash = depth;
  for (uint32_t i = 0; i < frame->live_count; ++i) {
    const delta_block_t *block = &nest->blocks[frame->live[i]];
    const uint64_t first = block->first > now ? block->first : 0;
    const uint64_t words[] = {nest->offsets[frame->live[i]], block->size_bytes, first << 32 | block->last};
    for (size_t w = 0; w < sizeof words / sizeof *words; ++w) {
      hash = (hash ^ words[w]) * UINT64_C(0x9e3779b97f4a7c15);
      hash ^= hash >> 29;
    }
  }
  return hash | 1;
}

static uint64_t *find_memory(const nest_t *nest, uint64_t hash) {
  const uint64_t mask = (UINT64_C(1) << MEMORY_BITS) - 1;
  for (uint64_t i = 0; i < MEMORY_PROBES; ++i) {
    uint64_t *entry = &nest->memory[(hash + i) & mask];
    if (*entry == hash || *entry == 0) return entry;
  }
  return &nest->memory[hash & mask]; // one that is older is forgotten
}

// ---- The search

// When the last of a block's group ends.
static uint32_t find_last(const nest_t *nest, uint32_t block) {
  uint32_t last = nest->blocks[block].last;
  for (uint32_t at = nest->blocks[block].next_in_group; at != block; at = nest->blocks[at].next_in_group) {
    if (nest->blocks[at].last > last) last = nest->blocks[at].last;
  }
  return last;
}

// Tries the next places of the block at a depth. True: it has one, and the next frame is open.
static bool advance(nest_t *nest, uint32_t depth) {
  nest_frame_t *frame = &nest->frames[depth];
  const uint32_t block = nest->order[depth];
  const uint32_t last = find_last(nest, block);
  while (frame->next_place < frame->place_count && nest->effort < nest->effort_limit) {
    const nest_place_t place = frame->places[frame->next_place++];
    if (!place_group(nest, frame, block, place.offset_bytes) || !open_frame(nest, depth, block)) continue;
    if (depth + 1 == nest->order_count) return true;
    const uint64_t hash = hash_frame(nest, depth + 1);
    if (*find_memory(nest, hash) == hash) continue;
    if (fits_later(nest, &nest->frames[depth + 1], depth + 1, last)) return true;
  }
  return false;
}

static bool search(nest_t *nest) {
  uint32_t depth = 0;
  if (nest->order_count == 0) return true;
  list_places(nest, nest->order[0], &nest->frames[0]);
  while (nest->effort < nest->effort_limit) {
    if (advance(nest, depth)) {
      if (++depth == nest->order_count) return true;
      list_places(nest, nest->order[depth], &nest->frames[depth]);
    } else {
      if (depth == 0) return false;
      const uint64_t hash = hash_frame(nest, depth);
      *find_memory(nest, hash) = hash;
      --depth;
    }
  }
  return false;
}

// ---- Tables

typedef struct nest_rank {
  uint32_t first, block;
  uint64_t size_bytes;
} nest_rank_t;

static int compare_ranks(const void *left, const void *right) {
  const nest_rank_t *a = left, *b = right;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  if (a->size_bytes != b->size_bytes) return a->size_bytes > b->size_bytes ? -1 : 1;
  return a->block < b->block ? -1 : a->block > b->block;
}

// Whether a block stands for its group: it begins first, and of those is the largest.
static bool leads(const delta_block_t *blocks, uint32_t block) {
  for (uint32_t at = blocks[block].next_in_group; at != block; at = blocks[at].next_in_group) {
    const nest_rank_t own = {blocks[block].first, block, blocks[block].size_bytes}, other = {blocks[at].first, at, blocks[at].size_bytes};
    if (compare_ranks(&other, &own) < 0) return false;
  }
  return true;
}

static delta_status_t make_tables(nest_t *nest, delta_region_t *region) {
  nest_rank_t *ranks = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, nest->count, &ranks));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, nest->count, &nest->order));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, nest->count, &nest->by_start));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)nest->count + 1, &nest->frames));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)1 << MEMORY_BITS, &nest->memory));
  for (uint32_t i = 0; i < nest->count; ++i) ranks[i] = (nest_rank_t){nest->blocks[i].first, i, nest->blocks[i].size_bytes};
  if (nest->count > 0) qsort(ranks, nest->count, sizeof *ranks, compare_ranks);
  for (uint32_t i = 0; i < nest->count; ++i) {
    nest->by_start[i] = ranks[i].block;
    if (leads(nest->blocks, ranks[i].block)) nest->order[nest->order_count++] = ranks[i].block;
  }
  return DELTA_OK;
}

// Places are sums and differences of sizes and of the arena's end: with an end like this they are as aligned as the sizes.
static uint64_t align_end(const delta_block_t *blocks, uint32_t count, uint64_t capacity_bytes) {
  uint64_t divisor = 0;
  for (uint32_t i = 0; i < count; ++i) {
    for (uint64_t rest = blocks[i].size_bytes; rest > 0;) {
      const uint64_t next = divisor % rest;
      divisor = rest;
      rest = next;
    }
  }
  return divisor > 0 ? capacity_bytes / divisor * divisor : capacity_bytes;
}

delta_status_t delta_nest(const delta_block_t *blocks, uint32_t count, uint64_t capacity_bytes, uint64_t effort_limit,
                          delta_region_t *region, uint64_t *offsets, bool *out_found) {
  nest_t nest = {.blocks = blocks,
                 .count = count,
                 .capacity_bytes = align_end(blocks, count, capacity_bytes),
                 .offsets = offsets,
                 .effort_limit = effort_limit};
  *out_found = false;
  DELTA_RETURN_IF_ERROR(make_tables(&nest, region));
  *out_found = search(&nest);
  return DELTA_OK;
}
