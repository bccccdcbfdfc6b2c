// Profiler: times the kernels that graphs need and the profile lacks, on the device: of each distinct node all that could run it.
//
// Every kernel runs once to warm up; then all take turns, so that a drift of the clock meets all alike, and the lower quartile counts. What is slow is run less
// often. Nothing is learned twice: costs are kept in the profile, and the profile in a file.
#ifndef DELTA_RUNTIME_PROFILER_H_
#define DELTA_RUNTIME_PROFILER_H_

#include "runtime/profile.h"

// What one profiler spends on kernels, about: one that has begun is waited for.
enum { DELTA_PROFILER_MOST_SECONDS = 120 };

typedef struct delta_profiler delta_profiler_t;

typedef struct delta_profiler_options {
  delta_device_t *device; // Borrowed.
  const char *path;       // the profile's file, not written to; NULL: the cache, which is read, completed, and written
  bool only_read;         // costs that `path` or the cache lacks are estimated and not measured
  uint64_t limit_bytes;   // a node that needs more is not measured: DOES_NOT_FIT; 0: what the device has free
  double most_seconds;    // for kernels, about; 0: DELTA_PROFILER_MOST_SECONDS
  delta_log_sink_t log;
  // Told how many of how many measurements are done; NULL for none.
  void (*progress)(void *self, uint32_t done, uint32_t total);
  void *self;
} delta_profiler_options_t;

// Reads the file. A cache that is missing or broken is begun anew, with a note; a broken or foreign file that was named is an error.
DELTA_MUST_USE delta_status_t delta_profiler_create(const delta_profiler_options_t *options, delta_allocator_t allocator,
                                                    delta_profiler_t **out_profiler);
void delta_profiler_destroy(delta_profiler_t *profiler); // NULL is fine.

// Measures the nodes of these graphs that have no cost yet, all in turn: what is compared is best measured together. What the limit leaves out has no cost then,
// with a note.
DELTA_MUST_USE delta_status_t delta_profiler_measure(delta_profiler_t *profiler, const delta_graph_t *const *graphs, uint32_t graph_count);
// Measures how fast memory and the tier below it copy, unless that is known or has failed before. A disk that cannot be written to is a note.
DELTA_MUST_USE delta_status_t delta_profiler_measure_copies(delta_profiler_t *profiler);
// Writes the cache when something was measured. A cache that cannot be written is a note, not an error.
void delta_profiler_keep(delta_profiler_t *profiler);

const delta_profile_t *delta_profiler_profile(const delta_profiler_t *profiler); // NULL for NULL
double delta_profiler_seconds(const delta_profiler_t *profiler);                 // spent measuring

#endif // DELTA_RUNTIME_PROFILER_H_
