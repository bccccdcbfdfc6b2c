// Comparing policies on the command line: every policy has a row for each budget, what fits is within it, and nothing is faster than delta.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "planner/planner.h"
#include "tests/support/planning.h"
#include "tests/support/shell.h"

// Four steps forward and back; a tensor of each waits for its step back.
static const char chain[] =
    "{\"budget_bytes\": 4, \"h2d_bytes_per_s\": 1, \"d2h_bytes_per_s\": 1, \"tensors\": [{\"name\": \"x\", \"bytes\": 1, \"initial\": "
    "true},"
    " {\"name\": \"a\", \"bytes\": 1}, {\"name\": \"b\", \"bytes\": 1}, {\"name\": \"c\", \"bytes\": 1}, {\"name\": \"d\", \"bytes\": 1},"
    " {\"name\": \"gc\", \"bytes\": 1}, {\"name\": \"gb\", \"bytes\": 1}, {\"name\": \"ga\", \"bytes\": 1, \"output\": true}], \"nodes\": ["
    "{\"name\": \"f1\", \"compute_s\": 1, \"inputs\": [\"x\"], \"outputs\": [\"a\"]},"
    "{\"name\": \"f2\", \"compute_s\": 1, \"inputs\": [\"a\"], \"outputs\": [\"b\"]},"
    "{\"name\": \"f3\", \"compute_s\": 1, \"inputs\": [\"b\"], \"outputs\": [\"c\"]},"
    "{\"name\": \"f4\", \"compute_s\": 1, \"inputs\": [\"c\"], \"outputs\": [\"d\"]},"
    "{\"name\": \"b4\", \"compute_s\": 2, \"inputs\": [\"d\", \"c\"], \"outputs\": [\"gc\"]},"
    "{\"name\": \"b3\", \"compute_s\": 2, \"inputs\": [\"gc\", \"b\"], \"outputs\": [\"gb\"]},"
    "{\"name\": \"b2\", \"compute_s\": 2, \"inputs\": [\"gb\", \"a\"], \"outputs\": [\"ga\"]}]}";

static const delta_test_folder_t *make_folder(delta_test_folder_t *folder) {
  delta_test_folder_make(folder);
  delta_test_folder_write(folder, "chain.json", chain, sizeof chain - 1);
  return folder;
}

static void check_row(const delta_json_document_t *document, const delta_json_value_t *row, int64_t budget_bytes, int policy) {
  const char *name = NULL, *why = NULL;
  bool fits = false;
  delta_test_must(delta_json_get_string(document, row, "policy", &name));
  delta_test_must(delta_json_get_bool(document, row, "fits", &fits));
  cr_expect_str_eq(name, delta_policy_info((delta_policy_t)policy)->name);
  if (!fits) {
    delta_test_must(delta_json_get_string(document, row, "why", &why));
    cr_expect_gt(strlen(why), 10, "%s: '%s'", name, why);
    return;
  }
  int64_t peak_bytes = 0;
  double slowdown = -1;
  delta_test_must(delta_json_get_int64(document, row, "peak_bytes", 1, INT64_C(1) << 40, &peak_bytes));
  delta_test_must(delta_json_get_double(document, row, "slowdown", &slowdown));
  cr_expect_leq(peak_bytes, budget_bytes, "%s", name);
  cr_expect_geq(slowdown, 0, "%s", name);
}

Test(compare, every_policy_has_a_row_for_each_budget, .timeout = 120) {
  delta_test_folder_t folder;
  const delta_process_result_t *result =
      delta_test_shell(make_folder(&folder), "deltaplan --compare chain.json --budgets 100%,4,3 --time-limit 0 --json");
  cr_assert_eq(result->exit_status, 0, "%s", result->error);
  delta_json_document_t *document = NULL;
  const delta_json_value_t *budgets = NULL;
  size_t budget_count = 0;
  delta_test_must(delta_json_parse(result->output, strlen(result->output), "output", delta_allocator_system(), &document));
  delta_test_must(delta_json_get_array(document, delta_json_root(document), "budgets", &budgets, &budget_count));
  cr_assert_eq(budget_count, 3);
  const int64_t wanted[] = {5, 4, 3}; // keeping everything takes five
  int index = 0;
  for (const delta_json_value_t *budget = delta_json_first(budgets); budget; budget = delta_json_next(budget), ++index) {
    const delta_json_value_t *rows = NULL;
    size_t row_count = 0;
    int64_t budget_bytes = 0;
    bool is_fastest = false;
    int policy = 0;
    delta_test_must(delta_json_get_int64(document, budget, "budget_bytes", 0, INT64_C(1) << 40, &budget_bytes));
    delta_test_must(delta_json_get_bool(document, budget, "delta_is_fastest", &is_fastest));
    delta_test_must(delta_json_get_array(document, budget, "policies", &rows, &row_count));
    cr_expect_eq(budget_bytes, wanted[index]);
    cr_expect(is_fastest, "budget %lld", (long long)budget_bytes);
    cr_assert_eq(row_count, (size_t)DELTA_POLICY_COUNT);
    for (const delta_json_value_t *row = delta_json_first(rows); row; row = delta_json_next(row)) {
      check_row(document, row, budget_bytes, policy++);
    }
  }
  delta_json_free(document);
  delta_test_folder_remove(&folder);
}

Test(compare, a_problem_has_a_budget_of_its_own, .timeout = 120) {
  delta_test_folder_t folder;
  const delta_process_result_t *result = delta_test_shell(make_folder(&folder), "deltaplan --compare chain.json --time-limit 0");
  cr_assert_eq(result->exit_status, 0, "%s", result->error);
  cr_expect_not_null(strstr(result->output, "budget 4 B"), "%s", result->output);
  cr_expect_not_null(strstr(result->output, "no policy is faster than delta"), "%s", result->output);
  cr_expect_not_null(strstr(result->output, "1 budgets; another policy is faster than delta at 0"), "%s", result->output);
  delta_test_shell_fails(&folder, 1, "deltaplan --compare chain.json --budgets 50%,much", "--budgets|much");
  delta_test_shell_fails(&folder, 1, "deltaplan --compare chain.json --budgets 0%", "--budgets|0%");
  delta_test_shell_fails(&folder, 1, "deltaplan --compare chain.json --budgets 50%..40%", "--budgets|50%..40%");
  delta_test_shell_fails(&folder, 1, "deltaplan --compare chain.json --budgets minimum", "--budgets|minimum");
  delta_test_shell_works(&folder, "deltaplan --compare chain.json --budgets 80%..100%:10% --time-limit 0 | grep -q '^3 budgets'");
  delta_test_shell_fails(&folder, 2, "deltaplan --compare chain.json --report p.html", "--compare|--report");
  delta_test_folder_remove(&folder);
}
