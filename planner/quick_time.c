// Quick time: the rule of evaluate.c about bytes, with the three lanes in one loop.
#include <math.h>
#include <string.h>

#include "planner/lanes.h"
#include "planner/quick.h"

#define NONE DELTA_PROBLEM_NONE

typedef struct quick_lane {
  const uint32_t *steps;
  size_t count, next;
  bool is_running;
} quick_lane_t;

typedef struct quick_run {
  delta_quick_t *quick;
  quick_lane_t lanes[DELTA_LANE_COUNT];
  delta_lane_clock_t compute, offload, prefetch;
  double now_seconds;
  double left_seconds; // of runs that have not started
} quick_run_t;

static bool partner_has_ended(const delta_quick_t *quick, uint32_t s) {
  const uint32_t partner = quick->steps.items[s].partner;
  return partner == NONE || quick->steps.items[partner].has_ended;
}

static bool has_room(const delta_quick_t *quick, uint32_t s, int64_t more_bytes) {
  return quick->capacity_bytes > INT64_MAX ||
         quick->live_bytes.items[s] + quick->early_bytes.items[s] + more_bytes <= (int64_t)quick->capacity_bytes;
}

static int64_t copied_bytes(const delta_quick_t *quick, uint32_t s) {
  return quick->buffers.items[quick->steps.items[s].subject].size_bytes;
}

// What was last used before step s only drains when the compute lane gets there.
static void move_cursor(delta_quick_t *quick, uint32_t s) {
  for (; quick->cursor < s; ++quick->cursor) {
    for (uint32_t q = quick->drain_starts.items[quick->cursor]; q != NONE; q = quick->drain_next.items[q]) {
      if (!quick->steps.items[q].has_ended) quick->draining_bytes += copied_bytes(quick, q);
    }
  }
}

static bool writes_over_copy(const delta_quick_t *quick, uint32_t s) {
  for (size_t i = quick->steps.items[s].first_pair; i < quick->pairs.count && quick->pairs.items[i].step == s; ++i) {
    const delta_quick_pair_t *pair = &quick->pairs.items[i];
    if (!pair->is_chosen) continue;
    const uint32_t copy = quick->residences[quick->buffers.items[pair->input].tensor].copy;
    if (copy != NONE && copy < s && !quick->steps.items[copy].has_ended) return true;
  }
  return false;
}

static bool may_run(delta_quick_t *quick, uint32_t s) {
  move_cursor(quick, s);
  return !writes_over_copy(quick, s) && partner_has_ended(quick, s) && has_room(quick, s, quick->draining_bytes);
}

// As the evaluator's: a copy that comes early fits wherever it waits.
static bool may_swap_in(delta_quick_t *quick, uint32_t s) {
  if (!partner_has_ended(quick, s)) return false;
  const uint32_t cursor = quick->cursor;
  if (s < cursor) return has_room(quick, cursor, quick->draining_bytes);
  const int64_t bytes = copied_bytes(quick, s);
  if (quick->blocked_copy != s) quick->blocked_step = s;
  quick->blocked_copy = s;
  while (quick->blocked_step > cursor && has_room(quick, quick->blocked_step - 1, bytes)) --quick->blocked_step;
  if (quick->blocked_step > cursor || !has_room(quick, cursor, bytes + quick->draining_bytes)) return false;
  for (uint32_t k = cursor; k < s; ++k) quick->early_bytes.items[k] += bytes;
  return true;
}

static bool start_lane(quick_run_t *run, int l) {
  quick_lane_t *lane = &run->lanes[l];
  if (lane->is_running || lane->next == lane->count) return lane->is_running;
  delta_quick_t *quick = run->quick;
  const uint32_t s = lane->steps[lane->next];
  switch (l) {
    case DELTA_LANE_COMPUTE:
      lane->is_running = may_run(quick, s);
      if (!lane->is_running) break;
      delta_lane_clock_start(&run->compute, quick->rows[quick->steps.items[s].subject].seconds, run->now_seconds);
      run->left_seconds -= quick->rows[quick->steps.items[s].subject].seconds;
      break;
    case DELTA_LANE_OFFLOAD:
      lane->is_running = partner_has_ended(quick, s);
      if (lane->is_running) delta_lane_clock_start(&run->offload, (double)copied_bytes(quick, s), run->now_seconds);
      break;
    default:
      lane->is_running = may_swap_in(quick, s);
      if (lane->is_running) delta_lane_clock_start(&run->prefetch, (double)copied_bytes(quick, s), run->now_seconds);
      break;
  }
  return lane->is_running;
}

static void end_step(delta_quick_t *quick, quick_lane_t *lane) {
  quick->steps.items[lane->steps[lane->next++]].has_ended = true;
  lane->is_running = false;
}

static void end_steps(quick_run_t *run) {
  delta_quick_t *quick = run->quick;
  quick_lane_t *compute = &run->lanes[DELTA_LANE_COMPUTE], *offload = &run->lanes[DELTA_LANE_OFFLOAD];
  const double now_seconds = run->now_seconds;
  if (compute->is_running && run->compute.end_seconds <= now_seconds) {
    end_step(quick, compute);
    delta_lane_clock_end(&run->compute);
    if (compute->next == compute->count) move_cursor(quick, (uint32_t)quick->steps.count);
  }
  if (offload->is_running && run->offload.end_seconds <= now_seconds) {
    const uint32_t s = offload->steps[offload->next];
    end_step(quick, offload);
    delta_lane_clock_end(&run->offload);
    if (quick->buffers.items[quick->steps.items[s].subject].last_step < quick->cursor) quick->draining_bytes -= copied_bytes(quick, s);
  }
  if (run->lanes[DELTA_LANE_PREFETCH].is_running && run->prefetch.end_seconds <= now_seconds) {
    end_step(quick, &run->lanes[DELTA_LANE_PREFETCH]);
    delta_lane_clock_end(&run->prefetch);
  }
}

static delta_status_t list_lanes(delta_quick_t *quick) {
  static const delta_lane_t lane_of[DELTA_STEP_KIND_COUNT] = {
      [DELTA_STEP_RUN] = DELTA_LANE_COMPUTE, [DELTA_STEP_SWAP_OUT] = DELTA_LANE_OFFLOAD, [DELTA_STEP_SWAP_IN] = DELTA_LANE_PREFETCH};
  const size_t step_count = quick->steps.count;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    quick->lanes[l].count = 0;
    DELTA_RETURN_IF_ERROR(delta_array_reserve(quick->allocator, &quick->lanes[l], step_count));
  }
  for (size_t s = 0; s < step_count; ++s) {
    const delta_lane_t l = lane_of[quick->steps.items[s].kind];
    quick->lanes[l].items[quick->lanes[l].count++] = (uint32_t)s;
  }
  return DELTA_OK;
}

static delta_status_t prepare_run(delta_quick_t *quick) {
  const size_t step_count = quick->steps.count;
  quick->early_bytes.count = quick->drain_starts.count = quick->drain_next.count = 0;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(quick->allocator, &quick->early_bytes, step_count + 1));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(quick->allocator, &quick->drain_starts, step_count));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(quick->allocator, &quick->drain_next, step_count));
  memset(quick->early_bytes.items, 0, (step_count + 1) * sizeof *quick->early_bytes.items);
  if (step_count > 0) memset(quick->drain_starts.items, 0xff, step_count * sizeof *quick->drain_starts.items);
  DELTA_RETURN_IF_ERROR(list_lanes(quick));
  for (size_t i = 0; i < quick->lanes[DELTA_LANE_OFFLOAD].count; ++i) {
    const uint32_t s = quick->lanes[DELTA_LANE_OFFLOAD].items[i], last = quick->buffers.items[quick->steps.items[s].subject].last_step;
    quick->drain_next.items[s] = quick->drain_starts.items[last];
    quick->drain_starts.items[last] = s;
  }
  quick->cursor = 0;
  quick->draining_bytes = 0;
  quick->blocked_copy = NONE;
  return DELTA_OK;
}

static bool has_finished(const quick_run_t *run) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    if (run->lanes[l].next < run->lanes[l].count) return false;
  }
  return true;
}

// Runs the lanes to their ends or to stop_seconds. Returns when the last step ends; INFINITY: later than that.
static double run_lanes(quick_run_t *run, double stop_seconds) {
  for (;;) {
    bool any_runs = start_lane(run, DELTA_LANE_COMPUTE);
    any_runs |= start_lane(run, DELTA_LANE_OFFLOAD);
    any_runs |= start_lane(run, DELTA_LANE_PREFETCH);
    if (!any_runs) return has_finished(run) ? run->now_seconds : INFINITY;
    delta_lane_clocks_share(run->quick->problem, run->now_seconds, &run->compute, &run->offload, &run->prefetch);
    run->now_seconds = fmin(run->compute.end_seconds, fmin(run->offload.end_seconds, run->prefetch.end_seconds));
    end_steps(run);
    if (run->now_seconds + run->left_seconds > stop_seconds) return INFINITY;
  }
}

delta_status_t delta_quick_time(delta_quick_t *quick, double stop_seconds, delta_evaluation_t *inout_evaluation) {
  if (!inout_evaluation->is_possible || inout_evaluation->excess_bytes > 0) return DELTA_OK;
  if (quick->run_seconds > stop_seconds) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(prepare_run(quick));
  quick_run_t run = {.quick = quick, .compute = delta_lane_clock_compute(), .left_seconds = quick->run_seconds};
  run.offload = delta_lane_clock_offload(quick->problem);
  run.prefetch = delta_lane_clock_prefetch(quick->problem);
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    run.lanes[l] = (quick_lane_t){.steps = quick->lanes[l].items, .count = quick->lanes[l].count};
    const bool is_copy = l != DELTA_LANE_COMPUTE && quick->lanes[l].count > 0;
    if (is_copy && !((l == DELTA_LANE_OFFLOAD ? run.offload : run.prefetch).full_rate > 0)) return DELTA_OK;
  }
  inout_evaluation->seconds = run_lanes(&run, stop_seconds);
  return DELTA_OK;
}
