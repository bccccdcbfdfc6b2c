// Plan: life cycle, files, lookup.
#include "plans/plan.h"

#include "base/file.h"

// Far above any plan, far below what would trouble a machine.
static const size_t LARGEST_FILE_BYTES = (size_t)512 << 20;

delta_status_t delta_plan_create_empty(delta_allocator_t allocator, delta_plan_t **out_plan) {
  delta_plan_t *plan = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &plan));
  plan->allocator = allocator;
  delta_region_init(&plan->region, allocator);
  plan->totals.budget_bytes = plan->totals.host_budget_bytes = UINT64_MAX;
  plan->accumulate = 1;
  *out_plan = plan;
  return DELTA_OK;
}

void delta_plan_free(delta_plan_t *plan) {
  if (!plan) return;
  for (uint32_t i = 0; i < plan->program_count; ++i) {
    delta_schedule_free(plan->programs[i].schedule);
    delta_problem_free(plan->programs[i].problem);
  }
  delta_region_deinit(&plan->region);
  delta_release(plan->allocator, plan);
}

int64_t delta_plan_rows(const delta_plan_t *plan) { return plan->program_count > 0 ? plan->programs[0].batch : 0; }

const delta_plan_program_t *delta_plan_find_program(const delta_plan_t *plan, delta_program_kind_t kind, int64_t batch) {
  for (uint32_t i = 0; i < plan->program_count; ++i) {
    if (plan->programs[i].kind == kind && plan->programs[i].batch == batch) return &plan->programs[i];
  }
  return NULL;
}

delta_status_t delta_plan_save(const delta_plan_t *plan, const char *path) {
  delta_text_t text;
  delta_text_init(&text, plan->allocator);
  delta_status_t status = delta_plan_to_json(plan, &text);
  if (!status) status = delta_file_replace(path, text.items, text.count, plan->allocator);
  delta_text_deinit(&text);
  return status;
}

delta_status_t delta_plan_load(const char *path, delta_allocator_t allocator, delta_plan_t **out_plan) {
  char *text = NULL;
  size_t size_bytes;
  DELTA_RETURN_IF_ERROR(delta_file_read_all(path, LARGEST_FILE_BYTES, allocator, &text, &size_bytes));
  delta_status_t status = delta_plan_from_json(text, size_bytes, path, allocator, out_plan);
  delta_release(allocator, text);
  return status;
}
