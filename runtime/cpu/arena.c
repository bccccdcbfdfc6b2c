// Reserved pages cost nothing and fault when touched; committing makes a prefix usable, and what lies behind it stays a guard. Shrinking gives the
// pages back to the system at once.
#include "runtime/cpu/arena.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

struct delta_arena {
  delta_allocator_t allocator;
  uint8_t *mapping; // guard, reserve_bytes, guard
  size_t mapping_bytes;
  size_t reserve_bytes;
  size_t committed_bytes;
};

delta_status_t delta_cpu_arena_reserve(delta_device_t *device, size_t reserve_bytes, delta_arena_t **out_arena) {
  *out_arena = NULL;
  size_t mapping_bytes;
  if (!delta_size_align(reserve_bytes, DELTA_CPU_GRANULE_BYTES, &reserve_bytes) ||
      !delta_size_add(reserve_bytes, 2 * DELTA_CPU_GRANULE_BYTES, &mapping_bytes)) {
    return delta_status_make(OUT_OF_MEMORY, "an arena of %zu bytes does not fit the address space", reserve_bytes);
  }
  delta_arena_t *arena = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(device->allocator, 1, &arena));
  void *mapping = mmap(NULL, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    delta_release(device->allocator, arena);
    return delta_status_make(OUT_OF_MEMORY, "cannot reserve %zu bytes of address space for the arena: %s", mapping_bytes, strerror(errno));
  }
  arena->allocator = device->allocator;
  arena->mapping = mapping;
  arena->mapping_bytes = mapping_bytes;
  arena->reserve_bytes = reserve_bytes;
  *out_arena = arena;
  return DELTA_OK;
}

delta_status_t delta_cpu_arena_commit(delta_arena_t *arena, size_t committed_bytes) {
  if (!delta_size_align(committed_bytes, DELTA_CPU_GRANULE_BYTES, &committed_bytes) || committed_bytes > arena->reserve_bytes) {
    return delta_status_make(INTERNAL, "cannot commit %zu bytes: the arena reserves %zu", committed_bytes, arena->reserve_bytes);
  }
  uint8_t *start = arena->mapping + DELTA_CPU_GRANULE_BYTES;
  if (committed_bytes > arena->committed_bytes) {
    if (mprotect(start, committed_bytes, PROT_READ | PROT_WRITE) != 0) {
      return delta_status_make(OUT_OF_MEMORY, "cannot commit %zu bytes for the arena: %s; lower --budget or --batch", committed_bytes,
                               strerror(errno));
    }
  } else if (committed_bytes < arena->committed_bytes) {
    size_t dropped_bytes = arena->committed_bytes - committed_bytes;
    if (madvise(start + committed_bytes, dropped_bytes, MADV_DONTNEED) != 0 ||
        mprotect(start + committed_bytes, dropped_bytes, PROT_NONE) != 0) {
      return delta_status_make(INTERNAL, "cannot give back %zu bytes of the arena: %s", dropped_bytes, strerror(errno));
    }
  }
  arena->committed_bytes = committed_bytes;
  return DELTA_OK;
}

void delta_cpu_arena_destroy(delta_arena_t *arena) {
  if (!arena) return;
  munmap(arena->mapping, arena->mapping_bytes);
  delta_release(arena->allocator, arena);
}

size_t delta_cpu_arena_committed(const delta_arena_t *arena) { return arena->committed_bytes; }

void *delta_cpu_arena_address(delta_arena_t *arena, size_t offset_bytes) {
  assert(offset_bytes <= arena->reserve_bytes);
  return arena->mapping + DELTA_CPU_GRANULE_BYTES + offset_bytes;
}
