// Waits: what a step needs of other lanes, less what it knows anyway. A lane runs in order and a step waits for earlier steps only, so for each step it is
// enough to know, for each lane, the last step that has certainly ended when it starts; a wait adds what its step knew.
#include <stdlib.h>

#include "planner/planner.h"
#include "plans/occupancy.h"

// By lane: a step plus one; 0: none.
typedef struct lane_marks {
  uint32_t last[DELTA_LANE_COUNT];
} lane_marks_t;

typedef struct wait_builder {
  delta_schedule_t *schedule;
  delta_region_t scratch; // Owns the tables.
  lane_marks_t *ended;    // by step: what has ended when it starts
  lane_marks_t *users;    // by buffer: last steps that write or read it
  uint32_t *writer;       // by buffer: the step that writes it, or NONE
  uint64_t *slots;        // sorted: where slots of the tier below begin, each once
  uint32_t slot_count;
  lane_marks_t *slot_users; // by slot: last steps that copied to or from it
  delta_occupancy_t occupancy;
  uint32_t *sorted; // buffers by first step
  uint32_t next;    // the first of `sorted` that has not come
  // Of the step at hand:
  uint32_t newcomer; // a buffer it writes first
  lane_marks_t needed;
} wait_builder_t;

static void raise_mark(lane_marks_t *marks, delta_lane_t lane, uint32_t mark) {
  if (marks->last[lane] < mark) marks->last[lane] = mark;
}

static void join_marks(lane_marks_t *marks, const lane_marks_t *other) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) raise_mark(marks, (delta_lane_t)l, other->last[l]);
}

static void note_user(wait_builder_t *builder, uint32_t s, uint32_t buffer, bool writes) {
  if (buffer == DELTA_PROBLEM_NONE) return;
  raise_mark(&builder->users[buffer], builder->schedule->steps[s].lane, s + 1);
  if (writes) builder->writer[buffer] = s;
}

static void note_users(wait_builder_t *builder) {
  const delta_schedule_t *schedule = builder->schedule;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    for (uint32_t k = 0; k < step->input_count; ++k) note_user(builder, s, step->inputs[k], false);
    for (uint32_t k = 0; k < step->output_count; ++k) note_user(builder, s, step->outputs[k], true);
    note_user(builder, s, step->workspace, true);
  }
}

static delta_status_t allocate_tables(wait_builder_t *builder) {
  const delta_schedule_t *schedule = builder->schedule;
  delta_region_t *scratch = &builder->scratch;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, schedule->step_count, &builder->ended));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, schedule->buffer_count, &builder->users));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, schedule->buffer_count, &builder->writer));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, schedule->step_count, &builder->slots));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(scratch, schedule->step_count, &builder->slot_users));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) builder->writer[b] = DELTA_PROBLEM_NONE;
  return DELTA_OK;
}

// ---- Slots: those of a schedule are the same or do not touch

static int compare_slots(const void *left, const void *right) {
  const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

static void list_slots(wait_builder_t *builder) {
  uint32_t count = 0;
  for (uint32_t s = 0; s < builder->schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &builder->schedule->steps[s];
    if (step->kind != DELTA_STEP_RUN) builder->slots[count++] = step->host_offset_bytes;
  }
  qsort(builder->slots, count, sizeof *builder->slots, compare_slots);
  for (uint32_t i = 0; i < count; ++i) {
    if (i == 0 || builder->slots[i] != builder->slots[i - 1]) builder->slots[builder->slot_count++] = builder->slots[i];
  }
}

static lane_marks_t *slot_users(const wait_builder_t *builder, const delta_schedule_step_t *step) {
  const uint64_t offset_bytes = step->host_offset_bytes;
  const uint64_t *slot = bsearch(&offset_bytes, builder->slots, builder->slot_count, sizeof *slot, compare_slots);
  return &builder->slot_users[slot - builder->slots];
}

// A copy back waits for the copy below; a copy below waits for all that its slot was used for before.
static void need_slot(wait_builder_t *builder, uint32_t s) {
  const delta_schedule_step_t *step = &builder->schedule->steps[s];
  lane_marks_t *users = slot_users(builder, step);
  if (step->kind == DELTA_STEP_SWAP_OUT) {
    join_marks(&builder->needed, users);
  } else {
    raise_mark(&builder->needed, DELTA_LANE_OFFLOAD, users->last[DELTA_LANE_OFFLOAD]);
  }
  raise_mark(users, step->lane, s + 1);
}

// ---- Bytes

static delta_status_t prepare_bytes(wait_builder_t *builder) {
  const delta_schedule_t *schedule = builder->schedule;
  uint32_t *starts = NULL;
  uint64_t *begins = NULL, *ends = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&builder->scratch, (size_t)schedule->step_count + 2, &starts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&builder->scratch, schedule->buffer_count, &builder->sorted));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&builder->scratch, schedule->buffer_count, &begins));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&builder->scratch, schedule->buffer_count, &ends));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    ++starts[schedule->buffers[b].first_step + 1];
    begins[b] = schedule->buffers[b].offset_bytes;
    ends[b] = begins[b] + schedule->buffers[b].size_bytes;
  }
  for (uint32_t s = 0; s <= schedule->step_count; ++s) starts[s + 1] += starts[s];
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) builder->sorted[starts[schedule->buffers[b].first_step]++] = b;
  return delta_occupancy_init(&builder->occupancy, begins, ends, schedule->buffer_count, &builder->scratch);
}

// Whoever held the newcomer's bytes must have finished with them; the step itself may be one of its users, when it works in place.
static delta_status_t need_end_of_holder(void *self, uint32_t holder) {
  wait_builder_t *builder = self;
  const delta_buffer_t *newcomer = &builder->schedule->buffers[builder->newcomer];
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    const uint32_t last_use = builder->users[holder].last[l];
    if (newcomer->inplace_of != DELTA_PROBLEM_NONE && last_use == newcomer->first_step + 1) continue;
    raise_mark(&builder->needed, (delta_lane_t)l, last_use);
  }
  return DELTA_OK;
}

static delta_status_t need_bytes(wait_builder_t *builder, uint32_t s) {
  const delta_schedule_t *schedule = builder->schedule;
  for (; builder->next < schedule->buffer_count; ++builder->next) {
    const uint32_t b = builder->sorted[builder->next];
    const delta_buffer_t *buffer = &schedule->buffers[b];
    if (buffer->first_step > s) break;
    builder->newcomer = b;
    DELTA_RETURN_IF_ERROR(delta_occupancy_take(&builder->occupancy, buffer->offset_bytes, buffer->offset_bytes + buffer->size_bytes, b,
                                               need_end_of_holder, builder));
  }
  return DELTA_OK;
}

// ---- Data

static void need_step(wait_builder_t *builder, uint32_t step) {
  if (step != DELTA_PROBLEM_NONE) raise_mark(&builder->needed, builder->schedule->steps[step].lane, step + 1);
}

static void need_data(wait_builder_t *builder, uint32_t s) {
  const delta_schedule_step_t *step = &builder->schedule->steps[s];
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (step->inputs[k] != DELTA_PROBLEM_NONE) need_step(builder, builder->writer[step->inputs[k]]);
  }
  if (step->kind != DELTA_STEP_RUN) need_slot(builder, s);
}

// ---- Waits

// Turns what the step needs into waits, the latest first: what its step knew may cover the others.
static delta_status_t write_waits(wait_builder_t *builder, uint32_t s) {
  delta_schedule_step_t *step = &builder->schedule->steps[s];
  lane_marks_t *known = &builder->ended[s];
  step->wait_count = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&builder->schedule->region, DELTA_LANE_COUNT, &step->waits));
  for (;;) {
    uint32_t latest = 0;
    for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
      if (builder->needed.last[l] > known->last[l] && builder->needed.last[l] > latest) latest = builder->needed.last[l];
    }
    if (latest == 0) return DELTA_OK;
    const uint32_t awaited = latest - 1;
    join_marks(known, &builder->ended[awaited]);
    raise_mark(known, builder->schedule->steps[awaited].lane, latest);
    for (uint32_t w = step->wait_count++; w > 0; --w) step->waits[w] = step->waits[w - 1];
    step->waits[0] = awaited;
  }
}

static delta_status_t set_waits(wait_builder_t *builder, delta_wait_rule_t rule) {
  const delta_schedule_t *schedule = builder->schedule;
  lane_marks_t last_of_lane = {0};
  DELTA_RETURN_IF_ERROR(allocate_tables(builder));
  note_users(builder);
  list_slots(builder);
  if (rule != DELTA_WAIT_FOR_DATA) DELTA_RETURN_IF_ERROR(prepare_bytes(builder));
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_lane_t lane = schedule->steps[s].lane;
    const uint32_t before = last_of_lane.last[lane];
    builder->needed = (lane_marks_t){0};
    if (before > 0) builder->ended[s] = builder->ended[before - 1];
    builder->ended[s].last[lane] = before;
    need_data(builder, s);
    if (rule == DELTA_WAIT_ONE_AT_A_TIME && s > 0) need_step(builder, s - 1);
    if (rule != DELTA_WAIT_FOR_DATA) DELTA_RETURN_IF_ERROR(need_bytes(builder, s));
    DELTA_RETURN_IF_ERROR(write_waits(builder, s));
    last_of_lane.last[lane] = s + 1;
  }
  return DELTA_OK;
}

delta_status_t delta_set_waits(delta_schedule_t *schedule, delta_wait_rule_t rule, delta_allocator_t allocator) {
  wait_builder_t builder = {.schedule = schedule};
  delta_region_init(&builder.scratch, allocator);
  delta_status_t status = set_waits(&builder, rule);
  delta_region_deinit(&builder.scratch);
  return status;
}
