// Status: how every fallible call of the library reports what went wrong.
//
// A status is pointer-sized. NULL means success. Anything else is owned by whoever holds it and must be
// released exactly once, with delta_status_free() or by passing it on. A status carries a code for
// programs and one line of text for people: which object, what was wanted, what there is, what to do next.
//
// Thread-safety: a status belongs to one thread at a time; the functions keep no shared state.
#ifndef DELTA_STATUS_H_
#define DELTA_STATUS_H_

#include <stdbool.h>

#include <delta/export.h>

#ifdef __cplusplus
extern "C" {
#endif

// One row per code: identifier, text used in messages.
#define DELTA_STATUS_CODES(X)                                                                              \
  X(OK, "ok")                                                                                              \
  X(INVALID_ARGUMENT, "invalid argument") /* an option or a call's argument is wrong                    */ \
  X(NOT_FOUND, "not found")               /* a file, a name, a device is absent                         */ \
  X(MALFORMED, "malformed")               /* a file's content breaks its format's rules                 */ \
  X(UNSUPPORTED, "unsupported")           /* well formed, but outside what Delta does                   */ \
  X(OUT_OF_MEMORY, "out of memory")       /* an allocation failed or passed a cap                       */ \
  X(DOES_NOT_FIT, "does not fit")         /* no schedule within the budget was found                    */ \
  X(IO, "input/output error")             /* reading or writing failed                                  */ \
  X(MISMATCH, "mismatch")                 /* two things that must agree (plan and model) do not         */ \
  X(NOT_A_NUMBER, "not a number")         /* a loss became NaN or infinite                              */ \
  X(INTERRUPTED, "interrupted")           /* the caller asked to stop                                   */ \
  X(INTERNAL, "internal error")           /* a broken promise of ours                                   */

typedef enum delta_status_code {
#define DELTA_STATUS_ENUM(name, text) DELTA_STATUS_##name,
  DELTA_STATUS_CODES(DELTA_STATUS_ENUM)
#undef DELTA_STATUS_ENUM
      DELTA_STATUS_CODE_COUNT
} delta_status_code_t;

typedef struct delta_status delta_status_object_t;
// NULL is success. The result of a call that returns a status must be used.
typedef delta_status_object_t *delta_status_t;

// The code of `status`; DELTA_STATUS_OK for NULL.
DELTA_API delta_status_code_t delta_status_code(delta_status_t status);

// One line of text without a newline or control characters, valid until the status is freed. Never NULL: "ok" for NULL.
DELTA_API const char *delta_status_message(delta_status_t status);

// The text of a code, such as "not found". Never NULL.
DELTA_API const char *delta_status_code_text(delta_status_code_t code);

// Releases `status`. NULL is fine.
DELTA_API void delta_status_free(delta_status_t status);

#ifdef __cplusplus
}
#endif

#endif // DELTA_STATUS_H_
