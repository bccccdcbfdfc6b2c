// A bracket by steps that double, then halves of it.
#include "planner/largest.h"

// Narrows (good, bad), of which good fits (0 counts) and bad does not (limit + 1 counts).
static delta_status_t try_size(delta_fits_t fits, void *self, int64_t size, int64_t *good, int64_t *bad) {
  bool is_good = false;
  DELTA_RETURN_IF_ERROR(fits(self, size, &is_good));
  if (is_good) *good = size;
  if (!is_good) *bad = size;
  return DELTA_OK;
}

delta_status_t delta_find_largest(delta_fits_t fits, void *self, int64_t start, int64_t limit, int64_t *out_largest) {
  int64_t good = 0, bad = limit + 1, size = start < limit ? start : limit;
  DELTA_RETURN_IF_ERROR(try_size(fits, self, size, &good, &bad));
  const bool goes_up = good > 0;
  // Up while nothing is too large, or down while nothing fits.
  for (int64_t step = 1; goes_up ? bad > limit && good < limit : good == 0 && bad > 1; step *= 2) {
    const int64_t room = goes_up ? limit - good : bad - 1;
    const int64_t stride = step < room ? step : room;
    size = goes_up ? good + stride : bad - stride;
    DELTA_RETURN_IF_ERROR(try_size(fits, self, size, &good, &bad));
  }
  while (bad - good > 1) DELTA_RETURN_IF_ERROR(try_size(fits, self, good + (bad - good) / 2, &good, &bad));
  *out_largest = good;
  return DELTA_OK;
}
