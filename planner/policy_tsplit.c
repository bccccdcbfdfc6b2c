// Nie et al., "TSPLIT: fine-grained GPU memory management for efficient DNN training via tensor splitting" (ICDE 2022), its choice between swap and recompute on whole tensors:
// at the first step that needs too much, the tensor goes that costs least time per byte. A swap costs what the copy lanes, with what they have been given so far, cannot hide; a
// recomputation what runs again. Tensors that are made earlier win ties.
#include <math.h>

#include "planner/rival_lanes.h"

typedef struct tsplit {
  delta_rival_t *rival;
  delta_rival_lanes_t lanes;
  bool *is_given_up; // by place: nothing that is left there may go
} tsplit_t;

typedef struct tsplit_offer {
  uint32_t gap;
  delta_action_t action;
  double seconds_per_byte;
} tsplit_offer_t;

// The first place that needs too much and can be helped; the order's length plus one: none.
static uint32_t find_bottleneck(const tsplit_t *rule) {
  const delta_rival_t *rival = rule->rival;
  uint32_t p = 0;
  while (p <= rival->order->step_count && (rival->place_bytes[p] <= rival->capacity_bytes || rule->is_given_up[p])) ++p;
  return p;
}

static void take_better(tsplit_offer_t *best, const delta_rival_t *rival, uint32_t gap, delta_action_t action, double seconds) {
  const double ratio = seconds / (double)rival->problem->tensors[rival->map.tensors[gap]].size_bytes;
  const bool is_tie = ratio == best->seconds_per_byte && best->gap != DELTA_PROBLEM_NONE;
  const bool is_earlier = is_tie && rival->map.begins[rival->map.starts[rival->map.tensors[gap]]] <
                                        rival->map.begins[rival->map.starts[rival->map.tensors[best->gap]]];
  if (ratio < best->seconds_per_byte || is_earlier) *best = (tsplit_offer_t){gap, action, ratio};
}

static tsplit_offer_t find_offer(const tsplit_t *rule, uint32_t bottleneck) {
  delta_rival_t *rival = rule->rival;
  const delta_gap_map_t *map = &rival->map;
  tsplit_offer_t best = {.gap = DELTA_PROBLEM_NONE, .seconds_per_byte = INFINITY};
  for (uint32_t g = 0; g < map->gap_count; ++g) {
    const bool covers = map->begins[g] < bottleneck && map->ends[g] > bottleneck && !delta_rival_is_tail(rival, g);
    if (!covers || rival->actions[g] != DELTA_ACTION_KEEP) continue;
    if (delta_rival_may(rival, g, DELTA_ACTION_SWAP)) {
      take_better(&best, rival, g, DELTA_ACTION_SWAP, delta_rival_lanes_exposed(&rule->lanes, g, bottleneck));
    }
    if (delta_rival_may(rival, g, DELTA_ACTION_REBUILD_HOLD)) {
      take_better(&best, rival, g, DELTA_ACTION_REBUILD_HOLD, delta_rival_closure_seconds(rival, map->tensors[g], map->ends[g]));
    }
  }
  return best;
}

static void take_offer(tsplit_t *rule, const tsplit_offer_t *offer, uint32_t bottleneck) {
  rule->rival->actions[offer->gap] = (uint8_t)offer->action;
  if (offer->action == DELTA_ACTION_SWAP) delta_rival_lanes_take(&rule->lanes, offer->gap, bottleneck);
}

static delta_status_t decide_all(tsplit_t *rule) {
  delta_rival_t *rival = rule->rival;
  for (;;) {
    DELTA_RETURN_IF_ERROR(delta_rival_measure(rival));
    if (!rival->evaluation.is_possible) return DELTA_OK;
    uint32_t bottleneck = find_bottleneck(rule);
    tsplit_offer_t offer = {.gap = DELTA_PROBLEM_NONE};
    for (; bottleneck <= rival->order->step_count; bottleneck = find_bottleneck(rule)) {
      offer = find_offer(rule, bottleneck);
      if (offer.gap != DELTA_PROBLEM_NONE) break;
      rule->is_given_up[bottleneck] = true;
    }
    if (offer.gap == DELTA_PROBLEM_NONE) return DELTA_OK;
    take_offer(rule, &offer, bottleneck);
  }
}

delta_status_t delta_rule_tsplit(delta_rival_t *rival) {
  tsplit_t rule = {.rival = rival};
  DELTA_RETURN_IF_ERROR(delta_rival_lanes_init(&rule.lanes, rival));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, (size_t)rival->order->step_count + 1, &rule.is_given_up));
  delta_rival_reset(rival);
  DELTA_RETURN_IF_ERROR(decide_all(&rule));
  return delta_rival_offer(rival);
}
