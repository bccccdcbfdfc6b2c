// Gaps: counted by the uses of each tensor.
#include "planner/gaps.h"

#define NONE DELTA_PROBLEM_NONE
enum {
  KEEP = 1 << DELTA_ACTION_KEEP,
  SWAP = 1 << DELTA_ACTION_SWAP | 1 << DELTA_ACTION_SWAP_LATE,
  REBUILD = 1 << DELTA_ACTION_REBUILD_HOLD | 1 << DELTA_ACTION_REBUILD_DROP
};

static delta_status_t allocate_lists(delta_gap_map_t *map, size_t split_count) {
  const delta_problem_t *problem = map->problem;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, (size_t)problem->tensor_count + 1, &map->starts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, problem->tensor_count, &map->producers));
  uint64_t gap_count = problem->tensor_count + split_count;
  for (uint32_t s = 0; s < problem->step_count; ++s) gap_count += problem->steps[s].input_count;
  if (gap_count >= NONE)
    return delta_status_make(UNSUPPORTED, "the problem has %llu uses of tensors, more than 2^32", (unsigned long long)gap_count);
  map->gap_count = (uint32_t)gap_count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->tensors));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->begins));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->ends));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->allowed));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->uses));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->is_part));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, (size_t)map->order->step_count + 2, &map->split_starts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, split_count, &map->split_tensors));
  return DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->defaults);
}

static void number_gaps(delta_gap_map_t *map, const delta_gap_split_t *splits, size_t split_count) {
  const delta_problem_t *problem = map->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) map->producers[t] = NONE;
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    for (uint32_t k = 0; k < problem->steps[s].input_count; ++k) ++map->starts[problem->steps[s].inputs[k] + 1];
    for (uint32_t k = 0; k < problem->steps[s].output_count; ++k) map->producers[problem->steps[s].outputs[k]] = s;
  }
  for (size_t i = 0; i < split_count; ++i) ++map->starts[splits[i].tensor + 1];
  for (uint32_t t = 0; t < problem->tensor_count; ++t) map->starts[t + 1] += map->starts[t] + 1;
}

// Splits by place, of one place by tensor: as they come sorted by tensor, a counting sort keeps that order.
static void sort_splits(delta_gap_map_t *map, const delta_gap_split_t *splits, size_t split_count) {
  uint32_t *starts = map->split_starts;
  const uint32_t place_count = map->order->step_count;
  for (size_t i = 0; i < split_count; ++i) ++starts[splits[i].place + 2];
  for (uint32_t p = 0; p < place_count; ++p) starts[p + 2] += starts[p + 1];
  for (size_t i = 0; i < split_count; ++i) map->split_tensors[starts[splits[i].place + 1]++] = splits[i].tensor;
}

// The next gap of a tensor begins at a place, where the one before it ends.
static void begin_gap(delta_gap_map_t *map, uint32_t *open_gap, uint32_t tensor, uint32_t place, bool is_part) {
  const uint32_t before = open_gap[tensor]++;
  map->ends[before] = map->begins[before + 1] = place;
  map->is_part[before + 1] = is_part;
  map->uses[before + 1] = map->uses[before] + !is_part;
}

static void place_gaps(delta_gap_map_t *map, uint32_t *open_gap) {
  const delta_problem_t *problem = map->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    open_gap[t] = map->starts[t];
    for (uint32_t g = map->starts[t]; g < map->starts[t + 1]; ++g) map->tensors[g] = t;
    map->ends[map->starts[t + 1] - 1] = map->order->step_count;
  }
  for (uint32_t p = 0; p < map->order->step_count; ++p) {
    const delta_problem_step_t *step = &problem->steps[map->order->steps[p]];
    for (uint32_t k = 0; k < step->output_count; ++k) map->begins[map->starts[step->outputs[k]]] = p;
    for (uint32_t k = 0; k < step->input_count; ++k) begin_gap(map, open_gap, step->inputs[k], p, false);
    for (uint32_t i = map->split_starts[p]; i < map->split_starts[p + 1]; ++i) begin_gap(map, open_gap, map->split_tensors[i], p, true);
  }
}

// What may be done with a tensor's gaps. A tail, where only closures come, is dropped unless something holds it.
static void allow_actions(delta_gap_map_t *map, uint32_t t, const delta_liberties_t *liberties) {
  const delta_problem_tensor_t *tensor = &map->problem->tensors[t];
  const uint32_t producer = map->producers[t];
  const bool is_pure = producer != NONE && (map->problem->steps[producer].flags & DELTA_STEP_PURE);
  const bool is_fixed = delta_problem_tensor_is_state(tensor) || (tensor->flags & DELTA_TENSOR_PINNED);
  for (uint32_t g = map->starts[t]; g < map->starts[t + 1]; ++g) {
    const bool is_tail = map->uses[g] == map->uses[map->starts[t + 1] - 1] && !(tensor->flags & DELTA_TENSOR_OUTPUT);
    const bool is_split = map->is_part[g] || (g + 1 < map->starts[t + 1] && map->is_part[g + 1]);
    map->allowed[g] = KEEP;
    if (is_fixed || (!is_tail && !is_split && map->ends[g] <= map->begins[g] + 1)) continue;
    if (liberties->may_swap && (!is_tail || liberties->may_rebuild)) map->allowed[g] |= SWAP;
    if (liberties->may_rebuild && is_pure) map->allowed[g] |= REBUILD;
    if (is_tail && liberties->may_rebuild && is_pure) map->defaults[g] = DELTA_ACTION_REBUILD_DROP;
  }
}

static delta_status_t fill(delta_gap_map_t *map, const delta_liberties_t *liberties, const delta_gap_split_t *splits, size_t split_count) {
  uint32_t *open_gap = NULL;
  DELTA_RETURN_IF_ERROR(allocate_lists(map, split_count));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, map->problem->tensor_count, &open_gap));
  number_gaps(map, splits, split_count);
  sort_splits(map, splits, split_count);
  place_gaps(map, open_gap);
  for (uint32_t t = 0; t < map->problem->tensor_count; ++t) allow_actions(map, t, liberties);
  return DELTA_OK;
}

delta_status_t delta_gap_map_init(delta_gap_map_t *map, const delta_problem_t *problem, const delta_order_t *order,
                                  const delta_liberties_t *liberties, const delta_gap_split_t *splits, size_t split_count,
                                  delta_allocator_t allocator) {
  *map = (delta_gap_map_t){.problem = problem, .order = order};
  delta_region_init(&map->region, allocator);
  delta_status_t status = fill(map, liberties, splits, split_count);
  if (status) delta_gap_map_deinit(map);
  return status;
}

void delta_gap_map_deinit(delta_gap_map_t *map) {
  delta_region_deinit(&map->region);
  *map = (delta_gap_map_t){0};
}

uint32_t delta_gap_map_find(const delta_gap_map_t *map, uint32_t tensor, uint32_t place) {
  uint32_t low = map->starts[tensor], high = map->starts[tensor + 1] - 1;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (map->ends[middle] < place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void delta_gap_map_decide(const delta_gap_map_t *map, const uint8_t *actions, delta_decision_t *items, delta_decisions_t *out_decisions) {
  *out_decisions = (delta_decisions_t){.items = items, .tail = DELTA_ACTION_REBUILD_DROP};
  for (uint32_t g = 0; g < map->gap_count; ++g) {
    // Of a gap in parts all are listed: an action lasts until the next.
    const bool is_split = map->is_part[g] || (g + 1 < map->gap_count && map->is_part[g + 1]);
    if (actions[g] == map->defaults[g] && !is_split) continue;
    items[out_decisions->count++] = (delta_decision_t){.tensor = map->tensors[g],
                                                       .use = map->uses[g],
                                                       .place = map->is_part[g] ? map->begins[g] : 0,
                                                       .action = (delta_action_t)actions[g]};
  }
}
