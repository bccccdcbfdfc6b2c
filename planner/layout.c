// Layout: buffers to addresses. A chain of in-place buffers is one block of its first buffer's bytes, from the first one's start to the last one's end.
#include "planner/pack.h"
#include "planner/planner.h"

// Finds the block of every buffer. A buffer's in-place source may stand anywhere in the list, so chains are followed to their heads.
static delta_status_t find_heads(const delta_schedule_t *schedule, uint32_t *head) {
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    uint32_t at = b, length = 0;
    while (schedule->buffers[at].inplace_of != DELTA_PROBLEM_NONE && at >= b) {
      at = schedule->buffers[at].inplace_of;
      if (at >= schedule->buffer_count || ++length > schedule->buffer_count) {
        return delta_status_make(INTERNAL, "buffer %u takes its bytes from no buffer", b);
      }
    }
    head[b] = at < b ? head[at] : at;
  }
  return DELTA_OK;
}

// The blocks of the chains, in the order of their heads; block_of[] by buffer.
static uint32_t make_blocks(const delta_schedule_t *schedule, const uint32_t *head, delta_block_t *blocks, uint32_t *block_of) {
  uint32_t count = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    if (head[b] != b) continue;
    const delta_buffer_t *buffer = &schedule->buffers[b];
    block_of[b] = count;
    blocks[count++] = (delta_block_t){.first = buffer->first_step, .last = buffer->last_step, .size_bytes = buffer->size_bytes};
  }
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    block_of[b] = block_of[head[b]];
    if (schedule->buffers[b].last_step > blocks[block_of[b]].last) blocks[block_of[b]].last = schedule->buffers[b].last_step;
  }
  return count;
}

static delta_status_t lay_out(delta_schedule_t *schedule, uint64_t capacity_bytes, bool is_hasty, delta_region_t *scratch) {
  const uint32_t count = schedule->buffer_count;
  uint32_t *head = NULL, *block_of = NULL;
  delta_block_t *blocks = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, count, &head));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, count, &block_of));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, count, &blocks));
  DELTA_RETURN_IF_ERROR(find_heads(schedule, head));
  const uint32_t block_count = make_blocks(schedule, head, blocks, block_of);
  const delta_pack_goal_t goal = {schedule->peak_bytes, schedule->peak_step, capacity_bytes, is_hasty};
  DELTA_RETURN_IF_ERROR(delta_pack(blocks, block_count, &goal, scratch->allocator, &schedule->arena_bytes));
  for (uint32_t b = 0; b < count; ++b) schedule->buffers[b].offset_bytes = (size_t)blocks[block_of[b]].offset_bytes;
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
