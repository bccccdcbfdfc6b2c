// Process: runs a program (or a function) as a child process and says how it ended, what it printed, and what it took.
#ifndef DELTA_TESTS_SUPPORT_PROCESS_H_
#define DELTA_TESTS_SUPPORT_PROCESS_H_

#include <stdbool.h>

enum { DELTA_PROCESS_OUTPUT_BYTES = 16384 };

// What to run: a program with arguments (ending with NULL), or a function whose result is the exit status.
typedef struct delta_process {
  const char *const *arguments; // NULL for a function
  int (*function)(void *self);
  void *self;
  double limit_seconds; // then it is killed
} delta_process_t;

typedef struct delta_process_result {
  bool started; // false: `error` says why not
  bool timed_out;
  int exit_status; // -1 when a signal ended it
  int signal;      // 0 for none
  double wall_seconds, cpu_seconds;
  double peak_bytes;                       // resident
  char output[DELTA_PROCESS_OUTPUT_BYTES]; // the beginning of what it wrote to stdout; zero-terminated
  char error[DELTA_PROCESS_OUTPUT_BYTES];  // the same of stderr
} delta_process_result_t;

void delta_process_run(const delta_process_t *process, delta_process_result_t *out_result);

// Whether memory and time of programs of this build say anything: not under sanitizers.
bool delta_process_is_plain_build(void);

#endif // DELTA_TESTS_SUPPORT_PROCESS_H_
