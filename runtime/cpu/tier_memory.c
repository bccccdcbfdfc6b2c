// The tier that is memory: pages beside the arena, taken and touched once. Where compute has all processors a copying thread would take one from a kernel that then
// waits for it, so copies run between kernels, by the whole team; with a processor left they have a lane of their own.
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "plans/schedule.h"
#include "runtime/cpu/device.h"
#include "runtime/cpu/team.h"

typedef struct memory_tier {
  delta_tier_t base;
  uint8_t *pages; // base.size_bytes of them; NULL: none
  int32_t threads;
} memory_tier_t;

typedef struct block_copy {
  uint8_t *to;
  const uint8_t *from;
  size_t size_bytes;
} block_copy_t;

static void memory_destroy(delta_tier_t *base) {
  memory_tier_t *tier = (memory_tier_t *)base;
  if (tier->pages) munmap(tier->pages, base->size_bytes);
  delta_release(base->allocator, tier);
}

static delta_status_t memory_resize(delta_tier_t *base, uint64_t size_bytes) {
  memory_tier_t *tier = (memory_tier_t *)base;
  if (size_bytes == 0) {
    munmap(tier->pages, base->size_bytes);
    tier->pages = NULL;
    return DELTA_OK;
  }
  void *pages = tier->pages ? mremap(tier->pages, base->size_bytes, size_bytes, MREMAP_MAYMOVE)
                            : mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    return delta_status_make(OUT_OF_MEMORY, "cannot take %llu bytes of memory for swapped tensors: %s; give a folder (--tier DIR)",
                             (unsigned long long)size_bytes, strerror(errno));
  }
  tier->pages = pages;
  if (size_bytes > base->size_bytes) memset(tier->pages + base->size_bytes, 0, size_bytes - base->size_bytes);
  return DELTA_OK;
}

static void copy_blocks(const void *context, int64_t begin, int64_t end, int32_t thread) {
  const block_copy_t *copy = context;
  const size_t first = (size_t)begin * DELTA_HOST_BLOCK_BYTES, limit = (size_t)end * DELTA_HOST_BLOCK_BYTES;
  (void)thread;
  memcpy(copy->to + first, copy->from + first, (limit < copy->size_bytes ? limit : copy->size_bytes) - first);
}

static delta_status_t copy_all(const memory_tier_t *tier, uint8_t *to, const uint8_t *from, size_t size_bytes) {
  const block_copy_t copy = {.to = to, .from = from, .size_bytes = size_bytes};
  const int64_t blocks = (int64_t)((size_bytes + DELTA_HOST_BLOCK_BYTES - 1) / DELTA_HOST_BLOCK_BYTES);
  delta_team_run(tier->threads, blocks, DELTA_HOST_BLOCK_BYTES, copy_blocks, &copy);
  return DELTA_OK;
}

static delta_status_t memory_write(delta_tier_t *base, uint64_t offset_bytes, const void *data, size_t size_bytes) {
  const memory_tier_t *tier = (const memory_tier_t *)base;
  return copy_all(tier, tier->pages + offset_bytes, data, size_bytes);
}

static delta_status_t memory_read(delta_tier_t *base, uint64_t offset_bytes, void *data, size_t size_bytes) {
  const memory_tier_t *tier = (const memory_tier_t *)base;
  return copy_all(tier, data, tier->pages + offset_bytes, size_bytes);
}

static const delta_tier_driver_t memory_driver = {
    .destroy = memory_destroy, .resize = memory_resize, .write = memory_write, .read = memory_read};

delta_status_t delta_cpu_tier_create(delta_device_t *device, const delta_tier_options_t *options, delta_allocator_t allocator,
                                     delta_tier_t **out_tier) {
  *out_tier = NULL;
  if (!options->folder || strcmp(options->folder, DELTA_TIER_MEMORY) != 0) {
    return delta_tier_create_file(options->folder, options->log, allocator, out_tier);
  }
  memory_tier_t *tier = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &tier));
  const bool is_beside_compute = device->threads < delta_cpu_usable_processors();
  tier->base = (delta_tier_t){.driver = &memory_driver, .allocator = allocator, .is_beside_compute = is_beside_compute};
  tier->threads = is_beside_compute ? 1 : device->threads;
  *out_tier = &tier->base;
  return DELTA_OK;
}
