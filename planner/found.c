// Found: a search knows no addresses. What they take beyond the live bytes becomes a constraint of the next search.
#include "planner/found.h"

#include "planner/retime.h"
#include "planner/simulate.h"

// Searches go on from each other, each twice as long as the last that found a plan with addresses. What addresses take beyond the capacity is taken off the next one's; what they leave is given back by halves.
enum {
  LEAST_SEARCHES = 10,
  TOGETHER_SEARCHES = 5,
  FIRST_EVALUATIONS = 600,
  DEFAULT_EVALUATIONS = 20000,
  FINEST_PARTS = 400,
  MOST_REOPENINGS = 4,
  HASTY_EVALUATIONS = 4000
};

struct delta_finder {
  const delta_problem_t *problem;
  const delta_order_t *order;
  delta_search_options_t options;
  delta_allocator_t allocator;
  delta_decision_list_t items, best_items; // of the last search, and of the best schedule
  delta_decisions_t decisions, best_decisions;
  uint64_t tried_bytes;         // the capacity that searches are given
  uint64_t fitting_bytes;       // with which the best schedule was found
  uint64_t missing_bytes;       // the last of them whose plan had no addresses within the capacity; at first the capacity
  int reopenings, search_count; // so far
  int misses;                   // in a row
  uint64_t spent_evaluations;
  uint64_t next_evaluations; // of the next search
  delta_schedule_t *best;    // Owned; the fastest that fits, or NULL
  bool has_failed, has_fit;  // the last search, in time and in addresses
  bool has_finished;         // before its evaluations were used up
  bool is_done;              // nothing better is to be expected
};

// The timed schedule; its copies back come as early as they can, or as late.
static delta_status_t make_timed(const delta_problem_t *problem, const delta_order_t *order, const delta_decisions_t *decisions,
                                 uint64_t capacity_bytes, bool is_late, delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  delta_evaluator_t evaluator;
  delta_evaluation_t evaluation;
  delta_schedule_t *schedule = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_evaluator_init(&evaluator, problem, order, allocator));
  DELTA_GOTO_IF_ERROR(status, delta_evaluator_measure(&evaluator, decisions, capacity_bytes, &evaluation), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_evaluator_time(&evaluator, &evaluation), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_schedule_copy(evaluator.expansion.schedule, allocator, &schedule), cleanup);
  if (is_late) DELTA_GOTO_IF_ERROR(status, delta_delay_copies_back(problem, schedule, allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_retime(problem, schedule, allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_simulate_sums(problem, schedule, allocator), cleanup);
  *out_schedule = schedule;
  schedule = NULL;
cleanup:
  delta_schedule_free(schedule);
  delta_evaluator_deinit(&evaluator);
  return status;
}

delta_status_t delta_timed_schedule(const delta_problem_t *problem, const delta_order_t *order, const delta_decisions_t *decisions,
                                    uint64_t capacity_bytes, delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  return make_timed(problem, order, decisions, capacity_bytes, false, allocator, out_schedule);
}

// The capacity of the next search, after addresses that took arena_bytes.
static void set_tried_bytes(delta_finder_t *finder, uint64_t arena_bytes) {
  const uint64_t capacity_bytes = finder->options.capacity_bytes;
  if (finder->has_fit) {
    finder->misses = 0;
    const uint64_t finest_bytes = capacity_bytes / FINEST_PARTS;
    // What a plan missed by, a later one need not: now and then all of the capacity is open again.
    if (finder->missing_bytes <= finder->tried_bytes + finest_bytes && finder->reopenings < MOST_REOPENINGS) {
      finder->missing_bytes = capacity_bytes;
      ++finder->reopenings;
    }
    if (finder->missing_bytes > finder->tried_bytes + finest_bytes) {
      finder->tried_bytes += (finder->missing_bytes - finder->tried_bytes) / 2;
    }
  } else {
    // Back to what there were addresses for. Without that, or if they are missed there too, less: a plan that misses may miss by as much in a little less, so each time more is
    // taken off.
    const uint64_t finest_bytes = capacity_bytes / FINEST_PARTS, above_bytes = arena_bytes - capacity_bytes;
    const uint64_t beyond_bytes = (above_bytes > finest_bytes ? above_bytes : finest_bytes) * (uint64_t)++finder->misses;
    finder->missing_bytes = finder->tried_bytes;
    if (finder->best && finder->fitting_bytes < finder->tried_bytes) {
      finder->tried_bytes = finder->fitting_bytes;
    } else {
      finder->tried_bytes -= beyond_bytes < finder->tried_bytes ? beyond_bytes : finder->tried_bytes;
    }
  }
}

// The decisions of the last search are those of the best schedule.
static delta_status_t keep_decisions(delta_finder_t *finder) {
  finder->best_items.count = 0;
  for (size_t i = 0; i < finder->items.count; ++i) {
    DELTA_RETURN_IF_ERROR(delta_array_push(finder->allocator, &finder->best_items, &finder->items.items[i]));
  }
  finder->best_decisions = finder->decisions;
  finder->best_decisions.items = finder->best_items.items;
  return DELTA_OK;
}

static void hold_buffer(delta_schedule_t *schedule, uint32_t buffer, uint32_t step, uint32_t last) {
  if (buffer != DELTA_PROBLEM_NONE && schedule->buffers[buffer].last_step == step) schedule->buffers[buffer].last_step = last;
}

// Copies back that start while a step runs stand behind it, so what it uses last seems to be gone when they start. Such buffers live on until the last of these copies.
static void hold_until_ends(delta_schedule_t *schedule) {
  for (uint32_t s = schedule->step_count; s-- > 0;) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    uint32_t last = s;
    if (step->kind != DELTA_STEP_RUN) continue;
    while (last + 1 < schedule->step_count && schedule->steps[last + 1].start_seconds < step->end_seconds) ++last;
    for (uint32_t k = 0; k < step->input_count; ++k) hold_buffer(schedule, step->inputs[k], s, last);
    for (uint32_t k = 0; k < step->output_count; ++k) hold_buffer(schedule, step->outputs[k], s, last);
    hold_buffer(schedule, step->workspace, s, last);
  }
}

// Gives a timed schedule addresses, as if what a step uses last stayed until it has ended in time.
static delta_status_t lay_out_held(const delta_finder_t *finder, bool is_hasty, delta_schedule_t *schedule) {
  uint32_t *last_steps = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(finder->allocator, schedule->buffer_count, &last_steps));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) last_steps[b] = schedule->buffers[b].last_step;
  hold_until_ends(schedule);
  const delta_status_t status = delta_layout_within(schedule, finder->options.capacity_bytes, is_hasty, finder->allocator);
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) schedule->buffers[b].last_step = last_steps[b];
  delta_release(finder->allocator, last_steps);
  return status;
}

// How addresses are looked for, the best first: copies back come as early as they can, or as late; at last they may have to wait for what is still in use.
typedef struct finder_layout {
  bool is_late, is_held;
} finder_layout_t;
static const finder_layout_t layouts[] = {{false, true}, {true, true}, {true, false}};

// Makes the schedule of the last search's decisions, with addresses.
static delta_status_t lay_out(const delta_finder_t *finder, bool is_hasty, delta_schedule_t **out_schedule) {
  const uint64_t capacity_bytes = finder->options.capacity_bytes;
  delta_schedule_t *schedule = NULL;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; ++i) {
    delta_schedule_free(schedule);
    DELTA_RETURN_IF_ERROR(make_timed(finder->problem, finder->order, &finder->decisions, finder->tried_bytes, layouts[i].is_late,
                                     finder->allocator, &schedule));
    delta_status_t status = layouts[i].is_held ? lay_out_held(finder, is_hasty, schedule)
                                               : delta_layout_within(schedule, capacity_bytes, is_hasty, finder->allocator);
    if (status) {
      delta_schedule_free(schedule);
      return status;
    }
    if (schedule->arena_bytes <= capacity_bytes) break;
  }
  *out_schedule = schedule;
  return DELTA_OK;
}

// Gives the decisions of the last search addresses, and keeps the schedule if it fits and is the fastest.
static delta_status_t try_addresses(delta_finder_t *finder, bool is_hasty) {
  const uint64_t capacity_bytes = finder->options.capacity_bytes, tried_bytes = finder->tried_bytes;
  delta_schedule_t *schedule = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, lay_out(finder, is_hasty, &schedule), cleanup);
  finder->has_fit = schedule->arena_bytes <= capacity_bytes;
  set_tried_bytes(finder, schedule->arena_bytes);
  if (!finder->has_fit) goto cleanup;
  DELTA_GOTO_IF_ERROR(status, delta_set_waits(schedule, DELTA_WAIT_FOR_BYTES, finder->allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_simulate(finder->problem, schedule, finder->allocator), cleanup);
  if (!finder->best || schedule->step_seconds < finder->best->step_seconds) {
    delta_schedule_free(finder->best);
    finder->best = schedule;
    schedule = NULL;
    finder->fitting_bytes = tried_bytes;
    DELTA_GOTO_IF_ERROR(status, keep_decisions(finder), cleanup);
  }
cleanup:
  delta_schedule_free(schedule);
  return status;
}

// One search from the best plan, or, while there is none, from where the last search ended.
static delta_status_t search_once(delta_finder_t *finder, uint64_t evaluations) {
  delta_search_options_t options = finder->options;
  const delta_decisions_t start = finder->best ? finder->best_decisions : finder->decisions;
  const size_t start_count = finder->best ? finder->best_items.count : finder->items.count;
  delta_decision_list_t items;
  delta_search_result_t result;
  options.capacity_bytes = finder->tried_bytes;
  options.effort.evaluation_limit = evaluations;
  options.effort.seed += (uint64_t)finder->search_count;
  options.is_together = finder->search_count++ < TOGETHER_SEARCHES;
  if (start_count > 0) options.start = &start;
  DELTA_RETURN_IF_ERROR(delta_search(finder->problem, finder->order, &options, finder->allocator, &items, &finder->decisions, &result));
  delta_array_deinit(finder->allocator, &finder->items);
  finder->items = items;
  finder->spent_evaluations += result.evaluation_count;
  finder->has_failed = !result.fits;
  finder->has_fit = false;
  finder->has_finished = result.evaluation_count < evaluations;
  return result.fits ? try_addresses(finder, evaluations < HASTY_EVALUATIONS) : DELTA_OK;
}

// Searches until the effort is used up. What the deadline cut short is not known to have ended by itself.
static delta_status_t find(delta_finder_t *finder) {
  const delta_planner_effort_t *effort = &finder->options.effort;
  const bool is_limited = effort->evaluation_limit > 0 || !effort->is_past_deadline;
  const uint64_t most = effort->evaluation_limit > 0 ? effort->evaluation_limit : DEFAULT_EVALUATIONS;
  const uint64_t limit = is_limited ? finder->spent_evaluations + most : UINT64_MAX;
  while (!finder->is_done) {
    const bool is_past = effort->is_past_deadline && effort->is_past_deadline(effort->self);
    const bool is_over = finder->spent_evaluations >= limit || (finder->search_count > 0 && is_past);
    if (is_over && (finder->best || finder->search_count >= LEAST_SEARCHES)) return DELTA_OK;
    const uint64_t left = is_over ? FIRST_EVALUATIONS : limit - finder->spent_evaluations;
    const uint64_t tried_bytes = finder->tried_bytes, evaluations = finder->next_evaluations < left ? finder->next_evaluations : left;
    DELTA_RETURN_IF_ERROR(search_once(finder, evaluations));
    const bool is_cut = effort->is_past_deadline && effort->is_past_deadline(effort->self);
    // Without anything left to give back, a search that ended by itself was the last.
    finder->is_done = finder->has_fit && finder->has_finished && !is_cut && finder->tried_bytes == tried_bytes;
    // How much has to be left for addresses is found out by short searches.
    const bool was_whole = evaluations == finder->next_evaluations && !is_cut;
    if (was_whole && (finder->has_fit || finder->has_failed)) finder->next_evaluations *= 2;
    // Too much was taken off, or the search was too short.
    if (!finder->has_failed) continue;
    if (finder->tried_bytes >= finder->missing_bytes) {
      finder->is_done = finder->has_finished && !is_cut;
      continue;
    }
    finder->tried_bytes += (finder->missing_bytes - finder->tried_bytes + 1) / 2;
  }
  return DELTA_OK;
}

delta_status_t delta_finder_create(const delta_problem_t *problem, const delta_order_t *order, const delta_search_options_t *options,
                                   delta_allocator_t allocator, delta_finder_t **out_finder) {
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, out_finder));
  **out_finder = (delta_finder_t){.problem = problem,
                                  .order = order,
                                  .options = *options,
                                  .allocator = allocator,
                                  .tried_bytes = options->capacity_bytes,
                                  .missing_bytes = options->capacity_bytes,
                                  .next_evaluations = FIRST_EVALUATIONS};
  return DELTA_OK;
}

void delta_finder_destroy(delta_finder_t *finder) {
  if (!finder) return;
  delta_array_deinit(finder->allocator, &finder->items);
  delta_array_deinit(finder->allocator, &finder->best_items);
  delta_schedule_free(finder->best);
  delta_release(finder->allocator, finder);
}

const delta_decisions_t *delta_finder_decisions(const delta_finder_t *finder) { return finder->best ? &finder->best_decisions : NULL; }

delta_status_t delta_finder_run(delta_finder_t *finder, const delta_planner_effort_t *effort, delta_schedule_t **out_schedule) {
  *out_schedule = NULL;
  const uint64_t seed = finder->options.effort.seed;
  finder->options.effort = *effort;
  if (finder->search_count > 0) finder->options.effort.seed = seed;
  DELTA_RETURN_IF_ERROR(find(finder));
  finder->options.start = NULL;
  return finder->best ? delta_schedule_copy(finder->best, finder->allocator, out_schedule) : DELTA_OK;
}

delta_status_t delta_find_schedule(const delta_problem_t *problem, const delta_order_t *order, const delta_search_options_t *options,
                                   delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  delta_finder_t *finder = NULL;
  *out_schedule = NULL;
  DELTA_RETURN_IF_ERROR(delta_finder_create(problem, order, options, allocator, &finder));
  const delta_status_t status = delta_finder_run(finder, &options->effort, out_schedule);
  delta_finder_destroy(finder);
  return status;
}
