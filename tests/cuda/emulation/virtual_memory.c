// Virtual memory of the driver interface: addresses are reserved pages, memory is a part of one file without a name, mapping shows that part at the addresses.
#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <fcntl.h>

#include "tests/cuda/emulation/calls.h"
#include "tests/cuda/emulation/memory.h"

enum { GUARD_BYTES = 2 << 20, MOST_HANDLES = 1 << 16 };

// What cuMemCreate gave: a part of the file. It lives until it is released and mapped nowhere.
typedef struct allocation {
  size_t size_bytes;
  off_t offset_bytes;
  bool is_shown;
  bool is_released;
  bool is_filled; // with the pattern, when it can first be touched
  uint8_t *shown; // where it was mapped last
} allocation_t;

static pthread_mutex_t allocations_lock = PTHREAD_MUTEX_INITIALIZER;
static allocation_t allocations[MOST_HANDLES]; // handle - 1; size 0: free
static int memory_file = -1;
static off_t file_end_bytes;
static uint32_t next_handle; // where to look first for one that is free

static void lock_allocations(void) {
  delta_hidden_begin();
  pthread_mutex_lock(&allocations_lock);
}

static void unlock_allocations(void) {
  pthread_mutex_unlock(&allocations_lock);
  delta_hidden_end();
}

static bool is_in_granules(size_t size_bytes) { return size_bytes > 0 && size_bytes % delta_emulated_settings()->granule_bytes == 0; }

static bool is_on_device(const CUmemLocation *location) { return location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == 0; }

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  (void)option;
  if (!is_on_device(&prop->location)) return CUDA_ERROR_INVALID_VALUE;
  if (!delta_emulated_settings()->has_virtual_memory) return CUDA_ERROR_NOT_SUPPORTED;
  *granularity = delta_emulated_settings()->granule_bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_OUT_OF_MEMORY);
  if (!is_in_granules(size) || addr != 0 || flags != 0 || alignment > GUARD_BYTES) return CUDA_ERROR_INVALID_VALUE;
  if (!delta_emulated_settings()->has_virtual_memory) return CUDA_ERROR_NOT_SUPPORTED;
  // A guard before, one behind, and room to align.
  const size_t mapping_bytes = size + 3 * (size_t)GUARD_BYTES;
  uint8_t *mapping = mmap(NULL, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  uint8_t *start = mapping + GUARD_BYTES;
  start += (GUARD_BYTES - (uintptr_t)start % GUARD_BYTES) % GUARD_BYTES;
  uint8_t *first = start - GUARD_BYTES, *end = start + size + GUARD_BYTES;
  if (first > mapping) munmap(mapping, (size_t)(first - mapping));
  if (end < mapping + mapping_bytes) munmap(end, (size_t)(mapping + mapping_bytes - end));
  if (!delta_emulated_add_addresses(start, size)) {
    munmap(first, (size_t)(end - first));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *ptr = (CUdeviceptr)(uintptr_t)start;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  uint8_t *start = (uint8_t *)(uintptr_t)ptr;
  if (!delta_emulated_remove_addresses(start, size)) {
    delta_emulated_report("%s: these addresses were not reserved like this, or have memory", __func__);
    return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(start - GUARD_BYTES, size + 2 * (size_t)GUARD_BYTES);
  return CUDA_SUCCESS;
}

// With the lock.
static CUresult create_allocation(size_t size_bytes, CUmemGenericAllocationHandle *out_handle) {
  if (memory_file < 0) memory_file = memfd_create("device memory", MFD_CLOEXEC);
  if (memory_file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  for (uint32_t tried = 0; tried < MOST_HANDLES; ++tried) {
    const uint32_t k = next_handle++ % MOST_HANDLES;
    if (allocations[k].size_bytes) continue;
    if (ftruncate(memory_file, file_end_bytes + (off_t)size_bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    allocations[k] = (allocation_t){.size_bytes = size_bytes, .offset_bytes = file_end_bytes};
    file_end_bytes += (off_t)size_bytes;
    *out_handle = k + 1;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_OUT_OF_MEMORY);
  if (!is_in_granules(size) || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || !is_on_device(&prop->location) || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!delta_emulated_take_bytes(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  lock_allocations();
  const CUresult result = create_allocation(size, handle);
  unlock_allocations();
  if (result != CUDA_SUCCESS) delta_emulated_give_bytes(size);
  return result;
}

// With the lock. Gives back what is released and shown nowhere.
static void drop_allocation(allocation_t *allocation) {
  if (!allocation->is_released || allocation->is_shown) return;
  fallocate(memory_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, allocation->offset_bytes, (off_t)allocation->size_bytes);
  delta_emulated_give_bytes(allocation->size_bytes);
  *allocation = (allocation_t){0};
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  lock_allocations();
  const bool is_known = handle >= 1 && handle <= MOST_HANDLES && allocations[handle - 1].size_bytes && !allocations[handle - 1].is_released;
  if (is_known) {
    allocations[handle - 1].is_released = true;
    drop_allocation(&allocations[handle - 1]);
  }
  unlock_allocations();
  if (!is_known) delta_emulated_report("%s: no memory has this handle", __func__);
  return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_MAP_FAILED);
  uint8_t *start = (uint8_t *)(uintptr_t)ptr;
  lock_allocations();
  allocation_t *allocation = handle >= 1 && handle <= MOST_HANDLES ? &allocations[handle - 1] : NULL;
  const bool is_right = allocation && allocation->size_bytes == size && !allocation->is_released && !allocation->is_shown && offset == 0 &&
                        flags == 0 && delta_emulated_move_granules(start, size, DELTA_EMULATED_RESERVED, DELTA_EMULATED_MAPPED);
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (is_right) {
    void *shown = mmap(start, size, PROT_NONE, MAP_SHARED | MAP_FIXED, memory_file, allocation->offset_bytes);
    result = shown == MAP_FAILED ? CUDA_ERROR_MAP_FAILED : CUDA_SUCCESS;
    if (shown == MAP_FAILED) {
      delta_emulated_move_granules(start, size, DELTA_EMULATED_MAPPED, DELTA_EMULATED_RESERVED);
    } else {
      allocation->is_shown = true;
      allocation->shown = start;
      delta_emulated_set_owner(start, allocation);
    }
  }
  unlock_allocations();
  if (!is_right) delta_emulated_report("%s: the addresses are not reserved and free, or it is not a whole allocation", __func__);
  return result;
}

// With the lock. Calls the function for each allocation that is shown in the part. Whether the part consists of whole ones.
static bool for_each_shown(uint8_t *start, size_t size, void (*function)(allocation_t *allocation)) {
  size_t done_bytes = 0;
  while (done_bytes < size) {
    allocation_t *allocation = delta_emulated_owner(start + done_bytes);
    if (!allocation || allocation->size_bytes > size - done_bytes) return false;
    done_bytes += allocation->size_bytes;
    if (function) function(allocation);
  }
  return true;
}

static void hide_allocation(allocation_t *allocation) {
  mmap(allocation->shown, allocation->size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  delta_emulated_set_owner(allocation->shown, NULL);
  allocation->is_shown = false;
  drop_allocation(allocation);
}

static void open_allocation(allocation_t *allocation) {
  mprotect(allocation->shown, allocation->size_bytes, PROT_READ | PROT_WRITE);
  if (!allocation->is_filled) memset(allocation->shown, DELTA_EMULATED_FILL, allocation->size_bytes);
  allocation->is_filled = true;
}

// What is shown from `start` on is no longer what it was, and `change` is done to each allocation there.
static CUresult change_shown(const char *call, uint8_t *start, size_t size, delta_emulated_granule_t from, delta_emulated_granule_t to,
                             void (*change)(allocation_t *allocation)) {
  lock_allocations();
  const bool is_right = for_each_shown(start, size, NULL) && delta_emulated_move_granules(start, size, from, to);
  if (is_right) for_each_shown(start, size, change);
  unlock_allocations();
  if (!is_right) delta_emulated_report("%s: the part does not consist of whole mapped allocations", call);
  return is_right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  return change_shown(__func__, (uint8_t *)(uintptr_t)ptr, size, DELTA_EMULATED_MAPPED, DELTA_EMULATED_RESERVED, hide_allocation);
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  if (count != 1 || !is_on_device(&desc->location) || desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  return change_shown(__func__, (uint8_t *)(uintptr_t)ptr, size, DELTA_EMULATED_MAPPED, DELTA_EMULATED_ACCESSIBLE, open_allocation);
}
