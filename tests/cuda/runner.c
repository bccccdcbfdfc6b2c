// What programs that walk a collection are on the emulated GPU: granules are small, so that budgets of small models mean something, and what the emulation reports is a failure.
#include <stdio.h>
#include <unistd.h>

#include "tests/cuda/emulation/emulation.h"

static void __attribute__((constructor)) use_small_granules(void) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.granule_bytes = DELTA_EMULATED_SMALL_GRANULE_BYTES;
  delta_emulated_configure(&settings);
}

static void __attribute__((destructor)) fail_after_reports(void) {
  if (delta_emulated_reports() == 0) return;
  printf("FAIL: the emulation has reported %u times, last: %s\n", delta_emulated_reports(), delta_emulated_last_report());
  fflush(stdout);
  _exit(1);
}
