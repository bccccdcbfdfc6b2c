// What both programs share: messages on stderr, exit statuses.
#ifndef DELTA_CLI_COMMON_H_
#define DELTA_CLI_COMMON_H_

#include <stdbool.h>

#include <delta/log.h>
#include <delta/status.h>

#include "cli/options.h"

// X(identifier, status, meaning)
#define DELTA_EXITS(X) \
  X(DONE, 0, "done") X(ERROR, 1, "an error, named on stderr") X(USAGE, 2, "wrong usage") X(DOES_NOT_FIT, 3, "does not fit the budget")
enum {
#define DELTA_EXIT_ENUM(id, status, meaning) DELTA_EXIT_##id = status,
  DELTA_EXITS(DELTA_EXIT_ENUM)
#undef DELTA_EXIT_ENUM
};

// Prints a failed status as one line "PROGRAM: MESSAGE" on stderr, frees it, and gives the exit status for its code. OK gives 0.
int delta_cli_finish(const char *program, delta_status_t status);
// The same for a usage error: exit status 2 and a pointer to --help.
int delta_cli_usage(const char *program, delta_status_t status);

// Answers --help and --version on stdout.
DELTA_MUST_USE delta_status_t delta_cli_inform(const delta_program_t *program, delta_options_request_t request,
                                               delta_allocator_t allocator);

// Where notes and warnings of the library go.
typedef struct delta_cli_log {
  const char *program;
  bool notes_on_stdout; // "note: ..." lines; else notes are dropped unless verbose
  bool verbose;         // everything, on stderr what is not on stdout
} delta_cli_log_t;
delta_log_sink_t delta_cli_log_sink(delta_cli_log_t *log); // Borrows `log`.

#endif // DELTA_CLI_COMMON_H_
