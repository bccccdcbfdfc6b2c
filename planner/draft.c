// Draft: lifetimes, places, and the way back to a schedule. Everything is found by walks over steps and buffers: an edit is rare, and the lists are short.
#include "planner/draft.h"

#include <string.h>

#include "planner/live.h"

#define NONE DELTA_PROBLEM_NONE

// ---- Lifetimes

static void touch(delta_draft_t *draft, uint32_t buffer, uint32_t s) {
  if (buffer == NONE) return;
  delta_draft_buffer_t *entry = &draft->buffers.items[buffer];
  if (entry->is_gone) entry->entry.first_step = s;
  entry->entry.last_step = s;
  entry->is_gone = false;
  entry->is_pinned |= s < draft->run_count;
}

// Whether an in-place pair is still one.
static bool is_pair(const delta_draft_t *draft, const delta_draft_buffer_t *output) {
  const delta_draft_buffer_t *input = &draft->buffers.items[output->entry.inplace_of];
  return !output->is_gone && !input->is_gone && input->is_placed && output->is_placed &&
         input->entry.last_step == output->entry.first_step && input->entry.offset_bytes == output->entry.offset_bytes &&
         input->entry.size_bytes == output->entry.size_bytes;
}

// ---- Rows: edits do not move them, and are undone where they would break one

static bool is_in_row(const delta_draft_t *draft, uint32_t b) {
  const delta_buffer_t *entry = &draft->buffers.items[b].entry;
  return entry->inplace_of != NONE && draft->buffers.items[entry->inplace_of].entry.size_bytes != entry->size_bytes;
}

static bool makes_row(const delta_draft_t *draft, const delta_schedule_step_t *step) {
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (step->outputs[k] != NONE && is_in_row(draft, step->outputs[k])) return true;
  }
  return false;
}

// Whether an output takes its bytes in a row, this input's among them.
static bool takes_in_row(const delta_draft_t *draft, uint32_t output, uint32_t input) {
  const delta_draft_buffer_t *entry = &draft->buffers.items[output];
  if (entry->is_gone || !is_in_row(draft, output)) return false;
  return draft->buffers.items[input].entry.last_step == entry->entry.first_step &&
         delta_draft_reads(&draft->steps.items[entry->entry.first_step], input);
}

static bool lie_in_row(const delta_draft_t *draft, const uint32_t *buffers, uint32_t count, size_t offset_bytes) {
  for (uint32_t k = 0; k < count; ++k) {
    const delta_draft_buffer_t *buffer = &draft->buffers.items[buffers[k]];
    if (!buffer->is_placed || buffer->entry.offset_bytes != offset_bytes) return false;
    offset_bytes += buffer->entry.size_bytes;
  }
  return true;
}

// Whether the row of a step is as it was: its inputs die there, and both sides lie one behind another.
static bool row_holds(const delta_draft_t *draft, uint32_t s) {
  const delta_schedule_step_t *step = &draft->steps.items[s];
  const size_t offset_bytes = draft->buffers.items[step->inputs[0]].entry.offset_bytes;
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (draft->buffers.items[step->outputs[k]].entry.inplace_of != step->inputs[0]) return false;
  }
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (draft->buffers.items[step->inputs[k]].entry.last_step != s) return false;
  }
  return lie_in_row(draft, step->inputs, step->input_count, offset_bytes) &&
         lie_in_row(draft, step->outputs, step->output_count, offset_bytes);
}

bool delta_draft_rows_hold(const delta_draft_t *draft) {
  for (uint32_t s = draft->run_count; s < draft->steps.count; ++s) {
    if (makes_row(draft, &draft->steps.items[s]) && !row_holds(draft, s)) return false;
  }
  return true;
}

static void pin_rows(delta_draft_t *draft) {
  for (size_t s = 0; s < draft->steps.count; ++s) {
    const delta_schedule_step_t *step = &draft->steps.items[s];
    if (!makes_row(draft, step)) continue;
    for (uint32_t k = 0; k < step->input_count + step->output_count; ++k) {
      const uint32_t b = k < step->input_count ? step->inputs[k] : step->outputs[k - step->input_count];
      draft->buffers.items[b].is_pinned |= draft->buffers.items[b].is_placed;
    }
  }
}

static void set_lifetimes(delta_draft_t *draft) {
  const uint32_t step_count = (uint32_t)draft->steps.count;
  for (size_t b = 0; b < draft->buffers.count; ++b) {
    delta_draft_buffer_t *buffer = &draft->buffers.items[b];
    buffer->entry.first_step = buffer->entry.last_step = 0;
    buffer->is_gone = !buffer->is_given;
    buffer->is_pinned = buffer->is_given;
  }
  for (uint32_t s = 0; s < step_count; ++s) {
    const delta_schedule_step_t *step = &draft->steps.items[s];
    for (uint32_t k = 0; k < step->input_count; ++k) touch(draft, step->inputs[k], s);
    for (uint32_t k = 0; k < step->output_count; ++k) touch(draft, step->outputs[k], s);
    touch(draft, step->workspace, s);
  }
  for (size_t b = 0; b < draft->buffers.count; ++b) {
    delta_draft_buffer_t *buffer = &draft->buffers.items[b];
    if (buffer->is_final && step_count > 0) buffer->entry.last_step = step_count - 1;
  }
  for (size_t b = 0; b < draft->buffers.count; ++b) {
    delta_draft_buffer_t *buffer = &draft->buffers.items[b];
    if (buffer->entry.inplace_of != NONE && !is_in_row(draft, (uint32_t)b) && !is_pair(draft, buffer)) buffer->entry.inplace_of = NONE;
  }
  pin_rows(draft);
}

uint32_t delta_draft_writer(const delta_draft_t *draft, uint32_t buffer) {
  const delta_draft_buffer_t *entry = &draft->buffers.items[buffer];
  return entry->is_gone || entry->is_given ? NONE : entry->entry.first_step;
}

bool delta_draft_reads(const delta_schedule_step_t *step, uint32_t buffer) {
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (step->inputs[k] == buffer) return true;
  }
  return false;
}

// ---- Places

bool delta_draft_share_bytes(const delta_buffer_t *a, uint64_t offset_bytes, const delta_buffer_t *b) {
  return offset_bytes < b->offset_bytes + b->size_bytes && b->offset_bytes < offset_bytes + a->size_bytes;
}

// The end of what lies in a buffer's way at an offset; 0: nothing does.
static uint64_t find_obstacle(const delta_draft_t *draft, uint32_t b, uint64_t offset_bytes) {
  const delta_buffer_t *wanted = &draft->buffers.items[b].entry;
  for (uint32_t o = 0; o < draft->buffers.count; ++o) {
    const delta_draft_buffer_t *other = &draft->buffers.items[o];
    if (o == b || other->is_gone || !other->is_placed) continue;
    const delta_buffer_t *entry = &other->entry;
    if (entry->first_step > wanted->last_step || wanted->first_step > entry->last_step) continue;
    if (!delta_draft_share_bytes(wanted, offset_bytes, entry)) continue;
    const bool is_partner = wanted->inplace_of == o || entry->inplace_of == b;
    if (is_partner && entry->offset_bytes == offset_bytes) continue;
    if (offset_bytes == wanted->offset_bytes && (takes_in_row(draft, b, o) || takes_in_row(draft, o, b))) continue;
    return entry->offset_bytes + entry->size_bytes;
  }
  return 0;
}

bool delta_draft_is_sound(const delta_draft_t *draft) {
  for (uint32_t b = 0; b < draft->buffers.count; ++b) {
    const delta_draft_buffer_t *buffer = &draft->buffers.items[b];
    if (buffer->is_given && find_obstacle(draft, b, buffer->entry.offset_bytes) > 0) return false;
  }
  return true;
}

static void set_offset(delta_draft_t *draft, uint32_t b, uint64_t offset_bytes) {
  draft->buffers.items[b].entry.offset_bytes = (size_t)offset_bytes;
  draft->buffers.items[b].is_placed = true;
  for (size_t o = 0; o < draft->buffers.count; ++o) {
    delta_buffer_t *entry = &draft->buffers.items[o].entry;
    const bool is_partner = entry->inplace_of != NONE && (o == b || entry->inplace_of == b);
    if (is_partner && !is_in_row(draft, (uint32_t)o) && !is_pair(draft, &draft->buffers.items[o])) entry->inplace_of = NONE;
  }
}

bool delta_draft_place(delta_draft_t *draft, uint32_t buffer) {
  const delta_draft_buffer_t *entry = &draft->buffers.items[buffer];
  const uint64_t size_bytes = entry->entry.size_bytes, here_bytes = entry->entry.offset_bytes;
  if (entry->is_gone) return true;
  if (entry->is_pinned) return find_obstacle(draft, buffer, here_bytes) == 0;
  if (size_bytes > draft->capacity_bytes) return false;
  const bool may_stay = entry->is_placed && here_bytes <= draft->capacity_bytes - size_bytes;
  if (may_stay && find_obstacle(draft, buffer, here_bytes) == 0) return true;
  uint64_t offset_bytes = 0;
  for (uint64_t obstacle; offset_bytes <= draft->capacity_bytes - size_bytes; offset_bytes = obstacle) {
    obstacle = find_obstacle(draft, buffer, offset_bytes);
    if (obstacle > 0) continue;
    set_offset(draft, buffer, offset_bytes);
    return true;
  }
  return false;
}

// ---- Life

static delta_status_t copy_steps(delta_draft_t *draft, const delta_schedule_t *schedule, const bool *has_run) {
  DELTA_RETURN_IF_ERROR(delta_array_reserve(draft->allocator, &draft->steps, schedule->step_count));
  for (int pass = has_run ? 0 : 1; pass < 2; ++pass) {
    for (uint32_t s = 0; s < schedule->step_count; ++s) {
      if (has_run && has_run[s] != (pass == 0)) continue;
      delta_schedule_step_t step = schedule->steps[s];
      step.waits = NULL;
      step.wait_count = 0;
      DELTA_RETURN_IF_ERROR(delta_region_copy(&draft->region, step.inputs, step.input_count, sizeof *step.inputs, (void **)&step.inputs));
      DELTA_RETURN_IF_ERROR(
          delta_region_copy(&draft->region, step.outputs, step.output_count, sizeof *step.outputs, (void **)&step.outputs));
      draft->steps.items[draft->steps.count++] = step;
    }
    if (pass == 0) draft->run_count = (uint32_t)draft->steps.count;
  }
  return DELTA_OK;
}

static bool is_written(const delta_schedule_t *schedule, uint32_t buffer) {
  const delta_schedule_step_t *step = &schedule->steps[schedule->buffers[buffer].first_step];
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (step->outputs[k] == buffer) return true;
  }
  return step->workspace == buffer;
}

static delta_status_t copy_buffers(delta_draft_t *draft, const delta_schedule_t *schedule) {
  DELTA_RETURN_IF_ERROR(delta_array_reserve(draft->allocator, &draft->buffers, schedule->buffer_count));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    const uint32_t flags = buffer->tensor == NONE ? 0 : draft->problem->tensors[buffer->tensor].flags;
    draft->buffers.items[draft->buffers.count++] =
        (delta_draft_buffer_t){.entry = *buffer,
                               .is_given = !is_written(schedule, b),
                               .is_final = (flags & DELTA_TENSOR_OUTPUT) && buffer->last_step + 1 == schedule->step_count,
                               .is_placed = true};
  }
  return DELTA_OK;
}

delta_status_t delta_draft_init(delta_draft_t *draft, const delta_problem_t *problem, const delta_schedule_t *schedule, const bool *has_run,
                                uint64_t capacity_bytes, delta_allocator_t allocator) {
  *draft = (delta_draft_t){.problem = problem,
                           .allocator = allocator,
                           .capacity_bytes = capacity_bytes,
                           .host_bytes = schedule->host_bytes,
                           .host_limit_bytes = schedule->host_bytes};
  delta_region_init(&draft->region, allocator);
  delta_status_t status = copy_steps(draft, schedule, has_run);
  if (!status) status = copy_buffers(draft, schedule);
  if (status) {
    delta_draft_deinit(draft);
    return status;
  }
  set_lifetimes(draft);
  return DELTA_OK;
}

void delta_draft_deinit(delta_draft_t *draft) {
  delta_array_deinit(draft->allocator, &draft->steps);
  delta_array_deinit(draft->allocator, &draft->buffers);
  delta_array_deinit(draft->allocator, &draft->touched);
  delta_array_deinit(draft->allocator, &draft->saved_steps);
  delta_array_deinit(draft->allocator, &draft->saved_buffers);
  delta_region_deinit(&draft->region);
  *draft = (delta_draft_t){0};
}

delta_status_t delta_draft_save(delta_draft_t *draft) {
  draft->saved_steps.count = draft->saved_buffers.count = draft->touched.count = 0;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(draft->allocator, &draft->saved_steps, draft->steps.count));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(draft->allocator, &draft->saved_buffers, draft->buffers.count));
  memcpy(draft->saved_steps.items, draft->steps.items, draft->steps.count * sizeof *draft->steps.items);
  memcpy(draft->saved_buffers.items, draft->buffers.items, draft->buffers.count * sizeof *draft->buffers.items);
  draft->saved_steps.count = draft->steps.count;
  draft->saved_buffers.count = draft->buffers.count;
  draft->saved_host_bytes = draft->host_bytes;
  return DELTA_OK;
}

void delta_draft_restore(delta_draft_t *draft) {
  const delta_draft_steps_t steps = draft->steps;
  const delta_draft_buffers_t buffers = draft->buffers;
  draft->steps = draft->saved_steps;
  draft->buffers = draft->saved_buffers;
  draft->saved_steps = steps;
  draft->saved_buffers = buffers;
  draft->host_bytes = draft->saved_host_bytes;
}

delta_status_t delta_draft_add_buffer(delta_draft_t *draft, uint32_t tensor, size_t size_bytes, uint32_t *out_buffer) {
  const delta_draft_buffer_t buffer = {.entry = {.tensor = tensor, .size_bytes = size_bytes, .inplace_of = NONE}, .is_gone = true};
  *out_buffer = (uint32_t)draft->buffers.count;
  DELTA_RETURN_IF_ERROR(delta_array_push(draft->allocator, &draft->buffers, &buffer));
  return delta_array_push(draft->allocator, &draft->touched, out_buffer);
}

delta_status_t delta_draft_reserve(delta_draft_t *draft, size_t offset_bytes, size_t size_bytes) {
  const delta_draft_buffer_t buffer = {
      .entry = {.tensor = NONE, .size_bytes = size_bytes, .offset_bytes = offset_bytes, .inplace_of = NONE},
      .is_given = true,
      .is_final = true,
      .is_placed = true};
  DELTA_RETURN_IF_ERROR(delta_array_push(draft->allocator, &draft->buffers, &buffer));
  set_lifetimes(draft);
  return DELTA_OK;
}

delta_status_t delta_draft_insert(delta_draft_t *draft, uint32_t index, const delta_schedule_step_t *step) {
  const delta_schedule_step_t entry = *step;
  DELTA_RETURN_IF_ERROR(delta_array_push(draft->allocator, &draft->steps, &entry));
  delta_schedule_step_t *steps = draft->steps.items;
  memmove(&steps[index + 1], &steps[index], (draft->steps.count - 1 - index) * sizeof *steps);
  steps[index] = entry;
  return DELTA_OK;
}

// ---- What nobody needs

typedef struct pruner {
  delta_draft_t *draft;
  uint32_t *reader_count; // by buffer
  uint32_t *run_count;    // by problem step
  bool *is_removed;       // by step
} pruner_t;

static void count_uses(pruner_t *pruner) {
  for (size_t s = 0; s < pruner->draft->steps.count; ++s) {
    const delta_schedule_step_t *step = &pruner->draft->steps.items[s];
    for (uint32_t k = 0; k < step->input_count; ++k) {
      if (step->inputs[k] != NONE) ++pruner->reader_count[step->inputs[k]];
    }
    if (step->kind == DELTA_STEP_RUN) ++pruner->run_count[step->problem_step];
  }
}

static bool is_unused(const pruner_t *pruner, uint32_t buffer) {
  return buffer != NONE && pruner->reader_count[buffer] == 0 && !pruner->draft->buffers.items[buffer].is_final;
}

static bool is_home(const delta_draft_t *draft, const delta_schedule_step_t *step) {
  const delta_problem_tensor_t *tensor = &draft->problem->tensors[draft->buffers.items[step->inputs[0]].entry.tensor];
  return tensor->becomes_state != NONE;
}

// Whether what step `s` copies below comes back.
static bool comes_back(const pruner_t *pruner, uint32_t s) {
  const delta_schedule_step_t *steps = pruner->draft->steps.items;
  for (uint32_t later = s + 1; later < pruner->draft->steps.count; ++later) {
    const bool is_same = steps[later].kind != DELTA_STEP_RUN && steps[later].host_offset_bytes == steps[s].host_offset_bytes;
    if (is_same && !pruner->is_removed[later]) return steps[later].kind == DELTA_STEP_SWAP_IN;
  }
  return false;
}

static bool is_needed(const pruner_t *pruner, uint32_t s) {
  const delta_schedule_step_t *step = &pruner->draft->steps.items[s];
  if (step->kind == DELTA_STEP_SWAP_IN) return !is_unused(pruner, step->outputs[0]);
  if (step->kind == DELTA_STEP_SWAP_OUT) return is_home(pruner->draft, step) || comes_back(pruner, s);
  bool is_needed = pruner->run_count[step->problem_step] == 1;
  for (uint32_t k = 0; k < step->output_count && !is_needed; ++k) is_needed = !is_unused(pruner, step->outputs[k]);
  return is_needed;
}

static void prune_steps(pruner_t *pruner) {
  delta_draft_steps_t *steps = &pruner->draft->steps;
  for (uint32_t s = (uint32_t)steps->count; s-- > pruner->draft->run_count;) {
    const delta_schedule_step_t *step = &steps->items[s];
    if (is_needed(pruner, s)) continue;
    pruner->is_removed[s] = true;
    for (uint32_t k = 0; k < step->input_count; ++k) {
      if (step->inputs[k] != NONE) --pruner->reader_count[step->inputs[k]];
    }
    if (step->kind == DELTA_STEP_RUN) --pruner->run_count[step->problem_step];
  }
  size_t kept = 0;
  for (size_t s = 0; s < steps->count; ++s) {
    if (!pruner->is_removed[s]) steps->items[kept++] = steps->items[s];
  }
  steps->count = kept;
}

delta_status_t delta_draft_prune(delta_draft_t *draft) {
  pruner_t pruner = {.draft = draft};
  delta_region_t scratch;
  delta_region_init(&scratch, draft->allocator);
  delta_status_t status = DELTA_REGION_ALLOCATE(&scratch, draft->buffers.count, &pruner.reader_count);
  if (!status) status = DELTA_REGION_ALLOCATE(&scratch, draft->problem->step_count, &pruner.run_count);
  if (!status) status = DELTA_REGION_ALLOCATE(&scratch, draft->steps.count, &pruner.is_removed);
  if (!status) {
    count_uses(&pruner);
    prune_steps(&pruner);
    set_lifetimes(draft);
  }
  delta_region_deinit(&scratch);
  return status;
}

// ---- The way back

static uint32_t renumbered(const uint32_t *numbers, uint32_t buffer) { return buffer == NONE ? NONE : numbers[buffer]; }

static delta_status_t renumber_list(delta_region_t *region, const uint32_t *numbers, uint32_t count, uint32_t **inout_list) {
  DELTA_RETURN_IF_ERROR(delta_region_copy(region, *inout_list, count, sizeof **inout_list, (void **)inout_list));
  for (uint32_t k = 0; k < count; ++k) (*inout_list)[k] = renumbered(numbers, (*inout_list)[k]);
  return DELTA_OK;
}

// Buffers that steps from `first` on have to do with.
static delta_status_t write_buffers(const delta_draft_t *draft, uint32_t first, delta_schedule_t *schedule, uint32_t *numbers) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, draft->buffers.count, &schedule->buffers));
  for (size_t b = 0; b < draft->buffers.count; ++b) {
    const delta_draft_buffer_t *buffer = &draft->buffers.items[b];
    const bool is_reserved = buffer->is_given && buffer->entry.tensor == NONE;
    if (buffer->is_gone || is_reserved || buffer->entry.last_step < first) continue;
    if (!buffer->is_placed) return delta_status_make(INTERNAL, "buffer %zu of a draft has no place", b);
    const uint64_t end_bytes = (uint64_t)buffer->entry.offset_bytes + buffer->entry.size_bytes;
    if (end_bytes > schedule->arena_bytes) schedule->arena_bytes = end_bytes;
    numbers[b] = schedule->buffer_count;
    schedule->buffers[schedule->buffer_count++] = buffer->entry;
  }
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    delta_buffer_t *buffer = &schedule->buffers[b];
    const bool has_partner = buffer->inplace_of != NONE && draft->buffers.items[buffer->inplace_of].entry.last_step >= first;
    buffer->inplace_of = has_partner ? numbers[buffer->inplace_of] : NONE;
  }
  return DELTA_OK;
}

static delta_status_t write_steps(const delta_draft_t *draft, uint32_t first, delta_schedule_t *schedule, const uint32_t *numbers) {
  delta_region_t *region = &schedule->region;
  schedule->step_count = (uint32_t)draft->steps.count - first;
  DELTA_RETURN_IF_ERROR(
      delta_region_copy(region, draft->steps.items + first, schedule->step_count, sizeof *schedule->steps, (void **)&schedule->steps));
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    delta_schedule_step_t *step = &schedule->steps[s];
    DELTA_RETURN_IF_ERROR(renumber_list(region, numbers, step->input_count, &step->inputs));
    DELTA_RETURN_IF_ERROR(renumber_list(region, numbers, step->output_count, &step->outputs));
    step->workspace = renumbered(numbers, step->workspace);
  }
  return DELTA_OK;
}

static delta_status_t sum_up(const delta_draft_t *draft, delta_schedule_t *schedule) {
  bool *is_swapped = NULL, *has_run = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, draft->problem->tensor_count, &is_swapped));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, draft->problem->step_count, &has_run));
  schedule->host_bytes = draft->problem->home_bytes;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (step->kind == DELTA_STEP_RUN) {
      schedule->recomputed_nodes += has_run[step->problem_step];
      has_run[step->problem_step] = true;
      continue;
    }
    const bool is_out = step->kind == DELTA_STEP_SWAP_OUT;
    const delta_buffer_t *buffer = &schedule->buffers[is_out ? step->inputs[0] : step->outputs[0]];
    const uint64_t end_bytes = (uint64_t)step->host_offset_bytes + buffer->size_bytes;
    if (end_bytes > schedule->host_bytes) schedule->host_bytes = end_bytes;
    if (!is_out) continue;
    schedule->swapped_bytes += buffer->size_bytes;
    schedule->swapped_tensors += !is_swapped[buffer->tensor];
    is_swapped[buffer->tensor] = true;
  }
  return delta_live_measure_peak(schedule, draft->allocator);
}

static delta_status_t write_schedule(const delta_draft_t *draft, delta_schedule_t *schedule) {
  uint32_t *numbers = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, draft->buffers.count, &numbers));
  DELTA_RETURN_IF_ERROR(write_buffers(draft, 0, schedule, numbers));
  DELTA_RETURN_IF_ERROR(write_steps(draft, 0, schedule, numbers));
  DELTA_RETURN_IF_ERROR(sum_up(draft, schedule));
  DELTA_RETURN_IF_ERROR(delta_set_waits(schedule, DELTA_WAIT_FOR_BYTES, draft->allocator));
  DELTA_RETURN_IF_ERROR(delta_simulate(draft->problem, schedule, draft->allocator));
  return delta_schedule_verify(schedule, draft->problem, schedule->arena_bytes, draft->allocator);
}

delta_status_t delta_draft_finish(const delta_draft_t *draft, delta_schedule_t **out_schedule) {
  *out_schedule = NULL;
  delta_schedule_t *schedule = NULL;
  DELTA_RETURN_IF_ERROR(delta_schedule_create(draft->allocator, &schedule));
  delta_status_t status = write_schedule(draft, schedule);
  if (status) {
    delta_schedule_free(schedule);
    return status;
  }
  *out_schedule = schedule;
  return DELTA_OK;
}

// A schedule of what has not run: what it needs of what has run is there.
static delta_status_t simulate_rest(const delta_draft_t *draft, delta_schedule_t *schedule, double *out_seconds) {
  uint32_t *numbers = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, draft->buffers.count, &numbers));
  DELTA_RETURN_IF_ERROR(write_buffers(draft, draft->run_count, schedule, numbers));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    delta_buffer_t *buffer = &schedule->buffers[b];
    buffer->first_step = buffer->first_step > draft->run_count ? buffer->first_step - draft->run_count : 0;
    buffer->last_step = buffer->last_step > draft->run_count ? buffer->last_step - draft->run_count : 0;
  }
  DELTA_RETURN_IF_ERROR(write_steps(draft, draft->run_count, schedule, numbers));
  DELTA_RETURN_IF_ERROR(delta_set_waits(schedule, DELTA_WAIT_FOR_BYTES, draft->allocator));
  DELTA_RETURN_IF_ERROR(delta_simulate(draft->problem, schedule, draft->allocator));
  *out_seconds = schedule->step_seconds;
  return DELTA_OK;
}

delta_status_t delta_draft_simulate(const delta_draft_t *draft, double *out_seconds) {
  *out_seconds = 0;
  delta_schedule_t *schedule = NULL;
  if (draft->run_count == draft->steps.count) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_schedule_create(draft->allocator, &schedule));
  delta_status_t status = simulate_rest(draft, schedule, out_seconds);
  delta_schedule_free(schedule);
  return status;
}
