// Absent: a device that is not there and is known by its profile alone. It answers what planning asks (kernels with their workspaces, sizes, costs) and runs
// nothing.
#ifndef DELTA_RUNTIME_ABSENT_H_
#define DELTA_RUNTIME_ABSENT_H_

#include "runtime/device.h"

// The kernel of a node that was not measured: its cost is the roofline's, its workspace none.
extern const char delta_absent_kernel[];

// Opens the device of a profile's file. MISMATCH when `options` ask for other threads than it was measured with; MALFORMED as for any profile.
DELTA_MUST_USE delta_status_t delta_absent_device_open(const char *path, const delta_device_options_t *options, delta_allocator_t allocator,
                                                       delta_device_t **out_device);
// A device by its name, or by the path of its profile, which ends in ".json".
DELTA_MUST_USE delta_status_t delta_device_open_any(const char *device, const delta_device_options_t *options, delta_allocator_t allocator,
                                                    delta_device_t **out_device);

#endif // DELTA_RUNTIME_ABSENT_H_
