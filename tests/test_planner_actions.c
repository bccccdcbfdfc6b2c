// Actions: random decisions on random problems. Whatever is kept, swapped or rebuilt, the schedule computes the problem, as the verifier and a slow machine say
// independently of each other; decisions that cannot be carried out are refused; waits are all needed.
#include <criterion/criterion.h>
#include <string.h>

#include "planner/prefetch.h"
#include "plans/problem_json.h"
#include "tests/support/planning.h"
#include "tests/support/support.h"

#define NONE DELTA_PROBLEM_NONE

enum { MOST_DECISIONS = 2000 };
enum {
  KEEP = 1 << DELTA_ACTION_KEEP,
  SWAP = 1 << DELTA_ACTION_SWAP,
  REBUILD = 1 << DELTA_ACTION_REBUILD_HOLD | 1 << DELTA_ACTION_REBUILD_DROP
};

typedef struct random_decisions {
  delta_decision_t items[MOST_DECISIONS];
  delta_decisions_t list;
} random_decisions_t;

// Which actions appear: bit per action.
static void make_decisions(const delta_problem_t *problem, uint64_t seed, unsigned actions, random_decisions_t *decisions) {
  delta_test_numbers_t numbers = {seed};
  decisions->list = (delta_decisions_t){.items = decisions->items, .late_offload = seed % 3 == 0};
  if (actions & REBUILD) decisions->list.tail = seed % 2 ? DELTA_ACTION_REBUILD_DROP : DELTA_ACTION_KEEP;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    if (delta_problem_tensor_is_state(&problem->tensors[t])) continue;
    for (uint32_t use = 0; use < 8 && decisions->list.count < MOST_DECISIONS; ++use) {
      const delta_action_t action = (delta_action_t)delta_test_number(&numbers, 4);
      if (!(actions >> action & 1)) continue;
      decisions->items[decisions->list.count++] = (delta_decision_t){.tensor = t, .use = use, .action = action};
    }
  }
}

static delta_status_t expand(const delta_problem_t *problem, uint64_t seed, const delta_decisions_t *decisions,
                             delta_schedule_t **out_schedule) {
  delta_order_t order;
  delta_test_must(delta_order_make(problem, seed % 2, delta_allocator_system(), &order));
  delta_status_t status = delta_expand(problem, &order, decisions, delta_allocator_system(), out_schedule);
  delta_order_deinit(&order);
  return status;
}

static void finish(const delta_problem_t *problem, delta_schedule_t *schedule, delta_wait_rule_t rule) {
  delta_test_must(delta_layout(problem, schedule, delta_allocator_system()));
  delta_test_must(delta_set_waits(schedule, rule, delta_allocator_system()));
  delta_test_must(delta_simulate(problem, schedule, delta_allocator_system()));
}

static void expect_valid(const delta_problem_t *problem, const delta_schedule_t *schedule, uint64_t seed) {
  delta_status_t status = delta_schedule_verify(schedule, problem, UINT64_MAX, delta_allocator_system());
  cr_assert_null(status, "seed %llu: %s", (unsigned long long)seed, delta_status_message(status));
  const char *why = "";
  cr_assert(delta_test_machine_accepts(schedule, problem, &why), "seed %llu: %s", (unsigned long long)seed, why);
}

typedef struct action_mix {
  const char *name;
  unsigned actions;
  double least_valid; // part of the problems for which the decisions can be carried out
} action_mix_t;

static const action_mix_t mixes[] = {
    {"kept", KEEP, 1},
    {"swapped", SWAP, 1},
    {"rebuilt", REBUILD, 0.02},
    {"kept or swapped", KEEP | SWAP, 1},
    {"any", KEEP | SWAP | REBUILD, 0.05},
};

Test(planner_actions, schedules_of_random_decisions_are_valid) {
  static random_decisions_t decisions;
  for (size_t m = 0; m < sizeof mixes / sizeof *mixes; ++m) {
    int valid = 0, tried = 0;
    for (uint64_t seed = 0; seed < 1500; ++seed, ++tried) {
      delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 40));
      if (seed % 2) delta_test_move_states_below(problem, seed);
      make_decisions(problem, seed, mixes[m].actions, &decisions);
      delta_schedule_t *schedule = NULL;
      delta_status_t status = expand(problem, seed, &decisions.list, &schedule);
      if (!status) {
        finish(problem, schedule, seed % 5 == 0 ? DELTA_WAIT_ONE_AT_A_TIME : DELTA_WAIT_FOR_BYTES);
        expect_valid(problem, schedule, seed);
        ++valid;
      } else {
        cr_assert_eq(delta_status_code(status), DELTA_STATUS_INVALID_ARGUMENT);
        cr_assert(mixes[m].actions & REBUILD);
        cr_assert_not_null(strstr(delta_status_message(status), "cannot be rebuilt"), "%s", delta_status_message(status));
      }
      delta_status_free(status);
      delta_schedule_free(schedule);
      delta_problem_free(problem);
    }
    cr_assert_geq(valid, mixes[m].least_valid * tried, "%s: %d of %d", mixes[m].name, valid, tried);
  }
}

Test(planner_actions, copies_back_move_forward_and_schedules_stay_valid) {
  static random_decisions_t decisions;
  double before_seconds = 0, after_seconds = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 40));
    if (seed % 2) delta_test_move_states_below(problem, seed);
    make_decisions(problem, seed, KEEP | SWAP, &decisions);
    delta_schedule_t *schedule = NULL, *early = NULL;
    delta_test_must(expand(problem, seed, &decisions.list, &schedule));
    delta_test_must(delta_schedule_copy(schedule, delta_allocator_system(), &early));
    const uint64_t capacity_bytes = schedule->peak_bytes + 64 * (seed % 7);
    delta_test_must(delta_prefetch(problem, capacity_bytes, 1 + (uint32_t)(seed % 5), delta_allocator_system(), early));
    finish(problem, schedule, DELTA_WAIT_FOR_BYTES);
    finish(problem, early, DELTA_WAIT_FOR_BYTES);
    expect_valid(problem, early, seed);
    before_seconds += schedule->step_seconds;
    after_seconds += early->step_seconds;
    delta_schedule_free(schedule);
    delta_schedule_free(early);
    delta_problem_free(problem);
  }
  cr_assert_lt(after_seconds, 0.99 * before_seconds, "%g", after_seconds / before_seconds);
}

Test(planner_actions, every_wait_is_needed) {
  static random_decisions_t decisions;
  size_t waits = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 30));
    if (seed % 2) delta_test_move_states_below(problem, seed);
    make_decisions(problem, seed, KEEP | SWAP, &decisions);
    delta_schedule_t *schedule = NULL;
    delta_test_must(expand(problem, seed, &decisions.list, &schedule));
    finish(problem, schedule, DELTA_WAIT_FOR_BYTES);
    for (uint32_t s = 0; s < schedule->step_count; ++s) {
      delta_schedule_step_t *step = &schedule->steps[s];
      const delta_schedule_step_t saved = *step;
      uint32_t fewer[DELTA_LANE_COUNT];
      for (uint32_t w = 0; w < saved.wait_count; ++w, ++waits) {
        step->wait_count = 0;
        step->waits = fewer;
        for (uint32_t k = 0; k < saved.wait_count; ++k) {
          if (k != w) fewer[step->wait_count++] = saved.waits[k];
        }
        delta_status_t status = delta_schedule_verify(schedule, problem, UINT64_MAX, delta_allocator_system());
        cr_assert_eq(delta_status_code(status), DELTA_STATUS_MALFORMED, "seed %llu, step %u, wait for step %u", (unsigned long long)seed, s,
                     saved.waits[w]);
        delta_status_free(status);
      }
      *step = saved;
    }
    delta_schedule_free(schedule);
    delta_problem_free(problem);
  }
  cr_assert_gt(waits, 1000);
}

// ---- x -> a -> b -> c -> d, where d reads a too: what each action of a's first gap does

typedef struct action_case {
  const char *name;
  delta_decision_t items[2];
  size_t count;
  const char *steps;   // s0, s1...; "out" and "in" are copies
  uint64_t peak_bytes; // all tensors have 64
} action_case_t;

static const action_case_t action_cases[] = {
    {"keep", {{0}}, 0, "s0 s1 s2 s3 ", 3 * 64},
    {"swap as soon as it exists", {{1, 1, 0, DELTA_ACTION_SWAP}}, 1, "s0 out s1 s2 in s3 ", 3 * 64},
    {"rebuild", {{1, 1, 0, DELTA_ACTION_REBUILD_HOLD}}, 1, "s0 s1 s2 s0 s3 ", 3 * 64},
    {"rebuild the second time from what was swapped",
     {{0, 1, 0, DELTA_ACTION_SWAP}, {1, 1, 0, DELTA_ACTION_REBUILD_DROP}},
     2,
     "out s0 s1 s2 in s0 s3 ",
     3 * 64},
};

static void describe_steps(const delta_problem_t *problem, const delta_schedule_t *schedule, char *text) {
  static const char *const names[] = {[DELTA_STEP_SWAP_OUT] = "out", [DELTA_STEP_SWAP_IN] = "in"};
  text[0] = '\0';
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    strcat(text, step->kind == DELTA_STEP_RUN ? problem->steps[step->problem_step].name : names[step->kind]);
    strcat(text, " ");
  }
}

Test(planner_actions, each_action_does_what_its_name_says) {
  for (size_t i = 0; i < sizeof action_cases / sizeof *action_cases; ++i) {
    static uint32_t lists[] = {0, 1, 2, 3, 4};
    uint32_t last_inputs[] = {3, 1};
    static const char *const tensor_names[] = {"x", "a", "b", "c", "d"}, *const step_names[] = {"s0", "s1", "s2", "s3"};
    delta_problem_tensor_t tensors[5];
    delta_problem_step_t steps[4];
    for (uint32_t t = 0; t < 5; ++t) {
      tensors[t] = (delta_problem_tensor_t){.name = tensor_names[t], .size_bytes = 64, .becomes_state = NONE};
    }
    tensors[0].flags = DELTA_TENSOR_INPUT;
    tensors[4].flags = DELTA_TENSOR_OUTPUT;
    for (uint32_t s = 0; s < 4; ++s) {
      steps[s] = (delta_problem_step_t){.name = step_names[s],
                                        .flags = DELTA_STEP_PURE,
                                        .inputs = s < 3 ? lists + s : last_inputs,
                                        .input_count = s < 3 ? 1 : 2,
                                        .outputs = lists + s + 1,
                                        .output_count = 1};
    }
    delta_problem_t *problem = NULL;
    delta_test_must(delta_problem_create(delta_allocator_system(), &problem));
    problem->alignment_bytes = 64;
    problem->tensors = tensors;
    problem->tensor_count = 5;
    problem->steps = steps;
    problem->step_count = 4;
    problem->offload_bytes_per_second = problem->prefetch_bytes_per_second = 64;
    delta_schedule_t *schedule = NULL;
    const delta_decisions_t decisions = {.items = (delta_decision_t *)action_cases[i].items, .count = action_cases[i].count};
    delta_test_must(expand(problem, 1, &decisions, &schedule));
    finish(problem, schedule, DELTA_WAIT_FOR_BYTES);
    expect_valid(problem, schedule, i);
    char text[256];
    describe_steps(problem, schedule, text);
    cr_expect_str_eq(text, action_cases[i].steps, "%s: %s", action_cases[i].name, text);
    cr_expect_eq(schedule->peak_bytes, action_cases[i].peak_bytes, "%s: %llu", action_cases[i].name,
                 (unsigned long long)schedule->peak_bytes);
    delta_schedule_free(schedule);
    delta_problem_free(problem);
  }
}

// ---- Lists of runs

typedef struct runs_case {
  const char *name;
  uint32_t runs[8];
  uint32_t count;
  const char *wanted; // words of the message; NULL: it can be carried out
} runs_case_t;

// Inputs of a step are there from its last run on; a chain a -> b -> c whose last step reads a and c again.
static const runs_case_t runs_cases[] = {
    {"in order", {0, 1, 2, 3}, 4, NULL},
    {"one again", {0, 1, 2, 0, 3}, 5, NULL},
    {"all again", {0, 1, 2, 0, 1, 2, 3}, 7, NULL},
    {"before its input", {1, 0, 2, 3}, 4, "before its input"},
    {"never", {0, 1, 3}, 3, "before its input"},
    {"left out", {0, 1, 2}, 3, "never runs"},
    {"no such step", {0, 1, 2, 9}, 4, "no step 9"},
    {"what is not pure again", {0, 1, 2, 3, 3}, 5, "another result"},
};

Test(planner_actions, lists_of_runs_are_carried_out_or_refused) {
  static const char text[] =
      "{\"tensors\": [{\"name\": \"x\", \"bytes\": 64, \"initial\": true}, {\"name\": \"a\", \"bytes\": 64}, {\"name\": \"b\", \"bytes\": "
      "64},"
      " {\"name\": \"c\", \"bytes\": 64}, {\"name\": \"d\", \"bytes\": 64, \"output\": true}], \"nodes\": ["
      "{\"name\": \"f\", \"compute_s\": 1, \"inputs\": [\"x\"], \"outputs\": [\"a\"]},"
      "{\"name\": \"g\", \"compute_s\": 1, \"inputs\": [\"a\"], \"outputs\": [\"b\"]},"
      "{\"name\": \"h\", \"compute_s\": 1, \"inputs\": [\"b\"], \"outputs\": [\"c\"]},"
      "{\"name\": \"i\", \"compute_s\": 1, \"pure\": false, \"inputs\": [\"a\", \"c\"], \"outputs\": [\"d\"]}]}";
  delta_problem_t *problem = NULL;
  delta_test_must(delta_problem_from_json(text, strlen(text), "runs", delta_allocator_system(), &problem));
  for (size_t i = 0; i < sizeof runs_cases / sizeof *runs_cases; ++i) {
    const runs_case_t *c = &runs_cases[i];
    const delta_decisions_t decisions = {.runs = c->runs, .run_count = c->count};
    delta_schedule_t *schedule = NULL;
    delta_status_t status = expand(problem, 0, &decisions, &schedule);
    if (c->wanted) {
      cr_assert_eq(delta_status_code(status), DELTA_STATUS_INVALID_ARGUMENT, "%s", c->name);
      cr_expect_not_null(strstr(delta_status_message(status), c->wanted), "%s: %s", c->name, delta_status_message(status));
    } else {
      cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
      cr_expect_eq(schedule->step_count, c->count, "%s", c->name);
      cr_expect_eq(schedule->recomputed_nodes, c->count - 4, "%s", c->name);
      finish(problem, schedule, DELTA_WAIT_FOR_BYTES);
      expect_valid(problem, schedule, i);
    }
    delta_status_free(status);
    delta_schedule_free(schedule);
  }
  delta_problem_free(problem);
}
