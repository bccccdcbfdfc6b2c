// Progress: how far long work has come. On a terminal a bar that is redrawn in place; anywhere else plain lines, few of them, without
// control sequences. Time comes from the caller. A stream that cannot be written to is no error: progress is for looking at.
#ifndef DELTA_CLI_PROGRESS_H_
#define DELTA_CLI_PROGRESS_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct delta_progress {
  FILE *stream; // Borrowed.
  bool is_terminal;
  const char *title; // Borrowed; "training"
  const char *unit;  // Borrowed; what is counted in the plain lines: "step"
  int64_t total;     // 0: not known
  double start_seconds;
  double shown_seconds; // when the last bar or line was shown
  int64_t shown_done;   // of the last that was shown; -1: none
  bool has_bar;         // the cursor stands behind a bar
} delta_progress_t;

// Where the work stands. Zeros and NaN are left out of what is shown.
typedef struct delta_progress_state {
  int64_t done; // of total
  int64_t epoch;
  double loss;
  double samples_per_second;
  uint64_t used_bytes, budget_bytes;
} delta_progress_state_t;

// Whether `stream` is a terminal that understands a bar (TERM is not "dumb").
bool delta_progress_is_terminal(FILE *stream);

// Texts are kept, not copied.
void delta_progress_begin(delta_progress_t *progress, FILE *stream, bool is_terminal, const char *title, const char *unit, int64_t total,
                          double now_seconds);
// Shows the state, but on a terminal at most ten times a second, elsewhere at most once.
void delta_progress_update(delta_progress_t *progress, const delta_progress_state_t *state, double now_seconds);
// Prints a line of its own, above the bar.
void delta_progress_line(delta_progress_t *progress, const char *line);
// Shows the last state, unless nothing was done or it is what was shown last, and leaves the bar standing.
void delta_progress_end(delta_progress_t *progress, const delta_progress_state_t *state, double now_seconds);

#endif // DELTA_CLI_PROGRESS_H_
