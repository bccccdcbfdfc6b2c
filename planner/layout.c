// Layout: buffers to addresses. A chain of in-place buffers is one block of its first buffer's bytes, from the first one's start to the last one's end. Blocks that lie
// in a row are a group. A group is within the bytes of its largest block: parts are put together from blocks that are wholes, and a whole is split within itself. Groups are
// harder to place than blocks, so rows are given up where that helps and costs nothing.
#include <string.h>

#include "planner/live.h"
#include "planner/pack.h"
#include "planner/planner.h"

// Whether a buffer goes on with the bytes of another.
static bool is_chained(const delta_schedule_t *schedule, uint32_t b) {
  return schedule->buffers[b].inplace_of != DELTA_PROBLEM_NONE && !delta_buffer_is_in_row(schedule->buffers, b);
}

// Finds the block of every buffer. A buffer's in-place source may stand anywhere in the list, so chains are followed to their heads.
static delta_status_t find_heads(const delta_schedule_t *schedule, uint32_t *head) {
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    uint32_t at = b, length = 0;
    while (is_chained(schedule, at) && at >= b) {
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
    blocks[count] =
        (delta_block_t){.first = buffer->first_step, .last = buffer->last_step, .size_bytes = buffer->size_bytes, .next_in_group = count};
    ++count;
  }
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    block_of[b] = block_of[head[b]];
    if (schedule->buffers[b].last_step > blocks[block_of[b]].last) blocks[block_of[b]].last = schedule->buffers[b].last_step;
  }
  return count;
}

// Adds the group of block `other`, moved by `shift_bytes`, to that of block `at`.
static void join_groups(delta_block_t *blocks, uint32_t at, uint32_t other, uint64_t shift_bytes) {
  uint32_t member = other;
  do {
    blocks[member].group_bytes += shift_bytes;
    member = blocks[member].next_in_group;
  } while (member != other);
  const uint32_t next = blocks[at].next_in_group;
  blocks[at].next_in_group = blocks[other].next_in_group;
  blocks[other].next_in_group = next;
}

// Groups the blocks of a step that works in a row: the parts from the beginning of the whole on.
static void group_row(const delta_schedule_t *schedule, const uint32_t *block_of, uint32_t whole, const uint32_t *parts, uint32_t count,
                      delta_block_t *blocks) {
  uint64_t shift_bytes = blocks[block_of[whole]].group_bytes;
  for (uint32_t k = 0; k < count; ++k) {
    join_groups(blocks, block_of[whole], block_of[parts[k]], shift_bytes);
    shift_bytes += schedule->buffers[parts[k]].size_bytes;
  }
}

// Whether a step takes over bytes in a row.
static bool makes_row(const delta_schedule_t *schedule, const delta_schedule_step_t *step) {
  const uint32_t first = step->output_count > 0 ? step->outputs[0] : DELTA_PROBLEM_NONE;
  return first != DELTA_PROBLEM_NONE && delta_buffer_is_in_row(schedule->buffers, first);
}

static void group_rows(const delta_schedule_t *schedule, const uint32_t *block_of, delta_block_t *blocks) {
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (!makes_row(schedule, step)) continue;
    if (step->output_count == 1) {
      group_row(schedule, block_of, step->outputs[0], step->inputs, step->input_count, blocks);
    } else {
      group_row(schedule, block_of, step->inputs[0], step->outputs, step->output_count, blocks);
    }
  }
}

static delta_status_t place(delta_schedule_t *schedule, uint64_t capacity_bytes, bool is_hasty, delta_region_t *scratch) {
  const uint32_t count = schedule->buffer_count;
  uint32_t *head = NULL, *block_of = NULL;
  delta_block_t *blocks = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, count, &head));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, count, &block_of));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, count, &blocks));
  DELTA_RETURN_IF_ERROR(find_heads(schedule, head));
  const uint32_t block_count = make_blocks(schedule, head, blocks, block_of);
  group_rows(schedule, block_of, blocks);
  const delta_pack_goal_t goal = {schedule->peak_bytes, schedule->peak_step, capacity_bytes, is_hasty};
  DELTA_RETURN_IF_ERROR(delta_pack(blocks, block_count, &goal, scratch->allocator, &schedule->arena_bytes));
  for (uint32_t b = 0; b < count; ++b) schedule->buffers[b].offset_bytes = (size_t)blocks[block_of[b]].offset_bytes;
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
    if (!makes_row(schedule, step)) continue;
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
