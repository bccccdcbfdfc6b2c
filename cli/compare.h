// Compare: every policy at the same budgets, as a table or JSON.
#ifndef DELTA_CLI_COMPARE_H_
#define DELTA_CLI_COMPARE_H_

#include <stdbool.h>

#include <delta/plan.h>

#include "cli/problem_plan.h"

enum { DELTA_COMPARE_WHY_BYTES = 240 };

// What one policy makes of one budget.
typedef struct delta_compare_row {
  const char *policy;
  bool fits; // else `why` and, where it is known, the least bytes it reached
  double seconds, recompute_seconds, stall_seconds, planning_seconds;
  uint64_t peak_bytes, swapped_bytes, least_bytes;
  const char *seed_policy; // NULL, or the policy whose plan delta began with
  bool seed_is_plan;       // and ended with
  char why[DELTA_COMPARE_WHY_BYTES];
} delta_compare_row_t;

// What is planned: a model or a problem.
typedef struct delta_compare_source {
  void *self; // Borrowed.
  const char *name;
  // Plans within budget_bytes (UINT64_MAX: unlimited). A policy that cannot is a row that says so; other errors end the comparison.
  delta_status_t (*plan)(void *self, const char *policy, uint64_t budget_bytes, delta_compare_row_t *out_row);
  double unlimited_seconds, eager_seconds; // of a step without a budget; eager: 0 when there is none
  uint64_t whole_bytes;                    // what percentages count: what an eager framework holds, or all that is kept
} delta_compare_source_t;

// The budgets are a list (cli/budgets.h) of sizes and percentages of whole_bytes.
DELTA_MUST_USE delta_status_t delta_compare(const delta_compare_source_t *source, const char *budgets, bool json,
                                            delta_allocator_t allocator);

// `options` are those of a plan; policy and budget in them are not looked at. `budgets`: as above.
DELTA_MUST_USE delta_status_t delta_compare_model(const delta_plan_options_t *options, const char *budgets, bool json,
                                                  delta_allocator_t allocator);
// The same for a problem file; without `budgets` the file's own.
DELTA_MUST_USE delta_status_t delta_compare_problem(const delta_problem_request_t *request, const char *budgets, bool json,
                                                    delta_allocator_t allocator);

#endif // DELTA_CLI_COMPARE_H_
