// Schedule: life cycle.
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
