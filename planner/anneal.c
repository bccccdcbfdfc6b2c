// Anneal: a walk over plans by small changes, with a falling temperature.
//
// A plan at its budget leaves little to change: nearly every step from it leads to one that does not fit. So many steps are trades, and the walk may pass over the capacity, for a price
// by the byte that makes it come back; only plans that fit are remembered. Which ways of changing a plan are good differs between programs: those that have made plans faster are
// taken more often.
#include <math.h>
#include <string.h>

#include "planner/search_state.h"

// Temperatures, as parts of the time for each candidate: a plan may become slower by about a fifth of what one of them matters. Hotter walks forget the plan they begin with, colder ones
// hardly move. The first walk of a search for walks may forget much of it: what greedies make is often one and the same.
static const double FIRST_PART = 0.6, HOTTEST_PART = 0.2, COLDEST_PART = 0.06, MOST_PART = 2e-2;
// How far above the capacity the walk may go, as a part of it; and what that costs, as a part of the time for each such part.
static const double MOST_OVER_PART = 0.03, OVER_PRICE = 0.15;
// Each way gets this part of the steps, the rest is shared by what a step has gained so far, to which some steps of a usual gain, in temperatures, are added.
static const double LEAST_WAY_PART = 0.1, USUAL_TRIES = 1000, USUAL_GAIN = 10;
// No step counts for more.
static const double MOST_GAIN = 5;

typedef bool (*change_t)(delta_search_state_t *state);
static const change_t changes[DELTA_SEARCH_WAYS] = {delta_search_trade_in, delta_search_trade_out, delta_search_graft,
                                                    delta_search_move_a_little};

typedef struct walk {
  delta_search_state_t *state;
  double cost; // of state->before
} walk_t;

// The cost of state->now; INFINITY where it is above most_cost.
static delta_status_t price_now(walk_t *walk, double most_cost, double *out_cost) {
  delta_search_state_t *state = walk->state;
  delta_search_plan_t *now = &state->now;
  const uint64_t capacity_bytes = state->options->capacity_bytes;
  *out_cost = INFINITY;
  DELTA_RETURN_IF_ERROR(delta_search_measure(state, now));
  if (!now->evaluation.is_possible) return DELTA_OK;
  delta_evaluation_t evaluation = now->evaluation;
  double price = 0;
  if (evaluation.excess_bytes > 0) {
    const double over_part = (double)(evaluation.peak_bytes - capacity_bytes) / (double)capacity_bytes;
    if (over_part > MOST_OVER_PART) return DELTA_OK;
    price = over_part * OVER_PRICE * state->place_seconds[state->order->step_count];
    state->quick.capacity_bytes = evaluation.peak_bytes;
    evaluation.excess_bytes = 0;
  }
  DELTA_RETURN_IF_ERROR(delta_quick_time(&state->quick, most_cost - price, &evaluation));
  if (now->evaluation.excess_bytes == 0) now->evaluation = evaluation;
  *out_cost = evaluation.seconds + price;
  return DELTA_OK;
}

static double gain_of(const delta_search_way_t *way) { return (way->gain + USUAL_GAIN) / (way->tries + USUAL_TRIES); }

static int draw_way(delta_search_state_t *state) {
  double all = 0, drawn = delta_search_draw_part(state);
  int way = 0;
  for (int w = 0; w < DELTA_SEARCH_WAYS; ++w) all += gain_of(&state->ways[w]);
  for (; way < DELTA_SEARCH_WAYS - 1; ++way) {
    drawn -= LEAST_WAY_PART + (1 - DELTA_SEARCH_WAYS * LEAST_WAY_PART) * gain_of(&state->ways[way]) / all;
    if (drawn < 0) break;
  }
  return way;
}

static delta_status_t step(walk_t *walk, double temperature_seconds) {
  delta_search_state_t *state = walk->state;
  delta_search_plan_t *from = &state->before;
  delta_search_copy_plan(state, &state->now, from);
  const int w = draw_way(state);
  delta_search_way_t *way = &state->ways[w];
  if (!changes[w](state)) return DELTA_OK;
  if (memcmp(state->now.actions, from->actions, state->map.gap_count) == 0) return DELTA_OK;
  const double most_cost = walk->cost - temperature_seconds * log(1 - delta_search_draw_part(state));
  double cost;
  DELTA_RETURN_IF_ERROR(price_now(walk, most_cost, &cost));
  ++way->tries;
  if (cost > most_cost) return DELTA_OK;
  way->gain += fmin(MOST_GAIN, fmax(0, walk->cost - cost) / temperature_seconds);
  if (state->now.evaluation.excess_bytes == 0) delta_search_keep_best(state);
  delta_search_copy_plan(state, from, &state->now);
  walk->cost = cost;
  delta_search_note_room(state);
  return DELTA_OK;
}

delta_status_t delta_search_anneal_time(delta_search_state_t *state, uint64_t most, bool is_first) {
  if (state->candidate_count == 0) return DELTA_OK;
  const double seconds = state->best.evaluation.seconds, first_part = is_first ? FIRST_PART : HOTTEST_PART;
  const double hottest_part = fmin(MOST_PART, first_part / state->candidate_count);
  const uint64_t start = state->quick.evaluation_count;
  walk_t walk = {.state = state};
  delta_search_copy_plan(state, &state->before, &state->best);
  delta_search_copy_plan(state, &state->now, &state->best);
  DELTA_RETURN_IF_ERROR(price_now(&walk, INFINITY, &walk.cost));
  delta_search_note_room(state);
  for (uint64_t made; (made = state->quick.evaluation_count - start) < most && !delta_search_is_over(state);) {
    const double part = hottest_part * pow(COLDEST_PART / first_part, (double)made / (double)most);
    DELTA_RETURN_IF_ERROR(step(&walk, part * seconds));
  }
  return DELTA_OK;
}
