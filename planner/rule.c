// Rule: filter F = 1 / (bytes * staleness), the smallest goes; director D = time of both copies / time to make it again, over 1: rebuild.
#include "planner/rule.h"

// Tensors smaller than this part of the mean never go.
static const double least_part_of_mean = 0.01;
static const double unit_mistake = 1000;

typedef struct rule_walk {
  const delta_rule_t *rule;
  delta_releaser_t *releaser;
  double least_bytes;
} rule_walk_t;

static double find_least_bytes(const delta_problem_t *problem) {
  double sum_bytes = 0;
  uint32_t count = 0;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (delta_problem_tensor_is_state(&problem->tensors[t])) continue;
    sum_bytes += (double)problem->tensors[t].size_bytes;
    ++count;
  }
  return count > 0 ? least_part_of_mean * sum_bytes / count : 0;
}

// ---- What is over the budget

// Bytes that the trigger compares with the budget, by step: those of the step, or those it leaves behind.
static void count_bytes(const rule_walk_t *walk, int64_t *counted_bytes) {
  const delta_schedule_t *schedule = walk->releaser->schedule;
  for (uint32_t s = 0; s <= schedule->step_count; ++s) {
    counted_bytes[s] = walk->rule->as_released ? 0 : walk->releaser->timeline.live_bytes[s];
  }
  if (!walk->rule->as_released) return;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    counted_bytes[schedule->buffers[b].first_step] += (int64_t)schedule->buffers[b].size_bytes;
    counted_bytes[schedule->buffers[b].last_step] -= (int64_t)schedule->buffers[b].size_bytes;
  }
  for (uint32_t s = 0; s < schedule->step_count; ++s) counted_bytes[s + 1] += counted_bytes[s];
}

// Gaps of which one may go at a step.
static delta_status_t list_gaps(rule_walk_t *walk, uint32_t s) {
  delta_releaser_t *releaser = walk->releaser;
  if (!walk->rule->as_released) return delta_filter(&releaser->timeline, s, releaser->allocator, &releaser->gaps);
  releaser->gaps.count = 0;
  for (uint32_t b = 0; b < releaser->schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &releaser->schedule->buffers[b];
    if (buffer->tensor == DELTA_PROBLEM_NONE || buffer->first_step > s || buffer->last_step <= s) continue;
    const delta_gap_t gap = {.tensor = buffer->tensor, .use = delta_timeline_uses(&releaser->timeline, buffer->tensor, s), .buffer = b};
    DELTA_RETURN_IF_ERROR(delta_array_push(releaser->allocator, &releaser->gaps, &gap));
  }
  return DELTA_OK;
}

// ---- Filter

static bool may_go(const rule_walk_t *walk, const delta_gap_t *gap) {
  const delta_problem_tensor_t *tensor = &walk->releaser->problem->tensors[gap->tensor];
  const delta_action_t action = delta_releaser_action(walk->releaser, gap->tensor, gap->use);
  return !(tensor->flags & DELTA_TENSOR_INPUT) && (double)tensor->size_bytes >= walk->least_bytes &&
         (action == DELTA_ACTION_KEEP || action == DELTA_ACTION_REBUILD_HOLD);
}

// Seconds since a base step last read the tensor, or since it was made.
static double staleness(const delta_timeline_t *timeline, const delta_gap_t *gap, uint32_t s) {
  const uint32_t last_use = gap->use > 0 ? timeline->readers[timeline->reader_starts[gap->tensor] + gap->use - 1]
                                         : timeline->schedule->buffers[gap->buffer].first_step;
  return timeline->clock_seconds[s + 1] - timeline->clock_seconds[last_use];
}

static const delta_gap_t *pick_gap(const rule_walk_t *walk, uint32_t s) {
  const delta_gaps_t *gaps = &walk->releaser->gaps;
  const delta_gap_t *best = NULL;
  double best_score = -1;
  for (size_t i = 0; i < gaps->count; ++i) {
    if (!may_go(walk, &gaps->items[i])) continue;
    const double score = (double)walk->releaser->problem->tensors[gaps->items[i].tensor].size_bytes *
                         staleness(&walk->releaser->timeline, &gaps->items[i], s);
    if (score <= best_score) continue;
    best = &gaps->items[i];
    best_score = score;
  }
  return best;
}

// ---- Director

static delta_status_t choose_action(const rule_walk_t *walk, const delta_gap_t *gap, uint32_t s, delta_action_t *out_action) {
  const delta_releaser_t *releaser = walk->releaser;
  const delta_problem_t *problem = releaser->problem;
  static const delta_price_t price = {.lane_share = 1};
  delta_gap_costs_t costs;
  DELTA_RETURN_IF_ERROR(delta_director_costs(&releaser->timeline, gap, s, &price, releaser->allocator, &costs));
  const bool was_rebuilt = delta_releaser_action(releaser, gap->tensor, gap->use) == DELTA_ACTION_REBUILD_HOLD;
  bool rebuilds = costs.swap_seconds > costs.rebuild_seconds;
  if (walk->rule->as_released) {
    const uint32_t producer = releaser->timeline.producer[gap->tensor];
    const double producer_seconds = producer == DELTA_PROBLEM_NONE ? 0 : problem->steps[producer].seconds;
    const double copy_seconds = delta_problem_offload_seconds(problem, problem->tensors[gap->tensor].size_bytes);
    rebuilds = !was_rebuilt && 2 * copy_seconds > unit_mistake * producer_seconds;
  }
  *out_action = !rebuilds ? DELTA_ACTION_SWAP : was_rebuilt ? DELTA_ACTION_REBUILD_DROP : DELTA_ACTION_REBUILD_HOLD;
  return DELTA_OK;
}

// Lets one tensor go at a step that is over the budget. False in *out_gone when none may.
static delta_status_t evict_one(rule_walk_t *walk, uint32_t s, bool *out_gone) {
  *out_gone = false;
  DELTA_RETURN_IF_ERROR(list_gaps(walk, s));
  const delta_gap_t *picked = pick_gap(walk, s);
  if (!picked) return DELTA_OK;
  const delta_gap_t gap = *picked;
  delta_decision_t decision = {.tensor = gap.tensor, .use = gap.use};
  DELTA_RETURN_IF_ERROR(choose_action(walk, &gap, s, &decision.action));
  DELTA_RETURN_IF_ERROR(delta_releaser_set(walk->releaser, &decision, out_gone));
  if (*out_gone || decision.action == DELTA_ACTION_SWAP) return DELTA_OK;
  decision.action = DELTA_ACTION_SWAP;
  return delta_releaser_set(walk->releaser, &decision, out_gone);
}

// Lets a tensor go at the first step where one has to and may. False in *out_gone when there is none.
static delta_status_t evict_first(rule_walk_t *walk, uint64_t budget_bytes, bool *out_gone) {
  const delta_allocator_t allocator = walk->releaser->allocator;
  int64_t *counted_bytes = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, (size_t)walk->releaser->schedule->step_count + 1, &counted_bytes));
  count_bytes(walk, counted_bytes);
  delta_status_t status = DELTA_OK;
  *out_gone = false;
  // Once one is gone the schedule is another, with other steps.
  for (uint32_t s = 0; !status && !*out_gone && s < walk->releaser->schedule->step_count; ++s) {
    if ((uint64_t)counted_bytes[s] > budget_bytes) status = evict_one(walk, s, out_gone);
  }
  delta_release(allocator, counted_bytes);
  return status;
}

// What goes at a step changes only what comes after it, but adds copies and runs before: the walk begins again. Each time a gap is held less, so it ends.
delta_status_t delta_rule_apply(const delta_rule_t *rule, uint64_t budget_bytes, delta_releaser_t *releaser) {
  rule_walk_t walk = {.rule = rule, .releaser = releaser, .least_bytes = find_least_bytes(releaser->problem)};
  for (bool is_gone = true; is_gone;) DELTA_RETURN_IF_ERROR(evict_first(&walk, budget_bytes, &is_gone));
  return DELTA_OK;
}
