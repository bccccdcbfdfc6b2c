// Compare: the table and its verdict, for whatever is planned.
#include "cli/compare.h"

#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "base/number.h"
#include "base/text.h"
#include "cli/budgets.h"
#include "planner/planner.h"

// Delta counts as beaten when another policy is faster by more than this part of the step.
static const double tie_part = 1e-9;

typedef struct comparison {
  const delta_compare_source_t *source;
  double reference_seconds; // the faster of both steps without a budget
  bool json;
  delta_json_writer_t writer; // JSON only
  delta_compare_row_t rows[DELTA_POLICY_COUNT];
  int beaten_count, seeded_count;
} comparison_t;

// Sums of the same seconds in another order differ in the last bits: that is no slowdown.
static double slowdown(const comparison_t *comparison, const delta_compare_row_t *row) {
  const double part = row->seconds / comparison->reference_seconds - 1;
  return fabs(part) < tie_part ? 0 : part;
}

// ---- One budget

static delta_status_t plan_all(comparison_t *comparison, uint64_t budget_bytes) {
  for (int p = 0; p < DELTA_POLICY_COUNT; ++p) {
    delta_compare_row_t *row = &comparison->rows[p];
    *row = (delta_compare_row_t){.policy = delta_policy_info((delta_policy_t)p)->name};
    DELTA_RETURN_IF_ERROR(comparison->source->plan(comparison->source->self, row->policy, budget_bytes, row));
  }
  return DELTA_OK;
}

// The fastest policy but delta, or NULL: no other fits.
static const delta_compare_row_t *find_fastest_other(const comparison_t *comparison) {
  const delta_compare_row_t *fastest = NULL;
  for (int p = 0; p < DELTA_POLICY_COUNT; ++p) {
    const delta_compare_row_t *row = &comparison->rows[p];
    if (p != DELTA_POLICY_DELTA && row->fits && (!fastest || row->seconds < fastest->seconds)) fastest = row;
  }
  return fastest;
}

static bool is_beaten(const comparison_t *comparison, const delta_compare_row_t *other) {
  const delta_compare_row_t *delta = &comparison->rows[DELTA_POLICY_DELTA];
  return other && (!delta->fits || other->seconds < delta->seconds * (1 - tie_part));
}

static void print_row(const comparison_t *comparison, const delta_compare_row_t *row) {
  char peak[DELTA_SIZE_TEXT_BYTES], swapped[DELTA_SIZE_TEXT_BYTES], least[DELTA_SIZE_TEXT_BYTES];
  if (!row->fits) {
    printf("  %-15s ", row->policy);
    if (row->least_bytes > 0) {
      printf("needs %s\n", delta_size_text(row->least_bytes, least));
    } else {
      printf("%s\n", row->why);
    }
    return;
  }
  printf("  %-15s %11.6g %8.2f %% %12s %12s %11.4g %11.4g %9.2f", row->policy, row->seconds, 100 * slowdown(comparison, row),
         delta_size_text(row->peak_bytes, peak), delta_size_text(row->swapped_bytes, swapped), row->recompute_seconds, row->stall_seconds,
         row->planning_seconds);
  if (row->seed_policy) printf("  %s %s", row->seed_is_plan ? "the plan of" : "began with the plan of", row->seed_policy);
  printf("\n");
}

static void print_budget(const comparison_t *comparison, uint64_t budget_bytes, const delta_compare_row_t *fastest) {
  char size[DELTA_SIZE_TEXT_BYTES];
  printf("budget %s (%.1f %%)\n", delta_size_text(budget_bytes, size),
         100 * (double)budget_bytes / (double)comparison->source->whole_bytes);
  printf("  %-15s %11s %10s %12s %12s %11s %11s %9s\n", "policy", "seconds", "slowdown", "peak", "swapped", "again s", "stalled s",
         "planned s");
  for (int p = 0; p < DELTA_POLICY_COUNT; ++p) print_row(comparison, &comparison->rows[p]);
  const delta_compare_row_t *delta = &comparison->rows[DELTA_POLICY_DELTA];
  if (is_beaten(comparison, fastest)) {
    printf("  %s is faster than delta\n", fastest->policy);
  } else if (!delta->fits) {
    printf("  nothing fits\n");
  } else if (fastest) {
    printf("  no policy is faster than delta; the next is %s, %.2f points slower\n", fastest->policy,
           100 * (slowdown(comparison, fastest) - slowdown(comparison, delta)));
  } else {
    printf("  only delta fits\n");
  }
  fflush(stdout);
}

static void write_row(comparison_t *comparison, const delta_compare_row_t *row) {
  delta_json_writer_t *writer = &comparison->writer;
  delta_json_begin_inline_object(writer, NULL);
  delta_json_write_string(writer, "policy", row->policy);
  delta_json_write_bool(writer, "fits", row->fits);
  if (row->fits) {
    delta_json_write_double(writer, "step_seconds", row->seconds);
    delta_json_write_double(writer, "slowdown", slowdown(comparison, row));
    delta_json_write_int64(writer, "peak_bytes", (int64_t)row->peak_bytes);
    delta_json_write_int64(writer, "swapped_bytes", (int64_t)row->swapped_bytes);
    delta_json_write_double(writer, "recompute_seconds", row->recompute_seconds);
    delta_json_write_double(writer, "stall_seconds", row->stall_seconds);
    delta_json_write_double(writer, "planning_seconds", row->planning_seconds);
  } else {
    delta_json_write_string(writer, "why", row->why);
    if (row->least_bytes > 0) delta_json_write_int64(writer, "least_bytes", (int64_t)row->least_bytes);
  }
  if (row->seed_policy) {
    delta_json_write_string(writer, "seed_policy", row->seed_policy);
    delta_json_write_bool(writer, "seed_is_plan", row->seed_is_plan);
  }
  delta_json_end_object(writer);
}

static void write_budget(comparison_t *comparison, uint64_t budget_bytes, const delta_compare_row_t *fastest) {
  delta_json_writer_t *writer = &comparison->writer;
  delta_json_begin_object(writer, NULL);
  delta_json_write_int64(writer, "budget_bytes", (int64_t)budget_bytes);
  delta_json_write_bool(writer, "delta_is_fastest", !is_beaten(comparison, fastest));
  delta_json_begin_array(writer, "policies");
  for (int p = 0; p < DELTA_POLICY_COUNT; ++p) write_row(comparison, &comparison->rows[p]);
  delta_json_end_array(writer);
  delta_json_end_object(writer);
}

static delta_status_t compare_budget(comparison_t *comparison, uint64_t budget_bytes) {
  DELTA_RETURN_IF_ERROR(plan_all(comparison, budget_bytes));
  const delta_compare_row_t *fastest = find_fastest_other(comparison);
  comparison->beaten_count += is_beaten(comparison, fastest);
  comparison->seeded_count += comparison->rows[DELTA_POLICY_DELTA].seed_is_plan;
  if (comparison->json) {
    write_budget(comparison, budget_bytes, fastest);
  } else {
    print_budget(comparison, budget_bytes, fastest);
  }
  return DELTA_OK;
}

// ---- All budgets

static delta_status_t resolve_budget(const char *text, uint64_t whole_bytes, uint64_t *out_bytes) {
  double percent;
  if (!delta_number_parse_percentage(text, &percent)) return delta_status_annotate(delta_size_parse(text, out_bytes), "--budgets");
  if (percent > 1e6) return delta_status_make(INVALID_ARGUMENT, "--budgets %s: give a percentage up to 1e6", text);
  *out_bytes = (uint64_t)((double)whole_bytes * percent / 100);
  return DELTA_OK;
}

// All of them are known to be budgets before the first is planned.
static delta_status_t resolve_budgets(const delta_budget_list_t *list, uint64_t whole_bytes, uint64_t *budget_bytes) {
  for (size_t i = 0; i < list->texts.count; ++i) DELTA_RETURN_IF_ERROR(resolve_budget(list->texts.items[i], whole_bytes, &budget_bytes[i]));
  return DELTA_OK;
}

static void print_head(const comparison_t *comparison) {
  const delta_compare_source_t *source = comparison->source;
  char size[DELTA_SIZE_TEXT_BYTES];
  printf("%s: without a budget %g s", source->name, source->unlimited_seconds);
  if (source->eager_seconds > 0) printf(", as an eager framework %g s", source->eager_seconds);
  printf("; slowdowns are against the faster; 100 %% are %s\n", delta_size_text(source->whole_bytes, size));
}

static void write_head(comparison_t *comparison) {
  delta_json_writer_t *writer = &comparison->writer;
  delta_json_begin_object(writer, NULL);
  delta_json_write_string(writer, "compared", comparison->source->name);
  delta_json_write_double(writer, "unlimited_step_seconds", comparison->source->unlimited_seconds);
  if (comparison->source->eager_seconds > 0) delta_json_write_double(writer, "eager_step_seconds", comparison->source->eager_seconds);
  delta_json_write_int64(writer, "whole_bytes", (int64_t)comparison->source->whole_bytes);
  delta_json_begin_array(writer, "budgets");
}

static delta_status_t finish_json(comparison_t *comparison, const delta_text_t *text) {
  delta_json_end_array(&comparison->writer);
  delta_json_end_object(&comparison->writer);
  DELTA_RETURN_IF_ERROR(delta_json_writer_finish(&comparison->writer));
  puts(text->items);
  return DELTA_OK;
}

static delta_status_t compare_all(comparison_t *comparison, const uint64_t *budget_bytes, size_t count, delta_allocator_t allocator) {
  delta_text_t text;
  delta_text_init(&text, allocator);
  delta_json_writer_init(&comparison->writer, &text, false);
  if (comparison->json) {
    write_head(comparison);
  } else {
    print_head(comparison);
  }
  delta_status_t status = DELTA_OK;
  for (size_t i = 0; i < count && !status; ++i) status = compare_budget(comparison, budget_bytes[i]);
  if (!status && comparison->json) status = finish_json(comparison, &text);
  if (!status && !comparison->json) {
    printf("%zu budgets; another policy is faster than delta at %d; delta ends with the plan it was given at %d\n", count,
           comparison->beaten_count, comparison->seeded_count);
  }
  delta_text_deinit(&text);
  return status;
}

delta_status_t delta_compare(const delta_compare_source_t *source, const char *budgets, bool json, delta_allocator_t allocator) {
  comparison_t comparison = {.source = source, .reference_seconds = source->unlimited_seconds, .json = json};
  if (source->eager_seconds > 0) comparison.reference_seconds = fmin(source->unlimited_seconds, source->eager_seconds);
  delta_budget_list_t list = {.allocator = allocator, .option = "--budgets"};
  uint64_t *budget_bytes = NULL;
  delta_status_t status = delta_budgets_parse(budgets, &list);
  if (!status) status = DELTA_ALLOCATE(allocator, list.texts.count, &budget_bytes);
  if (!status) status = resolve_budgets(&list, source->whole_bytes, budget_bytes);
  if (!status) status = compare_all(&comparison, budget_bytes, list.texts.count, allocator);
  delta_release(allocator, budget_bytes);
  delta_budgets_deinit(&list);
  return status;
}
