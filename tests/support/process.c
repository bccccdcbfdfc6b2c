#include "tests/support/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/sanitized.h"

enum { OUTPUT, ERROR, STREAMS };

static double now_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double seconds_of(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec * 1e-6; }

bool delta_process_is_plain_build(void) {
#ifdef DELTA_TEST_SANITIZED
  return false;
#else
  return true;
#endif
}

static _Noreturn void run_child(const delta_process_t *process, int pipes[STREAMS][2]) {
  struct rlimit no_core = {0};
  setrlimit(RLIMIT_CORE, &no_core);
  setpgid(0, 0);
  dup2(pipes[OUTPUT][1], STDOUT_FILENO);
  dup2(pipes[ERROR][1], STDERR_FILENO);
  for (int i = 0; i < STREAMS; ++i) {
    close(pipes[i][0]);
    close(pipes[i][1]);
  }
  if (!process->arguments) {
    int status = process->function(process->self);
    fflush(NULL);
    _exit(status);
  }
  execv(process->arguments[0], (char *const *)process->arguments);
  _exit(127);
}

// Reads what there is; false at the end. What does not fit is read and dropped, so that the child never waits for a reader.
static bool drain(int descriptor, char *text, size_t *used) {
  char dropped[4096];
  size_t room = DELTA_PROCESS_OUTPUT_BYTES - 1 - *used;
  ssize_t count = room > 0 ? read(descriptor, text + *used, room) : read(descriptor, dropped, sizeof dropped);
  if (count > 0 && room > 0) *used += (size_t)count;
  return count > 0 || (count < 0 && errno == EINTR);
}

// Collects both streams until they end; kills the child's group when its time is up.
static void collect(pid_t child, int pipes[STREAMS][2], double deadline, delta_process_result_t *result) {
  char *texts[STREAMS] = {result->output, result->error};
  size_t used[STREAMS] = {0};
  bool open[STREAMS] = {true, true};
  while (open[OUTPUT] || open[ERROR]) {
    struct pollfd waits[STREAMS];
    for (int i = 0; i < STREAMS; ++i) waits[i] = (struct pollfd){.fd = open[i] ? pipes[i][0] : -1, .events = POLLIN};
    double left = deadline - now_seconds();
    if (left <= 0 && !result->timed_out) {
      result->timed_out = true;
      kill(-child, SIGKILL);
    }
    if (poll(waits, STREAMS, result->timed_out ? 100 : (int)(left * 1000) + 1) <= 0) continue;
    for (int i = 0; i < STREAMS; ++i) {
      if (waits[i].revents) open[i] = drain(pipes[i][0], texts[i], &used[i]);
    }
  }
}

static void reap(pid_t child, double begin, delta_process_result_t *result) {
  struct rusage usage;
  int status = 0;
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) continue;
  result->wall_seconds = now_seconds() - begin;
  result->cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  result->peak_bytes = (double)usage.ru_maxrss * 1024;
  result->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void delta_process_run(const delta_process_t *process, delta_process_result_t *out_result) {
  int pipes[STREAMS][2];
  *out_result = (delta_process_result_t){.exit_status = -1};
  if (pipe(pipes[OUTPUT]) != 0 || pipe(pipes[ERROR]) != 0) {
    snprintf(out_result->error, sizeof out_result->error, "no pipe: %s", strerror(errno));
    return;
  }
  fflush(NULL);
  double begin = now_seconds();
  pid_t child = fork();
  if (child == 0) run_child(process, pipes);
  for (int i = 0; i < STREAMS; ++i) close(pipes[i][1]);
  if (child < 0) {
    snprintf(out_result->error, sizeof out_result->error, "no process: %s", strerror(errno));
  } else {
    setpgid(child, child);
    out_result->started = true;
    collect(child, pipes, begin + process->limit_seconds, out_result);
    reap(child, begin, out_result);
  }
  for (int i = 0; i < STREAMS; ++i) close(pipes[i][0]);
}
