// Planner: from a problem to a schedule under a budget. Pure: no device, no file, no clock but the deadline callback.
#ifndef DELTA_PLANNER_PLANNER_H_
#define DELTA_PLANNER_PLANNER_H_

#include "plans/schedule.h"

// Policies: one row each. X(identifier, name, help). All end in the same expand, simulate and layout.
#define DELTA_POLICIES(X)                                                                                       \
  X(NONE, "none", "no swap, no recompute: our order and in-place reuse")                                        \
  X(EAGER, "eager", "what an eager framework holds: levers off, program order, all gradients until the update") \
  X(DELTA, "delta", "Delta's own search")                                                                       \
  X(SWAP, "swap", "Delta's search without recompute")                                                           \
  X(RECOMPUTE, "recompute", "Delta's search without swap")                                                      \
  X(CHEN, "chen", "square-root checkpoints")                                                                    \
  X(CHECKMATE, "checkmate", "optimal recompute by integer programming")                                         \
  X(DTR, "dtr", "dynamic tensor rematerialization")                                                             \
  X(SUPERNEURONS, "superneurons", "cost-aware recompute and swap of convolutions")                              \
  X(VDNN, "vdnn", "swap of layer inputs")                                                                       \
  X(CAPUCHIN, "capuchin", "one measured pass, swap first")                                                      \
  X(TSPLIT, "tsplit", "greedy by exposed time per byte, on whole tensors")                                      \
  X(POFO, "pofo", "dynamic program over swap and recompute on a chain")                                         \
  X(DELTA_RELEASED, "delta-released", "DELTA as its authors released it")                                       \
  X(DELTA_FIXED, "delta-fixed", "DELTA with its unit mistake corrected and copies on their lanes")
typedef enum delta_policy {
#define DELTA_POLICY_ENUM(id, name, help) DELTA_POLICY_##id,
  DELTA_POLICIES(DELTA_POLICY_ENUM)
#undef DELTA_POLICY_ENUM
      DELTA_POLICY_COUNT
} delta_policy_t;

typedef struct delta_policy_info {
  const char *name;
  const char *help;
} delta_policy_info_t;
const delta_policy_info_t *delta_policy_info(delta_policy_t policy);
// Whether the policy lets tensors go until a hard budget is kept: states may then lie below, too.
bool delta_policy_keeps_budgets(delta_policy_t policy);
// INVALID_ARGUMENT lists the names.
DELTA_MUST_USE delta_status_t delta_policy_parse(const char *name, delta_policy_t *out_policy);

// What becomes of a tensor in the time between two uses. SWAP: it is copied below once, from its production on, and comes back when it is needed; SWAP_LATE: the copy starts when
// the gap begins. REBUILD: it is made again when it is needed; made again for another step before its next use, it then stays (HOLD) or goes again (DROP).
#define DELTA_ACTIONS(X) \
  X(KEEP, "keep") X(SWAP, "swap") X(REBUILD_HOLD, "rebuild_hold") X(REBUILD_DROP, "rebuild_drop") X(SWAP_LATE, "swap_late")
typedef enum delta_action {
#define DELTA_ACTION_ENUM(id, name) DELTA_ACTION_##id,
  DELTA_ACTIONS(DELTA_ACTION_ENUM)
#undef DELTA_ACTION_ENUM
      DELTA_ACTION_COUNT
} delta_action_t;
static inline bool delta_action_swaps(delta_action_t action) { return action == DELTA_ACTION_SWAP || action == DELTA_ACTION_SWAP_LATE; }
// Whether what is there when an action begins amid a gap stays.
static inline bool delta_action_stays(delta_action_t action) { return action == DELTA_ACTION_KEEP || action == DELTA_ACTION_REBUILD_HOLD; }

// Base order of a program's steps: each entry is a problem step.
typedef struct delta_order {
  uint32_t *steps; // Owned; step_count entries.
  uint32_t step_count;
  delta_allocator_t allocator;
} delta_order_t;
void delta_order_deinit(delta_order_t *order);
// early_update: a step that writes a state runs as soon as its inputs are final and all other readers of the state have run; else all of them run last, in order.
// With early_update, steps whose results only one such step needs (directly or not) run as soon as their inputs are there; those that need nothing but states
// and inputs of the program, and that only such steps need, right before the first of them. Other steps keep their order, except that constants and fills (steps without inputs) run right before
// their first reader; one without a reader runs last. Whatever the order, every reader of a state's old value runs before the step that writes it;
// MALFORMED names a step where that is impossible.
DELTA_MUST_USE delta_status_t delta_order_make(const delta_problem_t *problem, bool early_update, delta_allocator_t allocator,
                                               delta_order_t *out_order);
// The problem's own order.
DELTA_MUST_USE delta_status_t delta_order_listed(const delta_problem_t *problem, delta_allocator_t allocator, delta_order_t *out_order);

// The gap of a tensor after its use number `use` in the base order (0: after its production) has an action; the list is sparse, other gaps keep. A gap may have another action
// from a place of the order on, so that what closures use on the way is held for some of them alone.
typedef struct delta_decision {
  uint32_t tensor;
  uint32_t use;
  uint32_t place; // 0: from the gap's beginning; else after the base step at this place of the order
  delta_action_t action;
} delta_decision_t;
typedef struct delta_decisions {
  delta_decision_t *items; // sorted by tensor, use, place
  size_t count;
  bool late_offload; // copies below start when a swapped gap begins; else as soon as the tensor exists
  delta_action_t
      tail; // of the gap after a tensor's last use in the base order, where only closures need it, unless listed; KEEP where it cannot be rebuilt
  // NULL, or what the decisions come to, already decided: these problem steps run, in this order, and nothing is copied. A tensor lives from the run that makes it to the
  // last one that reads it before it is made again. `items` is then not looked at.
  const uint32_t *runs;
  uint32_t run_count;
} delta_decisions_t;

// Expands order and decisions to steps with clones and transfers, buffers with lifetimes, in-place choices, peak, host slots. No addresses, no waits, no times.
// A tensor that is needed and not there is copied back if a copy is below, else made again with all that takes. INVALID_ARGUMENT names tensor and step when
// that is impossible: what makes it is not pure, or reads a state that has been written since.
DELTA_MUST_USE delta_status_t delta_expand(const delta_problem_t *problem, const delta_order_t *order, const delta_decisions_t *decisions,
                                           delta_allocator_t allocator, delta_schedule_t **out_schedule);
// Fills start and end of every step, step_seconds, stall_seconds: three lanes, bandwidths of the problem.
DELTA_MUST_USE delta_status_t delta_simulate(const delta_problem_t *problem, delta_schedule_t *schedule, delta_allocator_t allocator);
// What waits are for. DATA: a read waits for its writer. BYTES: also, a write waits for all users of the bytes it takes over; buffers have addresses then.
// ONE_AT_A_TIME: every step waits for the one before it.
typedef enum delta_wait_rule { DELTA_WAIT_FOR_DATA, DELTA_WAIT_FOR_BYTES, DELTA_WAIT_ONE_AT_A_TIME } delta_wait_rule_t;
// Sets the waits between lanes, none that follows from others.
DELTA_MUST_USE delta_status_t delta_set_waits(delta_schedule_t *schedule, delta_wait_rule_t rule, delta_allocator_t allocator);
// Gives every buffer an address: best fit by size and lifetime, improved where it pays. Sets offsets, arena_bytes.
DELTA_MUST_USE delta_status_t delta_layout(const delta_problem_t *problem, delta_schedule_t *schedule, delta_allocator_t allocator);
// The same, done with the first addresses that lie within a capacity; arena_bytes may be above it when none were found. Hasty: a small part of the effort, for callers who have
// other ways.
DELTA_MUST_USE delta_status_t delta_layout_within(delta_schedule_t *schedule, uint64_t capacity_bytes, bool is_hasty,
                                                  delta_allocator_t allocator);
// A time that no plan of this order within the capacity can be faster than. It is improved, for up to half a second, until it reaches enough_seconds, such as those of
// a plan; with 0 it is a quick one. The same each time.
DELTA_MUST_USE delta_status_t delta_lower_bound(const delta_problem_t *problem, const delta_order_t *order, uint64_t capacity_bytes,
                                                double enough_seconds, delta_allocator_t allocator, double *out_seconds);

// How long a search may take. Without a limit of either kind it has one of its own.
typedef struct delta_planner_effort {
  uint64_t evaluation_limit;        // 0: none
  uint64_t seed;                    // of its draws
  double (*spent_part)(void *self); // of the time there is: from 1 on it is over; NULL: there is no deadline
  void *self;                       // Borrowed.
  bool begins_with_rivals; // policy delta: a search also begins with the best plan of other policies, and never ends with a slower one
  void (*begin_search)(void *self); // NULL, or told when these plans are there: their time need not count
  bool goes_on;                     // a search in the capacity of the last goes on from where that ended, and its plan is never slower
  const delta_decisions_t *start; // NULL, or what a new search begins with, such as those of another capacity; they need not fit. Borrowed.
  bool proves_bound;              // plans come with the best lower bound, which takes up to half a second more; else with a quick one
} delta_planner_effort_t;
static inline bool delta_planner_effort_is_past(const delta_planner_effort_t *effort) {
  return effort->spent_part && effort->spent_part(effort->self) >= 1;
}

typedef struct delta_planner_options {
  delta_policy_t policy;
  bool early_update;
  bool listed_order;                         // the problem's own order, in place of ours
  bool hasty_least;                          // the least budget is looked for with little effort
  const struct delta_integer_solver *solver; // Borrowed; for policy checkmate; NULL: there is none
  delta_planner_effort_t effort;
} delta_planner_options_t;

typedef struct delta_planner_result {
  delta_schedule_t *schedule;    // Owned by the caller.
  uint64_t minimum_budget_bytes; // smallest arena (without states) for which this policy has a plan
  uint32_t minimum_step;         // problem step that sets it
  double lower_bound_seconds;
  bool is_exhausted;       // a search has ended by itself: going on finds nothing better
  const char *seed_policy; // NULL, or the policy whose plan the search began with; seed_is_plan: and ended with
  bool seed_is_plan;
} delta_planner_result_t;

// A planner for one problem and policy, for any number of budgets: what does not depend on the budget is done once.
typedef struct delta_planner delta_planner_t;
// `problem` is borrowed and outlives the planner; its budget is not looked at.
DELTA_MUST_USE delta_status_t delta_planner_create(const delta_problem_t *problem, const delta_planner_options_t *options,
                                                   delta_allocator_t allocator, delta_planner_t **out_planner);
// A planner that searches beside another, which it does not need to outlive it: same problem, options and allocator, and what does not depend on the budget is shared. Nothing that
// searches found is. Planners that share may plan at once, each in a thread of its own, if their allocator allows it; forking and destroying them is for one thread at a time.
DELTA_MUST_USE delta_status_t delta_planner_fork(const delta_planner_t *planner, delta_planner_t **out_planner);
void delta_planner_destroy(delta_planner_t *planner); // NULL is fine.
// Changes how long the searches that follow may take.
void delta_planner_set_effort(delta_planner_t *planner, const delta_planner_effort_t *effort);
// The smallest arena (without states) for which the policy has a plan; in any smaller one delta_planner_plan says DOES_NOT_FIT. Of a rival: the smallest that its rule was seen to
// reach.
uint64_t delta_planner_minimum_bytes(const delta_planner_t *planner);
// The schedule that keeps everything: the policy's own without a budget. Borrowed.
const delta_schedule_t *delta_planner_kept(const delta_planner_t *planner);
// The decisions of the fastest plan that the last search found, borrowed until the planner plans again; NULL: there was no search, or it found none.
const delta_decisions_t *delta_planner_decisions(const delta_planner_t *planner);
// Plans within capacity_bytes. DOES_NOT_FIT: the message has the smallest budget, the step that sets it and the largest tensors there; result->minimum_* are set too.
DELTA_MUST_USE delta_status_t delta_planner_plan(delta_planner_t *planner, uint64_t capacity_bytes, delta_planner_result_t *out_result);

// Plans one program within the problem's budget.
DELTA_MUST_USE delta_status_t delta_planner_run(const delta_problem_t *problem, const delta_planner_options_t *options,
                                                delta_allocator_t allocator, delta_planner_result_t *out_result);

#endif // DELTA_PLANNER_PLANNER_H_
