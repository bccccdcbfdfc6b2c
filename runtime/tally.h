// Tally: what the steps of a run took, by operator, kernel and layout.
#ifndef DELTA_RUNTIME_TALLY_H_
#define DELTA_RUNTIME_TALLY_H_

#include "base/text.h"
#include "runtime/executor.h"

typedef struct delta_tally_row {
  const char *op, *kernel, *layout; // static strings
  uint64_t runs;
  double seconds, flops, bytes; // sums
} delta_tally_row_t;

typedef struct delta_tally {
  delta_allocator_t allocator;
  DELTA_ARRAY(delta_tally_row_t) rows; // Owned.
  delta_status_t status;               // Owned; the first failure of an addition
} delta_tally_t;

void delta_tally_init(delta_tally_t *tally, delta_allocator_t allocator);
void delta_tally_deinit(delta_tally_t *tally); // Safe on a zeroed struct.

// Adds one step of a program. Steps of other kinds than RUN do not count.
void delta_tally_add(delta_tally_t *tally, const delta_graph_t *graph, const delta_selection_t *selection, const delta_step_event_t *event);
// Sends a table to a sink, a line a row, the most time first, with the speed achieved. Returns a failure of an earlier addition.
DELTA_MUST_USE delta_status_t delta_tally_report(const delta_tally_t *tally, delta_log_sink_t sink);

#endif // DELTA_RUNTIME_TALLY_H_
