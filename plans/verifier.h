// Verifier: what its parts share. verify.c walks the steps, verify_memory.c the bytes of the arena, verify_host.c those of the tier below.
#ifndef DELTA_PLANS_VERIFIER_H_
#define DELTA_PLANS_VERIFIER_H_

#include "plans/schedule.h"

typedef struct delta_verifier {
  const delta_schedule_t *schedule;
  const delta_problem_t *problem;
  uint64_t arena_limit_bytes;
  delta_region_t scratch; // Owns the tables.
  // By step: for each lane, the number of schedule steps up to and including the last of that lane known to have ended before the step starts; 0: none.
  uint32_t (*ended)[DELTA_LANE_COUNT];
  uint32_t *writer; // by buffer: the step that writes it, or DELTA_PROBLEM_NONE
  // By buffer: for each lane, the number of schedule steps up to and including the last of that lane that writes or reads it; 0: none.
  uint32_t (*users)[DELTA_LANE_COUNT];
} delta_verifier_t;

// Whether step `earlier` has certainly ended when step `later` starts.
static inline bool delta_verifier_happens_before(const delta_verifier_t *verifier, uint32_t earlier, uint32_t later) {
  return verifier->ended[later][verifier->schedule->steps[earlier].lane] > earlier;
}

// Names for messages.
const char *delta_verifier_step_name(const delta_verifier_t *verifier, uint32_t step);
const char *delta_verifier_buffer_name(const delta_verifier_t *verifier, uint32_t buffer);

// Lifetimes, addresses, in-place pairs, sums. Steps must have been checked.
DELTA_MUST_USE delta_status_t delta_verify_arena(delta_verifier_t *verifier);
// Slots of the tier below.
DELTA_MUST_USE delta_status_t delta_verify_host(delta_verifier_t *verifier);

#endif // DELTA_PLANS_VERIFIER_H_
