// Prefetch: from the last copy back to the first. One has to end when its buffer is first used, and before the next one has to start; that gives its start, and the
// place in the schedule where that time comes. Then the steps are put in the new order and lifetimes are found again.
#include "planner/prefetch.h"

#include "planner/live.h"

typedef struct prefetcher {
  const delta_problem_t *problem;
  delta_schedule_t *schedule;
  delta_region_t scratch; // Owns the tables.
  int64_t *live_bytes;    // by step
  double *clock_seconds;  // by step: its start when steps run one after another and copies take no time
  uint32_t *first_use;    // by buffer: the first step that reads it, or the last step of all
  uint32_t *copies;       // steps that copy back, in order
  uint32_t copy_count;
  uint32_t *limits; // by copy: the first step before which it may go
  uint32_t *places; // by copy: the step before which it goes
  uint64_t capacity_bytes;
} prefetcher_t;

static uint32_t copied_buffer(const prefetcher_t *prefetcher, uint32_t copy) {
  return prefetcher->schedule->steps[prefetcher->copies[copy]].outputs[0];
}

static delta_status_t make_tables(prefetcher_t *prefetcher) {
  const delta_schedule_t *schedule = prefetcher->schedule;
  delta_region_t *scratch = &prefetcher->scratch;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, (size_t)schedule->step_count + 2, &prefetcher->live_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, (size_t)schedule->step_count + 1, &prefetcher->clock_seconds));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, schedule->buffer_count, &prefetcher->first_use));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, schedule->step_count, &prefetcher->copies));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, schedule->step_count, &prefetcher->limits));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, schedule->step_count, &prefetcher->places));
  delta_live_bytes(schedule, prefetcher->live_bytes);
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) prefetcher->first_use[b] = schedule->step_count - 1;
  for (uint32_t s = schedule->step_count; s-- > 0;) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    for (uint32_t k = 0; k < step->input_count; ++k) {
      if (step->inputs[k] != DELTA_PROBLEM_NONE) prefetcher->first_use[step->inputs[k]] = s;
    }
  }
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    const double seconds = step->kind == DELTA_STEP_RUN ? prefetcher->problem->steps[step->problem_step].seconds : 0;
    prefetcher->clock_seconds[s + 1] = prefetcher->clock_seconds[s] + seconds;
    if (step->kind == DELTA_STEP_SWAP_IN) prefetcher->copies[prefetcher->copy_count++] = s;
  }
  return DELTA_OK;
}

// The last step before `step` that copies to its slot, plus one; 0: none.
static uint32_t after_copy_below(const delta_schedule_t *schedule, uint32_t step) {
  for (uint32_t s = step; s-- > 0;) {
    const delta_schedule_step_t *entry = &schedule->steps[s];
    if (entry->kind == DELTA_STEP_SWAP_OUT && entry->host_offset_bytes == schedule->steps[step].host_offset_bytes) return s + 1;
  }
  return 0;
}

// Copies stay in their order, so one may not go before the limit of an earlier one.
static void set_limits(prefetcher_t *prefetcher, uint32_t depth) {
  uint32_t limit = 0;
  for (uint32_t c = 0; c < prefetcher->copy_count; ++c) {
    const uint32_t below = after_copy_below(prefetcher->schedule, prefetcher->copies[c]);
    // Not before the one that is `depth` earlier has been used.
    const uint32_t used = c >= depth ? prefetcher->first_use[copied_buffer(prefetcher, c - depth)] + 1 : 0;
    if (below > limit) limit = below;
    if (used > limit) limit = used;
    if (limit > prefetcher->copies[c]) limit = prefetcher->copies[c];
    prefetcher->limits[c] = limit;
  }
}

// Moves a place down to `limit` as long as the time there is later than `start_seconds` and the buffer has room.
static uint32_t find_place(prefetcher_t *prefetcher, uint32_t copy, uint32_t limit, double start_seconds) {
  const uint32_t step = prefetcher->copies[copy];
  const int64_t size_bytes = (int64_t)prefetcher->schedule->buffers[copied_buffer(prefetcher, copy)].size_bytes;
  uint32_t place = step;
  while (place > limit && prefetcher->clock_seconds[place] > start_seconds &&
         prefetcher->live_bytes[place - 1] + size_bytes <= (int64_t)prefetcher->capacity_bytes) {
    --place;
    prefetcher->live_bytes[place] += size_bytes;
  }
  return place;
}

static void choose_places(prefetcher_t *prefetcher) {
  double next_start_seconds = prefetcher->clock_seconds[prefetcher->schedule->step_count];
  uint32_t next_place = prefetcher->schedule->step_count;
  for (uint32_t c = prefetcher->copy_count; c-- > 0;) {
    const uint32_t buffer = copied_buffer(prefetcher, c);
    const double need_seconds = prefetcher->clock_seconds[prefetcher->first_use[buffer]];
    const double end_seconds = need_seconds < next_start_seconds ? need_seconds : next_start_seconds;
    const double copy_seconds = delta_problem_prefetch_seconds(prefetcher->problem, prefetcher->schedule->buffers[buffer].size_bytes);
    prefetcher->places[c] = find_place(prefetcher, c, prefetcher->limits[c], end_seconds - copy_seconds);
    if (prefetcher->places[c] > next_place) prefetcher->places[c] = next_place;
    next_place = prefetcher->places[c];
    const double place_seconds = prefetcher->clock_seconds[next_place];
    next_start_seconds = end_seconds - copy_seconds < place_seconds ? end_seconds - copy_seconds : place_seconds;
  }
}

// ---- The new order

static void note_use(delta_schedule_t *schedule, uint32_t buffer, uint32_t s, bool writes) {
  if (buffer == DELTA_PROBLEM_NONE) return;
  if (writes) schedule->buffers[buffer].first_step = s;
  schedule->buffers[buffer].last_step = s;
}

// Lifetimes anew: from the writer, or the start, to the last use; what lived to the end as an output of the program does so.
static delta_status_t find_lifetimes(prefetcher_t *prefetcher) {
  delta_schedule_t *schedule = prefetcher->schedule;
  const uint32_t end = schedule->step_count - 1;
  bool *stays = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&prefetcher->scratch, schedule->buffer_count, &stays));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    delta_buffer_t *buffer = &schedule->buffers[b];
    const bool is_output =
        buffer->tensor != DELTA_PROBLEM_NONE && (prefetcher->problem->tensors[buffer->tensor].flags & DELTA_TENSOR_OUTPUT);
    stays[b] = is_output && buffer->last_step == end;
    buffer->first_step = buffer->last_step = 0;
  }
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    for (uint32_t k = 0; k < step->input_count; ++k) note_use(schedule, step->inputs[k], s, false);
    for (uint32_t k = 0; k < step->output_count; ++k) note_use(schedule, step->outputs[k], s, true);
    note_use(schedule, step->workspace, s, true);
  }
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    if (stays[b]) schedule->buffers[b].last_step = end;
  }
  return DELTA_OK;
}

static delta_status_t move_steps(prefetcher_t *prefetcher) {
  delta_schedule_t *schedule = prefetcher->schedule;
  delta_schedule_step_t *steps = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, schedule->step_count, &steps));
  uint32_t count = 0, copy = 0;
  for (uint32_t s = 0; s <= schedule->step_count; ++s) {
    for (; copy < prefetcher->copy_count && prefetcher->places[copy] <= s; ++copy)
      steps[count++] = schedule->steps[prefetcher->copies[copy]];
    if (s < schedule->step_count && schedule->steps[s].kind != DELTA_STEP_SWAP_IN) steps[count++] = schedule->steps[s];
  }
  schedule->steps = steps;
  return find_lifetimes(prefetcher);
}

static delta_status_t prefetch(prefetcher_t *prefetcher, uint32_t depth) {
  DELTA_RETURN_IF_ERROR(make_tables(prefetcher));
  set_limits(prefetcher, depth);
  choose_places(prefetcher);
  DELTA_RETURN_IF_ERROR(move_steps(prefetcher));
  return delta_live_measure_peak(prefetcher->schedule, prefetcher->scratch.allocator);
}

delta_status_t delta_prefetch(const delta_problem_t *problem, uint64_t capacity_bytes, uint32_t depth, delta_allocator_t allocator,
                              delta_schedule_t *schedule) {
  if (schedule->step_count == 0 || !(problem->prefetch_bytes_per_second > 0)) return DELTA_OK;
  prefetcher_t prefetcher = {.problem = problem, .schedule = schedule, .capacity_bytes = capacity_bytes};
  delta_region_init(&prefetcher.scratch, allocator);
  delta_status_t status = prefetch(&prefetcher, depth);
  delta_region_deinit(&prefetcher.scratch);
  return status;
}
