// The CPU arena: one reserved address range between guard pages, of which a prefix is committed.
#ifndef DELTA_RUNTIME_CPU_ARENA_H_
#define DELTA_RUNTIME_CPU_ARENA_H_

#include "runtime/device.h"

enum { DELTA_CPU_GRANULE_BYTES = 4096 };

DELTA_MUST_USE delta_status_t delta_cpu_arena_reserve(delta_device_t *device, size_t reserve_bytes, delta_arena_t **out_arena);
DELTA_MUST_USE delta_status_t delta_cpu_arena_commit(delta_arena_t *arena, size_t committed_bytes);
void delta_cpu_arena_destroy(delta_arena_t *arena);
size_t delta_cpu_arena_committed(const delta_arena_t *arena);
void *delta_cpu_arena_address(delta_arena_t *arena, size_t offset_bytes);

#endif // DELTA_RUNTIME_CPU_ARENA_H_
