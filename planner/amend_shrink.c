// Amend, for less room: what has not begun moves within the capacity; where it finds no place the filter lists who is there, the director says what their leaving costs,
// and the cheapest for its bytes goes.
#include <math.h>
#include <stdlib.h>

#include "planner/amend_parts.h"

#define NONE DELTA_PROBLEM_NONE

enum { MOST_RELEASES = 64, MOST_TRIES = 4 };

// The draft as filter and director see it.
typedef struct draft_view {
  delta_schedule_t schedule; // Borrows the draft's steps.
  delta_buffer_t *buffers;   // Owned.
  delta_timeline_t timeline;
  delta_gaps_t gaps; // Owned.
} draft_view_t;

static delta_status_t open_view(const delta_draft_t *draft, draft_view_t *view) {
  *view = (draft_view_t){.schedule = {.steps = draft->steps.items,
                                      .step_count = (uint32_t)draft->steps.count,
                                      .buffer_count = (uint32_t)draft->buffers.count}};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(draft->allocator, draft->buffers.count, &view->buffers));
  for (size_t b = 0; b < draft->buffers.count; ++b) {
    const delta_draft_buffer_t *buffer = &draft->buffers.items[b];
    view->buffers[b] = buffer->entry;
    if (buffer->is_gone) view->buffers[b] = (delta_buffer_t){.tensor = NONE, .inplace_of = NONE};
  }
  view->schedule.buffers = view->buffers;
  return delta_timeline_init(&view->timeline, draft->problem, &view->schedule, draft->allocator);
}

static void close_view(const delta_draft_t *draft, draft_view_t *view) {
  if (view->timeline.schedule) delta_timeline_deinit(&view->timeline);
  delta_array_deinit(draft->allocator, &view->gaps);
  delta_release(draft->allocator, view->buffers);
}

static bool is_high(const delta_draft_t *draft, uint32_t b) {
  const delta_draft_buffer_t *buffer = &draft->buffers.items[b];
  const bool is_reserved = buffer->is_given && buffer->entry.tensor == NONE;
  return !buffer->is_gone && !is_reserved && buffer->is_placed &&
         (uint64_t)buffer->entry.offset_bytes + buffer->entry.size_bytes > draft->capacity_bytes;
}

// The last use of a buffer at a step or before it.
static uint32_t last_use(const delta_draft_t *draft, uint32_t buffer, uint32_t step) {
  uint32_t found = draft->buffers.items[buffer].entry.first_step;
  for (uint32_t s = found; s <= step && s < draft->steps.count; ++s) {
    if (delta_draft_reads(&draft->steps.items[s], buffer)) found = s;
  }
  return found;
}

// ---- Letting go

typedef struct leaving {
  delta_gap_t gap;
  bool rebuilds;
  double price; // seconds for a byte
} leaving_t;
typedef DELTA_ARRAY(leaving_t) leavings_t;

static int by_price(const void *a, const void *b) {
  const double x = ((const leaving_t *)a)->price, y = ((const leaving_t *)b)->price;
  if (x != y) return x < y ? -1 : 1;
  const uint32_t i = ((const leaving_t *)a)->gap.buffer, j = ((const leaving_t *)b)->gap.buffer;
  return (i > j) - (i < j);
}

// Who could leave at a step, the cheapest first.
static delta_status_t list_leavings(const delta_draft_t *draft, draft_view_t *view, uint32_t step, leavings_t *out_leavings) {
  static const delta_price_t price = {.lane_share = 1};
  out_leavings->count = 0;
  DELTA_RETURN_IF_ERROR(delta_filter(&view->timeline, step, draft->allocator, &view->gaps));
  for (size_t g = 0; g < view->gaps.count; ++g) {
    const delta_gap_t gap = view->gaps.items[g];
    delta_gap_costs_t costs;
    DELTA_RETURN_IF_ERROR(delta_director_costs(&view->timeline, &gap, step, &price, draft->allocator, &costs));
    const leaving_t leaving = {
        .gap = gap,
        .rebuilds = costs.rebuild_seconds < costs.swap_seconds,
        .price = fmin(costs.rebuild_seconds, costs.swap_seconds) / (double)draft->buffers.items[gap.buffer].entry.size_bytes};
    if (leaving.price < INFINITY) DELTA_RETURN_IF_ERROR(delta_array_push(draft->allocator, out_leavings, &leaving));
  }
  if (out_leavings->count > 0) qsort(out_leavings->items, out_leavings->count, sizeof *out_leavings->items, by_price);
  return DELTA_OK;
}

static delta_status_t release(delta_amender_t *amender, uint32_t buffer, uint32_t use, bool rebuilds, bool may_swap, bool *out_done) {
  DELTA_RETURN_IF_ERROR(delta_draft_release(&amender->draft, buffer, use, rebuilds || !may_swap, out_done));
  if (!*out_done && may_swap) {
    rebuilds = !rebuilds;
    DELTA_RETURN_IF_ERROR(delta_draft_release(&amender->draft, buffer, use, rebuilds, out_done));
  }
  amender->counts.swapped += *out_done && !rebuilds && may_swap;
  amender->counts.rebuilt += *out_done && (rebuilds || !may_swap);
  return DELTA_OK;
}

// The step between two at which most lives.
static uint32_t find_fullest(const draft_view_t *view, const delta_draft_t *draft, uint32_t first_step, uint32_t last_step) {
  uint32_t fullest = first_step > draft->run_count ? first_step : draft->run_count;
  for (uint32_t s = fullest; s <= last_step && s < draft->steps.count; ++s) {
    if (view->timeline.live_bytes[s] > view->timeline.live_bytes[fullest]) fullest = s;
  }
  return fullest;
}

delta_status_t delta_amender_let_go(delta_amender_t *amender, uint32_t except, uint32_t first_step, uint32_t last_step, bool may_swap,
                                    bool *out_done) {
  delta_draft_t *draft = &amender->draft;
  draft_view_t view;
  leavings_t leavings = {0};
  *out_done = false;
  delta_status_t status = open_view(draft, &view);
  const uint32_t step = status ? 0 : find_fullest(&view, draft, first_step, last_step);
  if (!status && step < draft->steps.count) status = list_leavings(draft, &view, step, &leavings);
  close_view(draft, &view);
  for (size_t i = 0; i < leavings.count && !status && !*out_done; ++i) {
    const leaving_t *leaving = &leavings.items[i];
    if (leaving->gap.buffer == except) continue;
    status = release(amender, leaving->gap.buffer, last_use(draft, leaving->gap.buffer, step), leaving->rebuilds, may_swap, out_done);
  }
  delta_array_deinit(draft->allocator, &leavings);
  return status;
}

// Lets one of those go that live while a buffer needs its place.
static delta_status_t let_one_go(delta_amender_t *amender, uint32_t buffer, bool *out_done) {
  const delta_buffer_t *entry = &amender->draft.buffers.items[buffer].entry;
  return delta_amender_let_go(amender, buffer, entry->first_step, entry->last_step, true, out_done);
}

// ---- Finding places

static uint32_t find_largest_high(const delta_draft_t *draft, const bool *is_stuck, bool is_pinned) {
  uint32_t found = NONE;
  for (uint32_t b = 0; b < draft->buffers.count; ++b) {
    const delta_draft_buffer_t *buffer = &draft->buffers.items[b];
    if (!is_high(draft, b) || buffer->is_pinned != is_pinned || is_stuck[b]) continue;
    if (found == NONE || buffer->entry.size_bytes > draft->buffers.items[found].entry.size_bytes) found = b;
  }
  return found;
}

// Those that are there already go at their next gap, and come back to another place, for which others may have to go.
static delta_status_t lower_pinned(delta_amender_t *amender, bool *is_stuck) {
  delta_draft_t *draft = &amender->draft;
  const uint32_t now = draft->run_count > 0 ? draft->run_count - 1 : 0;
  for (uint32_t b; (b = find_largest_high(draft, is_stuck, true)) != NONE;) {
    bool is_done = false, has_room = true;
    is_stuck[b] = true;
    for (int tries = 0; tries < MOST_TRIES && has_room && !is_done && draft->buffers.items[b].entry.last_step >= draft->run_count;
         ++tries) {
      DELTA_RETURN_IF_ERROR(release(amender, b, last_use(draft, b, now), false, true, &is_done));
      if (!is_done) DELTA_RETURN_IF_ERROR(let_one_go(amender, b, &has_room));
    }
  }
  return DELTA_OK;
}

static delta_status_t lower_others(delta_amender_t *amender, bool *is_stuck) {
  delta_draft_t *draft = &amender->draft;
  int releases = 0;
  for (uint32_t b; (b = find_largest_high(draft, is_stuck, false)) != NONE;) {
    if (delta_draft_place(draft, b) && !is_high(draft, b)) {
      ++amender->counts.moved;
      continue;
    }
    bool is_done = false;
    if (releases++ < MOST_RELEASES) DELTA_RETURN_IF_ERROR(let_one_go(amender, b, &is_done));
    if (!is_done) is_stuck[b] = true;
  }
  return DELTA_OK;
}

static uint32_t find_shrink_step(const delta_draft_t *draft) {
  uint32_t step = draft->run_count;
  for (uint32_t b = 0; b < draft->buffers.count; ++b) {
    const uint32_t after = draft->buffers.items[b].entry.last_step + 1;
    if (is_high(draft, b) && after > step) step = after;
  }
  return step;
}

static delta_status_t shrink(delta_amender_t *amender) {
  delta_draft_t *draft = &amender->draft;
  bool *is_stuck = NULL;
  // Those that come with edits lie within the capacity from the start.
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&draft->region, draft->buffers.count, &is_stuck));
  DELTA_RETURN_IF_ERROR(lower_others(amender, is_stuck));
  DELTA_RETURN_IF_ERROR(lower_pinned(amender, is_stuck));
  DELTA_RETURN_IF_ERROR(lower_others(amender, is_stuck));
  amender->counts.shrink_step = find_shrink_step(draft);
  if (amender->counts.shrink_step >= draft->steps.count) return DELTA_OK;
  double seconds;
  DELTA_RETURN_IF_ERROR(delta_draft_simulate(draft, &seconds));
  return delta_amender_take(amender, seconds);
}

delta_status_t delta_amend_shrink(const delta_amend_options_t *options, delta_allocator_t allocator, delta_amendment_t *out_amendment) {
  return delta_amend_by(options, allocator, shrink, out_amendment);
}
