// Trades: plans beside a plan that are as full as it is.
//
// A plan at its budget has no room: nearly every change of one gap leads to a plan that does not fit, or to one that is slower for nothing. So a trade takes a gap back and releases
// others where that makes too little room, or releases one and takes back what then fits. Room is counted by place, without what closures and copies take meanwhile; evaluation
// says the rest.
#include <math.h>
#include <string.h>

#include "planner/search_state.h"

#define NONE DELTA_PROBLEM_NONE
enum {
  MOST_RELEASED = 4, // for one gap that stays
  MOST_KEPT = 2,     // for one gap that goes
  COMPARED = 4,      // gaps of which the best is taken
  DRAWN_IN = 3,      // one in so many actions is drawn, the others are the cheapest
  RELEASED_DRAWS = 64,
  SPREAD = 7919 // a prime: candidates are walked through in steps of it, so that neighbours are not preferred
};
// Prices of lanes, from this part of the good price to this many times it.
static const double MOST_TIMES = 16;

void delta_search_note_room(delta_search_state_t *state) {
  const delta_quick_t *quick = &state->quick;
  const int64_t capacity_bytes = (int64_t)state->options->capacity_bytes;
  for (uint32_t p = 0; p <= state->order->step_count; ++p) state->room_bytes[p] = capacity_bytes;
  for (size_t s = 0; s < quick->steps.count; ++s) {
    int64_t *const least_bytes = &state->room_bytes[quick->steps.items[s].place];
    const int64_t room_bytes = capacity_bytes - quick->live_bytes.items[s];
    if (room_bytes < *least_bytes) *least_bytes = room_bytes;
  }
}

static int64_t size_of(const delta_search_state_t *state, uint32_t gap) {
  return (int64_t)state->problem->tensors[state->map.tensors[gap]].size_bytes;
}

static bool is_released(const delta_search_state_t *state, uint32_t gap) {
  return state->now.actions[gap] != DELTA_ACTION_KEEP && state->now.actions[gap] != state->map.defaults[gap];
}

// Where there is least room within a gap, and how much; INT64_MAX: no step lies in it.
static int64_t find_least_room(const delta_search_state_t *state, uint32_t gap, uint32_t *out_place) {
  int64_t least_bytes = INT64_MAX;
  *out_place = state->map.begins[gap];
  for (uint32_t p = state->map.begins[gap] + 1; p < state->map.ends[gap]; ++p) {
    if (state->left_bytes[p] >= least_bytes) continue;
    least_bytes = state->left_bytes[p];
    *out_place = p;
  }
  return least_bytes;
}

static bool has_room(const delta_search_state_t *state, uint32_t gap) {
  const int64_t size_bytes = size_of(state, gap);
  for (uint32_t p = state->map.begins[gap] + 1; p < state->map.ends[gap]; ++p) {
    if (state->left_bytes[p] < size_bytes) return false;
  }
  return true;
}

// Gives a gap an action, with those that are decided together with it, and counts the room that is left.
static void set_action(delta_search_state_t *state, uint32_t gap, uint8_t action) {
  const delta_gap_map_t *map = &state->map;
  uint32_t next = gap;
  do {
    const bool stayed = state->now.actions[next] == DELTA_ACTION_KEEP, stays = action == DELTA_ACTION_KEEP;
    const bool changes = stayed != stays && (map->allowed[next] >> action & 1);
    const int64_t freed_bytes = !changes ? 0 : stays ? -size_of(state, next) : size_of(state, next);
    for (uint32_t p = map->begins[next] + 1; freed_bytes != 0 && p < map->ends[next]; ++p) state->left_bytes[p] += freed_bytes;
    next = state->next_kin[next];
  } while (state->is_together && next != gap);
  delta_search_set(state, state->now.actions, gap, action);
}

// What releasing a gap costs at least; *out_action is how.
static double find_cheapest(delta_search_state_t *state, uint32_t gap, double lane_price, uint8_t *out_action) {
  double least_seconds = INFINITY;
  for (int action = 0; action < DELTA_ACTION_COUNT; ++action) {
    if (action == DELTA_ACTION_KEEP) continue;
    const double seconds = delta_search_price(state, state->now.actions, gap, (delta_action_t)action, lane_price);
    if (seconds >= least_seconds) continue;
    least_seconds = seconds;
    *out_action = (uint8_t)action;
  }
  return least_seconds;
}

static uint8_t draw_release(delta_search_state_t *state, uint32_t gap) {
  uint8_t action;
  do action = (uint8_t)delta_random_below(&state->random, DELTA_ACTION_COUNT);
  while (action == DELTA_ACTION_KEEP || !(state->map.allowed[gap] >> action & 1));
  const double lane_price = state->good_price * pow(MOST_TIMES, 2 * delta_search_draw_part(state) - 1) * delta_search_lane_seconds(state);
  const bool is_drawn = delta_random_below(&state->random, DRAWN_IN) == 0 &&
                        delta_search_price(state, state->now.actions, gap, (delta_action_t)action, lane_price) < INFINITY;
  if (!is_drawn) find_cheapest(state, gap, lane_price, &action);
  return action;
}

static bool lies_over(const delta_search_state_t *state, uint32_t gap, uint32_t place) {
  return place == NONE || (state->map.begins[gap] < place && state->map.ends[gap] > place);
}

// A candidate that stays over a place, NONE: wherever it is, and is cheap to release; NONE: there is none.
static uint32_t find_to_release(delta_search_state_t *state, uint32_t place, uint32_t other_than) {
  const uint32_t count = state->candidate_count, start = delta_random_below(&state->random, count);
  const double lane_price = state->good_price * delta_search_lane_seconds(state);
  uint32_t best = NONE;
  double least_score = INFINITY;
  for (uint32_t i = 0, compared = 0; i < count && compared < COMPARED; ++i) {
    const uint32_t gap = state->candidates[((uint64_t)i * SPREAD + start) % count];
    uint8_t action;
    if (gap == other_than || state->now.actions[gap] != DELTA_ACTION_KEEP) continue;
    if (!lies_over(state, gap, place)) continue;
    const double score = find_cheapest(state, gap, lane_price, &action) / (double)size_of(state, gap);
    ++compared;
    if (score >= least_score) continue;
    least_score = score;
    best = gap;
  }
  return best;
}

// A released candidate for which a gap makes room, the dearest of a few; NONE: there is none.
static uint32_t find_to_keep(delta_search_state_t *state, uint32_t gap) {
  const delta_gap_map_t *map = &state->map;
  const uint32_t count = state->candidate_count, start = delta_random_below(&state->random, count);
  const double lane_price = state->good_price * delta_search_lane_seconds(state);
  uint32_t best = NONE;
  double most_seconds = 0;
  for (uint32_t i = 0, compared = 0; i < count && compared < COMPARED; ++i) {
    const uint32_t other = state->candidates[((uint64_t)i * SPREAD + start) % count];
    if (other == gap || !is_released(state, other)) continue;
    if (map->ends[other] <= map->begins[gap] || map->begins[other] >= map->ends[gap]) continue;
    if (!has_room(state, other)) continue;
    const double seconds = delta_search_price(state, state->now.actions, other, (delta_action_t)state->now.actions[other], lane_price);
    ++compared;
    if (seconds <= most_seconds) continue;
    most_seconds = seconds;
    best = other;
  }
  return best;
}

static void begin_trade(delta_search_state_t *state) {
  memcpy(state->left_bytes, state->room_bytes, ((size_t)state->order->step_count + 1) * sizeof *state->left_bytes);
}

bool delta_search_trade_out(delta_search_state_t *state) {
  const uint32_t gap = find_to_release(state, NONE, NONE);
  if (gap == NONE) return false;
  begin_trade(state);
  set_action(state, gap, draw_release(state, gap));
  for (int kept = 0; kept < MOST_KEPT; ++kept) {
    const uint32_t other = find_to_keep(state, gap);
    if (other == NONE) return kept > 0;
    set_action(state, other, DELTA_ACTION_KEEP);
  }
  return true;
}

// NONE: a few draws did not find one.
static uint32_t draw_released(delta_search_state_t *state) {
  for (int draw = 0; draw < RELEASED_DRAWS; ++draw) {
    const uint32_t gap = delta_search_draw_candidate(state);
    if (is_released(state, gap)) return gap;
  }
  return NONE;
}

bool delta_search_trade_in(delta_search_state_t *state) {
  uint32_t place;
  const uint32_t gap = draw_released(state);
  if (gap == NONE) return false;
  begin_trade(state);
  set_action(state, gap, DELTA_ACTION_KEEP);
  for (int released = 0; find_least_room(state, gap, &place) < 0; ++released) {
    const uint32_t other = released < MOST_RELEASED ? find_to_release(state, place, gap) : NONE;
    if (other == NONE) return false;
    set_action(state, other, draw_release(state, other));
  }
  return true;
}
