// Team: how a kernel's work is shared among the device's threads. The one place with OpenMP regions of our own.
//
// Work is a range of items that do not depend on each other; it is cut into one neighbouring run of items a thread, by a rule that depends on the count
// and the number of threads only. Small work stays on the calling thread: waking a team costs microseconds, and much more on a busy machine. A team has
// always the same size, because the OpenMP runtime allocates when it changes.
#ifndef DELTA_RUNTIME_CPU_TEAM_H_
#define DELTA_RUNTIME_CPU_TEAM_H_

#include "runtime/cpu/kernel.h"

// Work below this many bytes is not shared.
enum { DELTA_TEAM_LEAST_BYTES = 128 << 10 };

// Items [begin, end), run by member `thread` of the team (from 0).
typedef void delta_team_part_t(const void *context, int64_t begin, int64_t end, int32_t thread);

// Runs all items and returns when they are done. `item_bytes` is about how much memory one item touches; what computes more per byte counts more.
void delta_team_run(int32_t threads, int64_t count, int64_t item_bytes, delta_team_part_t *part, const void *context);

// What most parts need.
typedef struct delta_kernel_launch {
  const delta_kernel_t *kernel;
  const delta_kernel_buffers_t *buffers;
} delta_kernel_launch_t;

#endif // DELTA_RUNTIME_CPU_TEAM_H_
