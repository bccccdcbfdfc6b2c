// Reserved pages cost nothing and fault when touched; committing makes a prefix usable, and what lies behind it stays a guard. Shrinking gives the
// pages back to the system at once.
//
// Note [Huge pages]
// Kernels walk through more memory than a processor holds translations of: with pages of 4 KiB they wait for page tables, in a virtual machine for two of
// them at every step. The arena begins where a huge page may and asks for huge ones. The system gives them only where one lies within what is committed,
// so the process never holds more than that; it is an advice, and what does not come of it costs time and nothing else. Of a huge page that shrinking cuts,
// the system takes the rest back when memory is short.
#include "runtime/cpu/arena.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

struct delta_arena {
  delta_allocator_t allocator;
  uint8_t *mapping; // guard, reserve_bytes, guard
  size_t mapping_bytes;
  size_t reserve_bytes;
  size_t committed_bytes;
};

// Maps `size_bytes`, inaccessible, such that what lies behind the first guard begins where `alignment_bytes` divide. MAP_FAILED: errno says why.
static void *map_aligned(size_t size_bytes, size_t alignment_bytes) {
  const size_t slack_bytes = alignment_bytes - DELTA_CPU_GRANULE_BYTES;
  size_t wide_bytes;
  errno = ENOMEM;
  if (!delta_size_add(size_bytes, slack_bytes, &wide_bytes)) return MAP_FAILED;
  uint8_t *wide = mmap(NULL, wide_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (wide == MAP_FAILED) return MAP_FAILED;
  const size_t past = ((uintptr_t)wide + DELTA_CPU_GRANULE_BYTES) % alignment_bytes, skipped_bytes = past ? alignment_bytes - past : 0;
  if (skipped_bytes > 0) munmap(wide, skipped_bytes);
  if (skipped_bytes < slack_bytes) munmap(wide + skipped_bytes + size_bytes, slack_bytes - skipped_bytes);
  return wide + skipped_bytes;
}

delta_status_t delta_cpu_arena_reserve(delta_device_t *device, size_t reserve_bytes, delta_arena_t **out_arena) {
  *out_arena = NULL;
  size_t mapping_bytes;
  if (!delta_size_align(reserve_bytes, DELTA_CPU_GRANULE_BYTES, &reserve_bytes) ||
      !delta_size_add(reserve_bytes, 2 * DELTA_CPU_GRANULE_BYTES, &mapping_bytes)) {
    return delta_status_make(OUT_OF_MEMORY, "an arena of %zu bytes does not fit the address space", reserve_bytes);
  }
  delta_arena_t *arena = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(device->allocator, 1, &arena));
  uint8_t *mapping = reserve_bytes < HUGE_PAGE_BYTES ? MAP_FAILED : map_aligned(mapping_bytes, HUGE_PAGE_BYTES);
  const bool begins_huge = mapping != MAP_FAILED;
  if (!begins_huge) mapping = map_aligned(mapping_bytes, DELTA_CPU_GRANULE_BYTES);
  if (mapping == MAP_FAILED) {
    delta_release(device->allocator, arena);
    return delta_status_make(OUT_OF_MEMORY, "cannot reserve %zu bytes of address space for the arena: %s", mapping_bytes, strerror(errno));
  }
  if (begins_huge) madvise(mapping + DELTA_CPU_GRANULE_BYTES, reserve_bytes, MADV_HUGEPAGE); // Note [Huge pages]
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
