#include "planner/runners.h"

#include <string.h>

void delta_runners_clear(delta_runners_t *runners) {
  for (uint32_t i = 0; i < runners->count; ++i) delta_array_deinit(runners->allocator, &runners->items[i].items);
  runners->count = 0;
}

delta_status_t delta_runners_add(delta_runners_t *runners, double seconds, const delta_decisions_t *decisions) {
  delta_runner_t runner = {.seconds = seconds, .decisions = *decisions};
  DELTA_RETURN_IF_ERROR(delta_array_reserve(runners->allocator, &runner.items, decisions->count));
  for (size_t i = 0; i < decisions->count; ++i) runner.items.items[runner.items.count++] = decisions->items[i];
  runner.decisions.items = runner.items.items;
  if (runners->count == DELTA_RUNNERS_MOST) {
    delta_array_deinit(runners->allocator, &runners->items[0].items);
    memmove(&runners->items[0], &runners->items[1], --runners->count * sizeof *runners->items);
  }
  runners->items[runners->count++] = runner;
  return DELTA_OK;
}
