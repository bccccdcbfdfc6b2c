// Bound: what no plan of an order can do without, as the dual of a linear program.
//
// Everything is said of instants. T_k is when cut k comes in a plan: when a step runs for the first time, either right after its start or right before its end. At that
// instant whatever is in the arena, with what a copy is still reading or has begun to write, is within the capacity. So of the tensors that were made or used before and are
// used later some are gone then: they have no bytes of their own, neither as themselves nor as the source or the target of a copy under way. Their bytes come at least to what crosses the step, with
// the step's own bytes, beyond the capacity; rounded up to a sum of whole tensors, and none counts for more than all that is needed, since each is gone as a whole or not at all.
// Between two cuts lies at least
//   - the work of the steps between them, and of what is made again there: compute runs one step after another. Each output of a run is charged its part of the
//     bytes. While a step runs, between its own two cuts, nothing is made again:            T_k+1 - T_k >= work_k + rebuilds in k;
//   - the copies below of what does not exist at cut i and is gone at cut j: such a copy begins when the tensor is made, which is not before the step at i ends,
//     and has ended at j. New values of states that go home are copied by the last cut:   T_j - T_i >= rest of i's step + bytes / offload;
//   - the copies back of what is gone at i and used by j: such a copy begins after i, perhaps while its step runs, where a copy below has made room meanwhile, and ends before j:
//                                                                                          T_j - T_i >= bytes / prefetch;
//   - where the directions share a bandwidth, both kinds together: T_j - T_i >= (below / offload + back / prefetch) / max(1, 2 s), where s is the part of its bandwidth that
//     each has while both run. What is said of copies holds on each lane since it takes one at a time, and on both since in any second they come to no more than that.
// A plan that only has to meet this is not slower than a real one. Tensors may be gone in part here, which only lets it be faster. The dual prices a byte at each cut and
// puts a unit of flow through the cuts, each arc being one of the four lines. For given prices and flow the best for each tensor is found by itself, by walking through its
// gaps; what all of them come to is a bound.
//
// Prices and flow are found by play: tensors answer the mean of all prices and flows so far, these answer the mean of what the tensors did, each with its last
// answer counted twice, which makes the means approach the best of both at a rate of 1 / rounds (optimistic mirror descent: Rakhlin and Sridharan, 2013).
// The first rounds are far off: the bound is taken from means of the last ones alone.
#include <math.h>
#include <string.h>

#include "planner/bound_dual.h"
#include "planner/bound_place.h"

enum { CUTS = DELTA_BOUND_CUTS_MAX, ROUNDS_MAX = 2400, ROUNDS_BETWEEN_VALUES = 25, LEAST_WINDOW = 100 };
// A mean of the last rounds alone begins anew when they are this part of all.
static const double window_part = 0.25;
// Visits of cuts in all rounds: about half a second.
static const double visits_max = 1.2e7;
// Less is taken for nothing.
static const double exponent_least = -40;
// How fast each side moves: tensors and flow by seconds in units of the work, prices by what a byte costs to make again where most is needed.
static const double tensor_rate = 100, flow_rate = 300, price_rate = 0.3;

typedef struct bound_play {
  const delta_bound_model_t *model;
  delta_bound_dual_t *dual;
  delta_bound_vector_t *dual_sum, *dual_last, *primal_sum, *primal_last, *nothing;
  delta_bound_vector_t *window_sum; // of the last dual points
  double window_rounds;
  double work_seconds, most_bytes, byte_seconds;
} bound_play_t;

static delta_status_t begin_play(const delta_bound_model_t *model, delta_region_t *region, bound_play_t *play) {
  double rebuilt_seconds = 0, bytes = 0;
  *play = (bound_play_t){.model = model};
  delta_bound_vector_t **const vectors[] = {&play->dual_sum,    &play->dual_last, &play->primal_sum,
                                            &play->primal_last, &play->nothing,   &play->window_sum};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i) DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, 1, vectors[i]));
  DELTA_RETURN_IF_ERROR(delta_bound_dual_make(model, region, &play->dual));
  for (uint32_t k = 0; k + 1 < model->cut_count; ++k) {
    play->work_seconds += model->work_seconds[k];
    play->dual_last->work[k] = 1;
    play->most_bytes = fmax(play->most_bytes, model->need_bytes[k]);
  }
  for (uint32_t g = 0; g < model->gap_count; ++g) {
    if (model->gaps[g].rebuild_seconds == INFINITY) continue;
    rebuilt_seconds += model->gaps[g].rebuild_seconds;
    bytes += model->gaps[g].bytes;
  }
  play->byte_seconds = rebuilt_seconds > 0 ? rebuilt_seconds / bytes : play->work_seconds / play->most_bytes;
  return DELTA_OK;
}

// A unit of flow over all paths, each with a weight exponential in its length. For each cut: first the parts of what comes by each arc, then how much comes.
static void spread_flow(uint32_t cut_count, const delta_bound_vector_t *lengths, double sharpness, delta_bound_vector_t *out_flow) {
  double weights[CUTS] = {0}, sums[CUTS] = {0}, through[CUTS] = {0}; // logarithms of what all paths to a cut weigh
  for (uint32_t j = 1; j < cut_count; ++j) {
    const double by_work = weights[j - 1] + sharpness * lengths->work[j - 1];
    double most = by_work;
    for (int lane = 0; lane < DELTA_BOUND_LANES; ++lane) {
      for (uint32_t i = 0; i < j; ++i) most = fmax(most, weights[i] + sharpness * lengths->copies[lane][i][j]);
    }
    sums[j] = out_flow->work[j - 1] = exp(by_work - most);
    for (int lane = 0; lane < DELTA_BOUND_LANES; ++lane) {
      for (uint32_t i = 0; i < j; ++i) {
        const double exponent = weights[i] + sharpness * lengths->copies[lane][i][j] - most;
        sums[j] += out_flow->copies[lane][i][j] = exponent > exponent_least ? exp(exponent) : 0;
      }
    }
    weights[j] = most + log(sums[j]);
  }
  through[cut_count - 1] = 1;
  for (uint32_t j = cut_count - 1; j > 0; --j) {
    const double scale = through[j] / sums[j];
    through[j - 1] += out_flow->work[j - 1] *= scale;
    for (int lane = 0; lane < DELTA_BOUND_LANES; ++lane) {
      for (uint32_t i = 0; i < j; ++i) through[i] += out_flow->copies[lane][i][j] *= scale;
    }
  }
}

enum { NUMBERS = sizeof(delta_bound_vector_t) / sizeof(double) };

static void add(delta_bound_vector_t *to, const delta_bound_vector_t *from) {
  double *sums = (double *)to;
  const double *terms = (const double *)from;
  for (size_t i = 0; i < NUMBERS; ++i) sums[i] += terms[i];
}

static void set_sum(delta_bound_vector_t *to, const delta_bound_vector_t *a, const delta_bound_vector_t *b, double scale) {
  double *sums = (double *)to;
  const double *left = (const double *)a, *right = (const double *)b;
  for (size_t i = 0; i < NUMBERS; ++i) sums[i] = (left[i] + right[i]) * scale;
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
  for (uint32_t k = 0; k < model->cut_count; ++k) play->dual_last->bytes[k] = fmax(0, price_step * answered->bytes[k]);
  add(play->dual_sum, play->dual_last);
  add(play->window_sum, play->dual_last);
  ++play->window_rounds;
}

// Visits of cuts in a round, and the pairs of cuts.
static double count_visits(const delta_bound_model_t *model) {
  double visits = 4.0 * model->cut_count * model->cut_count;
  for (uint32_t g = 0; g < model->gap_count; ++g) visits += 1 + model->gaps[g].last - model->gaps[g].first;
  return visits;
}

// The best value seen until it is enough or the rounds are over.
static double play_to_end(bound_play_t *play, double enough_seconds) {
  const double rounds = fmin(ROUNDS_MAX, visits_max / count_visits(play->model));
  double best = play->work_seconds;
  for (int round = 1; round <= rounds && best < enough_seconds; ++round) {
    play_round(play, round);
    if (round % ROUNDS_BETWEEN_VALUES != 0 && round + 1 <= rounds) continue;
    set_sum(&play->dual->point, play->window_sum, play->nothing, 1 / play->window_rounds);
    best = fmax(best, delta_bound_dual_value(play->dual));
    if (play->window_rounds < LEAST_WINDOW || play->window_rounds < window_part * round) continue;
    memset(play->window_sum, 0, sizeof *play->window_sum);
    play->window_rounds = 0;
  }
  return best;
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
  DELTA_GOTO_IF_ERROR(status, begin_play(&model, &region, &play), cleanup);
  if (play.work_seconds > 0 && play.most_bytes > 0) *out_seconds = fmax(*out_seconds, play_to_end(&play, enough_seconds) * (1 - rounding));
cleanup:
  delta_region_deinit(&region);
  return status;
}
