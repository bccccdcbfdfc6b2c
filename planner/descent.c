// Descent: the moves are remembered, schedules on the way are made again when they are asked for.
//
// An arena is not smaller than the peak, but may be larger. So the least arena is looked for among the places with the smallest peaks, and a place for a budget
// may have to be a little further down than its peak says. Both searches are bounded by a number of layouts.
#include "planner/descent.h"

#include <string.h>

enum { MOST_LEAST_LAYOUTS = 3, MOST_STOP_LAYOUTS = 3 };

delta_status_t delta_finish_schedule(const delta_problem_t *problem, delta_wait_rule_t rule, delta_allocator_t allocator,
                                     delta_schedule_t *schedule) {
  DELTA_RETURN_IF_ERROR(delta_layout(problem, schedule, allocator));
  DELTA_RETURN_IF_ERROR(delta_set_waits(schedule, rule, allocator));
  return delta_simulate(problem, schedule, allocator);
}

static delta_status_t go_down(delta_descent_t *descent) {
  delta_releaser_t releaser;
  DELTA_RETURN_IF_ERROR(delta_releaser_init(&releaser, descent->problem, descent->order, false, descent->allocator));
  delta_status_t status = DELTA_OK;
  for (bool found = true; found;) {
    const uint64_t before_bytes = releaser.schedule->peak_bytes;
    DELTA_GOTO_IF_ERROR(status, delta_releaser_advance(&releaser, &found), cleanup);
    // Of what is decided together, only the whole is known to lower the peak.
    for (size_t i = 0; found && i < releaser.taken.count; ++i) {
      const bool is_last = i + 1 == releaser.taken.count;
      const delta_descent_move_t move = {.decision = releaser.taken.items[i],
                                         .peak_bytes = is_last ? releaser.schedule->peak_bytes : before_bytes};
      DELTA_GOTO_IF_ERROR(status, delta_array_push(descent->allocator, &descent->moves, &move), cleanup);
    }
  }
cleanup:
  delta_releaser_deinit(&releaser);
  return status;
}

// ---- Schedules on the way

// Puts a move's decision into a sorted list that has room for it.
static void put_move(delta_decisions_t *decisions, const delta_decision_t *decision) {
  size_t at = decisions->count;
  while (at > 0 && (decisions->items[at - 1].tensor > decision->tensor ||
                    (decisions->items[at - 1].tensor == decision->tensor && decisions->items[at - 1].use >= decision->use))) {
    --at;
  }
  const bool is_listed =
      at < decisions->count && decisions->items[at].tensor == decision->tensor && decisions->items[at].use == decision->use;
  if (!is_listed) memmove(&decisions->items[at + 1], &decisions->items[at], (decisions->count++ - at) * sizeof *decisions->items);
  decisions->items[at] = *decision;
}

static delta_status_t finish_within(const delta_descent_t *descent, uint64_t capacity_bytes, delta_schedule_t *schedule) {
  DELTA_RETURN_IF_ERROR(delta_layout_within(schedule, capacity_bytes, false, descent->allocator));
  DELTA_RETURN_IF_ERROR(delta_set_waits(schedule, DELTA_WAIT_FOR_BYTES, descent->allocator));
  return delta_simulate(descent->problem, schedule, descent->allocator);
}

// The finished schedule after the first `move_count` moves; its addresses are the first that lie within the capacity.
static delta_status_t make_schedule(const delta_descent_t *descent, size_t move_count, uint64_t capacity_bytes,
                                    delta_schedule_t **out_schedule) {
  delta_decisions_t decisions = {.tail = DELTA_ACTION_REBUILD_DROP};
  delta_schedule_t *schedule = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(descent->allocator, move_count, &decisions.items));
  for (size_t i = 0; i < move_count; ++i) put_move(&decisions, &descent->moves.items[i].decision);
  delta_status_t status = delta_expand(descent->problem, descent->order, &decisions, descent->allocator, &schedule);
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

delta_status_t delta_descent_init(delta_descent_t *descent, const delta_problem_t *problem, const delta_order_t *order,
                                  delta_allocator_t allocator) {
  *descent = (delta_descent_t){.problem = problem, .order = order, .allocator = allocator};
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
