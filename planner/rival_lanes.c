// Rival lanes: a copy below takes the earliest free time, a copy back the latest.
#include "planner/rival_lanes.h"

#include <math.h>

delta_status_t delta_rival_lanes_init(delta_rival_lanes_t *lanes, delta_rival_t *rival) {
  const uint32_t step_count = rival->order->step_count;
  *lanes = (delta_rival_lanes_t){.rival = rival};
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, (size_t)step_count + 1, &lanes->offload_seconds));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, (size_t)step_count + 1, &lanes->prefetch_seconds));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, (size_t)step_count + 1, &lanes->reserved_bytes));
  for (uint32_t p = 0; p < step_count; ++p) lanes->offload_seconds[p] = lanes->prefetch_seconds[p] = delta_rival_step(rival, p)->seconds;
  return DELTA_OK;
}

// The earliest place from which on the tensor of a gap could be back: after `place`, and with room until its use.
static uint32_t find_earliest_return(const delta_rival_lanes_t *lanes, uint32_t gap, uint32_t place) {
  const delta_rival_t *rival = lanes->rival;
  const uint64_t size_bytes = rival->problem->tensors[rival->map.tensors[gap]].size_bytes;
  uint32_t p = rival->map.ends[gap];
  while (p > place + 1 && rival->place_bytes[p - 1] + lanes->reserved_bytes[p - 1] + size_bytes <= rival->capacity_bytes) --p;
  return p;
}

// What of a copy's time the places [from .. to) do not hide.
static double exposed_seconds(const double *free_seconds, uint32_t from, uint32_t to, double copy_seconds) {
  for (uint32_t p = from; p < to && copy_seconds > 0; ++p) copy_seconds -= free_seconds[p];
  return copy_seconds > 0 ? copy_seconds : 0;
}

double delta_rival_lanes_exposed(const delta_rival_lanes_t *lanes, uint32_t gap, uint32_t place) {
  const delta_rival_t *rival = lanes->rival;
  const uint32_t tensor = rival->map.tensors[gap], back = find_earliest_return(lanes, gap, place);
  return exposed_seconds(lanes->offload_seconds, rival->map.begins[gap] + 1, place, delta_rival_offload_seconds(rival, tensor)) +
         exposed_seconds(lanes->prefetch_seconds, back, rival->map.ends[gap], delta_rival_prefetch_seconds(rival, tensor));
}

static void take_place(double *free_seconds, double *inout_copy_seconds) {
  const double taken_seconds = fmin(*free_seconds, *inout_copy_seconds);
  *free_seconds -= taken_seconds;
  *inout_copy_seconds -= taken_seconds;
}

void delta_rival_lanes_take(delta_rival_lanes_t *lanes, uint32_t gap, uint32_t place) {
  const delta_rival_t *rival = lanes->rival;
  const uint32_t tensor = rival->map.tensors[gap], back = find_earliest_return(lanes, gap, place);
  double copy_seconds = delta_rival_offload_seconds(rival, tensor);
  for (uint32_t p = rival->map.begins[gap] + 1; p < place && copy_seconds > 0; ++p) take_place(&lanes->offload_seconds[p], &copy_seconds);
  copy_seconds = delta_rival_prefetch_seconds(rival, tensor);
  for (uint32_t p = rival->map.ends[gap]; p > back && copy_seconds > 0; --p) {
    take_place(&lanes->prefetch_seconds[p - 1], &copy_seconds);
    lanes->reserved_bytes[p - 1] += rival->problem->tensors[tensor].size_bytes;
  }
}
