// Capacities between one that nothing can pass under and the arena of everything kept are halved; each is searched for a while.
#include "planner/least.h"

#include "planner/addresses.h"

enum { CAPACITIES_TRIED = 8, EVALUATIONS = 300, TENSORS_NAMED = 3 };

// What some step holds by itself, whatever is released.
static uint64_t unavoidable_bytes(const delta_problem_t *problem) {
  uint64_t most_bytes = 0;
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_problem_step_t *step = &problem->steps[s];
    uint64_t input_bytes = 0, output_bytes = 0;
    for (uint32_t k = 0; k < step->input_count; ++k) {
      const delta_problem_tensor_t *tensor = &problem->tensors[step->inputs[k]];
      if (!delta_problem_tensor_is_state(tensor)) input_bytes += tensor->size_bytes;
    }
    for (uint32_t k = 0; k < step->output_count; ++k) {
      const delta_problem_tensor_t *tensor = &problem->tensors[step->outputs[k]];
      if (!delta_problem_tensor_is_state(tensor)) output_bytes += tensor->size_bytes;
    }
    // Outputs may lie in the bytes of inputs.
    const uint64_t bytes = (input_bytes > output_bytes ? input_bytes : output_bytes) + step->workspace_bytes;
    if (bytes > most_bytes) most_bytes = bytes;
  }
  return most_bytes;
}

// What the searches have come to.
typedef struct least_search {
  const delta_problem_t *problem;
  const delta_order_t *order;
  delta_search_options_t options;
  delta_allocator_t allocator;
  uint64_t low_bytes, high_bytes; // nothing was found below the first; the second is the peak of the best
  delta_decision_list_t items;    // of the best
  delta_decisions_t decisions;
} least_search_t;

static delta_status_t try_capacity(least_search_t *search, uint64_t capacity_bytes) {
  delta_decision_list_t items = {0};
  delta_decisions_t decisions;
  delta_search_result_t result;
  search->options.capacity_bytes = capacity_bytes;
  DELTA_RETURN_IF_ERROR(delta_search(search->problem, search->order, &search->options, search->allocator, &items, &decisions, &result));
  // Decisions that do not fit may still be less full than the best.
  if (result.evaluation.is_possible && result.evaluation.peak_bytes < search->high_bytes) {
    delta_decision_list_t before = search->items;
    search->items = items;
    search->decisions = decisions;
    search->high_bytes = result.evaluation.peak_bytes;
    items = before;
  }
  if (!result.fits) search->low_bytes = capacity_bytes + 1;
  delta_array_deinit(search->allocator, &items);
  return DELTA_OK;
}

static delta_status_t make_schedule(const least_search_t *search, delta_schedule_t **out_schedule) {
  delta_schedule_t *schedule = NULL;
  DELTA_RETURN_IF_ERROR(
      delta_timed_schedule(search->problem, search->order, &search->decisions, search->high_bytes, search->allocator, &schedule));
  delta_status_t status = delta_layout_within(schedule, search->high_bytes, true, search->allocator);
  if (!status) status = delta_set_waits(schedule, DELTA_WAIT_FOR_BYTES, search->allocator);
  if (!status) status = delta_simulate(search->problem, schedule, search->allocator);
  if (status) {
    delta_schedule_free(schedule);
    schedule = NULL;
  }
  *out_schedule = schedule;
  return status;
}

delta_status_t delta_find_least(const delta_problem_t *problem, const delta_order_t *order, delta_liberties_t liberties,
                                const delta_schedule_t *kept, delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  *out_schedule = NULL;
  least_search_t search = {.problem = problem,
                           .order = order,
                           .options = {.liberties = liberties, .effort = {.evaluation_limit = EVALUATIONS}, .is_together = true},
                           .allocator = allocator,
                           .low_bytes = unavoidable_bytes(problem),
                           .high_bytes = kept->peak_bytes};
  delta_status_t status = DELTA_OK;
  for (int i = 0; i < CAPACITIES_TRIED && search.low_bytes < search.high_bytes; ++i) {
    // The first is what nothing can be below: where something reaches it, no other needs to be tried.
    const uint64_t capacity_bytes = i == 0 ? search.low_bytes : search.low_bytes + (search.high_bytes - search.low_bytes) / 2;
    DELTA_GOTO_IF_ERROR(status, try_capacity(&search, capacity_bytes), cleanup);
  }
  if (search.high_bytes < kept->peak_bytes) status = make_schedule(&search, out_schedule);
cleanup:
  delta_array_deinit(allocator, &search.items);
  return status;
}

// The buffers that live at the peak, largest first; at most TENSORS_NAMED.
static uint32_t find_largest_at_peak(const delta_schedule_t *schedule, uint32_t largest[TENSORS_NAMED]) {
  uint32_t count = 0;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    if (buffer->first_step > schedule->peak_step || buffer->last_step < schedule->peak_step) continue;
    uint32_t at = count;
    for (; at > 0 && schedule->buffers[largest[at - 1]].size_bytes < buffer->size_bytes; --at) {
      if (at < TENSORS_NAMED) largest[at] = largest[at - 1];
    }
    if (at < TENSORS_NAMED) largest[at] = b;
    if (count < TENSORS_NAMED) ++count;
  }
  return count;
}

delta_status_t delta_describe_peak(const delta_problem_t *problem, const delta_schedule_t *schedule, delta_text_t *out_text) {
  uint32_t largest[TENSORS_NAMED];
  const uint32_t count = find_largest_at_peak(schedule, largest), step = delta_schedule_peak_problem_step(schedule);
  DELTA_RETURN_IF_ERROR(delta_text_append(out_text, "step '%s' sets it, its largest tensors are ",
                                          step == DELTA_PROBLEM_NONE ? "(start)" : problem->steps[step].name));
  for (uint32_t k = 0; k < count; ++k) {
    const delta_buffer_t *buffer = &schedule->buffers[largest[k]];
    char size[DELTA_SIZE_TEXT_BYTES];
    const char *name = buffer->tensor == DELTA_PROBLEM_NONE ? "(workspace)" : problem->tensors[buffer->tensor].name;
    DELTA_RETURN_IF_ERROR(delta_text_append(out_text, "%s'%s' %s", k > 0 ? ", " : "", name, delta_size_text(buffer->size_bytes, size)));
  }
  return count > 0 ? DELTA_OK : delta_text_append(out_text, "none");
}
