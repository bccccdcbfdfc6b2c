// What the files of amending share: amend.c is for more room, slow copies and failing ones, amend_shrink.c for less room.
#ifndef DELTA_PLANNER_AMEND_PARTS_H_
#define DELTA_PLANNER_AMEND_PARTS_H_

#include "planner/amend.h"
#include "planner/director.h"
#include "planner/draft.h"

// A tensor's way back that is still to come.
typedef struct delta_amend_gap {
  uint32_t before, after; // its buffers; before: DELTA_PROBLEM_NONE where it was below from the start
  bool is_swap;           // it is copied back; else made again
  bool is_copied;         // the copy below is there
  double seconds;         // of its copies, or of the step that makes it
  double rebuild_seconds; // of a swap
  double price;           // seconds for a byte that would stay
} delta_amend_gap_t;

typedef struct delta_amender {
  const delta_amend_options_t *options;
  delta_draft_t draft;
  delta_timeline_t timeline; // of the schedule as it was
  DELTA_ARRAY(delta_amend_gap_t) gaps;
  delta_amendment_t counts; // of the draft
  delta_amendment_t found;  // the best so far
} delta_amender_t;

DELTA_MUST_USE delta_status_t delta_amender_list_gaps(delta_amender_t *amender);
// Lets one of those go, by filter and director, that live at the fullest step between two. `except` stays. May it be copied below, else only made again.
DELTA_MUST_USE delta_status_t delta_amender_let_go(delta_amender_t *amender, uint32_t except, uint32_t first_step, uint32_t last_step,
                                                   bool may_swap, bool *out_done);
// Makes the draft the best so far.
DELTA_MUST_USE delta_status_t delta_amender_take(delta_amender_t *amender, double seconds);
// The frame of all: opens, changes, closes.
DELTA_MUST_USE delta_status_t delta_amend_by(const delta_amend_options_t *options, delta_allocator_t allocator,
                                             delta_status_t (*change)(delta_amender_t *amender), delta_amendment_t *out_amendment);

#endif // DELTA_PLANNER_AMEND_PARTS_H_
