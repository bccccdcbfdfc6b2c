// The CPU driver: kernels on the host's cores, an arena of committed pages.
#ifndef DELTA_RUNTIME_CPU_DEVICE_H_
#define DELTA_RUNTIME_CPU_DEVICE_H_

#include "runtime/device.h"

typedef struct delta_cpu_device {
  delta_device_t base;
  bool reference_kernels;
} delta_cpu_device_t;

DELTA_MUST_USE delta_status_t delta_cpu_device_open(const delta_device_options_t *options, delta_allocator_t allocator,
                                                    delta_device_t **out_device);

DELTA_MUST_USE delta_status_t delta_cpu_tier_create(delta_device_t *device, const delta_tier_options_t *options,
                                                    delta_allocator_t allocator, delta_tier_t **out_tier);
// Processors this process may run on.
int32_t delta_cpu_usable_processors(void);

// The least of: memory the system has available, what RLIMIT_AS and RLIMIT_DATA leave, what the process's control group leaves where it can be read.
DELTA_MUST_USE delta_status_t delta_cpu_free_bytes(delta_device_t *device, uint64_t *out_free_bytes);

#endif // DELTA_RUNTIME_CPU_DEVICE_H_
