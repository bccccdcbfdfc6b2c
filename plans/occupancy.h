// Occupancy: who held each byte of a memory last, while occupants come one after another.
#ifndef DELTA_PLANS_OCCUPANCY_H_
#define DELTA_PLANS_OCCUPANCY_H_

#include <stdint.h>

#include "base/region.h"

enum { DELTA_OCCUPANCY_LEVELS = 6 };

// The memory is cut at all places where a range begins or ends. A segment is a run of pieces with one occupant; a bit marks the piece where it starts. Words
// of one level are summed up by bits of the next, so the segment before or after a piece is found in as many looks as there are levels.
typedef struct delta_occupancy {
  uint64_t *cuts; // sorted, each once
  uint32_t cut_count;
  uint32_t *occupants; // by piece that starts a segment, or NONE: nobody yet
  uint64_t *bits[DELTA_OCCUPANCY_LEVELS];
} delta_occupancy_t;

#define DELTA_OCCUPANCY_NONE UINT32_MAX

// Called for everyone who held a part of a range before; may be called more than once for one occupant.
typedef delta_status_t (*delta_occupancy_visit_t)(void *self, uint32_t occupant);

// A memory for the ranges [begins[i], ends[i]), none of them empty. Tables live in the region.
DELTA_MUST_USE delta_status_t delta_occupancy_init(delta_occupancy_t *occupancy, const uint64_t *begins, const uint64_t *ends,
                                                   uint32_t count, delta_region_t *region);
// `occupant` takes one of the ranges. Stops at the first error of `visit`. Logarithmic, amortised over all calls.
DELTA_MUST_USE delta_status_t delta_occupancy_take(delta_occupancy_t *occupancy, uint64_t begin, uint64_t end, uint32_t occupant,
                                                   delta_occupancy_visit_t visit, void *self);
// The one occupant of the whole of one of the ranges, or NONE.
uint32_t delta_occupancy_find(const delta_occupancy_t *occupancy, uint64_t begin, uint64_t end);

#endif // DELTA_PLANS_OCCUPANCY_H_
