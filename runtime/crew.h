// Crew: jobs done side by side by a few threads, of which the caller is one. The threads are gone when it returns.
#ifndef DELTA_RUNTIME_CREW_H_
#define DELTA_RUNTIME_CREW_H_

#include <stdint.h>

#include "base/status.h"

// Does a job; each index comes once. Jobs share nothing that they write to, but for what is locked.
typedef delta_status_t (*delta_crew_job_t)(void *self, uint32_t index);

// How many threads a crew may have here: as many as the process has processors, and no more than `wanted` unless that is 0.
uint32_t delta_crew_threads(int32_t wanted);

// Does `count` jobs, begun in their order, with up to thread_count threads; where the system gives fewer, they do it. After a failure no job is begun any more, and the failure of the
// first of those that failed is returned.
DELTA_MUST_USE delta_status_t delta_crew_run(uint32_t thread_count, uint32_t count, delta_crew_job_t job, void *self);

#endif // DELTA_RUNTIME_CREW_H_
