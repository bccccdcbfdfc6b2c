// Rival: what the policies of others work on. A rule sets the actions of gaps, or lists runs, and offers them; the rival judges every offer by the planner's own
// evaluation and remembers the best. So all policies differ by what they decide and by nothing else.
#ifndef DELTA_PLANNER_RIVAL_H_
#define DELTA_PLANNER_RIVAL_H_

#include "planner/evaluate.h"
#include "planner/gaps.h"
#include "planner/search.h"
#include "planner/solver.h"

typedef struct delta_rival {
  const delta_problem_t *problem;
  const delta_order_t *order;
  uint64_t capacity_bytes;
  const delta_integer_solver_t *solver; // Borrowed, or NULL.
  delta_allocator_t allocator;
  delta_region_t region; // Owns the lists; rules take theirs from it, too.
  delta_gap_map_t map;
  delta_evaluator_t evaluator;
  // The place of the order where the forward pass ends: where most tensors live that wait for another use.
  uint32_t turn;
  bool names_layers;     // some steps are marked as convolutions or products
  bool *is_on_path;      // by tensor: it depends on inputs and on states: what flows through the network; the others are made beside it
  double *place_seconds; // by place: when its step begins if steps run one after another; one more at the end

  // What a rule sets:
  uint8_t *actions;  // by gap
  bool late_offload; // copies below start when a swapped gap begins, not when the tensor exists

  // Of the actions measured last:
  delta_evaluation_t evaluation;
  uint64_t *place_bytes; // by place: the most that lives at its step, or at what runs again or is copied for it

  // The best offer:
  delta_evaluation_t best_evaluation;
  delta_decision_list_t best_items;
  DELTA_ARRAY(uint32_t) best_runs;
  bool best_late_offload;

  delta_decision_t *items; // scratch
  uint32_t *stamps;        // by problem step: the walk that saw it last
  uint32_t stamp;
  uint32_t *pending; // scratch: the stack of a walk
} delta_rival_t;

// `problem` and `order` are borrowed. Begins with the default of every gap, and with that as the best offer.
DELTA_MUST_USE delta_status_t delta_rival_init(delta_rival_t *rival, const delta_problem_t *problem, const delta_order_t *order,
                                               uint64_t capacity_bytes, const delta_integer_solver_t *solver, delta_allocator_t allocator);
void delta_rival_deinit(delta_rival_t *rival); // Safe on a zeroed struct.

// Gives every gap its default: kept, but for tails.
void delta_rival_reset(delta_rival_t *rival);
// Measures how full the steps are with the actions at hand; sets evaluation (seconds stay INFINITY) and place_bytes.
DELTA_MUST_USE delta_status_t delta_rival_measure(delta_rival_t *rival);
// Judges the actions at hand. Those that cannot be carried out go back to the defaults first.
DELTA_MUST_USE delta_status_t delta_rival_offer(delta_rival_t *rival);
// The same of a list of runs; one that cannot be carried out is no offer.
DELTA_MUST_USE delta_status_t delta_rival_offer_runs(delta_rival_t *rival, const uint32_t *runs, uint32_t run_count);
// The best offer as decisions, which borrow the rival's lists.
delta_decisions_t delta_rival_best(const delta_rival_t *rival);
// Copies decisions into a list, for who begins with them; runs become decisions over gaps that are about the same. Changes the actions at hand.
DELTA_MUST_USE delta_status_t delta_rival_list_decisions(delta_rival_t *rival, const delta_decisions_t *best,
                                                         delta_decision_list_t *out_items);

static inline bool delta_rival_may(const delta_rival_t *rival, uint32_t gap, delta_action_t action) {
  return rival->map.allowed[gap] >> action & 1;
}
// After a tensor's last use.
static inline bool delta_rival_is_tail(const delta_rival_t *rival, uint32_t gap) {
  return rival->map.ends[gap] == rival->order->step_count;
}
// The gap of a tensor over the turn; NONE for one that no step of the forward pass makes. It may be a tail.
uint32_t delta_rival_turn_gap(const delta_rival_t *rival, uint32_t tensor);
// By place of the forward pass, and for the turn: how many tensors on the path that steps before it made it or a later place of the pass reads. In the rival's region.
DELTA_MUST_USE delta_status_t delta_rival_count_crossings(delta_rival_t *rival, uint32_t **out_crossings);
// Seconds of copies at full rate; INFINITY where there is no lane.
double delta_rival_offload_seconds(const delta_rival_t *rival, uint32_t tensor);
double delta_rival_prefetch_seconds(const delta_rival_t *rival, uint32_t tensor);
// Seconds of everything that has to run or to be copied again before a tensor is back at a place, with the actions at hand; INFINITY when it cannot be.
double delta_rival_closure_seconds(delta_rival_t *rival, uint32_t tensor, uint32_t place);
static inline const delta_problem_step_t *delta_rival_step(const delta_rival_t *rival, uint32_t place) {
  return &rival->problem->steps[rival->order->steps[place]];
}
// Whether the step at a place is what rules call a layer with weights: a convolution or a product of matrices. Where a problem names none, all are.
static inline bool delta_rival_is_layer(const delta_rival_t *rival, uint32_t place) {
  return !rival->names_layers || (delta_rival_step(rival, place)->flags & (DELTA_STEP_CONVOLUTION | DELTA_STEP_PRODUCT));
}

// ---- The rules; docs/policies.md has their sources. Each makes at least one offer.

typedef delta_status_t (*delta_rival_rule_t)(delta_rival_t *rival);
DELTA_MUST_USE delta_status_t delta_rule_chen(delta_rival_t *rival);
DELTA_MUST_USE delta_status_t delta_rule_checkmate(delta_rival_t *rival);
DELTA_MUST_USE delta_status_t delta_rule_dtr(delta_rival_t *rival);
DELTA_MUST_USE delta_status_t delta_rule_superneurons(delta_rival_t *rival);
DELTA_MUST_USE delta_status_t delta_rule_vdnn(delta_rival_t *rival);
DELTA_MUST_USE delta_status_t delta_rule_capuchin(delta_rival_t *rival);
DELTA_MUST_USE delta_status_t delta_rule_tsplit(delta_rival_t *rival);
DELTA_MUST_USE delta_status_t delta_rule_pofo(delta_rival_t *rival);

#endif // DELTA_PLANNER_RIVAL_H_
