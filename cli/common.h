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

// A program: its options, and what it does with them.
typedef struct delta_cli_command {
  const delta_program_t *program;
  void *settings; // with defaults
  // What is wrong with the command line beyond single options: exit status 2.
  delta_status_t (*check)(const void *settings, const delta_options_t *options);
  delta_status_t (*run)(const void *settings, const delta_options_t *options, delta_allocator_t allocator);
} delta_cli_command_t;

// Parses, answers --help and --version, checks and runs. Gives the exit status.
int delta_cli_main(const delta_cli_command_t *command, int argc, char **argv);

// Where notes and warnings of the library go.
typedef struct delta_cli_log {
  const char *program;
  bool notes_on_stdout; // "note: ..." lines; else notes are dropped unless verbose
  bool verbose;         // everything, on stderr what is not on stdout
} delta_cli_log_t;
delta_log_sink_t delta_cli_log_sink(delta_cli_log_t *log); // Borrows `log`.

#endif // DELTA_CLI_COMMON_H_
