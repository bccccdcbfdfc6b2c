// Making, annotating and propagating status values inside the library. Contract of the type: include/delta/status.h.
//
// The one cleanup idiom: before a function acquires anything it uses DELTA_RETURN_IF_ERROR; after the first
// acquisition only DELTA_GOTO_IF_ERROR(status, expression, cleanup), with every local starting at NULL, one `cleanup:`
// label and releases that accept NULL.
#ifndef DELTA_BASE_STATUS_H_
#define DELTA_BASE_STATUS_H_

#include <delta/status.h>

#define DELTA_OK ((delta_status_t)0)

// Makes a status. Control characters and invalid UTF-8 in the formatted text are escaped as \xNN, and the text is cut at a sensible
// length, so names from files can be passed as they are. Falls back to a static instance when memory is short.
DELTA_MUST_USE delta_status_t delta_status_make_at(const char *file, int line, delta_status_code_t code, const char *format, ...)
    DELTA_PRINTF(4, 5);
// delta_status_make(INVALID_ARGUMENT, "input '%s': ...", name)
#define delta_status_make(code, ...) delta_status_made(delta_status_make_at(__FILE__, __LINE__, DELTA_STATUS_##code, __VA_ARGS__))

// A status that was made is never NULL: static analysis must know it to follow error paths.
DELTA_MUST_USE static inline delta_status_t delta_status_made(delta_status_t status) {
  if (!status) __builtin_unreachable();
  return status;
}

// Puts "text: " before the message of a failed status; passes NULL through, without evaluating the text. Consumes and returns `status`.
// delta_status_annotate(status, "node '%s'", name)
#define delta_status_annotate(status, ...)                                                                                \
  __extension__({                                                                                                         \
    delta_status_t delta_status_inner_ = (status);                                                                        \
    delta_status_inner_ ? delta_status_made(delta_status_prefix(delta_status_inner_, __VA_ARGS__)) : delta_status_inner_; \
  })
DELTA_MUST_USE delta_status_t delta_status_prefix(delta_status_t status, const char *format, ...) DELTA_PRINTF(2, 3);

// Keeps the first error of the two and frees the other.
DELTA_MUST_USE delta_status_t delta_status_join(delta_status_t first, delta_status_t second);

// Returns a failed status from the calling function.
#define DELTA_RETURN_IF_ERROR(expression)                \
  do {                                                   \
    delta_status_t delta_status_local_ = (expression);   \
    if (delta_status_local_) return delta_status_local_; \
  } while (0)

// Stores a failed status in `status` and goes to `label`.
#define DELTA_GOTO_IF_ERROR(status, expression, label) \
  do {                                                 \
    (status) = (expression);                           \
    if (status) goto label;                            \
  } while (0)

#endif // DELTA_BASE_STATUS_H_
