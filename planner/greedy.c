// Greedy: looks at the fullest step, changes the gap that is cheapest for what it frees, and looks again.
//
// Far above the capacity it takes several at once, so that the number of looks grows with the logarithm of what is to be freed.
#include <math.h>
#include <string.h>

#include "planner/search_state.h"

#define NONE DELTA_PROBLEM_NONE
enum { ACTION_COUNT = DELTA_ACTION_COUNT, MOST_TRIES = 8, PATIENCE = 40, BATCH_PARTS = 16 };

typedef struct greedy_look {
  delta_search_state_t *state;
  uint32_t step;          // the fullest
  uint32_t fullest_count; // steps as full as it
  bool is_descent;        // for a lower fullest step, and every offer is tried; else for less above the capacity
  uint32_t place;         // it belongs to
  bool is_base;           // it runs for the first time; else it is part of a closure, or a copy
  double lane_price, noise;
} greedy_look_t;

// The fullest step; how many steps before each are too full; where each base step stands.
static delta_status_t look_at_steps(delta_search_state_t *state, greedy_look_t *look) {
  const delta_quick_step_t *steps = state->quick.steps.items;
  const uint32_t step_count = (uint32_t)state->quick.steps.count;
  const int64_t *live_bytes = state->quick.live_bytes.items;
  state->full_before.count = 0;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(state->allocator, &state->full_before, (size_t)step_count + 1));
  uint32_t full = 0;
  look->step = look->fullest_count = 0;
  for (uint32_t s = 0; s < step_count; ++s) {
    state->full_before.items[s] = full;
    full += live_bytes[s] > (int64_t)state->options->capacity_bytes;
    if (live_bytes[s] > live_bytes[look->step]) {
      look->step = s;
      look->fullest_count = 0;
    }
    look->fullest_count += live_bytes[s] == live_bytes[look->step];
    if (steps[s].is_base) state->positions[steps[s].place] = s;
  }
  look->place = steps[look->step].place;
  look->is_base = steps[look->step].is_base;
  state->full_before.items[step_count] = full;
  state->positions[state->order->step_count] = step_count;
  return DELTA_OK;
}

static uint32_t count_full_steps(const delta_search_state_t *state, uint32_t gap) {
  const uint32_t begin = state->positions[state->map.begins[gap]], end = state->positions[state->map.ends[gap]];
  const uint32_t count = begin + 1 < end ? state->full_before.items[end] - state->full_before.items[begin + 1] : 0;
  return count > 0 ? count : 1;
}

static delta_status_t offer_gap(greedy_look_t *look, uint32_t gap) {
  delta_search_state_t *state = look->state;
  const double bytes = (double)state->problem->tensors[state->map.tensors[gap]].size_bytes;
  const uint8_t now = state->now.actions[gap];
  for (uint8_t action = 0; action < (uint8_t)ACTION_COUNT; ++action) {
    if (action == now || !(state->map.allowed[gap] >> action & 1) || (state->refused[gap] >> action & 1)) continue;
    double price = delta_search_price(state, state->now.actions, gap, (delta_action_t)action, look->lane_price);
    if (look->noise > 0) price *= 1 + look->noise * ((double)delta_random_below(&state->random, 1000) / 1000 - 0.5);
    const double score = (price + 1e-9 * state->place_seconds[state->order->step_count]) / (bytes * count_full_steps(state, gap));
    if (!(score < INFINITY)) continue;
    const delta_search_offer_t offer = {.gap = gap, .action = action, .score = score};
    DELTA_RETURN_IF_ERROR(delta_array_push(state->allocator, &state->offers, &offer));
  }
  return DELTA_OK;
}

static bool is_cheaper(const delta_search_offer_t *a, const delta_search_offer_t *b) {
  if (a->score != b->score) return a->score < b->score;
  if (a->gap != b->gap) return a->gap < b->gap;
  return a->action < b->action;
}

static void swap_offers(delta_search_offer_t *a, delta_search_offer_t *b) {
  const delta_search_offer_t other = *a;
  *a = *b;
  *b = other;
}

// Few offers are ever looked at, so no more of them are sorted: those from state->sorted_offers on are a heap that lies from the end of the list backwards.
static void sink_offer(delta_search_offer_t *last, size_t count, size_t at) {
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && is_cheaper(last - child - 1, last - child)) ++child;
    if (!is_cheaper(last - child, last - at)) return;
    swap_offers(last - child, last - at);
  }
}

static void pile_offers(delta_search_state_t *state) {
  const size_t count = state->offers.count;
  state->sorted_offers = 0;
  for (size_t at = count / 2; at-- > 0;) sink_offer(&state->offers.items[count - 1], count, at);
}

// Of the offers sorted by price, number `index`; those before it have been asked for.
static const delta_search_offer_t *find_offer(delta_search_state_t *state, size_t index) {
  delta_search_offer_t *items = state->offers.items;
  const size_t count = state->offers.count;
  if (index == state->sorted_offers) {
    swap_offers(&items[index], &items[count - 1]); // the cheapest is the heap's first, which lies last
    ++state->sorted_offers;
    if (state->sorted_offers < count) sink_offer(&items[count - 1], count - state->sorted_offers, 0);
  }
  return &items[index];
}

// What lives at the fullest step and is not used by it. In a closure, also what is made for it, and what it is made for.
static delta_status_t offer_gaps(greedy_look_t *look) {
  delta_search_state_t *state = look->state;
  state->offers.count = 0;
  for (size_t b = 0; b < state->quick.buffers.count; ++b) {
    const delta_quick_buffer_t *buffer = &state->quick.buffers.items[b];
    if (buffer->first_step > look->step || buffer->last_step < look->step || buffer->tensor == NONE) continue;
    const uint32_t gap = delta_gap_map_find(&state->map, buffer->tensor, look->place);
    const bool is_used =
        look->is_base && (state->map.ends[gap] == look->place || (buffer->first_step == look->step && state->quick.steps.count > 1));
    if (!is_used) DELTA_RETURN_IF_ERROR(offer_gap(look, gap));
  }
  if (look->is_base || look->place >= state->order->step_count) return DELTA_OK;
  const delta_problem_step_t *step = &state->problem->steps[state->order->steps[look->place]];
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const uint32_t gap = delta_gap_map_find(&state->map, step->inputs[k], look->place);
    if (state->now.actions[gap] != DELTA_ACTION_KEEP) DELTA_RETURN_IF_ERROR(offer_gap(look, gap));
  }
  return DELTA_OK;
}

// ---- Taking offers

static uint32_t count_steps_at(const delta_quick_t *quick, uint64_t bytes) {
  uint32_t count = 0;
  for (size_t s = 0; s < quick->steps.count; ++s) count += (uint64_t)quick->live_bytes.items[s] == bytes;
  return count;
}

// Whether what was measured last is better than what the look saw.
static bool helps(const greedy_look_t *look, const delta_evaluation_t *before) {
  const delta_evaluation_t *now = &look->state->now.evaluation;
  if (!now->is_possible) return false;
  if (now->peak_bytes < before->peak_bytes) return true;
  if (!look->is_descent) return now->excess_bytes < before->excess_bytes;
  return now->peak_bytes == before->peak_bytes && count_steps_at(&look->state->quick, now->peak_bytes) < look->fullest_count;
}

static void remember_actions(delta_search_state_t *state) { memcpy(state->spare, state->now.actions, state->map.gap_count); }

static void take_back(delta_search_state_t *state, const delta_evaluation_t *before) {
  memcpy(state->now.actions, state->spare, state->map.gap_count);
  state->now.evaluation = *before;
}

static void refuse(delta_search_state_t *state, const delta_search_offer_t *offer) {
  uint32_t gap = offer->gap;
  do {
    state->refused[gap] |= (uint8_t)(1 << offer->action);
    gap = state->next_kin[gap];
  } while (state->is_together && gap != offer->gap);
}

// Takes the best offers of different gaps together, for a part of what is too much at the fullest step.
static delta_status_t take_many(const greedy_look_t *look, bool *out_taken) {
  delta_search_state_t *state = look->state;
  delta_search_plan_t *now = &state->now;
  const delta_evaluation_t before = now->evaluation;
  const uint64_t capacity_bytes = state->options->capacity_bytes;
  const uint64_t wanted_bytes = before.peak_bytes > capacity_bytes ? (before.peak_bytes - capacity_bytes) / BATCH_PARTS : 0;
  uint64_t bytes = 0;
  uint32_t count = 0;
  remember_actions(state);
  for (size_t i = 0; i < state->offers.count && bytes < wanted_bytes; ++i) {
    const delta_search_offer_t *offer = find_offer(state, i);
    if (offer->action == DELTA_ACTION_KEEP || now->actions[offer->gap] != state->map.defaults[offer->gap]) continue;
    delta_search_set(state, now->actions, offer->gap, offer->action);
    bytes += state->problem->tensors[state->map.tensors[offer->gap]].size_bytes;
    ++count;
  }
  if (count > 1) DELTA_RETURN_IF_ERROR(delta_search_measure(state, now));
  *out_taken = count > 1 && helps(look, &before);
  if (!*out_taken) take_back(state, &before);
  return DELTA_OK;
}

// Tries offers in order until one makes the schedule less full.
static delta_status_t take_one(const greedy_look_t *look, bool *out_taken) {
  delta_search_state_t *state = look->state;
  const delta_evaluation_t before = state->now.evaluation;
  const size_t most_tries = look->is_descent ? state->offers.count : MOST_TRIES;
  *out_taken = false;
  remember_actions(state);
  for (size_t i = 0; i < state->offers.count && i < most_tries; ++i) {
    const delta_search_offer_t *offer = find_offer(state, i);
    if (look->is_descent && delta_search_is_over(state)) break;
    delta_search_set(state, state->now.actions, offer->gap, offer->action);
    DELTA_RETURN_IF_ERROR(delta_search_measure(state, &state->now));
    *out_taken = helps(look, &before);
    if (*out_taken) return DELTA_OK;
    refuse(state, offer);
    take_back(state, &before);
  }
  return state->offers.count > 0 ? delta_search_measure(state, &state->now) : DELTA_OK;
}

static delta_status_t look_and_take(greedy_look_t *look, bool *out_taken) {
  delta_search_state_t *state = look->state;
  *out_taken = false;
  DELTA_RETURN_IF_ERROR(look_at_steps(state, look));
  DELTA_RETURN_IF_ERROR(offer_gaps(look));
  if (state->offers.count == 0) return DELTA_OK;
  pile_offers(state);
  DELTA_RETURN_IF_ERROR(take_many(look, out_taken));
  return *out_taken ? DELTA_OK : take_one(look, out_taken);
}

delta_status_t delta_search_greedy(delta_search_state_t *state, double lane_price, double noise) {
  greedy_look_t look = {.state = state, .lane_price = lane_price, .noise = noise};
  memset(state->refused, 0, state->map.gap_count);
  DELTA_RETURN_IF_ERROR(delta_search_measure(state, &state->now));
  uint64_t least_bytes = state->now.evaluation.excess_bytes;
  int since_less = 0;
  while (state->now.evaluation.is_possible && state->now.evaluation.excess_bytes > 0 && !delta_search_is_over(state)) {
    bool is_taken;
    DELTA_RETURN_IF_ERROR(look_and_take(&look, &is_taken));
    if (state->offers.count == 0) return DELTA_OK;
    // A lower peak may cost more excess elsewhere, but not for ever.
    since_less = state->now.evaluation.excess_bytes < least_bytes ? 0 : since_less + 1;
    if (since_less == 0) least_bytes = state->now.evaluation.excess_bytes;
    if (since_less == PATIENCE) return DELTA_OK;
  }
  return DELTA_OK;
}

delta_status_t delta_search_descend(delta_search_state_t *state, double lane_price, delta_search_note_t note, void *self) {
  greedy_look_t look = {.state = state, .lane_price = lane_price, .is_descent = true};
  bool has_taken = false;
  memset(state->refused, 0, state->map.gap_count);
  DELTA_RETURN_IF_ERROR(delta_search_measure(state, &state->now));
  while (state->now.evaluation.is_possible && state->quick.steps.count > 0 && !delta_search_is_over(state)) {
    bool is_taken;
    DELTA_RETURN_IF_ERROR(look_and_take(&look, &is_taken));
    if (is_taken) {
      DELTA_RETURN_IF_ERROR(note(self, &state->now));
    } else if (has_taken) {
      // What did not help before may help after what was done since.
      memset(state->refused, 0, state->map.gap_count);
    } else {
      return DELTA_OK;
    }
    has_taken = is_taken;
  }
  return DELTA_OK;
}
