// Kernels of the CUDA driver: the cases of the CPU's (tests/test_cpu_*.c, which are linked into this program) on the emulation, and what only this driver has.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/support/case_macros.h"

// Before any test: compiled sources are kept from run to run, beside what was built.
__attribute__((constructor)) static void choose_device(void) {
  setenv("XDG_CACHE_HOME", DELTA_BINARY_FOLDER "/tests/cache", 1);
  delta_kernel_case_device = "cuda:0";
}
