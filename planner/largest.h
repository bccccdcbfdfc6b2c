// Largest: the largest size for which something holds that holds for all smaller ones, by few trials.
#ifndef DELTA_PLANNER_LARGEST_H_
#define DELTA_PLANNER_LARGEST_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef delta_status_t (*delta_fits_t)(void *self, int64_t size, bool *out_fits);

// Goes from `start` (at least 1) up or down in steps that double until the answer is between two trials, then bisects: about
// 2 log2(distance from start) trials. The answer is at most `limit`; 0 when not even 1 fits.
DELTA_MUST_USE delta_status_t delta_find_largest(delta_fits_t fits, void *self, int64_t start, int64_t limit, int64_t *out_largest);

#endif // DELTA_PLANNER_LARGEST_H_
