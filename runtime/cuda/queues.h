// The queues of the CUDA driver: a stream a lane, events of order and of time, and recordings: CUDA graphs that are captured from the streams.
#ifndef DELTA_RUNTIME_CUDA_QUEUES_H_
#define DELTA_RUNTIME_CUDA_QUEUES_H_

#include "runtime/cuda/device.h"

// The streams and what ties them together when they are recorded.
DELTA_MUST_USE delta_status_t delta_cuda_queues_open(delta_cuda_device_t *device);
void delta_cuda_queues_close(delta_cuda_device_t *device); // what open has left, if it failed

// Rows of the device's table (runtime/device.h).
DELTA_MUST_USE delta_status_t delta_cuda_queues_reserve(delta_device_t *device, uint32_t event_count, uint32_t mark_count);
DELTA_MUST_USE delta_status_t delta_cuda_signal(delta_device_t *device, delta_lane_t lane, uint32_t event);
DELTA_MUST_USE delta_status_t delta_cuda_wait(delta_device_t *device, delta_lane_t lane, uint32_t event);
DELTA_MUST_USE delta_status_t delta_cuda_mark(delta_device_t *device, delta_lane_t lane, uint32_t mark);
DELTA_MUST_USE delta_status_t delta_cuda_elapsed(delta_device_t *device, uint32_t from_mark, uint32_t to_mark, double *out_seconds);
DELTA_MUST_USE delta_status_t delta_cuda_fill(delta_device_t *device, delta_lane_t lane, void *address, uint8_t value, size_t size_bytes);
DELTA_MUST_USE delta_status_t delta_cuda_synchronize(delta_device_t *device);
DELTA_MUST_USE delta_status_t delta_cuda_record_begin(delta_device_t *device);
DELTA_MUST_USE delta_status_t delta_cuda_record_end(delta_device_t *device, delta_recording_t **out_recording);
DELTA_MUST_USE delta_status_t delta_cuda_replay(delta_device_t *device, delta_recording_t *recording);
void delta_cuda_recording_destroy(delta_device_t *device, delta_recording_t *recording);

#endif // DELTA_RUNTIME_CUDA_QUEUES_H_
