// Fit: what batch fits which budget, and how fast it is planned to be: `deltaplan --fit`; with --batch, what that batch costs within each of many budgets. No plan is written.
#ifndef DELTA_CLI_FIT_H_
#define DELTA_CLI_FIT_H_

#include <stdbool.h>
#include <stdio.h>

#include <delta/plan.h>

#include "base/array.h"

typedef struct delta_fit_request {
  delta_plan_options_t
      options; // batch: the one that is swept, or 0 for a table of batches, whose costs are estimated; time_limit_seconds: of all searches together
  const char *budgets; // NULL: some. A list (cli/budgets.h), without a batch of sizes alone
  bool json;
} delta_fit_request_t;

// What a batch takes whatever the budget.
typedef struct delta_fit_batch {
  int64_t batch;
  uint64_t eager_peak_bytes, unlimited_bytes, minimum_bytes; // the last two of the arena
  uint64_t parts_minimum_bytes;                              // of a step in parts; 0: not known yet
  double unlimited_seconds;
} delta_fit_batch_t;

// A batch planned in a budget.
typedef struct delta_fit_cell {
  bool fits;
  double seconds, slowdown; // of the step; against the same batch without a budget
} delta_fit_cell_t;

typedef struct delta_fit_budget {
  uint64_t budget_bytes;
  int64_t eager_largest_batch, largest_batch; // 0: not even 1
  delta_fit_cell_t largest;                   // of largest_batch
  // Of largest_batch against the eager framework's largest batch without a budget, or against itself without a budget where there is none.
  double slowdown_per_sample;
  int64_t brisk_batch;     // the largest that was found to take at most twice that time per sample, to within 5 %; 0: none
  double brisk_per_sample; // its slowdown per sample
} delta_fit_budget_t;

typedef struct delta_fit_table {
  delta_allocator_t allocator;
  char policy[32], device[64];
  DELTA_ARRAY(delta_fit_batch_t) known;    // every batch that was looked at
  DELTA_ARRAY(delta_fit_budget_t) budgets; // ascending
  DELTA_ARRAY(int64_t) batches;            // of the rows, ascending
  DELTA_ARRAY(delta_fit_cell_t) cells;     // row by row
} delta_fit_table_t;

// Reads a list of sizes (cli/budgets.h). INVALID_ARGUMENT quotes what is no size, and refuses 0.
DELTA_MUST_USE delta_status_t delta_fit_parse_budgets(const char *text, delta_fit_table_t *table);
// `progress` is shown on `stream` (NULL: none).
DELTA_MUST_USE delta_status_t delta_fit_make(const delta_fit_request_t *request, FILE *stream, delta_fit_table_t *table);
void delta_fit_deinit(delta_fit_table_t *table); // Safe with a table that has its allocator alone.

// To stdout, for people, and as one object.
void delta_fit_print_text(const delta_fit_table_t *table, const delta_fit_request_t *request);
DELTA_MUST_USE delta_status_t delta_fit_print_json(const delta_fit_table_t *table, const delta_fit_request_t *request);

// What one batch takes within many budgets, printed.
DELTA_MUST_USE delta_status_t delta_fit_sweep(const delta_fit_request_t *request, delta_allocator_t allocator);

// All of it.
DELTA_MUST_USE delta_status_t delta_fit(const delta_fit_request_t *request, delta_allocator_t allocator);

#endif // DELTA_CLI_FIT_H_
