// Homes race: more states may lie below than there have to be, where that makes the step faster: what is there leaves the arena to activations while the lanes would be idle, as an
// updated state goes down in the backward pass, when nothing else does, and comes back in the forward pass. Whether it does only searches tell, so there is one for each way in
// which states may live, and one for each of a few seeds, and they race.
#include <math.h>

#include "base/clock.h"
#include "runtime/crew.h"
#include "runtime/plan_maker.h"
#include "runtime/plan_race.h"

// With less time there is one search; and where planners take more than this part of it to make.
static const double least_race_seconds = 1, most_prepare_part = 0.15;
static const double most_opening_part = 0.3; // of the limit
// Searches count up from their seeds.
static const uint64_t seed_step = UINT64_C(0x9e3779b97f4a7c15);

typedef struct delta_homes_race {
  delta_allocator_t allocator;
  delta_region_t region;                                  // Owns the problems.
  delta_contestant_t contestants[DELTA_MOST_CONTESTANTS]; // their group: how many states lie below
  delta_problem_t *problems[DELTA_MOST_HOMES];            // by contestant: of those with homes of their own; NULL: the maker's
  uint32_t count;
  uint32_t leader; // its planner is the maker's first, who owns it; the race owns the others
} delta_homes_race_t;

// What jobs of planners need.
typedef struct preparation {
  delta_plan_maker_t *maker;
  delta_homes_race_t *race;
} preparation_t;

static delta_contestant_t *add_contestant(const delta_plan_maker_t *maker, delta_homes_race_t *race, uint32_t below_count) {
  delta_contestant_t *contestant = &race->contestants[race->count];
  *contestant = (delta_contestant_t){
      .seed = maker->options->seed + seed_step * race->count, .group = below_count, .step_seconds = INFINITY, .mark_seconds = INFINITY};
  ++race->count;
  return contestant;
}

// The problem with other homes, for a planner of its own.
static delta_status_t add_homes(delta_plan_maker_t *maker, delta_homes_race_t *race, uint32_t below_count) {
  delta_problem_t **problem = &race->problems[race->count];
  delta_contestant_t *contestant = add_contestant(maker, race, below_count);
  DELTA_RETURN_IF_ERROR(delta_plan_maker_set_below(maker, below_count));
  DELTA_RETURN_IF_ERROR(delta_problem_with_own_homes(maker->parts[0].problem, &race->region, problem));
  contestant->capacity_bytes = delta_plan_maker_capacity(maker);
  contestant->begins_with_rivals = maker->options->begin_with_rivals;
  return delta_plan_apply_homes(maker->plan, *problem);
}

static delta_status_t make_planner(void *self, uint32_t index) {
  const preparation_t *preparation = self;
  delta_homes_race_t *race = preparation->race;
  delta_program_parts_t parts = preparation->maker->parts[0];
  parts.problem = race->problems[index + 1];
  return delta_plan_maker_make_planner(preparation->maker, &parts, &race->contestants[index + 1].planner);
}

// The first contestant has the maker's planner, and goes on from where that is.
static delta_status_t enter_homes(delta_plan_maker_t *maker, delta_homes_race_t *race, uint32_t thread_count) {
  uint32_t counts[DELTA_MOST_HOMES];
  const uint32_t home_count = delta_plan_maker_list_homes(maker, counts);
  delta_status_t status = DELTA_OK;
  delta_contestant_t *first = add_contestant(maker, race, counts[0]);
  first->planner = maker->planners[0];
  first->capacity_bytes = delta_plan_maker_capacity(maker);
  first->begins_with_rivals = maker->options->begin_with_rivals;
  for (uint32_t h = 1; h < home_count && !status; ++h) status = add_homes(maker, race, counts[h]);
  status = delta_status_join(status, delta_plan_maker_set_below(maker, counts[0]));
  preparation_t preparation = {.maker = maker, .race = race};
  return status ? status : delta_crew_run(thread_count, home_count - 1, make_planner, &preparation);
}

// Other seeds of each of the homes.
static delta_status_t enter_seeds(const delta_plan_maker_t *maker, delta_homes_race_t *race) {
  const uint32_t home_count = race->count, seed_count = DELTA_MOST_CONTESTANTS / home_count;
  for (uint32_t i = home_count; i < seed_count * home_count; ++i) {
    const delta_contestant_t *first = &race->contestants[i % home_count];
    if (first->is_left_behind) continue;
    delta_contestant_t *contestant = add_contestant(maker, race, race->contestants[i % home_count].group);
    contestant->capacity_bytes = first->capacity_bytes;
    contestant->mark_seconds = first->mark_seconds;
    DELTA_RETURN_IF_ERROR(delta_planner_fork(first->planner, &contestant->planner));
  }
  return DELTA_OK;
}

static delta_status_t open_race(delta_plan_maker_t *maker, const delta_race_options_t *options) {
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(maker->allocator, 1, &maker->race));
  delta_homes_race_t *race = maker->race;
  race->allocator = maker->allocator;
  delta_region_init(&race->region, maker->allocator);
  DELTA_RETURN_IF_ERROR(enter_homes(maker, race, options->thread_count));
  if (race->count > 1 || maker->options->begin_with_rivals) DELTA_RETURN_IF_ERROR(delta_race_open(race->contestants, race->count, options));
  return options->thread_count > 1 ? enter_seeds(maker, race) : DELTA_OK;
}

void delta_homes_race_close(delta_homes_race_t *race) {
  if (!race) return;
  for (uint32_t i = 0; i < race->count; ++i) {
    if (i != race->leader) delta_planner_destroy(race->contestants[i].planner);
  }
  delta_region_deinit(&race->region);
  delta_release(race->allocator, race);
}

// The maker goes on with a contestant's planner and homes. False: they leave the other programs too little, and it is out.
static delta_status_t follow(delta_plan_maker_t *maker, uint32_t winner, bool *out_follows) {
  delta_homes_race_t *race = maker->race;
  const uint32_t leader = race->leader, below_count = race->contestants[winner].group;
  uint64_t minimum_bytes = 0;
  maker->planners[0] = race->contestants[winner].planner;
  race->leader = winner;
  if (below_count != race->contestants[leader].group)
    DELTA_RETURN_IF_ERROR(delta_plan_maker_prepare_beside(maker, below_count, &minimum_bytes));
  *out_follows = minimum_bytes <= maker->plan->totals.budget_bytes;
  return DELTA_OK;
}

static void leave_out(delta_homes_race_t *race, uint32_t below_count) {
  for (uint32_t i = 0; i < race->count; ++i) {
    if (race->contestants[i].group != below_count) continue;
    race->contestants[i].is_left_behind = true;
    race->contestants[i].step_seconds = INFINITY;
  }
}

// Homes are settled then: those of other contestants' problems are not the programs' any more.
static void keep_only(delta_homes_race_t *race, uint32_t below_count) {
  for (uint32_t i = 0; i < race->count; ++i) {
    if (race->contestants[i].group != below_count) race->contestants[i].is_left_behind = true;
  }
}

static bool may_race(const delta_plan_maker_t *maker, double limit_seconds) {
  const delta_plan_totals_t *totals = &maker->plan->totals;
  const bool is_needed = delta_planner_kept(maker->planners[0])->arena_bytes > delta_plan_maker_capacity(maker);
  return maker->policy == DELTA_POLICY_DELTA && is_needed && !maker->keeps_planners &&
         totals->budget_bytes >= totals->minimum_budget_bytes && limit_seconds >= least_race_seconds &&
         maker->prepare_seconds <= most_prepare_part * limit_seconds;
}

// The fastest plan's contestant leads, if its homes are good for all programs; the first one's are.
static delta_status_t take_fastest(delta_plan_maker_t *maker) {
  delta_homes_race_t *race = maker->race;
  for (bool follows = false; !follows;) {
    const uint32_t fastest = delta_race_find_fastest(race->contestants, race->count), winner = fastest < race->count ? fastest : 0;
    const uint32_t below_count = race->contestants[winner].group;
    DELTA_RETURN_IF_ERROR(follow(maker, winner, &follows));
    if (!follows && below_count == race->contestants[0].group) return DELTA_OK;
    if (!follows) leave_out(race, below_count);
  }
  keep_only(race, race->contestants[race->leader].group);
  return DELTA_OK;
}

delta_status_t delta_plan_maker_race(delta_plan_maker_t *maker, double *inout_limit_seconds) {
  const double start_seconds = delta_clock_seconds();
  delta_race_options_t options = {.limit_seconds = *inout_limit_seconds, .thread_count = delta_crew_threads(maker->options->threads)};
  if (!maker->race) {
    if (!may_race(maker, options.limit_seconds)) return DELTA_OK;
    DELTA_RETURN_IF_ERROR(open_race(maker, &options));
  }
  *inout_limit_seconds = 0;
  // The time of rivals that searches begin with does not count.
  const double spent_seconds = delta_clock_seconds() - start_seconds, most_part = maker->options->begin_with_rivals ? most_opening_part : 1;
  options.limit_seconds -= fmin(spent_seconds, most_part * options.limit_seconds);
  DELTA_RETURN_IF_ERROR(delta_race_run(maker->race->contestants, maker->race->count, &options));
  return take_fastest(maker);
}
