// Clock: seconds on a monotonic clock, for durations.
#ifndef DELTA_BASE_CLOCK_H_
#define DELTA_BASE_CLOCK_H_

// Since some moment in the past; never falls. Thread-safe.
double delta_clock_seconds(void);

#endif // DELTA_BASE_CLOCK_H_
