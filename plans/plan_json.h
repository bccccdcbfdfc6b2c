// Plan as JSON: what writer and reader share. The format is described in docs/plan-format.md.
#ifndef DELTA_PLANS_PLAN_JSON_H_
#define DELTA_PLANS_PLAN_JSON_H_

#include "base/json.h"
#include "plans/plan.h"

#define DELTA_PLAN_FORMAT "delta plan"

// Integers of the file lie below this, where float64 holds every one: readers in any language get them exactly.
#define DELTA_PLAN_INTEGER_LIMIT (INT64_C(1) << 53)

// The names of an enum's values, in order.
typedef struct delta_name_table {
  const char *const *names;
  uint32_t count;
} delta_name_table_t;
extern const delta_name_table_t delta_dtype_names, delta_loss_names, delta_optimizer_names, delta_program_names, delta_batchnorm_names,
    delta_state_kind_names, delta_lever_names, delta_class_names, delta_step_kind_names, delta_layout_names, delta_float_math_names;

// Members of `build.optimizer`, of a schedule's scalars and of `totals`, in file order: X(field); a member has its field's name.
#define DELTA_OPTIMIZER_REALS(X) X(momentum) X(weight_decay) X(beta1) X(beta2) X(epsilon)
#define DELTA_SCHEDULE_BYTES(X)  X(peak_bytes) X(arena_bytes) X(host_bytes) X(swapped_bytes)
#define DELTA_SCHEDULE_COUNTS(X) X(peak_step) X(swapped_tensors) X(recomputed_nodes)
#define DELTA_SCHEDULE_REALS(X)  X(step_seconds) X(recompute_seconds) X(stall_seconds)
#define DELTA_TOTALS_INTEGERS(X) \
  X(arena_bytes)                 \
  X(peak_bytes)                  \
  X(state_bytes)                 \
  X(unlimited_peak_bytes) X(eager_peak_bytes) X(minimum_budget_bytes) X(node_count) X(trainable_parameters) X(trainable_tensors)
#define DELTA_TOTALS_REALS(X) \
  X(step_seconds)             \
  X(unlimited_step_seconds)   \
  X(lower_bound_seconds) X(planning_seconds) X(profiling_seconds)

#endif // DELTA_PLANS_PLAN_JSON_H_
