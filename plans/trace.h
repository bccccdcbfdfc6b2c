// Trace: the timeline of programs in the Chrome trace event format, which Perfetto opens (docs/report.md). deltaplan writes what is planned, deltarun what
// was measured, both through here.
//
// A program is a process, a lane a thread, a step a complete event named after its node. A counter "memory" has the bytes that live while each step runs, in the
// order of the schedule: its maximum is the plan's peak. Each program begins at time 0; the times of one never fall.
#ifndef DELTA_PLANS_TRACE_H_
#define DELTA_PLANS_TRACE_H_

#include "base/text.h"
#include "plans/view.h"

typedef struct delta_trace_head {
  const char *model;
  const char *source; // "planned" or "measured"
} delta_trace_head_t;

// Appends the whole file's text.
DELTA_MUST_USE delta_status_t delta_trace_text(const delta_trace_head_t *head, const delta_view_t *views, size_t view_count,
                                               delta_allocator_t allocator, delta_text_t *out_text);
// The same, as a file that is there as a whole or not at all.
DELTA_MUST_USE delta_status_t delta_trace_write(const delta_trace_head_t *head, const delta_view_t *views, size_t view_count,
                                                const char *path, delta_allocator_t allocator);

#endif // DELTA_PLANS_TRACE_H_
