// View: one program's schedule together with the names of what it computes. What report and trace are made of; nothing in it is owned.
#ifndef DELTA_PLANS_VIEW_H_
#define DELTA_PLANS_VIEW_H_

#include "base/array.h"
#include "plans/schedule.h"

// When a schedule step ran, in seconds from the start of the program.
typedef struct delta_step_times {
  double start_seconds, end_seconds;
} delta_step_times_t;

typedef struct delta_view {
  const char *program; // "train"; what the steps belong to
  int64_t batch;       // 0: has none
  const delta_problem_t *problem;
  const delta_schedule_t *schedule;
  const char *const *types;        // by problem tensor: "float32 [64, 10]"; NULL, as a list or an entry: not known
  const char *const *operators;    // by problem step: "conv"; NULL: not known
  const delta_step_times_t *times; // by schedule step, as measured; NULL: as planned
  uint64_t state_bytes;            // of the state area, beside the schedule's buffers
} delta_view_t;

static inline delta_step_times_t delta_view_times(const delta_view_t *view, uint32_t step) {
  if (view->times) return view->times[step];
  const delta_schedule_step_t *planned = &view->schedule->steps[step];
  return (delta_step_times_t){.start_seconds = planned->start_seconds, .end_seconds = planned->end_seconds};
}

// The step that gives the buffer its value, or DELTA_PROBLEM_NONE: it is there before the first step.
static inline uint32_t delta_view_writer(const delta_view_t *view, uint32_t buffer) {
  const uint32_t first = view->schedule->buffers[buffer].first_step;
  const delta_schedule_step_t *step = &view->schedule->steps[first];
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (step->outputs[k] == buffer) return first;
  }
  return DELTA_PROBLEM_NONE;
}

// A name from a model as it may be shown: UTF-8 on one line, cut where it is very long. `buffer` is returned.
enum { DELTA_VIEW_TEXT_BYTES = 512 };
const char *delta_view_text(const char *name, char buffer[DELTA_VIEW_TEXT_BYTES]);

// What became of a tensor in one gap between two of its stays in the arena, or, of one that never leaves, in all of them.
typedef struct delta_view_gap {
  uint32_t tensor;
  uint32_t before, after; // its buffers around the gap; DELTA_PROBLEM_NONE: it was below before the program began, or stays there after it
  uint32_t reader;        // the step that needs it first after the gap, or DELTA_PROBLEM_NONE
  bool is_swapped;        // else made again, or, where before and after are one buffer, kept
  double copy_seconds;    // of copies below and back, on their lanes
  double rebuild_seconds; // of the steps that ran again for this tensor, on the compute lane
  double wait_seconds;    // that the compute lane stood still for these copies
} delta_view_gap_t;
typedef DELTA_ARRAY(delta_view_gap_t) delta_view_gaps_t;

// Lists the gaps of all tensors that have buffers, by tensor and time. A step that makes several tensors again is paid for by the first of them, and idle time by
// the copy that ended last before it: sums over the list are the schedule's. The caller deinits the list.
DELTA_MUST_USE delta_status_t delta_view_list_gaps(const delta_view_t *view, delta_allocator_t allocator, delta_view_gaps_t *out_gaps);

#endif // DELTA_PLANS_VIEW_H_
