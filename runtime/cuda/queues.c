// A recording begins on the stream of compute; the other streams join it through an event at its beginning and are joined at its end, as a capture must be. Marks are recorded as
// nodes of the graph, so that a replay has times too; events of order become edges.
#include "runtime/cuda/queues.h"

struct delta_recording {
  cudaGraphExec_t graph; // Owned.
};

static cudaStream_t stream_of(const delta_device_t *device, delta_lane_t lane) {
  return ((const delta_cuda_device_t *)device)->streams[lane];
}

// ---- Life

delta_status_t delta_cuda_queues_open(delta_cuda_device_t *device) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaStreamCreateWithFlags(&device->streams[l], cudaStreamNonBlocking)));
    DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaEventCreateWithFlags(&device->joints[l], cudaEventDisableTiming)));
  }
  return DELTA_OK;
}

// Failures of what only gives back are those of a device that has failed before, which was told of then.
static void destroy_event(cudaEvent_t event) {
  if (event) delta_status_free(DELTA_CUDA_CHECK(cudaEventDestroy(event)));
}

static void destroy_events(delta_allocator_t allocator, delta_cuda_events_t *events) {
  for (uint32_t i = 0; i < events->count; ++i) destroy_event(events->items[i]);
  delta_release(allocator, events->items);
  *events = (delta_cuda_events_t){0};
}

void delta_cuda_queues_close(delta_cuda_device_t *device) {
  destroy_events(device->base.allocator, &device->events);
  destroy_events(device->base.allocator, &device->marks);
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    destroy_event(device->joints[l]);
    if (device->streams[l]) delta_status_free(DELTA_CUDA_CHECK(cudaStreamDestroy(device->streams[l])));
  }
}

// ---- Events and marks

static delta_status_t grow_events(delta_allocator_t allocator, delta_cuda_events_t *events, uint32_t count, unsigned flags) {
  if (count <= events->count) return DELTA_OK;
  cudaEvent_t *items = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, count, &items));
  for (uint32_t i = 0; i < events->count; ++i) items[i] = events->items[i];
  delta_release(allocator, events->items);
  events->items = items;
  for (; events->count < count; ++events->count)
    DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaEventCreateWithFlags(&items[events->count], flags)));
  return DELTA_OK;
}

delta_status_t delta_cuda_queues_reserve(delta_device_t *base, uint32_t event_count, uint32_t mark_count) {
  delta_cuda_device_t *device = delta_cuda_device(base);
  DELTA_RETURN_IF_ERROR(delta_cuda_use(device));
  DELTA_RETURN_IF_ERROR(grow_events(base->allocator, &device->events, event_count, cudaEventDisableTiming));
  return grow_events(base->allocator, &device->marks, mark_count, cudaEventDefault);
}

delta_status_t delta_cuda_signal(delta_device_t *device, delta_lane_t lane, uint32_t event) {
  return DELTA_CUDA_CHECK(cudaEventRecord(delta_cuda_device(device)->events.items[event], stream_of(device, lane)));
}

delta_status_t delta_cuda_wait(delta_device_t *device, delta_lane_t lane, uint32_t event) {
  return DELTA_CUDA_CHECK(cudaStreamWaitEvent(stream_of(device, lane), delta_cuda_device(device)->events.items[event], 0));
}

delta_status_t delta_cuda_mark(delta_device_t *device, delta_lane_t lane, uint32_t mark) {
  const unsigned flags = delta_cuda_device(device)->is_capturing ? cudaEventRecordExternal : cudaEventRecordDefault;
  return DELTA_CUDA_CHECK(cudaEventRecordWithFlags(delta_cuda_device(device)->marks.items[mark], stream_of(device, lane), flags));
}

delta_status_t delta_cuda_elapsed(delta_device_t *device, uint32_t from_mark, uint32_t to_mark, double *out_seconds) {
  const delta_cuda_events_t *marks = &delta_cuda_device(device)->marks;
  float milliseconds = 0;
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, marks->items[from_mark], marks->items[to_mark])));
  *out_seconds = 1e-3 * (double)milliseconds;
  return DELTA_OK;
}

delta_status_t delta_cuda_fill(delta_device_t *device, delta_lane_t lane, void *address, uint8_t value, size_t size_bytes) {
  return DELTA_CUDA_CHECK(cudaMemsetAsync(address, value, size_bytes, stream_of(device, lane)));
}

delta_status_t delta_cuda_synchronize(delta_device_t *device) {
  delta_status_t status = DELTA_OK;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l)
    status = delta_status_join(status, DELTA_CUDA_CHECK(cudaStreamSynchronize(stream_of(device, (delta_lane_t)l))));
  return status;
}

// ---- Recordings

// One lane waits for what another has been given so far.
static delta_status_t join_lane(delta_cuda_device_t *device, delta_lane_t from, delta_lane_t to) {
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaEventRecord(device->joints[from], device->streams[from])));
  return DELTA_CUDA_CHECK(cudaStreamWaitEvent(device->streams[to], device->joints[from], 0));
}

delta_status_t delta_cuda_record_begin(delta_device_t *base) {
  delta_cuda_device_t *device = delta_cuda_device(base);
  DELTA_RETURN_IF_ERROR(delta_cuda_use(device));
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaStreamBeginCapture(device->streams[DELTA_LANE_COMPUTE], cudaStreamCaptureModeThreadLocal)));
  device->is_capturing = true;
  delta_status_t status = DELTA_OK;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    if (l != DELTA_LANE_COMPUTE) status = delta_status_join(status, join_lane(device, DELTA_LANE_COMPUTE, (delta_lane_t)l));
  }
  return status;
}

static delta_status_t make_recording(delta_device_t *device, cudaGraph_t graph, delta_recording_t **out_recording) {
  delta_recording_t *recording = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(device->allocator, 1, &recording));
  delta_status_t status = DELTA_CUDA_CHECK(cudaGraphInstantiate(&recording->graph, graph, 0));
  if (status) {
    delta_release(device->allocator, recording);
    return status;
  }
  *out_recording = recording;
  return DELTA_OK;
}

delta_status_t delta_cuda_record_end(delta_device_t *base, delta_recording_t **out_recording) {
  *out_recording = NULL;
  delta_cuda_device_t *device = delta_cuda_device(base);
  if (!device->is_capturing) return DELTA_OK;
  delta_status_t status = DELTA_OK;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    if (l != DELTA_LANE_COMPUTE) status = delta_status_join(status, join_lane(device, (delta_lane_t)l, DELTA_LANE_COMPUTE));
  }
  cudaGraph_t graph = NULL;
  status = delta_status_join(status, DELTA_CUDA_CHECK(cudaStreamEndCapture(device->streams[DELTA_LANE_COMPUTE], &graph)));
  device->is_capturing = false;
  if (!status) status = make_recording(base, graph, out_recording);
  if (graph) status = delta_status_join(status, DELTA_CUDA_CHECK(cudaGraphDestroy(graph)));
  return status;
}

delta_status_t delta_cuda_replay(delta_device_t *device, delta_recording_t *recording) {
  DELTA_RETURN_IF_ERROR(delta_cuda_use(delta_cuda_device(device)));
  return DELTA_CUDA_CHECK(cudaGraphLaunch(recording->graph, stream_of(device, DELTA_LANE_COMPUTE)));
}

void delta_cuda_recording_destroy(delta_device_t *device, delta_recording_t *recording) {
  if (!recording) return;
  delta_status_free(DELTA_CUDA_CHECK(cudaGraphExecDestroy(recording->graph)));
  delta_release(device->allocator, recording);
}
