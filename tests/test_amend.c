// Amending: random schedules that have come to a random point are changed for more room, slow copies, copies that fail and less room. Whatever comes out begins with what has
// run, at its addresses, and computes the problem, as the slow machine says independently of the verifier.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "planner/amend.h"
#include "planner/annotate.h"
#include "tests/support/planning.h"
#include "tests/support/sanitized.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

#define NONE DELTA_PROBLEM_NONE

#ifdef DELTA_TEST_SANITIZED
enum { SEEDS = 300 };
#else
enum { SEEDS = 600 };
#endif
enum { MOST_STEPS = 4000 };

// A schedule amid a run.
typedef struct moment {
  delta_problem_t *problem;
  delta_schedule_t *schedule;
  bool has_run[MOST_STEPS], is_refused[MOST_STEPS];
  uint32_t run_count;
} moment_t;

static bool may_run(const moment_t *moment, uint32_t s) {
  const delta_schedule_step_t *step = &moment->schedule->steps[s];
  for (uint32_t w = 0; w < step->wait_count; ++w) {
    if (!moment->has_run[step->waits[w]]) return false;
  }
  return true;
}

// The next step of a lane, or the number of steps.
static uint32_t next_of(const moment_t *moment, delta_lane_t lane) {
  uint32_t s = 0;
  while (s < moment->schedule->step_count && (moment->has_run[s] || moment->schedule->steps[s].lane != lane)) ++s;
  return s;
}

// Lanes go on in any order that the waits allow, for `count` steps.
static void let_run(moment_t *moment, uint64_t seed, uint64_t count) {
  delta_test_numbers_t numbers = {seed};
  for (int idle = 0; moment->run_count < count && idle < 64;) {
    const uint32_t s = next_of(moment, (delta_lane_t)delta_test_number(&numbers, DELTA_LANE_COUNT));
    if (s < moment->schedule->step_count && may_run(moment, s)) {
      moment->has_run[s] = true;
      ++moment->run_count;
      idle = 0;
    } else {
      ++idle;
    }
  }
}

// A plan between the least memory and that of everything kept.
static delta_schedule_t *make_plan(const delta_problem_t *problem, uint64_t seed) {
  const delta_planner_options_t options = {.policy = DELTA_POLICY_DELTA_FIXED, .early_update = true};
  delta_planner_t *planner = NULL;
  delta_planner_result_t result;
  delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &planner));
  const uint64_t least_bytes = delta_planner_minimum_bytes(planner), most_bytes = delta_planner_kept(planner)->arena_bytes;
  delta_test_must(delta_planner_plan(planner, least_bytes + (most_bytes - least_bytes) * (seed % 5) / 5, &result));
  delta_planner_destroy(planner);
  return result.schedule;
}

static moment_t *make_moment(uint64_t seed) {
  static moment_t moment;
  moment = (moment_t){.problem = delta_test_random_problem(seed, 5 + (uint32_t)(seed % 50))};
  const bool is_plan = seed % 3 == 0;
  if (is_plan) delta_test_move_states_below(moment.problem, seed);
  moment.schedule = is_plan ? make_plan(moment.problem, seed) : delta_test_swapped_schedule(moment.problem, seed);
  delta_test_must(delta_set_waits(moment.schedule, DELTA_WAIT_FOR_BYTES, delta_allocator_system()));
  delta_test_numbers_t numbers = {seed + 1};
  const uint64_t count = seed % 4 == 0 ? 0 : delta_test_number(&numbers, moment.schedule->step_count);
  let_run(&moment, seed + 2, count);
  return &moment;
}

static void free_moment(moment_t *moment) {
  delta_schedule_free(moment->schedule);
  delta_problem_free(moment->problem);
}

static uint64_t offset_of(const delta_schedule_t *schedule, uint32_t buffer) {
  return buffer == NONE ? UINT64_MAX : schedule->buffers[buffer].offset_bytes;
}

static void expect_same_past(const moment_t *moment, const delta_amendment_t *amendment, uint64_t seed) {
  uint32_t at = 0;
  for (uint32_t s = 0; s < moment->schedule->step_count; ++s) {
    if (!moment->has_run[s]) continue;
    const delta_schedule_step_t *before = &moment->schedule->steps[s], *after = &amendment->schedule->steps[at++];
    cr_assert_eq(before->kind, after->kind, "seed %llu, step %u", (unsigned long long)seed, s);
    cr_assert_eq(before->problem_step, after->problem_step);
    cr_assert_eq(before->host_offset_bytes, after->host_offset_bytes);
    for (uint32_t k = 0; k < before->input_count; ++k)
      cr_assert_eq(offset_of(moment->schedule, before->inputs[k]), offset_of(amendment->schedule, after->inputs[k]));
    for (uint32_t k = 0; k < before->output_count; ++k)
      cr_assert_eq(offset_of(moment->schedule, before->outputs[k]), offset_of(amendment->schedule, after->outputs[k]));
  }
  cr_assert_eq(at, amendment->run_count);
}

static void expect_sound(const moment_t *moment, const delta_amendment_t *amendment, uint64_t seed) {
  const char *why = "";
  expect_same_past(moment, amendment, seed);
  cr_assert(delta_test_machine_accepts(amendment->schedule, moment->problem, &why), "seed %llu: %s", (unsigned long long)seed, why);
}

static delta_amend_options_t options_of(const moment_t *moment, uint64_t capacity_bytes) {
  return (delta_amend_options_t){.problem = moment->problem,
                                 .schedule = moment->schedule,
                                 .has_run = moment->has_run,
                                 .is_refused = moment->is_refused,
                                 .capacity_bytes = capacity_bytes,
                                 .host_limit_bytes = UINT64_MAX};
}

// Inputs are where they are, and states come from below.
static bool must_come_back(const delta_problem_t *problem, const delta_schedule_t *schedule, const delta_schedule_step_t *step) {
  const uint32_t tensor = schedule->buffers[step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0]].tensor;
  return (problem->tensors[tensor].flags & (DELTA_TENSOR_BELOW | DELTA_TENSOR_INPUT)) != 0;
}

static bool lets_go(const moment_t *moment, const delta_schedule_t *schedule) {
  bool lets_go = schedule->recomputed_nodes > 0;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    lets_go |= step->kind != DELTA_STEP_RUN && !must_come_back(moment->problem, schedule, step);
  }
  return lets_go;
}

// With all the room there is, a step that has not begun lets nothing go; but for a few where an input that nobody reads lies in the way at the first step, and parts whose
// staying would break a row.
Test(amend, with_enough_room_everything_stays) {
  uint32_t kept = 0, exceptions = 0;
  for (uint64_t seed = 0; seed < SEEDS; ++seed) {
    moment_t *moment = make_moment(seed);
    memset(moment->has_run, 0, sizeof moment->has_run);
    moment->run_count = 0;
    const delta_amend_options_t options = options_of(moment, UINT64_MAX / 2);
    delta_amendment_t amendment;
    delta_test_must(delta_amend_relax(&options, delta_allocator_system(), &amendment));
    const delta_schedule_t *schedule = amendment.schedule ? amendment.schedule : moment->schedule;
    exceptions += lets_go(moment, schedule);
    if (amendment.schedule) expect_sound(moment, &amendment, seed);
    kept += amendment.kept;
    delta_schedule_free(amendment.schedule);
    free_moment(moment);
  }
  cr_expect_gt(kept, SEEDS);
  cr_expect_leq(exceptions, SEEDS / 6, "%u", exceptions);
  printf("%u gaps kept, %u of %d schedules still let something go\n", kept, exceptions, SEEDS);
}

Test(amend, some_room_is_used_amid_a_step) {
  uint32_t changed = 0;
  for (uint64_t seed = 0; seed < SEEDS; ++seed) {
    moment_t *moment = make_moment(seed);
    const uint64_t capacity_bytes = moment->schedule->arena_bytes * (4 + seed % 3) / 4;
    const delta_amend_options_t options = options_of(moment, capacity_bytes);
    delta_amendment_t amendment;
    delta_test_must(delta_amend_relax(&options, delta_allocator_system(), &amendment));
    if (amendment.schedule) {
      ++changed;
      expect_sound(moment, &amendment, seed);
      cr_assert_leq(amendment.schedule->arena_bytes, capacity_bytes);
      cr_assert_leq(amendment.seconds, amendment.seconds_before * (1 + 1e-9), "seed %llu: %g, not %g", (unsigned long long)seed,
                    amendment.seconds, amendment.seconds_before);
    }
    delta_schedule_free(amendment.schedule);
    free_moment(moment);
  }
  cr_expect_gt(changed, SEEDS / 4, "%u", changed);
}

Test(amend, slow_copies_are_avoided) {
  uint32_t changed = 0, rebuilt = 0;
  for (uint64_t seed = 0; seed < SEEDS; ++seed) {
    moment_t *moment = make_moment(seed);
    if (seed % 2) delta_test_must(delta_annotate(moment->problem, delta_allocator_system(), moment->schedule));
    moment->problem->offload_bytes_per_second /= 50;
    moment->problem->prefetch_bytes_per_second /= 50;
    const delta_amend_options_t options = options_of(moment, moment->schedule->arena_bytes);
    delta_amendment_t amendment;
    delta_test_must(delta_amend_hurry(&options, delta_allocator_system(), &amendment));
    if (amendment.schedule) {
      ++changed;
      rebuilt += amendment.rebuilt;
      expect_sound(moment, &amendment, seed);
      cr_assert_lt(amendment.seconds, amendment.seconds_before);
      cr_assert_leq(amendment.schedule->arena_bytes, moment->schedule->arena_bytes);
    }
    delta_schedule_free(amendment.schedule);
    free_moment(moment);
  }
  cr_expect_gt(changed, SEEDS / 4, "%u", changed);
  cr_expect_gt(rebuilt, SEEDS / 4, "%u", rebuilt);
}

static uint32_t tensor_of(const delta_schedule_t *schedule, uint32_t s) {
  const delta_schedule_step_t *step = &schedule->steps[s];
  return schedule->buffers[step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0]].tensor;
}

Test(amend, copies_that_failed_are_not_tried_again) {
  uint32_t failed = 0, changed = 0;
  for (uint64_t seed = 1; seed < SEEDS; ++seed) {
    moment_t *moment = make_moment(seed);
    uint32_t copy = next_of(moment, seed % 2 ? DELTA_LANE_OFFLOAD : DELTA_LANE_PREFETCH);
    const bool is_there = copy < moment->schedule->step_count && may_run(moment, copy);
    if (is_there) {
      ++failed;
      moment->is_refused[copy] = true;
      const delta_amend_options_t options = options_of(moment, moment->schedule->arena_bytes);
      delta_amendment_t amendment;
      delta_test_must(delta_amend_avoid(&options, delta_allocator_system(), &amendment));
      if (amendment.schedule) {
        ++changed;
        expect_sound(moment, &amendment, seed);
        for (uint32_t s = amendment.run_count; s < amendment.schedule->step_count; ++s) {
          if (amendment.schedule->steps[s].kind == DELTA_STEP_RUN) continue;
          cr_assert_neq(tensor_of(amendment.schedule, s), tensor_of(moment->schedule, copy), "seed %llu", (unsigned long long)seed);
        }
      }
      delta_schedule_free(amendment.schedule);
    }
    free_moment(moment);
  }
  cr_expect_gt(changed, failed / 8, "%u of %u", changed, failed);
}

Test(amend, less_room_is_kept_from_a_step_on) {
  uint32_t changed = 0, released = 0;
  for (uint64_t seed = 0; seed < SEEDS; ++seed) {
    moment_t *moment = make_moment(seed);
    const uint64_t capacity_bytes = moment->schedule->arena_bytes * (5 + seed % 4) / 10;
    const delta_amend_options_t options = options_of(moment, capacity_bytes);
    delta_amendment_t amendment;
    delta_test_must(delta_amend_shrink(&options, delta_allocator_system(), &amendment));
    if (amendment.schedule) {
      ++changed;
      released += amendment.swapped + amendment.rebuilt;
      expect_sound(moment, &amendment, seed);
      cr_assert_lt(amendment.shrink_step, amendment.schedule->step_count);
      for (uint32_t b = 0; b < amendment.schedule->buffer_count; ++b) {
        const delta_buffer_t *buffer = &amendment.schedule->buffers[b];
        if (buffer->last_step >= amendment.shrink_step) cr_assert_leq(buffer->offset_bytes + buffer->size_bytes, capacity_bytes);
      }
    }
    delta_schedule_free(amendment.schedule);
    free_moment(moment);
  }
  cr_expect_gt(changed, SEEDS / 8, "%u", changed);
  cr_expect_gt(released, SEEDS / 8, "%u", released);
}

// Bytes that are taken beside the schedule's buffers are nobody's.
Test(amend, taken_bytes_are_left_alone) {
  uint32_t changed = 0;
  for (uint64_t seed = 0; seed < SEEDS / 4; ++seed) {
    moment_t *moment = make_moment(seed);
    const delta_taken_bytes_t taken = {.offset_bytes = moment->schedule->arena_bytes, .size_bytes = 256};
    delta_amend_options_t options = options_of(moment, moment->schedule->arena_bytes + 512);
    options.taken = &taken;
    options.taken_count = 1;
    delta_amendment_t amendment;
    delta_test_must(delta_amend_relax(&options, delta_allocator_system(), &amendment));
    changed += amendment.schedule != NULL;
    for (uint32_t b = 0; amendment.schedule && b < amendment.schedule->buffer_count; ++b) {
      const delta_buffer_t *buffer = &amendment.schedule->buffers[b];
      const bool is_free =
          buffer->offset_bytes + buffer->size_bytes <= taken.offset_bytes || buffer->offset_bytes >= taken.offset_bytes + 256;
      cr_assert(is_free, "seed %llu, buffer %u", (unsigned long long)seed, b);
    }
    delta_schedule_free(amendment.schedule);
    free_moment(moment);
  }
  cr_expect_gt(changed, 0);
}

// Whether a step that has not run was to use bytes that hold a tensor.
static bool is_still_used(const moment_t *moment, uint32_t tensor, uint64_t offset_bytes) {
  for (uint32_t s = 0; s < moment->schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &moment->schedule->steps[s];
    for (uint32_t k = 0; k < step->input_count && !moment->has_run[s]; ++k) {
      if (step->inputs[k] == NONE) continue;
      const delta_buffer_t *buffer = &moment->schedule->buffers[step->inputs[k]];
      if (buffer->tensor == tensor && buffer->offset_bytes == offset_bytes) return true;
    }
  }
  return false;
}

// Where dead bytes are written over, to find faults, nothing reads them again.
Test(amend, what_is_lost_is_not_read) {
  uint32_t changed = 0;
  for (uint64_t seed = 0; seed < SEEDS; ++seed) {
    moment_t *moment = make_moment(seed);
    delta_amend_options_t options = options_of(moment, moment->schedule->arena_bytes * 5 / 4);
    options.dead_are_lost = true;
    delta_amendment_t amendment;
    delta_test_must((seed % 2 ? delta_amend_relax : delta_amend_hurry)(&options, delta_allocator_system(), &amendment));
    const delta_schedule_t *schedule = amendment.schedule;
    changed += schedule != NULL;
    for (uint32_t s = amendment.run_count; schedule && s < schedule->step_count; ++s) {
      for (uint32_t k = 0; k < schedule->steps[s].input_count; ++k) {
        if (schedule->steps[s].inputs[k] == NONE) continue;
        const delta_buffer_t *buffer = &schedule->buffers[schedule->steps[s].inputs[k]];
        if (buffer->first_step < amendment.run_count && amendment.run_count > 0)
          cr_assert(is_still_used(moment, buffer->tensor, buffer->offset_bytes), "seed %llu, step %u", (unsigned long long)seed, s);
      }
    }
    delta_schedule_free(amendment.schedule);
    free_moment(moment);
  }
  cr_expect_gt(changed, SEEDS / 8);
}

typedef delta_status_t (*amend_t)(const delta_amend_options_t *options, delta_allocator_t allocator, delta_amendment_t *out_amendment);

Test(amend, memory_may_run_out_at_any_allocation) {
  static const amend_t ways[] = {delta_amend_relax, delta_amend_hurry, delta_amend_shrink};
  for (size_t way = 0; way < sizeof ways / sizeof *ways; ++way) {
    moment_t *moment = make_moment(13);
    delta_amend_options_t options = options_of(moment, moment->schedule->arena_bytes * 3 / (way == 2 ? 4 : 2));
    for (delta_test_trial_t trial = {.leap_part = 16}; delta_test_trial_begin(&trial);) {
      delta_amendment_t amendment;
      delta_status_t status = ways[way](&options, delta_test_trial_allocator(&trial), &amendment);
      delta_schedule_free(amendment.schedule);
      delta_test_trial_end(&trial, status, "amend");
    }
    free_moment(moment);
  }
}
