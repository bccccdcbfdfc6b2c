// Text: a growable string, globs, sizes for people.
#ifndef DELTA_BASE_TEXT_H_
#define DELTA_BASE_TEXT_H_

#include <stdint.h>

#include "base/array.h"

// A zero-terminated string under construction. text.items is NULL until the first append.
typedef struct delta_text {
  delta_allocator_t allocator;
  char *items; // Owned.
  size_t count, capacity;
} delta_text_t;

void delta_text_init(delta_text_t *text, delta_allocator_t allocator);
void delta_text_deinit(delta_text_t *text);
DELTA_MUST_USE delta_status_t delta_text_append(delta_text_t *text, const char *format, ...) DELTA_PRINTF(2, 3);

// Shell-like match of the whole of `name`: * any run (also of '/' and '.'), ? one character, [abc] [a-z] [!a] classes. Linear in time.
bool delta_glob_match(const char *pattern, const char *name);

// "3.20 GiB", "412 MiB", "17 B": binary units, three significant digits. `buffer` is returned.
enum { DELTA_SIZE_TEXT_BYTES = 32 };
const char *delta_size_text(uint64_t size_bytes, char buffer[DELTA_SIZE_TEXT_BYTES]);

// Parses "8GiB", "800MB", "4096", "1.5 GB": KB MB GB TB are powers of 1000, KiB MiB GiB TiB powers of 1024, B or none bytes.
// INVALID_ARGUMENT quotes the text.
DELTA_MUST_USE delta_status_t delta_size_parse(const char *text, uint64_t *out_size_bytes);

// The ending of a counted noun: "1 tensor", "2 tensors".
#define DELTA_PLURAL(count) ((count) == 1 ? "" : "s")

// Whether `text` ends with `end`.
bool delta_text_ends_with(const char *text, const char *end);

#endif // DELTA_BASE_TEXT_H_
