// Criterion's words for tables of kernel cases in a program without Criterion (tests/cuda/run_cuda_barriers.c).
#ifndef DELTA_TESTS_CUDA_PLAIN_CRITERION_H_
#define DELTA_TESTS_CUDA_PLAIN_CRITERION_H_

#include <stdbool.h>

// Adds a test to those that the program runs.
void delta_plain_add(const char *name, void (*test)(void));
void delta_plain_expect(bool condition);

#define Test(suite, name)                                                           \
  static void delta_plain_##suite##_##name(void);                                   \
  __attribute__((constructor)) static void delta_plain_add_##suite##_##name(void) { \
    delta_plain_add(#suite "." #name, delta_plain_##suite##_##name);                \
  }                                                                                 \
  static void delta_plain_##suite##_##name(void)

#define cr_expect(condition, ...) delta_plain_expect(condition)

#endif // DELTA_TESTS_CUDA_PLAIN_CRITERION_H_
