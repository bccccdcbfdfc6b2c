// JSON writer: one value after another onto a text; commas and indentation follow from what has been written.
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

// 24 bytes hold 17 digits; the rest is for compilers that count what %g could print for other precisions.
enum { DOUBLE_TEXT_BYTES = 320, DOUBLE_MOST_DIGITS = 17 };

void delta_json_writer_init(delta_json_writer_t *writer, delta_text_t *out, bool compact) {
  *writer = (delta_json_writer_t){.out = out, .compact = compact};
}

static void write_text(delta_json_writer_t *writer, const char *text) {
  if (!writer->status) writer->status = delta_text_append(writer->out, "%s", text);
}

static void write_quoted(delta_json_writer_t *writer, const char *text) {
  write_text(writer, "\"");
  const char *run = text;
  for (const char *cursor = text; !writer->status; ++cursor) {
    const unsigned char character = (unsigned char)*cursor;
    if (character >= 0x20 && character != '"' && character != '\\') continue;
    if (cursor > run) writer->status = delta_text_append(writer->out, "%.*s", (int)(cursor - run), run);
    run = cursor + 1;
    if (character == 0) break;
    if (!writer->status) writer->status = delta_text_append(writer->out, character < 0x20 ? "\\u%04x" : "\\%c", character);
  }
  write_text(writer, "\"");
}

static bool on_one_line(const delta_json_writer_t *writer) { return writer->compact || writer->inline_array[writer->depth]; }

static void write_line_start(delta_json_writer_t *writer) {
  if (on_one_line(writer) || writer->status) return;
  writer->status = delta_text_append(writer->out, "\n%*s", (int)(2 * writer->depth), "");
}

// What stands before every value: comma, line, key.
static void write_prefix(delta_json_writer_t *writer, const char *key) {
  if (writer->needs_comma[writer->depth]) write_text(writer, writer->inline_array[writer->depth] && !writer->compact ? ", " : ",");
  if (writer->depth > 0) write_line_start(writer);
  writer->needs_comma[writer->depth] = true;
  if (!key) return;
  write_quoted(writer, key);
  write_text(writer, writer->compact ? ":" : ": ");
}

static void begin_container(delta_json_writer_t *writer, const char *key, const char *bracket, bool inline_array) {
  if (writer->status) return;
  if (writer->depth + 1 >= sizeof writer->needs_comma / sizeof *writer->needs_comma) {
    writer->status = delta_status_make(INTERNAL, "JSON nested more than %u deep", writer->depth);
    return;
  }
  write_prefix(writer, key);
  write_text(writer, bracket);
  const bool inherited = writer->inline_array[writer->depth];
  ++writer->depth;
  writer->needs_comma[writer->depth] = false;
  writer->inline_array[writer->depth] = inline_array || inherited;
}

static void end_container(delta_json_writer_t *writer, const char *bracket) {
  if (writer->status) return;
  if (writer->depth == 0) {
    writer->status = delta_status_make(INTERNAL, "JSON container ended that was not begun");
    return;
  }
  const bool separate_line = !on_one_line(writer) && writer->needs_comma[writer->depth];
  --writer->depth;
  if (separate_line) write_line_start(writer);
  write_text(writer, bracket);
}

void delta_json_begin_object(delta_json_writer_t *writer, const char *key) { begin_container(writer, key, "{", false); }
void delta_json_begin_inline_object(delta_json_writer_t *writer, const char *key) { begin_container(writer, key, "{", true); }
void delta_json_end_object(delta_json_writer_t *writer) { end_container(writer, "}"); }
void delta_json_begin_array(delta_json_writer_t *writer, const char *key) { begin_container(writer, key, "[", false); }
void delta_json_begin_inline_array(delta_json_writer_t *writer, const char *key) { begin_container(writer, key, "[", true); }
void delta_json_end_array(delta_json_writer_t *writer) { end_container(writer, "]"); }

static void write_scalar(delta_json_writer_t *writer, const char *key, const char *text) {
  if (writer->status) return;
  write_prefix(writer, key);
  write_text(writer, text);
}

void delta_json_write_int64(delta_json_writer_t *writer, const char *key, int64_t value) {
  char text[DOUBLE_TEXT_BYTES];
  snprintf(text, sizeof text, "%lld", (long long)value);
  write_scalar(writer, key, text);
}

// The fewest digits that read back equal. If some number of digits suffices, so does every larger one: hence the bisection.
static void format_shortest(double value, char text[DOUBLE_TEXT_BYTES]) {
  int low = 1, high = DOUBLE_MOST_DIGITS;
  while (low < high) {
    const int digits = (low + high) / 2;
    snprintf(text, DOUBLE_TEXT_BYTES, "%.*g", digits, value);
    if (strtod(text, NULL) == value) {
      high = digits;
    } else {
      low = digits + 1;
    }
  }
  snprintf(text, DOUBLE_TEXT_BYTES, "%.*g", low, value);
  // A program that embeds the library may have set a locale with another decimal point.
  const char *point = localeconv()->decimal_point;
  char *found = strstr(text, point);
  if (!found) return;
  *found = '.';
  memmove(found + 1, found + strlen(point), strlen(found + strlen(point)) + 1);
}

void delta_json_write_double(delta_json_writer_t *writer, const char *key, double value) {
  if (!isfinite(value)) {
    delta_json_write_null(writer, key);
    return;
  }
  char text[DOUBLE_TEXT_BYTES];
  format_shortest(value, text);
  write_scalar(writer, key, text);
}

void delta_json_write_bool(delta_json_writer_t *writer, const char *key, bool value) {
  write_scalar(writer, key, value ? "true" : "false");
}

void delta_json_write_string(delta_json_writer_t *writer, const char *key, const char *text) {
  if (writer->status) return;
  write_prefix(writer, key);
  write_quoted(writer, text);
}

void delta_json_write_null(delta_json_writer_t *writer, const char *key) { write_scalar(writer, key, "null"); }

delta_status_t delta_json_writer_finish(delta_json_writer_t *writer) {
  if (!writer->status && writer->depth > 0) writer->status = delta_status_make(INTERNAL, "JSON container not ended");
  delta_status_t status = writer->status;
  writer->status = DELTA_OK;
  return status;
}
