// Quick: what evaluate.h computes, for searches: same plans, same bytes, same times, tens of thousands of times a second.
//
// It reads actions by gap in place of decisions, writes only what bytes and times need in place of a schedule, and keeps all memory between calls. evaluate.c is its judge in
// the tests and makes the schedule of what a search found.
#ifndef DELTA_PLANNER_QUICK_H_
#define DELTA_PLANNER_QUICK_H_

#include "planner/evaluate.h"
#include "planner/gaps.h"

// A tensor at the current place of the walk.
typedef struct delta_quick_residence {
  uint32_t buffer; // that holds it, or DELTA_PROBLEM_NONE
  uint32_t gap;    // it is in
  uint32_t copy;   // the step that copies it below, or DELTA_PROBLEM_NONE
  bool is_on_host, is_wanted, is_visitor, is_overwritten;
} delta_quick_residence_t;

typedef struct delta_quick_buffer {
  int64_t size_bytes;
  uint32_t tensor; // DELTA_PROBLEM_NONE for a workspace
  uint32_t first_step, last_step;
  uint32_t writer; // the step
  bool is_taken;   // another took its bytes over
  bool takes;      // it took those of another
  bool is_part;    // of a whole that was split in a row
  bool is_copy_back;
} delta_quick_buffer_t;

// A problem step without what lies in the state area: entries of quick->lists.
typedef struct delta_quick_row {
  double seconds;
  int64_t workspace_bytes;
  uint32_t inputs, outputs, states, overwritten,
      pairs; // first entries: tensors; states it reads, states it writes; of `pairs`: input, output
  uint32_t input_count, output_count, state_count, overwritten_count, pair_count;
  bool is_pure;
  bool
      is_in_row; // DELTA_STEP_IN_ROW: its pairs are all inputs with the first output, then the first input with the other outputs; all or none
} delta_quick_row_t;

typedef struct delta_quick_step {
  uint32_t kind;           // delta_step_kind_t
  uint32_t subject;        // RUN: problem step; copies: buffer
  uint32_t partner;        // RUN: the last copy back that it reads; SWAP_IN: the copy below; SWAP_OUT: who writes what it copies; or NONE
  uint32_t place;          // in the order: the base step it belongs to
  uint32_t first_pair;     // RUN: in `pairs`; its pairs end where another step's begin
  bool is_base, has_ended; // runs for the first time; in time
} delta_quick_step_t;

// An in-place pair that may come about.
typedef struct delta_quick_pair {
  uint32_t step, input, output; // input and output: buffers
  bool is_chosen;
} delta_quick_pair_t;

typedef struct delta_quick {
  const delta_problem_t *problem;
  const delta_gap_map_t *map;
  delta_allocator_t allocator;
  delta_region_t region;      // Owns the lists by tensor.
  delta_quick_row_t *rows;    // by problem step
  uint32_t *lists;            // what rows name
  int64_t *sizes;             // by tensor
  uint32_t *homes;            // by tensor: the state whose new value it is and whose home is below, or DELTA_PROBLEM_NONE
  uint32_t *inputs, *outputs; // tensors that are there at the start, and at the end
  uint32_t input_count, output_count;
  delta_quick_residence_t *at_start;   // by tensor
  delta_quick_residence_t *residences; // by tensor
  uint32_t *visitors, visitor_count;   // tensors brought back since the last base step
  uint32_t *pending;                   // scratch: tensors that wait for others
  const uint8_t *actions;              // of the last call; borrowed
  uint64_t capacity_bytes, host_bytes; // of the last call
  uint64_t evaluation_count;
  double run_seconds; // sum of all runs of the last call: no time is shorter
  uint32_t place;     // of the walk
  DELTA_ARRAY(delta_quick_step_t) steps;
  DELTA_ARRAY(delta_quick_buffer_t) buffers;
  DELTA_ARRAY(delta_quick_pair_t) pairs;
  DELTA_ARRAY(uint32_t) lanes[DELTA_LANE_COUNT];  // the steps of each, once time has run
  DELTA_ARRAY(int64_t) live_bytes;                // by step
  DELTA_ARRAY(int64_t) early_bytes;               // by step: of copies that come back before they are needed
  DELTA_ARRAY(uint32_t) drain_starts, drain_next; // by step, as the evaluator's
  // While time runs:
  uint32_t cursor, blocked_step, blocked_copy;
  int64_t draining_bytes;
} delta_quick_t;

// `problem` and `map` are borrowed.
DELTA_MUST_USE delta_status_t delta_quick_init(delta_quick_t *quick, const delta_problem_t *problem, const delta_gap_map_t *map,
                                               delta_allocator_t allocator);
void delta_quick_deinit(delta_quick_t *quick); // Safe on a zeroed struct.

// How full the steps are; seconds stay INFINITY. Steps, buffers and live_bytes are valid until the next call. `actions` by gap, borrowed until then.
DELTA_MUST_USE delta_status_t delta_quick_measure(delta_quick_t *quick, const uint8_t *actions, uint64_t capacity_bytes,
                                                  delta_evaluation_t *out_evaluation);
// How long what was measured last takes; INFINITY where it does not fit, or where it is seen to take longer than stop_seconds.
DELTA_MUST_USE delta_status_t delta_quick_time(delta_quick_t *quick, double stop_seconds, delta_evaluation_t *inout_evaluation);

#endif // DELTA_PLANNER_QUICK_H_
