// Gaps: counted by the uses of each tensor.
#include "planner/gaps.h"

#define NONE DELTA_PROBLEM_NONE
enum {
  KEEP = 1 << DELTA_ACTION_KEEP,
  SWAP = 1 << DELTA_ACTION_SWAP,
  REBUILD = 1 << DELTA_ACTION_REBUILD_HOLD | 1 << DELTA_ACTION_REBUILD_DROP
};

static delta_status_t allocate_lists(delta_gap_map_t *map) {
  const delta_problem_t *problem = map->problem;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, (size_t)problem->tensor_count + 1, &map->starts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, problem->tensor_count, &map->producers));
  uint64_t gap_count = problem->tensor_count;
  for (uint32_t s = 0; s < problem->step_count; ++s) gap_count += problem->steps[s].input_count;
  if (gap_count >= NONE)
    return delta_status_make(UNSUPPORTED, "the problem has %llu uses of tensors, more than 2^32", (unsigned long long)gap_count);
  map->gap_count = (uint32_t)gap_count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->tensors));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->begins));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->ends));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->allowed));
  return DELTA_REGION_ALLOCATE(&map->region, gap_count, &map->defaults);
}

static void number_gaps(delta_gap_map_t *map) {
  const delta_problem_t *problem = map->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) map->producers[t] = NONE;
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    for (uint32_t k = 0; k < problem->steps[s].input_count; ++k) ++map->starts[problem->steps[s].inputs[k] + 1];
    for (uint32_t k = 0; k < problem->steps[s].output_count; ++k) map->producers[problem->steps[s].outputs[k]] = s;
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) map->starts[t + 1] += map->starts[t] + 1;
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
    for (uint32_t k = 0; k < step->input_count; ++k) {
      map->ends[open_gap[step->inputs[k]]++] = p;
      map->begins[open_gap[step->inputs[k]]] = p;
    }
  }
}

// What may be done with a tensor's gaps. A tail, where only closures come, is dropped unless something holds it.
static void allow_actions(delta_gap_map_t *map, uint32_t t, const delta_liberties_t *liberties) {
  const delta_problem_tensor_t *tensor = &map->problem->tensors[t];
  const uint32_t producer = map->producers[t];
  const bool is_pure = producer != NONE && (map->problem->steps[producer].flags & DELTA_STEP_PURE);
  const bool is_fixed = delta_problem_tensor_is_state(tensor) || (tensor->flags & DELTA_TENSOR_PINNED);
  for (uint32_t g = map->starts[t]; g < map->starts[t + 1]; ++g) {
    const bool is_tail = g + 1 == map->starts[t + 1] && !(tensor->flags & DELTA_TENSOR_OUTPUT);
    map->allowed[g] = KEEP;
    if (is_fixed || (!is_tail && map->ends[g] <= map->begins[g] + 1)) continue;
    if (liberties->may_swap && (!is_tail || liberties->may_rebuild)) map->allowed[g] |= SWAP;
    if (liberties->may_rebuild && is_pure) map->allowed[g] |= REBUILD;
    if (is_tail && liberties->may_rebuild && is_pure) map->defaults[g] = DELTA_ACTION_REBUILD_DROP;
  }
}

static delta_status_t fill(delta_gap_map_t *map, const delta_liberties_t *liberties) {
  uint32_t *open_gap = NULL;
  DELTA_RETURN_IF_ERROR(allocate_lists(map));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&map->region, map->problem->tensor_count, &open_gap));
  number_gaps(map);
  place_gaps(map, open_gap);
  for (uint32_t t = 0; t < map->problem->tensor_count; ++t) allow_actions(map, t, liberties);
  return DELTA_OK;
}

delta_status_t delta_gap_map_init(delta_gap_map_t *map, const delta_problem_t *problem, const delta_order_t *order,
                                  const delta_liberties_t *liberties, delta_allocator_t allocator) {
  *map = (delta_gap_map_t){.problem = problem, .order = order};
  delta_region_init(&map->region, allocator);
  delta_status_t status = fill(map, liberties);
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
    if (actions[g] == map->defaults[g]) continue;
    const uint32_t t = map->tensors[g];
    items[out_decisions->count++] = (delta_decision_t){.tensor = t, .use = g - map->starts[t], .action = (delta_action_t)actions[g]};
  }
}
