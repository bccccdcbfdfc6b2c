// Plan race: searches for the plan of one program that go on side by side, the more promising ones first. What a search finds first says little of what it finds last, and which of two
// seeds is the better one only searching tells.
#ifndef DELTA_RUNTIME_PLAN_RACE_H_
#define DELTA_RUNTIME_PLAN_RACE_H_

#include "planner/planner.h"

enum { DELTA_MOST_CONTESTANTS = 16 };

// A search, of a planner whose searches share nothing with those of the others.
typedef struct delta_contestant {
  delta_planner_t *planner; // Borrowed.
  uint64_t capacity_bytes;
  uint64_t seed;  // of a search that begins
  uint32_t group; // those of one group differ in their seeds alone
  bool begins_with_rivals;
  // What came of it:
  double step_seconds; // of its fastest plan so far; INFINITY: there is none
  double bound_seconds;
  double mark_seconds; // the less, the more promising. Its owner may give it another.
  bool is_left_behind; // it searches no more: others are better, or it has found what it can
} delta_contestant_t;

typedef struct delta_race_options {
  double limit_seconds;      // of all of it together; not looked at with an evaluation_limit
  uint64_t evaluation_limit; // of each contestant; 0: none. The same then comes of a race each time, whatever the number of threads.
  uint32_t thread_count;     // of which the caller's is one
} delta_race_options_t;

// Searches with all contestants that are not left behind, from where their last search ended; their planners then have the plans. Each thread has one contestant, in the order of their
// marks, and goes on with the next when that one has found what it can. Planners' allocators are called from all threads. A failure of one is the failure of all; that its program
// does not fit is none.
DELTA_MUST_USE delta_status_t delta_race_run(delta_contestant_t *contestants, uint32_t count, const delta_race_options_t *options);
// The same with a short search for each, of a tenth of the limit at most: for marks.
DELTA_MUST_USE delta_status_t delta_race_open(delta_contestant_t *contestants, uint32_t count, const delta_race_options_t *options);
// Who has the fastest plan, of equals the first; `count`: nobody has one.
uint32_t delta_race_find_fastest(const delta_contestant_t *contestants, uint32_t count);

#endif // DELTA_RUNTIME_PLAN_RACE_H_
