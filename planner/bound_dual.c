#include "planner/bound_dual.h"

#include <math.h>
#include <string.h>

enum { CUTS = DELTA_BOUND_CUTS_MAX };
// Exponentials of less are nothing beside 1.
static const double exponent_least = -40;

delta_status_t delta_bound_dual_make(const delta_bound_model_t *model, delta_region_t *region, delta_bound_dual_t **out_dual) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, 1, out_dual));
  (*out_dual)->model = model;
  return DELTA_OK;
}

// What a copy costs is the flow on all arcs that it lengthens: those out of an earlier cut and into a later one.
static void sum_prices(delta_bound_dual_t *dual) {
  const delta_bound_model_t *model = dual->model;
  const delta_bound_vector_t *point = &dual->point;
  const uint32_t n = model->cut_count;
  const bool may_swap = model->out_seconds[DELTA_BOUND_OFFLOAD] < INFINITY;
  for (uint32_t i = 0; i < n; ++i) {
    double out = 0, back = 0;
    for (uint32_t j = n; j-- > 0;) {
      for (int lane = 0; lane < DELTA_BOUND_LANES; ++lane) {
        out += may_swap ? point->copies[lane][i][j] * model->out_seconds[lane] : INFINITY;
        back += may_swap ? point->copies[lane][i][j] * model->back_seconds[lane] : INFINITY;
      }
      dual->out_prices[i][j] = out + (i > 0 ? dual->out_prices[i - 1][j] : 0);
      dual->back_prices[i][j] = back + (i > 0 ? dual->back_prices[i - 1][j] : 0);
    }
  }
}

// What a gap saves at a cut: no more than is needed there, since a tensor goes as a whole.
static double saved_bytes(const delta_bound_model_t *model, const delta_bound_gap_t *gap, uint32_t cut) {
  return fmax(0, fmin(gap->bytes, model->need_bytes[cut]));
}

typedef struct cut_costs {
  double saved;              // what its bytes are worth while it is gone at the cut
  double out, back, rebuild; // to have it below by the cut, and there again after it
} cut_costs_t;

// While a step runs nothing is made again.
static double rebuild_price(const delta_bound_dual_t *dual, const delta_bound_gap_t *gap, uint32_t cut) {
  const uint32_t *places = dual->model->places;
  const bool may_rebuild = cut < gap->rebuild_end && gap->rebuild_seconds < INFINITY && places[cut] < places[cut + 1];
  return may_rebuild ? gap->rebuild_seconds * dual->point.work[cut] : INFINITY;
}

static cut_costs_t price_cut(const delta_bound_dual_t *dual, const delta_bound_gap_t *gap, uint32_t cut) {
  return (cut_costs_t){
      .saved = saved_bytes(dual->model, gap, cut) * dual->point.bytes[cut],
      .out = gap->has_copy ? 0 : gap->out_bytes * dual->out_prices[gap->ready][cut],
      .back = gap->back_bytes * dual->back_prices[cut][gap->due],
      .rebuild = rebuild_price(dual, gap, cut),
  };
}

// ---- The best for each tensor

// What a tensor has before a cut: itself, nothing, itself and a copy below, only the copy. The least cost of each.
typedef struct tensor_costs {
  double present, gone, copied, below;
} tensor_costs_t;

// The least cost of each state after a cut and the interval that follows.
static tensor_costs_t pass_cut(const tensor_costs_t *before, const cut_costs_t *c) {
  const double gone = fmin(before->present, before->gone) - c->saved;
  const double below = fmin(fmin(before->copied, before->below), before->present + c->out) - c->saved;
  return (tensor_costs_t){.present = fmin(before->present, gone + c->rebuild),
                          .gone = gone,
                          .copied = fmin(before->copied, below + fmin(c->back, c->rebuild)),
                          .below = below};
}

// Of the tensor whose gaps begin at *inout_gap, which goes on to the next tensor. Between gaps it is used, and so present.
static double pass_tensor(const delta_bound_dual_t *dual, uint32_t *inout_gap) {
  const delta_bound_model_t *model = dual->model;
  const uint32_t tensor = model->gaps[*inout_gap].tensor;
  tensor_costs_t costs = {.copied = model->gaps[*inout_gap].has_copy ? 0 : INFINITY};
  for (; *inout_gap < model->gap_count && model->gaps[*inout_gap].tensor == tensor; ++*inout_gap) {
    const delta_bound_gap_t *gap = &model->gaps[*inout_gap];
    if (gap->begins_below) costs.present = costs.copied = INFINITY;
    costs.gone = INFINITY;
    costs.below = gap->begins_below ? 0 : INFINITY;
    for (uint32_t cut = gap->first; cut <= gap->last; ++cut) {
      const cut_costs_t c = price_cut(dual, gap, cut);
      costs = pass_cut(&costs, &c);
    }
  }
  return fmin(costs.present, costs.copied);
}

// Each arc of copies below has what the step at the cut where it begins still runs: what exists only later is made by that step or after it.
static double value_of_copies(const delta_bound_dual_t *dual) {
  const delta_bound_model_t *model = dual->model;
  const uint32_t last = model->cut_count - 1;
  double value = 0;
  for (uint32_t i = 0; i < last; ++i) {
    if (model->home_bytes[i] > 0) value += model->home_bytes[i] * dual->out_prices[i][last];
    for (uint32_t j = i + 1; j <= last; ++j) value += dual->point.copies[DELTA_BOUND_OFFLOAD][i][j] * model->rest_seconds[i];
  }
  return value;
}

double delta_bound_dual_value(delta_bound_dual_t *dual) {
  const delta_bound_model_t *model = dual->model;
  sum_prices(dual);
  double value = value_of_copies(dual);
  for (uint32_t k = 0; k + 1 < model->cut_count; ++k)
    value += dual->point.work[k] * model->work_seconds[k] + dual->point.bytes[k] * model->need_bytes[k];
  for (uint32_t gap = 0; gap < model->gap_count;) value += pass_tensor(dual, &gap);
  return value;
}

// ---- A mixture

typedef struct gap_weights {
  double returns[CUTS], rebuilds[CUTS]; // by cut: logarithms of weights, then parts of the whole
  double left_before[CUTS];             // by cut: the part of what has left by then that had left before
} gap_weights_t;

static double exp_or_0(double exponent) { return exponent > exponent_least ? exp(exponent) : 0; }

// log(exp(a) + exp(b)), and the part of it that a is
static double log_add(double a, double b, double *out_part) {
  if (!(b > a + exponent_least)) {
    *out_part = a == -INFINITY ? 0 : 1;
    return a;
  }
  const double ratio = a > -INFINITY ? exp_or_0(a - b) : 0;
  *out_part = ratio / (1 + ratio);
  return b + log1p(ratio);
}

// A gap by itself: the tensor stays, or leaves at the beginning and is made again after cut k, or leaves at cut a and is copied back after k >= a. The last costs what a costs
// and what k costs, so its weights are products, and sums over all a <= k are sums of sums.
static void weigh_gap(const delta_bound_dual_t *dual, const delta_bound_gap_t *gap, double sharpness, gap_weights_t *w) {
  double saved = 0, left = -INFINITY, most = gap->begins_below ? -INFINITY : 0;
  for (uint32_t k = gap->first; k <= gap->last; ++k) {
    const cut_costs_t c = price_cut(dual, gap, k);
    const double leaves = gap->begins_below && k > gap->first ? INFINITY : c.out + saved;
    left = log_add(left, -sharpness * leaves, &w->left_before[k]);
    saved += c.saved;
    w->returns[k] = left - sharpness * (c.back - saved);
    w->rebuilds[k] = -sharpness * (c.rebuild - saved);
    most = fmax(most, fmax(w->returns[k], w->rebuilds[k]));
  }
  double total = gap->begins_below ? 0 : exp_or_0(-most);
  for (uint32_t k = gap->first; k <= gap->last; ++k) {
    w->returns[k] = exp_or_0(w->returns[k] - most);
    w->rebuilds[k] = exp_or_0(w->rebuilds[k] - most);
    total += w->returns[k] + w->rebuilds[k];
  }
  for (uint32_t k = gap->first; k <= gap->last; ++k) {
    w->returns[k] /= total;
    w->rebuilds[k] /= total;
  }
}

static void mix_gap(delta_bound_dual_t *dual, const delta_bound_gap_t *gap, double sharpness, delta_bound_vector_t *out_primal) {
  gap_weights_t w;
  weigh_gap(dual, gap, sharpness, &w);
  double below = 0, gone = 0; // parts of the whole at this cut
  for (uint32_t k = gap->last + 1; k-- > gap->first;) {
    below += w.returns[k];
    gone += w.rebuilds[k];
    out_primal->bytes[k] -= (below + gone) * saved_bytes(dual->model, gap, k);
    if (!gap->has_copy) dual->out_bytes[gap->ready][k] += below * (1 - w.left_before[k]) * gap->out_bytes;
    dual->back_bytes[k][gap->due] += w.returns[k] * gap->back_bytes;
    if (w.rebuilds[k] > 0) out_primal->work[k] += w.rebuilds[k] * gap->rebuild_seconds;
    below *= w.left_before[k];
  }
}

// Copies from cut `ready` on to cut `gone` lengthen the arcs from every cut up to `ready` to every cut from `gone` on.
static void spread_copies(const delta_bound_model_t *model, double (*bytes)[CUTS], const double *seconds,
                          delta_bound_vector_t *out_primal) {
  const uint32_t n = model->cut_count;
  for (uint32_t i = n - 1; i-- > 0;) {
    for (uint32_t j = 0; j < n; ++j) bytes[i][j] += bytes[i + 1][j];
  }
  for (uint32_t i = 0; i < n; ++i) {
    double sum = 0;
    for (uint32_t j = 0; j < n; ++j) {
      sum += bytes[i][j];
      for (int lane = 0; lane < DELTA_BOUND_LANES && sum > 0; ++lane) out_primal->copies[lane][i][j] += sum * seconds[lane];
    }
  }
}

void delta_bound_dual_mix(delta_bound_dual_t *dual, double sharpness, delta_bound_vector_t *out_primal) {
  const delta_bound_model_t *model = dual->model;
  const uint32_t last = model->cut_count - 1;
  sum_prices(dual);
  memset(out_primal, 0, sizeof *out_primal);
  memset(dual->out_bytes, 0, sizeof dual->out_bytes);
  memset(dual->back_bytes, 0, sizeof dual->back_bytes);
  for (uint32_t k = 0; k < last; ++k) {
    out_primal->work[k] = model->work_seconds[k];
    out_primal->bytes[k] = model->need_bytes[k];
    dual->out_bytes[k][last] = model->home_bytes[k];
    for (uint32_t j = k + 1; j <= last; ++j) out_primal->copies[DELTA_BOUND_OFFLOAD][k][j] = model->rest_seconds[k];
  }
  for (uint32_t g = 0; g < model->gap_count; ++g) mix_gap(dual, &model->gaps[g], sharpness, out_primal);
  spread_copies(model, dual->out_bytes, model->out_seconds, out_primal);
  spread_copies(model, dual->back_bytes, model->back_seconds, out_primal);
}
