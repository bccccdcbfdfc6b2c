// Progress: one text is composed for both forms; the terminal adds the bar.
#include "cli/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

enum { LINE_BYTES = 512, DEFAULT_WIDTH = 80, WIDE = 100, SHORT_BAR = 8, LONG_BAR = 20, BAR_FRAME = 3 };

static const double terminal_interval_seconds = 0.1, plain_interval_seconds = 1;

// A line that is cut when it is full.
typedef struct progress_text {
  char bytes[LINE_BYTES];
  size_t count;
} progress_text_t;

static void add(progress_text_t *text, const char *format, ...) DELTA_PRINTF(2, 3);

static void add(progress_text_t *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int added = vsnprintf(text->bytes + text->count, LINE_BYTES - text->count, format, arguments);
  va_end(arguments);
  if (added > 0) text->count += (size_t)added;
  if (text->count >= LINE_BYTES) text->count = LINE_BYTES - 1;
}

bool delta_progress_is_terminal(FILE *stream) {
  const char *terminal = getenv("TERM");
  return isatty(fileno(stream)) && terminal && strcmp(terminal, "dumb") != 0;
}

static size_t terminal_width(FILE *stream) {
  struct winsize size = {0};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : DEFAULT_WIDTH;
}

void delta_progress_begin(delta_progress_t *progress, FILE *stream, bool is_terminal, const char *title, const char *unit, int64_t total,
                          double now_seconds) {
  *progress = (delta_progress_t){.stream = stream,
                                 .is_terminal = is_terminal,
                                 .title = title,
                                 .unit = unit,
                                 .total = total,
                                 .start_seconds = now_seconds,
                                 .shown_done = -1,
                                 .shown_seconds = now_seconds};
}

// "0:07", "12:34", "1:02:03".
static void add_duration(progress_text_t *text, double seconds) {
  int64_t whole = (int64_t)(seconds + 0.5), hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours > 0) {
    add(text, "%" PRId64 ":%02" PRId64 ":%02" PRId64, hours, minutes, whole % 60);
  } else {
    add(text, "%" PRId64 ":%02" PRId64, minutes, whole % 60);
  }
}

static void add_count(const delta_progress_t *progress, const delta_progress_state_t *state, progress_text_t *text) {
  add(text, "%" PRId64, state->done);
  if (progress->total > 0) add(text, "/%" PRId64, progress->total);
}

// Everything after the count, each part behind `separator`.
static void add_facts(const delta_progress_t *progress, const delta_progress_state_t *state, double now_seconds, const char *separator,
                      progress_text_t *text) {
  char used[DELTA_SIZE_TEXT_BYTES], budget[DELTA_SIZE_TEXT_BYTES];
  double elapsed = now_seconds - progress->start_seconds;
  if (!isnan(state->loss)) add(text, "%sloss %.4g", separator, state->loss);
  if (state->samples_per_second > 0) {
    add(text, "%s%.*f samples/s", separator, state->samples_per_second < 10 ? 2 : 0, state->samples_per_second);
  }
  if (state->used_bytes > 0) add(text, "%s%s", separator, delta_size_text(state->used_bytes, used));
  if (state->used_bytes > 0 && state->budget_bytes > 0) add(text, " of %s", delta_size_text(state->budget_bytes, budget));
  add(text, "%s", separator);
  if (progress->total > state->done && state->done > 0) {
    add_duration(text, elapsed * (double)(progress->total - state->done) / (double)state->done);
    add(text, " left");
  } else {
    add_duration(text, elapsed);
  }
}

// "[#####.....] ", of one length however long the text beside it is.
static void add_bar(const delta_progress_t *progress, const delta_progress_state_t *state, size_t length, progress_text_t *text) {
  double part = (double)state->done / (double)progress->total;
  size_t filled = (size_t)((double)length * fmin(fmax(part, 0), 1));
  add(text, "[");
  for (size_t i = 0; i < length; ++i) add(text, "%c", i < filled ? '#' : '.');
  add(text, "] ");
}

static void show_bar(delta_progress_t *progress, const delta_progress_state_t *state, double now_seconds) {
  progress_text_t facts = {.count = 0}, line = {.count = 0};
  const size_t width = terminal_width(progress->stream) - 1; // the last column would wrap the cursor
  const bool is_wide = width >= WIDE;
  add_count(progress, state, &facts);
  if (is_wide && state->epoch > 0) add(&facts, "  epoch %" PRId64, state->epoch);
  add_facts(progress, state, now_seconds, "  ", &facts);
  const size_t length = is_wide ? LONG_BAR : SHORT_BAR;
  if (is_wide) add(&line, "%s ", progress->title);
  if (progress->total > 0 && line.count + length + BAR_FRAME + facts.count <= width) add_bar(progress, state, length, &line);
  add(&line, "%s", facts.bytes);
  if (line.count > width) line.count = width;
  fprintf(progress->stream, "\r%.*s\033[K", (int)line.count, line.bytes);
  progress->has_bar = true;
}

static void show_plain(delta_progress_t *progress, const delta_progress_state_t *state, double now_seconds) {
  progress_text_t line = {.count = 0};
  add(&line, "%s: ", progress->title);
  if (state->epoch > 0) add(&line, "epoch %" PRId64 ", ", state->epoch);
  add(&line, "%s ", progress->unit);
  add_count(progress, state, &line);
  add_facts(progress, state, now_seconds, ", ", &line);
  fprintf(progress->stream, "%s\n", line.bytes);
}

static void show(delta_progress_t *progress, const delta_progress_state_t *state, double now_seconds) {
  progress->shown_seconds = now_seconds;
  progress->shown_done = state->done;
  (progress->is_terminal ? show_bar : show_plain)(progress, state, now_seconds);
  fflush(progress->stream);
}

void delta_progress_update(delta_progress_t *progress, const delta_progress_state_t *state, double now_seconds) {
  double interval = progress->is_terminal ? terminal_interval_seconds : plain_interval_seconds;
  if (progress->total > 0 && state->done >= progress->total) return; // the end shows it
  if (now_seconds - progress->shown_seconds >= interval) show(progress, state, now_seconds);
}

void delta_progress_line(delta_progress_t *progress, const char *line) {
  // The bar is overwritten; the next update draws it again below.
  fprintf(progress->stream, "%s%s\n", progress->has_bar ? "\r\033[K" : "", line);
  fflush(progress->stream);
  progress->has_bar = false;
}

void delta_progress_end(delta_progress_t *progress, const delta_progress_state_t *state, double now_seconds) {
  if (state->done > 0 && (progress->is_terminal || state->done != progress->shown_done)) show(progress, state, now_seconds);
  if (progress->has_bar) fprintf(progress->stream, "\n");
  fflush(progress->stream);
  progress->has_bar = false;
}
