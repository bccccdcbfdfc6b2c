// Lanes: the arithmetic of two transfers that share a bandwidth. Every simulator counts time with it, so that they agree to the last bit.
#ifndef DELTA_PLANNER_LANES_H_
#define DELTA_PLANNER_LANES_H_

#include <math.h>

#include "plans/problem.h"

// A transfer lane. While it runs its rate changes only when the other direction starts or ends.
typedef struct delta_transfer {
  bool is_running;
  double full_rate;       // bytes per second when nothing is shared
  double rate;            // now
  double remaining_bytes; // at since_seconds
  double since_seconds;
  double end_seconds; // INFINITY while nothing runs
} delta_transfer_t;

static inline void delta_transfer_start(delta_transfer_t *transfer, double bytes, double now_seconds) {
  transfer->is_running = true;
  transfer->rate = transfer->full_rate;
  transfer->remaining_bytes = bytes;
  transfer->since_seconds = now_seconds;
  transfer->end_seconds = now_seconds + bytes / transfer->full_rate;
}

static inline void delta_transfer_end(delta_transfer_t *transfer) {
  transfer->is_running = false;
  transfer->end_seconds = INFINITY;
}

static inline void delta_transfer_set_rate(delta_transfer_t *transfer, double rate, double now_seconds) {
  if (!transfer->is_running || transfer->rate == rate) return;
  transfer->remaining_bytes -= transfer->rate * (now_seconds - transfer->since_seconds);
  if (transfer->remaining_bytes < 0) transfer->remaining_bytes = 0;
  transfer->since_seconds = now_seconds;
  transfer->rate = rate;
  transfer->end_seconds = now_seconds + transfer->remaining_bytes / rate;
}

// After one of the two has started or ended: both run, together, at no more than the shared bandwidth.
static inline void delta_transfers_share(const delta_problem_t *problem, double now_seconds, delta_transfer_t *a, delta_transfer_t *b) {
  const double shared = problem->shared_bytes_per_second, together = a->full_rate + b->full_rate;
  const double share = shared > 0 && a->is_running && b->is_running && together > shared ? shared / together : 1;
  delta_transfer_set_rate(a, a->full_rate * share, now_seconds);
  delta_transfer_set_rate(b, b->full_rate * share, now_seconds);
}

#endif // DELTA_PLANNER_LANES_H_
