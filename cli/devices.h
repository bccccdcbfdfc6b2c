// deltaplan --devices: what there is to plan for.
#ifndef DELTA_CLI_DEVICES_H_
#define DELTA_CLI_DEVICES_H_

#include <delta/allocator.h>
#include <delta/log.h>
#include <delta/status.h>

// Prints each device with its memory and how fast it copies to the tier below it and back, which is measured unless the cache has it. Of a driver without devices it prints why.
DELTA_MUST_USE delta_status_t delta_devices_print(delta_log_sink_t log, delta_allocator_t allocator);
// Whether --device is the name of a device or a profile's path; INVALID_ARGUMENT has what it may be.
DELTA_MUST_USE delta_status_t delta_devices_check(const char *device);

#endif // DELTA_CLI_DEVICES_H_
