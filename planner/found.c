// Found: a search knows no addresses. What they take beyond the live bytes becomes a constraint of the next search.
#include "planner/found.h"

#include <math.h>

#include "planner/advance.h"
#include "planner/retime.h"
#include "planner/simulate.h"

// Searches go on from each other, each twice as long as the last that found a plan with addresses. What addresses take beyond the capacity is taken off the next one's; what they leave is given back by halves.
// Where nothing faster lies beside the best plan, the next search begins anew.
enum {
  LEAST_SEARCHES = 10,
  TOGETHER_SEARCHES = 5,
  FIRST_EVALUATIONS = 600,
  DEFAULT_EVALUATIONS = 20000,
  FINEST_PARTS = 400,
  MOST_REOPENINGS = 4,
  MOST_REPAIRS = 3,
  MOST_STALE = 4,
  NEAR_PARTS = 10,  // a miss by less of the capacity is worth a repair,
  REPAIR_PARTS = 4, // which is this part of a search
  HASTY_EVALUATIONS = 16000,
  LEAST_NEW_EVALUATIONS = 4000 // for a search that begins anew
};

// A schedule with addresses is slower than the search had it where it is by more than this part.
static const double held_up_part = 1e-5;

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
  double found_seconds;         // of the last search's plan, without addresses
  int repairs;                  // in a row: searches that went on from a plan without addresses
  int stale;                    // in a row: searches that ended by themselves and found nothing faster
  bool begins_anew;             // the next search: the last one found nothing faster beside the best plan
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

// Gives half of what was taken off back to the next search.
static void give_back(delta_finder_t *finder) {
  const uint64_t capacity_bytes = finder->options.capacity_bytes, finest_bytes = capacity_bytes / FINEST_PARTS;
  finder->misses = finder->repairs = 0;
  // What a plan missed by, a later one need not: now and then all of the capacity is open again.
  if (finder->missing_bytes <= finder->tried_bytes + finest_bytes && finder->reopenings < MOST_REOPENINGS) {
    finder->missing_bytes = capacity_bytes;
    ++finder->reopenings;
  }
  if (finder->missing_bytes > finder->tried_bytes + finest_bytes) {
    finder->tried_bytes += (finder->missing_bytes - finder->tried_bytes) / 2;
  }
}

// Takes what addresses missed by off the next search, which repairs the plan while there is hope for it. Then back to what there were addresses for. Without that, or if they are
// missed there too, less: a plan that misses may miss by as much in a little less, so each time more is taken off.
static void take_off(delta_finder_t *finder, uint64_t above_bytes) {
  const uint64_t finest_bytes = finder->options.capacity_bytes / FINEST_PARTS;
  const uint64_t missed_bytes = above_bytes > finest_bytes ? above_bytes : finest_bytes;
  if (finder->repairs == 0) finder->missing_bytes = finder->tried_bytes;
  if (finder->best && finder->repairs < MOST_REPAIRS && missed_bytes < finder->tried_bytes / NEAR_PARTS) {
    ++finder->repairs;
    finder->tried_bytes -= missed_bytes;
    return;
  }
  finder->repairs = 0;
  if (finder->best && finder->fitting_bytes < finder->missing_bytes) {
    finder->tried_bytes = finder->fitting_bytes;
  } else {
    const uint64_t beyond_bytes = missed_bytes * (uint64_t)++finder->misses;
    finder->tried_bytes -= beyond_bytes < finder->tried_bytes ? beyond_bytes : finder->tried_bytes;
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

// How a timed schedule gets its addresses, or others: in haste or not, or those at which copies back may start from certain steps on.
typedef struct finder_placing {
  bool is_hasty;
  const uint32_t *earliest_steps; // by buffer; NULL: it has no addresses
} finder_placing_t;

// Gives a timed schedule addresses, as if what a step uses last stayed until it has ended in time.
static delta_status_t lay_out_held(const delta_finder_t *finder, const finder_placing_t *placing, delta_schedule_t *schedule) {
  const uint64_t capacity_bytes = finder->options.capacity_bytes;
  uint32_t *last_steps = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(finder->allocator, schedule->buffer_count, &last_steps));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) last_steps[b] = schedule->buffers[b].last_step;
  hold_until_ends(schedule);
  const delta_status_t status = placing->earliest_steps
                                    ? delta_advance_copies_back(schedule, placing->earliest_steps, capacity_bytes, finder->allocator)
                                    : delta_layout_within(schedule, capacity_bytes, placing->is_hasty, finder->allocator);
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) schedule->buffers[b].last_step = last_steps[b];
  delta_release(finder->allocator, last_steps);
  return status;
}

// How addresses are looked for: copies back come as early as they can, which leaves most time for surprises, or as late; or may have to wait for what is still in use. What is easy is
// found in haste.
typedef struct finder_layout {
  bool is_late, is_held, is_hasty;
} finder_layout_t;
static const finder_layout_t layouts[] = {{false, true, true}, {true, true, true}, {true, false, true}, {true, true, false}};

static delta_status_t lay_out_one(const delta_finder_t *finder, const finder_layout_t *layout, delta_schedule_t **out_schedule) {
  DELTA_RETURN_IF_ERROR(make_timed(finder->problem, finder->order, &finder->decisions, finder->tried_bytes, layout->is_late,
                                   finder->allocator, out_schedule));
  return layout->is_held ? lay_out_held(finder, &(finder_placing_t){.is_hasty = layout->is_hasty}, *out_schedule)
                         : delta_layout_within(*out_schedule, finder->options.capacity_bytes, layout->is_hasty, finder->allocator);
}

// Makes the schedule of the last search's decisions, with addresses: those that fit first, or the least.
static delta_status_t lay_out(const delta_finder_t *finder, bool is_hasty, delta_schedule_t **out_schedule) {
  delta_schedule_t *least = NULL;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; ++i) {
    delta_schedule_t *schedule = NULL;
    if (is_hasty && !layouts[i].is_hasty) continue;
    const delta_status_t status = lay_out_one(finder, &layouts[i], &schedule);
    const bool is_less = !status && (!least || schedule->arena_bytes < least->arena_bytes);
    delta_schedule_free(is_less ? least : schedule);
    if (is_less) least = schedule;
    if (status) {
      delta_schedule_free(least);
      return status;
    }
    if (least->arena_bytes <= finder->options.capacity_bytes) break;
  }
  *out_schedule = least;
  return DELTA_OK;
}

// ---- Copies back that addresses hold up

// By buffer: the step of the schedule during which its copy back starts when nothing holds it up; those that are not copied back: 0.
static delta_status_t list_earliest(const delta_finder_t *finder, const delta_schedule_t *schedule, uint32_t *earliest_steps) {
  delta_schedule_t *early = NULL;
  uint32_t at = 0;
  DELTA_RETURN_IF_ERROR(
      make_timed(finder->problem, finder->order, &finder->decisions, finder->tried_bytes, false, finder->allocator, &early));
  for (uint32_t s = 0; s < early->step_count; ++s) {
    const delta_schedule_step_t *step = &early->steps[s];
    if (step->kind != DELTA_STEP_SWAP_IN) continue;
    while (at < schedule->step_count &&
           (schedule->steps[at].kind != DELTA_STEP_RUN || schedule->steps[at].end_seconds <= step->start_seconds)) {
      ++at;
    }
    earliest_steps[step->outputs[0]] = at;
  }
  delta_schedule_free(early);
  return DELTA_OK;
}

static delta_status_t simulate_waits(const delta_finder_t *finder, delta_schedule_t *schedule) {
  DELTA_RETURN_IF_ERROR(delta_set_waits(schedule, DELTA_WAIT_FOR_BYTES, finder->allocator));
  return delta_simulate(finder->problem, schedule, finder->allocator);
}

// Gives copies back that come late other addresses, at which they may start as early as the search had it.
static delta_status_t advance_copies(const delta_finder_t *finder, delta_schedule_t *schedule) {
  uint32_t *earliest_steps = NULL;
  delta_status_t status = DELTA_ALLOCATE(finder->allocator, schedule->buffer_count, &earliest_steps);
  if (!status) status = list_earliest(finder, schedule, earliest_steps);
  if (!status) status = lay_out_held(finder, &(finder_placing_t){.earliest_steps = earliest_steps}, schedule);
  if (!status) status = simulate_waits(finder, schedule);
  delta_release(finder->allocator, earliest_steps);
  return status;
}

// Sets the waits and times of a schedule with addresses. Where it is slower than the search had it, copies back wait for bytes: then it is tried with other addresses.
static delta_status_t finish_times(const delta_finder_t *finder, delta_schedule_t **inout_schedule) {
  delta_schedule_t *advanced = NULL;
  DELTA_RETURN_IF_ERROR(delta_schedule_copy(*inout_schedule, finder->allocator, &advanced));
  delta_status_t status = simulate_waits(finder, *inout_schedule);
  const bool is_held_up = !status && (*inout_schedule)->step_seconds > (1 + held_up_part) * finder->found_seconds;
  if (is_held_up) status = advance_copies(finder, advanced);
  if (is_held_up && !status && advanced->step_seconds < (*inout_schedule)->step_seconds) {
    delta_schedule_t *const slower = *inout_schedule;
    *inout_schedule = advanced;
    advanced = slower;
  }
  delta_schedule_free(advanced);
  return status;
}

// Gives the decisions of the last search addresses, and keeps the schedule if it fits and is the fastest.
static delta_status_t try_addresses(delta_finder_t *finder, bool is_hasty) {
  const uint64_t capacity_bytes = finder->options.capacity_bytes, tried_bytes = finder->tried_bytes;
  delta_schedule_t *schedule = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, lay_out(finder, is_hasty, &schedule), cleanup);
  finder->has_fit = schedule->arena_bytes <= capacity_bytes;
  if (!finder->has_fit) {
    take_off(finder, schedule->arena_bytes - capacity_bytes);
    goto cleanup;
  }
  DELTA_GOTO_IF_ERROR(status, finish_times(finder, &schedule), cleanup);
  give_back(finder);
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

// Whether the last search's decisions are those of the best schedule.
static bool is_best(const delta_finder_t *finder) {
  bool is_same = finder->items.count == finder->best_items.count;
  for (size_t i = 0; i < finder->items.count && is_same; ++i) {
    const delta_decision_t *a = &finder->items.items[i], *b = &finder->best_items.items[i];
    is_same = a->tensor == b->tensor && a->use == b->use && a->place == b->place && a->action == b->action;
  }
  return is_same;
}

// Goes on from the best schedule when a search has found nothing faster.
static void pass_over(delta_finder_t *finder) {
  finder->has_fit = true;
  if (finder->repairs > 0) {
    finder->repairs = 0;
    finder->tried_bytes = finder->fitting_bytes;
  } else {
    give_back(finder);
  }
}

// What a search begins with: the best plan, unless there is nothing faster beside it; where the last search ended while there is none, or while that plan's addresses are being
// repaired.
static delta_decisions_t find_start(const delta_finder_t *finder) {
  if (finder->begins_anew && finder->repairs == 0) return (delta_decisions_t){0};
  const bool starts_at_best = finder->best && finder->repairs == 0;
  delta_decisions_t start = starts_at_best ? finder->best_decisions : finder->decisions;
  start.count = starts_at_best ? finder->best_items.count : finder->items.count;
  return start;
}

static delta_status_t search_once(delta_finder_t *finder, uint64_t evaluations) {
  delta_search_options_t options = finder->options;
  const delta_decisions_t start = find_start(finder);
  delta_decision_list_t items;
  delta_search_result_t result;
  options.capacity_bytes = finder->tried_bytes;
  options.effort.evaluation_limit = evaluations;
  options.effort.seed += (uint64_t)finder->search_count;
  options.is_together = finder->search_count++ < TOGETHER_SEARCHES;
  if (start.count > 0) options.start = &start;
  DELTA_RETURN_IF_ERROR(delta_search(finder->problem, finder->order, &options, finder->allocator, &items, &finder->decisions, &result));
  delta_array_deinit(finder->allocator, &finder->items);
  finder->items = items;
  finder->spent_evaluations += result.evaluation_count;
  finder->has_failed = !result.fits;
  finder->has_fit = false;
  finder->has_finished = result.evaluation_count < evaluations;
  if (!result.fits) return DELTA_OK;
  // Addresses cost time, and make no plan faster.
  if (finder->best && (result.evaluation.seconds >= finder->best->step_seconds || is_best(finder))) {
    pass_over(finder);
    return DELTA_OK;
  }
  finder->found_seconds = result.evaluation.seconds;
  return try_addresses(finder, evaluations < HASTY_EVALUATIONS);
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
    const uint64_t wanted = finder->next_evaluations / (finder->repairs > 0 ? REPAIR_PARTS : 1);
    const uint64_t tried_bytes = finder->tried_bytes, evaluations = wanted < left ? wanted : left;
    const bool is_repair = finder->repairs > 0, is_new = finder->begins_anew && !is_repair;
    const double best_seconds = finder->best ? finder->best->step_seconds : INFINITY;
    DELTA_RETURN_IF_ERROR(search_once(finder, evaluations));
    const bool is_cut = effort->is_past_deadline && effort->is_past_deadline(effort->self);
    // Without anything left to give back, searches that ended by themselves are the last, if all their draws led to nothing.
    const bool is_stale = finder->has_fit && finder->has_finished && !is_cut && !is_repair && finder->tried_bytes == tried_bytes;
    finder->stale = is_stale ? finder->stale + 1 : 0;
    finder->is_done = finder->stale == MOST_STALE;
    // How much has to be left for addresses is found out by short searches. A plan that could not be repaired is found again unless the next one is longer.
    const bool is_settled = finder->has_failed || (is_repair ? finder->repairs == 0 : finder->has_fit);
    if (evaluations == wanted && !is_cut && !is_stale && !is_new && is_settled) finder->next_evaluations *= 2;
    const bool is_faster = finder->best && finder->best->step_seconds < best_seconds;
    finder->begins_anew = !is_faster && finder->best && !is_repair && !is_new && evaluations >= LEAST_NEW_EVALUATIONS;
    if (!finder->has_failed) continue;
    if (is_repair || is_new) {
      pass_over(finder);
      continue;
    }
    // Too much was taken off, or the search was too short.
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

bool delta_finder_is_done(const delta_finder_t *finder) { return finder->is_done; }

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
