// Runs the kernel cases of tests/test_cpu_*.c, which are linked in, on a device: each kernel against the reference. Needs no Criterion: scripts/gpu-check runs it.
//
//   check_kernels [--device NAME (cuda:0)] [--test NAME]
//
// The last line is 'N passed, N failed'; exit status 1 when a case failed.
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/kernel_case.h"

enum { MOST_TESTS = 256 };

typedef struct check {
  const char *suite, *name;
  void (*run)(void);
} check_t;

static check_t checks[MOST_TESTS];
static int check_count, passed, failed;
static const check_t *running;

void delta_check_add(const char *suite, const char *name, void (*run)(void)) {
  if (check_count < MOST_TESTS) checks[check_count++] = (check_t){suite, name, run};
}

void delta_check_expect(bool is_met, const char *format, ...) {
  passed += is_met;
  failed += !is_met;
  if (is_met) return;
  va_list values;
  va_start(values, format);
  printf("FAIL %s %s: ", running->suite, running->name);
  vprintf(format, values);
  printf("\n");
  va_end(values);
  fflush(stdout);
}

int main(int argc, char **argv) {
  const char *only = NULL;
  delta_kernel_case_device = "cuda:0";
  for (int k = 1; k < argc; k += 2) {
    const bool is_device = strcmp(argv[k], "--device") == 0;
    if (k + 1 == argc || (!is_device && strcmp(argv[k], "--test") != 0)) {
      fprintf(stderr, "usage: check_kernels [--device NAME] [--test NAME]\n");
      return 2;
    }
    *(is_device ? &delta_kernel_case_device : &only) = argv[k + 1];
  }
  for (int i = 0; i < check_count; ++i) {
    running = &checks[i];
    if (!only || strcmp(only, running->name) == 0) running->run();
  }
  if (check_count == MOST_TESTS) printf("FAIL: there are more than %d tests\n", MOST_TESTS - 1);
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0 || check_count == MOST_TESTS;
}
