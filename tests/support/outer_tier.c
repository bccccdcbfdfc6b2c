#include "tests/support/outer_tier.h"

#include <stdlib.h>

void delta_test_outer_tier_destroy(delta_tier_t *base) {
  delta_tier_destroy(delta_test_inner_tier(base));
  free(base);
}

delta_status_t delta_test_outer_tier_resize(delta_tier_t *base, uint64_t size_bytes) {
  delta_tier_t *inner = delta_test_inner_tier(base);
  return size_bytes > inner->size_bytes ? delta_tier_reserve(inner, size_bytes) : delta_tier_trim(inner, size_bytes);
}

delta_status_t delta_test_outer_tier_create(const delta_device_driver_t *device_driver, delta_device_t *device,
                                            const delta_tier_options_t *options, const delta_tier_driver_t *driver,
                                            delta_allocator_t allocator, delta_tier_t **out_tier) {
  delta_test_outer_tier_t *tier = calloc(1, sizeof *tier);
  if (!tier) return delta_status_make(OUT_OF_MEMORY, "a tier for a test");
  delta_status_t status = device_driver->tier_create(device, options, allocator, &tier->inner);
  if (status) {
    free(tier);
    return status;
  }
  tier->base = (delta_tier_t){.driver = driver, .allocator = allocator, .is_beside_compute = tier->inner->is_beside_compute};
  *out_tier = &tier->base;
  return DELTA_OK;
}
