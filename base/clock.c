// The monotonic clock of POSIX.
#include "base/clock.h"

#include <time.h>

double delta_clock_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

delta_time_limit_t delta_time_limit_from_now(double limit_seconds) { return (delta_time_limit_t){delta_clock_seconds(), limit_seconds}; }

double delta_time_limit_spent(const delta_time_limit_t *limit) {
  return limit->limit_seconds > 0 ? (delta_clock_seconds() - limit->begin_seconds) / limit->limit_seconds : 1;
}
