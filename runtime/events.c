// Texts stand in place; pointers to them are set as they are added.
#include "runtime/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void delta_events_add(delta_events_t *events, const char *format, ...) {
  if (events->count == DELTA_EVENTS_MOST) {
    ++events->left_out;
    snprintf(events->texts[DELTA_EVENTS_MOST - 1], DELTA_EVENT_BYTES, "and %zu more", events->left_out + 1);
    return;
  }
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(events->texts[events->count], DELTA_EVENT_BYTES, format, arguments);
  va_end(arguments);
  events->pointers[events->count] = events->texts[events->count];
  ++events->count;
}

void delta_events_append(delta_events_t *events, const char *const *texts, size_t count) {
  for (size_t i = 0; i < count; ++i) delta_events_add(events, "%s", texts[i]);
}

void delta_events_drop(delta_events_t *events, size_t count) {
  if (count >= events->count) {
    events->count = events->left_out = 0;
    return;
  }
  memmove(events->texts, events->texts + count, (events->count - count) * sizeof *events->texts);
  events->count -= count;
}
