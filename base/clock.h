// Clock: seconds on a monotonic clock, for durations.
#ifndef DELTA_BASE_CLOCK_H_
#define DELTA_BASE_CLOCK_H_

// Since some moment in the past; never falls. Thread-safe.
double delta_clock_seconds(void);

// Time that something may take.
typedef struct delta_time_limit {
  double begin_seconds;
  double limit_seconds; // INFINITY: all the time there is; 0 or less: none
} delta_time_limit_t;
delta_time_limit_t delta_time_limit_from_now(double limit_seconds);
// The part of it that is over: from 1 on all of it. Thread-safe.
double delta_time_limit_spent(const delta_time_limit_t *limit);

#endif // DELTA_BASE_CLOCK_H_
