// Rival: offers and their judgement, and what rules ask about gaps.
#include "planner/rival.h"

#include <math.h>
#include <string.h>

#define NONE DELTA_PROBLEM_NONE

// ---- Offers

void delta_rival_reset(delta_rival_t *rival) {
  memcpy(rival->actions, rival->map.defaults, rival->map.gap_count);
  rival->late_offload = false;
}

// What a step of a closure or a copy takes counts at the place it is done for.
static void note_places(delta_rival_t *rival) {
  const delta_schedule_t *schedule = rival->evaluator.expansion.schedule;
  const uint32_t place_count = rival->order->step_count;
  uint32_t place = 0;
  memset(rival->place_bytes, 0, ((size_t)place_count + 1) * sizeof *rival->place_bytes);
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const uint64_t bytes = (uint64_t)rival->evaluator.live_bytes.items[s];
    if (bytes > rival->place_bytes[place]) rival->place_bytes[place] = bytes;
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (place < place_count && step->kind == DELTA_STEP_RUN && step->problem_step == rival->order->steps[place]) ++place;
  }
}

delta_status_t delta_rival_measure(delta_rival_t *rival) {
  delta_decisions_t decisions;
  delta_gap_map_decide(&rival->map, rival->actions, rival->items, &decisions);
  decisions.late_offload = rival->late_offload;
  DELTA_RETURN_IF_ERROR(delta_evaluator_measure(&rival->evaluator, &decisions, rival->capacity_bytes, &rival->evaluation));
  if (rival->evaluation.is_possible) note_places(rival);
  return DELTA_OK;
}

// Faster, or, where neither fits, less full.
static bool is_better(const delta_evaluation_t *a, const delta_evaluation_t *b) {
  if (a->is_possible != b->is_possible) return a->is_possible;
  if (a->seconds < INFINITY || b->seconds < INFINITY) return a->seconds < b->seconds;
  return a->peak_bytes < b->peak_bytes;
}

static delta_status_t keep_best(delta_rival_t *rival, const delta_decisions_t *decisions) {
  if (!is_better(&rival->evaluation, &rival->best_evaluation)) return DELTA_OK;
  rival->best_items.count = rival->best_runs.count = 0;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(rival->allocator, &rival->best_items, decisions->count));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(rival->allocator, &rival->best_runs, decisions->run_count));
  for (size_t i = 0; i < decisions->count; ++i) rival->best_items.items[rival->best_items.count++] = decisions->items[i];
  for (uint32_t i = 0; i < decisions->run_count; ++i) rival->best_runs.items[rival->best_runs.count++] = decisions->runs[i];
  rival->best_late_offload = decisions->late_offload;
  rival->best_evaluation = rival->evaluation;
  return DELTA_OK;
}

// Gives gaps changed[from .. to) their wanted actions, as far as that can be carried out.
static delta_status_t settle(delta_rival_t *rival, const uint32_t *changed, const uint8_t *wanted, uint32_t from, uint32_t to) {
  if (from == to) return DELTA_OK;
  for (uint32_t i = from; i < to; ++i) rival->actions[changed[i]] = wanted[changed[i]];
  DELTA_RETURN_IF_ERROR(delta_rival_measure(rival));
  if (rival->evaluation.is_possible) return DELTA_OK;
  for (uint32_t i = from; i < to; ++i) rival->actions[changed[i]] = rival->map.defaults[changed[i]];
  if (to - from == 1) return delta_rival_measure(rival);
  const uint32_t middle = from + (to - from) / 2;
  DELTA_RETURN_IF_ERROR(settle(rival, changed, wanted, from, middle));
  return settle(rival, changed, wanted, middle, to);
}

static delta_status_t take_back_what_is_impossible(delta_rival_t *rival) {
  const delta_allocator_t allocator = rival->allocator;
  uint8_t *wanted = NULL;
  DELTA_ARRAY(uint32_t) changed = {0};
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, rival->map.gap_count, &wanted), cleanup);
  memcpy(wanted, rival->actions, rival->map.gap_count);
  for (uint32_t g = 0; g < rival->map.gap_count; ++g) {
    if (wanted[g] != rival->map.defaults[g]) DELTA_GOTO_IF_ERROR(status, delta_array_push(allocator, &changed, &g), cleanup);
  }
  memcpy(rival->actions, rival->map.defaults, rival->map.gap_count);
  status = settle(rival, changed.items, wanted, 0, (uint32_t)changed.count);
cleanup:
  delta_release(allocator, wanted);
  delta_array_deinit(allocator, &changed);
  return status;
}

delta_status_t delta_rival_offer(delta_rival_t *rival) {
  DELTA_RETURN_IF_ERROR(delta_rival_measure(rival));
  if (!rival->evaluation.is_possible) DELTA_RETURN_IF_ERROR(take_back_what_is_impossible(rival));
  DELTA_RETURN_IF_ERROR(delta_evaluator_time(&rival->evaluator, &rival->evaluation));
  delta_decisions_t decisions;
  delta_gap_map_decide(&rival->map, rival->actions, rival->items, &decisions);
  decisions.late_offload = rival->late_offload;
  return keep_best(rival, &decisions);
}

delta_status_t delta_rival_offer_runs(delta_rival_t *rival, const uint32_t *runs, uint32_t run_count) {
  const delta_decisions_t decisions = {.runs = runs, .run_count = run_count};
  DELTA_RETURN_IF_ERROR(delta_evaluator_measure(&rival->evaluator, &decisions, rival->capacity_bytes, &rival->evaluation));
  DELTA_RETURN_IF_ERROR(delta_evaluator_time(&rival->evaluator, &rival->evaluation));
  return keep_best(rival, &decisions);
}

delta_decisions_t delta_rival_best(const delta_rival_t *rival) {
  return (delta_decisions_t){.items = rival->best_items.items,
                             .count = rival->best_items.count,
                             .late_offload = rival->best_late_offload,
                             .tail = DELTA_ACTION_REBUILD_DROP,
                             .runs = rival->best_runs.count > 0 ? rival->best_runs.items : NULL,
                             .run_count = (uint32_t)rival->best_runs.count};
}

// What is made again within a gap is rebuilt there, once or more often.
static delta_status_t set_actions_of_runs(delta_rival_t *rival, const uint32_t *runs, uint32_t run_count) {
  const delta_problem_t *problem = rival->problem;
  bool *has_run = NULL;
  uint32_t place = 0;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(rival->allocator, problem->step_count, &has_run));
  delta_rival_reset(rival);
  for (uint32_t i = 0; i < run_count; ++i) {
    const delta_problem_step_t *step = &problem->steps[runs[i]];
    for (uint32_t k = 0; k < step->output_count && has_run[runs[i]]; ++k) {
      const uint32_t gap = delta_gap_map_find(&rival->map, step->outputs[k], place);
      const delta_action_t again = rival->actions[gap] == DELTA_ACTION_KEEP ? DELTA_ACTION_REBUILD_HOLD : DELTA_ACTION_REBUILD_DROP;
      if (delta_rival_may(rival, gap, again)) rival->actions[gap] = (uint8_t)again;
    }
    place += !has_run[runs[i]];
    has_run[runs[i]] = true;
  }
  delta_release(rival->allocator, has_run);
  return DELTA_OK;
}

delta_status_t delta_rival_list_decisions(delta_rival_t *rival, const delta_decisions_t *best, delta_decision_list_t *out_items) {
  const delta_decision_t *items = best->items;
  size_t count = best->count;
  if (best->runs) {
    delta_decisions_t decisions;
    DELTA_RETURN_IF_ERROR(set_actions_of_runs(rival, best->runs, best->run_count));
    delta_gap_map_decide(&rival->map, rival->actions, rival->items, &decisions);
    items = decisions.items;
    count = decisions.count;
  }
  out_items->count = 0;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(rival->allocator, out_items, count));
  for (size_t i = 0; i < count; ++i) out_items->items[out_items->count++] = items[i];
  return DELTA_OK;
}

// ---- What rules ask

uint32_t delta_rival_turn_gap(const delta_rival_t *rival, uint32_t tensor) {
  const delta_gap_map_t *map = &rival->map;
  const bool is_forward = map->producers[tensor] != NONE && map->begins[map->starts[tensor]] < rival->turn;
  if (!is_forward || delta_problem_tensor_is_state(&rival->problem->tensors[tensor])) return NONE;
  return delta_gap_map_find(map, tensor, rival->turn);
}

delta_status_t delta_rival_count_crossings(delta_rival_t *rival, uint32_t **out_crossings) {
  const delta_gap_map_t *map = &rival->map;
  int32_t *change = NULL, count = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, (size_t)rival->turn + 2, &change));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, (size_t)rival->turn + 1, out_crossings));
  for (uint32_t t = 0; t < rival->problem->tensor_count; ++t) {
    const uint32_t gap = delta_rival_turn_gap(rival, t);
    if (gap == NONE || !rival->is_on_path[t] || map->begins[gap] == map->begins[map->starts[t]]) continue;
    ++change[map->begins[map->starts[t]] + 1];
    --change[map->begins[gap] + 1];
  }
  for (uint32_t p = 0; p <= rival->turn; ++p) (*out_crossings)[p] = (uint32_t)(count += change[p]);
  return DELTA_OK;
}

double delta_rival_offload_seconds(const delta_rival_t *rival, uint32_t tensor) {
  return delta_problem_offload_seconds(rival->problem, rival->problem->tensors[tensor].size_bytes);
}

double delta_rival_prefetch_seconds(const delta_rival_t *rival, uint32_t tensor) {
  return delta_problem_prefetch_seconds(rival->problem, rival->problem->tensors[tensor].size_bytes);
}

double delta_rival_closure_seconds(delta_rival_t *rival, uint32_t tensor, uint32_t place) {
  const delta_gap_map_t *map = &rival->map;
  uint32_t pending_count = 0;
  double seconds = 0;
  if (map->producers[tensor] == NONE) return INFINITY;
  rival->stamps[map->producers[tensor]] = ++rival->stamp;
  rival->pending[pending_count++] = map->producers[tensor];
  while (pending_count > 0) {
    const delta_problem_step_t *step = &rival->problem->steps[rival->pending[--pending_count]];
    if (!(step->flags & DELTA_STEP_PURE)) return INFINITY;
    seconds += step->seconds;
    for (uint32_t k = 0; k < step->input_count; ++k) {
      const uint32_t input = step->inputs[k];
      if (delta_problem_tensor_is_state(&rival->problem->tensors[input])) continue;
      const uint8_t action = rival->actions[delta_gap_map_find(map, input, place)];
      if (action == DELTA_ACTION_KEEP) continue;
      if (action == DELTA_ACTION_SWAP) {
        seconds += delta_rival_prefetch_seconds(rival, input);
      } else if (rival->stamps[map->producers[input]] != rival->stamp) {
        rival->stamps[map->producers[input]] = rival->stamp;
        rival->pending[pending_count++] = map->producers[input];
      }
    }
  }
  return seconds;
}

// ---- Life cycle

static delta_status_t find_turn(delta_rival_t *rival) {
  const delta_problem_t *problem = rival->problem;
  const delta_gap_map_t *map = &rival->map;
  int32_t *change = NULL, count = 0, most = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, (size_t)rival->order->step_count + 2, &change));
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &problem->tensors[t];
    const uint32_t made = map->begins[map->starts[t]], last = map->begins[map->starts[t + 1] - 1];
    const bool waits =
        map->producers[t] != NONE && !delta_problem_tensor_is_state(tensor) && tensor->kind != DELTA_CLASS_GRADIENTS && last > made;
    if (!waits) continue;
    ++change[made + 1];
    --change[last + 1];
  }
  rival->turn = rival->order->step_count;
  for (uint32_t p = 0; p < rival->order->step_count; ++p) {
    count += change[p];
    if (count > most) {
      most = count;
      rival->turn = p;
    }
  }
  return DELTA_OK;
}

static delta_status_t find_path(delta_rival_t *rival) {
  enum { FED = 1, WEIGHTED = 2 };
  const delta_problem_t *problem = rival->problem;
  uint8_t *sources = NULL;
  bool has_states = false;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, problem->tensor_count, &rival->is_on_path));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, problem->tensor_count, &sources));
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const bool is_state = problem->tensors[t].flags & DELTA_TENSOR_STATE;
    has_states |= is_state;
    sources[t] = (problem->tensors[t].flags & DELTA_TENSOR_INPUT ? FED : 0) | (is_state ? WEIGHTED : 0);
  }
  for (uint32_t p = 0; p < rival->order->step_count; ++p) {
    const delta_problem_step_t *step = delta_rival_step(rival, p);
    uint8_t found = 0;
    for (uint32_t k = 0; k < step->input_count; ++k) found |= sources[step->inputs[k]];
    for (uint32_t k = 0; k < step->output_count; ++k) sources[step->outputs[k]] = found;
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    rival->is_on_path[t] = (sources[t] & FED) && (!has_states || (sources[t] & WEIGHTED));
  }
  return DELTA_OK;
}

static delta_status_t fill(delta_rival_t *rival) {
  const uint32_t step_count = rival->order->step_count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, rival->map.gap_count, &rival->actions));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, rival->map.gap_count, &rival->items));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, (size_t)step_count + 1, &rival->place_seconds));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, (size_t)step_count + 1, &rival->place_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, step_count, &rival->stamps));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, step_count, &rival->pending));
  for (uint32_t p = 0; p < step_count; ++p) {
    const delta_problem_step_t *step = delta_rival_step(rival, p);
    rival->place_seconds[p + 1] = rival->place_seconds[p] + step->seconds;
    rival->names_layers |= (step->flags & (DELTA_STEP_CONVOLUTION | DELTA_STEP_PRODUCT)) != 0;
  }
  DELTA_RETURN_IF_ERROR(find_turn(rival));
  DELTA_RETURN_IF_ERROR(find_path(rival));
  rival->best_evaluation = (delta_evaluation_t){.seconds = INFINITY, .peak_bytes = UINT64_MAX};
  delta_rival_reset(rival);
  return delta_rival_offer(rival);
}

delta_status_t delta_rival_init(delta_rival_t *rival, const delta_problem_t *problem, const delta_order_t *order, uint64_t capacity_bytes,
                                const delta_integer_solver_t *solver, delta_allocator_t allocator) {
  *rival = (delta_rival_t){.problem = problem, .order = order, .capacity_bytes = capacity_bytes, .solver = solver, .allocator = allocator};
  const delta_liberties_t liberties = {.may_swap = problem->offload_bytes_per_second > 0 && problem->prefetch_bytes_per_second > 0,
                                       .may_rebuild = true};
  delta_region_init(&rival->region, allocator);
  delta_status_t status = delta_gap_map_init(&rival->map, problem, order, &liberties, NULL, 0, allocator);
  if (!status) status = delta_evaluator_init(&rival->evaluator, problem, order, allocator);
  if (!status) status = fill(rival);
  if (status) delta_rival_deinit(rival);
  return status;
}

void delta_rival_deinit(delta_rival_t *rival) {
  if (!rival->problem) return;
  delta_array_deinit(rival->allocator, &rival->best_items);
  delta_array_deinit(rival->allocator, &rival->best_runs);
  delta_evaluator_deinit(&rival->evaluator);
  delta_gap_map_deinit(&rival->map);
  delta_region_deinit(&rival->region);
  *rival = (delta_rival_t){0};
}
