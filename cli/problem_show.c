// A problem has no states in the arena and no eager framework to compare with; the step without a budget is searched for like those of other budgets.
#include "cli/problem_show.h"

#include "base/clock.h"
#include "base/file.h"
#include "plans/report.h"
#include "plans/trace.h"

enum { BUDGETS_TRIED = 9 };

typedef struct budget_search {
  const delta_problem_shown_t *shown;
  delta_allocator_t allocator;
  delta_time_limit_t limit;
  delta_budget_point_t points[BUDGETS_TRIED];
  uint32_t point_count;
} budget_search_t;

static double spent_part(void *self) { return delta_time_limit_spent(&((const budget_search_t *)self)->limit); }

delta_status_t delta_problem_check_outputs(const delta_problem_request_t *request, delta_allocator_t allocator) {
  const struct {
    const char *option, *path;
  } outputs[] = {{"-o", request->output}, {"--report", request->report}, {"--trace", request->trace}};
  const size_t count = sizeof outputs / sizeof *outputs;
  for (size_t i = 0; i < count; ++i) {
    if (!outputs[i].path) continue;
    if (delta_file_is_same(outputs[i].path, request->path))
      return delta_status_make(INVALID_ARGUMENT, "%s '%s': it is the problem; give another path", outputs[i].option, outputs[i].path);
    for (size_t k = i + 1; k < count; ++k) {
      if (!outputs[k].path || !delta_file_is_same(outputs[i].path, outputs[k].path)) continue;
      return delta_status_make(INVALID_ARGUMENT, "%s and %s are both '%s': give two paths", outputs[i].option, outputs[k].option,
                               outputs[i].path);
    }
    DELTA_RETURN_IF_ERROR(delta_file_probe(outputs[i].path, allocator));
  }
  return DELTA_OK;
}

static delta_status_t try_budget(budget_search_t *search, uint64_t budget_bytes, delta_budget_point_t *out_point) {
  const delta_problem_shown_t *shown = search->shown;
  const double limit_seconds = shown->request->time_limit_seconds / BUDGETS_TRIED;
  const delta_search_options_t options = {.liberties = shown->liberties,
                                          .capacity_bytes = budget_bytes,
                                          .effort = {.seed = shown->request->seed, .spent_part = spent_part, .self = search}};
  delta_decision_list_t items = {0};
  delta_decisions_t decisions = {0};
  delta_search_result_t result = {0};
  search->limit = delta_time_limit_from_now(limit_seconds);
  delta_status_t status = delta_search(shown->problem, shown->order, &options, search->allocator, &items, &decisions, &result);
  *out_point = (delta_budget_point_t){.budget_bytes = budget_bytes,
                                      .fits = result.fits,
                                      .peak_bytes = result.evaluation.peak_bytes,
                                      .step_seconds = result.evaluation.seconds};
  delta_array_deinit(search->allocator, &items);
  return status;
}

// From a ninth of what the step takes without a budget.
static delta_status_t try_budgets(budget_search_t *search, uint64_t unlimited_bytes) {
  for (uint32_t i = 0; i < BUDGETS_TRIED; ++i) {
    const uint64_t budget_bytes =
        unlimited_bytes / BUDGETS_TRIED * (i + 1) + (i + 1 == BUDGETS_TRIED ? unlimited_bytes % BUDGETS_TRIED : 0);
    DELTA_RETURN_IF_ERROR(try_budget(search, budget_bytes, &search->points[search->point_count++]));
  }
  return DELTA_OK;
}

static delta_status_t write_report(const delta_problem_shown_t *shown, const delta_view_t *view, delta_allocator_t allocator) {
  budget_search_t search = {.shown = shown, .allocator = allocator};
  delta_budget_point_t unlimited;
  DELTA_RETURN_IF_ERROR(try_budget(&search, UINT64_MAX, &unlimited));
  DELTA_RETURN_IF_ERROR(try_budgets(&search, unlimited.peak_bytes));
  const delta_report_t report = {.model = shown->request->path,
                                 .policy = shown->policy,
                                 .budget_bytes = shown->problem->budget_bytes,
                                 .arena_bytes = shown->schedule->arena_bytes,
                                 .peak_bytes = shown->schedule->peak_bytes,
                                 .unlimited_peak_bytes = unlimited.peak_bytes,
                                 .step_seconds = shown->schedule->step_seconds,
                                 .unlimited_step_seconds = unlimited.step_seconds,
                                 .lower_bound_seconds = shown->lower_bound_seconds,
                                 .planning_seconds = shown->planning_seconds,
                                 .views = view,
                                 .view_count = 1,
                                 .points = search.points,
                                 .point_count = search.point_count};
  return delta_report_write(&report, shown->request->report, allocator);
}

delta_status_t delta_problem_show(const delta_problem_shown_t *shown, delta_allocator_t allocator) {
  const delta_view_t view = {.program = "problem", .problem = shown->problem, .schedule = shown->schedule};
  const delta_trace_head_t head = {.model = shown->request->path, .source = "planned"};
  if (shown->request->report) DELTA_RETURN_IF_ERROR(write_report(shown, &view, allocator));
  return shown->request->trace ? delta_trace_write(&head, &view, 1, shown->request->trace, allocator) : DELTA_OK;
}
