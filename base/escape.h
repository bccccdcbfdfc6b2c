// Escape: makes text from outside (names in files, paths) safe to show on one line.
#ifndef DELTA_BASE_ESCAPE_H_
#define DELTA_BASE_ESCAPE_H_

#include <stddef.h>

// Copies `text` of `length` bytes into `out` (capacity > 0, including the terminating zero). Control characters and bytes that are not
// UTF-8 become \xNN. What does not fit is cut between characters and replaced by "...". Returns the length written.
size_t delta_escape(const char *text, size_t length, char *out, size_t capacity);

#endif // DELTA_BASE_ESCAPE_H_
