// What programs that walk a collection are on the emulated GPU: small granules, so that budgets of small models mean something.
#include "tests/cuda/emulation/emulation.h"

static void __attribute__((constructor)) use_small_granules(void) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.granule_bytes = DELTA_EMULATED_SMALL_GRANULE_BYTES;
  delta_emulated_configure(&settings);
}
