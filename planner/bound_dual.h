// Bound dual: prices and flow, and what the best and a mixture of choices for the tensors come to with them. The linear program is in bound.c.
#ifndef DELTA_PLANNER_BOUND_DUAL_H_
#define DELTA_PLANNER_BOUND_DUAL_H_

#include "planner/bound_model.h"

// A number for each arc between cuts and for each watched place. Dual: flow on the arc, and price of a byte. Primal: seconds of the arc, and bytes that lack.
enum {
  DELTA_BOUND_OFFLOAD = DELTA_BOUND_CUTS_MAX,
  DELTA_BOUND_PREFETCH = DELTA_BOUND_OFFLOAD + DELTA_BOUND_CUTS_MAX * DELTA_BOUND_CUTS_MAX,
  DELTA_BOUND_PLACES = DELTA_BOUND_PREFETCH + DELTA_BOUND_CUTS_MAX * DELTA_BOUND_CUTS_MAX,
  DELTA_BOUND_NUMBERS = DELTA_BOUND_PLACES + DELTA_BOUND_CUTS_MAX * DELTA_BOUND_WATCHED_PER_INTERVAL,
};
typedef struct delta_bound_vector {
  double numbers[DELTA_BOUND_NUMBERS];
} delta_bound_vector_t;

// Work from interval k to the next; copies between cuts i < j; a watched place.
static inline double *delta_bound_compute(delta_bound_vector_t *v, uint32_t k) { return &v->numbers[k]; }
static inline double *delta_bound_offload(delta_bound_vector_t *v, uint32_t i, uint32_t j) {
  return &v->numbers[DELTA_BOUND_OFFLOAD + i * DELTA_BOUND_CUTS_MAX + j];
}
static inline double *delta_bound_prefetch(delta_bound_vector_t *v, uint32_t i, uint32_t j) {
  return &v->numbers[DELTA_BOUND_PREFETCH + i * DELTA_BOUND_CUTS_MAX + j];
}
static inline double *delta_bound_watched(delta_bound_vector_t *v, uint32_t w) { return &v->numbers[DELTA_BOUND_PLACES + w]; }

typedef struct delta_bound_dual {
  const delta_bound_model_t *model;
  delta_bound_vector_t point; // the dual point
  // What follows from it:
  double *price_sums;                                             // by place, and one more: of the watched places before it
  double out_prices[DELTA_BOUND_CUTS_MAX][DELTA_BOUND_CUTS_MAX];  // [may not exist at][gone by]: seconds for a byte
  double back_prices[DELTA_BOUND_CUTS_MAX][DELTA_BOUND_CUTS_MAX]; // [gone at][there by]
  // What a mixture does:
  double *gone_bytes; // by place, as differences
  double rebuilt_seconds[DELTA_BOUND_CUTS_MAX];
  double out_seconds[DELTA_BOUND_CUTS_MAX][DELTA_BOUND_CUTS_MAX], back_seconds[DELTA_BOUND_CUTS_MAX][DELTA_BOUND_CUTS_MAX];
} delta_bound_dual_t;

DELTA_MUST_USE delta_status_t delta_bound_dual_make(const delta_bound_model_t *model, delta_region_t *region,
                                                    delta_bound_dual_t **out_dual);

// The value of the dual at its point: no plan is faster, whatever the prices (from 0 on), if the flow is a unit from the first cut to the last.
double delta_bound_dual_value(delta_bound_dual_t *dual);
// What tensors do, on average, whose choices are drawn with weights exponential in what they cost: the larger the sharpness, the more is done at least cost.
void delta_bound_dual_mix(delta_bound_dual_t *dual, double sharpness, delta_bound_vector_t *out_primal);

#endif // DELTA_PLANNER_BOUND_DUAL_H_
