// Integer solver: a folder below TMPDIR takes the program and its solution, and goes when the call ends.
#include "runtime/integer_solver.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

extern char **environ;

enum { PATH_BYTES = 1024, SOLUTION_LIMIT_BYTES = 64 << 20 };
static const double default_limit_seconds = 10;
// The program looks at its clock now and then only.
static const double patience_seconds = 10;

typedef struct cbc_files {
  char folder[PATH_BYTES], program[PATH_BYTES + 16], solution[PATH_BYTES + 16];
} cbc_files_t;

bool delta_cbc_is_installed(void) {
  const char *path = getenv("PATH");
  char candidate[PATH_BYTES];
  while (path && *path) {
    const size_t length = strcspn(path, ":");
    if (length > 0 && snprintf(candidate, sizeof candidate, "%.*s/cbc", (int)length, path) < (int)sizeof candidate &&
        access(candidate, X_OK) == 0)
      return true;
    path += length + (path[length] == ':');
  }
  return false;
}

static delta_status_t make_files(const char *program, cbc_files_t *files) {
  const char *base = getenv("TMPDIR");
  snprintf(files->folder, sizeof files->folder, "%s/delta-cbc-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(files->folder)) {
    const int error = errno;
    files->folder[0] = '\0';
    return delta_status_make(IO, "no folder for the integer program: %s", strerror(error));
  }
  snprintf(files->program, sizeof files->program, "%s/program.lp", files->folder);
  snprintf(files->solution, sizeof files->solution, "%s/solution", files->folder);
  FILE *file = fopen(files->program, "w");
  if (!file) return delta_status_make(IO, "'%s' cannot be written: %s", files->program, strerror(errno));
  const size_t length = strlen(program);
  const bool is_written = fwrite(program, 1, length, file) == length;
  const bool is_closed = fclose(file) == 0;
  return is_written && is_closed ? DELTA_OK : delta_status_make(IO, "'%s' cannot be written: %s", files->program, strerror(errno));
}

static void remove_files(const cbc_files_t *files) {
  if (!files->folder[0]) return;
  unlink(files->program);
  unlink(files->solution);
  rmdir(files->folder);
}

// Waits for the process; one that does not end in time is killed.
static delta_status_t await_end(pid_t process, double limit_seconds) {
  const double last_seconds = delta_clock_seconds() + limit_seconds + patience_seconds;
  int ended = 0;
  pid_t found;
  while ((found = waitpid(process, &ended, WNOHANG)) == 0 || (found < 0 && errno == EINTR)) {
    if (delta_clock_seconds() > last_seconds) {
      kill(process, SIGKILL);
      waitpid(process, &ended, 0);
      return DELTA_OK; // without a solution
    }
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  if (found == process && WIFEXITED(ended) && WEXITSTATUS(ended) == 0) return DELTA_OK;
  return delta_status_make(IO, "the program 'cbc' failed on an integer program (exit status %d)",
                           WIFEXITED(ended) ? WEXITSTATUS(ended) : -1);
}

static delta_status_t run_program(const cbc_files_t *files, double limit_seconds) {
  char limit[32];
  snprintf(limit, sizeof limit, "%.3f", limit_seconds);
  char *const arguments[] = {"cbc",      (char *)files->program,  "timeMode", "elapsed", "seconds", limit, "solve",
                             "solution", (char *)files->solution, NULL};
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return delta_status_make(OUT_OF_MEMORY, "no memory to start 'cbc'");
  int error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  if (!error) error = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t process = 0;
  if (!error) error = posix_spawnp(&process, "cbc", &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error) return delta_status_make(NOT_FOUND, "the program 'cbc' cannot be started: %s (Debian: coinor-cbc)", strerror(error));
  return await_end(process, limit_seconds);
}

// The first line says how it ended; then a line per variable: a number, its name, its value, its reduced cost. Zeros are left out.
static void parse_solution(char *text, double *values, size_t value_count, delta_integer_solution_t *out_solution) {
  out_solution->is_optimal = strncmp(text, "Optimal", 7) == 0;
  out_solution->is_infeasible = strncmp(text, "Infeasible", 10) == 0 || strncmp(text, "Integer infeasible", 18) == 0;
  const char *first_end = strchr(text, '\n'), *none = strstr(text, "no integer solution");
  const bool has_none = none && (!first_end || none < first_end);
  out_solution->is_found = out_solution->is_optimal || (strncmp(text, "Stopped", 7) == 0 && !has_none);
  for (const char *line = first_end; line && out_solution->is_found; line = strchr(line + 1, '\n')) {
    unsigned long variable;
    double value;
    if (sscanf(line + 1, " %*u x%lu %lf", &variable, &value) == 2 && variable < value_count) values[variable] = value;
  }
}

static delta_status_t solve(void *self, const char *program, double *values, size_t value_count, delta_integer_solution_t *out_solution) {
  const delta_cbc_t *cbc = self;
  cbc_files_t files = {.folder = ""};
  char *text = NULL;
  size_t size_bytes = 0;
  *out_solution = (delta_integer_solution_t){0};
  memset(values, 0, value_count * sizeof *values);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, make_files(program, &files), cleanup);
  DELTA_GOTO_IF_ERROR(status, run_program(&files, cbc->limit_seconds > 0 ? cbc->limit_seconds : default_limit_seconds), cleanup);
  status = delta_file_read_all(files.solution, SOLUTION_LIMIT_BYTES, cbc->allocator, &text, &size_bytes);
  if (delta_status_code(status) == DELTA_STATUS_NOT_FOUND) { // it was stopped before it wrote any
    delta_status_free(status);
    status = DELTA_OK;
    goto cleanup;
  }
  if (!status) parse_solution(text, values, value_count, out_solution);
cleanup:
  delta_release(cbc->allocator, text);
  remove_files(&files);
  return status;
}

delta_integer_solver_t delta_cbc_solver(delta_cbc_t *cbc) { return (delta_integer_solver_t){.self = cbc, .solve = solve}; }
