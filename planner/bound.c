// Bound: what no plan of an order can do without, as the dual of a linear program.
//
// S_k is when interval k of the order begins in a plan. Between two cuts lies at least
//   - the work of the steps between them and of what is made again there:           S_k+1 - S_k >= work_k + rebuilds in k;
//   - the copies below of what exists only after the first and is gone at the last: S_j - S_i >= bytes / offload;
//   - the copies back of what was gone after the first and is used by the last:     S_j - S_i >= bytes / prefetch.
// At each step what is gone makes room: at least for what crosses it, with its own bytes, beyond the capacity. A plan that only has to meet this is not
// slower than a real one. The dual prices a byte at each watched place and puts a unit of flow through the cuts, each arc being one of the three
// lines. For given prices and flow the best for each tensor is found by itself, by walking through its gaps; what all of them come to is a bound.
//
// Prices and flow are found by play: tensors answer the mean of all prices and flows so far, these answer the mean of what the tensors did, each with its last
// answer counted twice, which makes the means approach the best of both at a rate of 1 / rounds (optimistic mirror descent: Rakhlin and Sridharan, 2013).
#include <math.h>
#include <string.h>

#include "planner/bound_dual.h"
#include "planner/bound_place.h"

enum { CUTS = DELTA_BOUND_CUTS_MAX, ROUNDS_MAX = 1000, ROUNDS_BETWEEN_VALUES = 25, VALUES_WITHOUT_GAIN = 6 };
// Of the work: less is no gain.
static const double least_gain = 1e-5;
// Visits of intervals in all rounds: about half a second.
static const double visits_max = 2e7;
// How fast each side moves: tensors and flow by seconds in units of the work, prices by what a byte costs to make again where most is needed.
static const double tensor_rate = 200, flow_rate = 100, price_rate = 0.03;

typedef struct bound_play {
  const delta_bound_model_t *model;
  delta_bound_dual_t *dual;
  delta_bound_vector_t *dual_sum, *dual_last, *primal_sum, *primal_last;
  double work_seconds, most_bytes, byte_seconds;
} bound_play_t;

static delta_status_t begin_play(const delta_bound_model_t *model, delta_region_t *region, bound_play_t *play) {
  double rebuilt_seconds = 0, bytes = 0;
  *play = (bound_play_t){.model = model};
  delta_bound_vector_t **const vectors[] = {&play->dual_sum, &play->dual_last, &play->primal_sum, &play->primal_last};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i) DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, 1, vectors[i]));
  DELTA_RETURN_IF_ERROR(delta_bound_dual_make(model, region, &play->dual));
  for (uint32_t k = 0; k + 1 < model->cut_count; ++k) {
    play->work_seconds += model->work_seconds[k];
    *delta_bound_compute(play->dual_last, k) = 1;
  }
  for (uint32_t w = 0; w < model->watched_count; ++w) play->most_bytes = fmax(play->most_bytes, model->need_bytes[model->watched[w]]);
  for (uint32_t g = 0; g < model->gap_count; ++g) {
    if (model->gaps[g].rebuild_seconds == INFINITY) continue;
    rebuilt_seconds += model->gaps[g].rebuild_seconds;
    bytes += model->gaps[g].bytes;
  }
  play->byte_seconds = rebuilt_seconds > 0 ? rebuilt_seconds / bytes : play->work_seconds / play->most_bytes;
  return DELTA_OK;
}

// log(exp(a) + exp(b))
static double log_add(double a, double b) { return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b)); }

// A unit of flow over all paths, each with a weight exponential in its length.
static void spread_flow(uint32_t cut_count, delta_bound_vector_t *lengths, double sharpness, delta_bound_vector_t *out_flow) {
  double weights[CUTS] = {0}, through[CUTS] = {0}; // logarithms of what all paths to a cut weigh; flow through it
  for (uint32_t j = 1; j < cut_count; ++j) {
    weights[j] = weights[j - 1] + sharpness * *delta_bound_compute(lengths, j - 1);
    for (uint32_t i = 0; i < j; ++i) {
      weights[j] = log_add(weights[j], weights[i] + sharpness * *delta_bound_offload(lengths, i, j));
      weights[j] = log_add(weights[j], weights[i] + sharpness * *delta_bound_prefetch(lengths, i, j));
    }
  }
  through[cut_count - 1] = 1;
  for (uint32_t j = cut_count - 1; j > 0; --j) {
    const double compute = through[j] * exp(weights[j - 1] + sharpness * *delta_bound_compute(lengths, j - 1) - weights[j]);
    *delta_bound_compute(out_flow, j - 1) = compute;
    through[j - 1] += compute;
    for (uint32_t i = 0; i < j; ++i) {
      const double offload = through[j] * exp(weights[i] + sharpness * *delta_bound_offload(lengths, i, j) - weights[j]);
      const double prefetch = through[j] * exp(weights[i] + sharpness * *delta_bound_prefetch(lengths, i, j) - weights[j]);
      *delta_bound_offload(out_flow, i, j) = offload;
      *delta_bound_prefetch(out_flow, i, j) = prefetch;
      through[i] += offload + prefetch;
    }
  }
}

static void add(delta_bound_vector_t *to, const delta_bound_vector_t *from) {
  for (size_t i = 0; i < DELTA_BOUND_NUMBERS; ++i) to->numbers[i] += from->numbers[i];
}

static void set_sum(delta_bound_vector_t *to, const delta_bound_vector_t *a, const delta_bound_vector_t *b, double scale) {
  for (size_t i = 0; i < DELTA_BOUND_NUMBERS; ++i) to->numbers[i] = (a->numbers[i] + b->numbers[i]) * scale;
}

static void play_round(bound_play_t *play, double round) {
  const delta_bound_model_t *model = play->model;
  delta_bound_vector_t *answered = &play->dual->point;
  set_sum(answered, play->dual_sum, play->dual_last, 1 / round);
  delta_bound_dual_mix(play->dual, tensor_rate / play->work_seconds * round, play->primal_last);
  add(play->primal_sum, play->primal_last);
  set_sum(answered, play->primal_sum, play->primal_last, 1); // the flow that follows takes its place
  const double price_step = price_rate * play->byte_seconds / play->most_bytes;
  spread_flow(model->cut_count, answered, flow_rate / play->work_seconds, play->dual_last);
  for (uint32_t w = 0; w < model->watched_count; ++w)
    *delta_bound_watched(play->dual_last, w) = fmax(0, price_step * *delta_bound_watched(answered, w));
  add(play->dual_sum, play->dual_last);
}

// Visits of intervals in a round, and the pairs of cuts.
static double count_visits(const delta_bound_model_t *model) {
  double visits = 4.0 * model->cut_count * model->cut_count;
  for (uint32_t g = 0; g < model->gap_count; ++g)
    visits += 1 + model->interval_of[model->gaps[g].end - 1] - model->interval_of[model->gaps[g].begin];
  return visits;
}

// The best value seen until it is enough, no longer rises, or the rounds are over.
static double play_to_end(bound_play_t *play, double enough_seconds) {
  const double rounds = fmin(ROUNDS_MAX, visits_max / count_visits(play->model));
  const delta_bound_vector_t none = {0};
  double best = -INFINITY;
  int without_gain = 0;
  for (int round = 1; round <= rounds && best < enough_seconds && without_gain < VALUES_WITHOUT_GAIN; ++round) {
    play_round(play, round);
    if (round % ROUNDS_BETWEEN_VALUES != 0 && round + 1 <= rounds) continue;
    set_sum(&play->dual->point, play->dual_sum, &none, 1.0 / round);
    const double value = delta_bound_dual_value(play->dual);
    without_gain = value > best + least_gain * play->work_seconds ? 0 : without_gain + 1;
    if (value > best) best = value;
  }
  return fmax(best, play->work_seconds);
}

// What rounding in sums of so many terms may add.
static const double rounding = 1e-9;

delta_status_t delta_lower_bound(const delta_problem_t *problem, const delta_order_t *order, uint64_t capacity_bytes, double enough_seconds,
                                 delta_allocator_t allocator, double *out_seconds) {
  DELTA_RETURN_IF_ERROR(delta_bound_by_place(problem, order, capacity_bytes, allocator, out_seconds));
  if (*out_seconds >= enough_seconds || capacity_bytes > INT64_MAX) return DELTA_OK;
  delta_region_t region;
  delta_bound_model_t model;
  bound_play_t play;
  delta_region_init(&region, allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_bound_model_make(problem, order, capacity_bytes, &region, &model), cleanup);
  if (model.watched_count == 0) goto cleanup; // nothing has to be gone
  DELTA_GOTO_IF_ERROR(status, begin_play(&model, &region, &play), cleanup);
  if (play.work_seconds > 0) *out_seconds = fmax(*out_seconds, play_to_end(&play, enough_seconds) * (1 - rounding));
cleanup:
  delta_region_deinit(&region);
  return status;
}
