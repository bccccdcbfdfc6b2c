// Apart: what programs share that break something and expect it to be found: each case is a process of its own, of the same program.
#ifndef DELTA_TESTS_CUDA_APART_H_
#define DELTA_TESTS_CUDA_APART_H_

#include <stdio.h>

#include "tests/support/process.h"
#include "tests/support/sanitized.h"

// ThreadSanitizer's exit status after a race, and the one by which ctest knows what was skipped.
enum { DELTA_APART_RACE_STATUS = 66, DELTA_APART_SKIP_STATUS = 77 };

// Runs this program again with `arguments`, which begin with its name's place and end with NULL. Returns its exit status; -1: it did not end by itself.
static inline int delta_apart_run(const char **arguments, bool is_verbose, delta_process_result_t *out_result) {
  arguments[0] = "/proc/self/exe";
  delta_process_run(&(delta_process_t){.arguments = arguments, .limit_seconds = 300}, out_result);
  if (is_verbose) fputs(out_result->error, stderr);
  return out_result->exit_status;
}

// Whether this build finds races; says that all is skipped where it does not.
static inline bool delta_apart_finds_races(const char *what) {
#ifdef DELTA_TEST_FINDS_RACES
  (void)what;
  return true;
#else
  printf("skip %s: this build has no ThreadSanitizer\n0 passed, 0 failed, 1 skipped\n", what);
  return false;
#endif
}

#endif // DELTA_TESTS_CUDA_APART_H_
