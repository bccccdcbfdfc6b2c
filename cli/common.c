// Messages and exit statuses.
#include "cli/common.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Prints a failed status as one line "PROGRAM: MESSAGE" on stderr, frees it, and gives the exit status for its code.
static int finish(const char *program, delta_status_t status) {
  if (!status) return DELTA_EXIT_DONE;
  fflush(stdout);
  fprintf(stderr, "%s: %s\n", program, delta_status_message(status));
  int exit_status = delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT ? DELTA_EXIT_DOES_NOT_FIT : DELTA_EXIT_ERROR;
  delta_status_free(status);
  return exit_status;
}

// The same for a usage error, with a pointer to --help.
static int finish_usage(const char *program, delta_status_t status) {
  if (!status) return DELTA_EXIT_DONE;
  fprintf(stderr, "%s: %s (see %s --help)\n", program, delta_status_message(status), program);
  delta_status_free(status);
  return DELTA_EXIT_USAGE;
}

// Answers --help and --version on stdout.
static delta_status_t inform(const delta_program_t *program, delta_options_request_t request, delta_allocator_t allocator) {
  if (request == DELTA_OPTIONS_VERSION) {
    printf("%s %s\n", program->name, program->version);
    return DELTA_OK;
  }
  enum { WIDTH = 100 };
  delta_text_t text;
  delta_text_init(&text, allocator);
  delta_status_t status = delta_options_help(program, WIDTH, &text);
  if (!status) fputs(text.items, stdout);
  delta_text_deinit(&text);
  return status;
}

// Compute threads wait for their next piece of work by spinning, which the OpenMP runtime does for milliseconds unless told otherwise when the process starts: on a machine that
// runs anything else, they then take the processor from the thread they wait for. So the program starts itself again with a bound of some ten
// microseconds, which is longer than the gaps between kernels. A user's own setting is left alone, and if starting again fails nothing is lost but time.
static void bound_spinning(char **argv) {
  if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
  if (setenv("GOMP_SPINCOUNT", "5000", 0) == 0) execv("/proc/self/exe", argv);
}

// Writes out what stdout still holds. A disk that is full makes a success an error.
static int flush_output(const char *program, int exit_status) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return exit_status;
  fprintf(stderr, "%s: cannot write to stdout: %s\n", program, strerror(errno));
  return exit_status == DELTA_EXIT_DONE ? DELTA_EXIT_ERROR : exit_status;
}

// A reader that went away and a file that may not grow further are errors of the write, with a message and with what was begun taken back, and not the
// end of the process.
static void ignore_write_signals(void) {
  static const int numbers[] = {SIGPIPE, SIGXFSZ};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) signal(numbers[i], SIG_IGN);
}

int delta_cli_main(const delta_cli_command_t *command, int argc, char **argv) {
  bound_spinning(argv);
  ignore_write_signals();
  delta_allocator_t allocator = delta_allocator_system();
  const delta_program_t *program = command->program;
  delta_options_t options = {0};
  int exit_status;
  delta_status_t status = delta_options_parse(program, argc, argv, command->settings, allocator, &options);
  if (!status && options.request == DELTA_OPTIONS_RUN) status = command->check(command->settings, &options);
  if (status) {
    exit_status = finish_usage(program->name, status);
  } else if (options.request == DELTA_OPTIONS_RUN) {
    exit_status = finish(program->name, command->run(command->settings, &options, allocator));
  } else {
    exit_status = finish(program->name, inform(program, options.request, allocator));
  }
  delta_options_deinit(&options, command->settings);
  return flush_output(program->name, exit_status);
}

static void write_log(void *self, delta_log_level_t level, const char *line) {
  const delta_cli_log_t *log = self;
  if (level == DELTA_LOG_WARNING) {
    fprintf(stderr, "%s: warning: %s\n", log->program, line);
  } else if (level == DELTA_LOG_NOTE && log->notes_on_stdout) {
    printf("note: %s\n", line);
  } else if (log->verbose) {
    fprintf(stderr, "%s: %s\n", log->program, line);
  }
}

delta_log_sink_t delta_cli_log_sink(delta_cli_log_t *log) { return (delta_log_sink_t){.self = log, .write = write_log}; }
