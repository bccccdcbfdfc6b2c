// Occupancy: segments over cut positions, their starts in a set of bits with summary levels.
#include "plans/occupancy.h"

#include <stdlib.h>

static int compare_cuts(const void *left, const void *right) {
  const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

static delta_status_t make_cuts(delta_occupancy_t *occupancy, const uint64_t *begins, const uint64_t *ends, uint32_t count,
                                delta_region_t *region) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, 2 * (size_t)count + 1, &occupancy->cuts));
  for (uint32_t i = 0; i < count; ++i) {
    occupancy->cuts[2 * (size_t)i + 1] = begins[i];
    occupancy->cuts[2 * (size_t)i + 2] = ends[i];
  }
  const size_t all = 2 * (size_t)count + 1; // with the start of the memory, 0
  qsort(occupancy->cuts, all, sizeof *occupancy->cuts, compare_cuts);
  size_t kept = 0;
  for (size_t i = 0; i < all; ++i) {
    if (i == 0 || occupancy->cuts[i] != occupancy->cuts[i - 1]) occupancy->cuts[kept++] = occupancy->cuts[i];
  }
  if (kept > INT32_MAX) return delta_status_make(UNSUPPORTED, "a schedule with %zu buffer bounds", kept);
  occupancy->cut_count = (uint32_t)kept;
  return DELTA_OK;
}

static void set_bit(delta_occupancy_t *occupancy, uint32_t at) {
  for (int level = 0; level < DELTA_OCCUPANCY_LEVELS; ++level, at /= 64) occupancy->bits[level][at / 64] |= UINT64_C(1) << at % 64;
}

static void clear_bit(delta_occupancy_t *occupancy, uint32_t at) {
  for (int level = 0; level < DELTA_OCCUPANCY_LEVELS; ++level, at /= 64) {
    occupancy->bits[level][at / 64] &= ~(UINT64_C(1) << at % 64);
    if (occupancy->bits[level][at / 64] != 0) return;
  }
}

static bool has_bit(const delta_occupancy_t *occupancy, uint32_t at) { return occupancy->bits[0][at / 64] >> at % 64 & 1; }

// The first bit set after `at`, or `limit` when there is none below it.
static uint32_t find_next(const delta_occupancy_t *occupancy, uint32_t at, uint32_t limit) {
  uint32_t position = at;
  for (int level = 0; level < DELTA_OCCUPANCY_LEVELS; ++level, position /= 64) {
    const uint64_t later = position % 64 == 63 ? 0 : occupancy->bits[level][position / 64] >> (position % 64 + 1);
    if (later == 0) continue;
    position += 1 + (uint32_t)__builtin_ctzll(later);
    for (; level > 0; --level) position = position * 64 + (uint32_t)__builtin_ctzll(occupancy->bits[level - 1][position]);
    return position < limit ? position : limit;
  }
  return limit;
}

// The last bit set before `at`; bit 0 always is.
static uint32_t find_previous(const delta_occupancy_t *occupancy, uint32_t at) {
  uint32_t position = at;
  for (int level = 0; level < DELTA_OCCUPANCY_LEVELS; ++level, position /= 64) {
    const uint64_t earlier = position % 64 == 0 ? 0 : occupancy->bits[level][position / 64] << (64 - position % 64);
    if (earlier == 0) continue;
    position -= 1 + (uint32_t)__builtin_clzll(earlier);
    for (; level > 0; --level) position = position * 64 + 63 - (uint32_t)__builtin_clzll(occupancy->bits[level - 1][position]);
    return position;
  }
  return 0;
}

delta_status_t delta_occupancy_init(delta_occupancy_t *occupancy, const uint64_t *begins, const uint64_t *ends, uint32_t count,
                                    delta_region_t *region) {
  DELTA_RETURN_IF_ERROR(make_cuts(occupancy, begins, ends, count, region));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, occupancy->cut_count, &occupancy->occupants));
  size_t words = occupancy->cut_count;
  for (int level = 0; level < DELTA_OCCUPANCY_LEVELS; ++level) {
    words = words / 64 + 1;
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, words, &occupancy->bits[level]));
  }
  set_bit(occupancy, 0);
  occupancy->occupants[0] = DELTA_OCCUPANCY_NONE;
  return DELTA_OK;
}

static uint32_t find_cut(const delta_occupancy_t *occupancy, uint64_t value) {
  uint32_t low = 0, high = occupancy->cut_count - 1;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (occupancy->cuts[middle] < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static void split_at(delta_occupancy_t *occupancy, uint32_t cut) {
  if (has_bit(occupancy, cut)) return;
  occupancy->occupants[cut] = occupancy->occupants[find_previous(occupancy, cut)];
  set_bit(occupancy, cut);
}

delta_status_t delta_occupancy_take(delta_occupancy_t *occupancy, uint64_t begin, uint64_t end, uint32_t occupant,
                                    delta_occupancy_visit_t visit, void *self) {
  const uint32_t first = find_cut(occupancy, begin), limit = find_cut(occupancy, end);
  split_at(occupancy, limit);
  split_at(occupancy, first);
  for (uint32_t at = first; at < limit; at = find_next(occupancy, at, limit)) {
    if (occupancy->occupants[at] != DELTA_OCCUPANCY_NONE) DELTA_RETURN_IF_ERROR(visit(self, occupancy->occupants[at]));
    if (at != first) clear_bit(occupancy, at);
  }
  occupancy->occupants[first] = occupant;
  return DELTA_OK;
}

uint32_t delta_occupancy_find(const delta_occupancy_t *occupancy, uint64_t begin, uint64_t end) {
  const uint32_t first = find_cut(occupancy, begin), limit = find_cut(occupancy, end);
  if (!has_bit(occupancy, first) || find_next(occupancy, first, limit) != limit) return DELTA_OCCUPANCY_NONE;
  return occupancy->occupants[first];
}
