// The table of batches and budgets, for people and for programs.
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/fit.h"

enum { TITLE = 30, COLUMN = 12 };

static void print_cell(const delta_fit_cell_t *cell) {
  if (cell->fits) printf("%*.1f", COLUMN, 100 * cell->slowdown);
  if (!cell->fits) printf("%*s", COLUMN, "-");
}

// Rows below the table, one per number of a budget.
typedef struct budget_row {
  const char *title;
  double (*value)(const delta_fit_budget_t *budget); // NaN: none
  int digits;
} budget_row_t;

static double times_eager(const delta_fit_budget_t *budget, int64_t batch) {
  return budget->eager_largest_batch > 0 ? (double)batch / (double)budget->eager_largest_batch : NAN;
}

static double eager_batch(const delta_fit_budget_t *budget) { return (double)budget->eager_largest_batch; }
static double largest_batch(const delta_fit_budget_t *budget) { return (double)budget->largest_batch; }
static double largest_times(const delta_fit_budget_t *budget) { return times_eager(budget, budget->largest_batch); }
static double largest_slower(const delta_fit_budget_t *budget) { return budget->largest.fits ? 100 * budget->slowdown_per_sample : NAN; }
static double brisk_batch(const delta_fit_budget_t *budget) { return (double)budget->brisk_batch; }
static double brisk_times(const delta_fit_budget_t *budget) { return times_eager(budget, budget->brisk_batch); }
static double brisk_slower(const delta_fit_budget_t *budget) { return budget->brisk_batch > 0 ? 100 * budget->brisk_per_sample : NAN; }

static const budget_row_t budget_rows[] = {
    {"an eager framework's largest", eager_batch, 0}, {"largest batch", largest_batch, 0},
    {"  times the eager one", largest_times, 2},      {"  slower per sample, %", largest_slower, 1},
    {"largest, at most 2x slower", brisk_batch, 0},   {"  times the eager one", brisk_times, 2},
    {"  slower per sample, %", brisk_slower, 1},
};

void delta_fit_print_text(const delta_fit_table_t *table, const delta_fit_request_t *request) {
  const size_t count = table->budgets.count;
  char size[DELTA_SIZE_TEXT_BYTES];
  printf("%s, policy %s, for %s: what a step takes beyond one without a budget, in percent\n", request->options.model_path, table->policy,
         table->device);
  printf("  %-*s", TITLE, "budget");
  for (size_t b = 0; b < count; ++b) printf("%*s", COLUMN, delta_size_text(table->budgets.items[b].budget_bytes, size));
  for (size_t r = 0; r < table->batches.count; ++r) {
    printf("\n  batch %-*lld", TITLE - 6, (long long)table->batches.items[r]);
    for (size_t b = 0; b < count; ++b) print_cell(&table->cells.items[r * count + b]);
  }
  for (size_t r = 0; r < sizeof budget_rows / sizeof *budget_rows; ++r) {
    printf("\n  %-*s", TITLE, budget_rows[r].title);
    for (size_t b = 0; b < count; ++b) {
      const double value = budget_rows[r].value(&table->budgets.items[b]);
      if (isnan(value)) printf("%*s", COLUMN, "-");
      if (!isnan(value)) printf("%*.*f", COLUMN, budget_rows[r].digits, value);
    }
  }
  printf("\n");
}

static void write_cell(delta_json_writer_t *writer, int64_t batch, const delta_fit_cell_t *cell) {
  delta_json_begin_inline_object(writer, NULL);
  delta_json_write_int64(writer, "batch", batch);
  delta_json_write_bool(writer, "fits", cell->fits);
  if (cell->fits) {
    delta_json_write_double(writer, "step_seconds", cell->seconds);
    delta_json_write_double(writer, "slowdown", cell->slowdown);
  }
  delta_json_end_object(writer);
}

static void write_budget(delta_json_writer_t *writer, const delta_fit_table_t *table, size_t b) {
  const delta_fit_budget_t *budget = &table->budgets.items[b];
  delta_json_begin_object(writer, NULL);
  delta_json_write_int64(writer, "budget_bytes", (int64_t)budget->budget_bytes);
  delta_json_write_int64(writer, "eager_largest_batch", budget->eager_largest_batch);
  delta_json_write_int64(writer, "largest_batch", budget->largest_batch);
  if (budget->largest.fits) {
    delta_json_write_double(writer, "largest_step_seconds", budget->largest.seconds);
    delta_json_write_double(writer, "largest_slowdown", budget->largest.slowdown);
    delta_json_write_double(writer, "slowdown_per_sample", budget->slowdown_per_sample);
  }
  if (budget->brisk_batch > 0) {
    delta_json_write_int64(writer, "largest_batch_twice_as_slow", budget->brisk_batch);
    delta_json_write_double(writer, "twice_as_slow_slowdown_per_sample", budget->brisk_per_sample);
  }
  delta_json_begin_array(writer, "batches");
  for (size_t r = 0; r < table->batches.count; ++r)
    write_cell(writer, table->batches.items[r], &table->cells.items[r * table->budgets.count + b]);
  delta_json_end_array(writer);
  delta_json_end_object(writer);
}

delta_status_t delta_fit_print_json(const delta_fit_table_t *table, const delta_fit_request_t *request) {
  delta_text_t text;
  delta_json_writer_t writer;
  delta_text_init(&text, table->allocator);
  delta_json_writer_init(&writer, &text, false);
  delta_json_begin_object(&writer, NULL);
  delta_json_write_string(&writer, "model", request->options.model_path);
  delta_json_write_string(&writer, "device", table->device);
  delta_json_write_string(&writer, "policy", table->policy);
  delta_json_begin_array(&writer, "budgets");
  for (size_t b = 0; b < table->budgets.count; ++b) write_budget(&writer, table, b);
  delta_json_end_array(&writer);
  delta_json_end_object(&writer);
  const delta_status_t status = delta_json_writer_finish(&writer);
  if (!status) printf("%s\n", text.items);
  delta_text_deinit(&text);
  return status;
}
