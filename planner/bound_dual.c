#include "planner/bound_dual.h"

#include <math.h>
#include <string.h>

enum { CUTS = DELTA_BOUND_CUTS_MAX };

delta_status_t delta_bound_dual_make(const delta_bound_model_t *model, delta_region_t *region, delta_bound_dual_t **out_dual) {
  delta_bound_dual_t *dual = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, 1, &dual));
  dual->model = model;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)model->place_count + 1, &dual->price_sums));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)model->place_count + 1, &dual->gone_bytes));
  *out_dual = dual;
  return DELTA_OK;
}

// What a copy costs is the flow on all arcs that it lengthens: those out of an earlier cut and into a later one.
static void sum_prices(delta_bound_dual_t *dual) {
  const delta_bound_model_t *model = dual->model;
  const uint32_t n = model->cut_count;
  const bool may_swap = model->offload_seconds < INFINITY && model->prefetch_seconds < INFINITY;
  for (uint32_t i = 0; i < n; ++i) {
    double out_flow = 0, back_flow = 0;
    for (uint32_t j = n; j-- > 0;) {
      out_flow += *delta_bound_offload(&dual->point, i, j);
      back_flow += *delta_bound_prefetch(&dual->point, i, j);
      dual->out_prices[i][j] = may_swap ? out_flow * model->offload_seconds + (i > 0 ? dual->out_prices[i - 1][j] : 0) : INFINITY;
      dual->back_prices[i][j] = may_swap ? back_flow * model->prefetch_seconds + (i > 0 ? dual->back_prices[i - 1][j] : 0) : INFINITY;
    }
  }
  double sum = 0;
  for (uint32_t p = 0, w = 0; p <= model->place_count; ++p) {
    dual->price_sums[p] = sum;
    if (w < model->watched_count && model->watched[w] == p) sum += *delta_bound_watched(&dual->point, w++);
  }
}

// The places of a gap in an interval.
static uint32_t begin_in(const delta_bound_model_t *model, const delta_bound_gap_t *gap, uint32_t k) {
  return gap->begin > model->cuts[k] ? gap->begin : model->cuts[k];
}
static uint32_t end_in(const delta_bound_model_t *model, const delta_bound_gap_t *gap, uint32_t k) {
  return gap->end < model->cuts[k + 1] ? gap->end : model->cuts[k + 1];
}

typedef struct interval_costs {
  double saved;              // what its bytes are worth while it is gone
  double out, back, rebuild; // to have it below by the interval, and there again in it
} interval_costs_t;

static interval_costs_t price_interval(delta_bound_dual_t *dual, const delta_bound_gap_t *gap, uint32_t k) {
  return (interval_costs_t){
      .saved = gap->bytes * (dual->price_sums[end_in(dual->model, gap, k)] - dual->price_sums[begin_in(dual->model, gap, k)]),
      .out = gap->bytes * dual->out_prices[gap->ready][k + 1],
      .back = gap->bytes * dual->back_prices[k][gap->due],
      .rebuild = gap->rebuild_seconds < INFINITY ? gap->rebuild_seconds * *delta_bound_compute(&dual->point, k) : INFINITY,
  };
}

// --- the best for each tensor -------------------------------------------------------------------------------------------------------------------

// What a tensor has at a cut: itself, nothing, itself and a copy below, only the copy. The least cost of each.
typedef struct tensor_costs {
  double present, gone, copied, below;
} tensor_costs_t;

// The least cost of each state at the end of an interval. In it a tensor may go and come back more than once; what is saved counts once, for all of the interval.
static tensor_costs_t pass_interval(const tensor_costs_t *before, const interval_costs_t *c) {
  const double gone = fmin(before->present, before->gone), rebuilt = gone + c->rebuild;
  const double below = fmin(fmin(before->copied, before->below), fmin(before->present, rebuilt) + c->out);
  const double back = below + fmin(c->back, c->rebuild);
  return (tensor_costs_t){.present = fmin(before->present, rebuilt - c->saved),
                          .gone = gone - c->saved,
                          .copied = fmin(before->copied, back - c->saved),
                          .below = below - c->saved};
}

// Of the tensor whose gaps begin at *inout_gap, which goes on to the next tensor. Between gaps it is used, and so present.
static double pass_tensor(delta_bound_dual_t *dual, uint32_t *inout_gap) {
  const delta_bound_model_t *model = dual->model;
  tensor_costs_t costs = {.copied = INFINITY};
  const uint32_t tensor = model->gaps[*inout_gap].tensor;
  for (; *inout_gap < model->gap_count && model->gaps[*inout_gap].tensor == tensor; ++*inout_gap) {
    const delta_bound_gap_t *gap = &model->gaps[*inout_gap];
    costs.gone = costs.below = INFINITY;
    for (uint32_t k = model->interval_of[gap->begin]; k <= model->interval_of[gap->end - 1]; ++k) {
      const interval_costs_t interval = price_interval(dual, gap, k);
      costs = pass_interval(&costs, &interval);
    }
  }
  return fmin(costs.present, costs.copied);
}

double delta_bound_dual_value(delta_bound_dual_t *dual) {
  const delta_bound_model_t *model = dual->model;
  double value = 0;
  sum_prices(dual);
  for (uint32_t k = 0; k + 1 < model->cut_count; ++k) value += *delta_bound_compute(&dual->point, k) * model->work_seconds[k];
  for (uint32_t w = 0; w < model->watched_count; ++w) value += *delta_bound_watched(&dual->point, w) * model->need_bytes[model->watched[w]];
  for (uint32_t gap = 0; gap < model->gap_count;) value += pass_tensor(dual, &gap);
  return value;
}

// --- a mixture ----------------------------------------------------------------------------------------------------------------------------------

// Exponents beyond this say no more than it does, and their exponentials are numbers.
static const double exponent_limit = 300;

static double larger_finite(double most, double value) { return value < INFINITY ? fmax(most, fabs(value)) : most; }

// A gap by itself: the tensor stays, or leaves at the beginning and is made again in interval k, or leaves in interval a and is copied back in k >= a. The
// last costs what a costs and what k costs, so its weights are products, and sums over all a <= k are sums of sums.
static void mix_gap(delta_bound_dual_t *dual, const delta_bound_gap_t *gap, double sharpness) {
  const delta_bound_model_t *model = dual->model;
  const uint32_t first = model->interval_of[gap->begin], last = model->interval_of[gap->end - 1];
  double leaves[CUTS], returns[CUTS], rebuilds[CUTS], left[CUTS]; // costs, then weights
  double saved = 0, most = 1e-300;
  for (uint32_t k = first; k <= last; ++k) {
    const interval_costs_t c = price_interval(dual, gap, k);
    leaves[k] = c.out + saved;
    saved += c.saved;
    returns[k] = c.back - saved;
    rebuilds[k] = c.rebuild - saved;
    most = larger_finite(larger_finite(larger_finite(most, leaves[k]), returns[k]), rebuilds[k]);
  }
  const double sharp = fmin(sharpness, exponent_limit / most);
  double total = 1, left_before = 0;
  for (uint32_t k = first; k <= last; ++k) {
    leaves[k] = exp(-sharp * leaves[k]);
    returns[k] = exp(-sharp * returns[k]);
    rebuilds[k] = exp(-sharp * rebuilds[k]);
    left[k] = left_before += leaves[k];
    total += rebuilds[k] + left[k] * returns[k];
  }
  double returns_after = 0, rebuilds_after = 0; // parts of the whole, in this interval or later
  for (uint32_t k = last + 1; k-- > first;) {
    const double returned = left[k] * returns[k] / total, rebuilt = rebuilds[k] / total;
    returns_after += returns[k] / total;
    rebuilds_after += rebuilt;
    const double gone_bytes = (left[k] * returns_after + rebuilds_after) * gap->bytes;
    dual->gone_bytes[begin_in(model, gap, k)] += gone_bytes;
    dual->gone_bytes[end_in(model, gap, k)] -= gone_bytes;
    if (left[k] > 0) dual->out_seconds[gap->ready][k + 1] += leaves[k] * returns_after * gap->bytes * model->offload_seconds;
    if (returned > 0) dual->back_seconds[k][gap->due] += returned * gap->bytes * model->prefetch_seconds;
    if (rebuilt > 0) dual->rebuilt_seconds[k] += rebuilt * gap->rebuild_seconds;
  }
}

// Copies from cut `ready` on to cut `gone` lengthen the arcs from every cut up to `ready` to every cut from `gone` on.
static void spread_copies(const delta_bound_dual_t *dual, double (*seconds)[CUTS], double *out_lengths) {
  const uint32_t n = dual->model->cut_count;
  for (uint32_t i = n - 1; i-- > 0;) {
    for (uint32_t j = 0; j < n; ++j) seconds[i][j] += seconds[i + 1][j];
  }
  for (uint32_t i = 0; i < n; ++i) {
    double sum = 0;
    for (uint32_t j = 0; j < n; ++j) out_lengths[i * CUTS + j] = sum += seconds[i][j];
  }
}

void delta_bound_dual_mix(delta_bound_dual_t *dual, double sharpness, delta_bound_vector_t *out_primal) {
  const delta_bound_model_t *model = dual->model;
  sum_prices(dual);
  memset(dual->gone_bytes, 0, ((size_t)model->place_count + 1) * sizeof *dual->gone_bytes);
  memset(dual->rebuilt_seconds, 0, sizeof dual->rebuilt_seconds);
  memset(dual->out_seconds, 0, sizeof dual->out_seconds);
  memset(dual->back_seconds, 0, sizeof dual->back_seconds);
  for (uint32_t g = 0; g < model->gap_count; ++g) mix_gap(dual, &model->gaps[g], sharpness);
  for (uint32_t k = 0; k + 1 < model->cut_count; ++k)
    *delta_bound_compute(out_primal, k) = model->work_seconds[k] + dual->rebuilt_seconds[k];
  spread_copies(dual, dual->out_seconds, delta_bound_offload(out_primal, 0, 0));
  spread_copies(dual, dual->back_seconds, delta_bound_prefetch(out_primal, 0, 0));
  double gone_bytes = 0;
  for (uint32_t p = 0, w = 0; w < model->watched_count; ++p) {
    gone_bytes += dual->gone_bytes[p];
    if (model->watched[w] == p) *delta_bound_watched(out_primal, w++) = model->need_bytes[p] - gone_bytes;
  }
}
