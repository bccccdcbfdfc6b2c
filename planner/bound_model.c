#include "planner/bound_model.h"

#include <math.h>
#include <stdlib.h>

#define NONE DELTA_PROBLEM_NONE

typedef struct model_builder {
  const delta_problem_t *problem;
  const delta_order_t *order;
  delta_region_t *region;
  delta_bound_model_t *model;
  uint32_t *previous;      // by tensor: the place of its last use so far, plus one; 0: none yet
  uint32_t *produced;      // by tensor: the first place at which it is there; 0 for those that begin there
  double *rebuild_seconds; // by tensor
  int64_t *crossing_bytes; // by place: of tensors made or used before that are used later, but not there
} model_builder_t;

bool delta_bound_counts(const delta_problem_tensor_t *tensor) {
  return !delta_problem_tensor_is_state(tensor) && !(tensor->flags & DELTA_TENSOR_BELOW);
}

static bool may_go(const delta_problem_tensor_t *tensor) { return !(tensor->flags & (DELTA_TENSOR_PINNED | DELTA_TENSOR_STATE)); }

// A run of a step makes all its outputs: each is charged its part.
static void share_rebuild(const delta_problem_t *problem, const delta_problem_step_t *step, double *rebuild_seconds) {
  double bytes = 0;
  for (uint32_t k = 0; k < step->output_count; ++k) bytes += (double)problem->tensors[step->outputs[k]].size_bytes;
  for (uint32_t k = 0; k < step->output_count && (step->flags & DELTA_STEP_PURE); ++k) {
    const uint32_t output = step->outputs[k];
    rebuild_seconds[output] = bytes > 0 ? step->seconds * (double)problem->tensors[output].size_bytes / bytes : 0;
  }
}

// The gap of a tensor between its last use and `end`.
static void add_gap(model_builder_t *builder, uint32_t tensor, uint32_t end, bool counts_only) {
  const uint32_t begin = builder->previous[tensor];
  const delta_problem_tensor_t *t = &builder->problem->tensors[tensor];
  if (!delta_bound_counts(t) || begin >= end) return;
  if (counts_only) {
    builder->crossing_bytes[begin] += (int64_t)t->size_bytes;
    builder->crossing_bytes[end] -= (int64_t)t->size_bytes;
    builder->model->gap_count += may_go(t);
  } else if (may_go(t)) {
    builder->model->gaps[builder->model->gap_count++] = (delta_bound_gap_t){
        .tensor = tensor, .begin = begin, .end = end, .bytes = (double)t->size_bytes, .rebuild_seconds = builder->rebuild_seconds[tensor]};
  }
}

// Walks through the order: once to count gaps and what crosses, once to list the gaps.
static void walk(model_builder_t *builder, bool counts_only) {
  const delta_problem_t *problem = builder->problem;
  const uint32_t place_count = builder->model->place_count;
  builder->model->gap_count = 0;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) builder->previous[t] = 0;
  for (uint32_t p = 0; p < place_count; ++p) {
    const delta_problem_step_t *step = &problem->steps[builder->order->steps[p]];
    for (uint32_t k = 0; k < step->input_count; ++k) {
      add_gap(builder, step->inputs[k], p, counts_only);
      builder->previous[step->inputs[k]] = p + 1;
    }
    for (uint32_t k = 0; k < step->output_count; ++k) {
      builder->previous[step->outputs[k]] = p + 1;
      builder->produced[step->outputs[k]] = p + 1;
    }
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (problem->tensors[t].flags & DELTA_TENSOR_OUTPUT) add_gap(builder, t, place_count, counts_only);
  }
}

int64_t delta_bound_step_bytes(const delta_problem_t *problem, const delta_problem_step_t *step) {
  int64_t bytes = (int64_t)step->workspace_bytes, pair_bytes = 0;
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (delta_bound_counts(&problem->tensors[step->inputs[k]])) bytes += (int64_t)problem->tensors[step->inputs[k]].size_bytes;
  }
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (delta_bound_counts(&problem->tensors[step->outputs[k]])) bytes += (int64_t)problem->tensors[step->outputs[k]].size_bytes;
  }
  for (uint32_t k = 0; k < step->inplace_count; ++k) {
    if (delta_bound_counts(&problem->tensors[step->inplace[k].input]))
      pair_bytes += (int64_t)problem->tensors[step->inplace[k].input].size_bytes;
  }
  for (uint32_t k = 0; (step->flags & DELTA_STEP_IN_ROW) && k < step->input_count; ++k) {
    pair_bytes += (int64_t)problem->tensors[step->inputs[k]].size_bytes;
  }
  return bytes > pair_bytes ? bytes - pair_bytes : 0;
}

static void find_needs(model_builder_t *builder, uint64_t capacity_bytes) {
  int64_t crossing_bytes = 0;
  for (uint32_t p = 0; p < builder->model->place_count; ++p) {
    crossing_bytes += builder->crossing_bytes[p];
    const int64_t own_bytes = delta_bound_step_bytes(builder->problem, &builder->problem->steps[builder->order->steps[p]]);
    builder->model->need_bytes[p] = (double)(crossing_bytes + own_bytes) - (double)capacity_bytes;
  }
}

static uint32_t neediest(const delta_bound_model_t *model, uint32_t begin, uint32_t end) {
  uint32_t best = begin;
  for (uint32_t p = begin; p < end; ++p) best = model->need_bytes[p] > model->need_bytes[best] ? p : best;
  return best;
}

// Cuts at equal parts of the work, and right before the fullest place: what is gone there has left before and comes back after.
static void cut_order(model_builder_t *builder) {
  delta_bound_model_t *model = builder->model;
  double total_seconds = 0, done_seconds = 0;
  for (uint32_t p = 0; p < model->place_count; ++p) total_seconds += builder->problem->steps[builder->order->steps[p]].seconds;
  const uint32_t fullest = neediest(model, 0, model->place_count);
  model->cuts[model->cut_count++] = 0;
  for (uint32_t p = 1; p < model->place_count; ++p) {
    done_seconds += builder->problem->steps[builder->order->steps[p - 1]].seconds;
    const bool is_due = done_seconds * (DELTA_BOUND_CUTS_MAX - 3) >= total_seconds * model->cut_count;
    if (is_due ? model->cut_count + 2 < DELTA_BOUND_CUTS_MAX : p == fullest) model->cuts[model->cut_count++] = p;
  }
  model->cuts[model->cut_count++] = model->place_count;
  for (uint32_t k = 0; k + 1 < model->cut_count; ++k) {
    for (uint32_t p = model->cuts[k]; p < model->cuts[k + 1]; ++p) {
      model->interval_of[p] = k;
      model->work_seconds[k] += builder->problem->steps[builder->order->steps[p]].seconds;
    }
  }
}

// The neediest place of each equal part of an interval, where anything is needed.
static void watch_places(delta_bound_model_t *model) {
  for (uint32_t k = 0; k + 1 < model->cut_count; ++k) {
    const uint32_t begin = model->cuts[k], count = model->cuts[k + 1] - begin;
    for (uint64_t part = 0; part < DELTA_BOUND_WATCHED_PER_INTERVAL; ++part) {
      const uint32_t first = begin + (uint32_t)(count * part / DELTA_BOUND_WATCHED_PER_INTERVAL);
      const uint32_t last = begin + (uint32_t)(count * (part + 1) / DELTA_BOUND_WATCHED_PER_INTERVAL);
      if (first >= last) continue;
      const uint32_t place = neediest(model, first, last);
      if (model->need_bytes[place] > 0) model->watched[model->watched_count++] = place;
    }
  }
}

static int compare_gaps(const void *a, const void *b) {
  const delta_bound_gap_t *left = a, *right = b;
  if (left->tensor != right->tensor) return left->tensor < right->tensor ? -1 : 1;
  return (left->begin > right->begin) - (left->begin < right->begin);
}

static void finish_gaps(model_builder_t *builder) {
  delta_bound_model_t *model = builder->model;
  if (model->gap_count > 1) qsort(model->gaps, model->gap_count, sizeof *model->gaps, compare_gaps);
  for (uint32_t g = 0; g < model->gap_count; ++g) {
    delta_bound_gap_t *gap = &model->gaps[g];
    const uint32_t produced = builder->produced[gap->tensor];
    gap->ready = produced < model->place_count ? model->interval_of[produced] : model->cut_count - 1;
    gap->due = gap->end < model->place_count ? model->interval_of[gap->end] : model->cut_count - 1;
    if (gap->end < model->place_count && model->cuts[gap->due] < gap->end) ++gap->due;
  }
}

static delta_status_t allocate(model_builder_t *builder) {
  const size_t tensors = builder->problem->tensor_count, places = (size_t)builder->order->step_count + 2;
  delta_bound_model_t *model = builder->model;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, tensors, &builder->previous));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, tensors, &builder->produced));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, tensors, &builder->rebuild_seconds));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, places, &builder->crossing_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, places, &model->interval_of));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, places, &model->need_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, DELTA_BOUND_CUTS_MAX, &model->cuts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, DELTA_BOUND_CUTS_MAX, &model->work_seconds));
  return DELTA_REGION_ALLOCATE(builder->region, DELTA_BOUND_CUTS_MAX * DELTA_BOUND_WATCHED_PER_INTERVAL, &model->watched);
}

static double seconds_for_byte(double bytes_per_second) { return bytes_per_second > 0 ? 1 / bytes_per_second : INFINITY; }

delta_status_t delta_bound_model_make(const delta_problem_t *problem, const delta_order_t *order, uint64_t capacity_bytes,
                                      delta_region_t *region, delta_bound_model_t *out_model) {
  *out_model = (delta_bound_model_t){.place_count = order->step_count,
                                     .offload_seconds = seconds_for_byte(problem->offload_bytes_per_second),
                                     .prefetch_seconds = seconds_for_byte(problem->prefetch_bytes_per_second)};
  model_builder_t builder = {.problem = problem, .order = order, .region = region, .model = out_model};
  DELTA_RETURN_IF_ERROR(allocate(&builder));
  for (uint32_t t = 0; t < problem->tensor_count; ++t) builder.rebuild_seconds[t] = INFINITY;
  for (uint32_t s = 0; s < problem->step_count; ++s) share_rebuild(problem, &problem->steps[s], builder.rebuild_seconds);
  walk(&builder, true);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, out_model->gap_count, &out_model->gaps));
  find_needs(&builder, capacity_bytes);
  walk(&builder, false);
  cut_order(&builder);
  watch_places(out_model);
  finish_gaps(&builder);
  return DELTA_OK;
}
