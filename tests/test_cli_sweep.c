// deltaplan --fit --batch N: one batch within many budgets, for people and for programs.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tests/support/planning.h"
#include "tests/support/workplace.h"

#define SWEEP \
  "deltaplan --fit model.onnx --batch 64 --loss cross_entropy --time-limit 1 --device " DELTA_SOURCE_FOLDER "/profiles/cpu2.json "

// What is too little says how much is enough, and that is so. Nothing is left behind.
Test(cli_sweep, table, .timeout = 240) {
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, SWEEP "--budget 1,20%..100%:10%,unlimited > table.txt");
  delta_workplace_expect(&w, "test $(wc -l < table.txt) = 14 && grep -q '^11 budgets' table.txt && grep -q -- --time-limit table.txt");
  delta_workplace_expect(
      &w, "n=$(sed -n 's/.*the least is \\([0-9]*\\) bytes/\\1/p' table.txt | sort -u) && test $(echo $n | wc -w) = 1 && " SWEEP
          "--budget $n,$((n - 1)) > least.txt && test $(grep -c \"the least is $n bytes\" least.txt) = 1");
  delta_workplace_expect(&w, SWEEP "--policy none | grep -q '^10 budgets'");
  delta_workplace_expect(&w, SWEEP "--split auto --budget 5%,unlimited | grep -q '^2 budgets'");
  // A batch that the file states is one, too.
  delta_workplace_expect(
      &w, "deltaplan --fit fixed.onnx --batch 4 --loss cross_entropy --profile estimate --budget 50% | grep -q '^1 budgets'");
  delta_workplace_expect(&w, "test ! -e cache/delta && ! ls *.plan");
  delta_workplace_close(&w);
}

static void expect_names(const delta_json_value_t *object, const char *const *names, size_t count) {
  size_t found = 0;
  for (const delta_json_value_t *member = delta_json_first(object); member; member = delta_json_next(member)) ++found;
  cr_expect_eq(found, count, "%zu members where %zu are wanted", found, count);
  for (size_t i = 0; i < count; ++i) cr_expect_not_null(delta_json_find(object, names[i]), "'%s' is missing", names[i]);
}
#define EXPECT_NAMES(object, names) expect_names(object, names, sizeof(names) / sizeof *(names))

Test(cli_sweep, names, .timeout = 240) {
  static const char *const names[] = {"model",
                                      "device",
                                      "policy",
                                      "batch",
                                      "unlimited_peak_bytes",
                                      "eager_peak_bytes",
                                      "minimum_budget_bytes",
                                      "unlimited_step_seconds",
                                      "time_limit_seconds",
                                      "planning_seconds",
                                      "budgets"};
  static const char *const refused[] = {"budget_bytes", "fits"};
  static const char *const planned[] = {"budget_bytes",
                                        "fits",
                                        "is_smaller_plan",
                                        "split",
                                        "parts",
                                        "arena_bytes",
                                        "peak_bytes",
                                        "state_bytes",
                                        "below_bytes",
                                        "swapped_bytes",
                                        "swapped_tensors",
                                        "recomputed_nodes",
                                        "step_seconds",
                                        "slowdown",
                                        "recompute_seconds",
                                        "stall_seconds",
                                        "lower_bound_seconds"};
  delta_workplace_t w;
  delta_json_document_t *document = NULL;
  const delta_json_value_t *budgets = NULL;
  size_t count = 0;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, SWEEP "--json --budget 1,100%,unlimited > table.json");
  char *text = delta_workplace_read(&w, "table.json");
  cr_assert_not_null(text);
  delta_test_must(delta_json_parse(text, strlen(text), "table.json", delta_allocator_system(), &document));
  const delta_json_value_t *root = delta_json_root(document);
  EXPECT_NAMES(root, names);
  delta_test_must(delta_json_get_array(document, root, "budgets", &budgets, &count));
  cr_assert_eq(count, 3);
  const delta_json_value_t *row = delta_json_first(budgets);
  EXPECT_NAMES(row, refused);
  for (int i = 0; i < 2; ++i) {
    row = delta_json_next(row);
    EXPECT_NAMES(row, planned);
    cr_expect_eq(delta_json_is_null(delta_json_find(row, "budget_bytes")), i == 1);
  }
  delta_json_free(document);
  free(text);
  delta_workplace_close(&w);
}
