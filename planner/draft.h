// Draft: a schedule that is changed, perhaps while it runs. It begins with the steps that have run, in the schedule's order; they stay, and so do the bytes they used. The
// others may go, and new ones come. What is finished is a schedule like any other and proven like any other: running it from its first step would leave the arena and the
// tier below as they are now when the steps that have run are over, so whoever goes on from there computes the same.
//
// Edits change steps and lifetimes; places for what has changed are then found by first fit among the lifetimes that are known. An edit that finds none is undone.
#ifndef DELTA_PLANNER_DRAFT_H_
#define DELTA_PLANNER_DRAFT_H_

#include "base/array.h"
#include "planner/planner.h"

typedef struct delta_draft_buffer {
  delta_buffer_t entry; // lifetime in the draft's order
  bool is_given;        // holds an input before the first step
  bool is_final;        // needed after the last step
  bool is_pinned;       // given, used by a step that has run, or in a row with others: its bytes stay where they are
  bool is_placed;       // it has an offset
  bool is_gone;         // nothing uses it
} delta_draft_buffer_t;

typedef DELTA_ARRAY(delta_schedule_step_t) delta_draft_steps_t;
typedef DELTA_ARRAY(delta_draft_buffer_t) delta_draft_buffers_t;

typedef struct delta_draft {
  const delta_problem_t *problem; // Borrowed.
  delta_allocator_t allocator;
  delta_region_t region;         // Owns the steps' lists, which do not change once they are made.
  delta_draft_steps_t steps;     // those that have run come first
  delta_draft_buffers_t buffers; // by the schedule's numbers; new ones behind them
  uint32_t run_count;            // steps that have run
  bool dead_are_lost;            // what had its last use then does not hold its tensor any more
  uint64_t capacity_bytes;       // where what is placed must end
  uint64_t host_bytes;           // where slots of the tier below end
  uint64_t host_limit_bytes;     // where new ones must
  DELTA_ARRAY(uint32_t) touched; // by the edit at hand: buffers that need a look or a place
  delta_draft_steps_t saved_steps;
  delta_draft_buffers_t saved_buffers;
  uint64_t saved_host_bytes;
} delta_draft_t;

// `has_run` by step of the schedule; NULL: none has. Steps that have run must be all that any of them depends on. The problem is borrowed.
DELTA_MUST_USE delta_status_t delta_draft_init(delta_draft_t *draft, const delta_problem_t *problem, const delta_schedule_t *schedule,
                                               const bool *has_run, uint64_t capacity_bytes, delta_allocator_t allocator);
void delta_draft_deinit(delta_draft_t *draft); // Safe on a zeroed struct.

// Whether what has run can stand first. It cannot where bytes of an input that nobody reads have been taken already: an input is there at the first step.
bool delta_draft_is_sound(const delta_draft_t *draft);
// Bytes that nobody may use until the end.
DELTA_MUST_USE delta_status_t delta_draft_reserve(delta_draft_t *draft, size_t offset_bytes, size_t size_bytes);

// The schedule, with waits, times and sums; it has been verified. Its arena may end beyond the capacity when buffers were there before. Its first run_count steps are the
// draft's. *out_schedule is the caller's.
DELTA_MUST_USE delta_status_t delta_draft_finish(const delta_draft_t *draft, delta_schedule_t **out_schedule);
// How long the steps that have not run would take, by the problem's speeds.
DELTA_MUST_USE delta_status_t delta_draft_simulate(const delta_draft_t *draft, double *out_seconds);

// ---- Edits; draft_edits.c. *out_done is false, and nothing has changed, where one is impossible. They name buffers.

// The tensor stays: `after`, a later stay of the tensor of `before`, is given up, with all that was done for it alone.
DELTA_MUST_USE delta_status_t delta_draft_keep(delta_draft_t *draft, uint32_t before, uint32_t after, bool *out_done);
// What is to be copied back to `after` is made again, right before its first reader.
DELTA_MUST_USE delta_status_t delta_draft_rebuild(delta_draft_t *draft, uint32_t after, bool *out_done);
// Lets a buffer's tensor go between its users `step` and the next, and come back by a copy or made again. A copy below that is there serves.
DELTA_MUST_USE delta_status_t delta_draft_release(delta_draft_t *draft, uint32_t buffer, uint32_t step, bool rebuilds, bool *out_done);

// ---- What draft.c has for the edits

// Notes the present state, and goes back to it.
DELTA_MUST_USE delta_status_t delta_draft_save(delta_draft_t *draft);
void delta_draft_restore(delta_draft_t *draft);
// A new buffer without a place; DELTA_PROBLEM_NONE: a workspace. It is touched.
DELTA_MUST_USE delta_status_t delta_draft_add_buffer(delta_draft_t *draft, uint32_t tensor, size_t size_bytes, uint32_t *out_buffer);
// Puts a step before the one at `index`.
DELTA_MUST_USE delta_status_t delta_draft_insert(delta_draft_t *draft, uint32_t index, const delta_schedule_step_t *step);
// Takes out what has not run and what nobody needs, sets lifetimes anew.
DELTA_MUST_USE delta_status_t delta_draft_prune(delta_draft_t *draft);
// A place for a buffer: where it is, if that is free, else the first that is. False: there is none. Buffers that are pinned do not move.
bool delta_draft_place(delta_draft_t *draft, uint32_t buffer);
// Whether a buffer, if it lay at an offset, would share bytes with another.
bool delta_draft_share_bytes(const delta_buffer_t *a, uint64_t offset_bytes, const delta_buffer_t *b);
// Whether what takes bytes in a row (DELTA_STEP_IN_ROW) still finds it as it was.
bool delta_draft_rows_hold(const delta_draft_t *draft);
// The step that writes a buffer, or DELTA_PROBLEM_NONE.
uint32_t delta_draft_writer(const delta_draft_t *draft, uint32_t buffer);
// Whether a step reads a buffer.
bool delta_draft_reads(const delta_schedule_step_t *step, uint32_t buffer);

#endif // DELTA_PLANNER_DRAFT_H_
