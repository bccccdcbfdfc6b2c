// Sums of up to twice the largest need are marked; larger ones are never the least.
#include "planner/bound_sums.h"

#include <string.h>

// So many come to nearly everything.
enum { ITEMS_MAX = 4096, WORDS = DELTA_BOUND_SUMS_MAX / 64 };

void delta_bound_sums_begin(delta_bound_sums_t *sums, int64_t most_bytes) {
  memset(sums, 0, sizeof *sums);
  sums->is_reached[0] = 1;
  sums->unit_bytes = 1;
  while (most_bytes / sums->unit_bytes >= DELTA_BOUND_SUMS_MAX / 2) sums->unit_bytes *= 2;
}

void delta_bound_sums_add(delta_bound_sums_t *sums, int64_t size_bytes) {
  const int64_t units = size_bytes / sums->unit_bytes;
  if (++sums->item_count > ITEMS_MAX) return;
  if (units * sums->unit_bytes != size_bytes) {
    sums->rest_bytes += size_bytes;
    return;
  }
  if (units >= DELTA_BOUND_SUMS_MAX) return; // any sum with it is too large to be marked; see `least`
  const size_t words = (size_t)units / 64, bits = (size_t)units % 64;
  for (size_t w = WORDS; w-- > words;) {
    uint64_t moved = sums->is_reached[w - words] << bits;
    if (bits > 0 && w > words) moved |= sums->is_reached[w - words - 1] >> (64 - bits);
    sums->is_reached[w] |= moved;
  }
}

int64_t delta_bound_sums_least(const delta_bound_sums_t *sums, int64_t need_bytes) {
  if (sums->item_count > ITEMS_MAX || need_bytes <= sums->rest_bytes) return need_bytes;
  const int64_t from_bytes = need_bytes - sums->rest_bytes;
  for (int64_t units = (from_bytes + sums->unit_bytes - 1) / sums->unit_bytes; units < DELTA_BOUND_SUMS_MAX; ++units) {
    if (!(sums->is_reached[units / 64] >> (units % 64) & 1)) continue;
    const int64_t sum_bytes = units * sums->unit_bytes;
    return sum_bytes > need_bytes ? sum_bytes : need_bytes;
  }
  return need_bytes;
}
