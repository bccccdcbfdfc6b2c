// Schedule: life cycle, copies.
#include "plans/schedule.h"

delta_status_t delta_schedule_create(delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  delta_schedule_t *schedule = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &schedule));
  delta_region_init(&schedule->region, allocator);
  *out_schedule = schedule;
  return DELTA_OK;
}

void delta_schedule_free(delta_schedule_t *schedule) {
  if (!schedule) return;
  const delta_allocator_t allocator = schedule->region.allocator;
  delta_region_deinit(&schedule->region);
  delta_release(allocator, schedule);
}

static delta_status_t copy_lists(delta_schedule_step_t *step, delta_region_t *region) {
  struct {
    uint32_t **list;
    uint32_t count;
  } lists[] = {{&step->inputs, step->input_count}, {&step->outputs, step->output_count}, {&step->waits, step->wait_count}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; ++i) {
    DELTA_RETURN_IF_ERROR(delta_region_copy(region, *lists[i].list, lists[i].count, sizeof(uint32_t), (void **)lists[i].list));
  }
  return DELTA_OK;
}

static delta_status_t copy_content(const delta_schedule_t *schedule, delta_schedule_t *copy) {
  const delta_region_t region = copy->region;
  *copy = *schedule;
  copy->region = region;
  DELTA_RETURN_IF_ERROR(
      delta_region_copy(&copy->region, schedule->steps, schedule->step_count, sizeof *schedule->steps, (void **)&copy->steps));
  DELTA_RETURN_IF_ERROR(
      delta_region_copy(&copy->region, schedule->buffers, schedule->buffer_count, sizeof *schedule->buffers, (void **)&copy->buffers));
  DELTA_RETURN_IF_ERROR(delta_region_copy(&copy->region, schedule->alternatives, schedule->alternative_count,
                                          sizeof *schedule->alternatives, (void **)&copy->alternatives));
  for (uint32_t s = 0; s < copy->step_count; ++s) DELTA_RETURN_IF_ERROR(copy_lists(&copy->steps[s], &copy->region));
  return DELTA_OK;
}

delta_status_t delta_schedule_copy(const delta_schedule_t *schedule, delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  delta_schedule_t *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_schedule_create(allocator, &copy));
  delta_status_t status = copy_content(schedule, copy);
  if (status) {
    delta_schedule_free(copy);
    return status;
  }
  *out_schedule = copy;
  return DELTA_OK;
}

static void join_ended(uint32_t ended[DELTA_LANE_COUNT], const uint32_t other[DELTA_LANE_COUNT]) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    if (other[l] > ended[l]) ended[l] = other[l];
  }
}

void delta_schedule_order_step(const delta_schedule_t *schedule, uint32_t s, uint32_t last_of_lane[DELTA_LANE_COUNT],
                               uint32_t (*ended)[DELTA_LANE_COUNT]) {
  const delta_schedule_step_t *step = &schedule->steps[s];
  const uint32_t before = last_of_lane[step->lane];
  if (before > 0) join_ended(ended[s], ended[before - 1]);
  ended[s][step->lane] = before;
  for (uint32_t w = 0; w < step->wait_count; ++w) {
    const uint32_t awaited = step->waits[w];
    const delta_lane_t lane = schedule->steps[awaited].lane;
    join_ended(ended[s], ended[awaited]);
    if (ended[s][lane] < awaited + 1) ended[s][lane] = awaited + 1;
  }
  last_of_lane[step->lane] = s + 1;
}

uint32_t delta_schedule_peak_problem_step(const delta_schedule_t *schedule) {
  for (uint32_t s = schedule->peak_step; s < schedule->step_count; ++s) {
    if (schedule->steps[s].kind == DELTA_STEP_RUN) return schedule->steps[s].problem_step;
  }
  return DELTA_PROBLEM_NONE;
}
