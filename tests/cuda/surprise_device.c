// The emulated GPU in place of the CPU's device that does not behave as planned, for programs with the emulation.
#include "tests/support/surprise_device.h"

#include "tests/cuda/emulation/emulation.h"

void delta_test_surprises_release(void) {}

delta_status_t delta_test_surprise_device_open(int32_t threads, delta_test_surprises_t *surprises, delta_device_t **out_device) {
  const delta_device_options_t options = {.threads = threads};
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.granule_bytes = DELTA_EMULATED_SMALL_GRANULE_BYTES;
  settings.seed = surprises->seed + 1;
  settings.copy_delay_seconds = surprises->copy_delay_seconds;
  settings.launch_delay_seconds = surprises->kernel_delay_seconds;
  delta_emulated_configure(&settings);
  return delta_device_open("cuda", &options, delta_allocator_system(), out_device);
}
