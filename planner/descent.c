// Descent: the moves are remembered, schedules on the way are made again when they are asked for.
//
// An arena is not smaller than the peak, but may be larger. So the least arena is looked for among the places with the smallest peaks, and a place for a budget
// may have to be a little further down than its peak says. Both searches are bounded by a number of layouts.
#include "planner/descent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound_model.h"
#include "planner/search_state.h"

enum { MOST_LEAST_LAYOUTS = 3, MOST_STOP_LAYOUTS = 3 };

delta_status_t delta_finish_schedule(const delta_problem_t *problem, delta_wait_rule_t rule, delta_allocator_t allocator,
                                     delta_schedule_t *schedule) {
  DELTA_RETURN_IF_ERROR(delta_layout(problem, schedule, allocator));
  DELTA_RETURN_IF_ERROR(delta_set_waits(schedule, rule, allocator));
  return delta_simulate(problem, schedule, allocator);
}

// ---- The way down

// Evaluations times steps: in long programs the way ends before the last of it is found.
static const uint64_t MOST_STEPS_EVALUATED = 10 * 1000 * 1000, HASTY_STEPS_EVALUATED = 2 * 1000 * 1000;

typedef struct descent_walk {
  delta_descent_t *descent;
  const delta_search_state_t *state;
  uint8_t *actions; // Owned; by gap, before the last change
  uint64_t peak_bytes;
} descent_walk_t;

// What nothing can be below: the bytes of the step that needs most.
static uint64_t find_floor(const delta_problem_t *problem) {
  int64_t most_bytes = 0;
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const int64_t bytes = delta_bound_step_bytes(problem, &problem->steps[s]);
    if (bytes > most_bytes) most_bytes = bytes;
  }
  return (uint64_t)most_bytes;
}

// Of what is decided together, only the whole is known to lower the peak.
static delta_status_t note_moves(void *self, const delta_search_plan_t *now) {
  descent_walk_t *walk = self;
  const delta_gap_map_t *map = &walk->state->map;
  for (uint32_t g = 0; g < map->gap_count; ++g) {
    if (now->actions[g] == walk->actions[g]) continue;
    walk->actions[g] = now->actions[g];
    const delta_decision_t decision = {.tensor = map->tensors[g], .use = map->uses[g], .action = (delta_action_t)now->actions[g]};
    DELTA_RETURN_IF_ERROR(delta_array_push(walk->descent->allocator, &walk->descent->moves,
                                           &((delta_descent_move_t){.decision = decision, .peak_bytes = walk->peak_bytes})));
  }
  walk->peak_bytes = now->evaluation.peak_bytes;
  walk->descent->moves.items[walk->descent->moves.count - 1].peak_bytes = walk->peak_bytes;
  return DELTA_OK;
}

static delta_status_t walk_down(delta_search_state_t *state, delta_descent_t *descent) {
  descent_walk_t walk = {.descent = descent, .state = state};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(descent->allocator, state->map.gap_count, &walk.actions));
  memcpy(walk.actions, state->map.defaults, state->map.gap_count);
  memcpy(state->now.actions, state->map.defaults, state->map.gap_count);
  delta_status_t status = delta_search_measure(state, &state->now);
  walk.peak_bytes = state->now.evaluation.peak_bytes;
  if (!status) status = delta_search_descend(state, delta_search_lane_seconds(state), note_moves, &walk);
  delta_release(descent->allocator, walk.actions);
  return status;
}

static delta_status_t go_down(delta_descent_t *descent) {
  const uint64_t most_steps = descent->is_hasty ? HASTY_STEPS_EVALUATED : MOST_STEPS_EVALUATED;
  const delta_search_options_t options = {.liberties = {true, true},
                                          .capacity_bytes = find_floor(descent->problem),
                                          .effort = {.evaluation_limit = most_steps / (descent->problem->step_count + 1) + 1}};
  delta_search_state_t state = {.problem = descent->problem,
                                .order = descent->order,
                                .options = &options,
                                .allocator = descent->allocator,
                                .best = {.evaluation = {.seconds = INFINITY}},
                                .is_together = true};
  delta_status_t status = delta_search_state_init(&state);
  if (!status) status = walk_down(&state, descent);
  delta_search_state_deinit(&state);
  return status;
}

// ---- Schedules on the way

typedef struct numbered_decision {
  delta_decision_t decision;
  size_t number;
} numbered_decision_t;

static int compare_numbered(const void *left, const void *right) {
  const numbered_decision_t *a = left, *b = right;
  if (a->decision.tensor != b->decision.tensor) return a->decision.tensor < b->decision.tensor ? -1 : 1;
  if (a->decision.use != b->decision.use) return a->decision.use < b->decision.use ? -1 : 1;
  return a->number < b->number ? -1 : 1;
}

// The decisions of the first moves: of those for one gap the last.
static delta_status_t list_decisions(const delta_descent_t *descent, size_t move_count, delta_decisions_t *decisions) {
  numbered_decision_t *numbered = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(descent->allocator, move_count, &numbered));
  for (size_t i = 0; i < move_count; ++i) numbered[i] = (numbered_decision_t){descent->moves.items[i].decision, i};
  if (move_count > 0) qsort(numbered, move_count, sizeof *numbered, compare_numbered);
  for (size_t i = 0; i < move_count; ++i) {
    const delta_decision_t *next = i + 1 < move_count ? &numbered[i + 1].decision : NULL;
    const bool is_last = !next || next->tensor != numbered[i].decision.tensor || next->use != numbered[i].decision.use;
    if (is_last) decisions->items[decisions->count++] = numbered[i].decision;
  }
  delta_release(descent->allocator, numbered);
  return DELTA_OK;
}

static delta_status_t finish_within(const delta_descent_t *descent, uint64_t capacity_bytes, delta_schedule_t *schedule) {
  DELTA_RETURN_IF_ERROR(delta_layout_within(schedule, capacity_bytes, descent->is_hasty, descent->allocator));
  DELTA_RETURN_IF_ERROR(delta_set_waits(schedule, DELTA_WAIT_FOR_BYTES, descent->allocator));
  return delta_simulate(descent->problem, schedule, descent->allocator);
}

// The finished schedule after the first `move_count` moves; its addresses are the first that lie within the capacity.
static delta_status_t make_schedule(const delta_descent_t *descent, size_t move_count, uint64_t capacity_bytes,
                                    delta_schedule_t **out_schedule) {
  delta_decisions_t decisions = {.tail = DELTA_ACTION_REBUILD_DROP};
  delta_schedule_t *schedule = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(descent->allocator, move_count, &decisions.items));
  delta_status_t status = list_decisions(descent, move_count, &decisions);
  if (!status) status = delta_expand(descent->problem, descent->order, &decisions, descent->allocator, &schedule);
  if (!status) status = finish_within(descent, capacity_bytes, schedule);
  delta_release(descent->allocator, decisions.items);
  if (status) {
    delta_schedule_free(schedule);
    return status;
  }
  *out_schedule = schedule;
  return DELTA_OK;
}

// No arena is smaller than the smallest peak: one that is no more than this part above it is not improved.
static const double close_enough = 1.02;

// Peaks fall with every move, or stay: the smallest are at the end.
static delta_status_t find_least(delta_descent_t *descent) {
  size_t count = descent->moves.count;
  for (int tried = 0; tried < MOST_LEAST_LAYOUTS; ++tried) {
    delta_schedule_t *schedule = NULL;
    DELTA_RETURN_IF_ERROR(make_schedule(descent, count, UINT64_MAX, &schedule));
    if (!descent->least || schedule->arena_bytes < descent->least->arena_bytes) {
      delta_schedule_free(descent->least);
      descent->least = schedule;
    } else {
      delta_schedule_free(schedule);
    }
    if (count < 2 || (double)descent->least->arena_bytes <= close_enough * (double)descent->moves.items[count - 2].peak_bytes) break;
    --count;
  }
  return DELTA_OK;
}

delta_status_t delta_descent_init(delta_descent_t *descent, const delta_problem_t *problem, const delta_order_t *order, bool is_hasty,
                                  delta_allocator_t allocator) {
  *descent = (delta_descent_t){.problem = problem, .order = order, .is_hasty = is_hasty, .allocator = allocator};
  delta_status_t status = go_down(descent);
  if (!status) status = find_least(descent);
  if (status) delta_descent_deinit(descent);
  return status;
}

void delta_descent_deinit(delta_descent_t *descent) {
  if (!descent->problem) return;
  delta_array_deinit(descent->allocator, &descent->moves);
  delta_schedule_free(descent->least);
  *descent = (delta_descent_t){0};
}

delta_status_t delta_descent_stop(const delta_descent_t *descent, uint64_t capacity_bytes, delta_schedule_t **out_schedule) {
  size_t count = 1;
  while (count < descent->moves.count && descent->moves.items[count - 1].peak_bytes > capacity_bytes) ++count;
  for (int tried = 0; tried < MOST_STOP_LAYOUTS && count <= descent->moves.count; ++tried, ++count) {
    delta_schedule_t *schedule = NULL;
    DELTA_RETURN_IF_ERROR(make_schedule(descent, count, capacity_bytes, &schedule));
    if (schedule->arena_bytes <= capacity_bytes) {
      *out_schedule = schedule;
      return DELTA_OK;
    }
    delta_schedule_free(schedule);
  }
  return delta_schedule_copy(descent->least, descent->allocator, out_schedule);
}
