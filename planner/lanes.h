// Lanes: the arithmetic of what runs at the same time: two copies that share a bandwidth, and compute that they slow down. Every simulator counts time with it, so that
// they agree to the last bit.
#ifndef DELTA_PLANNER_LANES_H_
#define DELTA_PLANNER_LANES_H_

#include <math.h>

#include "plans/problem.h"

// A lane: bytes that are copied, or the seconds that a step takes alone. While it runs its rate changes only when another lane starts or ends.
typedef struct delta_lane_clock {
  bool is_running;
  double full_rate;             // a second, when nothing is shared
  double start_work;            // what everything costs beside its own
  double start_drag, full_drag; // on compute: while it starts, and then
  double drag;                  // of what runs, on average
  double rate;                  // now
  double remaining;             // at since_seconds
  double since_seconds;
  double end_seconds; // INFINITY while nothing runs
} delta_lane_clock_t;

static inline delta_lane_clock_t delta_lane_clock_compute(void) { return (delta_lane_clock_t){.full_rate = 1, .end_seconds = INFINITY}; }

static inline delta_lane_clock_t delta_lane_clock_offload(const delta_problem_t *problem) {
  return (delta_lane_clock_t){.full_rate = problem->offload_bytes_per_second,
                              .start_work = delta_problem_offload_bytes(problem, 0),
                              .start_drag = problem->offload_start_drag,
                              .full_drag = problem->offload_drag,
                              .end_seconds = INFINITY};
}

static inline delta_lane_clock_t delta_lane_clock_prefetch(const delta_problem_t *problem) {
  return (delta_lane_clock_t){.full_rate = problem->prefetch_bytes_per_second,
                              .start_work = delta_problem_prefetch_bytes(problem, 0),
                              .start_drag = problem->prefetch_start_drag,
                              .full_drag = problem->prefetch_drag,
                              .end_seconds = INFINITY};
}

static inline void delta_lane_clock_start(delta_lane_clock_t *clock, double work, double now_seconds) {
  clock->is_running = true;
  clock->rate = clock->full_rate;
  clock->remaining = work + clock->start_work;
  clock->drag =
      clock->start_work > 0 ? (clock->start_drag * clock->start_work + clock->full_drag * work) / clock->remaining : clock->full_drag;
  clock->since_seconds = now_seconds;
  clock->end_seconds = now_seconds + clock->remaining / clock->full_rate;
}

static inline void delta_lane_clock_end(delta_lane_clock_t *clock) {
  clock->is_running = false;
  clock->end_seconds = INFINITY;
}

static inline void delta_lane_clock_set_rate(delta_lane_clock_t *clock, double rate, double now_seconds) {
  if (!clock->is_running || clock->rate == rate) return;
  clock->remaining -= clock->rate * (now_seconds - clock->since_seconds);
  if (clock->remaining < 0) clock->remaining = 0;
  clock->since_seconds = now_seconds;
  clock->rate = rate;
  clock->end_seconds = now_seconds + clock->remaining / rate;
}

// After a lane has started or ended: both copies run, together, at no more than the shared bandwidth, and compute with what they leave of its speed.
static inline void delta_lane_clocks_share(const delta_problem_t *problem, double now_seconds, delta_lane_clock_t *compute,
                                           delta_lane_clock_t *offload, delta_lane_clock_t *prefetch) {
  const double shared = problem->shared_bytes_per_second, together = offload->full_rate + prefetch->full_rate;
  const double share = shared > 0 && offload->is_running && prefetch->is_running && together > shared ? shared / together : 1;
  delta_lane_clock_set_rate(offload, offload->full_rate * share, now_seconds);
  delta_lane_clock_set_rate(prefetch, prefetch->full_rate * share, now_seconds);
  const double drag = (offload->is_running ? offload->drag : 0) + (prefetch->is_running ? prefetch->drag : 0);
  delta_lane_clock_set_rate(compute, 1 - fmin(drag, DELTA_PROBLEM_MOST_DRAG), now_seconds);
}

#endif // DELTA_PLANNER_LANES_H_
