// Gaps come from the buffers of a tensor in the order of their time; the step that begins a stay tells how the tensor came back.
#include "plans/view.h"

#include <string.h>

#include "base/escape.h"

const char *delta_view_text(const char *name, char buffer[DELTA_VIEW_TEXT_BYTES]) {
  delta_escape(name, strlen(name), buffer, DELTA_VIEW_TEXT_BYTES);
  return buffer;
}

// What the walk over a schedule gathers.
typedef struct gap_walk {
  const delta_view_t *view;
  delta_allocator_t allocator;
  delta_view_gaps_t *gaps;
  uint32_t *next;       // by buffer: the tensor's next stay, or NONE
  uint32_t *first;      // by tensor: its first stay, or NONE
  uint32_t *last;       // by tensor: its last stay so far
  double *out_seconds;  // by buffer: of the copies below that read it
  double *wait_seconds; // by step: that compute stood still for this copy
  uint32_t *out_steps;  // by buffer: the last copy below that reads it, or NONE
  uint32_t *readers;    // by buffer: the first step that reads it, or NONE
  uint32_t *ordered;    // buffers by first step
} gap_walk_t;

static double step_seconds(const delta_view_t *view, uint32_t step) {
  const delta_step_times_t times = delta_view_times(view, step);
  return times.end_seconds - times.start_seconds;
}

static delta_status_t allocate(gap_walk_t *walk) {
  const delta_schedule_t *schedule = walk->view->schedule;
  const uint32_t tensor_count = walk->view->problem->tensor_count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(walk->allocator, schedule->buffer_count, &walk->next));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(walk->allocator, schedule->buffer_count, &walk->out_seconds));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(walk->allocator, schedule->buffer_count, &walk->out_steps));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(walk->allocator, schedule->buffer_count, &walk->readers));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(walk->allocator, schedule->buffer_count, &walk->ordered));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(walk->allocator, schedule->step_count, &walk->wait_seconds));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(walk->allocator, tensor_count, &walk->first));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(walk->allocator, tensor_count, &walk->last));
  for (uint32_t t = 0; t < tensor_count; ++t) walk->first[t] = walk->last[t] = DELTA_PROBLEM_NONE;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) walk->next[b] = walk->out_steps[b] = walk->readers[b] = DELTA_PROBLEM_NONE;
  return DELTA_OK;
}

static void release(gap_walk_t *walk) {
  void *const lists[] = {walk->next,    walk->out_seconds,  walk->out_steps, walk->readers,
                         walk->ordered, walk->wait_seconds, walk->first,     walk->last};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; ++i) delta_release(walk->allocator, lists[i]);
}

// Buffers by their first step: counted, so that no order of the list is assumed.
static delta_status_t order_buffers(gap_walk_t *walk) {
  const delta_schedule_t *schedule = walk->view->schedule;
  uint32_t *begins = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(walk->allocator, (size_t)schedule->step_count + 1, &begins));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) ++begins[schedule->buffers[b].first_step + 1];
  for (uint32_t s = 0; s < schedule->step_count; ++s) begins[s + 1] += begins[s];
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) walk->ordered[begins[schedule->buffers[b].first_step]++] = b;
  delta_release(walk->allocator, begins);
  return DELTA_OK;
}

static void chain_stays(gap_walk_t *walk) {
  const delta_schedule_t *schedule = walk->view->schedule;
  for (uint32_t i = 0; i < schedule->buffer_count; ++i) {
    const uint32_t b = walk->ordered[i], tensor = schedule->buffers[b].tensor;
    if (tensor == DELTA_PROBLEM_NONE) continue;
    if (walk->first[tensor] == DELTA_PROBLEM_NONE) walk->first[tensor] = b;
    if (walk->last[tensor] != DELTA_PROBLEM_NONE) walk->next[walk->last[tensor]] = b;
    walk->last[tensor] = b;
  }
}

// The later of two copies; DELTA_PROBLEM_NONE is none.
static uint32_t later_copy(const delta_view_t *view, uint32_t copy, uint32_t step) {
  if (step == DELTA_PROBLEM_NONE || view->schedule->steps[step].kind == DELTA_STEP_RUN) return copy;
  const bool is_later = copy == DELTA_PROBLEM_NONE || delta_view_times(view, step).end_seconds > delta_view_times(view, copy).end_seconds;
  return is_later ? step : copy;
}

// The copy that ended last of those that a step waits for, by its waits or for what it reads.
static uint32_t find_last_wait(const delta_view_t *view, const delta_schedule_step_t *step) {
  uint32_t latest = DELTA_PROBLEM_NONE;
  for (uint32_t k = 0; k < step->wait_count; ++k) latest = later_copy(view, latest, step->waits[k]);
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (step->inputs[k] != DELTA_PROBLEM_NONE) latest = later_copy(view, latest, delta_view_writer(view, step->inputs[k]));
  }
  return latest;
}

static void find_readers(gap_walk_t *walk) {
  const delta_schedule_t *schedule = walk->view->schedule;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    for (uint32_t k = 0; k < step->input_count; ++k) {
      const uint32_t b = step->inputs[k];
      if (b != DELTA_PROBLEM_NONE && walk->readers[b] == DELTA_PROBLEM_NONE) walk->readers[b] = s;
    }
  }
}

static void time_copies(gap_walk_t *walk) {
  const delta_view_t *view = walk->view;
  double compute_end_seconds = 0;
  for (uint32_t s = 0; s < view->schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &view->schedule->steps[s];
    const delta_step_times_t times = delta_view_times(view, s);
    if (step->kind == DELTA_STEP_SWAP_OUT) {
      walk->out_seconds[step->inputs[0]] += step_seconds(view, s);
      walk->out_steps[step->inputs[0]] = s;
    }
    if (step->lane != DELTA_LANE_COMPUTE) continue;
    const double idle_seconds = times.start_seconds - compute_end_seconds;
    const uint32_t wait = find_last_wait(view, step);
    if (idle_seconds > 0 && wait != DELTA_PROBLEM_NONE) walk->wait_seconds[wait] += idle_seconds;
    if (times.end_seconds > compute_end_seconds) compute_end_seconds = times.end_seconds;
  }
}

// What it took to have the tensor in `after`, and to have it below.
static void price_gap(const gap_walk_t *walk, delta_view_gap_t *gap) {
  const delta_view_t *view = walk->view;
  const uint32_t writer = gap->after == DELTA_PROBLEM_NONE ? DELTA_PROBLEM_NONE : delta_view_writer(view, gap->after);
  if (gap->is_swapped && gap->before != DELTA_PROBLEM_NONE) {
    gap->copy_seconds += walk->out_seconds[gap->before];
    if (walk->out_steps[gap->before] != DELTA_PROBLEM_NONE) gap->wait_seconds += walk->wait_seconds[walk->out_steps[gap->before]];
  }
  if (writer == DELTA_PROBLEM_NONE) return;
  const delta_schedule_step_t *step = &view->schedule->steps[writer];
  if (gap->is_swapped) {
    gap->copy_seconds += step_seconds(view, writer);
    gap->wait_seconds += walk->wait_seconds[writer];
    return;
  }
  // A step that makes several tensors again is paid for once: by the first that has a buffer.
  uint32_t k = 0;
  while (k < step->output_count && step->outputs[k] == DELTA_PROBLEM_NONE) ++k;
  if (k < step->output_count && step->outputs[k] == gap->after) gap->rebuild_seconds = step_seconds(view, writer);
}

static delta_status_t add_gap(const gap_walk_t *walk, uint32_t tensor, uint32_t before, uint32_t after, bool is_swapped) {
  delta_view_gap_t gap = {.tensor = tensor, .before = before, .after = after, .reader = DELTA_PROBLEM_NONE, .is_swapped = is_swapped};
  if (after != DELTA_PROBLEM_NONE) gap.reader = walk->readers[after];
  if (before != after) price_gap(walk, &gap);
  return delta_array_push(walk->allocator, walk->gaps, &gap);
}

static delta_status_t add_gaps_of(const gap_walk_t *walk, uint32_t tensor) {
  const delta_view_t *view = walk->view;
  const uint32_t first = walk->first[tensor], last = walk->last[tensor];
  if (first == DELTA_PROBLEM_NONE) return DELTA_OK;
  const size_t count = walk->gaps->count;
  const uint32_t begin = delta_view_writer(view, first);
  if (begin != DELTA_PROBLEM_NONE && view->schedule->steps[begin].kind == DELTA_STEP_SWAP_IN)
    DELTA_RETURN_IF_ERROR(add_gap(walk, tensor, DELTA_PROBLEM_NONE, first, true));
  for (uint32_t b = first; walk->next[b] != DELTA_PROBLEM_NONE; b = walk->next[b]) {
    const uint32_t writer = delta_view_writer(view, walk->next[b]);
    const bool is_swapped = writer != DELTA_PROBLEM_NONE && view->schedule->steps[writer].kind == DELTA_STEP_SWAP_IN;
    DELTA_RETURN_IF_ERROR(add_gap(walk, tensor, b, walk->next[b], is_swapped));
  }
  // A new value of a state whose home is below goes there at the end.
  if (view->problem->tensors[tensor].becomes_state != DELTA_PROBLEM_NONE && walk->out_steps[last] != DELTA_PROBLEM_NONE)
    DELTA_RETURN_IF_ERROR(add_gap(walk, tensor, last, DELTA_PROBLEM_NONE, true));
  return walk->gaps->count > count ? DELTA_OK : add_gap(walk, tensor, first, first, false);
}

delta_status_t delta_view_list_gaps(const delta_view_t *view, delta_allocator_t allocator, delta_view_gaps_t *out_gaps) {
  *out_gaps = (delta_view_gaps_t){0};
  gap_walk_t walk = {.view = view, .allocator = allocator, .gaps = out_gaps};
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, allocate(&walk), cleanup);
  DELTA_GOTO_IF_ERROR(status, order_buffers(&walk), cleanup);
  chain_stays(&walk);
  find_readers(&walk);
  time_copies(&walk);
  for (uint32_t t = 0; t < view->problem->tensor_count; ++t) DELTA_GOTO_IF_ERROR(status, add_gaps_of(&walk, t), cleanup);
cleanup:
  release(&walk);
  if (status) delta_array_deinit(allocator, out_gaps);
  return status;
}
