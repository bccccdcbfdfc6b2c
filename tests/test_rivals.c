// Rivals: each rule on an example that is worked out by hand; on problems with proven optima and on random ones, plans that are valid, within their budget and never faster than
// what is proven; and what the solver's absence and size limits say.
#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "planner/chain.h"
#include "planner/rival_plan.h"
#include "plans/problem_json.h"
#include "runtime/integer_solver.h"
#include "tests/support/planning.h"
#include "tests/support/support.h"

enum { TEXT_BYTES = 8192, MOST_LENGTH = 12, FILE_LIMIT_BYTES = 1 << 24 };

// ---- Chains: x -> f1 -> a1 -> f2 -> a2 ... fn -> an; backward step k reads the gradient of a_k (the last one a_n itself) and a_(k-1).

typedef struct chain_case {
  uint32_t length;
  double seconds[MOST_LENGTH];      // of forward steps; 0: one; backward steps take two
  uint32_t bytes[MOST_LENGTH];      // of what they make; 0: one
  bool is_convolution[MOST_LENGTH]; // forward steps
  double bytes_per_second;          // of either lane; 0: no lanes
} chain_case_t;

static void append(char *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const size_t length = strlen(text);
  vsnprintf(text + length, TEXT_BYTES - length, format, arguments);
  va_end(arguments);
}

static delta_problem_t *make_chain(const chain_case_t *chain) {
  char text[TEXT_BYTES] = "";
  append(text,
         "{\"h2d_bytes_per_s\": %g, \"d2h_bytes_per_s\": %g, \"tensors\": [{\"name\": \"a0\", \"bytes\": 1, \"initial\": true, \"pinned\": "
         "true}",
         chain->bytes_per_second, chain->bytes_per_second);
  for (uint32_t k = 1; k <= chain->length; ++k)
    append(text, ", {\"name\": \"a%u\", \"bytes\": %u}", k, chain->bytes[k - 1] ? chain->bytes[k - 1] : 1);
  for (uint32_t k = 0; k < chain->length; ++k) append(text, ", {\"name\": \"g%u\", \"bytes\": 1%s}", k, k == 0 ? ", \"output\": true" : "");
  append(text, "], \"nodes\": [");
  for (uint32_t k = 1; k <= chain->length; ++k) {
    append(text, "{\"name\": \"f%u\", \"compute_s\": %g, \"inputs\": [\"a%u\"], \"outputs\": [\"a%u\"]%s}, ", k,
           chain->seconds[k - 1] > 0 ? chain->seconds[k - 1] : 1, k - 1, k,
           chain->is_convolution[k - 1] ? ", \"kind\": \"convolution\"" : "");
  }
  for (uint32_t k = chain->length; k > 0; --k) {
    append(text, "{\"name\": \"b%u\", \"compute_s\": 2, \"inputs\": [\"%s%u\", \"a%u\"], \"outputs\": [\"g%u\"]}%s", k,
           k == chain->length ? "a" : "g", k, k - 1, k - 1, k == 1 ? "]}" : ", ");
  }
  delta_problem_t *problem = NULL;
  delta_test_must(delta_problem_from_json(text, strlen(text), "chain", delta_allocator_system(), &problem));
  return problem;
}

typedef struct rule_run {
  delta_problem_t *problem;
  delta_order_t order;
  delta_rival_t rival;
} rule_run_t;

static void open_rule(rule_run_t *run, delta_problem_t *problem, uint64_t capacity_bytes, const delta_integer_solver_t *solver) {
  run->problem = problem;
  delta_test_must(delta_order_listed(problem, delta_allocator_system(), &run->order));
  delta_test_must(delta_rival_init(&run->rival, problem, &run->order, capacity_bytes, solver, delta_allocator_system()));
}

static void close_rule(rule_run_t *run) {
  delta_rival_deinit(&run->rival);
  delta_order_deinit(&run->order);
  delta_problem_free(run->problem);
}

// The best offer in words: "a1 swap, a2 rebuild_hold" or "again f1 f2".
static void describe_best(const rule_run_t *run, char *text) {
  static const char *const names[] = {
#define ACTION_NAME(id, name) name,
      DELTA_ACTIONS(ACTION_NAME)
#undef ACTION_NAME
  };
  const delta_decisions_t best = delta_rival_best(&run->rival);
  bool has_run[64] = {false};
  text[0] = '\0';
  for (uint32_t i = 0; i < best.run_count; ++i) {
    if (has_run[best.runs[i]]) append(text, "%s%s", *text ? " " : "again ", run->problem->steps[best.runs[i]].name);
    has_run[best.runs[i]] = true;
  }
  for (size_t i = 0; i < best.count; ++i) {
    append(text, "%s%s %s", i > 0 ? ", " : "", run->problem->tensors[best.items[i].tensor].name, names[best.items[i].action]);
  }
}

typedef struct rule_case {
  const char *name;
  delta_policy_t policy;
  chain_case_t chain;
  uint64_t capacity_bytes;
  const char *wanted;
} rule_case_t;

static const rule_case_t rule_cases[] = {
    // Nine candidates: every third is a checkpoint. Fewer checkpoints (a5, or a4 and a8) take as long or do not fit.
    {"root",
     DELTA_POLICY_CHEN,
     {.length = 10},
     7,
     "a1 rebuild_hold, a2 rebuild_hold, a4 rebuild_hold, a5 rebuild_hold, a7 rebuild_hold, a8 rebuild_hold"},
    // With more room one checkpoint in the middle runs the fewest steps again: those before it.
    {"one checkpoint", DELTA_POLICY_CHEN, {.length = 10}, 11, "a1 rebuild_hold, a2 rebuild_hold, a3 rebuild_hold, a4 rebuild_hold"},
    // Before f5 one has to go: a1 costs 1 and is 2 s old, a2 costs 10 and is 1 s old. Before b5, a2 would cost 11 and is 2 s old, a3 costs 1 and is 1 s old.
    {"the cheap one goes", DELTA_POLICY_DTR, {.length = 5, .seconds = {1, 10}}, 5, "again f3 f1"},
    // a1 costs 10 and is 2 s old, a2 costs 1 and is 1 s old. Before b5, a1 with a2 costs 11 and is 3 s old, a3 with a2 costs 2 and is 1 s old. For a3, f2 runs too; then
    // a2 has just been read, and a1 goes.
    {"the dear one stays", DELTA_POLICY_DTR, {.length = 5, .seconds = {10, 1}}, 5, "again f2 f3 f1"},
    // What layers read goes below, but what the next step reads.
    {"all inputs", DELTA_POLICY_VDNN, {.length = 5, .bytes_per_second = 10}, 6, "a1 swap, a2 swap, a3 swap"},
    {"inputs of convolutions",
     DELTA_POLICY_VDNN,
     {.length = 6, .is_convolution = {true, false, true, false, true}, .bytes_per_second = 10},
     7,
     "a2 swap, a4 swap"},
    // Convolutions make a1, a3, a5. The others are made again, and the oldest of the three is offloaded when that is not enough.
    {"cheap layers",
     DELTA_POLICY_SUPERNEURONS,
     {.length = 6, .is_convolution = {true, false, true, false, true, false}, .bytes_per_second = 10},
     6,
     "a2 rebuild_hold, a4 rebuild_hold"},
    {"the oldest convolution",
     DELTA_POLICY_SUPERNEURONS,
     {.length = 6, .is_convolution = {true, false, true, false, true, false}, .bytes_per_second = 10},
     5,
     "a1 swap, a2 rebuild_hold, a4 rebuild_hold"},
    // A segment that is larger than the fullest step's own need is made again for each step.
    {"a large segment",
     DELTA_POLICY_SUPERNEURONS,
     {.length = 6, .is_convolution = {true}, .bytes_per_second = 10},
     6,
     "a2 rebuild_drop, a3 rebuild_drop, a4 rebuild_drop"},
    // One byte is needed: a1 has the longest free time.
    {"the longest free time", DELTA_POLICY_CAPUCHIN, {.length = 5, .bytes_per_second = 10}, 6, "a1 swap"},
    // No copy hides (a1 is free for 9 s, two copies take 20): f3 saves most bytes per second.
    {"the most bytes per second",
     DELTA_POLICY_CAPUCHIN,
     {.length = 5, .seconds = {4, 4, 1}, .bytes_per_second = 0.1},
     6,
     "a3 rebuild_hold"},
    // Without lanes the cheapest per byte is made again; with fast lanes nothing shows, and the earliest wins the tie.
    {"time per byte", DELTA_POLICY_TSPLIT, {.length = 5, .seconds = {4, 4, 2}, .bytes = {1, 4, 1}}, 9, "a2 rebuild_hold"},
    {"ties", DELTA_POLICY_TSPLIT, {.length = 5, .bytes_per_second = 10}, 6, "a1 swap"},
    // Six bytes are one too many: offloading a1 shows nowhere.
    {"an offload", DELTA_POLICY_POFO, {.length = 4, .bytes_per_second = 10}, 5, "a1 swap"},
};

Test(rivals, rules_do_what_is_worked_out_by_hand) {
  for (size_t i = 0; i < sizeof rule_cases / sizeof *rule_cases; ++i) {
    const rule_case_t *c = &rule_cases[i];
    char found[TEXT_BYTES];
    rule_run_t run;
    open_rule(&run, make_chain(&c->chain), c->capacity_bytes, NULL);
    cr_assert_eq(run.rival.turn, c->chain.length, "%s: the pass turns at %u", c->name, run.rival.turn);
    delta_test_must(delta_rival_rule(c->policy)(&run.rival));
    describe_best(&run, found);
    cr_expect_str_eq(found, c->wanted, "%s %s: '%s', wanted '%s'", delta_policy_info(c->policy)->name, c->name, found, c->wanted);
    cr_expect_leq(run.rival.best_evaluation.peak_bytes, c->capacity_bytes, "%s: %llu bytes", c->name,
                  (unsigned long long)run.rival.best_evaluation.peak_bytes);
    close_rule(&run);
  }
}

// Four equal blocks of one second; an input and what a block saves take a slot. In three slots the best is to hold the first and to run the next two twice more often.
Test(rivals, chain_tables_have_the_least_runs) {
  delta_chain_t chain = {.block_count = 4};
  for (uint32_t i = 0; i < 4; ++i) {
    chain.seconds[i] = 1;
    chain.saved_slots[i] = chain.input_slots[i] = 1;
  }
  static const double wanted[][5] = {{INFINITY, INFINITY, INFINITY, INFINITY, INFINITY}, // by the last block, then by slots
                                     {INFINITY, INFINITY, 2, 2, 2},
                                     {INFINITY, INFINITY, 5, 3, 3},
                                     {INFINITY, INFINITY, 9, 6, 4}};
  for (int nests = 0; nests < 2; ++nests) {
    delta_chain_table_t table;
    delta_test_must(delta_chain_table_init(&table, &chain, nests, delta_allocator_system()));
    for (uint32_t l = 1; l < 4; ++l) {
      for (uint32_t m = 0; m < 5; ++m) {
        const double least = nests || m > l ? wanted[l][m] : INFINITY;
        const double found = delta_chain_seconds(&table, 0, l, m);
        cr_expect(found == least, "blocks 0 to %u in %u slots: %g, wanted %g", l, m, found, least);
      }
    }
    delta_chain_table_deinit(&table);
  }
}

// ---- Problems with proven optima

static const char *const planning_files[] = {"planning/01_chain_6.json", "planning/05_chain_12.json", "planning/07_skip_6.json",
                                             "planning/11_skip_12.json", "planning/12_u_5.json",      "planning/15_u_9.json",
                                             "planning/17_layer_6.json", "planning/21_layer_10.json", "planning/26_chain_7.json"};

typedef struct mode_row {
  delta_policy_t policy;
  const char *mode; // what its plans may do
} mode_row_t;
static const mode_row_t mode_rows[] = {{DELTA_POLICY_CHEN, "recompute_only"},
                                       {DELTA_POLICY_DTR, "recompute_only"},
                                       {DELTA_POLICY_VDNN, "swap_only"},
                                       {DELTA_POLICY_SUPERNEURONS, "both"},
                                       {DELTA_POLICY_CAPUCHIN, "both"},
                                       {DELTA_POLICY_TSPLIT, "both"},
                                       {DELTA_POLICY_POFO, "both"}};

// No plan is faster than this, in seconds.
static double proven_seconds(const char *text, size_t size_bytes, const char *mode) {
  delta_json_document_t *document = NULL;
  const delta_json_value_t *optimum = NULL, *entry = NULL;
  double seconds = 0;
  delta_test_must(delta_json_parse(text, size_bytes, "optimum", delta_allocator_system(), &document));
  delta_test_must(delta_json_get_object(document, delta_json_root(document), "optimum", &optimum));
  delta_test_must(delta_json_get_object(document, optimum, mode, &entry));
  const char *key = delta_json_find(entry, "makespan_s") ? "makespan_s" : "lower_bound_s";
  if (delta_json_find(entry, key)) delta_test_must(delta_json_get_double(document, entry, key, &seconds));
  delta_json_free(document);
  return seconds;
}

static delta_problem_t *read_problem(const char *path, char **out_text, size_t *out_size_bytes) {
  delta_problem_t *problem = NULL;
  delta_test_must(delta_file_read_all(path, FILE_LIMIT_BYTES, delta_allocator_system(), out_text, out_size_bytes));
  delta_test_must(delta_problem_from_json(*out_text, *out_size_bytes, path, delta_allocator_system(), &problem));
  return problem;
}

static void expect_valid(const delta_problem_t *problem, const delta_schedule_t *schedule, uint64_t capacity_bytes, const char *what) {
  delta_status_t status = delta_schedule_verify(schedule, problem, capacity_bytes, delta_allocator_system());
  cr_assert_null(status, "%s: %s", what, delta_status_message(status));
  const char *why = "";
  cr_assert(delta_test_machine_accepts(schedule, problem, &why), "%s: %s", what, why);
}

Test(rivals, no_plan_is_faster_than_the_proven_optimum) {
  char path[DELTA_TEST_PATH_BYTES];
  int planned[DELTA_POLICY_COUNT] = {0};
  for (size_t i = 0; i < sizeof planning_files / sizeof *planning_files; ++i) {
    DELTA_SKIP_WITHOUT_SHARED(planning_files[i], path);
    for (size_t m = 0; m < sizeof mode_rows / sizeof *mode_rows; ++m) {
      char *text = NULL, what[DELTA_TEST_PATH_BYTES + 64];
      size_t size_bytes;
      rule_run_t run;
      delta_problem_t *problem = read_problem(path, &text, &size_bytes);
      snprintf(what, sizeof what, "%s on %s", delta_policy_info(mode_rows[m].policy)->name, planning_files[i]);
      open_rule(&run, problem, problem->budget_bytes, NULL);
      delta_test_must(delta_rival_rule(mode_rows[m].policy)(&run.rival));
      const delta_evaluation_t *best = &run.rival.best_evaluation;
      if (best->seconds < INFINITY) {
        ++planned[mode_rows[m].policy];
        cr_expect_leq(best->peak_bytes, problem->budget_bytes, "%s", what);
        cr_expect_geq(best->seconds, proven_seconds(text, size_bytes, mode_rows[m].mode) - 1e-9, "%s: %g s", what, best->seconds);
      }
      close_rule(&run);
      delta_release(delta_allocator_system(), text);
    }
  }
  for (size_t m = 0; m < sizeof mode_rows / sizeof *mode_rows; ++m) {
    cr_expect_gt(planned[mode_rows[m].policy], 1, "%s planned %d", delta_policy_info(mode_rows[m].policy)->name,
                 planned[mode_rows[m].policy]);
  }
}

// Checkmate's optimum is that of the files, whose plans may not run a step twice in a stage here.
Test(rivals, checkmate_meets_the_proven_optimum, .timeout = 120) {
  static const char *const files[] = {"planning/01_chain_6.json", "planning/07_skip_6.json", "planning/12_u_5.json"};
  char path[DELTA_TEST_PATH_BYTES];
  if (!delta_cbc_is_installed()) DELTA_SKIP("the program 'cbc' is not installed");
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    DELTA_SKIP_WITHOUT_SHARED(files[i], path);
    char *text = NULL;
    size_t size_bytes;
    rule_run_t run;
    delta_cbc_t cbc = {.limit_seconds = 30, .allocator = delta_allocator_system()};
    const delta_integer_solver_t solver = delta_cbc_solver(&cbc);
    delta_problem_t *problem = read_problem(path, &text, &size_bytes);
    open_rule(&run, problem, problem->budget_bytes, &solver);
    delta_test_must(delta_rule_checkmate(&run.rival));
    const double found = run.rival.best_evaluation.seconds, proven = proven_seconds(text, size_bytes, "recompute_only");
    cr_expect(fabs(found - proven) < 1e-9, "%s: %g s, proven are %g", files[i], found, proven);
    close_rule(&run);
    delta_release(delta_allocator_system(), text);
  }
}

// ---- Random problems, with addresses

Test(rivals, plans_of_random_problems_are_valid) {
  for (size_t m = 0; m < sizeof mode_rows / sizeof *mode_rows; ++m) {
    int planned = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      delta_problem_t *problem = delta_test_random_problem(seed, 10 + (uint32_t)seed);
      const delta_planner_options_t options = {.policy = mode_rows[m].policy, .early_update = true, .effort = {.proves_bound = true}};
      delta_planner_t *planner = NULL;
      delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &planner));
      const uint64_t least = delta_planner_minimum_bytes(planner), kept = delta_planner_kept(planner)->arena_bytes;
      cr_assert_leq(least, kept);
      for (uint64_t part = 0; part < 2; ++part) {
        char what[128];
        const uint64_t capacity_bytes = least + (kept - least) * part / 2;
        delta_planner_result_t result;
        snprintf(what, sizeof what, "%s, seed %llu, %llu bytes", delta_policy_info(mode_rows[m].policy)->name, (unsigned long long)seed,
                 (unsigned long long)capacity_bytes);
        delta_test_must(delta_planner_plan(planner, capacity_bytes, &result));
        expect_valid(problem, result.schedule, capacity_bytes, what);
        cr_expect_geq(result.schedule->step_seconds * (1 + 1e-12), result.lower_bound_seconds, "%s", what);
        if (strcmp(mode_rows[m].mode, "swap_only") == 0) cr_expect_eq(result.schedule->recomputed_nodes, 0, "%s", what);
        if (strcmp(mode_rows[m].mode, "recompute_only") == 0) cr_expect_eq(result.schedule->swapped_tensors, 0, "%s", what);
        planned += result.schedule->arena_bytes < kept;
        delta_schedule_free(result.schedule);
      }
      delta_planner_destroy(planner);
      delta_problem_free(problem);
    }
    cr_expect_gt(planned, 5, "%s: %d", delta_policy_info(mode_rows[m].policy)->name, planned);
  }
}

Test(rivals, what_does_not_fit_names_the_least_bytes) {
  delta_problem_t *problem = make_chain(&(chain_case_t){.length = 8});
  const delta_planner_options_t options = {.policy = DELTA_POLICY_CHEN, .listed_order = true};
  delta_planner_t *planner = NULL;
  delta_planner_result_t result;
  delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &planner));
  delta_status_t status = delta_planner_plan(planner, 2, &result);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_DOES_NOT_FIT, "%s", delta_status_message(status));
  cr_expect_not_null(strstr(delta_status_message(status), "policy 'chen' needs"), "%s", delta_status_message(status));
  cr_expect_eq(result.minimum_budget_bytes, delta_planner_minimum_bytes(planner));
  cr_expect_lt(result.minimum_budget_bytes, delta_planner_kept(planner)->arena_bytes);
  delta_status_free(status);
  delta_planner_destroy(planner);
  delta_problem_free(problem);
}

// Whichever allocation fails, nothing is left behind.
Test(rivals, failing_allocations_are_errors, .timeout = 300) {
  for (size_t m = 0; m < sizeof mode_rows / sizeof *mode_rows; ++m) {
    delta_problem_t *problem = make_chain(&(chain_case_t){.length = 5, .bytes_per_second = 10});
    const delta_planner_options_t options = {.policy = mode_rows[m].policy, .listed_order = true};
    bool has_failed = true;
    for (size_t n = 1; has_failed; n += 1 + n / 16) {
      delta_test_allocator_t faults;
      delta_planner_t *planner = NULL;
      delta_planner_result_t result = {0};
      delta_test_allocator_init(&faults, n, DELTA_TEST_FAIL_ONCE);
      delta_status_t status = delta_planner_create(problem, &options, delta_test_allocator_interface(&faults), &planner);
      if (!status) status = delta_planner_plan(planner, 6, &result);
      has_failed = faults.call_count >= n;
      if (has_failed) cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY, "%s", delta_status_message(status));
      delta_status_free(status);
      delta_schedule_free(result.schedule);
      delta_planner_destroy(planner);
      cr_assert_eq(faults.live_bytes, 0, "%s: allocation %zu left %zu bytes behind", delta_policy_info(mode_rows[m].policy)->name, n,
                   (size_t)faults.live_bytes);
    }
    delta_problem_free(problem);
  }
}

// A search that begins with the rivals' plans is never slower than any of them, and says whose it began with.
Test(rivals, a_search_that_begins_with_them_is_never_slower) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 30);
    const delta_planner_options_t options = {
        .policy = DELTA_POLICY_DELTA, .early_update = true, .effort = {.evaluation_limit = 1, .begins_with_rivals = true}};
    delta_planner_t *planner = NULL;
    delta_planner_result_t delta;
    delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &planner));
    const uint64_t least = delta_planner_minimum_bytes(planner), kept = delta_planner_kept(planner)->arena_bytes;
    const uint64_t capacity_bytes = least + (kept - least) / 2;
    delta_test_must(delta_planner_plan(planner, capacity_bytes, &delta));
    for (size_t m = 0; m < sizeof mode_rows / sizeof *mode_rows && capacity_bytes < kept; ++m) {
      const delta_planner_options_t rival_options = {.policy = mode_rows[m].policy, .early_update = true};
      delta_planner_t *rival = NULL;
      delta_planner_result_t result;
      delta_test_must(delta_planner_create(problem, &rival_options, delta_allocator_system(), &rival));
      delta_status_t status = delta_planner_plan(rival, capacity_bytes, &result);
      if (!status) {
        cr_expect_leq(delta.schedule->step_seconds, result.schedule->step_seconds * (1 + 1e-12), "%s, seed %llu",
                      delta_policy_info(mode_rows[m].policy)->name, (unsigned long long)seed);
        cr_expect_not_null(delta.seed_policy);
      }
      delta_status_free(status);
      delta_schedule_free(result.schedule);
      delta_planner_destroy(rival);
    }
    delta_schedule_free(delta.schedule);
    delta_planner_destroy(planner);
    delta_problem_free(problem);
  }
}

// ---- Checkmate without a solver, or with one that finds nothing

static delta_status_t find_nothing(void *self, const char *program, double *values, size_t value_count,
                                   delta_integer_solution_t *out_solution) {
  (void)values;
  (void)value_count;
  *out_solution = (delta_integer_solution_t){0};
  *(int *)self += strstr(program, "Minimize") && strstr(program, "End");
  return DELTA_OK;
}

Test(rivals, checkmate_says_what_it_lacks) {
  int calls = 0;
  const delta_integer_solver_t solver = {.self = &calls, .solve = find_nothing};
  rule_run_t run;
  open_rule(&run, make_chain(&(chain_case_t){.length = 4}), 5, NULL);
  delta_status_t status = delta_rule_checkmate(&run.rival);
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_UNSUPPORTED);
  cr_expect_not_null(strstr(delta_status_message(status), "'cbc'"), "%s", delta_status_message(status));
  delta_status_free(status);
  run.rival.solver = &solver;
  delta_test_must(delta_rule_checkmate(&run.rival));
  cr_expect_eq(calls, 2, "time first, then the least peak");
  cr_expect(run.rival.best_evaluation.seconds == INFINITY);
  close_rule(&run);
  delta_problem_t *large = delta_test_random_problem(1, 200);
  open_rule(&run, large, 5, &solver);
  status = delta_rule_checkmate(&run.rival);
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_UNSUPPORTED);
  cr_expect_not_null(strstr(delta_status_message(status), "steps"), "%s", delta_status_message(status));
  delta_status_free(status);
  close_rule(&run);
}
