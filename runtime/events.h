// Events: what was decided beside the plan, and why, as texts for whoever reads reports and metrics. A fixed number of them, so that telling of a trouble never fails; the
// last place says how many more there were.
#ifndef DELTA_RUNTIME_EVENTS_H_
#define DELTA_RUNTIME_EVENTS_H_

#include <stddef.h>

#include <delta/export.h>

enum { DELTA_EVENTS_MOST = 16, DELTA_EVENT_BYTES = 320 };

typedef struct delta_events {
  char texts[DELTA_EVENTS_MOST][DELTA_EVENT_BYTES];
  const char *pointers[DELTA_EVENTS_MOST]; // to the texts
  size_t count, left_out;
} delta_events_t;

// Adds a line; one that is too long is cut.
void delta_events_add(delta_events_t *events, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Adds all of another list.
void delta_events_append(delta_events_t *events, const char *const *texts, size_t count);
// Forgets the first `count`.
void delta_events_drop(delta_events_t *events, size_t count);

#endif // DELTA_RUNTIME_EVENTS_H_
