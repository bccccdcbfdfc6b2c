// Release: tries changes of one gap on the whole schedule, and keeps what makes the fullest step less full.
#include "planner/release.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/live.h"

enum { ACTION_COUNT = DELTA_ACTION_REBUILD_DROP + 1 };

typedef struct release_offer {
  delta_decision_t decision;
  double seconds_per_byte;
} release_offer_t;
typedef DELTA_ARRAY(release_offer_t) release_offers_t;

// ---- Decisions

static size_t find_decision(const delta_releaser_t *releaser, uint32_t tensor, uint32_t use) {
  size_t low = 0, high = releaser->decisions.count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const delta_decision_t *item = &releaser->decisions.items[middle];
    if (item->tensor < tensor || (item->tensor == tensor && item->use < use)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static bool is_at(const delta_releaser_t *releaser, size_t at, uint32_t tensor, uint32_t use) {
  return at < releaser->decisions.count && releaser->decisions.items[at].tensor == tensor && releaser->decisions.items[at].use == use;
}

delta_action_t delta_releaser_action(const delta_releaser_t *releaser, uint32_t tensor, uint32_t use) {
  const size_t at = find_decision(releaser, tensor, use);
  if (is_at(releaser, at, tensor, use)) return releaser->decisions.items[at].action;
  const uint32_t uses = releaser->timeline.reader_starts[tensor + 1] - releaser->timeline.reader_starts[tensor];
  const uint32_t producer = releaser->timeline.producer[tensor];
  const bool is_pure = producer != DELTA_PROBLEM_NONE && (releaser->problem->steps[producer].flags & DELTA_STEP_PURE);
  const bool is_output = releaser->problem->tensors[tensor].flags & DELTA_TENSOR_OUTPUT;
  return use == uses && is_pure && !is_output ? releaser->tail : DELTA_ACTION_KEEP;
}

// Puts a decision into the list. Its room has been reserved.
static void put_decision(delta_releaser_t *releaser, const delta_decision_t *decision) {
  const size_t at = find_decision(releaser, decision->tensor, decision->use);
  delta_decision_t *items = releaser->decisions.items;
  if (!is_at(releaser, at, decision->tensor, decision->use)) {
    memmove(&items[at + 1], &items[at], (releaser->decisions.count++ - at) * sizeof *items);
  }
  items[at] = *decision;
}

// What puts the list back to how it was before a decision.
typedef struct decision_undo {
  delta_decision_t before;
  bool was_listed;
} decision_undo_t;

static decision_undo_t remember_decision(const delta_releaser_t *releaser, const delta_decision_t *decision) {
  const size_t at = find_decision(releaser, decision->tensor, decision->use);
  const bool was_listed = is_at(releaser, at, decision->tensor, decision->use);
  return (decision_undo_t){.before = was_listed ? releaser->decisions.items[at] : *decision, .was_listed = was_listed};
}

static void undo_decision(delta_releaser_t *releaser, const decision_undo_t *undo) {
  if (undo->was_listed) {
    put_decision(releaser, &undo->before);
    return;
  }
  const size_t at = find_decision(releaser, undo->before.tensor, undo->before.use);
  delta_decision_t *items = releaser->decisions.items;
  memmove(&items[at], &items[at + 1], (--releaser->decisions.count - at) * sizeof *items);
}

// ---- Schedules

static delta_status_t expand(const delta_releaser_t *releaser, delta_schedule_t **out_schedule) {
  const delta_decisions_t decisions = {.items = releaser->decisions.items,
                                       .count = releaser->decisions.count,
                                       .late_offload = releaser->late_offload,
                                       .tail = releaser->tail};
  return delta_expand(releaser->problem, releaser->order, &decisions, releaser->allocator, out_schedule);
}

static delta_status_t adopt_schedule(delta_releaser_t *releaser, delta_schedule_t *schedule) {
  delta_timeline_deinit(&releaser->timeline);
  delta_schedule_free(releaser->schedule);
  releaser->schedule = schedule;
  return delta_timeline_init(&releaser->timeline, releaser->problem, schedule, releaser->allocator);
}

// The schedule with one gap changed; NULL, and the list as it was, when that is impossible or needs more below than there is.
static delta_status_t try_decision(delta_releaser_t *releaser, const delta_decision_t *decision, delta_schedule_t **out_schedule) {
  *out_schedule = NULL;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(releaser->allocator, &releaser->decisions, 1));
  const decision_undo_t undo = remember_decision(releaser, decision);
  put_decision(releaser, decision);
  delta_status_t status = expand(releaser, out_schedule);
  if (!status && (*out_schedule)->host_bytes <= releaser->problem->host_budget_bytes) return DELTA_OK;
  undo_decision(releaser, &undo);
  if (!status) {
    delta_schedule_free(*out_schedule);
    *out_schedule = NULL;
    return DELTA_OK;
  }
  if (delta_status_code(status) != DELTA_STATUS_INVALID_ARGUMENT) return status;
  delta_status_free(status);
  return DELTA_OK;
}

delta_status_t delta_releaser_set(delta_releaser_t *releaser, const delta_decision_t *decision, bool *out_possible) {
  delta_schedule_t *schedule = NULL;
  DELTA_RETURN_IF_ERROR(try_decision(releaser, decision, &schedule));
  *out_possible = schedule != NULL;
  return schedule ? adopt_schedule(releaser, schedule) : DELTA_OK;
}

// Whether a schedule is less full than the one at hand: its peak is lower, or as high at fewer steps.
static delta_status_t is_less_full(const delta_releaser_t *releaser, const delta_schedule_t *schedule, bool *out_less) {
  const uint64_t peak_bytes = releaser->schedule->peak_bytes;
  *out_less = schedule->peak_bytes < peak_bytes;
  if (schedule->peak_bytes != peak_bytes) return DELTA_OK;
  int64_t *live_bytes = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(releaser->allocator, (size_t)schedule->step_count + 2, &live_bytes));
  delta_live_bytes(schedule, live_bytes);
  uint32_t before = 0, after = 0;
  for (uint32_t s = 0; s < releaser->schedule->step_count; ++s) before += releaser->timeline.live_bytes[s] == (int64_t)peak_bytes;
  for (uint32_t s = 0; s < schedule->step_count; ++s) after += live_bytes[s] == (int64_t)peak_bytes;
  delta_release(releaser->allocator, live_bytes);
  *out_less = after < before;
  return DELTA_OK;
}

// ---- Offers

// Gaps are numbered by tensor and use, the same for all schedules of the problem.
static bool *find_refusal(const delta_releaser_t *releaser, const delta_decision_t *decision) {
  const size_t gap = (size_t)releaser->timeline.reader_starts[decision->tensor] + decision->tensor + decision->use;
  return &releaser->is_refused[gap * ACTION_COUNT + (size_t)decision->action];
}

static delta_status_t add_offer(delta_releaser_t *releaser, const delta_gap_t *gap, delta_action_t action, double seconds,
                                release_offers_t *offers) {
  const release_offer_t offer = {.decision = {.tensor = gap->tensor, .use = gap->use, .action = action},
                                 .seconds_per_byte = seconds / (double)releaser->problem->tensors[gap->tensor].size_bytes};
  if (!(seconds < INFINITY) || *find_refusal(releaser, &offer.decision)) return DELTA_OK;
  return delta_array_push(releaser->allocator, offers, &offer);
}

// What could still be done with a gap, less and less held each time.
static delta_status_t offer_gap(delta_releaser_t *releaser, const delta_gap_t *gap, uint32_t step, release_offers_t *offers) {
  const delta_action_t action = delta_releaser_action(releaser, gap->tensor, gap->use);
  static const delta_price_t price = {.lane_share = 1};
  if (action == DELTA_ACTION_SWAP) return DELTA_OK;
  delta_gap_costs_t costs;
  DELTA_RETURN_IF_ERROR(delta_director_costs(&releaser->timeline, gap, step, &price, releaser->allocator, &costs));
  DELTA_RETURN_IF_ERROR(add_offer(releaser, gap, DELTA_ACTION_SWAP, costs.swap_seconds, offers));
  if (action == DELTA_ACTION_KEEP) {
    DELTA_RETURN_IF_ERROR(add_offer(releaser, gap, DELTA_ACTION_REBUILD_HOLD, costs.rebuild_seconds, offers));
  }
  if (action == DELTA_ACTION_REBUILD_HOLD) {
    DELTA_RETURN_IF_ERROR(add_offer(releaser, gap, DELTA_ACTION_REBUILD_DROP, 2 * costs.rebuild_seconds, offers));
  }
  return DELTA_OK;
}

// The fullest step belongs to a closure: what is made again before the next base step could be copied instead.
static delta_status_t offer_members(delta_releaser_t *releaser, uint32_t step, release_offers_t *offers) {
  const delta_timeline_t *timeline = &releaser->timeline;
  const delta_schedule_t *schedule = releaser->schedule;
  const uint32_t base = timeline->base_after[step];
  uint32_t s = step;
  while (s > 0 && timeline->base_after[s - 1] == base) --s;
  for (; s < base && s < schedule->step_count; ++s) {
    const delta_schedule_step_t *entry = &schedule->steps[s];
    for (uint32_t k = 0; k < entry->output_count && entry->kind == DELTA_STEP_RUN; ++k) {
      const uint32_t tensor = schedule->buffers[entry->outputs[k]].tensor;
      const delta_gap_t gap = {.tensor = tensor, .use = delta_timeline_uses(timeline, tensor, s), .buffer = entry->outputs[k]};
      DELTA_RETURN_IF_ERROR(offer_gap(releaser, &gap, s, offers));
    }
  }
  return DELTA_OK;
}

static int compare_offers(const void *left, const void *right) {
  const release_offer_t *a = left, *b = right;
  if (a->seconds_per_byte != b->seconds_per_byte) return a->seconds_per_byte < b->seconds_per_byte ? -1 : 1;
  if (a->decision.tensor != b->decision.tensor) return a->decision.tensor < b->decision.tensor ? -1 : 1;
  if (a->decision.use != b->decision.use) return a->decision.use < b->decision.use ? -1 : 1;
  return (int)a->decision.action - (int)b->decision.action;
}

static delta_status_t list_offers(delta_releaser_t *releaser, release_offers_t *offers) {
  const uint32_t step = releaser->schedule->peak_step;
  offers->count = 0;
  if (releaser->schedule->step_count == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_filter(&releaser->timeline, step, releaser->allocator, &releaser->gaps));
  for (size_t i = 0; i < releaser->gaps.count; ++i) DELTA_RETURN_IF_ERROR(offer_gap(releaser, &releaser->gaps.items[i], step, offers));
  if (releaser->timeline.base_after[step] != step) DELTA_RETURN_IF_ERROR(offer_members(releaser, step, offers));
  if (offers->count > 0) qsort(offers->items, offers->count, sizeof *offers->items, compare_offers);
  return DELTA_OK;
}

// The decisions of an offer for all parts of its tensor that have not got them yet.
static delta_status_t take_kin(delta_releaser_t *releaser, const delta_decision_t *decision) {
  const delta_action_t now = delta_releaser_action(releaser, decision->tensor, decision->use);
  delta_decision_t part = *decision;
  releaser->taken.count = 0;
  do {
    if (delta_releaser_action(releaser, part.tensor, part.use) == now)
      DELTA_RETURN_IF_ERROR(delta_array_push(releaser->allocator, &releaser->taken, &part));
    part.tensor = delta_problem_next_kin(releaser->problem, part.tensor);
  } while (part.tensor != decision->tensor);
  return DELTA_OK;
}

// Expands with all decisions of `taken`, and adopts the schedule if it is less full; else all is as it was.
static delta_status_t try_taken(delta_releaser_t *releaser, bool *out_helps) {
  delta_schedule_t *schedule = NULL;
  delta_status_t status = DELTA_OK;
  *out_helps = false;
  releaser->before.count = 0;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(releaser->allocator, &releaser->before, releaser->decisions.count));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(releaser->allocator, &releaser->decisions, releaser->taken.count));
  if (releaser->decisions.count > 0)
    memcpy(releaser->before.items, releaser->decisions.items, releaser->decisions.count * sizeof *releaser->decisions.items);
  releaser->before.count = releaser->decisions.count;
  for (size_t i = 0; i < releaser->taken.count; ++i) put_decision(releaser, &releaser->taken.items[i]);
  status = expand(releaser, &schedule);
  if (!status && schedule->host_bytes <= releaser->problem->host_budget_bytes) status = is_less_full(releaser, schedule, out_helps);
  if (*out_helps && !status) return adopt_schedule(releaser, schedule);
  if (releaser->before.count > 0)
    memcpy(releaser->decisions.items, releaser->before.items, releaser->before.count * sizeof *releaser->decisions.items);
  releaser->decisions.count = releaser->before.count;
  delta_schedule_free(schedule);
  if (delta_status_code(status) != DELTA_STATUS_INVALID_ARGUMENT) return status;
  delta_status_free(status);
  return DELTA_OK;
}

// Tries offers from the cheapest on until one helps: for all parts of a tensor, then for it alone.
static delta_status_t take_offer(delta_releaser_t *releaser, const release_offers_t *offers, bool *out_found) {
  for (size_t i = 0; i < offers->count; ++i) {
    const delta_decision_t *decision = &offers->items[i].decision;
    DELTA_RETURN_IF_ERROR(take_kin(releaser, decision));
    DELTA_RETURN_IF_ERROR(try_taken(releaser, out_found));
    if (!*out_found && releaser->taken.count > 1) {
      releaser->taken.count = 0;
      DELTA_RETURN_IF_ERROR(delta_array_push(releaser->allocator, &releaser->taken, decision));
      DELTA_RETURN_IF_ERROR(try_taken(releaser, out_found));
    }
    *find_refusal(releaser, decision) = !*out_found;
    if (!*out_found) continue;
    releaser->was_accepted = true;
    return DELTA_OK;
  }
  return DELTA_OK;
}

static size_t refusal_count(const delta_releaser_t *releaser) {
  const uint32_t tensor_count = releaser->problem->tensor_count;
  return ((size_t)releaser->timeline.reader_starts[tensor_count] + tensor_count) * ACTION_COUNT;
}

delta_status_t delta_releaser_advance(delta_releaser_t *releaser, bool *out_found) {
  release_offers_t offers = {0};
  delta_status_t status = DELTA_OK;
  *out_found = false;
  for (;;) {
    DELTA_GOTO_IF_ERROR(status, list_offers(releaser, &offers), cleanup);
    DELTA_GOTO_IF_ERROR(status, take_offer(releaser, &offers, out_found), cleanup);
    if (*out_found || !releaser->was_accepted) break;
    // What did not help before may help after what was done since.
    memset(releaser->is_refused, 0, refusal_count(releaser) * sizeof *releaser->is_refused);
    releaser->was_accepted = false;
  }
cleanup:
  delta_array_deinit(releaser->allocator, &offers);
  return status;
}

// ---- Life cycle

delta_status_t delta_releaser_init(delta_releaser_t *releaser, const delta_problem_t *problem, const delta_order_t *order,
                                   bool late_offload, delta_allocator_t allocator) {
  *releaser = (delta_releaser_t){
      .problem = problem, .order = order, .allocator = allocator, .late_offload = late_offload, .tail = DELTA_ACTION_REBUILD_DROP};
  delta_schedule_t *schedule = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, expand(releaser, &schedule), cleanup);
  DELTA_GOTO_IF_ERROR(status, adopt_schedule(releaser, schedule), cleanup);
  status = DELTA_ALLOCATE(allocator, refusal_count(releaser), &releaser->is_refused);
cleanup:
  if (status) delta_releaser_deinit(releaser);
  return status;
}

void delta_releaser_deinit(delta_releaser_t *releaser) {
  if (!releaser->problem) return;
  delta_array_deinit(releaser->allocator, &releaser->decisions);
  delta_array_deinit(releaser->allocator, &releaser->gaps);
  delta_array_deinit(releaser->allocator, &releaser->taken);
  delta_array_deinit(releaser->allocator, &releaser->before);
  delta_timeline_deinit(&releaser->timeline);
  delta_schedule_free(releaser->schedule);
  delta_release(releaser->allocator, releaser->is_refused);
  *releaser = (delta_releaser_t){0};
}
