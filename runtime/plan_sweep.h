// Sweep: one model and batch planned within many budgets, for what each of them costs. What does not depend on the budget is done once for all, and a search begins with the plan
// of the budget before. Nothing is slower in a larger budget: a plan is offered to all of them.
#ifndef DELTA_RUNTIME_PLAN_SWEEP_H_
#define DELTA_RUNTIME_PLAN_SWEEP_H_

#include <stdbool.h>

#include <delta/plan.h>

#include "base/array.h"

// What the best plan within a budget comes to; the names are those of delta_plan_summary_t.
typedef struct delta_sweep_row {
  uint64_t budget_bytes; // UINT64_MAX: unlimited
  bool fits;             // else the rest is zero
  bool is_smaller_plan;  // nothing faster was found than the plan of a smaller budget, which this is
  const char *split;     // borrowed, as delta_plan_options_t has it: never "on" or "auto"
  int64_t parts;
  uint64_t arena_bytes, peak_bytes, state_bytes, swapped_bytes;
  uint32_t swapped_tensors, recomputed_nodes;
  uint32_t below_count; // states whose home is below the arena, and the bytes they have there
  uint64_t below_bytes;
  double step_seconds, recompute_seconds, stall_seconds;
  double lower_bound_seconds; // of plans within this budget with states and parts as here; 0: not known
} delta_sweep_row_t;

typedef struct delta_sweep {
  delta_allocator_t allocator;
  char policy[32], device[64];
  int64_t batch;
  uint64_t eager_peak_bytes, unlimited_peak_bytes,
      minimum_budget_bytes; // the last: of the parts for which it is smallest, of those looked at
  double unlimited_step_seconds;
  double planning_seconds;             // what all of it took
  DELTA_ARRAY(delta_sweep_row_t) rows; // by budget
} delta_sweep_t;

typedef struct delta_sweep_request {
  const delta_plan_options_t *
      options; // time_limit_seconds: of the searches within all budgets together; what the budget and the written files are is not looked at
  const char *const *budgets; // each as options->budget has it
  size_t budget_count;
  void (*progress)(void *self, size_t done, size_t total); // told of every plan; NULL: nobody is
  void *self;
} delta_sweep_request_t;

// Every plan has passed the verifier. A budget that nothing fits is a row that says so. The caller's is *out_sweep, to deinit in any case.
DELTA_MUST_USE delta_status_t delta_plan_sweep(const delta_sweep_request_t *request, delta_allocator_t allocator, delta_sweep_t *out_sweep);
void delta_sweep_deinit(delta_sweep_t *sweep);

#endif // DELTA_RUNTIME_PLAN_SWEEP_H_
