// Timeline: tables made in one walk over the schedule.
#include "planner/timeline.h"

#include "planner/live.h"

static delta_status_t allocate_tables(delta_timeline_t *timeline) {
  const delta_problem_t *problem = timeline->problem;
  const delta_schedule_t *schedule = timeline->schedule;
  delta_region_t *region = &timeline->region;
  size_t input_count = 0;
  for (uint32_t s = 0; s < problem->step_count; ++s) input_count += problem->steps[s].input_count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)schedule->step_count + 2, &timeline->live_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)schedule->step_count + 1, &timeline->clock_seconds));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, schedule->step_count, &timeline->base_after));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->step_count, &timeline->base_step));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)problem->tensor_count + 1, &timeline->reader_starts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, input_count, &timeline->readers));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)problem->tensor_count + 1, &timeline->buffer_starts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, schedule->buffer_count, &timeline->buffers));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->tensor_count, &timeline->copied_by));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->tensor_count, &timeline->producer));
  return DELTA_REGION_ALLOCATE(region, problem->tensor_count, &timeline->written_by);
}

static double step_seconds(const delta_timeline_t *timeline, const delta_schedule_step_t *step) {
  const delta_problem_t *problem = timeline->problem;
  if (step->kind == DELTA_STEP_RUN) return problem->steps[step->problem_step].seconds;
  const bool is_out = step->kind == DELTA_STEP_SWAP_OUT;
  const size_t size_bytes = timeline->schedule->buffers[is_out ? step->inputs[0] : step->outputs[0]].size_bytes;
  const double seconds = is_out ? delta_problem_offload_seconds(problem, size_bytes) : delta_problem_prefetch_seconds(problem, size_bytes);
  return seconds < INFINITY ? seconds : 0;
}

static void walk_steps(delta_timeline_t *timeline) {
  const delta_problem_t *problem = timeline->problem;
  const delta_schedule_t *schedule = timeline->schedule;
  for (uint32_t p = 0; p < problem->step_count; ++p) timeline->base_step[p] = DELTA_PROBLEM_NONE;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    timeline->copied_by[t] = timeline->producer[t] = timeline->written_by[t] = DELTA_PROBLEM_NONE;
    const uint32_t flags = problem->tensors[t].flags;
    if ((flags & DELTA_TENSOR_STATE) && (flags & DELTA_TENSOR_BELOW)) timeline->copied_by[t] = 0;
  }
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    timeline->clock_seconds[s + 1] = timeline->clock_seconds[s] + step_seconds(timeline, step);
    if (step->kind == DELTA_STEP_SWAP_OUT) timeline->copied_by[schedule->buffers[step->inputs[0]].tensor] = s;
    if (step->kind == DELTA_STEP_RUN && timeline->base_step[step->problem_step] == DELTA_PROBLEM_NONE) {
      timeline->base_step[step->problem_step] = s;
    }
  }
  for (uint32_t s = schedule->step_count, next = schedule->step_count; s-- > 0;) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (step->kind == DELTA_STEP_RUN && timeline->base_step[step->problem_step] == s) next = s;
    timeline->base_after[s] = next;
  }
  for (uint32_t p = 0; p < problem->step_count; ++p) {
    for (uint32_t k = 0; k < problem->steps[p].output_count; ++k) {
      const uint32_t tensor = problem->steps[p].outputs[k], state = problem->tensors[tensor].becomes_state;
      timeline->producer[tensor] = p;
      if (state != DELTA_PROBLEM_NONE) timeline->written_by[state] = timeline->base_step[p];
    }
  }
}

static bool is_base(const delta_timeline_t *timeline, uint32_t s) {
  const delta_schedule_step_t *step = &timeline->schedule->steps[s];
  return step->kind == DELTA_STEP_RUN && timeline->base_step[step->problem_step] == s;
}

// Turns counts at starts[i + 1] into starts.
static void sum_starts(uint32_t *starts, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) starts[i + 1] += starts[i];
}

// Filling moved every start to its end, which is the next one's start.
static void restore_starts(uint32_t *starts, uint32_t count) {
  for (uint32_t i = count; i > 0; --i) starts[i] = starts[i - 1];
  starts[0] = 0;
}

static void list_readers(delta_timeline_t *timeline) {
  const delta_problem_t *problem = timeline->problem;
  uint32_t *starts = timeline->reader_starts;
  for (uint32_t p = 0; p < problem->step_count; ++p) {
    for (uint32_t k = 0; k < problem->steps[p].input_count; ++k) ++starts[problem->steps[p].inputs[k] + 1];
  }
  sum_starts(starts, problem->tensor_count);
  for (uint32_t s = 0; s < timeline->schedule->step_count; ++s) {
    if (!is_base(timeline, s)) continue;
    const delta_problem_step_t *step = &problem->steps[timeline->schedule->steps[s].problem_step];
    for (uint32_t k = 0; k < step->input_count; ++k) timeline->readers[starts[step->inputs[k]]++] = s;
  }
  restore_starts(starts, problem->tensor_count);
}

// Buffers stand in the order in which they begin.
static void list_buffers(delta_timeline_t *timeline) {
  const delta_schedule_t *schedule = timeline->schedule;
  uint32_t *starts = timeline->buffer_starts;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    if (schedule->buffers[b].tensor != DELTA_PROBLEM_NONE) ++starts[schedule->buffers[b].tensor + 1];
  }
  sum_starts(starts, timeline->problem->tensor_count);
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    if (schedule->buffers[b].tensor != DELTA_PROBLEM_NONE) timeline->buffers[starts[schedule->buffers[b].tensor]++] = b;
  }
  restore_starts(starts, timeline->problem->tensor_count);
}

delta_status_t delta_timeline_init(delta_timeline_t *timeline, const delta_problem_t *problem, const delta_schedule_t *schedule,
                                   delta_allocator_t allocator) {
  *timeline = (delta_timeline_t){.problem = problem, .schedule = schedule};
  delta_region_init(&timeline->region, allocator);
  delta_status_t status = allocate_tables(timeline);
  if (status) {
    delta_timeline_deinit(timeline);
    return status;
  }
  delta_live_bytes(schedule, timeline->live_bytes);
  walk_steps(timeline);
  list_readers(timeline);
  list_buffers(timeline);
  return DELTA_OK;
}

void delta_timeline_deinit(delta_timeline_t *timeline) {
  delta_region_deinit(&timeline->region);
  *timeline = (delta_timeline_t){0};
}

uint32_t delta_timeline_uses(const delta_timeline_t *timeline, uint32_t tensor, uint32_t step) {
  const uint32_t begin = timeline->reader_starts[tensor], end = timeline->reader_starts[tensor + 1];
  uint32_t at = begin;
  while (at < end && timeline->readers[at] <= step) ++at;
  return at - begin;
}

bool delta_timeline_is_resident(const delta_timeline_t *timeline, uint32_t tensor, uint32_t step) {
  if (delta_problem_tensor_is_state(&timeline->problem->tensors[tensor])) return true;
  for (uint32_t i = timeline->buffer_starts[tensor]; i < timeline->buffer_starts[tensor + 1]; ++i) {
    const delta_buffer_t *buffer = &timeline->schedule->buffers[timeline->buffers[i]];
    if (buffer->first_step < step && buffer->last_step >= step) return true;
  }
  return false;
}
