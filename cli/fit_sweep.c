// One batch within many budgets: what `deltaplan --fit --batch N` prints.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/budgets.h"
#include "cli/fit.h"
#include "cli/progress.h"
#include "runtime/plan_sweep.h"

// Without --budget.
static const char default_budgets[] = "10%..100%:10%";
// Sums of the same seconds in another order differ in the last bits: that is no slowdown.
static const double tie_part = 1e-9;

static double slowdown(const delta_sweep_t *sweep, double seconds) {
  const double part = seconds / sweep->unlimited_step_seconds - 1;
  return fabs(part) < tie_part ? 0 : part;
}

// ---- For people

static void print_head(const delta_sweep_t *sweep, const char *model) {
  char unlimited[DELTA_SIZE_TEXT_BYTES], eager[DELTA_SIZE_TEXT_BYTES];
  printf("%s: batch %lld, policy %s, for %s: without a budget a step takes %.4f s and %s; an eager framework holds %s\n", model,
         (long long)sweep->batch, sweep->policy, sweep->device, sweep->unlimited_step_seconds,
         delta_size_text(sweep->unlimited_peak_bytes, unlimited), delta_size_text(sweep->eager_peak_bytes, eager));
  printf("  %10s %14s %7s %10s %9s %9s %9s %10s %9s %12s %7s\n", "budget", "bytes", "%", "arena", "step s", "slower %", "bound %",
         "swapped", "again s", "states below", "split");
}

static void print_budget(const delta_sweep_t *sweep, uint64_t budget_bytes) {
  char size[DELTA_SIZE_TEXT_BYTES];
  if (budget_bytes == UINT64_MAX) {
    printf("  %10s %14s %7s", "unlimited", "-", "-");
  } else {
    printf("  %10s %14llu %7.1f", delta_size_text(budget_bytes, size), (unsigned long long)budget_bytes,
           100 * (double)budget_bytes / (double)sweep->unlimited_peak_bytes);
  }
}

static void print_row(const delta_sweep_t *sweep, const delta_sweep_row_t *row) {
  char arena[DELTA_SIZE_TEXT_BYTES], swapped[DELTA_SIZE_TEXT_BYTES], below[DELTA_SIZE_TEXT_BYTES];
  print_budget(sweep, row->budget_bytes);
  if (!row->fits) {
    printf(" does not fit; the least is %llu bytes\n", (unsigned long long)sweep->minimum_budget_bytes);
    return;
  }
  printf(" %10s %9.4g %9.2f", delta_size_text(row->arena_bytes, arena), row->step_seconds, 100 * slowdown(sweep, row->step_seconds));
  if (row->lower_bound_seconds > 0) {
    printf(" %9.2f", 100 * fmax(0, slowdown(sweep, row->lower_bound_seconds)));
  } else {
    printf(" %9s", "-");
  }
  printf(" %10s %9.4g %12s %7s\n", delta_size_text(row->swapped_bytes, swapped), row->recompute_seconds,
         delta_size_text(row->below_bytes, below), row->split);
}

static void print_text(const delta_sweep_t *sweep, const delta_fit_request_t *request) {
  print_head(sweep, request->options.model_path);
  for (size_t r = 0; r < sweep->rows.count; ++r) print_row(sweep, &sweep->rows.items[r]);
  printf("%zu budgets in %.1f s, of which all searches together may take %g s (--time-limit)\n", sweep->rows.count, sweep->planning_seconds,
         request->options.time_limit_seconds);
}

// ---- For programs

static void write_bytes(delta_json_writer_t *writer, const char *name, uint64_t size_bytes) {
  delta_json_write_int64(writer, name, (int64_t)size_bytes);
}

static void write_row(delta_json_writer_t *writer, const delta_sweep_t *sweep, const delta_sweep_row_t *row) {
  delta_json_begin_object(writer, NULL);
  if (row->budget_bytes == UINT64_MAX) {
    delta_json_write_null(writer, "budget_bytes");
  } else {
    write_bytes(writer, "budget_bytes", row->budget_bytes);
  }
  delta_json_write_bool(writer, "fits", row->fits);
  if (row->fits) {
    delta_json_write_bool(writer, "is_smaller_plan", row->is_smaller_plan);
    delta_json_write_string(writer, "split", row->split);
    delta_json_write_int64(writer, "parts", row->parts);
    write_bytes(writer, "arena_bytes", row->arena_bytes);
    write_bytes(writer, "peak_bytes", row->peak_bytes);
    write_bytes(writer, "state_bytes", row->state_bytes);
    write_bytes(writer, "below_bytes", row->below_bytes);
    write_bytes(writer, "swapped_bytes", row->swapped_bytes);
    write_bytes(writer, "swapped_tensors", row->swapped_tensors);
    write_bytes(writer, "recomputed_nodes", row->recomputed_nodes);
    delta_json_write_double(writer, "step_seconds", row->step_seconds);
    delta_json_write_double(writer, "slowdown", slowdown(sweep, row->step_seconds));
    delta_json_write_double(writer, "recompute_seconds", row->recompute_seconds);
    delta_json_write_double(writer, "stall_seconds", row->stall_seconds);
    delta_json_write_double(writer, "lower_bound_seconds", row->lower_bound_seconds > 0 ? row->lower_bound_seconds : (double)NAN);
  }
  delta_json_end_object(writer);
}

static delta_status_t print_json(const delta_sweep_t *sweep, const delta_fit_request_t *request) {
  delta_text_t text;
  delta_json_writer_t writer;
  delta_text_init(&text, sweep->allocator);
  delta_json_writer_init(&writer, &text, false);
  delta_json_begin_object(&writer, NULL);
  delta_json_write_string(&writer, "model", request->options.model_path);
  delta_json_write_string(&writer, "device", sweep->device);
  delta_json_write_string(&writer, "policy", sweep->policy);
  delta_json_write_int64(&writer, "batch", sweep->batch);
  write_bytes(&writer, "unlimited_peak_bytes", sweep->unlimited_peak_bytes);
  write_bytes(&writer, "eager_peak_bytes", sweep->eager_peak_bytes);
  write_bytes(&writer, "minimum_budget_bytes", sweep->minimum_budget_bytes);
  delta_json_write_double(&writer, "unlimited_step_seconds", sweep->unlimited_step_seconds);
  delta_json_write_double(&writer, "time_limit_seconds", request->options.time_limit_seconds);
  delta_json_write_double(&writer, "planning_seconds", sweep->planning_seconds);
  delta_json_begin_array(&writer, "budgets");
  for (size_t r = 0; r < sweep->rows.count; ++r) write_row(&writer, sweep, &sweep->rows.items[r]);
  delta_json_end_array(&writer);
  delta_json_end_object(&writer);
  const delta_status_t status = delta_json_writer_finish(&writer);
  if (!status) puts(text.items);
  delta_text_deinit(&text);
  return status;
}

// ---- All of it

static void show_progress(void *self, size_t done, size_t total) {
  delta_progress_t *progress = self;
  progress->total = (int64_t)total;
  delta_progress_update(progress, &(delta_progress_state_t){.done = (int64_t)done, .loss = NAN}, delta_clock_seconds());
}

static delta_status_t make(const delta_fit_request_t *request, const delta_budget_list_t *budgets, delta_sweep_t *sweep) {
  FILE *stream = request->json ? stderr : stdout;
  delta_progress_t progress;
  delta_sweep_request_t sweep_request = {
      .options = &request->options, .budgets = (const char *const *)budgets->texts.items, .budget_count = budgets->texts.count};
  const bool has_progress = delta_progress_is_terminal(stream);
  if (has_progress) {
    delta_progress_begin(&progress, stream, true, "planning", "budget", 0, delta_clock_seconds());
    sweep_request.progress = show_progress;
    sweep_request.self = &progress;
  }
  const delta_status_t status = delta_plan_sweep(&sweep_request, sweep->allocator, sweep);
  if (has_progress)
    delta_progress_end(&progress, &(delta_progress_state_t){.done = (int64_t)sweep->rows.count, .loss = NAN}, delta_clock_seconds());
  return status;
}

delta_status_t delta_fit_sweep(const delta_fit_request_t *request, delta_allocator_t allocator) {
  delta_budget_list_t budgets = {.allocator = allocator, .option = "--budget"};
  delta_sweep_t sweep = {.allocator = allocator};
  delta_status_t status = delta_budgets_parse(request->budgets ? request->budgets : default_budgets, &budgets);
  if (!status) status = make(request, &budgets, &sweep);
  if (!status && request->json) status = print_json(&sweep, request);
  if (!status && !request->json) print_text(&sweep, request);
  delta_sweep_deinit(&sweep);
  delta_budgets_deinit(&budgets);
  return status;
}
