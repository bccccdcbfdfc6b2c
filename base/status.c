// Status: a code and one line of text in one heap block. Statuses take memory from malloc, not from an allocator: they are made where
// an allocator has just failed, and they outlive the objects that made them. When even that fails a static instance stands in.
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"

// Long enough for a list of operators, short enough for a terminal; a name in a hostile file can be megabytes long.
enum { MESSAGE_BYTES = 8192 };

struct delta_status {
  delta_status_code_t code;
  bool is_static; // not an address: a module has a static instance of its own, and its statuses come here
  char message[];
};

static struct delta_status status_without_memory = {DELTA_STATUS_OUT_OF_MEMORY, true};
static const char message_without_memory[] = "out of memory while describing an error";

// Builds a status from text that is already escaped and fits MESSAGE_BYTES.
static delta_status_t status_from_text(delta_status_code_t code, const char *text, size_t length) {
  delta_status_t status = malloc(sizeof *status + length + 1);
  if (!status) return &status_without_memory;
  status->code = code;
  status->is_static = false;
  memcpy(status->message, text, length);
  status->message[length] = 0;
  return status;
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// Formats, escapes and cuts. Returns the length written to `out`.
static size_t format_escaped(char out[MESSAGE_BYTES], const char *format, va_list arguments) DELTA_PRINTF(2, 0);
static size_t format_escaped(char out[MESSAGE_BYTES], const char *format, va_list arguments) {
  char raw[MESSAGE_BYTES];
  int length = vsnprintf(raw, sizeof raw, format, arguments);
  if (length < 0) return (size_t)snprintf(out, MESSAGE_BYTES, "(message could not be formatted)");
  size_t raw_bytes = (size_t)length < sizeof raw ? (size_t)length : sizeof raw - 1;
  size_t written = delta_escape(raw, raw_bytes, out, MESSAGE_BYTES);
  if ((size_t)length > raw_bytes) memcpy(out + written - 3, "...", 3);
  return written;
}

delta_status_t delta_status_make_at(const char *file, int line, delta_status_code_t code, const char *format, ...) {
  char text[MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  size_t length = format_escaped(text, format, arguments);
  va_end(arguments);
  // Only a broken promise of ours needs the place in the source; other messages are about the user's objects.
  if (code == DELTA_STATUS_INTERNAL && length < MESSAGE_BYTES - 64) {
    length += (size_t)snprintf(text + length, MESSAGE_BYTES - length, " [%.40s:%d]", file_name(file), line);
  }
  return status_from_text(code, text, length);
}

delta_status_t delta_status_prefix(delta_status_t status, const char *format, ...) {
  if (status->is_static) return status;
  char text[MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  size_t prefix_bytes = format_escaped(text, format, arguments);
  va_end(arguments);
  // The message says what is wrong, the prefix only where: when there is no room for both, the prefix goes.
  size_t message_bytes = strlen(status->message), length = prefix_bytes + 2 + message_bytes;
  if (length >= sizeof text) return status;
  memcpy(text + prefix_bytes, ": ", 2);
  memcpy(text + prefix_bytes + 2, status->message, message_bytes);
  delta_status_t annotated = status_from_text(status->code, text, length);
  if (annotated->is_static) return status;
  delta_status_free(status);
  return annotated;
}

delta_status_t delta_status_join(delta_status_t first, delta_status_t second) {
  if (!first) return second;
  delta_status_free(second);
  return first;
}

delta_status_code_t delta_status_code(delta_status_t status) { return status ? status->code : DELTA_STATUS_OK; }

const char *delta_status_message(delta_status_t status) {
  if (!status) return delta_status_code_text(DELTA_STATUS_OK);
  return status->is_static ? message_without_memory : status->message;
}

const char *delta_status_code_text(delta_status_code_t code) {
  static const char *const texts[DELTA_STATUS_CODE_COUNT] = {
#define DELTA_STATUS_TEXT(name, text) text,
      DELTA_STATUS_CODES(DELTA_STATUS_TEXT)
#undef DELTA_STATUS_TEXT
  };
  return (unsigned)code < DELTA_STATUS_CODE_COUNT ? texts[code] : "unknown code";
}

void delta_status_free(delta_status_t status) {
  if (status && !status->is_static) free(status);
}
