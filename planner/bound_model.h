// Bound model: the order cut at some of its places, the times in which tensors are not used, and how much has to be gone at each cut. What a bound of time is computed from.
#ifndef DELTA_PLANNER_BOUND_MODEL_H_
#define DELTA_PLANNER_BOUND_MODEL_H_

#include "planner/planner.h"

// Cuts: more make the best bound hardly tighter, and each round slower, so that what is reached in the time is less.
enum { DELTA_BOUND_CUTS_MAX = 24 };

// What bytes are copied over: the two lanes, and what both together may not pass.
typedef enum delta_bound_lane { DELTA_BOUND_OFFLOAD, DELTA_BOUND_PREFETCH, DELTA_BOUND_BOTH, DELTA_BOUND_LANES } delta_bound_lane_t;

// A time in which a tensor is not used. While it is gone it saves bytes; at the end it is there again.
typedef struct delta_bound_gap {
  uint32_t tensor;
  uint32_t first, last; // cuts in it
  uint32_t ready;       // the last cut at which the tensor does not exist yet: its copy below is made after that cut's step
  uint32_t due;         // the first cut by which it has to be there again
  uint32_t rebuild_end; // the first cut after which it cannot be made again
  double bytes;
  double rebuild_seconds;       // the least for making it again; INFINITY: impossible
  double out_bytes, back_bytes; // what its copies take of their lanes
  bool has_copy;                // a copy is below, whatever is done here
  bool begins_below;            // and only that, at the first cut
} delta_bound_gap_t;

// Cut 0 is before the first step, the last one after the last step; each of the others is when a step runs for the first time: right after its start, or right before its end.
// Interval k lies between cuts k and k + 1.
typedef struct delta_bound_model {
  uint32_t cut_count;   // intervals: cut_count - 1
  uint32_t *places;     // by cut, ascending
  double *work_seconds; // by interval
  double *rest_seconds; // by cut: that its step still runs
  double *need_bytes;   // by cut: that must be gone then; 0 or less: nothing
  double *
      home_bytes; // by cut: of new values of states that do not exist yet at the cut, but at the next, and that have to be below in the end
  delta_bound_gap_t *gaps; // with a cut in them, of tensors that may be gone; by tensor and then in time
  uint32_t gap_count;
  double out_seconds[DELTA_BOUND_LANES],
      back_seconds[DELTA_BOUND_LANES]; // of each lane for a byte below, or back; INFINITY: there are no copies; 0: it never decides
} delta_bound_model_t;

// Whether a tensor's bytes are in the arena, and nowhere else unless they are copied there.
bool delta_bound_counts(const delta_problem_tensor_t *tensor);
// The least that a step takes while it runs: an output may take the bytes of an input.
int64_t delta_bound_step_bytes(const delta_problem_t *problem, const delta_problem_step_t *step);

// Everything lives in `region`.
DELTA_MUST_USE delta_status_t delta_bound_model_make(const delta_problem_t *problem, const delta_order_t *order, uint64_t capacity_bytes,
                                                     delta_region_t *region, delta_bound_model_t *out_model);

#endif // DELTA_PLANNER_BOUND_MODEL_H_
