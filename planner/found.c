// Found: a search knows no addresses. What they take beyond the live bytes becomes a constraint of the next search.
#include "planner/found.h"

#include <math.h>

#include "planner/addresses.h"

// Searches go on from each other, each twice as long as the last that found a plan with addresses, until a long one takes most of the effort that is left. What addresses take beyond the capacity is taken off the next one's; what they leave is given back by halves.
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

// Of a run's effort, what is for short searches, and of the rest what a long one gets. With more than this for each step of the problem
// there is time for many searches, which find more.
static const double SHORT_PART = 0.1, LONG_PART = 0.7;
static const uint64_t LONG_PER_STEP = 300;

struct delta_finder {
  const delta_problem_t *problem;
  const delta_order_t *order;
  delta_search_options_t options;
  delta_allocator_t allocator;
  delta_decision_list_t items, best_items; // of the last search, and of the best schedule
  delta_decisions_t decisions, best_decisions;
  delta_runners_t runners;      // of the last search
  uint64_t tried_bytes;         // the capacity that searches are given
  uint64_t fitting_bytes;       // with which the best schedule was found
  uint64_t missing_bytes;       // the last of them whose plan had no addresses within the capacity; at first the capacity
  int reopenings, search_count; // so far
  int misses;                   // in a row
  int repairs;                  // in a row: searches that went on from a plan without addresses
  int stale;                    // in a row: searches that ended by themselves and found nothing faster
  bool begins_anew;             // the next search: the last one found nothing faster beside the best plan
  bool was_long;                // the last search that was no repair
  uint32_t long_count;          // of such searches
  uint64_t spent_evaluations;
  uint64_t next_evaluations; // of the next search
  delta_schedule_t *best;    // Owned; the fastest that fits, or NULL
  bool has_failed, has_fit;  // the last search, in time and in addresses
  bool has_finished;         // before its evaluations were used up
  bool is_done;              // nothing better is to be expected
};

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

// What a search decided, and what it takes without addresses.
typedef struct found_plan {
  const delta_decisions_t *decisions;
  double seconds;
} found_plan_t;

static delta_status_t keep_decisions(delta_finder_t *finder, const delta_decisions_t *decisions) {
  finder->best_items.count = 0;
  for (size_t i = 0; i < decisions->count; ++i) {
    DELTA_RETURN_IF_ERROR(delta_array_push(finder->allocator, &finder->best_items, &decisions->items[i]));
  }
  finder->best_decisions = *decisions;
  finder->best_decisions.items = finder->best_items.items;
  return DELTA_OK;
}

// Looks for addresses of a plan, and keeps its schedule if there are some and it is the fastest.
static delta_status_t try_plan(delta_finder_t *finder, const found_plan_t *plan, bool is_hasty, uint64_t *out_arena_bytes) {
  const delta_addresses_t addresses = {.problem = finder->problem,
                                       .order = finder->order,
                                       .decisions = plan->decisions,
                                       .searched_bytes = finder->tried_bytes,
                                       .searched_seconds = plan->seconds,
                                       .capacity_bytes = finder->options.capacity_bytes,
                                       .is_hasty = is_hasty,
                                       .allocator = finder->allocator};
  delta_schedule_t *schedule = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_addresses_find(&addresses, &schedule), cleanup);
  *out_arena_bytes = schedule->arena_bytes;
  if (schedule->arena_bytes > addresses.capacity_bytes) goto cleanup;
  DELTA_GOTO_IF_ERROR(status, delta_addresses_finish(&addresses, &schedule), cleanup);
  if (finder->best && schedule->step_seconds >= finder->best->step_seconds) goto cleanup;
  delta_schedule_free(finder->best);
  finder->best = schedule;
  schedule = NULL;
  finder->fitting_bytes = finder->tried_bytes;
  DELTA_GOTO_IF_ERROR(status, keep_decisions(finder, plan->decisions), cleanup);
cleanup:
  delta_schedule_free(schedule);
  return status;
}

static bool is_past(const delta_finder_t *finder) { return delta_planner_effort_is_past(&finder->options.effort); }

// Where the last search's plan has no addresses, one that was its fastest before may have some.
static delta_status_t try_runners(delta_finder_t *finder, bool is_hasty) {
  const delta_runners_t *runners = &finder->runners;
  for (uint32_t i = runners->count; i-- > 0 && !is_past(finder);) {
    const found_plan_t plan = {&runners->items[i].decisions, runners->items[i].seconds};
    uint64_t arena_bytes;
    if (finder->best && plan.seconds >= finder->best->step_seconds) return DELTA_OK;
    DELTA_RETURN_IF_ERROR(try_plan(finder, &plan, is_hasty, &arena_bytes));
    if (arena_bytes <= finder->options.capacity_bytes) return DELTA_OK;
  }
  return DELTA_OK;
}

// Gives the last search's decisions addresses, or says how much of the capacity they lack.
static delta_status_t try_addresses(delta_finder_t *finder, double found_seconds, bool is_hasty) {
  const found_plan_t plan = {&finder->decisions, found_seconds};
  uint64_t arena_bytes;
  DELTA_RETURN_IF_ERROR(try_plan(finder, &plan, is_hasty, &arena_bytes));
  finder->has_fit = arena_bytes <= finder->options.capacity_bytes;
  if (finder->has_fit) {
    give_back(finder);
    return DELTA_OK;
  }
  DELTA_RETURN_IF_ERROR(try_runners(finder, is_hasty));
  take_off(finder, arena_bytes - finder->options.capacity_bytes);
  return DELTA_OK;
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

static delta_status_t search_once(delta_finder_t *finder, uint64_t evaluations, bool is_long) {
  delta_search_options_t options = finder->options;
  const delta_decisions_t start = find_start(finder);
  delta_decision_list_t items;
  delta_search_result_t result;
  options.capacity_bytes = finder->tried_bytes;
  options.effort.evaluation_limit = evaluations;
  options.effort.seed += (uint64_t)finder->search_count;
  options.is_together = finder->search_count++ < TOGETHER_SEARCHES;
  if (start.count > 0) options.start = &start;
  if (is_long) options.walks = finder->long_count++ % 2 == 0; // on some programs that is the better way, on some the other
  options.runners = &finder->runners;
  delta_runners_clear(&finder->runners);
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
  return try_addresses(finder, result.evaluation.seconds, evaluations < HASTY_EVALUATIONS);
}

// ---- How long searches are

// A run of the finder.
typedef struct finder_run {
  delta_finder_t *finder;
  uint64_t begin_evaluations, limit; // spent before it, and when it is over; UINT64_MAX: only time limits it
} finder_run_t;

static finder_run_t begin_run(delta_finder_t *finder) {
  const delta_planner_effort_t *effort = &finder->options.effort;
  const bool is_limited = effort->evaluation_limit > 0 || !effort->spent_part;
  const uint64_t most = effort->evaluation_limit > 0 ? effort->evaluation_limit : DEFAULT_EVALUATIONS;
  return (finder_run_t){.finder = finder,
                        .begin_evaluations = finder->spent_evaluations,
                        .limit = is_limited ? finder->spent_evaluations + most : UINT64_MAX};
}

static bool is_run_over(const finder_run_t *run) {
  return run->finder->spent_evaluations >= run->limit || (run->finder->search_count > 0 && is_past(run->finder));
}

// Evaluations that are left, if those to come take as long as those so far; *out_spent_part: of all.
static uint64_t count_left(const finder_run_t *run, double *out_spent_part) {
  const delta_finder_t *finder = run->finder;
  const delta_planner_effort_t *effort = &finder->options.effort;
  const double made = (double)(finder->spent_evaluations - run->begin_evaluations);
  const double time_part = effort->spent_part ? effort->spent_part(effort->self) : 0;
  uint64_t left = finder->spent_evaluations < run->limit ? run->limit - finder->spent_evaluations : 0;
  const double timed = time_part > 0 ? made * fmax(0, 1 - time_part) / time_part : INFINITY, all = (double)finder->spent_evaluations;
  if (timed < (double)left) left = (uint64_t)timed;
  *out_spent_part = made > 0 ? all / (all + (double)left) : 0;
  return left;
}

// One search of a run.
typedef struct finder_search {
  uint64_t usual, evaluations; // that it would have among short searches, and that it has
  uint64_t tried_bytes;
  double best_seconds; // before it
  bool is_repair, is_new, is_long;
} finder_search_t;

// Short searches find out how much addresses take. Then most of what is left is for one: searches that go on from each other find what lies near, a long one moves on.
static finder_search_t choose_search(const finder_run_t *run) {
  delta_finder_t *finder = run->finder;
  double spent_part;
  const bool is_repair = finder->repairs > 0;
  const uint64_t left = count_left(run, &spent_part),
                 usual = is_repair ? finder->next_evaluations / REPAIR_PARTS : finder->next_evaluations;
  const uint64_t long_evaluations = (uint64_t)(LONG_PART * (double)left), most_long = LONG_PER_STEP * (uint64_t)finder->problem->step_count;
  const bool is_long = finder->best && !is_repair && spent_part >= SHORT_PART && long_evaluations > usual && long_evaluations <= most_long;
  uint64_t evaluations = is_long ? long_evaluations : usual;
  if (is_run_over(run)) {
    evaluations = FIRST_EVALUATIONS; // there is no plan yet
  } else if (evaluations > run->limit - finder->spent_evaluations) {
    evaluations = run->limit - finder->spent_evaluations;
  }
  if (is_long && !finder->was_long) finder->begins_anew = false; // it has not looked beside the best plan yet
  return (finder_search_t){.usual = usual,
                           .evaluations = evaluations,
                           .tried_bytes = finder->tried_bytes,
                           .best_seconds = finder->best ? finder->best->step_seconds : INFINITY,
                           .is_repair = is_repair,
                           .is_new = finder->begins_anew && !is_repair,
                           .is_long = is_long};
}

// What a search says about the next.
static void learn(delta_finder_t *finder, const finder_search_t *search) {
  const bool is_cut = is_past(finder);
  if (!search->is_repair) finder->was_long = search->is_long;
  // Without anything left to give back, searches that ended by themselves are the last, if all their draws led to nothing.
  const bool is_stale =
      finder->has_fit && finder->has_finished && !is_cut && !search->is_repair && finder->tried_bytes == search->tried_bytes;
  finder->stale = is_stale ? finder->stale + 1 : 0;
  finder->is_done = finder->stale == MOST_STALE;
  // How much has to be left for addresses is found out by short searches. A plan that could not be repaired is found again unless the next one is longer.
  const bool is_settled = finder->has_failed || (search->is_repair ? finder->repairs == 0 : finder->has_fit);
  if (search->evaluations == search->usual && !is_cut && !is_stale && !search->is_new && is_settled) finder->next_evaluations *= 2;
  const bool is_faster = finder->best && finder->best->step_seconds < search->best_seconds;
  finder->begins_anew = !is_faster && finder->best && !search->is_repair && !search->is_new && search->evaluations >= LEAST_NEW_EVALUATIONS;
  if (!finder->has_failed) return;
  if (search->is_repair || search->is_new) {
    pass_over(finder);
  } else if (finder->tried_bytes >= finder->missing_bytes) {
    finder->is_done = finder->has_finished && !is_cut;
  } else {
    // Too much was taken off, or the search was too short.
    finder->tried_bytes += (finder->missing_bytes - finder->tried_bytes + 1) / 2;
  }
}

// Searches until the effort is used up. What the deadline cut short is not known to have ended by itself.
static delta_status_t find(delta_finder_t *finder) {
  const finder_run_t run = begin_run(finder);
  while (!finder->is_done) {
    if (is_run_over(&run) && (finder->best || finder->search_count >= LEAST_SEARCHES)) return DELTA_OK;
    const finder_search_t search = choose_search(&run);
    DELTA_RETURN_IF_ERROR(search_once(finder, search.evaluations, search.is_long));
    learn(finder, &search);
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
                                  .runners = {.allocator = allocator},
                                  .tried_bytes = options->capacity_bytes,
                                  .missing_bytes = options->capacity_bytes,
                                  .next_evaluations = FIRST_EVALUATIONS};
  return DELTA_OK;
}

void delta_finder_destroy(delta_finder_t *finder) {
  if (!finder) return;
  delta_array_deinit(finder->allocator, &finder->items);
  delta_array_deinit(finder->allocator, &finder->best_items);
  delta_runners_clear(&finder->runners);
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
