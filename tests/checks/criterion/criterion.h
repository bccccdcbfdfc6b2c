// What the tables of kernel cases use of Criterion, for machines that have none (check_kernels.c). Tests are listed before main and run one after the other, in one process.
#ifndef DELTA_TESTS_CHECKS_CRITERION_H_
#define DELTA_TESTS_CHECKS_CRITERION_H_

#include <stdbool.h>

#include <delta/export.h>

void delta_check_add(const char *suite, const char *name, void (*run)(void));
// Counts an expectation, and prints what was not met.
void delta_check_expect(bool is_met, const char *format, ...) DELTA_PRINTF(2, 3);

#define Test(suite, name, ...)                                                                                            \
  static void suite##_##name(void);                                                                                       \
  __attribute__((constructor)) static void add_##suite##_##name(void) { delta_check_add(#suite, #name, suite##_##name); } \
  static void suite##_##name(void)

#define cr_expect(condition, ...) delta_check_expect((condition), __VA_ARGS__)

#endif // DELTA_TESTS_CHECKS_CRITERION_H_
