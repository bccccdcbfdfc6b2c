// Sample plans: every member filled, programs of random problems with copies between device and host. For tests of plan files.
#ifndef DELTA_TESTS_SUPPORT_PLAN_SAMPLE_H_
#define DELTA_TESTS_SUPPORT_PLAN_SAMPLE_H_

#include "plans/plan.h"
#include "tests/support/planning.h"

// A plan of two programs (train, evaluate); equal seeds give equal plans.
delta_plan_t *delta_test_sample_plan(uint64_t seed);

// The problem that programs[index] of the sample was planned for.
delta_problem_t *delta_test_sample_problem(uint64_t seed, uint32_t index);

#endif // DELTA_TESTS_SUPPORT_PLAN_SAMPLE_H_
