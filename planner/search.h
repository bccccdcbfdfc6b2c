// Search: the decisions that make a program fastest within a capacity.
//
// A priced greedy over a sweep of shadow prices of a lane byte gives seeds. In the best of them what is not needed is undone and actions of gaps are exchanged; then parts of the
// best plan are taken back and made again, and trades and small changes are accepted with a falling temperature, in rounds: what one round's plan rebuilds decides where gaps are split in
// the next. Where the greedy finds nothing that fits, annealing of the excess looks for it. Pure: the same effort gives the same decisions. A search ends before its effort is
// used up when no plan can be faster, or when nothing better was found for a long while.
#ifndef DELTA_PLANNER_SEARCH_H_
#define DELTA_PLANNER_SEARCH_H_

#include "planner/evaluate.h"
#include "planner/gaps.h"
#include "planner/runners.h"

typedef struct delta_search_options {
  delta_liberties_t liberties;
  uint64_t capacity_bytes;
  delta_planner_effort_t effort;
  bool walks;                     // takes more evaluations for walks than for making parts of a plan again
  bool is_together;               // parts of one tensor are decided alike: fewer decisions for a plan to begin with
  const delta_decisions_t *start; // NULL, or decisions to begin with, of the same order: they need not fit
  delta_runners_t *runners;       // NULL, or where those go that fit and were the fastest before
} delta_search_options_t;

typedef struct delta_search_result {
  bool fits;                     // else the decisions are the least full that were found
  delta_evaluation_t evaluation; // of the decisions
  uint64_t evaluation_count;
} delta_search_result_t;

// Searches. `order` and `problem` are borrowed; out_items gets the decisions of out_decisions and is the caller's to free with delta_array_deinit.
DELTA_MUST_USE delta_status_t delta_search(const delta_problem_t *problem, const delta_order_t *order,
                                           const delta_search_options_t *options, delta_allocator_t allocator,
                                           delta_decision_list_t *out_items, delta_decisions_t *out_decisions,
                                           delta_search_result_t *out_result);

#endif // DELTA_PLANNER_SEARCH_H_
