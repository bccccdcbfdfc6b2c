// Wang et al., "SuperNeurons: dynamic GPU memory management for training deep neural networks" (PPoPP 2018): what layers with weights make is offloaded, the least recently used
// first and no more than is short; what cheap layers between them make is made again, once where a segment with its gradient fits below the fullest layer's own need,
// else for every step that reads it.
#include "planner/rival.h"

#define NONE DELTA_PROBLEM_NONE

typedef struct superneurons {
  delta_rival_t *rival;
  uint32_t *offloads; // gaps of what layers make, the least recently used first
  uint32_t offload_count;
} superneurons_t;

// Bytes of what a step reads, makes and works in.
static uint64_t own_bytes(const delta_rival_t *rival, uint32_t place) {
  const delta_problem_step_t *step = delta_rival_step(rival, place);
  uint64_t bytes = step->workspace_bytes;
  for (uint32_t k = 0; k < step->input_count; ++k) bytes += rival->problem->tensors[step->inputs[k]].size_bytes;
  for (uint32_t k = 0; k < step->output_count; ++k) bytes += rival->problem->tensors[step->outputs[k]].size_bytes;
  return bytes;
}

static uint64_t most_own_bytes(const delta_rival_t *rival) {
  uint64_t most = 0;
  for (uint32_t p = 0; p < rival->order->step_count; ++p) {
    const uint64_t bytes = own_bytes(rival, p);
    if (bytes > most) most = bytes;
  }
  return most;
}

// Where the segment that begins at a place ends: before the next layer with weights, or at the turn. The gradient of its result is as large as that.
static uint32_t find_segment_end(const delta_rival_t *rival, uint32_t from, uint64_t *out_bytes) {
  uint32_t to = from;
  uint64_t last_bytes = 0;
  *out_bytes = 0;
  for (; to < rival->turn && !delta_rival_is_layer(rival, to); ++to) {
    const delta_problem_step_t *step = delta_rival_step(rival, to);
    for (uint32_t k = 0; k < step->output_count; ++k) {
      last_bytes = rival->problem->tensors[step->outputs[k]].size_bytes;
      *out_bytes += last_bytes;
    }
  }
  *out_bytes += last_bytes;
  return to;
}

static void rebuild_outputs(delta_rival_t *rival, uint32_t place, delta_action_t action) {
  const delta_problem_step_t *step = delta_rival_step(rival, place);
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t gap = delta_rival_turn_gap(rival, step->outputs[k]);
    if (gap != NONE && delta_rival_may(rival, gap, action)) rival->actions[gap] = (uint8_t)action;
  }
}

static void rebuild_segments(delta_rival_t *rival) {
  const uint64_t most_bytes = most_own_bytes(rival);
  uint64_t segment_bytes;
  for (uint32_t p = 0; p < rival->turn;) {
    if (delta_rival_is_layer(rival, p)) {
      ++p;
      continue;
    }
    const uint32_t end = find_segment_end(rival, p, &segment_bytes);
    for (; p < end; ++p) rebuild_outputs(rival, p, segment_bytes <= most_bytes ? DELTA_ACTION_REBUILD_HOLD : DELTA_ACTION_REBUILD_DROP);
  }
}

// What layers make stays for who is made again from it, or goes below.
static void keep_layers(superneurons_t *rule) {
  delta_rival_t *rival = rule->rival;
  for (uint32_t p = 0; p < rival->turn; ++p) {
    if (!delta_rival_is_layer(rival, p)) continue;
    const delta_problem_step_t *step = delta_rival_step(rival, p);
    for (uint32_t k = 0; k < step->output_count; ++k) {
      const uint32_t gap = delta_rival_turn_gap(rival, step->outputs[k]);
      if (gap == NONE) continue;
      rival->actions[gap] = DELTA_ACTION_KEEP;
      if (delta_rival_may(rival, gap, DELTA_ACTION_SWAP)) rule->offloads[rule->offload_count++] = gap;
    }
  }
}

static delta_status_t measure_offloads(superneurons_t *rule, uint32_t count) {
  for (uint32_t i = 0; i < rule->offload_count; ++i) {
    rule->rival->actions[rule->offloads[i]] = i < count ? DELTA_ACTION_SWAP : DELTA_ACTION_KEEP;
  }
  return delta_rival_measure(rule->rival);
}

delta_status_t delta_rule_superneurons(delta_rival_t *rival) {
  superneurons_t rule = {.rival = rival};
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, rival->problem->tensor_count, &rule.offloads));
  delta_rival_reset(rival);
  rebuild_segments(rival);
  keep_layers(&rule);
  uint32_t least = 0, most = rule.offload_count;
  while (least < most) {
    const uint32_t middle = least + (most - least) / 2;
    DELTA_RETURN_IF_ERROR(measure_offloads(&rule, middle));
    if (rival->evaluation.is_possible && rival->evaluation.excess_bytes == 0) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  DELTA_RETURN_IF_ERROR(measure_offloads(&rule, most));
  return delta_rival_offer(rival);
}
