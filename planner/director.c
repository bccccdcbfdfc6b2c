// Director: prices. A swap costs its copies. A rebuild costs its closure: every step that makes something that is not there when the tensor is next needed.
#include "planner/director.h"

#include <math.h>

typedef DELTA_ARRAY(uint32_t) tensor_stack_t;

typedef struct closure_walk {
  const delta_timeline_t *timeline;
  delta_allocator_t allocator;
  uint32_t step; // before which the closure would run
  bool *is_seen; // by problem step
  tensor_stack_t pending;
  double seconds;
} closure_walk_t;

static double copy_back_seconds(const delta_timeline_t *timeline, uint32_t tensor) {
  return delta_problem_prefetch_seconds(timeline->problem, timeline->problem->tensors[tensor].size_bytes);
}

// Adds the run of a tensor's producer; what it reads and is not there follows.
static delta_status_t visit_producer(closure_walk_t *walk, uint32_t tensor) {
  const delta_timeline_t *timeline = walk->timeline;
  const uint32_t producer = timeline->producer[tensor];
  if (producer == DELTA_PROBLEM_NONE || !(timeline->problem->steps[producer].flags & DELTA_STEP_PURE)) {
    walk->seconds = INFINITY;
    return DELTA_OK;
  }
  if (walk->is_seen[producer]) return DELTA_OK;
  walk->is_seen[producer] = true;
  const delta_problem_step_t *step = &timeline->problem->steps[producer];
  walk->seconds += step->seconds;
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const uint32_t written_by = timeline->written_by[step->inputs[k]];
    if (written_by != DELTA_PROBLEM_NONE && written_by < walk->step) walk->seconds = INFINITY;
    if (!delta_timeline_is_resident(timeline, step->inputs[k], walk->step)) {
      DELTA_RETURN_IF_ERROR(delta_array_push(walk->allocator, &walk->pending, &step->inputs[k]));
    }
  }
  return DELTA_OK;
}

static delta_status_t walk_closure(closure_walk_t *walk, uint32_t tensor) {
  DELTA_RETURN_IF_ERROR(visit_producer(walk, tensor));
  while (walk->pending.count > 0 && walk->seconds < INFINITY) {
    const uint32_t missing = walk->pending.items[--walk->pending.count];
    if (walk->timeline->copied_by[missing] < walk->step) {
      walk->seconds += copy_back_seconds(walk->timeline, missing);
    } else {
      DELTA_RETURN_IF_ERROR(visit_producer(walk, missing));
    }
  }
  return DELTA_OK;
}

// The step for which a tensor that is released at `step` has to be back.
static uint32_t find_need(const delta_timeline_t *timeline, const delta_gap_t *gap) {
  const uint32_t next = timeline->reader_starts[gap->tensor] + gap->use;
  return next < timeline->reader_starts[gap->tensor + 1] ? timeline->readers[next] : timeline->schedule->buffers[gap->buffer].last_step;
}

static double swap_seconds(const delta_timeline_t *timeline, const delta_gap_t *gap, uint32_t step) {
  const double in_seconds = copy_back_seconds(timeline, gap->tensor);
  if (timeline->copied_by[gap->tensor] < step) return in_seconds;
  return in_seconds + delta_problem_offload_seconds(timeline->problem, timeline->problem->tensors[gap->tensor].size_bytes);
}

static delta_status_t rebuild_seconds(const delta_timeline_t *timeline, const delta_gap_t *gap, delta_allocator_t allocator,
                                      double *out_seconds) {
  closure_walk_t walk = {.timeline = timeline, .allocator = allocator, .step = find_need(timeline, gap)};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, timeline->problem->step_count, &walk.is_seen));
  delta_status_t status = walk_closure(&walk, gap->tensor);
  delta_release(allocator, walk.is_seen);
  delta_array_deinit(allocator, &walk.pending);
  *out_seconds = walk.seconds;
  return status;
}

delta_status_t delta_director_costs(const delta_timeline_t *timeline, const delta_gap_t *gap, uint32_t step, const delta_price_t *price,
                                    delta_allocator_t allocator, delta_gap_costs_t *out_costs) {
  out_costs->swap_seconds = swap_seconds(timeline, gap, step) * price->lane_share;
  return rebuild_seconds(timeline, gap, allocator, &out_costs->rebuild_seconds);
}

delta_status_t delta_director_rebuild(const delta_timeline_t *timeline, uint32_t buffer, delta_allocator_t allocator, double *out_seconds) {
  const delta_buffer_t *entry = &timeline->schedule->buffers[buffer];
  const delta_gap_t gap = {
      .tensor = entry->tensor, .use = delta_timeline_uses(timeline, entry->tensor, entry->last_step), .buffer = buffer};
  return rebuild_seconds(timeline, &gap, allocator, out_seconds);
}
