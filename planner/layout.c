// Layout: buffers to addresses. A group of blocks is within the bytes of its largest block: parts are put together from blocks that are wholes, and a whole is split within itself. Groups are
// harder to place than blocks, so rows are given up where that helps and costs nothing.
#include <string.h>

#include "planner/blocks.h"
#include "planner/live.h"
#include "planner/planner.h"

static delta_status_t place(delta_schedule_t *schedule, uint64_t capacity_bytes, bool is_hasty, delta_region_t *scratch) {
  delta_schedule_blocks_t blocks;
  DELTA_RETURN_IF_ERROR(delta_schedule_blocks_make(schedule, scratch, &blocks));
  const delta_pack_goal_t goal = {schedule->peak_bytes, schedule->peak_step, capacity_bytes, is_hasty};
  DELTA_RETURN_IF_ERROR(delta_pack(blocks.items, blocks.count, &goal, scratch->allocator, &schedule->arena_bytes));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    schedule->buffers[b].offset_bytes = (size_t)blocks.items[blocks.block_of[b]].offset_bytes;
  }
  return DELTA_OK;
}

// ---- Rows that need not be

// Gives up the rows without which no step is fuller than the fullest, which stays the first of its fullness. A row changes how full its own step is, and no other.
static delta_status_t loosen_rows(delta_schedule_t *schedule, delta_region_t *scratch, bool *out_loosened) {
  int64_t *live_bytes = NULL;
  *out_loosened = false;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, (size_t)schedule->step_count + 2, &live_bytes));
  delta_live_bytes(schedule, live_bytes);
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (!delta_step_makes_row(schedule, step)) continue;
    uint64_t loose_bytes = (uint64_t)live_bytes[s];
    for (uint32_t k = 0; k < step->output_count; ++k) loose_bytes += schedule->buffers[step->outputs[k]].size_bytes;
    if (loose_bytes >= schedule->peak_bytes) continue;
    for (uint32_t k = 0; k < step->output_count; ++k) schedule->buffers[step->outputs[k]].inplace_of = DELTA_PROBLEM_NONE;
    *out_loosened = true;
  }
  return DELTA_OK;
}

// Whether a packing is as good as another try would have to be.
static bool is_near_enough(const delta_schedule_t *schedule, uint64_t capacity_bytes) {
  enum { NEAR_PARTS = 128 };
  const uint64_t near_bytes = schedule->peak_bytes + schedule->peak_bytes / NEAR_PARTS;
  return schedule->arena_bytes <= (capacity_bytes == UINT64_MAX ? near_bytes : capacity_bytes);
}

// With rows wherever they can be, and, where these leave gaps that cost too much, with those alone that have to be.
static delta_status_t lay_out(delta_schedule_t *schedule, uint64_t capacity_bytes, bool is_hasty, delta_region_t *scratch) {
  bool is_loosened = false;
  void *buffers = NULL;
  DELTA_RETURN_IF_ERROR(place(schedule, capacity_bytes, is_hasty, scratch));
  if (is_near_enough(schedule, capacity_bytes)) return DELTA_OK;
  const uint64_t arena_bytes = schedule->arena_bytes;
  DELTA_RETURN_IF_ERROR(delta_region_copy(scratch, schedule->buffers, schedule->buffer_count, sizeof *schedule->buffers, &buffers));
  DELTA_RETURN_IF_ERROR(loosen_rows(schedule, scratch, &is_loosened));
  if (!is_loosened) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(place(schedule, capacity_bytes, is_hasty, scratch));
  if (schedule->arena_bytes < arena_bytes) return DELTA_OK;
  schedule->arena_bytes = arena_bytes;
  memcpy(schedule->buffers, buffers, schedule->buffer_count * sizeof *schedule->buffers);
  return DELTA_OK;
}

delta_status_t delta_layout_within(delta_schedule_t *schedule, uint64_t capacity_bytes, bool is_hasty, delta_allocator_t allocator) {
  delta_region_t scratch;
  delta_region_init(&scratch, allocator);
  delta_status_t status = lay_out(schedule, capacity_bytes, is_hasty, &scratch);
  delta_region_deinit(&scratch);
  return status;
}

delta_status_t delta_layout(const delta_problem_t *problem, delta_schedule_t *schedule, delta_allocator_t allocator) {
  (void)problem;
  return delta_layout_within(schedule, UINT64_MAX, false, allocator);
}
