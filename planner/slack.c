// Slack: what a plan leaves free. A small change that takes more bytes than that somewhere, or makes more again than there is time for, is refused without being carried out,
// which takes a small part of the time. Closures that share their work, and what they hold, are not followed, so a few changes that would do are refused too.
#include <string.h>

#include "planner/search_state.h"

void delta_search_note_slack(delta_search_state_t *state) {
  const delta_quick_t *quick = &state->quick;
  const uint32_t place_count = state->order->step_count;
  state->noted_run_seconds = quick->run_seconds;
  for (uint32_t p = 0; p <= place_count; ++p) state->slack_bytes[p] = (int64_t)state->options->capacity_bytes;
  for (size_t s = 0; s < quick->steps.count; ++s) {
    const int64_t slack_bytes = (int64_t)state->options->capacity_bytes - quick->live_bytes.items[s];
    int64_t *place = &state->slack_bytes[quick->steps.items[s].place];
    if (slack_bytes < *place) *place = slack_bytes;
  }
}

// The places of a gap between its uses; none in a tail, where only closures come.
static void add_gap(delta_search_state_t *state, uint32_t gap, int64_t bytes, uint32_t *inout_begin, uint32_t *inout_end) {
  const uint32_t begin = state->map.begins[gap] + 1, end = state->map.ends[gap];
  if (begin >= end || end == state->order->step_count) return;
  state->slack_changes[begin] += bytes;
  state->slack_changes[end] -= bytes;
  if (begin < *inout_begin) *inout_begin = begin;
  if (end > *inout_end) *inout_end = end;
}

// What an action adds at least: a tensor is made again once at the end of the gap, or is copied there and back in its time. In a tail nobody asks for it.
static double least_seconds(delta_search_state_t *state, uint32_t gap, const uint8_t *actions) {
  const delta_action_t action = (delta_action_t)actions[gap];
  if (state->map.ends[gap] == state->order->step_count) return 0;
  return delta_search_price(state, actions, gap, action == DELTA_ACTION_REBUILD_DROP ? DELTA_ACTION_REBUILD_HOLD : action, 0);
}

static double added_seconds(delta_search_state_t *state, uint32_t gap, const uint8_t *from, const uint8_t *to) {
  const double before = least_seconds(state, gap, from), after = least_seconds(state, gap, to);
  return before == after ? 0 : after - before;
}

// Whether the noted places have room for what is kept more, which is then forgotten.
static bool has_room(delta_search_state_t *state, uint32_t begin, uint32_t end) {
  int64_t more_bytes = 0;
  bool fits = true;
  for (uint32_t p = begin; p <= end && begin < end; ++p) {
    more_bytes += state->slack_changes[p];
    state->slack_changes[p] = 0;
    // Where nothing more is taken, it fits as well as before.
    fits &= more_bytes <= 0 || more_bytes <= state->slack_bytes[p];
  }
  return fits;
}

// The first gap from `gap` on that has another action; gap_count: none. Two plans differ in a few of thousands, so most are passed eight at a time.
static uint32_t find_difference(const uint8_t *from, const uint8_t *to, uint32_t gap, uint32_t gap_count) {
  uint64_t a, b;
  for (; gap + sizeof a <= gap_count; gap += sizeof a) {
    memcpy(&a, from + gap, sizeof a);
    memcpy(&b, to + gap, sizeof b);
    if (a != b) break;
  }
  while (gap < gap_count && from[gap] == to[gap]) ++gap;
  return gap;
}

bool delta_search_may_do(delta_search_state_t *state, const uint8_t *from, const uint8_t *to, double most_seconds) {
  uint32_t begin = UINT32_MAX, end = 0;
  double seconds = state->noted_run_seconds;
  const uint32_t gap_count = state->map.gap_count;
  for (uint32_t g = 0; (g = find_difference(from, to, g, gap_count)) < gap_count; ++g) {
    const bool was_kept = from[g] == DELTA_ACTION_KEEP, is_kept = to[g] == DELTA_ACTION_KEEP;
    const int64_t bytes = (int64_t)state->problem->tensors[state->map.tensors[g]].size_bytes;
    if (was_kept != is_kept) add_gap(state, g, is_kept ? bytes : -bytes, &begin, &end);
    seconds += added_seconds(state, g, from, to);
  }
  return has_room(state, begin, end) && seconds <= most_seconds;
}
