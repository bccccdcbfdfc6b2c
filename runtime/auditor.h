// Auditor: looks at every byte of a program while it runs. What the plan leaves free, and what buffers have behind their data, holds a pattern that nobody may touch; every tensor
// has the checksum of its making when it is used, however it was kept meanwhile; what is made again equals what was dropped; the arena has the bytes that it should.
//
// The first difference is MISMATCH: it names the step of the schedule, its node and the tensor, what was wanted and what was found. Slow: every step has the whole arena looked at.
// The executor calls it, on the thread that computes; copies may run beside that. Bytes are reached through the device alone, so it works on every one.
#ifndef DELTA_RUNTIME_AUDITOR_H_
#define DELTA_RUNTIME_AUDITOR_H_

#include <pthread.h>

#include "plans/plan.h"
#include "runtime/device.h"
#include "runtime/keeper.h"

typedef struct delta_auditor delta_auditor_t;

// Everything is borrowed and outlives the auditor.
typedef struct delta_auditor_options {
  delta_device_t *device;
  const delta_graph_t *graph;
  const delta_problem_t *problem;
  const uint32_t *tensor_of_storage;
  const delta_schedule_t *schedule;
  const delta_plan_t *plan;
  delta_arena_t *arena;
  size_t state_bytes;
  delta_tier_t *tier; // NULL when nothing lies below
  bool overlaps;      // copies run beside the steps that compute
  // Who may take bytes that the plan leaves free, and the mutex under which it does; NULL: nobody.
  const delta_keeper_t *keeper;
  pthread_mutex_t *keeper_mutex;
} delta_auditor_options_t;

// Of one schedule, for all of its runs; the caller destroys it.
DELTA_MUST_USE delta_status_t delta_auditor_create(const delta_auditor_options_t *options, delta_allocator_t allocator,
                                                   delta_auditor_t **out_auditor);
void delta_auditor_destroy(delta_auditor_t *auditor); // NULL is fine.

// Before the first step, when the inputs have been written. `arena_bytes` are committed for the program's own bytes; 0: not known.
DELTA_MUST_USE delta_status_t delta_auditor_begin(delta_auditor_t *auditor, uint64_t arena_bytes);
// Before a step that the calling thread runs, when all that it waits for has ended; and after it, before anyone is told.
DELTA_MUST_USE delta_status_t delta_auditor_enter(delta_auditor_t *auditor, uint32_t step);
DELTA_MUST_USE delta_status_t delta_auditor_leave(delta_auditor_t *auditor, uint32_t step);
// When all steps and copies have ended.
DELTA_MUST_USE delta_status_t delta_auditor_end(delta_auditor_t *auditor);

#endif // DELTA_RUNTIME_AUDITOR_H_
