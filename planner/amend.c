// Amend, for more room, for slow copies and for copies that fail: gaps with their prices, and which of them get another action.
#include "planner/amend_parts.h"

#include <math.h>
#include <stdlib.h>

#define NONE DELTA_PROBLEM_NONE

enum { CHUNKS = 4 };                   // the gaps that may be made again are tried in so many parts
enum { MOST_TRIES = 8 };               // tensors that make way for one that must stay
static const double LEAST_GAIN = 0.02; // of the time that is left: less is not worth it

// ---- Gaps

// The stay of a tensor before another: the last that was read, else the first, which was for nobody yet. NONE: there is none.
static uint32_t find_before(const delta_draft_t *draft, uint32_t after) {
  const delta_draft_buffer_t *buffers = draft->buffers.items;
  uint32_t read = NONE, first = NONE;
  for (uint32_t b = 0; b < draft->buffers.count; ++b) {
    const delta_buffer_t *stay = &buffers[b].entry;
    if (buffers[b].is_gone || stay->tensor != buffers[after].entry.tensor || stay->last_step >= buffers[after].entry.first_step) continue;
    if (stay->last_step > stay->first_step && (read == NONE || stay->last_step > buffers[read].entry.last_step)) read = b;
    if (first == NONE || stay->first_step < buffers[first].entry.first_step) first = b;
  }
  return read != NONE ? read : first;
}

static double copy_seconds(const delta_amender_t *amender, const delta_amend_gap_t *gap) {
  const delta_problem_t *problem = amender->options->problem;
  const size_t size_bytes = amender->draft.buffers.items[gap->after].entry.size_bytes;
  const double in_seconds = delta_problem_prefetch_seconds(problem, size_bytes);
  const double out_seconds = delta_problem_offload_seconds(problem, size_bytes);
  return gap->is_copied ? in_seconds : fmax(in_seconds, out_seconds);
}

// What making it again would take, by the director.
static delta_status_t price_rebuild(const delta_amender_t *amender, delta_amend_gap_t *gap) {
  const delta_schedule_t *schedule = amender->options->schedule;
  gap->rebuild_seconds = INFINITY;
  if (gap->before == NONE) return DELTA_OK;
  for (uint32_t a = 0; a < schedule->alternative_count; ++a) {
    const delta_alternative_t *known = &schedule->alternatives[a];
    if (known->after != gap->after) continue;
    gap->rebuild_seconds = known->rebuild_seconds;
    return DELTA_OK;
  }
  if (schedule->alternative_count > 0) return DELTA_OK; // the plan knows none
  return delta_director_rebuild(&amender->timeline, gap->before, amender->draft.allocator, &gap->rebuild_seconds);
}

// Whether a copy below that brought the gap's tensor there has run.
static bool is_copied(const delta_draft_t *draft, uint32_t after) {
  const uint32_t writer = delta_draft_writer(draft, after);
  for (uint32_t s = 0; s < draft->run_count; ++s) {
    const delta_schedule_step_t *step = &draft->steps.items[s];
    if (step->kind == DELTA_STEP_SWAP_OUT && step->host_offset_bytes == draft->steps.items[writer].host_offset_bytes) return true;
  }
  return false;
}

static bool is_wanted(const delta_draft_t *draft, uint32_t buffer) {
  if (draft->buffers.items[buffer].is_final) return true;
  for (uint32_t s = draft->run_count; s < draft->steps.count; ++s) {
    if (delta_draft_reads(&draft->steps.items[s], buffer)) return true;
  }
  return false;
}

// Lists what is still to come back, by when it does.
delta_status_t delta_amender_list_gaps(delta_amender_t *amender) {
  const delta_draft_t *draft = &amender->draft;
  amender->gaps.count = 0;
  for (uint32_t s = draft->run_count; s < draft->steps.count; ++s) {
    const delta_schedule_step_t *step = &draft->steps.items[s];
    for (uint32_t k = 0; k < step->output_count; ++k) {
      if (step->outputs[k] == NONE) continue;
      delta_amend_gap_t gap = {.after = step->outputs[k], .before = find_before(draft, step->outputs[k])};
      gap.is_swap = step->kind == DELTA_STEP_SWAP_IN;
      if ((gap.before == NONE && !gap.is_swap) || !is_wanted(draft, gap.after)) continue;
      gap.is_copied = gap.is_swap && is_copied(draft, gap.after);
      if (gap.is_swap) DELTA_RETURN_IF_ERROR(price_rebuild(amender, &gap));
      gap.seconds = gap.is_swap ? copy_seconds(amender, &gap) : amender->options->problem->steps[step->problem_step].seconds;
      gap.price = gap.seconds / (double)draft->buffers.items[gap.after].entry.size_bytes;
      DELTA_RETURN_IF_ERROR(delta_array_push(draft->allocator, &amender->gaps, &gap));
    }
  }
  return DELTA_OK;
}

// ---- Life

static delta_status_t open_amender(delta_amender_t *amender, const delta_amend_options_t *options, delta_allocator_t allocator) {
  *amender = (delta_amender_t){.options = options};
  DELTA_RETURN_IF_ERROR(
      delta_draft_init(&amender->draft, options->problem, options->schedule, options->has_run, options->capacity_bytes, allocator));
  amender->draft.dead_are_lost = options->dead_are_lost;
  if (options->host_limit_bytes > amender->draft.host_limit_bytes) amender->draft.host_limit_bytes = options->host_limit_bytes;
  for (uint32_t i = 0; i < options->taken_count; ++i) {
    DELTA_RETURN_IF_ERROR(delta_draft_reserve(&amender->draft, options->taken[i].offset_bytes, options->taken[i].size_bytes));
  }
  DELTA_RETURN_IF_ERROR(delta_timeline_init(&amender->timeline, options->problem, options->schedule, allocator));
  DELTA_RETURN_IF_ERROR(delta_draft_simulate(&amender->draft, &amender->found.seconds_before));
  amender->found.seconds = amender->found.seconds_before;
  amender->found.run_count = amender->draft.run_count;
  return DELTA_OK;
}

static void close_amender(delta_amender_t *amender) {
  delta_array_deinit(amender->draft.allocator, &amender->gaps);
  delta_timeline_deinit(&amender->timeline);
  delta_draft_deinit(&amender->draft);
}

// Where a step's buffers lie, in the words of a comparison.
static bool lies_as(const delta_schedule_t *a, uint32_t x, const delta_schedule_t *b, uint32_t y) {
  if (x == NONE || y == NONE) return x == y;
  return a->buffers[x].offset_bytes == b->buffers[y].offset_bytes && a->buffers[x].size_bytes == b->buffers[y].size_bytes;
}

static bool did_the_same(const delta_schedule_t *a, const delta_schedule_step_t *x, const delta_schedule_t *b,
                         const delta_schedule_step_t *y) {
  bool is_same = x->kind == y->kind && x->problem_step == y->problem_step && x->host_offset_bytes == y->host_offset_bytes &&
                 x->input_count == y->input_count && x->output_count == y->output_count && lies_as(a, x->workspace, b, y->workspace);
  for (uint32_t k = 0; k < x->input_count && is_same; ++k) is_same = lies_as(a, x->inputs[k], b, y->inputs[k]);
  for (uint32_t k = 0; k < x->output_count && is_same; ++k) is_same = lies_as(a, x->outputs[k], b, y->outputs[k]);
  return is_same;
}

// What has run is in the new schedule as it was.
static delta_status_t check_past(const delta_amender_t *amender, const delta_schedule_t *schedule) {
  const delta_schedule_t *before = amender->options->schedule;
  uint32_t at = 0;
  for (uint32_t s = 0; s < before->step_count && amender->options->has_run; ++s) {
    if (!amender->options->has_run[s]) continue;
    if (at >= schedule->step_count || !did_the_same(before, &before->steps[s], schedule, &schedule->steps[at]))
      return delta_status_make(INTERNAL, "a changed schedule does not begin with step %u, which has run", s);
    ++at;
  }
  return at == amender->draft.run_count
             ? DELTA_OK
             : delta_status_make(INTERNAL, "%u steps have run, a changed schedule knows %u", at, amender->draft.run_count);
}

delta_status_t delta_amender_take(delta_amender_t *amender, double seconds) {
  delta_schedule_t *schedule = NULL;
  DELTA_RETURN_IF_ERROR(delta_draft_finish(&amender->draft, &schedule));
  delta_status_t status = check_past(amender, schedule);
  if (status) {
    delta_schedule_free(schedule);
    return status;
  }
  delta_schedule_free(amender->found.schedule);
  amender->found = amender->counts;
  amender->found.schedule = schedule;
  amender->found.run_count = amender->draft.run_count;
  amender->found.seconds = seconds;
  return DELTA_OK;
}

delta_status_t delta_amend_by(const delta_amend_options_t *options, delta_allocator_t allocator,
                              delta_status_t (*change)(delta_amender_t *amender), delta_amendment_t *out_amendment) {
  delta_amender_t amender;
  delta_status_t status = open_amender(&amender, options, allocator);
  amender.counts.seconds_before = amender.found.seconds_before;
  if (!status && delta_draft_is_sound(&amender.draft)) status = change(&amender);
  close_amender(&amender);
  if (status) {
    delta_schedule_free(amender.found.schedule);
    amender.found = (delta_amendment_t){0};
  }
  *out_amendment = amender.found;
  return status;
}

// ---- Edits that are counted

static delta_status_t keep(delta_amender_t *amender, const delta_amend_gap_t *gap, bool *out_done) {
  *out_done = false;
  if (gap->before == NONE) return DELTA_OK;
  // The stay before may have been given up for one before that.
  const delta_draft_buffer_t *buffers = amender->draft.buffers.items;
  const uint32_t before = buffers[gap->before].is_gone ? find_before(&amender->draft, gap->after) : gap->before;
  if (before == NONE || buffers[gap->after].is_gone) return DELTA_OK;
  const size_t size_bytes = buffers[gap->after].entry.size_bytes;
  DELTA_RETURN_IF_ERROR(delta_draft_keep(&amender->draft, before, gap->after, out_done));
  if (!*out_done) return DELTA_OK;
  ++amender->counts.kept;
  amender->counts.kept_bytes += size_bytes;
  return DELTA_OK;
}

static delta_status_t rebuild(delta_amender_t *amender, const delta_amend_gap_t *gap, bool *out_done) {
  *out_done = false;
  if (!gap->is_swap || amender->draft.buffers.items[gap->after].is_gone || gap->rebuild_seconds == INFINITY) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_draft_rebuild(&amender->draft, gap->after, out_done));
  amender->counts.rebuilt += *out_done;
  return DELTA_OK;
}

// ---- More room

static int by_price(const void *a, const void *b) {
  const double x = ((const delta_amend_gap_t *)a)->price, y = ((const delta_amend_gap_t *)b)->price;
  if (x != y) return x < y ? 1 : -1;
  const uint32_t i = ((const delta_amend_gap_t *)a)->after, j = ((const delta_amend_gap_t *)b)->after;
  return (i > j) - (i < j);
}

static delta_status_t keep_all(delta_amender_t *amender) {
  bool is_done;
  DELTA_RETURN_IF_ERROR(delta_amender_list_gaps(amender));
  if (amender->gaps.count > 0) qsort(amender->gaps.items, amender->gaps.count, sizeof *amender->gaps.items, by_price);
  for (size_t i = 0; i < amender->gaps.count; ++i) DELTA_RETURN_IF_ERROR(keep(amender, &amender->gaps.items[i], &is_done));
  return DELTA_OK;
}

static delta_status_t relax(delta_amender_t *amender) {
  double seconds;
  DELTA_RETURN_IF_ERROR(keep_all(amender));
  if (amender->counts.kept == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_draft_simulate(&amender->draft, &seconds));
  return delta_amender_take(amender, seconds);
}

delta_status_t delta_amend_relax(const delta_amend_options_t *options, delta_allocator_t allocator, delta_amendment_t *out_amendment) {
  return delta_amend_by(options, allocator, relax, out_amendment);
}

// ---- Slow copies

static double ratio_of(const delta_amend_gap_t *gap) { return gap->seconds > 0 ? gap->rebuild_seconds / gap->seconds : INFINITY; }

static int by_ratio(const void *a, const void *b) {
  const double x = ratio_of(a), y = ratio_of(b);
  if (x != y) return x < y ? -1 : 1;
  const uint32_t i = ((const delta_amend_gap_t *)a)->after, j = ((const delta_amend_gap_t *)b)->after;
  return (i > j) - (i < j);
}

static delta_status_t take_if_faster(delta_amender_t *amender) {
  double seconds;
  DELTA_RETURN_IF_ERROR(delta_draft_simulate(&amender->draft, &seconds));
  return seconds < amender->found.seconds * (1 - LEAST_GAIN) ? delta_amender_take(amender, seconds) : DELTA_OK;
}

static delta_status_t hurry(delta_amender_t *amender) {
  bool is_done;
  DELTA_RETURN_IF_ERROR(keep_all(amender));
  if (amender->counts.kept > 0) DELTA_RETURN_IF_ERROR(take_if_faster(amender));
  if (amender->gaps.count > 0) qsort(amender->gaps.items, amender->gaps.count, sizeof *amender->gaps.items, by_ratio);
  const size_t chunk = amender->gaps.count / CHUNKS + 1;
  for (size_t i = 0; i < amender->gaps.count && ratio_of(&amender->gaps.items[i]) < 1; ++i) {
    DELTA_RETURN_IF_ERROR(rebuild(amender, &amender->gaps.items[i], &is_done));
    const bool is_end = i + 1 == amender->gaps.count || !(ratio_of(&amender->gaps.items[i + 1]) < 1);
    if ((i + 1) % chunk == 0 || is_end) DELTA_RETURN_IF_ERROR(take_if_faster(amender));
  }
  return DELTA_OK;
}

delta_status_t delta_amend_hurry(const delta_amend_options_t *options, delta_allocator_t allocator, delta_amendment_t *out_amendment) {
  return delta_amend_by(options, allocator, hurry, out_amendment);
}

// ---- Copies that fail

// Whether a gap's tensor has to do with a copy that failed: a slot that was not written, or cannot be read.
static bool is_refused(const delta_amender_t *amender, const delta_amend_gap_t *gap) {
  const delta_schedule_t *schedule = amender->options->schedule;
  const uint32_t tensor = amender->draft.buffers.items[gap->after].entry.tensor;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (!amender->options->is_refused[s] || step->kind == DELTA_STEP_RUN) continue;
    const uint32_t buffer = step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0];
    if (schedule->buffers[buffer].tensor == tensor) return true;
  }
  return false;
}

// A draft that still has a copy which was refused is no way out.
static bool has_refused(const delta_amender_t *amender) {
  const delta_draft_t *draft = &amender->draft;
  for (uint32_t s = draft->run_count; s < draft->steps.count; ++s) {
    const delta_schedule_step_t *step = &draft->steps.items[s];
    if (step->kind == DELTA_STEP_RUN) continue;
    const bool is_out = step->kind == DELTA_STEP_SWAP_OUT;
    const delta_amend_gap_t gap = {.after = is_out ? step->inputs[0] : step->outputs[0]};
    if (is_refused(amender, &gap)) return true;
  }
  return false;
}

// A gap is kept, if need be with others making way, or made again.
static delta_status_t close_gap(delta_amender_t *amender, const delta_amend_gap_t *gap) {
  bool is_done, has_way = true;
  DELTA_RETURN_IF_ERROR(keep(amender, gap, &is_done));
  if (!is_done) DELTA_RETURN_IF_ERROR(rebuild(amender, gap, &is_done));
  for (int tries = 0; tries < MOST_TRIES && !is_done && has_way && gap->before != NONE; ++tries) {
    const delta_draft_buffer_t *buffers = amender->draft.buffers.items;
    const uint32_t first = buffers[gap->before].entry.last_step, last = buffers[gap->after].entry.first_step;
    DELTA_RETURN_IF_ERROR(delta_amender_let_go(amender, gap->before, first, last, false, &has_way));
    if (has_way) DELTA_RETURN_IF_ERROR(keep(amender, gap, &is_done));
  }
  return DELTA_OK;
}

static delta_status_t avoid(delta_amender_t *amender) {
  DELTA_RETURN_IF_ERROR(delta_amender_list_gaps(amender));
  for (size_t i = 0; i < amender->gaps.count; ++i) {
    const delta_amend_gap_t *gap = &amender->gaps.items[i];
    if (gap->is_swap && is_refused(amender, gap)) DELTA_RETURN_IF_ERROR(close_gap(amender, gap));
  }
  if (amender->counts.kept + amender->counts.rebuilt == 0 || has_refused(amender)) return DELTA_OK;
  double seconds;
  DELTA_RETURN_IF_ERROR(delta_draft_simulate(&amender->draft, &seconds));
  return delta_amender_take(amender, seconds);
}

delta_status_t delta_amend_avoid(const delta_amend_options_t *options, delta_allocator_t allocator, delta_amendment_t *out_amendment) {
  return delta_amend_by(options, allocator, avoid, out_amendment);
}
