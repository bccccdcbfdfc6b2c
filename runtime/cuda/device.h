// The CUDA driver: kernels on one GPU, an arena of its memory, three streams.
//
// A launch or a copy is put into its lane's stream and has not run when the call returns; order between lanes comes from events alone, and nothing is waited for but in
// `synchronize`, `read` and `write`. All calls are made by the thread that opened the device.
#ifndef DELTA_RUNTIME_CUDA_DEVICE_H_
#define DELTA_RUNTIME_CUDA_DEVICE_H_

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "runtime/cuda/status.h"
#include "runtime/device.h"

// What expressions compile to (NVRTC), kept by hash for the life of the device; runtime/cuda/sources.h.
typedef struct delta_cuda_sources delta_cuda_sources_t;

// Events of one kind, created when a program is made and used by all programs in turn.
typedef struct delta_cuda_events {
  cudaEvent_t *items; // Owned.
  uint32_t count;
} delta_cuda_events_t;

typedef struct delta_cuda_device {
  delta_device_t base;
  char name[16];                          // "cuda:0"
  int ordinal;                            // of the CUDA runtime; it is the thread's current device while it is open
  int capability_major, capability_minor; // 9 and 0 of sm_90
  int multiprocessor_count;
  bool has_virtual_memory; // the arena is mapped in granules; else it is one allocation that gives nothing back
  bool reference_kernels;
  bool is_capturing;                      // what is put into the streams becomes a graph
  cudaStream_t streams[DELTA_LANE_COUNT]; // non-blocking
  cudaEvent_t joints[DELTA_LANE_COUNT];   // tie the streams together when they are recorded
  cudnnHandle_t cudnn;                    // on the stream of DELTA_LANE_COMPUTE
  cublasLtHandle_t cublas;
  delta_cuda_events_t events, marks; // of order, by schedule step; of time
  delta_cuda_sources_t *sources;     // Owned; NULL until the first is compiled
} delta_cuda_device_t;

// Opens GPU number `ordinal`. NOT_FOUND, with the CUDA runtime's own text, where there is no driver or no such GPU.
DELTA_MUST_USE delta_status_t delta_cuda_device_open(uint32_t ordinal, const delta_device_options_t *options, delta_allocator_t allocator,
                                                     delta_device_t **out_device);
// Makes the GPU the current one of the calling thread: a session may go from thread to thread, and does so between runs. What a thread calls first does it itself: whatever
// prepares a run or begins one, takes memory or copies at once.
DELTA_MUST_USE delta_status_t delta_cuda_use(const delta_cuda_device_t *device);
// How many there are; NOT_FOUND as above where there is none.
DELTA_MUST_USE delta_status_t delta_cuda_device_count(uint32_t *out_count);

static inline delta_cuda_device_t *delta_cuda_device(delta_device_t *device) { return (delta_cuda_device_t *)device; }

// memory.c: what the GPU has free less DELTA_CUDA_RESERVE_BYTES, which are left to what CUDA and its libraries take later (code of kernels, graphs, handles).
enum { DELTA_CUDA_RESERVE_BYTES = 512 << 20 };
DELTA_MUST_USE delta_status_t delta_cuda_free_bytes(delta_device_t *device, uint64_t *out_free_bytes);

// tier_memory.c: pinned host memory of exact size.
DELTA_MUST_USE delta_status_t delta_cuda_tier_create(delta_device_t *device, const delta_tier_options_t *options,
                                                     delta_allocator_t allocator, delta_tier_t **out_tier);

// sources.c: NULL is fine.
void delta_cuda_sources_destroy(delta_cuda_sources_t *sources);

#endif // DELTA_RUNTIME_CUDA_DEVICE_H_
