// Refit: the programs of a plan planned again for another budget. What the arithmetic depends on stays: graphs, kernels, layouts, and so the numerics_id.
#ifndef DELTA_RUNTIME_PLAN_REFIT_H_
#define DELTA_RUNTIME_PLAN_REFIT_H_

#include "runtime/program.h"

typedef struct delta_refit_options {
  const delta_plan_t *plan;
  const delta_program_parts_t *const *parts; // of the plan's programs, in order. Read only: another thread may run them meanwhile.
  size_t granule_bytes;
  uint64_t budget_bytes;
  double offload_bytes_per_second, prefetch_bytes_per_second; // 0: as the parts' problems have them
  bool avoids_tier;                                           // nothing lies below, whatever the plan's host budget
  const double *step_seconds;   // of the first program's problem, by step, as measured; NULL: as its problem has them
  double time_limit_seconds;    // of policies that search
  uint64_t other_program_bytes; // so many states go below that this is left beside the others, as far as the budget allows
} delta_refit_options_t;

// A plan whose states lie where the budget allows. It borrows the strings of the given one, which outlives it. A policy that releases nothing gives way to delta-fixed
// where its own plan does not fit, and so does every policy where the tier is avoided. DOES_NOT_FIT names the smallest budget.
DELTA_MUST_USE delta_status_t delta_plan_refit(const delta_refit_options_t *options, delta_allocator_t allocator, delta_plan_t **out_plan);

#endif // DELTA_RUNTIME_PLAN_REFIT_H_
