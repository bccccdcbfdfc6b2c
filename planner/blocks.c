// Blocks: heads of chains first, then the groups of steps that work in a row.
#include "planner/blocks.h"

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

bool delta_step_makes_row(const delta_schedule_t *schedule, const delta_schedule_step_t *step) {
  const uint32_t first = step->output_count > 0 ? step->outputs[0] : DELTA_PROBLEM_NONE;
  return first != DELTA_PROBLEM_NONE && delta_buffer_is_in_row(schedule->buffers, first);
}

static void group_rows(const delta_schedule_t *schedule, const uint32_t *block_of, delta_block_t *blocks) {
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (!delta_step_makes_row(schedule, step)) continue;
    if (step->output_count == 1) {
      group_row(schedule, block_of, step->outputs[0], step->inputs, step->input_count, blocks);
    } else {
      group_row(schedule, block_of, step->inputs[0], step->outputs, step->output_count, blocks);
    }
  }
}

delta_status_t delta_schedule_blocks_make(const delta_schedule_t *schedule, delta_region_t *region, delta_schedule_blocks_t *out_blocks) {
  const uint32_t count = schedule->buffer_count;
  uint32_t *head = NULL;
  *out_blocks = (delta_schedule_blocks_t){0};
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, count, &head));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, count, &out_blocks->block_of));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, count, &out_blocks->items));
  DELTA_RETURN_IF_ERROR(find_heads(schedule, head));
  out_blocks->count = make_blocks(schedule, head, out_blocks->items, out_blocks->block_of);
  group_rows(schedule, out_blocks->block_of, out_blocks->items);
  return DELTA_OK;
}
