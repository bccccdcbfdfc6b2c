// Outer tier: a tier that passes on to another what its own functions do not change, for devices that misbehave.
#ifndef DELTA_TESTS_SUPPORT_OUTER_TIER_H_
#define DELTA_TESTS_SUPPORT_OUTER_TIER_H_

#include "runtime/device.h"
#include "runtime/tier.h"

typedef struct delta_test_outer_tier {
  delta_tier_t base;
  delta_tier_t *inner; // Owned.
} delta_test_outer_tier_t;

static inline delta_tier_t *delta_test_inner_tier(delta_tier_t *base) { return ((delta_test_outer_tier_t *)base)->inner; }

// For the table of an outer tier.
void delta_test_outer_tier_destroy(delta_tier_t *base);
delta_status_t delta_test_outer_tier_resize(delta_tier_t *base, uint64_t size_bytes);

// Makes the tier that a device's own table makes, with one around it whose table is `driver`.
DELTA_MUST_USE delta_status_t delta_test_outer_tier_create(const delta_device_driver_t *device_driver, delta_device_t *device,
                                                           const delta_tier_options_t *options, const delta_tier_driver_t *driver,
                                                           delta_allocator_t allocator, delta_tier_t **out_tier);

#endif // DELTA_TESTS_SUPPORT_OUTER_TIER_H_
