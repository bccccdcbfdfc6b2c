// Rival lanes: what the copy lanes are still free for, place by place, given the swaps that a rule has chosen so far; for rules that look before they swap.
#ifndef DELTA_PLANNER_RIVAL_LANES_H_
#define DELTA_PLANNER_RIVAL_LANES_H_

#include "planner/rival.h"

typedef struct delta_rival_lanes {
  const delta_rival_t *rival;                 // Borrowed.
  double *offload_seconds, *prefetch_seconds; // by place: what the lanes are free while its step runs
  uint64_t *reserved_bytes;                   // by place: of copies back that come before they are needed
} delta_rival_lanes_t;

// All lanes free. In the rival's region.
DELTA_MUST_USE delta_status_t delta_rival_lanes_init(delta_rival_lanes_t *lanes, delta_rival_t *rival);

// How long the copies of a swapped gap would hold up the work: below between the gap's beginning and `place`, where its bytes are wanted, and back after it as soon as there is
// room until the gap ends.
double delta_rival_lanes_exposed(const delta_rival_lanes_t *lanes, uint32_t gap, uint32_t place);

// Gives the lanes, and the room, to a gap that is swapped for `place`.
void delta_rival_lanes_take(delta_rival_lanes_t *lanes, uint32_t gap, uint32_t place);

#endif // DELTA_PLANNER_RIVAL_LANES_H_
