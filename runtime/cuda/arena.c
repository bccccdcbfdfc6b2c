// Each granule is an allocation of its own, mapped at its place: the mapping holds it, so that unmapping gives it back to the device at once. Addresses behind the
// committed ones fault when a kernel touches them.
#include "runtime/cuda/arena.h"

#include <assert.h>

struct delta_arena {
  delta_cuda_device_t *device; // Borrowed.
  CUdeviceptr base;            // of the reserved range, or of the allocation; 0: none yet
  size_t reserve_bytes;
  size_t committed_bytes;
  size_t allocated_bytes; // without virtual memory
};

static CUmemAllocationProp describe_memory(int ordinal) {
  return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
}

delta_status_t delta_cuda_granule_bytes(int ordinal, size_t *out_granule_bytes) {
  const CUmemAllocationProp memory = describe_memory(ordinal);
  return DELTA_CU_CHECK(cuMemGetAllocationGranularity(out_granule_bytes, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

delta_status_t delta_cuda_arena_reserve(delta_device_t *base, size_t reserve_bytes, delta_arena_t **out_arena) {
  *out_arena = NULL;
  delta_cuda_device_t *device = delta_cuda_device(base);
  if (!delta_size_align(reserve_bytes, base->granule_bytes, &reserve_bytes))
    return delta_status_make(OUT_OF_MEMORY, "an arena of %zu bytes does not fit the address space", reserve_bytes);
  if (reserve_bytes == 0) reserve_bytes = base->granule_bytes;
  delta_arena_t *arena = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(base->allocator, 1, &arena));
  *arena = (delta_arena_t){.device = device, .reserve_bytes = reserve_bytes};
  delta_status_t status = delta_cuda_use(device);
  if (!status && device->has_virtual_memory)
    status = DELTA_CU_CHECK_BYTES(cuMemAddressReserve(&arena->base, reserve_bytes, 0, 0, 0), reserve_bytes);
  if (status) {
    delta_release(base->allocator, arena);
    return delta_status_annotate(status, "reserving %zu bytes of the device's addresses", reserve_bytes);
  }
  *out_arena = arena;
  return DELTA_OK;
}

// ---- Granules

// Gives back what is mapped between two offsets.
static delta_status_t unmap(const delta_arena_t *arena, size_t from_bytes, size_t to_bytes) {
  const size_t granule_bytes = arena->device->base.granule_bytes;
  for (size_t offset = from_bytes; offset < to_bytes; offset += granule_bytes)
    DELTA_RETURN_IF_ERROR(DELTA_CU_CHECK(cuMemUnmap(arena->base + offset, granule_bytes)));
  return DELTA_OK;
}

static delta_status_t map_granule(const delta_arena_t *arena, size_t offset, size_t wanted_bytes) {
  const CUmemAllocationProp memory = describe_memory(arena->device->ordinal);
  const size_t granule_bytes = arena->device->base.granule_bytes;
  CUmemGenericAllocationHandle granule;
  DELTA_RETURN_IF_ERROR(DELTA_CU_CHECK_BYTES(cuMemCreate(&granule, granule_bytes, &memory, 0), wanted_bytes));
  delta_status_t status = DELTA_CU_CHECK(cuMemMap(arena->base + offset, granule_bytes, 0, granule, 0));
  return delta_status_join(status, DELTA_CU_CHECK(cuMemRelease(granule)));
}

// Makes bytes usable from the committed ones on; nothing of it stays after a failure.
static delta_status_t map(delta_arena_t *arena, size_t to_bytes) {
  const size_t granule_bytes = arena->device->base.granule_bytes, from_bytes = arena->committed_bytes;
  const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = arena->device->ordinal},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  size_t mapped_bytes = from_bytes;
  delta_status_t status = DELTA_OK;
  for (; !status && mapped_bytes < to_bytes; mapped_bytes += status ? 0 : granule_bytes)
    status = map_granule(arena, mapped_bytes, to_bytes - from_bytes);
  if (!status) status = DELTA_CU_CHECK(cuMemSetAccess(arena->base + from_bytes, to_bytes - from_bytes, &access, 1));
  return status ? delta_status_join(status, unmap(arena, from_bytes, mapped_bytes)) : DELTA_OK;
}

// ---- One allocation

static delta_status_t allocate(delta_arena_t *arena, size_t wanted_bytes) {
  void *memory = NULL;
  if (arena->base != 0)
    return delta_status_make(OUT_OF_MEMORY,
                             "the arena cannot grow from %zu to %zu bytes: the device has no virtual memory; give the larger --budget from "
                             "the beginning",
                             arena->allocated_bytes, wanted_bytes);
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK_BYTES(cudaMalloc(&memory, wanted_bytes), wanted_bytes));
  arena->base = (CUdeviceptr)(uintptr_t)memory;
  arena->allocated_bytes = wanted_bytes;
  return DELTA_OK;
}

static delta_status_t change(delta_arena_t *arena, size_t committed_bytes) {
  if (!arena->device->has_virtual_memory) return committed_bytes > arena->allocated_bytes ? allocate(arena, committed_bytes) : DELTA_OK;
  if (committed_bytes > arena->committed_bytes) return map(arena, committed_bytes);
  return unmap(arena, committed_bytes, arena->committed_bytes);
}

delta_status_t delta_cuda_arena_commit(delta_arena_t *arena, size_t committed_bytes) {
  const size_t asked_bytes = committed_bytes;
  if (!delta_size_align(committed_bytes, arena->device->base.granule_bytes, &committed_bytes) || committed_bytes > arena->reserve_bytes)
    return delta_status_make(INTERNAL, "cannot commit %zu bytes: the arena reserves %zu", asked_bytes, arena->reserve_bytes);
  DELTA_RETURN_IF_ERROR(delta_cuda_use(arena->device));
  DELTA_RETURN_IF_ERROR(
      delta_status_annotate(change(arena, committed_bytes), "an arena of %zu bytes, now %zu", committed_bytes, arena->committed_bytes));
  arena->committed_bytes = committed_bytes;
  return DELTA_OK;
}

void delta_cuda_arena_destroy(delta_arena_t *arena) {
  if (!arena) return;
  delta_status_free(delta_cuda_use(arena->device));
  // A device that has failed gives nothing back; what there is to say has been said by the call that failed.
  if (arena->device->has_virtual_memory) {
    delta_status_free(unmap(arena, 0, arena->committed_bytes));
    delta_status_free(DELTA_CU_CHECK(cuMemAddressFree(arena->base, arena->reserve_bytes)));
  } else if (arena->base != 0) {
    delta_status_free(DELTA_CUDA_CHECK(cudaFree((void *)(uintptr_t)arena->base)));
  }
  delta_release(arena->device->base.allocator, arena);
}

size_t delta_cuda_arena_committed(const delta_arena_t *arena) { return arena->committed_bytes; }

void *delta_cuda_arena_address(delta_arena_t *arena, size_t offset_bytes) {
  assert(offset_bytes <= arena->reserve_bytes);
  return (void *)(uintptr_t)(arena->base + offset_bytes);
}
