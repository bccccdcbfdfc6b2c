// Copies and fills. A copy from or to memory of the host that is not pinned happens before the call returns, as it may with CUDA.
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulation/calls.h"
#include "tests/cuda/emulation/memory.h"
#include "tests/cuda/emulation/stream.h"

typedef struct copy {
  uint8_t *to;
  const uint8_t *from; // NULL: a fill
  size_t to_pitch, from_pitch, width, height;
  int value;
} copy_t;

static void run_copy(void *self, delta_emulated_team_t *team) {
  const copy_t *copy = self;
  (void)team;
  for (size_t row = 0; row < copy->height; ++row) {
    uint8_t *to = copy->to + row * copy->to_pitch;
    if (copy->from) {
      memcpy(to, copy->from + row * copy->from_pitch, copy->width);
    } else {
      memset(to, copy->value, copy->width);
    }
  }
}

static cudaError_t put_copy(const char *call, const copy_t *copy, cudaStream_t stream) {
  copy_t *self = malloc(sizeof *self);
  if (!self) return delta_emulated_error(cudaErrorMemoryAllocation);
  *self = *copy;
  const delta_emulated_operation_t operation = {
      .name = call, .self = self, .run = run_copy, .delay_seconds = delta_emulated_settings()->copy_delay_seconds};
  return delta_emulated_put(stream, &operation);
}

static size_t extent_bytes(size_t pitch, size_t width, size_t height) { return height ? (height - 1) * pitch + width : 0; }

static bool is_host(delta_emulated_kind_t kind) { return kind == DELTA_EMULATED_UNKNOWN || kind == DELTA_EMULATED_PINNED; }

// Whether both ends are what `kind` says. *out_is_pageable: an end is the host's own memory.
static bool is_right_way(const char *call, const copy_t *copy, enum cudaMemcpyKind kind, bool *out_is_pageable) {
  const size_t to_bytes = extent_bytes(copy->to_pitch, copy->width, copy->height),
               from_bytes = extent_bytes(copy->from_pitch, copy->width, copy->height);
  const delta_emulated_kind_t to = delta_emulated_kind_of(copy->to, to_bytes), from = delta_emulated_kind_of(copy->from, from_bytes);
  *out_is_pageable = to == DELTA_EMULATED_UNKNOWN || from == DELTA_EMULATED_UNKNOWN;
  const bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost,
             from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
  const bool is_any = kind == cudaMemcpyDefault && to != DELTA_EMULATED_BROKEN && from != DELTA_EMULATED_BROKEN;
  if (is_any) return true;
  if (!to_host && !delta_emulated_is_device(call, "the destination", copy->to, to_bytes)) return false;
  if (!from_host && !delta_emulated_is_device(call, "the source", copy->from, from_bytes)) return false;
  if ((to_host && !is_host(to)) || (from_host && !is_host(from))) {
    delta_emulated_report("%s: %s (%zu bytes) is not the host's", call, to_host && !is_host(to) ? "the destination" : "the source",
                          to_bytes);
    return false;
  }
  return true;
}

static cudaError_t copy_async(const char *call, const copy_t *copy, enum cudaMemcpyKind kind, cudaStream_t stream) {
  bool is_pageable;
  if (copy->width == 0 || copy->height == 0) return cudaSuccess;
  if (!copy->to || !copy->from || !is_right_way(call, copy, kind, &is_pageable)) return delta_emulated_error(cudaErrorInvalidValue);
  if (is_pageable && stream && delta_emulated_is_capturing(stream)) return delta_emulated_refuse_in_capture(call);
  const cudaError_t error = put_copy(call, copy, stream);
  if (!error && is_pageable) delta_emulated_synchronize(delta_emulated_stream(stream));
  return error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  const copy_t copy = {.to = to, .from = from, .width = size_bytes, .height = 1};
  return copy_async(__func__, &copy, kind, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (delta_emulated_is_any_capturing()) return delta_emulated_refuse_in_capture(__func__);
  const copy_t copy = {.to = to, .from = from, .width = size_bytes, .height = 1};
  const cudaError_t error = copy_async(__func__, &copy, kind, NULL);
  if (!error && size_bytes) delta_emulated_synchronize(delta_emulated_stream(NULL));
  return error ? error : delta_emulated_error(delta_emulated_fault());
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (width > to_pitch || width > from_pitch) return delta_emulated_error(cudaErrorInvalidValue);
  const copy_t copy = {.to = to, .from = from, .to_pitch = to_pitch, .from_pitch = from_pitch, .width = width, .height = height};
  return copy_async(__func__, &copy, kind, stream);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size_bytes, cudaStream_t stream) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (size_bytes == 0) return cudaSuccess;
  if (!delta_emulated_is_device(__func__, "the destination", to, size_bytes)) return delta_emulated_error(cudaErrorInvalidValue);
  const copy_t fill = {.to = to, .width = size_bytes, .height = 1, .value = value};
  return put_copy(__func__, &fill, stream);
}

cudaError_t cudaMemset(void *to, int value, size_t size_bytes) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  return cudaMemsetAsync(to, value, size_bytes, NULL);
}

// ---- A call of the host in a stream

typedef struct host_call {
  cudaHostFn_t function;
  void *data;
} host_call_t;

static void run_host_call(void *self, delta_emulated_team_t *team) {
  const host_call_t *call = self;
  (void)team;
  call->function(call->data);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  host_call_t *self = malloc(sizeof *self);
  if (!self) return delta_emulated_error(cudaErrorMemoryAllocation);
  *self = (host_call_t){.function = function, .data = data};
  const delta_emulated_operation_t operation = {.name = __func__, .self = self, .run = run_host_call};
  return delta_emulated_put(stream, &operation);
}
