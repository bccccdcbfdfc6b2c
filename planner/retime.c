// Retime: sorts by time, and by the old place where times are equal, which is right for whatever takes no time.
#include "planner/retime.h"

#include <math.h>
#include <stdlib.h>

#include "planner/live.h"

#define NONE DELTA_PROBLEM_NONE

// At one time: first what ends, then what comes back beside the step that starts, then what starts.
enum { RANK_ENDS, RANK_BESIDE, RANK_STARTS };

typedef struct timed_step {
  double seconds;
  int rank;
  uint32_t step; // its old place
} timed_step_t;

static int compare_steps(const void *left, const void *right) {
  const timed_step_t *a = left, *b = right;
  if (a->seconds != b->seconds) return a->seconds < b->seconds ? -1 : 1;
  if (a->rank != b->rank) return a->rank - b->rank;
  return a->step < b->step ? -1 : a->step > b->step;
}

// A copy back that starts while a step computes takes bytes beside that step's, so it stands before it: unless it took those of a copy below that ended meanwhile.
// Copies come in the order of their starts, so both cursors only go forward.
typedef struct time_cursors {
  uint32_t run, copy_below; // the last ones that had started, had ended
} time_cursors_t;

static uint32_t next_on_lane(const delta_schedule_t *schedule, uint32_t step, delta_lane_t lane) {
  uint32_t next = step == NONE ? 0 : step + 1;
  while (next < schedule->step_count && schedule->steps[next].lane != lane) ++next;
  return next;
}

static void advance_cursors(const delta_schedule_t *schedule, double seconds, time_cursors_t *cursors) {
  for (uint32_t s; (s = next_on_lane(schedule, cursors->run, DELTA_LANE_COMPUTE)) < schedule->step_count; cursors->run = s) {
    if (schedule->steps[s].start_seconds > seconds) break;
  }
  for (uint32_t s; (s = next_on_lane(schedule, cursors->copy_below, DELTA_LANE_OFFLOAD)) < schedule->step_count; cursors->copy_below = s) {
    if (schedule->steps[s].end_seconds > seconds) break;
  }
}

static timed_step_t time_copy_back(const delta_schedule_t *schedule, uint32_t s, time_cursors_t *cursors) {
  const double seconds = schedule->steps[s].start_seconds;
  advance_cursors(schedule, seconds, cursors);
  const delta_schedule_step_t *run = cursors->run == NONE ? NULL : &schedule->steps[cursors->run];
  const double freed_seconds = cursors->copy_below == NONE ? 0 : schedule->steps[cursors->copy_below].end_seconds;
  const bool is_beside = run && run->end_seconds > seconds && freed_seconds <= run->start_seconds;
  return (timed_step_t){is_beside ? run->start_seconds : seconds, is_beside ? RANK_BESIDE : RANK_STARTS, s};
}

static void time_steps(const delta_schedule_t *schedule, timed_step_t *timed) {
  time_cursors_t cursors = {NONE, NONE};
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    switch (step->kind) {
      case DELTA_STEP_SWAP_OUT:
        timed[s] = (timed_step_t){step->end_seconds, RANK_ENDS, s};
        break;
      case DELTA_STEP_SWAP_IN:
        timed[s] = time_copy_back(schedule, s, &cursors);
        break;
      default:
        timed[s] = (timed_step_t){step->start_seconds, RANK_STARTS, s};
        break;
    }
  }
  if (schedule->step_count > 0) qsort(timed, schedule->step_count, sizeof *timed, compare_steps);
}

static void use(delta_schedule_t *schedule, uint32_t buffer, uint32_t s, bool writes) {
  if (buffer == NONE) return;
  if (writes) schedule->buffers[buffer].first_step = s;
  if (schedule->buffers[buffer].last_step < s) schedule->buffers[buffer].last_step = s;
}

static void set_lifetimes(const delta_problem_t *problem, delta_schedule_t *schedule) {
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    delta_buffer_t *buffer = &schedule->buffers[b];
    const bool is_output = buffer->tensor != NONE && (problem->tensors[buffer->tensor].flags & DELTA_TENSOR_OUTPUT);
    if (!is_output || buffer->last_step + 1 != schedule->step_count) buffer->last_step = 0;
    buffer->first_step = 0;
  }
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    for (uint32_t k = 0; k < step->input_count; ++k) use(schedule, step->inputs[k], s, false);
    for (uint32_t k = 0; k < step->output_count; ++k) use(schedule, step->outputs[k], s, true);
    use(schedule, step->workspace, s, true);
  }
}

// ---- Copies back

// What a copy back takes at most, while a copy below shares the bandwidth.
static double slow_seconds(const delta_problem_t *problem, uint64_t size_bytes) {
  const double own = problem->prefetch_bytes_per_second, together = own + problem->offload_bytes_per_second;
  const double shared = problem->shared_bytes_per_second;
  return (double)size_bytes / (shared > 0 && shared < together ? own * shared / together : own);
}

delta_status_t delta_delay_copies_back(const delta_problem_t *problem, delta_schedule_t *schedule, delta_allocator_t allocator) {
  double *needed_seconds = NULL, next_seconds = INFINITY; // by buffer: when it is read first; when the next copy back starts
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, schedule->buffer_count, &needed_seconds));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) needed_seconds[b] = INFINITY;
  for (uint32_t s = schedule->step_count; s-- > 0;) {
    delta_schedule_step_t *step = &schedule->steps[s];
    for (uint32_t k = 0; k < step->input_count; ++k) {
      if (step->inputs[k] != NONE) needed_seconds[step->inputs[k]] = step->start_seconds;
    }
    if (step->kind != DELTA_STEP_SWAP_IN) continue;
    const double seconds = slow_seconds(problem, schedule->buffers[step->outputs[0]].size_bytes);
    const double end_seconds = fmin(needed_seconds[step->outputs[0]], next_seconds);
    if (end_seconds < INFINITY && end_seconds - seconds > step->start_seconds) {
      step->start_seconds = end_seconds - seconds;
      step->end_seconds = end_seconds;
    }
    next_seconds = step->start_seconds;
  }
  delta_release(allocator, needed_seconds);
  return DELTA_OK;
}

delta_status_t delta_retime(const delta_problem_t *problem, delta_schedule_t *schedule, delta_allocator_t allocator) {
  timed_step_t *timed = NULL;
  delta_schedule_step_t *steps = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, schedule->step_count, &timed));
  delta_status_t status = DELTA_REGION_ALLOCATE(&schedule->region, schedule->step_count, &steps);
  if (!status) {
    time_steps(schedule, timed);
    for (uint32_t s = 0; s < schedule->step_count; ++s) {
      steps[s] = schedule->steps[timed[s].step];
      steps[s].wait_count = 0;
    }
    schedule->steps = steps;
    set_lifetimes(problem, schedule);
    status = delta_live_measure_peak(schedule, allocator);
  }
  delta_release(allocator, timed);
  return status;
}
