// Each allocation lies between two pages that cannot be touched. What is left of its last page is filled with a pattern that is looked at when it is freed.
#include "tests/cuda/emulation/memory.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda/emulation/calls.h"
#include "tests/cuda/emulation/stream.h"

enum { PAGE_BYTES = 4096, GUARD_BYTES = PAGE_BYTES, SLACK_FILL = 0xa5 };

typedef struct range {
  struct range *next;
  delta_emulated_kind_t kind;
  uint8_t *start;
  size_t size_bytes;
  uint8_t *granules; // Owned; states of a range of addresses; NULL: not one
  void **owners;     // Owned; of the same granules
  size_t granule_bytes;
  bool is_registered; // pinned by cudaHostRegister: the caller's memory
} range_t;

static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;
static range_t *ranges;
static uint64_t used_bytes;

static void lock_ranges(void) {
  delta_hidden_begin();
  pthread_mutex_lock(&ranges_lock);
}

static void unlock_ranges(void) {
  pthread_mutex_unlock(&ranges_lock);
  delta_hidden_end();
}

static size_t round_up(size_t size_bytes, size_t to) { return (size_bytes + to - 1) / to * to; }

// ---- Ranges

static range_t *find_range(const void *data) {
  for (range_t *range = ranges; range; range = range->next) {
    if ((const uint8_t *)data >= range->start && (const uint8_t *)data < range->start + range->size_bytes) return range;
  }
  return NULL;
}

static bool add_range(range_t range) {
  range_t *added = malloc(sizeof *added);
  if (!added) return false;
  *added = range;
  lock_ranges();
  added->next = ranges;
  ranges = added;
  unlock_ranges();
  return true;
}

// Takes the range that starts at `start` out of the list; the caller frees. NULL: none of this kind.
static range_t *take_range(const void *start, delta_emulated_kind_t kind) {
  lock_ranges();
  range_t **at = &ranges;
  while (*at && ((*at)->start != start || (*at)->kind != kind)) at = &(*at)->next;
  range_t *found = *at;
  if (found) *at = found->next;
  unlock_ranges();
  return found;
}

// Whether granules are in a state; what is accessible is mapped, too.
static bool has_granules(const range_t *range, size_t offset_bytes, size_t size_bytes, delta_emulated_granule_t state) {
  const size_t end_bytes = offset_bytes + (size_bytes ? size_bytes : 1);
  for (size_t g = offset_bytes / range->granule_bytes; g * range->granule_bytes < end_bytes; ++g) {
    const uint8_t found = range->granules[g];
    if (found != state && !(state == DELTA_EMULATED_MAPPED && found == DELTA_EMULATED_ACCESSIBLE)) return false;
  }
  return true;
}

delta_emulated_kind_t delta_emulated_kind_of(const void *data, size_t size_bytes) {
  lock_ranges();
  const range_t *range = find_range(data);
  delta_emulated_kind_t kind = DELTA_EMULATED_UNKNOWN;
  if (range) {
    const size_t offset_bytes = (size_t)((const uint8_t *)data - range->start);
    const bool is_whole = size_bytes <= range->size_bytes - offset_bytes &&
                          (!range->granules || has_granules(range, offset_bytes, size_bytes, DELTA_EMULATED_ACCESSIBLE));
    kind = is_whole ? range->kind : DELTA_EMULATED_BROKEN;
  }
  unlock_ranges();
  return kind;
}

static const char *const kind_names[] = {"memory of the host that is not pinned", "device memory", "pinned memory",
                                         "a part that goes beyond its allocation or is not mapped"};

bool delta_emulated_is_device(const char *call, const char *what, const void *data, size_t size_bytes) {
  const delta_emulated_kind_t kind = delta_emulated_kind_of(data, size_bytes);
  if (kind != DELTA_EMULATED_DEVICE) delta_emulated_report("%s: %s (%zu bytes) is %s", call, what, size_bytes, kind_names[kind]);
  return kind == DELTA_EMULATED_DEVICE;
}

bool delta_emulated_is_reachable(const char *call, const char *what, const void *data, size_t size_bytes) {
  const delta_emulated_kind_t kind = delta_emulated_kind_of(data, size_bytes);
  const bool is_reachable = kind == DELTA_EMULATED_DEVICE || kind == DELTA_EMULATED_PINNED;
  if (!is_reachable) delta_emulated_report("%s: %s (%zu bytes) is %s", call, what, size_bytes, kind_names[kind]);
  return is_reachable;
}

// ---- How much there is

bool delta_emulated_take_bytes(size_t size_bytes) {
  const uint64_t device_bytes = delta_emulated_settings()->device_bytes;
  lock_ranges();
  const bool fits = used_bytes <= device_bytes && size_bytes <= device_bytes - used_bytes;
  if (fits) used_bytes += size_bytes;
  unlock_ranges();
  return fits;
}

void delta_emulated_give_bytes(size_t size_bytes) {
  lock_ranges();
  used_bytes -= size_bytes;
  unlock_ranges();
}

uint64_t delta_emulated_used_bytes(void) {
  lock_ranges();
  const uint64_t bytes = used_bytes;
  unlock_ranges();
  return bytes;
}

static void find_free(size_t *free_bytes, size_t *total_bytes) {
  const uint64_t device_bytes = delta_emulated_settings()->device_bytes, used = delta_emulated_used_bytes();
  *free_bytes = used < device_bytes ? (size_t)(device_bytes - used) : 0;
  *total_bytes = (size_t)device_bytes;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  find_free(free_bytes, total);
  return cudaSuccess;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  find_free(free_bytes, total);
  return CUDA_SUCCESS;
}

// ---- Allocations

static void *map_guarded(size_t size_bytes) {
  const size_t inner_bytes = round_up(size_bytes, PAGE_BYTES);
  uint8_t *mapping = mmap(NULL, inner_bytes + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return NULL;
  uint8_t *start = mapping + GUARD_BYTES;
  if (mprotect(start, inner_bytes, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, inner_bytes + 2 * GUARD_BYTES);
    return NULL;
  }
  memset(start, DELTA_EMULATED_FILL, size_bytes);
  memset(start + size_bytes, SLACK_FILL, inner_bytes - size_bytes);
  return start;
}

static void unmap_guarded(uint8_t *start, size_t size_bytes, const char *call) {
  const size_t inner_bytes = round_up(size_bytes, PAGE_BYTES);
  size_t written = 0;
  for (size_t k = size_bytes; k < inner_bytes; ++k) written += start[k] != SLACK_FILL;
  if (written) delta_emulated_report("%s: %zu bytes behind an allocation of %zu bytes were written", call, written, size_bytes);
  munmap(start - GUARD_BYTES, inner_bytes + 2 * GUARD_BYTES);
}

// Pinned memory is the host's, so it does not count as the device's.
static cudaError_t allocate(void **out_data, size_t size_bytes, delta_emulated_kind_t kind) {
  *out_data = NULL;
  if (size_bytes == 0) return cudaSuccess;
  if (kind == DELTA_EMULATED_DEVICE && !delta_emulated_take_bytes(size_bytes)) return delta_emulated_error(cudaErrorMemoryAllocation);
  uint8_t *start = map_guarded(size_bytes);
  if (start && add_range((range_t){.kind = kind, .start = start, .size_bytes = size_bytes})) {
    *out_data = start;
    return cudaSuccess;
  }
  if (start) unmap_guarded(start, size_bytes, "cudaMalloc");
  if (kind == DELTA_EMULATED_DEVICE) delta_emulated_give_bytes(size_bytes);
  return delta_emulated_error(cudaErrorMemoryAllocation);
}

static cudaError_t release(void *data, delta_emulated_kind_t kind, const char *call) {
  if (!data) return cudaSuccess;
  delta_emulated_synchronize_streams();
  range_t *range = take_range(data, kind);
  if (!range || range->granules || range->is_registered) {
    delta_emulated_report("%s: no allocation of this kind begins at the pointer", call);
    return delta_emulated_error(cudaErrorInvalidValue);
  }
  unmap_guarded(range->start, range->size_bytes, call);
  if (kind == DELTA_EMULATED_DEVICE) delta_emulated_give_bytes(range->size_bytes);
  free(range);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **data, size_t size_bytes) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorMemoryAllocation);
  if (delta_emulated_is_any_capturing()) return delta_emulated_refuse_in_capture(__func__);
  delta_emulated_take_context();
  return allocate(data, size_bytes, DELTA_EMULATED_DEVICE);
}

cudaError_t cudaFree(void *data) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (delta_emulated_is_any_capturing()) return delta_emulated_refuse_in_capture(__func__);
  return release(data, DELTA_EMULATED_DEVICE, __func__);
}

cudaError_t cudaHostAlloc(void **data, size_t size_bytes, unsigned int flags) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorMemoryAllocation);
  (void)flags;
  return allocate(data, size_bytes, DELTA_EMULATED_PINNED);
}

cudaError_t cudaMallocHost(void **data, size_t size_bytes) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorMemoryAllocation);
  return allocate(data, size_bytes, DELTA_EMULATED_PINNED);
}

cudaError_t cudaFreeHost(void *data) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  return release(data, DELTA_EMULATED_PINNED, __func__);
}

cudaError_t cudaHostRegister(void *data, size_t size_bytes, unsigned int flags) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorMemoryAllocation);
  (void)flags;
  if (!data || size_bytes == 0) return delta_emulated_error(cudaErrorInvalidValue);
  if (delta_emulated_kind_of(data, 1) != DELTA_EMULATED_UNKNOWN) return delta_emulated_error(cudaErrorHostMemoryAlreadyRegistered);
  const range_t range = {.kind = DELTA_EMULATED_PINNED, .start = data, .size_bytes = size_bytes, .is_registered = true};
  return add_range(range) ? cudaSuccess : delta_emulated_error(cudaErrorMemoryAllocation);
}

cudaError_t cudaHostUnregister(void *data) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  range_t *range = take_range(data, DELTA_EMULATED_PINNED);
  if (!range || !range->is_registered) return delta_emulated_error(cudaErrorHostMemoryNotRegistered);
  free(range);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *data) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  const delta_emulated_kind_t kind = delta_emulated_kind_of(data, 1);
  *attributes = (struct cudaPointerAttributes){.type = kind == DELTA_EMULATED_DEVICE   ? cudaMemoryTypeDevice
                                                       : kind == DELTA_EMULATED_PINNED ? cudaMemoryTypeHost
                                                                                       : cudaMemoryTypeUnregistered};
  if (kind == DELTA_EMULATED_DEVICE || kind == DELTA_EMULATED_PINNED) attributes->devicePointer = (void *)data;
  if (kind == DELTA_EMULATED_PINNED) attributes->hostPointer = (void *)data;
  return cudaSuccess;
}

// ---- Ranges of addresses

bool delta_emulated_add_addresses(void *start, size_t size_bytes) {
  const size_t granule_bytes = delta_emulated_settings()->granule_bytes;
  range_t range = {.kind = DELTA_EMULATED_DEVICE, .start = start, .size_bytes = size_bytes, .granule_bytes = granule_bytes};
  range.granules = calloc(size_bytes / granule_bytes, sizeof *range.granules);
  range.owners = calloc(size_bytes / granule_bytes, sizeof *range.owners);
  if (range.granules && range.owners && add_range(range)) return true;
  free(range.granules);
  free(range.owners);
  return false;
}

bool delta_emulated_remove_addresses(void *start, size_t size_bytes) {
  lock_ranges();
  const range_t *range = find_range(start);
  const bool is_unused = range && range->start == start && range->size_bytes == size_bytes && range->granules &&
                         has_granules(range, 0, size_bytes, DELTA_EMULATED_RESERVED);
  unlock_ranges();
  if (!is_unused) return false;
  range_t *taken = take_range(start, DELTA_EMULATED_DEVICE);
  free(taken->granules);
  free(taken->owners);
  free(taken);
  return true;
}

bool delta_emulated_move_granules(void *start, size_t size_bytes, delta_emulated_granule_t from, delta_emulated_granule_t to) {
  lock_ranges();
  range_t *range = find_range(start);
  const size_t offset_bytes = range ? (size_t)((uint8_t *)start - range->start) : 0;
  const bool is_movable = range && range->granules && size_bytes > 0 && offset_bytes % range->granule_bytes == 0 &&
                          size_bytes % range->granule_bytes == 0 && size_bytes <= range->size_bytes - offset_bytes &&
                          has_granules(range, offset_bytes, size_bytes, from);
  if (is_movable) {
    memset(range->granules + offset_bytes / range->granule_bytes, (int)to, size_bytes / range->granule_bytes);
  }
  unlock_ranges();
  return is_movable;
}

static void **owner_of(void *start) {
  const range_t *range = find_range(start);
  return &range->owners[(size_t)((uint8_t *)start - range->start) / range->granule_bytes];
}

void delta_emulated_set_owner(void *start, void *owner) {
  lock_ranges();
  *owner_of(start) = owner;
  unlock_ranges();
}

void *delta_emulated_owner(void *start) {
  lock_ranges();
  void *owner = find_range(start) ? *owner_of(start) : NULL;
  unlock_ranges();
  return owner;
}
