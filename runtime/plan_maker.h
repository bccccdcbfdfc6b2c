// Plan maker: a plan while it is made. Programs are given to it; where states live, how long each search may take and what fits the budget are found here.
#ifndef DELTA_RUNTIME_PLAN_MAKER_H_
#define DELTA_RUNTIME_PLAN_MAKER_H_

#include "base/clock.h"
#include "base/locked_allocator.h"
#include "runtime/integer_solver.h"
#include "runtime/program.h"

enum { DELTA_MOST_PROGRAMS = 3, DELTA_BUDGETS_TRIED = 9, DELTA_SHELF_PLACES = 6, DELTA_MOST_HOMES = 3 };

// Planners that are not in use, kept with what their searches found until states lie as they were made for again.
typedef struct delta_planner_set {
  uint32_t below_count;
  delta_planner_t *planners[DELTA_MOST_PROGRAMS]; // Owned; of the maker's parts.
} delta_planner_set_t;

// What tells the programs of one maker from those of another.
typedef struct delta_program_hashes {
  char texts[DELTA_MOST_PROGRAMS][65];
} delta_program_hashes_t;

// What one call works on.
typedef struct delta_plan_maker {
  const delta_plan_options_t *options;
  delta_allocator_t allocator;
  delta_locked_allocator_t locked; // the same for planners, which may search in threads of their own
  delta_plan_t *plan;
  delta_model_t *model;
  delta_device_t *device;
  delta_policy_t policy;
  delta_program_choice_t choice; // how layouts and costs are found
  delta_program_parts_t parts[DELTA_MOST_PROGRAMS];
  uint32_t part_count;
  delta_planner_t *planners[DELTA_MOST_PROGRAMS]; // Owned; of the parts.
  uint32_t *movable;                              // states that may lie below, in the order in which they go there
  uint32_t movable_count, below_count;
  bool keeps_planners;                           // for other states below; set by who plans within many budgets
  delta_planner_set_t shelf[DELTA_SHELF_PLACES]; // the last used last
  uint32_t shelf_count;
  delta_cbc_t cbc; // for the policy that needs a solver
  delta_integer_solver_t solver;
  double start_seconds;
  delta_time_limit_t limit;        // of the search at hand
  double prepare_seconds;          // what the last planners took to make
  double trying_seconds;           // what other budgets took, for a report
  bool is_hasty;                   // the least budgets are looked for with little effort
  const uint32_t *wanted_below;    // NULL, or how many states lie below where that fits: nothing else is then tried
  bool tries_homes;                // more states below than there have to be may make the step faster
  struct delta_homes_race *race;   // Owned; searches for the first program's plan that go on side by side, or NULL
  const delta_decisions_t *start;  // NULL, or what searches for the first program's plan begin with
  bool proves_bound;               // the first program's plan comes with the best lower bound, given a second or more
  uint64_t resident_minimum_bytes; // the least budget with all states in the arena
  uint64_t resident_program_bytes,
      below_program_bytes;      // the least that programs need beside states: with all in the arena, with all below that may be
  uint64_t other_program_bytes; // what a program that is none of the parts needs beside states, where the budget allows
} delta_plan_maker_t;

// A plan in four steps. The model is read and the programs are built; `options` are borrowed.
DELTA_MUST_USE delta_status_t delta_plan_maker_open(delta_plan_maker_t *maker, const delta_plan_options_t *options,
                                                    delta_allocator_t allocator);
// What a plan is compared with, the least budget, the plan's budget, and where states live.
DELTA_MUST_USE delta_status_t delta_plan_maker_settle(delta_plan_maker_t *maker);
// The plan, and its numbers unless out_summary is NULL. On DOES_NOT_FIT there is no plan, but numbers.
DELTA_MUST_USE delta_status_t delta_plan_maker_finish(delta_plan_maker_t *maker, delta_plan_t **out_plan,
                                                      delta_plan_summary_t *out_summary);
void delta_plan_maker_close(delta_plan_maker_t *maker); // Whatever came of the steps before. Safe on a zeroed struct.

void delta_plan_maker_hash_programs(const delta_plan_maker_t *maker, delta_program_hashes_t *out_hashes);

// A planner of a program. Several threads may make some at once.
DELTA_MUST_USE delta_status_t delta_plan_maker_make_planner(delta_plan_maker_t *maker, const delta_program_parts_t *parts,
                                                            delta_planner_t **out_planner);
// The least budget that holds every program, with the planners and the states' homes of the moment.
uint64_t delta_plan_maker_least_budget(const delta_plan_maker_t *maker);
// What does not depend on the budget: planners for the states' homes of the moment, and the least budget that holds every program.
DELTA_MUST_USE delta_status_t delta_plan_maker_prepare(delta_plan_maker_t *maker, uint64_t *out_minimum_bytes);
// The same with the first `count` of the states that may lie below.
DELTA_MUST_USE delta_status_t delta_plan_maker_prepare_below(delta_plan_maker_t *maker, uint32_t count, uint64_t *out_minimum_bytes);
// The same, for the first program with a planner that is there: it is made for these homes, and the maker's from then on, whatever comes of it.
DELTA_MUST_USE delta_status_t delta_plan_maker_prepare_beside(delta_plan_maker_t *maker, uint32_t count, uint64_t *out_minimum_bytes);
// Says where the first `count` of the states that may lie below live, and the others; what planners were made for stays.
DELTA_MUST_USE delta_status_t delta_plan_maker_set_below(delta_plan_maker_t *maker, uint32_t count);
// What the budget leaves a program beside the states that do not lie below.
uint64_t delta_plan_maker_capacity(const delta_plan_maker_t *maker);
// Done with for now: planners that were made for `count` states below are kept where the maker keeps planners, else destroyed. Leaves NULLs.
void delta_plan_maker_put_away(delta_plan_maker_t *maker, uint32_t count, delta_planner_t **inout_planners);
// All planners there are, those put away and those that race too.
void delta_plan_maker_drop_planners(delta_plan_maker_t *maker);
// Exchanges the planners with others, which may be NULL: planners that were set aside keep what their searches found.
void delta_plan_maker_swap_planners(delta_plan_maker_t *maker, delta_planner_t **inout_planners);
// Goes back to planners that were set aside, made for `count` states below; those of the moment take their place.
DELTA_MUST_USE delta_status_t delta_plan_maker_return_below(delta_plan_maker_t *maker, uint32_t count, delta_planner_t **inout_planners);
// The least budget, from resident_minimum_bytes and that with all below that may be. Sets the plan's minimum_budget_bytes.
DELTA_MUST_USE delta_status_t delta_plan_maker_find_minimum(delta_plan_maker_t *maker);
// As few states below as the plan's budget allows.
DELTA_MUST_USE delta_status_t delta_plan_maker_choose_homes(delta_plan_maker_t *maker);
// The same, and later, by delta_plan_maker_race, more of them where the step is faster with them there.
DELTA_MUST_USE delta_status_t delta_plan_maker_choose_fast_homes(delta_plan_maker_t *maker);
// Numbers of states below that are worth a try after that: as few as there have to be; and where more may help, the large ones, or of these the moments alone. Returns how many there are.
uint32_t delta_plan_maker_list_homes(const delta_plan_maker_t *maker, uint32_t counts[DELTA_MOST_HOMES]);
// Where there is time for more than one search, and planners are not kept, it is for searches with several seeds and homes that go on side by side, on as many threads as the process has processors. The first
// planner and the states' homes are then those of the fastest plan, and *inout_limit_seconds, what the search may take, is 0. A later call goes on.
DELTA_MUST_USE delta_status_t delta_plan_maker_race(delta_plan_maker_t *maker, double *inout_limit_seconds);
void delta_homes_race_close(struct delta_homes_race *race); // NULL is fine.
// How long the next search of a planner may take; an evaluation_limit of 0: none.
void delta_plan_maker_give_effort(delta_plan_maker_t *maker, uint32_t index, double limit_seconds, uint64_t evaluation_limit,
                                  bool proves_bound);
// Searches for the first program's plan for so long, from where the last search ended; *out_seconds is what the step then takes, INFINITY when it does not fit.
DELTA_MUST_USE delta_status_t delta_plan_maker_try(delta_plan_maker_t *maker, double limit_seconds, double *out_seconds);
// Plans every program within the plan's budget; sets arena, peak and times of the whole plan. DOES_NOT_FIT names the least budget.
DELTA_MUST_USE delta_status_t delta_plan_maker_plan(delta_plan_maker_t *maker);
// The plan's points: what the first program takes with other budgets, while there is time.
DELTA_MUST_USE delta_status_t delta_plan_maker_try_budgets(delta_plan_maker_t *maker);

#endif // DELTA_RUNTIME_PLAN_MAKER_H_
