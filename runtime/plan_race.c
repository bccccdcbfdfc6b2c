// An opening of short searches ranks the contestants. Short searches say little of what long ones find, so a contestant's mark is the mean of its plan and of its bound: the one is a
// draw, and the other sees no waits. Then a few for each thread qualify in longer searches, and each thread goes on with one of them as long as it finds anything, that with the
// best mark first; of two such marks that of another group counts more than that of another seed.
#include "runtime/plan_race.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "runtime/crew.h"

// The most that one contestant's opening may take, the latter as a part of the limit.
enum { OPENING_EVALUATIONS = 6000 };
static const double opening_part = 0.1;
// How many qualify, and how much of the limit is for that.
enum { QUALIFIERS_OF_THREAD = 3 };
static const double qualifying_part = 0.2;
// A second search of a group is as promising as one of another whose mark is worse by this part.
static const double group_margin = 1e-2;

typedef struct race {
  const delta_race_options_t *options;
  delta_contestant_t *contestants;
  uint32_t count;
  double end_seconds;
  // Of the round at hand:
  uint32_t running[DELTA_MOST_CONTESTANTS]; // contestants, in the order in which they begin
  uint32_t running_count;
  double lap_seconds;       // the most for each; INFINITY: only its evaluations are counted
  uint64_t lap_evaluations; // 0: not counted
  atomic_bool has_failed;
} race_t;

// One contestant's search of a round.
typedef struct lap {
  race_t *race;
  delta_time_limit_t limit;
} lap_t;

static double spent_part(void *self) {
  const lap_t *lap = self;
  return atomic_load(&lap->race->has_failed) ? 1 : delta_time_limit_spent(&lap->limit);
}

static void begin_lap(void *self) {
  lap_t *lap = self;
  lap->limit = delta_time_limit_from_now(fmin(lap->race->lap_seconds, lap->race->end_seconds - delta_clock_seconds()));
}

static delta_status_t search(race_t *race, delta_contestant_t *contestant) {
  lap_t lap = {.race = race};
  const delta_planner_effort_t effort = {.evaluation_limit = race->lap_evaluations,
                                         .seed = contestant->seed,
                                         .spent_part = spent_part,
                                         .self = &lap,
                                         .begins_with_rivals = contestant->begins_with_rivals,
                                         .begin_search = begin_lap,
                                         .goes_on = true};
  delta_planner_result_t result;
  begin_lap(&lap);
  delta_planner_set_effort(contestant->planner, &effort);
  delta_status_t status = delta_planner_plan(contestant->planner, contestant->capacity_bytes, &result);
  if (delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT) {
    delta_status_free(status);
    contestant->is_left_behind = true;
    return DELTA_OK;
  }
  if (status) return status;
  // States that come last are still on their way when the step is over: a short search's plan has time to lose that waits say more of.
  contestant->step_seconds = result.schedule->step_seconds;
  contestant->mark_seconds = 0.5 * (result.schedule->step_seconds + result.schedule->stall_seconds + result.lower_bound_seconds);
  contestant->bound_seconds = result.lower_bound_seconds;
  contestant->is_left_behind = result.is_exhausted;
  delta_schedule_free(result.schedule);
  return DELTA_OK;
}

static delta_status_t run_lap(void *self, uint32_t index) {
  race_t *race = self;
  if (index >= race->options->thread_count && delta_clock_seconds() > race->end_seconds) return DELTA_OK; // no thread was free
  const delta_status_t status = search(race, &race->contestants[race->running[index]]);
  if (status) atomic_store(&race->has_failed, true);
  return status;
}

// ---- Rounds

uint32_t delta_race_find_fastest(const delta_contestant_t *contestants, uint32_t count) {
  uint32_t fastest = count;
  double least_seconds = INFINITY;
  for (uint32_t i = 0; i < count; ++i) {
    if (contestants[i].step_seconds >= least_seconds) continue;
    least_seconds = contestants[i].step_seconds;
    fastest = i;
  }
  return fastest;
}

// Whoever cannot become faster than another is now goes.
static void leave_behind(race_t *race) {
  const uint32_t fastest = delta_race_find_fastest(race->contestants, race->count);
  for (uint32_t i = 0; i < race->count && fastest < race->count; ++i) {
    if (i != fastest && race->contestants[i].bound_seconds >= race->contestants[fastest].step_seconds)
      race->contestants[i].is_left_behind = true;
  }
}

static uint32_t count_running(const race_t *race, uint32_t group) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < race->running_count; ++r) count += race->contestants[race->running[r]].group == group;
  return count;
}

static bool is_running(const race_t *race, uint32_t contestant) {
  for (uint32_t r = 0; r < race->running_count; ++r) {
    if (race->running[r] == contestant) return true;
  }
  return false;
}

// The mark beside those that stand already: the more of them are of the same group, the better it has to be.
static double standing_of(const race_t *race, uint32_t contestant) {
  const delta_contestant_t *entry = &race->contestants[contestant];
  return entry->mark_seconds * (1 + group_margin * count_running(race, entry->group));
}

// Those that are not left behind, the most promising first; of equals the first.
static void line_up(race_t *race) {
  race->running_count = 0;
  for (;;) {
    uint32_t best = race->count;
    for (uint32_t i = 0; i < race->count; ++i) {
      if (race->contestants[i].is_left_behind || is_running(race, i)) continue;
      if (best == race->count || standing_of(race, i) < standing_of(race, best)) best = i;
    }
    if (best == race->count) return;
    race->running[race->running_count++] = best;
  }
}

static delta_status_t run(race_t *race) {
  line_up(race);
  DELTA_RETURN_IF_ERROR(delta_crew_run(race->options->thread_count, race->running_count, run_lap, race));
  leave_behind(race);
  return DELTA_OK;
}

// The most promising search for a while; after them come those that do not. A plan's waits are not held against it any more: so long a search had the time to lose them.
static delta_status_t qualify(race_t *race) {
  const uint32_t most = QUALIFIERS_OF_THREAD * race->options->thread_count;
  line_up(race);
  for (uint32_t i = most; i < race->running_count; ++i) race->contestants[race->running[i]].mark_seconds = INFINITY;
  if (race->running_count > most) race->running_count = most;
  race->lap_seconds = qualifying_part * race->options->limit_seconds / QUALIFIERS_OF_THREAD;
  DELTA_RETURN_IF_ERROR(delta_crew_run(race->options->thread_count, race->running_count, run_lap, race));
  for (uint32_t i = 0; i < race->running_count; ++i) {
    delta_contestant_t *contestant = &race->contestants[race->running[i]];
    contestant->mark_seconds = 0.5 * (contestant->step_seconds + contestant->bound_seconds);
  }
  leave_behind(race);
  race->lap_seconds = INFINITY;
  return DELTA_OK;
}

static race_t make_race(delta_contestant_t *contestants, uint32_t count, const delta_race_options_t *options) {
  const bool is_counted = options->evaluation_limit > 0;
  assert(count <= DELTA_MOST_CONTESTANTS && options->thread_count > 0);
  return (race_t){.options = options,
                  .contestants = contestants,
                  .count = count,
                  .end_seconds = is_counted ? INFINITY : delta_clock_seconds() + options->limit_seconds,
                  .lap_seconds = INFINITY,
                  .lap_evaluations = options->evaluation_limit};
}

delta_status_t delta_race_open(delta_contestant_t *contestants, uint32_t count, const delta_race_options_t *options) {
  race_t race = make_race(contestants, count, options);
  if (options->evaluation_limit == 0) race.lap_seconds = opening_part * options->limit_seconds;
  race.end_seconds = INFINITY; // each lap has its own; before it the plans of rivals may take theirs
  if (race.lap_evaluations == 0 || race.lap_evaluations > OPENING_EVALUATIONS) race.lap_evaluations = OPENING_EVALUATIONS;
  return run(&race);
}

delta_status_t delta_race_run(delta_contestant_t *contestants, uint32_t count, const delta_race_options_t *options) {
  race_t race = make_race(contestants, count, options);
  if (options->evaluation_limit == 0 && count > options->thread_count) DELTA_RETURN_IF_ERROR(qualify(&race));
  return run(&race);
}
