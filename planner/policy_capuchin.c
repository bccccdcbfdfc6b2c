// Peng et al., "Capuchin: tensor-based GPU memory management for deep learning" (ASPLOS 2020): one measured step gives the times of all accesses. Of the tensors that wait at the
// peak, those whose copies hide in the free time between two accesses are swapped, the longest free time first; then the cheapest of swaps that show and of
// recomputations, by bytes saved per second, until enough is saved.
#include <math.h>

#include "planner/rival_lanes.h"

typedef struct capuchin {
  delta_rival_t *rival;
  delta_rival_lanes_t lanes;
  uint32_t peak;        // place
  int64_t needed_bytes; // still to be saved there
} capuchin_t;

static void find_peak(capuchin_t *rule) {
  const delta_rival_t *rival = rule->rival;
  rule->peak = 0;
  for (uint32_t p = 1; p <= rival->order->step_count; ++p) {
    if (rival->place_bytes[p] > rival->place_bytes[rule->peak]) rule->peak = p;
  }
  rule->needed_bytes = (int64_t)(rival->place_bytes[rule->peak] - rival->capacity_bytes);
}

// Kept over the peak between two accesses.
static bool is_candidate(const capuchin_t *rule, uint32_t gap) {
  const delta_rival_t *rival = rule->rival;
  return rival->map.begins[gap] < rule->peak && rival->map.ends[gap] > rule->peak && !delta_rival_is_tail(rival, gap) &&
         rival->actions[gap] == DELTA_ACTION_KEEP;
}

// From the end of the copy below, that begins with the access before, to the beginning of the copy back, that ends with the access after. Negative: how long it shows.
static double free_seconds(const delta_rival_t *rival, uint32_t gap) {
  const uint32_t tensor = rival->map.tensors[gap];
  return rival->place_seconds[rival->map.ends[gap]] - delta_rival_prefetch_seconds(rival, tensor) -
         rival->place_seconds[rival->map.begins[gap] + 1] - delta_rival_offload_seconds(rival, tensor);
}

// How long a swap shows, beside those chosen so far: one copy at a time in each direction.
static double overhead_seconds(const capuchin_t *rule, uint32_t gap) {
  return fmax(-free_seconds(rule->rival, gap), delta_rival_lanes_exposed(&rule->lanes, gap, rule->peak));
}

// The swap that shows least, of those that do not the one with the longest free time; or NONE.
static uint32_t find_swap(const capuchin_t *rule, double *out_overhead_seconds) {
  uint32_t best = DELTA_PROBLEM_NONE;
  double best_free_seconds = -INFINITY;
  *out_overhead_seconds = INFINITY;
  for (uint32_t g = 0; g < rule->rival->map.gap_count; ++g) {
    if (!is_candidate(rule, g) || !delta_rival_may(rule->rival, g, DELTA_ACTION_SWAP)) continue;
    const double seconds = fmax(0, overhead_seconds(rule, g)), spare_seconds = free_seconds(rule->rival, g);
    if (seconds > *out_overhead_seconds || (seconds == *out_overhead_seconds && spare_seconds <= best_free_seconds)) continue;
    *out_overhead_seconds = seconds;
    best_free_seconds = spare_seconds;
    best = g;
  }
  return best;
}

// The recomputation that saves most bytes per second, or NONE.
static uint32_t find_rebuild(const capuchin_t *rule, double *out_seconds) {
  delta_rival_t *rival = rule->rival;
  uint32_t best = DELTA_PROBLEM_NONE;
  double best_rate = 0;
  for (uint32_t g = 0; g < rival->map.gap_count; ++g) {
    if (!is_candidate(rule, g) || !delta_rival_may(rival, g, DELTA_ACTION_REBUILD_HOLD)) continue;
    const uint32_t tensor = rival->map.tensors[g];
    const double seconds = delta_rival_closure_seconds(rival, tensor, rival->map.ends[g]);
    const double rate = (double)rival->problem->tensors[tensor].size_bytes / seconds;
    if (!(rate > best_rate)) continue;
    best_rate = rate;
    *out_seconds = seconds;
    best = g;
  }
  return best;
}

// Decides one gap: by a swap that does not show, or the cheaper of the best two. False: there is none left.
static bool decide_one(capuchin_t *rule) {
  double swap_seconds, rebuild_seconds = INFINITY;
  const uint32_t swap = find_swap(rule, &swap_seconds);
  const bool hides = swap != DELTA_PROBLEM_NONE && swap_seconds == 0;
  const uint32_t rebuild = hides ? DELTA_PROBLEM_NONE : find_rebuild(rule, &rebuild_seconds);
  if (swap == DELTA_PROBLEM_NONE && rebuild == DELTA_PROBLEM_NONE) return false;
  const bool swaps = rebuild == DELTA_PROBLEM_NONE || (swap != DELTA_PROBLEM_NONE && swap_seconds <= rebuild_seconds);
  const uint32_t gap = swaps ? swap : rebuild;
  if (swaps) delta_rival_lanes_take(&rule->lanes, gap, rule->peak);
  rule->rival->actions[gap] = swaps ? DELTA_ACTION_SWAP : DELTA_ACTION_REBUILD_HOLD;
  rule->needed_bytes -= (int64_t)rule->rival->problem->tensors[rule->rival->map.tensors[gap]].size_bytes;
  return true;
}

// What has been saved at one peak leaves another, or recomputations make one: it looks again, as the measured step after would.
delta_status_t delta_rule_capuchin(delta_rival_t *rival) {
  capuchin_t rule = {.rival = rival};
  DELTA_RETURN_IF_ERROR(delta_rival_lanes_init(&rule.lanes, rival));
  delta_rival_reset(rival);
  rival->late_offload = true;
  for (bool has_decided = true; has_decided;) {
    has_decided = false;
    DELTA_RETURN_IF_ERROR(delta_rival_measure(rival));
    if (!rival->evaluation.is_possible || rival->evaluation.excess_bytes == 0) break;
    find_peak(&rule);
    while (rule.needed_bytes > 0 && decide_one(&rule)) has_decided = true;
  }
  return delta_rival_offer(rival);
}
