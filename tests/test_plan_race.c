// Races of searches: the same plans whatever the number of threads, none slower than that of a contestant, failures of any allocation, and the crew and the allocator that they are
// run with. A plan's homes are those of the contestant that won.
#include <criterion/criterion.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/locked_allocator.h"
#include "runtime/crew.h"
#include "runtime/plan_maker.h"
#include "runtime/plan_race.h"
#include "tests/support/planning.h"
#include "tests/support/support.h"
#include "tests/support/training.h"
#include "tests/support/trial.h"

// ---- The crew

enum { JOBS = 40 };

typedef struct jobs {
  atomic_int done[JOBS];
  uint32_t failing; // from this job on all fail
} jobs_t;

static delta_status_t do_job(void *self, uint32_t index) {
  jobs_t *jobs = self;
  atomic_fetch_add(&jobs->done[index], 1);
  return index < jobs->failing ? DELTA_OK : delta_status_make(IO, "job %u", index);
}

Test(plan_race, every_job_is_done_once) {
  for (uint32_t threads = 1; threads <= 5; ++threads) {
    jobs_t jobs = {.failing = JOBS};
    cr_assert_null(delta_crew_run(threads, JOBS, do_job, &jobs));
    for (int i = 0; i < JOBS; ++i) cr_expect_eq(jobs.done[i], 1, "%u threads: job %d", threads, i);
  }
}

Test(plan_race, the_first_failure_ends_the_jobs) {
  for (uint32_t threads = 1; threads <= 5; ++threads) {
    jobs_t jobs = {.failing = 7};
    delta_status_t status = delta_crew_run(threads, JOBS, do_job, &jobs);
    cr_assert_str_eq(delta_status_message(status), "job 7");
    delta_status_free(status);
    int done = 0;
    for (int i = 0; i < JOBS; ++i) done += jobs.done[i];
    cr_expect_leq(done, 7 + (int)threads, "%u threads: %d jobs", threads, done);
  }
}

// ---- The allocator

// One that notices when it is called twice at once.
typedef struct lonely_allocator {
  atomic_bool is_busy, was_shared;
} lonely_allocator_t;

static void enter(lonely_allocator_t *lonely) {
  if (atomic_exchange(&lonely->is_busy, true)) atomic_store(&lonely->was_shared, true);
}

static void *lonely_reallocate(void *self, void *pointer, size_t size_bytes) {
  enter(self);
  const delta_allocator_t system = delta_allocator_system();
  void *moved = system.reallocate(system.self, pointer, size_bytes);
  atomic_store(&((lonely_allocator_t *)self)->is_busy, false);
  return moved;
}
static void *lonely_allocate(void *self, size_t size_bytes) { return lonely_reallocate(self, NULL, size_bytes); }
static void lonely_release(void *self, void *pointer) {
  enter(self);
  const delta_allocator_t system = delta_allocator_system();
  system.release(system.self, pointer);
  atomic_store(&((lonely_allocator_t *)self)->is_busy, false);
}

static delta_status_t allocate_a_lot(void *self, uint32_t index) {
  const delta_allocator_t allocator = *(const delta_allocator_t *)self;
  for (int i = 0; i < 2000; ++i) {
    char *block = allocator.allocate(allocator.self, 100 + index);
    memset(block, (int)index, 100 + index);
    block = allocator.reallocate(allocator.self, block, 300);
    cr_assert_eq(block[99], (char)index);
    allocator.release(allocator.self, block);
  }
  return DELTA_OK;
}

Test(plan_race, a_locked_allocator_is_called_by_one_thread_at_a_time) {
  lonely_allocator_t lonely = {false, false};
  delta_locked_allocator_t locked;
  delta_locked_allocator_init(&locked, (delta_allocator_t){&lonely, lonely_allocate, lonely_reallocate, lonely_release});
  delta_allocator_t allocator = delta_locked_allocator_interface(&locked);
  cr_assert_null(delta_crew_run(4, 4, allocate_a_lot, &allocator));
  cr_expect_not(lonely.was_shared);
  delta_locked_allocator_deinit(&locked);
}

// ---- Races

enum { CONTESTANTS = 5, HOMES = 2 };

typedef struct course {
  delta_locked_allocator_t locked;
  delta_problem_t *problems[HOMES]; // with all states resident, and with some below
  delta_contestant_t contestants[CONTESTANTS];
} course_t;

static delta_status_t enter_all(course_t *course) {
  const delta_allocator_t allocator = delta_locked_allocator_interface(&course->locked);
  const delta_planner_options_t options = {.policy = DELTA_POLICY_DELTA, .early_update = true};
  for (uint32_t i = 0; i < CONTESTANTS; ++i) {
    delta_contestant_t *contestant = &course->contestants[i];
    contestant->seed = 1000 * i;
    contestant->step_seconds = contestant->mark_seconds = INFINITY;
    if (i < HOMES) {
      DELTA_RETURN_IF_ERROR(delta_planner_create(course->problems[i], &options, allocator, &contestant->planner));
      const uint64_t least = delta_planner_minimum_bytes(contestant->planner), kept = delta_planner_kept(contestant->planner)->arena_bytes;
      contestant->capacity_bytes = least + (kept - least) / 3;
    } else {
      contestant->capacity_bytes = course->contestants[i % HOMES].capacity_bytes;
      DELTA_RETURN_IF_ERROR(delta_planner_fork(course->contestants[i % HOMES].planner, &contestant->planner));
    }
  }
  return DELTA_OK;
}

static void open_course(course_t *course, uint64_t seed, delta_allocator_t allocator) {
  *course = (course_t){0};
  delta_locked_allocator_init(&course->locked, allocator);
  for (uint32_t h = 0; h < HOMES; ++h) course->problems[h] = delta_test_random_problem(seed, 30);
  delta_test_move_states_below(course->problems[1], seed);
}

static void close_course(course_t *course) {
  for (uint32_t i = 0; i < CONTESTANTS; ++i) delta_planner_destroy(course->contestants[i].planner);
  for (uint32_t h = 0; h < HOMES; ++h) delta_problem_free(course->problems[h]);
  delta_locked_allocator_deinit(&course->locked);
}

// The plan of a contestant as it is.
static delta_schedule_t *plan_of(const delta_contestant_t *contestant) {
  const delta_planner_effort_t effort = {.evaluation_limit = 1, .goes_on = true};
  delta_planner_result_t result;
  delta_planner_set_effort(contestant->planner, &effort);
  delta_test_must(delta_planner_plan(contestant->planner, contestant->capacity_bytes, &result));
  return result.schedule;
}

Test(plan_race, threads_change_nothing_where_evaluations_are_counted) {
  int planned = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    course_t courses[2];
    for (uint32_t k = 0; k < 2; ++k) {
      const delta_race_options_t options = {.evaluation_limit = 1000, .thread_count = 1 + 2 * k};
      open_course(&courses[k], seed, delta_allocator_system());
      delta_test_must(enter_all(&courses[k]));
      delta_test_must(delta_race_open(courses[k].contestants, CONTESTANTS, &options));
      delta_test_must(delta_race_run(courses[k].contestants, CONTESTANTS, &options));
    }
    for (uint32_t i = 0; i < CONTESTANTS; ++i) {
      const delta_contestant_t *one = &courses[0].contestants[i], *other = &courses[1].contestants[i];
      cr_expect_eq(one->step_seconds, other->step_seconds, "seed %llu: contestant %u", (unsigned long long)seed, i);
      cr_expect_eq(one->is_left_behind, other->is_left_behind);
      cr_expect_eq(one->mark_seconds, other->mark_seconds);
    }
    const uint32_t winner = delta_race_find_fastest(courses[0].contestants, CONTESTANTS);
    cr_assert_eq(winner, delta_race_find_fastest(courses[1].contestants, CONTESTANTS));
    if (winner < CONTESTANTS) {
      delta_schedule_t *plans[2];
      for (uint32_t k = 0; k < 2; ++k) plans[k] = plan_of(&courses[k].contestants[winner]);
      cr_assert_leq(plans[0]->step_seconds, courses[0].contestants[winner].step_seconds);
      cr_assert_eq(plans[0]->step_count, plans[1]->step_count);
      cr_expect_eq(plans[0]->step_seconds, plans[1]->step_seconds);
      for (uint32_t s = 0; s < plans[0]->step_count; ++s) cr_expect_eq(plans[0]->steps[s].start_seconds, plans[1]->steps[s].start_seconds);
      for (uint32_t k = 0; k < 2; ++k) delta_schedule_free(plans[k]);
      ++planned;
    }
    for (uint32_t k = 0; k < 2; ++k) close_course(&courses[k]);
  }
  cr_expect_gt(planned, 3);
}

// Fewer evaluations, and of the planners' making only a part, so that most failures are those of searches.
Test(plan_race, whichever_allocation_fails_the_race_does, .timeout = 300) {
  for (delta_test_trial_t trial = {.failure = DELTA_TEST_FAIL_ONCE, .leap_part = 4}; delta_test_trial_begin(&trial);) {
    const delta_race_options_t options = {.evaluation_limit = 300, .thread_count = 3};
    course_t course;
    open_course(&course, 3, delta_test_trial_allocator(&trial));
    delta_status_t status = enter_all(&course);
    if (!status) status = delta_race_run(course.contestants, CONTESTANTS, &options);
    close_course(&course);
    delta_test_trial_end(&trial, status, "race");
  }
}

// ---- A maker's race

static uint32_t count_below(const delta_plan_t *plan) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->state_count; ++i) count += plan->states[i].is_below;
  return count;
}

Test(plan_race, the_plans_homes_are_the_winners) {
  static const char *const budgets[] = {"40%", "60%", "80%"};
  int raced = 0;
  for (size_t b = 0; b < sizeof budgets / sizeof *budgets; ++b) {
    delta_test_training_t training;
    delta_plan_options_t options = delta_test_plan_options(64);
    delta_plan_maker_t maker;
    delta_test_training_write(&training, delta_test_wide_mlp);
    options.model_path = training.model_path;
    options.optimizer = "adam";
    options.budget = budgets[b];
    options.threads = 2;
    options.time_limit_seconds = 2;
    delta_test_must(delta_plan_maker_open(&maker, &options, delta_allocator_system()));
    delta_test_must(delta_plan_maker_settle(&maker));
    const uint32_t fewest = maker.below_count;
    delta_test_must(delta_plan_maker_plan(&maker));
    const delta_plan_t *plan = maker.plan;
    raced += maker.race != NULL;
    cr_expect_geq(maker.below_count, fewest);
    cr_expect_eq(maker.below_count, count_below(plan));
    cr_expect_leq(plan->totals.arena_bytes, plan->totals.budget_bytes);
    for (uint32_t i = 0; i < plan->program_count; ++i) {
      delta_test_expect_ok(delta_schedule_verify(plan->programs[i].schedule, maker.parts[i].problem,
                                                 plan->totals.budget_bytes - plan->totals.state_bytes, delta_allocator_system()),
                           budgets[b]);
    }
    delta_plan_maker_close(&maker);
    training.plan = NULL;
    training.session = NULL;
    delta_test_training_close(&training);
  }
  cr_expect_gt(raced, 0);
}
