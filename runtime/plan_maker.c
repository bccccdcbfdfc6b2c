// What does not depend on how a maker came to its programs: planners, the states' homes, the budget's share of each, and the plans of all programs.
#include "runtime/plan_maker.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/file.h"
#include "plans/problem_json.h"
#include "runtime/plan_options.h"

void delta_plan_maker_hash_programs(const delta_plan_maker_t *maker, delta_program_hashes_t *out_hashes) {
  *out_hashes = (delta_program_hashes_t){0};
  for (uint32_t i = 0; i < maker->part_count; ++i) delta_graph_hash(maker->parts[i].graph, out_hashes->texts[i]);
}

uint64_t delta_plan_maker_least_budget(const delta_plan_maker_t *maker) {
  uint64_t minimum_bytes = 0;
  for (uint32_t i = 0; i < maker->part_count; ++i) {
    const uint64_t program_bytes = delta_planner_minimum_bytes(maker->planners[i]);
    if (program_bytes > minimum_bytes) minimum_bytes = program_bytes;
  }
  return delta_size_round_up(maker->plan->totals.state_bytes + minimum_bytes, maker->device->granule_bytes);
}

delta_status_t delta_plan_maker_make_planner(delta_plan_maker_t *maker, const delta_program_parts_t *parts, delta_planner_t **out_planner) {
  const bool is_solved = maker->policy == DELTA_POLICY_CHECKMATE && delta_cbc_is_installed();
  return delta_program_planner(parts, maker->policy, maker->plan->levers, maker->is_hasty, is_solved ? &maker->solver : NULL,
                               delta_locked_allocator_interface(&maker->locked), out_planner);
}

// Planners of the programs from the one at `first` on, for the states' homes of the moment; those before stay.
static delta_status_t prepare_from(delta_plan_maker_t *maker, uint32_t first, uint64_t *out_minimum_bytes) {
  for (uint32_t i = 0; i < maker->part_count; ++i) {
    DELTA_RETURN_IF_ERROR(delta_plan_apply_homes(maker->plan, maker->parts[i].problem));
    if (i < first) continue;
    delta_planner_destroy(maker->planners[i]);
    maker->planners[i] = NULL;
    DELTA_RETURN_IF_ERROR(delta_plan_maker_make_planner(maker, &maker->parts[i], &maker->planners[i]));
  }
  *out_minimum_bytes = delta_plan_maker_least_budget(maker);
  return DELTA_OK;
}

delta_status_t delta_plan_maker_prepare(delta_plan_maker_t *maker, uint64_t *out_minimum_bytes) {
  const double start_seconds = delta_clock_seconds();
  DELTA_RETURN_IF_ERROR(prepare_from(maker, 0, out_minimum_bytes));
  maker->prepare_seconds = delta_clock_seconds() - start_seconds;
  return DELTA_OK;
}

delta_status_t delta_plan_maker_set_below(delta_plan_maker_t *maker, uint32_t count) {
  bool *is_below = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(maker->allocator, maker->plan->state_count, &is_below));
  for (uint32_t i = 0; i < count; ++i) is_below[maker->movable[i]] = true;
  delta_plan_set_homes(maker->plan, is_below);
  delta_release(maker->allocator, is_below);
  maker->below_count = count;
  return DELTA_OK;
}

// ---- Planners that are kept

// Where there is no place, those that have not been wanted for longest go.
void delta_plan_maker_put_away(delta_plan_maker_t *maker, uint32_t count, delta_planner_t **inout_planners) {
  delta_planner_set_t set = {.below_count = count};
  memcpy(set.planners, inout_planners, sizeof set.planners);
  memset(inout_planners, 0, sizeof set.planners);
  if (!set.planners[0]) return;
  delta_planner_set_t surplus = set;
  if (maker->keeps_planners) {
    const bool is_full = maker->shelf_count == DELTA_SHELF_PLACES;
    surplus = is_full ? maker->shelf[0] : (delta_planner_set_t){0};
    if (is_full) memmove(&maker->shelf[0], &maker->shelf[1], --maker->shelf_count * sizeof *maker->shelf);
    maker->shelf[maker->shelf_count++] = set;
  }
  for (uint32_t i = 0; i < DELTA_MOST_PROGRAMS; ++i) delta_planner_destroy(surplus.planners[i]);
}

static bool take_from_shelf(delta_plan_maker_t *maker, uint32_t count) {
  for (uint32_t s = 0; s < maker->shelf_count; ++s) {
    if (maker->shelf[s].below_count != count) continue;
    memcpy(maker->planners, maker->shelf[s].planners, sizeof maker->planners);
    memmove(&maker->shelf[s], &maker->shelf[s + 1], (--maker->shelf_count - s) * sizeof *maker->shelf);
    return true;
  }
  return false;
}

static void clear_shelf(delta_plan_maker_t *maker) {
  for (uint32_t s = 0; s < maker->shelf_count; ++s) {
    for (uint32_t i = 0; i < DELTA_MOST_PROGRAMS; ++i) delta_planner_destroy(maker->shelf[s].planners[i]);
  }
  maker->shelf_count = 0;
}

// A race's leader has a problem of the race.
void delta_plan_maker_drop_planners(delta_plan_maker_t *maker) {
  clear_shelf(maker);
  for (uint32_t i = 0; i < DELTA_MOST_PROGRAMS; ++i) {
    delta_planner_destroy(maker->planners[i]);
    maker->planners[i] = NULL;
  }
  delta_homes_race_close(maker->race);
  maker->race = NULL;
}

// Problems say where states live.
static delta_status_t tell_homes(delta_plan_maker_t *maker) {
  for (uint32_t i = 0; i < maker->part_count; ++i) DELTA_RETURN_IF_ERROR(delta_plan_apply_homes(maker->plan, maker->parts[i].problem));
  return DELTA_OK;
}

delta_status_t delta_plan_maker_prepare_below(delta_plan_maker_t *maker, uint32_t count, uint64_t *out_minimum_bytes) {
  delta_plan_maker_put_away(maker, maker->below_count, maker->planners);
  DELTA_RETURN_IF_ERROR(delta_plan_maker_set_below(maker, count));
  if (!take_from_shelf(maker, count)) return delta_plan_maker_prepare(maker, out_minimum_bytes);
  maker->prepare_seconds = 0;
  *out_minimum_bytes = delta_plan_maker_least_budget(maker);
  return tell_homes(maker);
}

delta_status_t delta_plan_maker_prepare_beside(delta_plan_maker_t *maker, uint32_t count, uint64_t *out_minimum_bytes) {
  DELTA_RETURN_IF_ERROR(delta_plan_maker_set_below(maker, count));
  return prepare_from(maker, 1, out_minimum_bytes);
}

void delta_plan_maker_swap_planners(delta_plan_maker_t *maker, delta_planner_t **inout_planners) {
  for (uint32_t i = 0; i < DELTA_MOST_PROGRAMS; ++i) {
    delta_planner_t *const own = maker->planners[i];
    maker->planners[i] = inout_planners[i];
    inout_planners[i] = own;
  }
}

delta_status_t delta_plan_maker_return_below(delta_plan_maker_t *maker, uint32_t count, delta_planner_t **inout_planners) {
  delta_plan_maker_swap_planners(maker, inout_planners);
  DELTA_RETURN_IF_ERROR(delta_plan_maker_set_below(maker, count));
  return tell_homes(maker);
}

// ---- Planning within the budget

static double spent_part(void *self) { return delta_time_limit_spent(&((const delta_plan_maker_t *)self)->limit); }

static void start_clock(void *self) {
  delta_plan_maker_t *maker = self;
  maker->limit = delta_time_limit_from_now(maker->limit.limit_seconds);
}

// How long the next search may take.
void delta_plan_maker_give_effort(delta_plan_maker_t *maker, uint32_t index, double limit_seconds, uint64_t evaluation_limit,
                                  bool proves_bound) {
  maker->limit = delta_time_limit_from_now(limit_seconds);
  const delta_planner_effort_t effort = {.evaluation_limit = evaluation_limit,
                                         .seed = maker->options->seed,
                                         .spent_part = spent_part,
                                         .self = maker,
                                         .begins_with_rivals = maker->options->begin_with_rivals,
                                         .begin_search = start_clock,
                                         .goes_on = true,
                                         .start = index == 0 ? maker->start : NULL,
                                         .proves_bound = proves_bound};
  delta_planner_set_effort(maker->planners[index], &effort);
}

// The part of the time that a program's search gets: only those that do not fit as they are need any, and the first, which runs in every step, most of it.
static double time_share(const delta_plan_maker_t *maker, uint32_t index, uint64_t capacity_bytes) {
  enum { FIRST_WEIGHT = 4 };
  int own = 0, all = 0;
  for (uint32_t i = 0; i < maker->part_count; ++i) {
    if (delta_planner_kept(maker->planners[i])->arena_bytes <= capacity_bytes) continue;
    const int weight = i == 0 ? FIRST_WEIGHT : 1;
    own += i == index ? weight : 0;
    all += weight;
  }
  return own > 0 ? (double)own / all : 0;
}

uint64_t delta_plan_maker_capacity(const delta_plan_maker_t *maker) {
  const delta_plan_totals_t *totals = &maker->plan->totals;
  return delta_budget_capacity(totals->budget_bytes, totals->state_bytes, maker->device->granule_bytes);
}

delta_status_t delta_plan_maker_try(delta_plan_maker_t *maker, double limit_seconds, double *out_seconds) {
  delta_planner_result_t result = {0};
  DELTA_RETURN_IF_ERROR(delta_plan_maker_race(maker, &limit_seconds));
  delta_plan_maker_give_effort(maker, 0, limit_seconds, 0, false);
  delta_status_t status = delta_planner_plan(maker->planners[0], delta_plan_maker_capacity(maker), &result);
  *out_seconds = status ? INFINITY : result.schedule->step_seconds;
  delta_schedule_free(result.schedule);
  if (delta_status_code(status) != DELTA_STATUS_DOES_NOT_FIT) return status;
  delta_status_free(status);
  return DELTA_OK;
}

// Writes what the planner is asked.
static delta_status_t dump_problem(delta_plan_maker_t *maker, uint64_t capacity_bytes) {
  delta_problem_t *problem = maker->parts[0].problem;
  delta_text_t text;
  delta_text_init(&text, maker->allocator);
  problem->budget_bytes = capacity_bytes;
  delta_status_t status = delta_problem_to_json(problem, &text);
  if (!status) status = delta_file_replace(maker->options->dump_problem, text.items, text.count, maker->allocator);
  delta_text_deinit(&text);
  return status;
}

// Who has less time for the plan has none for the best bound, which takes up to half a second.
static const double least_proof_seconds = 1;

static delta_status_t plan_program(delta_plan_maker_t *maker, uint32_t index) {
  delta_plan_t *plan = maker->plan;
  const delta_program_parts_t *parts = &maker->parts[index];
  delta_planner_result_t result = {0};
  double limit_seconds = maker->options->time_limit_seconds * time_share(maker, index, delta_plan_maker_capacity(maker));
  if (index == 0) DELTA_RETURN_IF_ERROR(delta_plan_maker_race(maker, &limit_seconds));
  const uint64_t capacity_bytes = delta_plan_maker_capacity(maker);
  if (index == 0 && maker->options->dump_problem) DELTA_RETURN_IF_ERROR(dump_problem(maker, capacity_bytes));
  const bool proves_bound = index == 0 && maker->proves_bound && maker->options->time_limit_seconds >= least_proof_seconds;
  delta_plan_maker_give_effort(maker, index, limit_seconds, 0, proves_bound);
  delta_status_t status = delta_planner_plan(maker->planners[index], capacity_bytes, &result);
  if (delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT) {
    const uint64_t needed_bytes = delta_size_round_up(plan->totals.state_bytes + result.minimum_budget_bytes, maker->device->granule_bytes);
    const uint64_t least_bytes = needed_bytes > plan->totals.minimum_budget_bytes ? needed_bytes : plan->totals.minimum_budget_bytes;
    char budget_text[DELTA_SIZE_TEXT_BYTES], state_text[DELTA_SIZE_TEXT_BYTES];
    return delta_status_annotate(status, "budget %s, of which states take %s (give --budget %llu or more, or a smaller --batch%s)",
                                 delta_size_text(plan->totals.budget_bytes, budget_text),
                                 delta_size_text(plan->totals.state_bytes, state_text), (unsigned long long)least_bytes,
                                 plan->build.parts > 1 || parts->batch < 2 ? "" : ", or --split auto");
  }
  if (status) return status;
  delta_plan_program_t *program = &plan->programs[plan->program_count++];
  program->kind = parts->kind;
  program->batch = parts->batch;
  // The planner's allocator does not outlive the maker.
  status = delta_schedule_copy(result.schedule, maker->allocator, &program->schedule);
  delta_schedule_free(result.schedule);
  if (status) return status;
  if (index == 0) {
    plan->totals.lower_bound_seconds = result.lower_bound_seconds;
    plan->seed_policy = result.seed_policy;
    plan->seed_is_plan = result.seed_is_plan;
  }
  DELTA_RETURN_IF_ERROR(delta_program_record(parts, plan, program));
  delta_graph_hash(parts->graph, program->graph_hash);
  return DELTA_OK;
}

// Plans every program within the budget; sets arena, peak and times of the whole plan.
delta_status_t delta_plan_maker_plan(delta_plan_maker_t *maker) {
  delta_plan_t *plan = maker->plan;
  delta_plan_totals_t *totals = &plan->totals;
  uint64_t arena_bytes = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, maker->part_count, &plan->programs));
  for (uint32_t i = 0; i < maker->part_count; ++i) {
    DELTA_RETURN_IF_ERROR(plan_program(maker, i));
    if (plan->programs[i].schedule->arena_bytes > arena_bytes) arena_bytes = plan->programs[i].schedule->arena_bytes;
  }
  const delta_schedule_t *first = plan->programs[0].schedule;
  totals->arena_bytes = delta_size_round_up(totals->state_bytes + arena_bytes, maker->device->granule_bytes);
  totals->peak_bytes = totals->state_bytes + first->peak_bytes;
  totals->step_seconds = first->step_seconds;
  return DELTA_OK;
}

// ---- Other budgets, for reports

// Plans the first program within a budget, for how long it takes and what it holds.
static delta_status_t try_budget(delta_plan_maker_t *maker, uint64_t budget_bytes, delta_budget_point_t *out_point) {
  delta_plan_totals_t *totals = &maker->plan->totals;
  delta_planner_result_t result = {0};
  *out_point = (delta_budget_point_t){.budget_bytes = budget_bytes};
  totals->budget_bytes = budget_bytes;
  DELTA_RETURN_IF_ERROR(delta_plan_maker_choose_homes(maker));
  delta_plan_maker_give_effort(maker, 0, maker->options->time_limit_seconds / DELTA_BUDGETS_TRIED, 0, false);
  delta_status_t status = delta_planner_plan(maker->planners[0], delta_plan_maker_capacity(maker), &result);
  if (delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT) {
    delta_status_free(status);
    return DELTA_OK;
  }
  if (status) return status;
  out_point->fits = true;
  out_point->peak_bytes = totals->state_bytes + result.schedule->peak_bytes;
  out_point->step_seconds = result.schedule->step_seconds;
  delta_schedule_free(result.schedule);
  return DELTA_OK;
}

// A plan for less is a plan for more.
static void offer_to_larger(delta_budget_point_t *points, uint32_t count) {
  for (uint32_t i = 1; i < count; ++i) {
    const delta_budget_point_t *smaller = &points[i - 1];
    if (!smaller->fits || (points[i].fits && points[i].step_seconds <= smaller->step_seconds)) continue;
    points[i].fits = true;
    points[i].peak_bytes = smaller->peak_bytes;
    points[i].step_seconds = smaller->step_seconds;
  }
}

// Tries budgets from the least to that of everything kept while there is time, coarse ones first, and late those for which states go below, which take longer. They
// are listed by budget.
static delta_status_t list_points(delta_plan_maker_t *maker) {
  static const int eighths[DELTA_BUDGETS_TRIED] = {8, 4, 6, 2, 7, 5, 3, 1, 0};
  delta_plan_t *plan = maker->plan;
  const uint64_t least_bytes = plan->totals.minimum_budget_bytes;
  const uint64_t most_bytes = delta_size_round_up(plan->totals.unlimited_peak_bytes, maker->device->granule_bytes);
  const double start_seconds = delta_clock_seconds(), end_seconds = start_seconds + maker->options->time_limit_seconds;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, DELTA_BUDGETS_TRIED, &plan->points));
  delta_status_t status = DELTA_OK;
  for (int i = 0; i < DELTA_BUDGETS_TRIED && most_bytes > least_bytes && !status; ++i) {
    if (i > 0 && delta_clock_seconds() > end_seconds) break;
    delta_budget_point_t point;
    status = try_budget(maker, least_bytes + (most_bytes - least_bytes) / 8 * (uint64_t)eighths[i], &point);
    if (status) break;
    uint32_t at = plan->point_count++;
    for (; at > 0 && plan->points[at - 1].budget_bytes > point.budget_bytes; --at) plan->points[at] = plan->points[at - 1];
    plan->points[at] = point;
  }
  offer_to_larger(plan->points, plan->point_count);
  maker->trying_seconds = delta_clock_seconds() - start_seconds;
  return status;
}

// Other budgets have other homes, and so planners of their own; the plan's own are set again.
delta_status_t delta_plan_maker_try_budgets(delta_plan_maker_t *maker) {
  delta_planner_t *planners[DELTA_MOST_PROGRAMS] = {NULL};
  const uint64_t own_bytes = maker->plan->totals.budget_bytes;
  const uint32_t own_count = maker->below_count;
  delta_plan_maker_swap_planners(maker, planners);
  maker->below_count = UINT32_MAX; // of no planner
  delta_status_t status = list_points(maker);
  maker->plan->totals.budget_bytes = own_bytes;
  status = delta_status_join(status, delta_plan_maker_return_below(maker, own_count, planners));
  for (uint32_t i = 0; i < DELTA_MOST_PROGRAMS; ++i) delta_planner_destroy(planners[i]);
  return status;
}
