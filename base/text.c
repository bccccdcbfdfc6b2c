// Text: formatting onto a growable string, glob matching, sizes with units.
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

void delta_text_init(delta_text_t *text, delta_allocator_t allocator) { *text = (delta_text_t){.allocator = allocator}; }

void delta_text_deinit(delta_text_t *text) { delta_array_deinit(text->allocator, text); }

delta_status_t delta_text_append(delta_text_t *text, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  delta_status_t status = DELTA_OK;
  size_t room = text->capacity - text->count;
  int length = vsnprintf(text->items ? text->items + text->count : NULL, room, format, arguments);
  if (length < 0) {
    status = delta_status_make(INTERNAL, "text could not be formatted by '%s'", format);
    goto cleanup;
  }
  if ((size_t)length >= room) {
    DELTA_GOTO_IF_ERROR(status, delta_array_reserve(text->allocator, text, (size_t)length + 1), cleanup);
    vsnprintf(text->items + text->count, text->capacity - text->count, format, again);
  }
  text->count += (size_t)length;
cleanup:
  if (status && text->items) text->items[text->count] = 0; // undo what a first attempt wrote
  va_end(again);
  va_end(arguments);
  return status;
}

// Matches `character` against the class at `pattern` (just behind '['). Returns the position behind ']', or NULL when the class does not
// end and '[' is therefore an ordinary character.
static const char *match_class(const char *pattern, unsigned char character, bool *out_matches) {
  bool negated = *pattern == '!', matches = false;
  if (negated) ++pattern;
  const char *first = pattern;
  for (; *pattern && (*pattern != ']' || pattern == first); ++pattern) {
    unsigned char low = (unsigned char)*pattern, high = low;
    if (pattern[1] == '-' && pattern[2] && pattern[2] != ']') {
      high = (unsigned char)pattern[2];
      pattern += 2;
    }
    matches = matches || (character >= low && character <= high);
  }
  if (!*pattern) return NULL;
  *out_matches = matches != negated;
  return pattern + 1;
}

// Matches one element of the pattern (not '*') against one character. Returns the next element, or NULL when it does not match.
static const char *match_one(const char *pattern, char character) {
  if (*pattern == '[') {
    bool matches = false;
    const char *next = match_class(pattern + 1, (unsigned char)character, &matches);
    if (next) return matches ? next : NULL;
  } else if (*pattern == '?') {
    return pattern + 1;
  }
  return *pattern == character ? pattern + 1 : NULL;
}

// A later '*' makes an earlier one's choice final, so remembering the last one is enough and no pattern takes exponential time.
bool delta_glob_match(const char *pattern, const char *name) {
  const char *after_star = NULL, *retry_name = NULL;
  while (*name) {
    const char *next = NULL;
    if (*pattern == '*') {
      after_star = ++pattern;
      retry_name = name;
    } else if (*pattern && (next = match_one(pattern, *name))) {
      pattern = next;
      ++name;
    } else if (after_star) {
      pattern = after_star;
      name = ++retry_name;
    } else {
      return false;
    }
  }
  while (*pattern == '*') ++pattern;
  return *pattern == 0;
}

const char *delta_size_text(uint64_t size_bytes, char buffer[DELTA_SIZE_TEXT_BYTES]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)size_bytes;
  size_t unit = 0;
  // 1023.5 would print as 1024.
  while (value >= 1023.5 && unit + 1 < sizeof units / sizeof *units) {
    value /= 1024;
    ++unit;
  }
  int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  snprintf(buffer, DELTA_SIZE_TEXT_BYTES, "%.*f %s", decimals, value, units[unit]);
  return buffer;
}

typedef struct size_unit {
  const char *name;
  uint64_t bytes;
} size_unit_t;

static const size_unit_t size_units[] = {
    {"", 1},
    {"B", 1},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
};

static const size_unit_t *find_unit(const char *name) {
  for (size_t i = 0; i < sizeof size_units / sizeof *size_units; ++i) {
    if (strcmp(size_units[i].name, name) == 0) return &size_units[i];
  }
  return NULL;
}

// Reads decimal digits; false when they pass 64 bits. *out_scale becomes 10^(number of digits), as long as that fits too.
static bool read_digits(const char **cursor, uint64_t *out_value, uint64_t *out_scale) {
  *out_value = 0;
  *out_scale = 1;
  for (; **cursor >= '0' && **cursor <= '9'; ++*cursor) {
    uint64_t digit = (uint64_t)(**cursor - '0');
    if (__builtin_mul_overflow(*out_value, 10, out_value) || __builtin_add_overflow(*out_value, digit, out_value)) return false;
    if (__builtin_mul_overflow(*out_scale, 10, out_scale)) *out_scale = 0;
  }
  return true;
}

delta_status_t delta_size_parse(const char *text, uint64_t *out_size_bytes) {
  const char *cursor = text;
  uint64_t whole = 0, fraction = 0, scale = 1, size_bytes = 0;
  bool valid = *cursor >= '0' && *cursor <= '9' && read_digits(&cursor, &whole, &scale);
  scale = 1;
  if (valid && *cursor == '.') {
    ++cursor;
    valid = *cursor >= '0' && *cursor <= '9' && read_digits(&cursor, &fraction, &scale) && scale > 0;
  }
  if (valid && *cursor == ' ') ++cursor;
  const size_unit_t *unit = valid ? find_unit(cursor) : NULL;
  if (!unit) {
    return delta_status_make(INVALID_ARGUMENT, "'%s' is not a size; write a number and a unit, such as 8GiB, 800MB or 4096", text);
  }
  uint64_t part_bytes = (uint64_t)((long double)fraction / (long double)scale * (long double)unit->bytes);
  if (__builtin_mul_overflow(whole, unit->bytes, &size_bytes) || __builtin_add_overflow(size_bytes, part_bytes, &size_bytes)) {
    return delta_status_make(INVALID_ARGUMENT, "size '%s' is larger than 16 EiB", text);
  }
  *out_size_bytes = size_bytes;
  return DELTA_OK;
}

bool delta_text_ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}
