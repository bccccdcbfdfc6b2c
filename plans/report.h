// Report: one page of HTML that shows a plan: memory over time with every buffer, the lanes, what becomes of each tensor, budget against slowdown
// (docs/report.md). The page needs nothing but itself. Its looks and its code are plans/report/; what is written here is its data, as JSON.
//
// Names come from models and are not trusted: they are JSON strings in which no tag can begin, and the page shows them as text only.
#ifndef DELTA_PLANS_REPORT_H_
#define DELTA_PLANS_REPORT_H_

#include "base/text.h"
#include "plans/view.h"

// A state that has its place in the state area.
typedef struct delta_report_state {
  const char *name, *kind, *type;
  uint64_t offset_bytes, size_bytes;
} delta_report_state_t;

// A budget that was tried.
typedef struct delta_budget_point {
  uint64_t budget_bytes;
  bool fits;           // else no plan was found, and nothing of what follows is known
  uint64_t peak_bytes; // states included
  double step_seconds;
} delta_budget_point_t;

// X(member): numbers of the head. Bytes include the states.
#define DELTA_REPORT_SIZES(X) \
  X(arena_bytes) X(peak_bytes) X(state_bytes) X(unlimited_peak_bytes) X(eager_peak_bytes) X(minimum_budget_bytes)
#define DELTA_REPORT_TIMES(X) X(step_seconds) X(unlimited_step_seconds) X(lower_bound_seconds) X(planning_seconds)

// All is borrowed. A number that is not known is 0, a text NULL.
typedef struct delta_report {
  const char *model, *device, *policy, *numerics_id;
  int64_t batch;
  uint64_t budget_bytes; // UINT64_MAX: unlimited
#define DELTA_REPORT_SIZE(member) uint64_t member;
  DELTA_REPORT_SIZES(DELTA_REPORT_SIZE)
#undef DELTA_REPORT_SIZE
#define DELTA_REPORT_TIME(member) double member;
  DELTA_REPORT_TIMES(DELTA_REPORT_TIME)
#undef DELTA_REPORT_TIME
  const delta_report_state_t *states;
  uint32_t state_count;
  const delta_view_t *views; // the programs; the numbers above are of the first
  uint32_t view_count;
  const delta_budget_point_t *points; // by budget
  uint32_t point_count;
} delta_report_t;

// Appends the page.
DELTA_MUST_USE delta_status_t delta_report_text(const delta_report_t *report, delta_allocator_t allocator, delta_text_t *out_text);
// The same, as a file that is there as a whole or not at all.
DELTA_MUST_USE delta_status_t delta_report_write(const delta_report_t *report, const char *path, delta_allocator_t allocator);

#endif // DELTA_PLANS_REPORT_H_
