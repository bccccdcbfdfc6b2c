// When a step runs for the first time, its own bytes are there. Of what was made before and is used later, the capacity leaves room for a part; the rest X is below or will be
// made again. Bytes s that are below have been copied out before the step starts and come back after, the others cost at least the cheapest step for the bytes it makes. So
// the time is at least max(work before, s / offload) + max(work after + cost (X - s), s / prefetch) for the best s, and that for every step.
#include "planner/bound_place.h"

#include <math.h>

#include "planner/bound_model.h"

#define NONE DELTA_PROBLEM_NONE

typedef struct bound_tables {
  uint32_t *previous;      // by tensor: the place of its last use so far, plus one
  int64_t *crossing_bytes; // by place: bytes of tensors made or used before that are used later
} bound_tables_t;

static delta_status_t allocate_tables(const delta_problem_t *problem, const delta_order_t *order, delta_region_t *region,
                                      bound_tables_t *tables) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->tensor_count, &tables->previous));
  return DELTA_REGION_ALLOCATE(region, (size_t)order->step_count + 2, &tables->crossing_bytes);
}

// Adds the gap of a tensor between two places: it covers those in between.
static void cover_gap(const delta_problem_t *problem, bound_tables_t *tables, uint32_t tensor, uint32_t end) {
  const uint32_t begin = tables->previous[tensor]; // one after the use before
  if (!delta_bound_counts(&problem->tensors[tensor]) || begin >= end) return;
  tables->crossing_bytes[begin] += (int64_t)problem->tensors[tensor].size_bytes;
  tables->crossing_bytes[end] -= (int64_t)problem->tensors[tensor].size_bytes;
}

static void cover_gaps(const delta_problem_t *problem, const delta_order_t *order, bound_tables_t *tables) {
  for (uint32_t p = 0; p < order->step_count; ++p) {
    const delta_problem_step_t *step = &problem->steps[order->steps[p]];
    for (uint32_t k = 0; k < step->input_count; ++k) {
      cover_gap(problem, tables, step->inputs[k], p);
      tables->previous[step->inputs[k]] = p + 1;
    }
    for (uint32_t k = 0; k < step->output_count; ++k) tables->previous[step->outputs[k]] = p + 1;
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (problem->tensors[t].flags & DELTA_TENSOR_OUTPUT) cover_gap(problem, tables, t, order->step_count);
  }
  for (uint32_t p = 0; p < order->step_count; ++p) tables->crossing_bytes[p + 1] += tables->crossing_bytes[p];
}

// Seconds for a byte that is made again.
static double cheapest_rebuild(const delta_problem_t *problem) {
  double cheapest = INFINITY;
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_problem_step_t *step = &problem->steps[s];
    double bytes = 0;
    for (uint32_t k = 0; k < step->output_count; ++k) bytes += (double)problem->tensors[step->outputs[k]].size_bytes;
    if ((step->flags & DELTA_STEP_PURE) && bytes > 0) cheapest = fmin(cheapest, step->seconds / bytes);
  }
  return cheapest;
}

typedef struct bound_place {
  double before_seconds, after_seconds, bytes, rebuild, offload, prefetch; // seconds for a byte in the last three
} bound_place_t;

static double time_with(const bound_place_t *place, double swapped_bytes) {
  const double rebuilt_bytes = place->bytes - swapped_bytes;
  const double rebuild_seconds = rebuilt_bytes > 0 ? rebuilt_bytes * place->rebuild : 0;
  return fmax(place->before_seconds, swapped_bytes * place->offload) +
         fmax(place->after_seconds + rebuild_seconds, swapped_bytes * place->prefetch);
}

// The best split between copies and rebuilds. The time is convex in it and linear between the points where one side of a maximum takes over.
static double best_time(const bound_place_t *place) {
  const bool may_rebuild = place->rebuild < INFINITY, may_swap = place->offload < INFINITY && place->prefetch < INFINITY;
  if (!may_swap) return may_rebuild ? time_with(place, 0) : INFINITY;
  double best = time_with(place, place->bytes);
  if (!may_rebuild) return best;
  const double points[] = {0, place->before_seconds / place->offload,
                           (place->after_seconds + place->bytes * place->rebuild) / (place->prefetch + place->rebuild)};
  for (size_t i = 0; i < sizeof points / sizeof *points; ++i) {
    if (points[i] <= place->bytes) best = fmin(best, time_with(place, points[i]));
  }
  return best;
}

static double find_bound(const delta_problem_t *problem, const delta_order_t *order, uint64_t capacity_bytes,
                         const bound_tables_t *tables) {
  const double total_seconds = delta_problem_work_seconds(problem);
  double before_seconds = 0;
  double bound = total_seconds;
  bound_place_t place = {.rebuild = cheapest_rebuild(problem),
                         .offload = problem->offload_bytes_per_second > 0 ? 1 / problem->offload_bytes_per_second : INFINITY,
                         .prefetch = problem->prefetch_bytes_per_second > 0 ? 1 / problem->prefetch_bytes_per_second : INFINITY};
  for (uint32_t p = 0; p < order->step_count && capacity_bytes <= INT64_MAX; ++p) {
    const delta_problem_step_t *step = &problem->steps[order->steps[p]];
    const int64_t left_bytes = tables->crossing_bytes[p] + delta_bound_step_bytes(problem, step) - (int64_t)capacity_bytes;
    place.before_seconds = before_seconds;
    place.after_seconds = total_seconds - before_seconds;
    place.bytes = (double)(left_bytes < tables->crossing_bytes[p] ? left_bytes : tables->crossing_bytes[p]);
    if (left_bytes > 0) bound = fmax(bound, best_time(&place));
    before_seconds += step->seconds;
  }
  return bound;
}

delta_status_t delta_bound_by_place(const delta_problem_t *problem, const delta_order_t *order, uint64_t capacity_bytes,
                                    delta_allocator_t allocator, double *out_seconds) {
  delta_region_t region;
  bound_tables_t tables = {0};
  delta_region_init(&region, allocator);
  delta_status_t status = allocate_tables(problem, order, &region, &tables);
  if (!status) {
    cover_gaps(problem, order, &tables);
    *out_seconds = find_bound(problem, order, capacity_bytes, &tables);
  }
  delta_region_deinit(&region);
  return status;
}
