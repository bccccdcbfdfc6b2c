// Planning: random problems, schedules of them with copies and repeated steps, and a slow machine that judges schedules. For tests of plans/ and planner/.
#ifndef DELTA_TESTS_SUPPORT_PLANNING_H_
#define DELTA_TESTS_SUPPORT_PLANNING_H_

#include "planner/planner.h"

// Numbers that depend on the seed alone.
typedef struct delta_test_numbers {
  uint64_t state;
} delta_test_numbers_t;
uint64_t delta_test_number(delta_test_numbers_t *numbers, uint64_t limit); // in [0, limit); 0 when limit is 0

// A problem of about `step_count` steps: inputs, states that are updated, constants, in-place pairs, workspaces, outputs. It passes delta_problem_check.
delta_problem_t *delta_test_random_problem(uint64_t seed, uint32_t step_count);

// Gives about half of the states their homes below, and offers their updates in place.
void delta_test_move_states_below(delta_problem_t *problem, uint64_t seed);

// Everything kept: order, expand, simulate, layout.
delta_schedule_t *delta_test_kept_schedule(const delta_problem_t *problem, bool early_update);

// The same problem with tensors copied to the host and back, and dropped and made again, at random places; every step waits for the last step of each other lane.
delta_schedule_t *delta_test_swapped_schedule(const delta_problem_t *problem, uint64_t seed);

// Runs the schedule on a memory of units that remember which tensor they hold, and compares all pairs of steps that touch the same unit. True when whatever the lanes
// do in the order that waits allow, every read finds its tensor, all steps run, nothing leaves the arena and the stated peak is right. Quadratic. Otherwise *out_why.
bool delta_test_machine_accepts(const delta_schedule_t *schedule, const delta_problem_t *problem, const char **out_why);

// A copy with lists of its own, to be changed by a test.
delta_schedule_t *delta_test_copy_schedule(const delta_schedule_t *schedule);

// Ends the test process when a status that must be OK is not.
void delta_test_must(delta_status_t status);

#endif // DELTA_TESTS_SUPPORT_PLANNING_H_
