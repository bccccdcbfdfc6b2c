// Bound sums: tensors go whole, so what has to be gone is rounded up to what some of them come to.
#ifndef DELTA_PLANNER_BOUND_SUMS_H_
#define DELTA_PLANNER_BOUND_SUMS_H_

#include <stddef.h>
#include <stdint.h>

// 2 KiB of sums.
enum { DELTA_BOUND_SUMS_MAX = 16384 };

typedef struct delta_bound_sums {
  uint64_t is_reached[DELTA_BOUND_SUMS_MAX / 64]; // by sum, in units
  int64_t unit_bytes;
  int64_t rest_bytes; // of sizes that are no whole number of units: they may come to anything up to this
  uint32_t item_count;
} delta_bound_sums_t;

// For needs of up to most_bytes.
void delta_bound_sums_begin(delta_bound_sums_t *sums, int64_t most_bytes);
void delta_bound_sums_add(delta_bound_sums_t *sums, int64_t size_bytes);
// The least that some of the sizes come to and that is at least need_bytes; need_bytes itself where that is not known.
int64_t delta_bound_sums_least(const delta_bound_sums_t *sums, int64_t need_bytes);

#endif // DELTA_PLANNER_BOUND_SUMS_H_
