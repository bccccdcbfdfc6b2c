// Budgets: a list of them as one option's value: sizes, percentages and ranges, with commas.
#ifndef DELTA_CLI_BUDGETS_H_
#define DELTA_CLI_BUDGETS_H_

#include "base/array.h"

enum { DELTA_MOST_BUDGETS = 1000 };

typedef struct delta_budget_list {
  delta_allocator_t allocator;
  const char *option;        // borrowed; for errors, such as "--budget"
  DELTA_ARRAY(char *) texts; // Owned, each; a size, a percentage, "minimum" or "unlimited"
} delta_budget_list_t;

// Whether a value of --budget names more than one budget.
bool delta_budgets_are_many(const char *text);
// Reads "4%..100%:2%,8GiB": FROM..TO:STEP is FROM and every STEP more up to TO, and without a step FROM is the step, too. INVALID_ARGUMENT names the option and its value.
// `list` has its allocator and option alone, and is deinitialized in any case.
DELTA_MUST_USE delta_status_t delta_budgets_parse(const char *text, delta_budget_list_t *list);
void delta_budgets_deinit(delta_budget_list_t *list);

#endif // DELTA_CLI_BUDGETS_H_
