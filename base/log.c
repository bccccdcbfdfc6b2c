// Log: formats one line on the stack, so that logging needs no memory and cannot fail.
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/escape.h"

enum { LINE_BYTES = 4096 };

void delta_log(delta_log_sink_t sink, delta_log_level_t level, const char *format, ...) {
  if (!sink.write) return;
  char raw[LINE_BYTES], line[LINE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(raw, sizeof raw, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  delta_escape(raw, (size_t)length < sizeof raw ? (size_t)length : sizeof raw - 1, line, sizeof line);
  sink.write(sink.self, level, line);
}
