// First fit over the lifetimes that are known. Nothing is allocated: this happens during a step.
#include "runtime/keeper.h"

#include <string.h>

void delta_keeper_reset(delta_keeper_t *keeper, uint64_t arena_bytes) {
  keeper->arena_bytes = arena_bytes;
  atomic_store(&keeper->count, 0);
  delta_status_free(keeper->cause);
  keeper->cause = DELTA_OK;
}

static bool reads_buffer(const delta_schedule_step_t *step, uint32_t buffer) {
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (step->inputs[k] == buffer) return true;
  }
  return false;
}

// The first step that computes with the buffer which step `s` copies back.
static uint32_t find_reader(const delta_schedule_t *schedule, uint32_t s) {
  const uint32_t buffer = schedule->steps[s].outputs[0];
  uint32_t reader = s;
  while (reader + 1 < schedule->step_count &&
         (schedule->steps[reader].kind != DELTA_STEP_RUN || !reads_buffer(&schedule->steps[reader], buffer))) {
    ++reader;
  }
  return reader;
}

// When the tensor comes back; back_step is copied_step when it does not.
static void find_returns(const delta_schedule_t *schedule, delta_kept_t *kept) {
  const size_t slot_bytes = schedule->steps[kept->copied_step].host_offset_bytes;
  kept->back_step = kept->until_step = kept->copied_step;
  for (uint32_t s = kept->copied_step + 1; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (step->kind == DELTA_STEP_RUN || step->host_offset_bytes != slot_bytes) continue;
    if (step->kind == DELTA_STEP_SWAP_OUT) return;
    kept->back_step = s;
    const uint32_t reader = find_reader(schedule, s);
    if (reader > kept->until_step) kept->until_step = reader;
  }
}

static bool overlap(size_t begin_a, size_t bytes_a, size_t begin_b, size_t bytes_b) {
  return begin_a < begin_b + bytes_b && begin_b < begin_a + bytes_a;
}

// The end of something that lies in the bytes while they are wanted; 0: they are free.
static size_t find_obstacle(const delta_keeper_t *keeper, const delta_kept_t *wanted, uint32_t earliest_step) {
  for (uint32_t b = 0; b < keeper->schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &keeper->schedule->buffers[b];
    if (buffer->first_step > wanted->until_step || buffer->last_step < earliest_step) continue;
    if (overlap(wanted->offset_bytes, wanted->size_bytes, buffer->offset_bytes, buffer->size_bytes)) {
      return buffer->offset_bytes + buffer->size_bytes;
    }
  }
  const uint32_t count = atomic_load(&keeper->count);
  for (uint32_t i = 0; i < count; ++i) {
    const delta_kept_t *other = &keeper->kept[i];
    if (other->until_step < earliest_step) continue;
    if (overlap(wanted->offset_bytes, wanted->size_bytes, other->offset_bytes, other->size_bytes)) {
      return other->offset_bytes + other->size_bytes;
    }
  }
  return 0;
}

static bool find_room(const delta_keeper_t *keeper, delta_kept_t *wanted, uint32_t earliest_step) {
  for (size_t obstacle = 0;; wanted->offset_bytes = obstacle) {
    if (wanted->offset_bytes + wanted->size_bytes > keeper->arena_bytes) return false;
    obstacle = find_obstacle(keeper, wanted, earliest_step);
    if (obstacle == 0) return true;
  }
}

delta_status_t delta_keeper_keep(delta_keeper_t *keeper, uint32_t step, uint32_t earliest_step, delta_status_t failure) {
  const delta_buffer_t *buffer = &keeper->schedule->buffers[keeper->schedule->steps[step].inputs[0]];
  const uint32_t count = atomic_load(&keeper->count);
  delta_kept_t kept = {.copied_step = step, .size_bytes = buffer->size_bytes};
  if (keeper->problem->tensors[buffer->tensor].becomes_state != DELTA_PROBLEM_NONE) {
    return delta_status_annotate(failure, "a state whose home is below cannot be kept above");
  }
  find_returns(keeper->schedule, &kept);
  if (kept.back_step > step) {
    if (count == DELTA_KEEPER_MOST || !find_room(keeper, &kept, earliest_step)) {
      return delta_status_annotate(failure, "there are no %zu free bytes to keep it in the arena; give a larger --budget", kept.size_bytes);
    }
    memcpy(keeper->arena + kept.offset_bytes, keeper->arena + buffer->offset_bytes, kept.size_bytes);
  }
  if (count < DELTA_KEEPER_MOST) {
    keeper->kept[count] = kept;
    atomic_store(&keeper->count, count + 1);
  }
  keeper->cause = delta_status_join(keeper->cause, failure);
  return DELTA_OK;
}

const void *delta_keeper_find(const delta_keeper_t *keeper, uint32_t step) {
  const uint32_t count = atomic_load(&keeper->count);
  const size_t slot_bytes = keeper->schedule->steps[step].host_offset_bytes;
  for (uint32_t i = 0; i < count; ++i) {
    const delta_kept_t *kept = &keeper->kept[i];
    const bool is_same = keeper->schedule->steps[kept->copied_step].host_offset_bytes == slot_bytes;
    if (is_same && kept->copied_step < step && step <= kept->back_step) return keeper->arena + kept->offset_bytes;
  }
  return NULL;
}

void delta_keeper_adopt(delta_keeper_t *keeper, const delta_keeper_t *from, const uint32_t *steps) {
  const uint32_t count = atomic_load(&from->count);
  uint32_t adopted = 0;
  for (uint32_t i = 0; i < count; ++i) {
    delta_kept_t kept = from->kept[i];
    kept.copied_step = steps[kept.copied_step];
    if (kept.copied_step == DELTA_PROBLEM_NONE) continue;
    find_returns(keeper->schedule, &kept);
    keeper->kept[adopted++] = kept;
  }
  atomic_store(&keeper->count, adopted);
}
