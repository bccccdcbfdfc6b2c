// Bound model: the order cut into intervals, the times in which tensors are not used, and how much has to be gone at each step. What a bound of time is computed from.
#ifndef DELTA_PLANNER_BOUND_MODEL_H_
#define DELTA_PLANNER_BOUND_MODEL_H_

#include "planner/planner.h"

// Cuts, and places whose bytes are priced: more make the bound tighter and slower.
enum { DELTA_BOUND_CUTS_MAX = 64, DELTA_BOUND_WATCHED_PER_INTERVAL = 4 };

// A time in which a tensor is not used: [begin, end) are places of the order. What is gone in it and is there again at its end saves bytes.
typedef struct delta_bound_gap {
  uint32_t tensor, begin, end;
  uint32_t ready; // the last cut at which the tensor may not exist yet: its copy below is made after that cut
  uint32_t due;   // the first cut by which it has to be there again
  double bytes;
  double rebuild_seconds; // the least for making it again; INFINITY: impossible
} delta_bound_gap_t;

typedef struct delta_bound_model {
  uint32_t place_count;  // steps of the order
  uint32_t cut_count;    // intervals: cut_count - 1
  uint32_t *cuts;        // places, ascending, from 0 to place_count
  uint32_t *interval_of; // by place
  double *work_seconds;  // by interval
  double *need_bytes;    // by place: that must be gone while its step runs for the first time
  uint32_t *watched;     // the neediest places of each interval, ascending
  uint32_t watched_count;
  delta_bound_gap_t *gaps; // those that may be gone, by tensor and then in time
  uint32_t gap_count;
  double offload_seconds, prefetch_seconds; // for a byte; INFINITY: no such lane
} delta_bound_model_t;

// Whether a tensor's bytes are in the arena, and nowhere else unless they are copied there.
bool delta_bound_counts(const delta_problem_tensor_t *tensor);
// The least that a step takes while it runs: an output may take the bytes of an input.
int64_t delta_bound_step_bytes(const delta_problem_t *problem, const delta_problem_step_t *step);

// Everything lives in `region`. INFINITY for lanes that the problem has not.
DELTA_MUST_USE delta_status_t delta_bound_model_make(const delta_problem_t *problem, const delta_order_t *order, uint64_t capacity_bytes,
                                                     delta_region_t *region, delta_bound_model_t *out_model);

#endif // DELTA_PLANNER_BOUND_MODEL_H_
