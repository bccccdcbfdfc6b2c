// Removes each barrier of the kernels, once each, and runs the kernel cases that come to it: ThreadSanitizer, or a wrong result, must find what the barrier was for; with all barriers
// nothing is found. Each removal is a process of its own. Prints a line a barrier and a total; skipped in builds without ThreadSanitizer.
//
//   run_cuda_barriers
//
// The cases are those of tests/test_cpu_*.c, which are linked into this program.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/apart.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/support/kernel_case.h"

// Cases with larger operands are left out: a sanitizer makes them slow.
enum { MOST_ELEMENTS = 1 << 16 };
enum { MOST_TESTS = 128, MOST_SITES = 1024, MOST_CASES_TRIED = 64, WRONG_STATUS = 3 };

// A barrier, and cases that come to it: some kernels have barriers before what they call, so that not every case needs it.
typedef struct barrier {
  uint64_t visits;
  uint32_t cases[MOST_CASES_TRIED];
  uint32_t case_count;
} barrier_t;

static void (*tests[MOST_TESTS])(void);
static uint32_t test_count, case_count, only_case, wrong_count;
static bool has_only_case;
static barrier_t barriers[MOST_SITES];

// What the words of Criterion in tests/checks/ are for.
void delta_check_add(const char *suite, const char *name, void (*run)(void)) {
  (void)suite, (void)name;
  if (test_count < MOST_TESTS) tests[test_count++] = run;
}

void delta_check_expect(bool is_met, const char *format, ...) {
  (void)format;
  wrong_count += !is_met;
}

// Remembers which barriers a case has come to.
static void note_visits(uint32_t number) {
  for (uint32_t k = 0; k < delta_emulated_site_count() && k < MOST_SITES; ++k) {
    const uint64_t visits = delta_emulated_site(k).visits;
    barrier_t *barrier = &barriers[k];
    if (visits > barrier->visits && barrier->case_count < MOST_CASES_TRIED) barrier->cases[barrier->case_count++] = number;
    barrier->visits = visits;
  }
}

// Whether a case is worth its time: kernels of pointwise expressions have no barriers, and each is compiled for itself.
static bool is_wanted(const delta_kernel_case_t *kernel_case) {
  if (kernel_case->node.op == DELTA_CORE_POINTWISE) return false;
  for (uint32_t k = 0; k < kernel_case->input_count; ++k) {
    if (delta_shape_count(&kernel_case->inputs[k].shape) > MOST_ELEMENTS) return false;
  }
  return true;
}

// What the tables of cases call in place of delta_kernel_case_run: cases are numbered as they come.
bool delta_counted_case_run(const delta_kernel_case_t *kernel_case, char reason[DELTA_KERNEL_CASE_REASON_BYTES]) {
  const uint32_t number = case_count++;
  if ((has_only_case && number != only_case) || !is_wanted(kernel_case)) return true;
  const bool is_right = delta_kernel_case_run(kernel_case, reason);
  if (!is_right) printf("FAIL case %u: %s\n", number, reason);
  note_visits(number);
  return is_right;
}

static void run_tests(void) {
  for (uint32_t k = 0; k < test_count; ++k) tests[k]();
}

// ---- One barrier

static int run_without(char **arguments) {
  has_only_case = true;
  only_case = (uint32_t)atoi(arguments[0]);
  delta_emulated_drop_barrier(&(delta_emulated_site_t){.file = arguments[1], .line = atoi(arguments[2]), .number = atoi(arguments[3])});
  run_tests();
  return wrong_count ? WRONG_STATUS : 0;
}

// The exit status of a case without a barrier, in a process of its own.
static int run_apart(uint32_t number, const delta_emulated_site_t *site) {
  char case_text[16], line_text[16], number_text[16];
  snprintf(case_text, sizeof case_text, "%u", number);
  snprintf(line_text, sizeof line_text, "%d", site->line);
  snprintf(number_text, sizeof number_text, "%d", site->number);
  const char *arguments[] = {NULL, "--without", case_text, site->file, line_text, number_text, NULL};
  static delta_process_result_t result;
  return delta_apart_run(arguments, false, &result);
}

static bool judge(const barrier_t *barrier, const delta_emulated_site_t *site) {
  int status = 0;
  for (uint32_t k = 0; k < barrier->case_count && status == 0; ++k) status = run_apart(barrier->cases[k], site);
  const bool is_found = status == DELTA_APART_RACE_STATUS || status == WRONG_STATUS;
  const char *slash = strrchr(site->file, '/');
  printf("%s %s:%d, barrier %d: %s\n", is_found ? "ok  " : "FAIL", slash ? slash + 1 : site->file, site->line, site->number,
         status == DELTA_APART_RACE_STATUS ? "a race"
         : status == WRONG_STATUS          ? "a wrong result"
         : status == 0                     ? "nothing is found"
                                           : "ended badly");
  fflush(stdout);
  return is_found;
}

int main(int argc, char **argv) {
  setenv("XDG_CACHE_HOME", DELTA_BINARY_FOLDER "/tests/cache", 1);
  delta_kernel_case_device = "cuda:0";
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.most_blocks = 2; // what guards a second turn is needed in small cases, too
  delta_emulated_configure(&settings);
  if (argc == 6 && strcmp(argv[1], "--without") == 0) return run_without(argv + 2);
  if (!delta_apart_finds_races("barriers")) return DELTA_APART_SKIP_STATUS;
  setenv("TSAN_OPTIONS", "halt_on_error=1", 1); // of the processes with one barrier less
  int passed = 0, failed = 0;
  run_tests();
  printf("%s %u kernel cases with all barriers\n", wrong_count ? "FAIL" : "ok  ", case_count);
  passed += wrong_count == 0;
  failed += wrong_count != 0;
  for (uint32_t k = 0; k < delta_emulated_site_count() && k < MOST_SITES; ++k) {
    const delta_emulated_site_t site = delta_emulated_site(k);
    const bool is_found = judge(&barriers[k], &site);
    passed += is_found;
    failed += !is_found;
  }
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed > 0;
}
