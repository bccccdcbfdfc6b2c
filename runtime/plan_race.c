// Successive halving: a contestant's mark is the step of its best plan so far; one whose bound is no better than another's plan is out at once.
#include "runtime/plan_race.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "runtime/crew.h"

// Of the limit: for all rounds but the last.
static const double opening_part = 0.3;

typedef struct race {
  const delta_race_options_t *options;
  delta_contestant_t *contestants;
  uint32_t count;
  double end_seconds;
  // Of the round at hand:
  uint32_t *running; // Contestants.
  uint32_t running_count;
  double lap_seconds; // for each; INFINITY: its evaluations are counted
  uint64_t lap_evaluations;
  atomic_bool has_failed;
} race_t;

// One contestant's search of a round.
typedef struct lap {
  race_t *race;
  double end_seconds;
} lap_t;

static bool is_past_lap(void *self) {
  const lap_t *lap = self;
  return delta_clock_seconds() > lap->end_seconds || atomic_load(&lap->race->has_failed);
}

static void begin_lap(void *self) {
  lap_t *lap = self;
  lap->end_seconds = delta_clock_seconds() + lap->race->lap_seconds;
}

static delta_status_t search(race_t *race, delta_contestant_t *contestant) {
  lap_t lap = {.race = race};
  const delta_planner_effort_t effort = {.evaluation_limit = race->lap_evaluations,
                                         .seed = contestant->seed,
                                         .is_past_deadline = is_past_lap,
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
  contestant->step_seconds = result.schedule->step_seconds;
  contestant->bound_seconds = result.lower_bound_seconds;
  contestant->is_left_behind = result.is_exhausted;
  delta_schedule_free(result.schedule);
  return DELTA_OK;
}

static delta_status_t run_lap(void *self, uint32_t index) {
  race_t *race = self;
  const delta_status_t status = search(race, &race->contestants[race->running[index]]);
  if (status) atomic_store(&race->has_failed, true);
  return status;
}

// ---- Rounds

static uint32_t count_alive(const race_t *race) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < race->count; ++i) count += !race->contestants[i].is_left_behind;
  return count;
}

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

// How many are left of so many after a round: half of them, in as many whole groups of finalists as that takes.
static uint32_t count_kept(const race_t *race, uint32_t alive) {
  const uint32_t finalists = race->options->finalist_count, half = (alive + 1) / 2;
  return half <= finalists ? finalists : (half + finalists - 1) / finalists * finalists;
}

static uint32_t count_opening_rounds(const race_t *race) {
  uint32_t rounds = 0;
  for (uint32_t alive = count_alive(race); alive > race->options->finalist_count; alive = count_kept(race, alive)) ++rounds;
  return rounds;
}

// Whoever cannot become the fastest goes, and the slowest of the others while there are too many.
static void leave_behind(race_t *race, uint32_t most) {
  const uint32_t fastest = delta_race_find_fastest(race->contestants, race->count);
  if (fastest == race->count) return;
  for (uint32_t i = 0; i < race->count; ++i) {
    delta_contestant_t *contestant = &race->contestants[i];
    if (i != fastest && contestant->bound_seconds >= race->contestants[fastest].step_seconds) contestant->is_left_behind = true;
  }
  for (uint32_t alive = count_alive(race); alive > most; --alive) {
    uint32_t slowest = race->count;
    for (uint32_t i = 0; i < race->count; ++i) {
      const delta_contestant_t *contestant = &race->contestants[i];
      if (contestant->is_left_behind) continue;
      if (slowest == race->count || contestant->step_seconds >= race->contestants[slowest].step_seconds) slowest = i;
    }
    race->contestants[slowest].is_left_behind = true;
  }
}

// A round of `part` of the limit, or, where time is limited, of the time that is left.
static delta_status_t run_round(race_t *race, double part, bool is_last) {
  const delta_race_options_t *options = race->options;
  race->running_count = 0;
  for (uint32_t i = 0; i < race->count; ++i) {
    if (!race->contestants[i].is_left_behind) race->running[race->running_count++] = i;
  }
  if (race->running_count == 0) return DELTA_OK;
  const double left_seconds = fmax(0, race->end_seconds - delta_clock_seconds());
  const double round_seconds = is_last ? left_seconds : fmin(left_seconds, part * options->limit_seconds);
  const bool is_counted = options->evaluation_limit > 0;
  race->lap_seconds = is_counted ? INFINITY : round_seconds / ceil((double)race->running_count / options->thread_count);
  race->lap_evaluations = is_counted ? (uint64_t)(part * (double)options->evaluation_limit) + 1 : 0;
  return delta_crew_run(options->thread_count, race->running_count, run_lap, race);
}

delta_status_t delta_race_run(delta_contestant_t *contestants, uint32_t count, const delta_race_options_t *options) {
  uint32_t running[DELTA_MOST_CONTESTANTS];
  race_t race = {.options = options,
                 .contestants = contestants,
                 .count = count,
                 .end_seconds = delta_clock_seconds() + options->limit_seconds,
                 .running = running};
  assert(count <= DELTA_MOST_CONTESTANTS && options->finalist_count > 0 && options->thread_count > 0);
  const uint32_t rounds = count_opening_rounds(&race);
  for (uint32_t r = 0; r < rounds; ++r) {
    DELTA_RETURN_IF_ERROR(run_round(&race, opening_part / rounds, false));
    leave_behind(&race, count_kept(&race, count_alive(&race)));
  }
  return run_round(&race, rounds > 0 ? 1 - opening_part : 1, true);
}
