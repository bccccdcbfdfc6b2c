// Bound dual: prices and flow, and what the best and a mixture of choices for the tensors come to with them. The linear program is in bound.c.
#ifndef DELTA_PLANNER_BOUND_DUAL_H_
#define DELTA_PLANNER_BOUND_DUAL_H_

#include "planner/bound_model.h"

// A number for each arc between cuts and for each cut. Dual: flow on the arc, and price of a byte at the cut. Primal: seconds of the arc, and bytes that lack.
typedef struct delta_bound_vector {
  double work[DELTA_BOUND_CUTS_MAX];                                            // from cut k to the next
  double copies[DELTA_BOUND_LANES][DELTA_BOUND_CUTS_MAX][DELTA_BOUND_CUTS_MAX]; // from cut i to cut j > i
  double bytes[DELTA_BOUND_CUTS_MAX];
} delta_bound_vector_t;

typedef struct delta_bound_dual {
  const delta_bound_model_t *model;
  delta_bound_vector_t point; // the dual point: seconds for a byte in `bytes`, parts of a unit of flow in the others
  // What follows from it: seconds for a byte that is copied below [may not exist at][gone by], or back [gone at][there by].
  double out_prices[DELTA_BOUND_CUTS_MAX][DELTA_BOUND_CUTS_MAX], back_prices[DELTA_BOUND_CUTS_MAX][DELTA_BOUND_CUTS_MAX];
  // What a mixture does:
  double out_bytes[DELTA_BOUND_CUTS_MAX][DELTA_BOUND_CUTS_MAX], back_bytes[DELTA_BOUND_CUTS_MAX][DELTA_BOUND_CUTS_MAX];
} delta_bound_dual_t;

DELTA_MUST_USE delta_status_t delta_bound_dual_make(const delta_bound_model_t *model, delta_region_t *region,
                                                    delta_bound_dual_t **out_dual);

// The value of the dual at its point: no plan is faster, whatever the prices (from 0 on), if the flow is a unit from the first cut to the last.
double delta_bound_dual_value(delta_bound_dual_t *dual);
// What tensors do, on average, whose choices are drawn with weights exponential in what they cost: the larger the sharpness, the more is done at least cost.
void delta_bound_dual_mix(delta_bound_dual_t *dual, double sharpness, delta_bound_vector_t *out_primal);

#endif // DELTA_PLANNER_BOUND_DUAL_H_
