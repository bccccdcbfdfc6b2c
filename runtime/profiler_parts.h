// What the files of the profiler share: profiler.c measures kernels, profiler_copies.c copies, profiler_queues.c copies and launches of devices with queues.
#ifndef DELTA_RUNTIME_PROFILER_PARTS_H_
#define DELTA_RUNTIME_PROFILER_PARTS_H_

#include "runtime/profiler.h"

struct delta_profiler {
  delta_allocator_t allocator;
  delta_profiler_options_t options;
  delta_profile_t *profile;        // Owned.
  char *cache_path;                // Owned; NULL: nothing is kept
  bool is_changed, has_met_copies; // copies were to be measured, whatever came of it
  double seconds;
};

// How fast a device with queues copies to the tier below and back, and what a launch takes.
DELTA_MUST_USE delta_status_t delta_profiler_measure_queues(delta_profiler_t *profiler);

// The sample below which this part of the others lies; sorts the samples.
double delta_profiler_quantile(double *samples, uint32_t count, double part);

#endif // DELTA_RUNTIME_PROFILER_PARTS_H_
