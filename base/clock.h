// Clock: seconds on a monotonic clock, for durations.
#ifndef DELTA_BASE_CLOCK_H_
#define DELTA_BASE_CLOCK_H_

double delta_clock_seconds(void);

#endif // DELTA_BASE_CLOCK_H_
