// What the files of the search share: search.c has the strategy, greedy.c the priced greedy.
#ifndef DELTA_PLANNER_SEARCH_STATE_H_
#define DELTA_PLANNER_SEARCH_STATE_H_

#include "base/random.h"
#include "planner/quick.h"
#include "planner/search.h"

enum { DELTA_SEARCH_SEEDS = 4 };

typedef struct delta_search_plan {
  uint8_t *actions; // by gap
  delta_evaluation_t evaluation;
} delta_search_plan_t;

// A way of changing a plan, and what has come of it.
enum { DELTA_SEARCH_WAYS = 4 };
typedef struct delta_search_way {
  double tries;
  double gain; // of all of them: by how much plans became faster, in temperatures
} delta_search_way_t;

// A change of one gap that would make the fullest step less full.
typedef struct delta_search_offer {
  uint32_t gap;
  uint8_t action;
  double score; // seconds for a byte and too full step
} delta_search_offer_t;

typedef struct delta_search_state {
  const delta_problem_t *problem;
  const delta_order_t *order;
  const delta_search_options_t *options;
  delta_allocator_t allocator;
  delta_region_t region; // Owns the lists.
  delta_gap_map_t map;
  delta_quick_t quick;
  delta_random_sequence_t random;
  DELTA_ARRAY(delta_gap_split_t) splits; // of the round
  uint64_t evaluations_before;           // of earlier rounds
  double best_seconds;                   // of all rounds
  uint64_t best_evaluations;             // after which it was found
  uint64_t phase_end;                    // evaluations after which one way of searching gives way to the next
  double bound_seconds;                  // no plan is faster
  double good_price;                     // of the greedy that was fastest, as a part of a lane's time
  double back_part;                      // what a byte costs on its way back, as a part of what it costs on its way below
  delta_search_plan_t now, before, best;
  delta_search_plan_t seeds[DELTA_SEARCH_SEEDS];   // the fastest greedies
  delta_search_plan_t runners[DELTA_RUNNERS_MOST]; // of the round
  uint32_t runner_count;
  delta_search_way_t ways[DELTA_SEARCH_WAYS]; // of annealing, in all rounds
  delta_decision_t *items;                    // scratch: decisions of a plan
  double *place_seconds; // by place in the order: when its step begins if steps run one after another; one more at the end
  uint8_t *refused;      // by gap: bit per action that did not help in this greedy
  uint32_t *active;      // scratch: gaps whose action is not the default
  uint32_t *candidates;  // gaps that are worth a move: those with bytes over steps that are too full when everything is kept
  uint32_t candidate_count;
  uint32_t *next_kin;                       // by gap: the same use of the next part of its tensor, in a ring; itself: alone
  uint32_t *next_alike;                     // by gap: a candidate with the same place in an equal block, in a ring
  bool *is_led;                             // by gap: another of its ring comes before it
  bool is_together;                         // gaps of a ring are decided together
  uint8_t *spare;                           // scratch: actions by gap
  int64_t *room_bytes;                      // by place: that the plan trades begin with leaves of the capacity; below 0: it does not fit
  int64_t *left_bytes;                      // scratch of trades
  DELTA_ARRAY(delta_search_offer_t) offers; // scratch: of the fullest step
  size_t sorted_offers;                     // of them; the others are a heap
  // Of the schedule measured last:
  DELTA_ARRAY(uint32_t) full_before; // by step: how many steps before it are too full
  uint32_t *positions;               // by place: its step
  // Closures:
  uint32_t *stamps; // by problem step: the walk that saw it last
  uint32_t stamp;
  uint32_t *pending; // scratch: the stack of a walk
} delta_search_state_t;

// ---- search_state.c

// Gaps, evaluation and lists of a round; problem, order, options, allocator and splits are set, and borrowed.
DELTA_MUST_USE delta_status_t delta_search_state_init(delta_search_state_t *state);
void delta_search_state_deinit(delta_search_state_t *state); // What the rounds share stays.
// Gives a gap an action; where parts are decided together, the others of its ring too.
void delta_search_set(const delta_search_state_t *state, uint8_t *actions, uint32_t gap, uint8_t action);
// Whether a gap stands for itself: of a ring that is decided together only the first does.
static inline bool delta_search_is_own(const delta_search_state_t *state, uint32_t gap) {
  return !state->is_together || !state->is_led[gap];
}

// ---- search.c

// Whether the effort is used up.
bool delta_search_is_over(const delta_search_state_t *state);
bool delta_search_is_phase_over(const delta_search_state_t *state); // that, or the share of one way of searching
void delta_search_copy_plan(const delta_search_state_t *state, delta_search_plan_t *to, const delta_search_plan_t *from);
// Measures a plan's actions.
DELTA_MUST_USE delta_status_t delta_search_measure(delta_search_state_t *state, delta_search_plan_t *plan);
// The same with its time; INFINITY also when it is above stop_seconds.
DELTA_MUST_USE delta_status_t delta_search_evaluate(delta_search_state_t *state, delta_search_plan_t *plan, double stop_seconds);
// Remembers state->now, which has been evaluated, when it is better than the best.
bool delta_search_keep_best(delta_search_state_t *state);
// Evaluates state->now, and remembers it when it is the best.
DELTA_MUST_USE delta_status_t delta_search_offer_now(delta_search_state_t *state);
// What a byte takes on a lane; 0: nothing can be copied.
double delta_search_lane_seconds(const delta_search_state_t *state);
double delta_search_draw_part(delta_search_state_t *state); // in [0, 1)
// Lists the gaps whose action is not the default in state->active.
uint32_t delta_search_list_active(delta_search_state_t *state, const uint8_t *actions);

// ---- moves.c

// Of what was measured last, with everything kept.
DELTA_MUST_USE delta_status_t delta_search_list_candidates(delta_search_state_t *state);
// Takes back what is not needed in the best plan, and what is dear where something else is cheaper: the dearest rebuild first, as it deserves the lanes most.
DELTA_MUST_USE delta_status_t delta_search_undo(delta_search_state_t *state);
// Exchanges actions of swapped and rebuilt gaps of the best plan while that helps: a full lane should carry what is dearest to rebuild.
DELTA_MUST_USE delta_status_t delta_search_exchange(delta_search_state_t *state);
uint32_t delta_search_draw_candidate(delta_search_state_t *state);
// Small changes of state->now. False: there was nothing to change.
bool delta_search_move_a_little(delta_search_state_t *state);
// What is decided around a gap is copied to, or exchanged with, what stands around the same gap of an equal block.
bool delta_search_graft(delta_search_state_t *state);
// Walks by small changes over plans that do not fit, for less excess, until one fits.
DELTA_MUST_USE delta_status_t delta_search_anneal_excess(delta_search_state_t *state);
// Takes parts of the best plan back, and lets the greedy make them again.
DELTA_MUST_USE delta_status_t delta_search_neighbourhoods(delta_search_state_t *state);

// ---- trade.c

// Counts the room of what was measured last.
void delta_search_note_room(delta_search_state_t *state);
// Change state->now, whose room has been counted: a gap goes and others stay for it, or the other way around. False: no trade was found, and its actions are of no use.
bool delta_search_trade_out(delta_search_state_t *state);
bool delta_search_trade_in(delta_search_state_t *state);

// ---- anneal.c

// Walks from the best plan by small changes, with a temperature that falls over `most` evaluations; the first walk of a search begins hotter.
DELTA_MUST_USE delta_status_t delta_search_anneal_time(delta_search_state_t *state, uint64_t most, bool is_first);

// ---- refine.c

// Makes state->splits of the best plan: where a closure uses a tensor amid a gap it may go another way afterwards. Splits whose parts differ stay.
DELTA_MUST_USE delta_status_t delta_search_list_splits(delta_search_state_t *state);

// ---- prices.c

// Seconds that everything costs that has to run again before a tensor is back at a place of the order; INFINITY when it cannot be.
double delta_search_closure_seconds(delta_search_state_t *state, const uint8_t *actions, uint32_t tensor, uint32_t place);
// What an action of a gap costs, with a price in seconds for each byte on a lane. INFINITY: it is not allowed.
double delta_search_price(delta_search_state_t *state, const uint8_t *actions, uint32_t gap, delta_action_t action, double lane_price);

// ---- greedy.c

// Releases gaps of state->now, the cheapest per byte and too full step first, until it fits or nothing helps. `noise` disturbs prices by a part of them.
DELTA_MUST_USE delta_status_t delta_search_greedy(delta_search_state_t *state, double lane_price, double noise);
// Releases gaps of state->now for a lower fullest step, whatever the capacity, until none helps or the effort is used up. `note` hears of every change that stays.
typedef delta_status_t (*delta_search_note_t)(void *self, const delta_search_plan_t *now);
DELTA_MUST_USE delta_status_t delta_search_descend(delta_search_state_t *state, double lane_price, delta_search_note_t note, void *self);

#endif // DELTA_PLANNER_SEARCH_STATE_H_
