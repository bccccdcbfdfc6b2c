// Keeper: tensors that could not be copied below, kept until they are back in bytes of the arena that the plan leaves free meanwhile.
//
// What is free is known from the schedule: no buffer lives there from the earliest step that may still be running until the first step that reads the tensor again. Whoever
// takes the bytes later comes after that reader, on its lane or by waits, so nothing of the plan changes.
#ifndef DELTA_RUNTIME_KEEPER_H_
#define DELTA_RUNTIME_KEEPER_H_

#include <stdatomic.h>

#include "plans/schedule.h"

enum { DELTA_KEEPER_MOST = 64 }; // tensors at a time

typedef struct delta_kept {
  uint32_t copied_step, back_step; // the copy below that failed, the last copy back
  uint32_t until_step;             // its first reader then
  size_t offset_bytes, size_bytes; // in the arena
} delta_kept_t;

// One thread keeps, another brings back: an entry does not change once it is counted.
typedef struct delta_keeper {
  const delta_schedule_t *schedule; // Borrowed.
  const delta_problem_t *problem;   // Borrowed.
  uint8_t *arena;                   // where the schedule's offsets begin; host-addressable
  uint64_t arena_bytes;             // committed from there on
  delta_kept_t kept[DELTA_KEEPER_MOST];
  atomic_uint count;
  delta_status_t cause; // Owned; why the first was kept
} delta_keeper_t;

// Forgets what was kept, for another run.
void delta_keeper_reset(delta_keeper_t *keeper, uint64_t arena_bytes);

// Keeps the tensor that step `step` could not copy below. `failure` is consumed: OK is returned when that did, else it with what was missing. Steps before
// `earliest_step` have all ended.
DELTA_MUST_USE delta_status_t delta_keeper_keep(delta_keeper_t *keeper, uint32_t step, uint32_t earliest_step, delta_status_t failure);
// Takes over what another keeper of the same arena has kept: `steps` says for each step of its schedule which of this one's it is, or DELTA_PROBLEM_NONE.
void delta_keeper_adopt(delta_keeper_t *keeper, const delta_keeper_t *from, const uint32_t *steps);
// Where the tensor that step `step` copies back is kept; NULL: it is below.
const void *delta_keeper_find(const delta_keeper_t *keeper, uint32_t step);

#endif // DELTA_RUNTIME_KEEPER_H_
