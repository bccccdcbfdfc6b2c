// Moves: plans beside a plan.
//
// A plan at its budget leaves little to change alone: what one gap frees another takes, and a lane that is full carries one tensor in place of another. So most moves change two or
// three gaps at once, some of them near each other.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search_state.h"

enum {
  UNDO_PASSES = 3,
  MOST_NEIGHBOURS = 12,
  NEIGHBOURHOODS = 3000,
  TAIL_DRAWS = 8,
  EXCESS_TRIES = 4000,
  NEAR = 8,
  MOST_GRAFT_DOUBLINGS = 7,
  SMALL_MOVES = 64,
  SMALL_MOVE_DRAWS = 8
};

// A neighbourhood is gone on from when it is worse by less than this part of the time, times a draw.
static const double TOLERATED_PART = 4e-4;
// One that is worse by no more than this part may become better when it is polished.
static const double PROMISING_PART = 1e-2;
// A tensor below this part of the excess at the fullest step is no candidate.
static const double LEAST_PART = 2e-3;

// ---- Candidates

// What gaps of equal blocks have in common.
typedef struct gap_likeness {
  double producer_seconds, next_seconds; // of the step that makes the tensor, and of the one that uses it next
  size_t size_bytes;
  uint32_t use, gap;
  uint8_t allowed;
} gap_likeness_t;

static gap_likeness_t likeness_of(const delta_search_state_t *state, uint32_t gap) {
  const delta_gap_map_t *map = &state->map;
  const uint32_t tensor = map->tensors[gap], producer = map->producers[tensor], end = map->ends[gap];
  const delta_problem_step_t *steps = state->problem->steps;
  return (gap_likeness_t){.producer_seconds = producer == DELTA_PROBLEM_NONE ? 0 : steps[producer].seconds,
                          .next_seconds = end < state->order->step_count ? steps[state->order->steps[end]].seconds : 0,
                          .size_bytes = state->problem->tensors[tensor].size_bytes,
                          .use = map->uses[gap],
                          .gap = gap,
                          .allowed = map->allowed[gap]};
}

static int compare_likeness(const gap_likeness_t *a, const gap_likeness_t *b) {
  if (a->size_bytes != b->size_bytes) return a->size_bytes < b->size_bytes ? -1 : 1;
  if (a->use != b->use) return a->use < b->use ? -1 : 1;
  if (a->producer_seconds != b->producer_seconds) return a->producer_seconds < b->producer_seconds ? -1 : 1;
  if (a->next_seconds != b->next_seconds) return a->next_seconds < b->next_seconds ? -1 : 1;
  return (int)a->allowed - (int)b->allowed;
}

static int compare_gaps(const void *left, const void *right) {
  const gap_likeness_t *a = left, *b = right;
  const int order = compare_likeness(a, b);
  return order != 0 ? order : a->gap < b->gap ? -1 : a->gap > b->gap;
}

// Candidates of equal blocks form rings.
static delta_status_t link_alike(delta_search_state_t *state) {
  const uint32_t count = state->candidate_count;
  gap_likeness_t *sorted = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(state->allocator, count, &sorted));
  for (uint32_t g = 0; g < state->map.gap_count; ++g) state->next_alike[g] = g;
  for (uint32_t i = 0; i < count; ++i) sorted[i] = likeness_of(state, state->candidates[i]);
  if (count > 0) qsort(sorted, count, sizeof *sorted, compare_gaps);
  for (uint32_t i = 0, first = 0; i < count; ++i) {
    if (compare_likeness(&sorted[first], &sorted[i]) != 0) first = i;
    state->next_alike[sorted[i].gap] = sorted[first].gap;
    if (i > first) state->next_alike[sorted[i - 1].gap] = sorted[i].gap;
  }
  delta_release(state->allocator, sorted);
  return DELTA_OK;
}

delta_status_t delta_search_list_candidates(delta_search_state_t *state) {
  const delta_quick_t *quick = &state->quick;
  const delta_gap_map_t *map = &state->map;
  const uint64_t capacity_bytes = state->options->capacity_bytes, peak_bytes = state->best.evaluation.peak_bytes;
  const double least_bytes = peak_bytes > capacity_bytes ? LEAST_PART * (double)(peak_bytes - capacity_bytes) : 0;
  uint32_t *full_before = NULL; // by place
  const uint32_t place_count = state->order->step_count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(state->allocator, (size_t)place_count + 2, &full_before));
  for (size_t s = 0; s < quick->steps.count; ++s) {
    if ((uint64_t)quick->live_bytes.items[s] > capacity_bytes) full_before[quick->steps.items[s].place + 1] = 1;
  }
  for (uint32_t p = 0; p <= place_count; ++p) full_before[p + 1] += full_before[p];
  state->candidate_count = 0;
  for (uint32_t g = 0; g < map->gap_count; ++g) {
    const bool is_free = map->allowed[g] != 1 << DELTA_ACTION_KEEP;
    const bool is_tail = map->ends[g] == place_count;
    const bool is_full = full_before[map->ends[g]] > full_before[map->begins[g] + 1];
    const bool is_large = (double)state->problem->tensors[map->tensors[g]].size_bytes >= least_bytes;
    if (is_free && is_large && (is_full || is_tail) && delta_search_is_own(state, g)) state->candidates[state->candidate_count++] = g;
  }
  delta_release(state->allocator, full_before);
  return link_alike(state);
}

// ---- Small changes

static uint8_t draw_action(delta_search_state_t *state, uint32_t gap) {
  uint8_t action;
  do action = (uint8_t)delta_random_below(&state->random, DELTA_ACTION_COUNT);
  while (!(state->map.allowed[gap] >> action & 1));
  return action;
}

// The index of a candidate. Most tails, where only closures come, change nothing: few of them are drawn.
static uint32_t draw_index(delta_search_state_t *state) {
  for (;;) {
    const uint32_t index = delta_random_below(&state->random, state->candidate_count);
    const bool is_tail = state->map.ends[state->candidates[index]] == state->order->step_count;
    if (!is_tail || delta_random_below(&state->random, TAIL_DRAWS) == 0) return index;
  }
}

uint32_t delta_search_draw_candidate(delta_search_state_t *state) { return state->candidates[draw_index(state)]; }

// Gives a gap any action.
static void change_gap(delta_search_state_t *state, uint32_t gap) {
  delta_search_set(state, state->now.actions, gap, draw_action(state, gap));
}

// One that stands near another in the list.
static uint32_t draw_near(delta_search_state_t *state, uint32_t index) {
  const uint32_t low = index > NEAR ? index - NEAR : 0;
  const uint32_t high = index + NEAR < state->candidate_count ? index + NEAR : state->candidate_count - 1;
  return state->candidates[low + delta_random_below(&state->random, high - low + 1)];
}

// The same gap of an equal block of the program, if there is one.
static uint32_t draw_alike(delta_search_state_t *state, uint32_t gap) {
  for (uint32_t steps = 1 + delta_random_below(&state->random, NEAR); steps > 0; --steps) gap = state->next_alike[gap];
  return gap;
}

// Two gaps exchange their actions, where they may have them.
static void exchange(delta_search_state_t *state, uint8_t *actions, uint32_t a, uint32_t b) {
  const uint8_t action = actions[a];
  if ((state->map.allowed[a] >> actions[b] & 1) && (state->map.allowed[b] >> action & 1)) {
    delta_search_set(state, actions, a, actions[b]);
    delta_search_set(state, actions, b, action);
  }
}

bool delta_search_graft(delta_search_state_t *state) {
  uint8_t *actions = state->now.actions;
  const uint32_t gap = delta_search_draw_candidate(state);
  const uint32_t other = draw_alike(state, gap), count = state->map.gap_count;
  const uint32_t reach = 1u << delta_random_below(&state->random, MOST_GRAFT_DOUBLINGS);
  const bool exchanges = delta_random_below(&state->random, 2) == 0;
  if (other == gap) return false;
  const uint32_t low = gap < other ? gap : other, high = gap < other ? other : gap;
  const uint32_t before = low < reach ? low : reach, after = count - 1 - high < reach ? count - 1 - high : reach;
  for (uint32_t i = 0; i <= before + after; ++i) {
    const uint32_t to = other - before + i, from = gap - before + i;
    const gap_likeness_t a = likeness_of(state, from), b = likeness_of(state, to);
    if (actions[from] == actions[to] || compare_likeness(&a, &b) != 0) continue;
    if (exchanges) {
      exchange(state, actions, from, to);
    } else {
      delta_search_set(state, actions, to, actions[from]);
    }
  }
  return true;
}

bool delta_search_move_a_little(delta_search_state_t *state) {
  uint8_t *actions = state->now.actions;
  const uint32_t index = draw_index(state), gap = state->candidates[index];
  switch (delta_random_below(&state->random, SMALL_MOVE_DRAWS)) {
    case 0:
      change_gap(state, gap);
      break;
    case 1:
      exchange(state, actions, gap, delta_search_draw_candidate(state));
      break;
    case 2:
      exchange(state, actions, gap, draw_near(state, index));
      break;
    case 3: {
      const uint32_t other = draw_near(state, index);
      change_gap(state, gap);
      change_gap(state, other);
      break;
    }
    case 4: {
      const uint32_t other = delta_search_draw_candidate(state);
      change_gap(state, gap);
      change_gap(state, other);
      break;
    }
    case 5:
      exchange(state, actions, gap, draw_alike(state, gap));
      break;
    case 6: {
      // What is decided in one block is copied to another.
      const uint8_t action = draw_action(state, gap);
      delta_search_set(state, actions, gap, action);
      delta_search_set(state, actions, draw_alike(state, gap), action);
      break;
    }
    default:
      for (int i = 0; i < 3; ++i) {
        const uint32_t other = draw_near(state, index);
        change_gap(state, other);
      }
      break;
  }
  return true;
}

// ---- One or two gaps at a time

typedef struct ranked_gap {
  double seconds_per_byte; // to rebuild
  uint32_t gap;
} ranked_gap_t;

static int compare_ranks(const void *left, const void *right) {
  const ranked_gap_t *a = left, *b = right;
  if (a->seconds_per_byte != b->seconds_per_byte) return a->seconds_per_byte < b->seconds_per_byte ? -1 : 1;
  return a->gap < b->gap ? -1 : a->gap > b->gap;
}

// Gaps of the best plan that are swapped, the cheapest to rebuild first; and those that are rebuilt, the dearest last.
static uint32_t rank_gaps(delta_search_state_t *state, bool swapped, ranked_gap_t *ranked) {
  const uint8_t *actions = state->best.actions;
  const uint32_t active_count = delta_search_list_active(state, actions);
  uint32_t count = 0;
  for (uint32_t i = 0; i < active_count; ++i) {
    const uint32_t gap = state->active[i], tensor = state->map.tensors[gap];
    const uint8_t other = swapped ? DELTA_ACTION_REBUILD_HOLD : DELTA_ACTION_SWAP;
    if (actions[gap] == DELTA_ACTION_KEEP || delta_action_swaps((delta_action_t)actions[gap]) != swapped) continue;
    if (!(state->map.allowed[gap] >> other & 1)) continue;
    const double seconds = delta_search_closure_seconds(state, actions, tensor, state->map.ends[gap]);
    ranked[count++] = (ranked_gap_t){seconds / (double)state->problem->tensors[tensor].size_bytes, gap};
  }
  if (count > 0) qsort(ranked, count, sizeof *ranked, compare_ranks);
  return count;
}

// Other actions for one gap of the best plan; what is better stays.
static delta_status_t improve_gap(delta_search_state_t *state, uint32_t gap, bool *out_better) {
  for (uint8_t action = 0; action < DELTA_ACTION_COUNT && !delta_search_is_over(state); ++action) {
    if (action == state->best.actions[gap] || !(state->map.allowed[gap] >> action & 1)) continue;
    delta_search_copy_plan(state, &state->now, &state->best);
    delta_search_set(state, state->now.actions, gap, action);
    DELTA_RETURN_IF_ERROR(delta_search_evaluate(state, &state->now, state->best.evaluation.seconds));
    *out_better |= delta_search_keep_best(state);
  }
  return DELTA_OK;
}

delta_status_t delta_search_undo(delta_search_state_t *state) {
  ranked_gap_t *rebuilt = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(state->allocator, state->map.gap_count, &rebuilt));
  delta_status_t status = DELTA_OK;
  bool is_better = true;
  for (int pass = 0; pass < UNDO_PASSES && is_better; ++pass) {
    is_better = false;
    const uint32_t rebuilt_count = rank_gaps(state, false, rebuilt);
    for (uint32_t r = rebuilt_count; r-- > 0 && !delta_search_is_over(state);) {
      DELTA_GOTO_IF_ERROR(status, improve_gap(state, rebuilt[r].gap, &is_better), cleanup);
    }
    const uint32_t count = delta_search_list_active(state, state->best.actions);
    for (uint32_t i = 0; i < count && !delta_search_is_over(state); ++i) {
      if (!delta_action_swaps((delta_action_t)state->best.actions[state->active[i]])) continue;
      DELTA_GOTO_IF_ERROR(status, improve_gap(state, state->active[i], &is_better), cleanup);
    }
  }
cleanup:
  delta_release(state->allocator, rebuilt);
  return status;
}

// The swapped gap takes the other's way, and the other one that of the swapped; each rebuild is tried in both forms.
static delta_status_t try_exchange(delta_search_state_t *state, uint32_t swapped, uint32_t rebuilt, bool *inout_better) {
  static const uint8_t ways[] = {DELTA_ACTION_REBUILD_HOLD, DELTA_ACTION_REBUILD_DROP, DELTA_ACTION_KEEP};
  for (size_t i = 0; i < sizeof ways; ++i) {
    if (!(state->map.allowed[swapped] >> ways[i] & 1)) continue;
    delta_search_copy_plan(state, &state->now, &state->best);
    delta_search_set(state, state->now.actions, swapped, ways[i]);
    delta_search_set(state, state->now.actions, rebuilt, DELTA_ACTION_SWAP);
    DELTA_RETURN_IF_ERROR(delta_search_evaluate(state, &state->now, state->best.evaluation.seconds));
    if (!delta_search_keep_best(state)) continue;
    *inout_better = true;
    return DELTA_OK;
  }
  return DELTA_OK;
}

static delta_status_t exchange_ranked(delta_search_state_t *state, const ranked_gap_t *swapped, uint32_t swapped_count,
                                      const ranked_gap_t *rebuilt, uint32_t rebuilt_count, bool *out_better) {
  for (uint32_t r = rebuilt_count; r-- > 0;) {
    for (uint32_t i = 0; i < swapped_count && swapped[i].seconds_per_byte < rebuilt[r].seconds_per_byte; ++i) {
      if (delta_search_is_phase_over(state)) return DELTA_OK;
      bool is_better = false;
      if (state->best.actions[swapped[i].gap] == DELTA_ACTION_KEEP) continue;
      DELTA_RETURN_IF_ERROR(try_exchange(state, swapped[i].gap, rebuilt[r].gap, &is_better));
      *out_better |= is_better;
      if (is_better) break;
    }
  }
  return DELTA_OK;
}

delta_status_t delta_search_exchange(delta_search_state_t *state) {
  ranked_gap_t *swapped = NULL, *rebuilt = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(state->allocator, state->map.gap_count, &swapped), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(state->allocator, state->map.gap_count, &rebuilt), cleanup);
  for (bool is_better = true; is_better && !delta_search_is_phase_over(state);) {
    const uint32_t swapped_count = rank_gaps(state, true, swapped), rebuilt_count = rank_gaps(state, false, rebuilt);
    is_better = false;
    DELTA_GOTO_IF_ERROR(status, exchange_ranked(state, swapped, swapped_count, rebuilt, rebuilt_count, &is_better), cleanup);
  }
cleanup:
  delta_release(state->allocator, swapped);
  delta_release(state->allocator, rebuilt);
  return status;
}

// ---- Excess

delta_status_t delta_search_anneal_excess(delta_search_state_t *state) {
  delta_search_plan_t *from = &state->before;
  delta_search_copy_plan(state, from, &state->best);
  double temperature = (double)from->evaluation.excess_bytes / 4 + 1;
  for (int i = 0; i < EXCESS_TRIES && state->best.evaluation.excess_bytes > 0 && !delta_search_is_over(state); ++i) {
    temperature *= 1 - 4.0 / EXCESS_TRIES;
    delta_search_copy_plan(state, &state->now, from);
    for (uint32_t k = 0; k <= delta_random_below(&state->random, 3); ++k) {
      const bool is_candidate = state->candidate_count > 0 && delta_random_below(&state->random, 3) > 0;
      const uint32_t gap = is_candidate ? delta_search_draw_candidate(state) : delta_random_below(&state->random, state->map.gap_count);
      change_gap(state, gap);
    }
    DELTA_RETURN_IF_ERROR(delta_search_offer_now(state));
    if (!state->now.evaluation.is_possible) continue;
    const double worse = (double)state->now.evaluation.excess_bytes - (double)from->evaluation.excess_bytes;
    if (worse <= 0 || delta_search_draw_part(state) < exp(-worse / temperature)) delta_search_copy_plan(state, from, &state->now);
  }
  return DELTA_OK;
}

// ---- Neighbourhoods

// Sets some neighbouring decisions back, or one gap to anything.
static void disturb(delta_search_state_t *state) {
  const uint32_t count = delta_search_list_active(state, state->now.actions);
  if (count == 0 || delta_random_below(&state->random, 3) == 0) {
    const uint32_t gap =
        state->candidate_count > 0 ? delta_search_draw_candidate(state) : delta_random_below(&state->random, state->map.gap_count);
    change_gap(state, gap);
    return;
  }
  const uint32_t most = count < MOST_NEIGHBOURS ? count : MOST_NEIGHBOURS;
  const uint32_t changed = 1 + delta_random_below(&state->random, most);
  const uint32_t first = delta_random_below(&state->random, count - changed + 1);
  for (uint32_t i = first; i < first + changed; ++i)
    delta_search_set(state, state->now.actions, state->active[i], state->map.defaults[state->active[i]]);
}

// Other actions for what the greedy has just decided in state->now: it takes more than is needed, and in an order of its own.
static delta_status_t polish(delta_search_state_t *state, const delta_search_plan_t *from) {
  static const uint8_t ways[] = {DELTA_ACTION_KEEP, DELTA_ACTION_REBUILD_HOLD, DELTA_ACTION_SWAP};
  delta_search_plan_t *now = &state->now;
  for (uint32_t g = 0; g < state->map.gap_count; ++g) {
    if (now->actions[g] == from->actions[g] || now->actions[g] == state->map.defaults[g] || !delta_search_is_own(state, g)) continue;
    for (size_t i = 0; i < sizeof ways && !delta_search_is_phase_over(state); ++i) {
      const uint8_t action_before = now->actions[g];
      const delta_evaluation_t before = now->evaluation;
      if (ways[i] == action_before || !(state->map.allowed[g] >> ways[i] & 1)) continue;
      delta_search_set(state, now->actions, g, ways[i]);
      DELTA_RETURN_IF_ERROR(delta_search_evaluate(state, now, before.seconds));
      if (now->evaluation.seconds < before.seconds) continue;
      delta_search_set(state, now->actions, g, action_before);
      now->evaluation = before;
    }
  }
  delta_search_keep_best(state);
  return DELTA_OK;
}

delta_status_t delta_search_neighbourhoods(delta_search_state_t *state) {
  delta_search_plan_t *from = &state->before;
  delta_search_copy_plan(state, from, &state->best);
  for (uint32_t i = 0; i < NEIGHBOURHOODS && !delta_search_is_phase_over(state); ++i) {
    delta_search_copy_plan(state, &state->now, from);
    disturb(state);
    // From a sixteenth of the good price to sixteen times it, most draws near it.
    const double draw = 2 * delta_search_draw_part(state) - 1;
    const double price = state->good_price * pow(16, draw * draw * draw);
    DELTA_RETURN_IF_ERROR(delta_search_greedy(state, price * delta_search_lane_seconds(state), delta_search_draw_part(state)));
    DELTA_RETURN_IF_ERROR(delta_search_offer_now(state));
    if (state->now.evaluation.seconds <= from->evaluation.seconds * (1 + PROMISING_PART)) DELTA_RETURN_IF_ERROR(polish(state, from));
    const double most_seconds = from->evaluation.seconds * (1 + TOLERATED_PART * delta_search_draw_part(state));
    if (state->now.evaluation.seconds <= most_seconds) delta_search_copy_plan(state, from, &state->now);
    if (i % SMALL_MOVES == SMALL_MOVES - 1) delta_search_copy_plan(state, from, &state->best);
  }
  return DELTA_OK;
}
