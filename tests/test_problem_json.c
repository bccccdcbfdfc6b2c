// Problems as JSON: what is written reads back as the same text, optional fields mean what they say, and what is wrong is named.
#include <criterion/criterion.h>
#include <string.h>

#include "plans/problem_json.h"
#include "tests/support/planning.h"
#include "tests/support/support.h"

static delta_status_t read(const char *text, delta_problem_t **out_problem) {
  *out_problem = NULL;
  return delta_problem_from_json(text, strlen(text), "p.json", delta_allocator_system(), out_problem);
}

Test(problem_json, random_problems_read_back_as_the_same_text) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 40)), *copy = NULL;
    if (seed % 2) problem->budget_bytes = 64 * seed;
    if (seed % 3 == 0) delta_test_move_states_below(problem, seed);
    if (seed % 3) problem->shared_bytes_per_second = 1.5e5;
    if (seed % 4) problem->offload_start_seconds = 2e-4;
    if (seed % 5) problem->prefetch_start_seconds = 1e-4;
    if (seed % 3 < 2) problem->offload_start_drag = 0.25;
    if (seed % 6 < 2) problem->prefetch_start_drag = 0.3;
    if (seed % 4 < 2) problem->offload_drag = 0.1;
    if (seed % 5 < 2) problem->prefetch_drag = 0.2;
    if (seed % 7 == 0) problem->steps[0].flags |= DELTA_STEP_PRODUCT;
    if (seed % 5 == 0) problem->tensors[1].name = problem->tensors[0].name; // one name twice
    delta_text_t text, again;
    delta_text_init(&text, delta_allocator_system());
    delta_text_init(&again, delta_allocator_system());
    delta_test_must(delta_problem_to_json(problem, &text));
    delta_test_must(read(text.items, &copy));
    delta_test_must(delta_problem_to_json(copy, &again));
    cr_assert_str_eq(text.items, again.items, "seed %llu", (unsigned long long)seed);
    cr_assert_eq(copy->step_count, problem->step_count);
    cr_assert_eq(copy->home_bytes > 0, problem->home_bytes > 0);
    for (uint32_t t = 0; t < copy->tensor_count; ++t)
      cr_assert_eq(copy->tensors[t].flags & DELTA_TENSOR_BELOW, problem->tensors[t].flags & DELTA_TENSOR_BELOW);
    delta_test_must(delta_problem_check(copy));
    for (uint32_t s = 0; s < copy->step_count; ++s) {
      cr_assert_eq(copy->steps[s].flags & DELTA_STEP_UPDATE, problem->steps[s].flags & DELTA_STEP_UPDATE);
      cr_assert_eq(copy->steps[s].flags & DELTA_STEP_PRODUCT, problem->steps[s].flags & DELTA_STEP_PRODUCT);
      cr_assert_eq(copy->steps[s].seconds, problem->steps[s].seconds);
    }
    delta_text_deinit(&text);
    delta_text_deinit(&again);
    delta_problem_free(copy);
    delta_problem_free(problem);
  }
}

Test(problem_json, fields_mean_what_they_say) {
  delta_problem_t *problem = NULL;
  delta_test_must(read(
      "{\"budget_bytes\": 300, \"host_budget_bytes\": 900, \"h2d_bytes_per_s\": 10, \"d2h_bytes_per_s\": 20, \"shared_bytes_per_s\": 25,"
      " \"d2h_start_s\": 0.5, \"h2d_start_s\": 0.25, \"d2h_start_drag\": 0.25, \"h2d_start_drag\": 0.375,"
      " \"d2h_drag\": 0.125, \"h2d_drag\": 0.25,"
      " \"tensors\": [{\"name\": \"x\", \"bytes\": 5, \"initial\": true, \"pinned\": true}, {\"name\": \"y\", \"bytes\": 7},"
      " {\"name\": \"z\", \"bytes\": 7, \"output\": true}], \"nodes\": [{\"name\": \"f\", \"compute_s\": 0.5, \"kind\": \"convolution\", "
      "\"workspace_bytes\": 3,"
      " \"inputs\": [\"x\"], \"outputs\": [\"y\"]}, {\"name\": \"g\", \"compute_s\": 0, \"pure\": false, \"inputs\": [\"y\"],"
      " \"outputs\": [\"z\"], \"inplace\": [[\"y\", \"z\"]]}]}",
      &problem));
  cr_assert_eq(problem->budget_bytes, 300);
  cr_assert_eq(problem->host_budget_bytes, 900);
  cr_assert_eq(problem->prefetch_bytes_per_second, 10);
  cr_assert_eq(problem->offload_bytes_per_second, 20);
  cr_assert_eq(problem->shared_bytes_per_second, 25);
  cr_assert_eq(problem->offload_start_seconds, 0.5);
  cr_assert_eq(problem->prefetch_start_seconds, 0.25);
  cr_assert_eq(delta_problem_offload_seconds(problem, 10), 1);
  cr_assert_eq(delta_problem_prefetch_seconds(problem, 10), 1.25);
  cr_assert_eq(delta_problem_drag_seconds(problem, 10), 0.25 * 0.5 + 0.375 * 0.25 + 0.125 * 0.5 + 0.25 * 1);
  cr_assert_eq(problem->tensors[0].flags, (uint32_t)(DELTA_TENSOR_INPUT | DELTA_TENSOR_PINNED | DELTA_TENSOR_OUTPUT));
  cr_assert_eq(problem->tensors[1].flags, 0);
  cr_assert_eq(problem->tensors[2].flags, (uint32_t)DELTA_TENSOR_OUTPUT);
  cr_assert_eq(problem->steps[0].flags, (uint32_t)(DELTA_STEP_PURE | DELTA_STEP_CONVOLUTION));
  cr_assert_eq(problem->steps[0].workspace_bytes, 3);
  cr_assert_eq(problem->steps[1].flags, 0);
  cr_assert_eq(problem->steps[1].inplace_count, 1);
  delta_problem_free(problem);
}

typedef struct broken_case {
  const char *name, *text, *wanted; // words of the message
} broken_case_t;

#define TENSORS               "\"tensors\": [{\"name\": \"x\", \"bytes\": 5, \"initial\": true}, {\"name\": \"y\", \"bytes\": 7}]"
#define NODE(inputs, outputs) "{\"name\": \"f\", \"compute_s\": 1, \"inputs\": [" inputs "], \"outputs\": [" outputs "]}"
static const broken_case_t broken_cases[] = {
    {"no tensors", "{\"nodes\": []}", "tensors"},
    {"no nodes", "{" TENSORS "}", "nodes"},
    {"an unknown input", "{" TENSORS ", \"nodes\": [" NODE("\"w\"", "\"y\"") "]}", "'w', which is not among"},
    {"a read before the write", "{" TENSORS ", \"nodes\": [" NODE("\"y\"", "") "]}", "'y'"},
    {"a circle", "{" TENSORS ", \"nodes\": [" NODE("\"y\"", "\"y\"") "]}", "'y'"},
    {"two writers", "{" TENSORS ", \"nodes\": [" NODE("\"x\"", "\"y\"") ", " NODE("\"x\"", "\"y\"") "]}", "'y'"},
    {"two of one name", "{\"tensors\": [{\"name\": \"x\", \"bytes\": 5}, {\"name\": \"x\", \"bytes\": 7}], \"nodes\": []}",
     "two tensors are named 'x'"},
    {"a negative size", "{\"tensors\": [{\"name\": \"x\", \"bytes\": -5}], \"nodes\": []}", "bytes"},
    {"half a byte", "{\"tensors\": [{\"name\": \"x\", \"bytes\": 5.5}], \"nodes\": []}", "bytes"},
    {"a huge size", "{\"tensors\": [{\"name\": \"x\", \"bytes\": 1e300}], \"nodes\": []}", "bytes"},
    {"a negative time", "{" TENSORS ", \"nodes\": [{\"name\": \"f\", \"compute_s\": -1, \"inputs\": [\"x\"], \"outputs\": [\"y\"]}]}",
     "'f'"},
    {"a negative bandwidth", "{\"h2d_bytes_per_s\": -1, " TENSORS ", \"nodes\": []}", "h2d_bytes_per_s"},
    {"a negative budget", "{\"budget_bytes\": -1, " TENSORS ", \"nodes\": []}", "budget_bytes"},
    {"a pinned state", "{\"tensors\": [{\"name\": \"x\", \"bytes\": 5, \"state\": true, \"pinned\": true}], \"nodes\": []}", "'x'"},
    {"three names in a pair",
     "{" TENSORS
     ", \"nodes\": [{\"name\": \"f\", \"compute_s\": 1, \"inputs\": [\"x\"], \"outputs\": [\"y\"], \"inplace\": [[\"x\", \"y\", \"y\"]]}]}",
     "inplace"},
    {"a list", "[]", "object"},
    {"half a file", "{\"tensors\": [", "p.json"},
};

Test(problem_json, what_is_wrong_is_named) {
  for (size_t i = 0; i < sizeof broken_cases / sizeof *broken_cases; ++i) {
    const broken_case_t *broken = &broken_cases[i];
    delta_problem_t *problem = NULL;
    delta_status_t status = read(broken->text, &problem);
    cr_expect_eq(delta_status_code(status), DELTA_STATUS_MALFORMED, "%s", broken->name);
    cr_expect(status && strstr(delta_status_message(status), broken->wanted), "%s: %s", broken->name, delta_status_message(status));
    cr_expect_null(problem);
    delta_status_free(status);
    delta_problem_free(problem);
  }
}
