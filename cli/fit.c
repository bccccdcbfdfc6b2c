// Batches are looked at once each, without a budget; the planner then plans only what is printed.
#include "cli/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/budgets.h"
#include "cli/progress.h"
#include "onnx/lower/import.h"
#include "planner/largest.h"
#include "runtime/plan_create.h"

enum { MOST_ROWS = 8 };

// One call.
typedef struct fit_maker {
  const delta_fit_request_t *request;
  delta_fit_table_t *table;
  uint64_t budget_bytes;      // that a trial is for
  delta_fit_budget_t *budget; // that candidates are for
  int64_t first_candidate;
  double eager_seconds_per_sample;
  double seconds_per_search; // that one plan may search
  bool may_split;            // what does not fit whole may run in parts
  const char *split;         // NULL until it is needed: the parts that take least
  delta_progress_t progress;
  int64_t done;
  bool has_progress;
} fit_maker_t;

void delta_fit_deinit(delta_fit_table_t *table) {
  delta_array_deinit(table->allocator, &table->known);
  delta_array_deinit(table->allocator, &table->budgets);
  delta_array_deinit(table->allocator, &table->batches);
  delta_array_deinit(table->allocator, &table->cells);
}

// ---- Budgets

static delta_status_t add_budget(delta_fit_table_t *table, uint64_t budget_bytes) {
  size_t at = table->budgets.count;
  const delta_fit_budget_t budget = {.budget_bytes = budget_bytes};
  DELTA_RETURN_IF_ERROR(delta_array_push(table->allocator, &table->budgets, &budget));
  for (; at > 0 && table->budgets.items[at - 1].budget_bytes > budget_bytes; --at) table->budgets.items[at] = table->budgets.items[at - 1];
  table->budgets.items[at] = budget;
  return DELTA_OK;
}

static delta_status_t add_size(delta_fit_table_t *table, const char *option_value, const char *text) {
  uint64_t budget_bytes = 0;
  DELTA_RETURN_IF_ERROR(delta_status_annotate(delta_size_parse(text, &budget_bytes),
                                              "--budget %s (with --fit: sizes; with --batch also percentages)", option_value));
  return add_budget(table, budget_bytes);
}

delta_status_t delta_fit_parse_budgets(const char *text, delta_fit_table_t *table) {
  delta_budget_list_t list = {.allocator = table->allocator, .option = "--budget"};
  delta_status_t status = delta_budgets_parse(text, &list);
  for (size_t i = 0; i < list.texts.count && !status; ++i) status = add_size(table, text, list.texts.items[i]);
  delta_budgets_deinit(&list);
  return status;
}

// ---- Plans

// Plans without keeping the plan. False in *out_fits: it does not fit, and the summary has the sizes.
static delta_status_t plan_batch(const fit_maker_t *maker, int64_t batch, const char *split, const char *budget, double search_seconds,
                                 delta_plan_summary_t *out_summary, bool *out_fits) {
  delta_plan_options_t options = maker->request->options;
  delta_plan_t *plan = NULL;
  options.batch = batch;
  options.split = split;
  options.budget = budget;
  options.time_limit_seconds = search_seconds;
  // Notes are the same for every batch, and costs of a batch are not worth measuring for a table.
  options.log = (delta_log_sink_t){0};
  options.profile = delta_text_ends_with(options.device, ".json") ? NULL : "estimate";
  *out_summary = (delta_plan_summary_t){.struct_size = sizeof *out_summary};
  delta_status_t status = delta_plan_create(&options, maker->table->allocator, &plan, out_summary);
  *out_fits = !status;
  if (!status) {
    snprintf(maker->table->policy, sizeof maker->table->policy, "%s", out_summary->policy);
    snprintf(maker->table->device, sizeof maker->table->device, "%s", out_summary->device);
  }
  delta_plan_free(plan);
  if (delta_status_code(status) != DELTA_STATUS_DOES_NOT_FIT) return delta_status_annotate(status, "batch %lld", (long long)batch);
  delta_status_free(status);
  return DELTA_OK;
}

// The batch's numbers, found out the first time. Borrowed until the next call.
static delta_status_t look_at(const fit_maker_t *maker, int64_t batch, delta_fit_batch_t **out_known) {
  delta_fit_table_t *table = maker->table;
  for (size_t i = 0; i < table->known.count; ++i) {
    if (table->known.items[i].batch != batch) continue;
    *out_known = &table->known.items[i];
    return DELTA_OK;
  }
  delta_plan_summary_t summary;
  bool fits;
  DELTA_RETURN_IF_ERROR(plan_batch(maker, batch, maker->request->options.split, "unlimited", 0, &summary, &fits));
  const delta_fit_batch_t known = {.batch = batch,
                                   .eager_peak_bytes = summary.eager_peak_bytes,
                                   .unlimited_bytes = summary.arena_bytes,
                                   .minimum_bytes = summary.minimum_budget_bytes,
                                   .unlimited_seconds = summary.unlimited_step_seconds};
  DELTA_RETURN_IF_ERROR(delta_array_push(table->allocator, &table->known, &known));
  *out_known = &table->known.items[table->known.count - 1];
  return DELTA_OK;
}

static delta_status_t find_parts_minimum(const fit_maker_t *maker, int64_t batch, const char *split, uint64_t *out_bytes) {
  delta_plan_summary_t summary;
  bool fits;
  DELTA_RETURN_IF_ERROR(plan_batch(maker, batch, split, "unlimited", 0, &summary, &fits));
  *out_bytes = summary.minimum_budget_bytes;
  return DELTA_OK;
}

// The parts that take least for one batch are those of all others: looking at all of them takes long.
static delta_status_t choose_split(fit_maker_t *maker, int64_t batch) {
  uint64_t least_bytes = UINT64_MAX, bytes;
  for (int c = 1; c < DELTA_SPLIT_CANDIDATES; ++c) {
    DELTA_RETURN_IF_ERROR(find_parts_minimum(maker, batch, delta_split_candidates[c], &bytes));
    if (bytes >= least_bytes) continue;
    least_bytes = bytes;
    maker->split = delta_split_candidates[c];
  }
  return DELTA_OK;
}

// The same, and what it takes in parts where it does not fit whole.
static delta_status_t look_within(fit_maker_t *maker, int64_t batch, uint64_t budget_bytes, delta_fit_batch_t **out_known) {
  DELTA_RETURN_IF_ERROR(look_at(maker, batch, out_known));
  delta_fit_batch_t *known = *out_known;
  if (known->minimum_bytes <= budget_bytes || known->parts_minimum_bytes > 0 || !maker->may_split || batch < 2) return DELTA_OK;
  if (!maker->split) DELTA_RETURN_IF_ERROR(choose_split(maker, batch));
  return find_parts_minimum(maker, batch, maker->split, &known->parts_minimum_bytes);
}

static bool fits_within(const delta_fit_batch_t *known, uint64_t budget_bytes) {
  return known->minimum_bytes <= budget_bytes || (known->parts_minimum_bytes > 0 && known->parts_minimum_bytes <= budget_bytes);
}

static delta_status_t fits_eager(void *self, int64_t batch, bool *out_fits) {
  const fit_maker_t *maker = self;
  delta_fit_batch_t *known = NULL;
  DELTA_RETURN_IF_ERROR(look_at(maker, batch, &known));
  *out_fits = known->eager_peak_bytes <= maker->budget_bytes;
  return DELTA_OK;
}

static delta_status_t fits_whole(void *self, int64_t batch, bool *out_fits) {
  const fit_maker_t *maker = self;
  delta_fit_batch_t *known = NULL;
  DELTA_RETURN_IF_ERROR(look_at(maker, batch, &known));
  *out_fits = known->minimum_bytes <= maker->budget_bytes;
  return DELTA_OK;
}

static delta_status_t fits_in_parts(void *self, int64_t batch, bool *out_fits) {
  fit_maker_t *maker = self;
  delta_fit_batch_t *known = NULL;
  DELTA_RETURN_IF_ERROR(look_within(maker, batch, maker->budget_bytes, &known));
  *out_fits = fits_within(known, maker->budget_bytes);
  return DELTA_OK;
}

static void count_plan(fit_maker_t *maker) {
  ++maker->done;
  if (maker->has_progress)
    delta_progress_update(&maker->progress, &(delta_progress_state_t){.done = maker->done, .loss = NAN}, delta_clock_seconds());
}

static bool needs_plan(const delta_fit_batch_t *known, uint64_t budget_bytes) {
  return fits_within(known, budget_bytes) && budget_bytes < known->unlimited_bytes;
}

// Plans a batch in a budget, unless it is known to fit as it is, or not at all.
static delta_status_t plan_cell(fit_maker_t *maker, int64_t batch, uint64_t budget_bytes, delta_fit_cell_t *out_cell) {
  enum { NUMBER_BYTES = 24 };
  delta_fit_batch_t *known = NULL;
  DELTA_RETURN_IF_ERROR(look_within(maker, batch, budget_bytes, &known));
  const double unlimited_seconds = known->unlimited_seconds;
  *out_cell = (delta_fit_cell_t){.fits = known->unlimited_bytes <= budget_bytes, .seconds = unlimited_seconds};
  if (!needs_plan(known, budget_bytes)) return DELTA_OK;
  char budget[NUMBER_BYTES];
  delta_plan_summary_t summary;
  snprintf(budget, sizeof budget, "%llu", (unsigned long long)budget_bytes);
  const char *split = known->minimum_bytes <= budget_bytes ? maker->request->options.split : maker->split;
  DELTA_RETURN_IF_ERROR(plan_batch(maker, batch, split, budget, maker->seconds_per_search, &summary, &out_cell->fits));
  if (out_cell->fits) *out_cell = (delta_fit_cell_t){true, summary.step_seconds, summary.step_seconds / unlimited_seconds - 1};
  count_plan(maker);
  return DELTA_OK;
}

// ---- The table

// A quarter, half, three quarters and all of what the device has.
static delta_status_t add_default_budgets(fit_maker_t *maker) {
  enum { PARTS = 4 };
  delta_plan_summary_t summary;
  bool fits;
  DELTA_RETURN_IF_ERROR(plan_batch(maker, 1, maker->request->options.split, NULL, 0, &summary, &fits));
  for (uint64_t part = 1; part <= PARTS; ++part) DELTA_RETURN_IF_ERROR(add_budget(maker->table, summary.budget_bytes / PARTS * part));
  return DELTA_OK;
}

static double eager_bytes(const delta_fit_batch_t *known) { return (double)known->eager_peak_bytes; }
static double minimum_bytes(const delta_fit_batch_t *known) { return (double)known->minimum_bytes; }
static double parts_bytes(const delta_fit_batch_t *known) { return (double)known->parts_minimum_bytes; }

// Memory is nearly linear in the batch: the line through the smallest and the largest batch that are known, or through one of them and nothing, says where a search may start.
static int64_t guess_batch(const delta_fit_table_t *table, double (*bytes_of)(const delta_fit_batch_t *), double budget_bytes,
                           int64_t start) {
  const delta_fit_batch_t *least = NULL, *most = NULL;
  for (size_t i = 0; i < table->known.count; ++i) {
    const delta_fit_batch_t *known = &table->known.items[i];
    if (bytes_of(known) == 0) continue;
    if (!least || known->batch < least->batch) least = known;
    if (!most || known->batch > most->batch) most = known;
  }
  if (!most) return start;
  const double least_batch = least == most ? 0 : (double)least->batch, least_bytes = least == most ? 0 : bytes_of(least);
  const double slope = (bytes_of(most) - least_bytes) / ((double)most->batch - least_batch);
  const double guess = least_batch + (budget_bytes - least_bytes) / slope;
  return guess >= 1 && guess <= (double)DELTA_MOST_ROWS ? (int64_t)guess : start;
}

// In parts more fits than whole. Two guesses, the second from the first, are nearly there.
static delta_status_t find_largest_in_parts(fit_maker_t *maker, delta_fit_budget_t *budget) {
  enum { GUESSES = 2 };
  int64_t guess = budget->largest_batch + 1;
  bool fits;
  for (int k = 0; k < GUESSES; ++k) {
    DELTA_RETURN_IF_ERROR(fits_in_parts(maker, guess, &fits));
    guess = guess_batch(maker->table, parts_bytes, (double)budget->budget_bytes, guess);
  }
  int64_t largest;
  DELTA_RETURN_IF_ERROR(delta_find_largest(fits_in_parts, maker, guess, DELTA_MOST_ROWS, &largest));
  if (largest > budget->largest_batch) budget->largest_batch = largest;
  return DELTA_OK;
}

static delta_status_t find_largest(fit_maker_t *maker) {
  delta_fit_table_t *table = maker->table;
  for (size_t i = 0; i < table->budgets.count; ++i) {
    delta_fit_budget_t *budget = &table->budgets.items[i];
    maker->budget_bytes = budget->budget_bytes;
    const double bytes = (double)budget->budget_bytes;
    DELTA_RETURN_IF_ERROR(
        delta_find_largest(fits_eager, maker, guess_batch(table, eager_bytes, bytes, 1), DELTA_MOST_ROWS, &budget->eager_largest_batch));
    DELTA_RETURN_IF_ERROR(
        delta_find_largest(fits_whole, maker, guess_batch(table, minimum_bytes, bytes, 1), DELTA_MOST_ROWS, &budget->largest_batch));
    if (maker->may_split) DELTA_RETURN_IF_ERROR(find_largest_in_parts(maker, budget));
  }
  return DELTA_OK;
}

// Powers of two, the last ones up to the largest batch of all.
static delta_status_t choose_rows(delta_fit_table_t *table) {
  int64_t largest = 0;
  for (size_t i = 0; i < table->budgets.count; ++i) {
    if (table->budgets.items[i].largest_batch > largest) largest = table->budgets.items[i].largest_batch;
  }
  int64_t first = 1;
  while (largest / first >> MOST_ROWS) first *= 2;
  for (int64_t batch = first; batch <= largest; batch *= 2)
    DELTA_RETURN_IF_ERROR(delta_array_push(table->allocator, &table->batches, &batch));
  return DELTA_OK;
}

// A plan in less memory is one in more: no row gets slower with its budget.
static delta_status_t plan_rows(fit_maker_t *maker) {
  delta_fit_table_t *table = maker->table;
  for (size_t r = 0; r < table->batches.count; ++r) {
    delta_fit_cell_t best = {0};
    for (size_t b = 0; b < table->budgets.count; ++b) {
      delta_fit_cell_t cell;
      DELTA_RETURN_IF_ERROR(plan_cell(maker, table->batches.items[r], table->budgets.items[b].budget_bytes, &cell));
      if (cell.fits && (!best.fits || cell.seconds < best.seconds)) best = cell;
      DELTA_RETURN_IF_ERROR(delta_array_push(table->allocator, &table->cells, &best));
    }
  }
  return DELTA_OK;
}

// Of an eager framework's largest batch without a budget: what a user compares with.
static delta_status_t find_eager_pace(fit_maker_t *maker, const delta_fit_budget_t *budget) {
  delta_fit_batch_t *known = NULL;
  DELTA_RETURN_IF_ERROR(look_at(maker, budget->eager_largest_batch > 0 ? budget->eager_largest_batch : budget->largest_batch, &known));
  maker->eager_seconds_per_sample = known->unlimited_seconds / (double)known->batch;
  return DELTA_OK;
}

static double slowdown_per_sample(const fit_maker_t *maker, int64_t batch, const delta_fit_cell_t *cell) {
  return cell->seconds / (double)batch / maker->eager_seconds_per_sample - 1;
}

// Whether a planned batch is brisk; the largest such is kept.
static bool note_brisk(const fit_maker_t *maker, int64_t batch, const delta_fit_cell_t *cell) {
  delta_fit_budget_t *budget = maker->budget;
  const double slowdown = slowdown_per_sample(maker, batch, cell);
  if (!cell->fits || slowdown > 1) return false;
  if (batch < budget->brisk_batch) return true;
  budget->brisk_batch = batch;
  budget->brisk_per_sample = slowdown;
  return true;
}

// Candidates are each larger than the one before by a twentieth, from the first on.
static int64_t candidate(const fit_maker_t *maker, int64_t number) {
  return (int64_t)((double)maker->first_candidate * pow(1.05, (double)number));
}

static delta_status_t is_brisk(void *self, int64_t number, bool *out_fits) {
  fit_maker_t *maker = self;
  delta_fit_cell_t cell;
  const int64_t batch = candidate(maker, number);
  DELTA_RETURN_IF_ERROR(plan_cell(maker, batch, maker->budget->budget_bytes, &cell));
  *out_fits = note_brisk(maker, batch, &cell);
  return DELTA_OK;
}

// Between the last row that is brisk and the next.
static delta_status_t find_brisk(fit_maker_t *maker, size_t index) {
  const delta_fit_table_t *table = maker->table;
  const delta_fit_budget_t *budget = maker->budget;
  int64_t end = budget->largest_batch, count = 0, number;
  for (size_t r = 0; r < table->batches.count; ++r) {
    if (note_brisk(maker, table->batches.items[r], &table->cells.items[r * table->budgets.count + index])) continue;
    if (table->batches.items[r] < end) end = table->batches.items[r];
  }
  maker->first_candidate = budget->brisk_batch > 0 ? budget->brisk_batch : 1;
  while (candidate(maker, count + 1) < end) ++count;
  return count == 0 ? DELTA_OK : delta_find_largest(is_brisk, maker, (count + 1) / 2, count, &number);
}

// The largest batch of a budget, and the largest that is not much slower.
static delta_status_t plan_largest(fit_maker_t *maker, size_t index) {
  delta_fit_budget_t *budget = maker->budget = &maker->table->budgets.items[index];
  if (budget->largest_batch == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(find_eager_pace(maker, budget));
  DELTA_RETURN_IF_ERROR(plan_cell(maker, budget->largest_batch, budget->budget_bytes, &budget->largest));
  budget->slowdown_per_sample = slowdown_per_sample(maker, budget->largest_batch, &budget->largest);
  return note_brisk(maker, budget->largest_batch, &budget->largest) ? DELTA_OK : find_brisk(maker, index);
}

// How many cells have to be planned.
static delta_status_t count_plans(fit_maker_t *maker, int64_t *out_count) {
  enum { LARGEST_PLANS = 5 }; // about as many as finding a largest batch takes
  const delta_fit_table_t *table = maker->table;
  *out_count = 0;
  for (size_t b = 0; b < table->budgets.count; ++b) {
    for (size_t r = 0; r < table->batches.count; ++r) {
      delta_fit_batch_t *known = NULL;
      DELTA_RETURN_IF_ERROR(look_within(maker, table->batches.items[r], table->budgets.items[b].budget_bytes, &known));
      *out_count += needs_plan(known, table->budgets.items[b].budget_bytes);
    }
    *out_count += LARGEST_PLANS;
  }
  return DELTA_OK;
}

static delta_status_t plan_all(fit_maker_t *maker, FILE *stream) {
  delta_fit_table_t *table = maker->table;
  int64_t plans;
  DELTA_RETURN_IF_ERROR(count_plans(maker, &plans));
  maker->seconds_per_search = maker->request->options.time_limit_seconds / (double)plans;
  maker->has_progress = stream && delta_progress_is_terminal(stream);
  if (maker->has_progress) delta_progress_begin(&maker->progress, stream, true, "planning", "plan", plans, delta_clock_seconds());
  delta_status_t status = plan_rows(maker);
  for (size_t b = 0; !status && b < table->budgets.count; ++b) status = plan_largest(maker, b);
  if (maker->has_progress)
    delta_progress_end(&maker->progress, &(delta_progress_state_t){.done = maker->done, .loss = NAN}, delta_clock_seconds());
  return status;
}

delta_status_t delta_fit_make(const delta_fit_request_t *request, FILE *stream, delta_fit_table_t *table) {
  const char *split = request->options.split;
  fit_maker_t maker = {.request = request, .table = table, .may_split = split && (strcmp(split, "on") == 0 || strcmp(split, "auto") == 0)};
  DELTA_RETURN_IF_ERROR(request->budgets ? delta_fit_parse_budgets(request->budgets, table) : add_default_budgets(&maker));
  DELTA_RETURN_IF_ERROR(find_largest(&maker));
  DELTA_RETURN_IF_ERROR(choose_rows(table));
  return plan_all(&maker, stream);
}

delta_status_t delta_fit(const delta_fit_request_t *request, delta_allocator_t allocator) {
  if (request->options.batch > 0) return delta_fit_sweep(request, allocator);
  delta_fit_table_t table = {.allocator = allocator};
  delta_status_t status = delta_fit_make(request, request->json ? stderr : stdout, &table);
  if (!status && request->json) status = delta_fit_print_json(&table, request);
  if (!status && !request->json) delta_fit_print_text(&table, request);
  delta_fit_deinit(&table);
  return status;
}
