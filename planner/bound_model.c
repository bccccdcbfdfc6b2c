#include "planner/bound_model.h"

#include <math.h>
#include <stdlib.h>

#include "planner/bound_sums.h"

#define NONE DELTA_PROBLEM_NONE

// Each part has two cuts; the first and the last are the order's ends.
enum { PARTS_MAX = (DELTA_BOUND_CUTS_MAX - 2) / 2 };

// Places [begin, end) of a gap, and with takes_first the one before, where its tensor is used for the last time but may give its bytes to a result.
typedef struct place_gap {
  uint32_t tensor, begin, end;
  bool takes_first;
} place_gap_t;

typedef struct model_builder {
  const delta_problem_t *problem;
  const delta_order_t *order;
  delta_region_t *region;
  delta_bound_model_t *model;
  // By tensor; places of the order:
  uint32_t *previous;    // of its last use so far, plus one; 0: none yet
  uint32_t *last_use;    // the number of places for what is needed at the end
  uint32_t *overwritten; // of a state: where its new value is written; the number of places: never
  uint32_t *producer;    // the step that makes it, or NONE
  uint32_t *produced;    // the first place at which it is there; 0 for those that begin there
  // By place:
  int64_t *crossing_bytes; // of tensors made or used before that are used later, but not there; as differences
  int64_t *need_bytes;
  uint32_t *next_cut; // the first cut, but for cut 0, at the place or after it
  place_gap_t *gaps;  // of tensors that may be gone
  uint32_t gap_count;
  uint64_t gap_places; // of all gaps
  double *work_sums;   // by place: of the steps before it
  double work_sum;     // up to the last cut so far
} model_builder_t;

bool delta_bound_counts(const delta_problem_tensor_t *tensor) {
  return !delta_problem_tensor_is_state(tensor) && !(tensor->flags & DELTA_TENSOR_BELOW);
}

static bool has_buffer(const delta_problem_tensor_t *tensor) { return !delta_problem_tensor_is_state(tensor); }

static const delta_problem_step_t *step_at(const model_builder_t *builder, uint32_t place) {
  return &builder->problem->steps[builder->order->steps[place]];
}

// ---- Bytes of steps

// Whether the output of pair `k` stands in an earlier pair, too.
static bool is_listed_before(const delta_problem_step_t *step, uint32_t k) {
  for (uint32_t i = 0; i < k; ++i) {
    if (step->inplace[i].output == step->inplace[k].output) return true;
  }
  return false;
}

static int64_t sum_buffers(const delta_problem_t *problem, const uint32_t *tensors, uint32_t count) {
  int64_t bytes = 0;
  for (uint32_t k = 0; k < count; ++k) {
    if (has_buffer(&problem->tensors[tensors[k]])) bytes += (int64_t)problem->tensors[tensors[k]].size_bytes;
  }
  return bytes;
}

int64_t delta_bound_step_bytes(const delta_problem_t *problem, const delta_problem_step_t *step) {
  int64_t bytes = (int64_t)step->workspace_bytes + sum_buffers(problem, step->inputs, step->input_count);
  bytes += sum_buffers(problem, step->outputs, step->output_count);
  for (uint32_t k = 0; k < step->inplace_count; ++k) {
    if (!is_listed_before(step, k)) bytes -= sum_buffers(problem, &step->inplace[k].output, 1);
  }
  if (step->flags & DELTA_STEP_IN_ROW) bytes -= sum_buffers(problem, step->inputs, step->input_count);
  return bytes > 0 ? bytes : 0;
}

// Whether an input that dies at the place may give its bytes to the output.
static bool takes_dying(const model_builder_t *builder, const delta_problem_step_t *step, uint32_t place, uint32_t output) {
  for (uint32_t k = 0; k < step->inplace_count; ++k) {
    if (step->inplace[k].output == output && builder->last_use[step->inplace[k].input] == place) return true;
  }
  return false;
}

// What an input saves that is used later and yet gives its bytes to an output, since it will be gone for a time.
static int64_t saved_by(const model_builder_t *builder, uint32_t place, uint32_t input) {
  const delta_problem_step_t *step = step_at(builder, place);
  const int64_t size_bytes = sum_buffers(builder->problem, &input, 1);
  if (builder->last_use[input] == place) return 0;
  if (step->flags & DELTA_STEP_IN_ROW) return size_bytes;
  int64_t bytes = 0;
  for (uint32_t k = 0; k < step->inplace_count; ++k) {
    if (step->inplace[k].input == input && !takes_dying(builder, step, place, step->inplace[k].output)) bytes = size_bytes;
  }
  return bytes;
}

// Of what step_bytes leaves out, what counts unless an input is gone that is used later.
static int64_t lasting_bytes(const model_builder_t *builder, uint32_t place) {
  const delta_problem_step_t *step = step_at(builder, place);
  int64_t bytes = 0;
  if (step->flags & DELTA_STEP_IN_ROW) {
    for (uint32_t k = 0; k < step->input_count; ++k) bytes += saved_by(builder, place, step->inputs[k]);
    return bytes;
  }
  for (uint32_t k = 0; k < step->inplace_count; ++k) {
    const uint32_t output = step->inplace[k].output;
    if (!is_listed_before(step, k) && !takes_dying(builder, step, place, output)) bytes += sum_buffers(builder->problem, &output, 1);
  }
  return bytes;
}

// ---- Gaps

static bool may_go(const delta_problem_tensor_t *tensor) {
  return !(tensor->flags & DELTA_TENSOR_PINNED) && (!(tensor->flags & DELTA_TENSOR_STATE) || (tensor->flags & DELTA_TENSOR_BELOW));
}

static bool is_below_at_start(const delta_problem_tensor_t *tensor) {
  return (tensor->flags & DELTA_TENSOR_STATE) && (tensor->flags & DELTA_TENSOR_BELOW);
}

static bool goes_home(const delta_problem_tensor_t *tensor) {
  return tensor->becomes_state != NONE && (tensor->flags & DELTA_TENSOR_BELOW);
}

// What making a tensor again takes at least: a run of a step makes all its outputs; each is charged its part.
static double least_rebuild(const model_builder_t *builder, uint32_t tensor) {
  const delta_problem_t *problem = builder->problem;
  if (builder->producer[tensor] == NONE || problem->tensors[tensor].becomes_state != NONE) return INFINITY;
  const delta_problem_step_t *step = &problem->steps[builder->producer[tensor]];
  if (!(step->flags & DELTA_STEP_PURE)) return INFINITY;
  double bytes = 0;
  for (uint32_t k = 0; k < step->output_count; ++k) bytes += (double)problem->tensors[step->outputs[k]].size_bytes;
  return bytes > 0 ? step->seconds * (double)problem->tensors[tensor].size_bytes / bytes : 0;
}

static uint32_t find_rebuild_end(const model_builder_t *builder, uint32_t tensor) {
  uint32_t place = builder->model->places[builder->model->cut_count - 1];
  if (builder->producer[tensor] == NONE) return 0;
  const delta_problem_step_t *step = &builder->problem->steps[builder->producer[tensor]];
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (builder->overwritten[step->inputs[k]] < place) place = builder->overwritten[step->inputs[k]];
  }
  return builder->next_cut[place];
}

// The gap of a tensor between its last use and `end`: counted as long as there is no list.
static void add_gap(model_builder_t *builder, uint32_t tensor, uint32_t end) {
  const uint32_t begin = builder->previous[tensor];
  const delta_problem_tensor_t *t = &builder->problem->tensors[tensor];
  if (!has_buffer(t) || begin >= end) return;
  if (!builder->gaps) {
    const bool always_stays = !may_go(t) && !(is_below_at_start(t) && begin == 0);
    builder->crossing_bytes[begin] += may_go(t) || always_stays ? (int64_t)t->size_bytes : 0;
    builder->crossing_bytes[end] -= may_go(t) || always_stays ? (int64_t)t->size_bytes : 0;
    builder->gap_count += may_go(t);
    builder->gap_places += may_go(t) ? end - begin : 0;
  } else if (may_go(t)) {
    builder->gaps[builder->gap_count++] =
        (place_gap_t){.tensor = tensor, .begin = begin, .end = end, .takes_first = begin > 0 && saved_by(builder, begin - 1, tensor) > 0};
  }
}

// Walks through the order, gap by gap.
static void walk(model_builder_t *builder) {
  const delta_problem_t *problem = builder->problem;
  builder->gap_count = 0;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) builder->previous[t] = 0;
  for (uint32_t p = 0; p < builder->order->step_count; ++p) {
    const delta_problem_step_t *step = step_at(builder, p);
    for (uint32_t k = 0; k < step->input_count; ++k) {
      add_gap(builder, step->inputs[k], p);
      builder->previous[step->inputs[k]] = p + 1;
    }
    for (uint32_t k = 0; k < step->output_count; ++k) builder->previous[step->outputs[k]] = p + 1;
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (problem->tensors[t].flags & DELTA_TENSOR_OUTPUT) add_gap(builder, t, builder->order->step_count);
  }
}

static void index_tensors(model_builder_t *builder) {
  const delta_problem_t *problem = builder->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    builder->producer[t] = NONE;
    builder->overwritten[t] = builder->order->step_count;
  }
  for (uint32_t p = 0; p < builder->order->step_count; ++p) {
    const delta_problem_step_t *step = step_at(builder, p);
    for (uint32_t k = 0; k < step->input_count; ++k) builder->last_use[step->inputs[k]] = p;
    for (uint32_t k = 0; k < step->output_count; ++k) {
      const uint32_t tensor = step->outputs[k], state = problem->tensors[tensor].becomes_state;
      builder->producer[tensor] = builder->order->steps[p];
      builder->produced[tensor] = builder->last_use[tensor] = p + 1;
      if (state != NONE) builder->overwritten[state] = p;
    }
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (problem->tensors[t].flags & DELTA_TENSOR_OUTPUT) builder->last_use[t] = builder->order->step_count;
  }
}

static void find_needs(model_builder_t *builder, uint64_t capacity_bytes) {
  int64_t crossing_bytes = 0;
  for (uint32_t p = 0; p < builder->order->step_count; ++p) {
    crossing_bytes += builder->crossing_bytes[p];
    const int64_t own_bytes = delta_bound_step_bytes(builder->problem, step_at(builder, p)) + lasting_bytes(builder, p);
    builder->need_bytes[p] = crossing_bytes + own_bytes - (int64_t)capacity_bytes;
  }
}

// Places of all gaps: with more, what has to be gone is rounded up at cuts alone.
static const uint64_t gap_places_max = 400000;

// What has to be gone at a place, in whole tensors.
static void round_need(model_builder_t *builder, uint32_t place) {
  delta_bound_sums_t sums;
  if (builder->need_bytes[place] <= 0) return;
  delta_bound_sums_begin(&sums, builder->need_bytes[place]);
  for (uint32_t g = 0; g < builder->gap_count; ++g) {
    const place_gap_t *gap = &builder->gaps[g];
    if (gap->begin > place + gap->takes_first || gap->end <= place) continue;
    delta_bound_sums_add(&sums, (int64_t)builder->problem->tensors[gap->tensor].size_bytes);
  }
  builder->need_bytes[place] = delta_bound_sums_least(&sums, builder->need_bytes[place]);
}

// ---- Cuts

// A cut at a place whose step has run for done_seconds.
static void add_cut(model_builder_t *builder, uint32_t place, double done_seconds) {
  delta_bound_model_t *model = builder->model;
  const uint32_t cut = model->cut_count++;
  model->places[cut] = place;
  if (cut > 0) model->work_seconds[cut - 1] = builder->work_sums[place] + done_seconds - builder->work_sum;
  builder->work_sum = builder->work_sums[place] + done_seconds;
  if (cut == 0 || place == builder->order->step_count) return;
  model->need_bytes[cut] = (double)builder->need_bytes[place];
  model->rest_seconds[cut] = step_at(builder, place)->seconds - done_seconds;
}

// The neediest place of each of equal parts, where half of a place's weight is its time.
static void choose_cuts(model_builder_t *builder) {
  const uint32_t place_count = builder->order->step_count;
  const double total_seconds = builder->work_sums[place_count];
  uint32_t part_count = 0;
  add_cut(builder, 0, 0);
  for (uint32_t p = 0, best = 0; p < place_count && part_count < PARTS_MAX; ++p) {
    if (builder->need_bytes[p] > builder->need_bytes[best]) best = p;
    const double weight = 0.5 * (p + 1) / place_count + 0.5 * (total_seconds > 0 ? builder->work_sums[p + 1] / total_seconds : 1);
    if (p + 1 < place_count && weight * PARTS_MAX < part_count + 1) continue;
    if (builder->gap_places > gap_places_max) round_need(builder, best);
    add_cut(builder, best, 0);
    add_cut(builder, best, step_at(builder, best)->seconds);
    ++part_count;
    best = p + 1;
  }
  add_cut(builder, place_count, 0);
}

static void cut_order(model_builder_t *builder) {
  delta_bound_model_t *model = builder->model;
  const uint32_t place_count = builder->order->step_count;
  for (uint32_t p = 0; p < place_count; ++p) builder->work_sums[p + 1] = builder->work_sums[p] + step_at(builder, p)->seconds;
  choose_cuts(builder);
  for (uint32_t p = place_count + 1, cut = model->cut_count - 1; p-- > 0;) {
    while (cut > 1 && model->places[cut - 1] >= p) --cut;
    builder->next_cut[p] = cut;
  }
  for (uint32_t t = 0; t < builder->problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &builder->problem->tensors[t];
    if (goes_home(tensor))
      model->home_bytes[builder->next_cut[builder->produced[t]] - 1] += delta_problem_offload_bytes(builder->problem, tensor->size_bytes);
  }
}

static void fill_gap(const model_builder_t *builder, const place_gap_t *place, delta_bound_gap_t *gap) {
  const delta_problem_tensor_t *tensor = &builder->problem->tensors[place->tensor];
  const bool begins_below = is_below_at_start(tensor) && place->begin == 0;
  const uint32_t produced = builder->produced[place->tensor], due = builder->next_cut[place->end];
  *gap = (delta_bound_gap_t){
      .tensor = place->tensor,
      .first = begins_below ? 0 : builder->next_cut[place->begin - place->takes_first],
      .last = due - 1,
      .due = due,
      .ready = produced > 0 ? builder->next_cut[produced] - 1 : 0,
      .rebuild_end = find_rebuild_end(builder, place->tensor),
      .bytes = (double)tensor->size_bytes,
      .out_bytes = delta_problem_offload_bytes(builder->problem, tensor->size_bytes),
      .back_bytes = delta_problem_prefetch_bytes(builder->problem, tensor->size_bytes),
      .rebuild_seconds = least_rebuild(builder, place->tensor),
      .has_copy = is_below_at_start(tensor) || goes_home(tensor),
      .begins_below = begins_below,
  };
}

static int compare_gaps(const void *a, const void *b) {
  const delta_bound_gap_t *left = a, *right = b;
  if (left->tensor != right->tensor) return left->tensor < right->tensor ? -1 : 1;
  return (left->last > right->last) - (left->last < right->last);
}

// ---- All of it

static void list_gaps(const model_builder_t *builder) {
  delta_bound_model_t *model = builder->model;
  for (uint32_t g = 0; g < builder->gap_count; ++g) {
    fill_gap(builder, &builder->gaps[g], &model->gaps[model->gap_count]);
    model->gap_count += model->gaps[model->gap_count].first <= model->gaps[model->gap_count].last;
  }
  if (model->gap_count > 1) qsort(model->gaps, model->gap_count, sizeof *model->gaps, compare_gaps);
}

static delta_status_t allocate(model_builder_t *builder) {
  const size_t tensors = builder->problem->tensor_count, places = (size_t)builder->order->step_count + 2;
  delta_bound_model_t *model = builder->model;
  uint32_t **const by_tensor[] = {&builder->previous, &builder->last_use, &builder->overwritten, &builder->producer, &builder->produced};
  for (size_t i = 0; i < sizeof by_tensor / sizeof *by_tensor; ++i)
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, tensors, by_tensor[i]));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, places, &builder->crossing_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, places, &builder->need_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, places, &builder->next_cut));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, places, &builder->work_sums));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, DELTA_BOUND_CUTS_MAX, &model->places));
  double **const by_cut[] = {&model->work_seconds, &model->rest_seconds, &model->need_bytes, &model->home_bytes};
  for (size_t i = 0; i < sizeof by_cut / sizeof *by_cut; ++i)
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(builder->region, DELTA_BOUND_CUTS_MAX, by_cut[i]));
  return DELTA_OK;
}

// Alone a copy has all of its direction's bandwidth; together both have the same part of theirs. So in a second both come to no more than one second or, together, twice that part.
static void set_lanes(const delta_problem_t *problem, delta_bound_model_t *model) {
  const double offload = problem->offload_bytes_per_second, prefetch = problem->prefetch_bytes_per_second;
  const double shared = problem->shared_bytes_per_second, together = offload + prefetch;
  const bool has_both = offload > 0 && prefetch > 0, is_shared = has_both && shared > 0 && shared < together;
  const double both = is_shared ? fmax(1, 2 * shared / together) : INFINITY;
  model->out_seconds[DELTA_BOUND_OFFLOAD] = has_both ? 1 / offload : INFINITY;
  model->back_seconds[DELTA_BOUND_PREFETCH] = has_both ? 1 / prefetch : INFINITY;
  model->out_seconds[DELTA_BOUND_BOTH] = is_shared ? 1 / (offload * both) : 0;
  model->back_seconds[DELTA_BOUND_BOTH] = is_shared ? 1 / (prefetch * both) : 0;
}

delta_status_t delta_bound_model_make(const delta_problem_t *problem, const delta_order_t *order, uint64_t capacity_bytes,
                                      delta_region_t *region, delta_bound_model_t *out_model) {
  *out_model = (delta_bound_model_t){0};
  model_builder_t builder = {.problem = problem, .order = order, .region = region, .model = out_model};
  DELTA_RETURN_IF_ERROR(allocate(&builder));
  set_lanes(problem, out_model);
  index_tensors(&builder);
  walk(&builder);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)builder.gap_count + 1, &builder.gaps));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, builder.gap_count, &out_model->gaps));
  walk(&builder);
  find_needs(&builder, capacity_bytes);
  for (uint32_t p = 0; p < order->step_count && builder.gap_places <= gap_places_max; ++p) round_need(&builder, p);
  cut_order(&builder);
  list_gaps(&builder);
  return DELTA_OK;
}
