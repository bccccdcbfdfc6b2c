// Fuzz target: problem files. What the reader accepts is written and read again, and a short search plans it.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "planner/found.h"
#include "plans/problem_json.h"

enum { MOST_STEPS = 64, EVALUATIONS = 40 };

static void check_round_trip(const delta_problem_t *problem) {
  delta_text_t text, again;
  delta_problem_t *copy = NULL;
  delta_text_init(&text, delta_allocator_system());
  delta_text_init(&again, delta_allocator_system());
  if (delta_problem_to_json(problem, &text)) abort();
  if (delta_problem_from_json(text.items, text.count, "fuzz", delta_allocator_system(), &copy)) abort();
  if (delta_problem_to_json(copy, &again)) abort();
  if (strcmp(text.items, again.items) != 0) abort();
  delta_problem_free(copy);
  delta_text_deinit(&text);
  delta_text_deinit(&again);
}

// A schedule that is found keeps the budget. Problems that have no order or no plan are refused.
static void check_plan(const delta_problem_t *problem) {
  const delta_search_options_t options = {
      .liberties = {true, true}, .capacity_bytes = problem->budget_bytes, .effort = {.evaluation_limit = EVALUATIONS}};
  delta_order_t order = {.allocator = delta_allocator_system()};
  delta_schedule_t *schedule = NULL;
  delta_status_t status = delta_order_make(problem, true, delta_allocator_system(), &order);
  if (!status) status = delta_find_schedule(problem, &order, &options, delta_allocator_system(), &schedule);
  if (schedule && delta_schedule_verify(schedule, problem, problem->budget_bytes, delta_allocator_system())) abort();
  delta_status_free(status);
  delta_schedule_free(schedule);
  delta_order_deinit(&order);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  char *text = malloc(size_bytes + 1);
  delta_problem_t *problem = NULL;
  if (!text) return 0;
  memcpy(text, data, size_bytes);
  text[size_bytes] = 0;
  delta_status_t status = delta_problem_from_json(text, size_bytes, "fuzz", delta_allocator_system(), &problem);
  if (!status) check_round_trip(problem);
  if (!status && problem->step_count <= MOST_STEPS) check_plan(problem);
  delta_status_free(status);
  delta_problem_free(problem);
  free(text);
  return 0;
}
