// The CUDA arena: one reserved range of the device's addresses, of which a prefix is mapped in granules. Where the device has no virtual memory it is one allocation, made when
// bytes are first committed, which neither grows nor gives anything back.
#ifndef DELTA_RUNTIME_CUDA_ARENA_H_
#define DELTA_RUNTIME_CUDA_ARENA_H_

#include "runtime/cuda/device.h"

// The granule of devices without virtual memory, and what those with it have on all GPUs so far.
enum { DELTA_CUDA_GRANULE_BYTES = 2 << 20 };

// The smallest granule of the device's memory.
DELTA_MUST_USE delta_status_t delta_cuda_granule_bytes(int ordinal, size_t *out_granule_bytes);

DELTA_MUST_USE delta_status_t delta_cuda_arena_reserve(delta_device_t *device, size_t reserve_bytes, delta_arena_t **out_arena);
DELTA_MUST_USE delta_status_t delta_cuda_arena_commit(delta_arena_t *arena, size_t committed_bytes);
void delta_cuda_arena_destroy(delta_arena_t *arena);
size_t delta_cuda_arena_committed(const delta_arena_t *arena);
void *delta_cuda_arena_address(delta_arena_t *arena, size_t offset_bytes);

#endif // DELTA_RUNTIME_CUDA_ARENA_H_
