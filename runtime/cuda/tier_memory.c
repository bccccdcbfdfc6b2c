// The tier below the GPU's memory: host memory that is pinned, so that the GPU's copy engines reach it without the processor, taken once and of exact size. Copies of a step go into
// the queues of their lanes; those between steps are waited for.
#include <string.h>
#include <unistd.h>

#include "runtime/cuda/device.h"

typedef struct pinned_tier {
  delta_tier_t base;
  delta_cuda_device_t *device; // Borrowed.
  uint8_t *memory;             // Owned; base.size_bytes of them; NULL: none
} pinned_tier_t;

static void pinned_free(uint8_t *memory) {
  // Fails only on a device that has failed before, which was told of then.
  if (memory) delta_status_free(DELTA_CUDA_CHECK(cudaFreeHost(memory)));
}

static uint64_t free_host_bytes(void) {
  const long pages = sysconf(_SC_AVPHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}

static void pinned_destroy(delta_tier_t *base) {
  pinned_tier_t *tier = (pinned_tier_t *)base;
  pinned_free(tier->memory);
  delta_release(base->allocator, tier);
}

static delta_status_t pinned_resize(delta_tier_t *base, uint64_t size_bytes) {
  pinned_tier_t *tier = (pinned_tier_t *)base;
  const uint64_t kept_bytes = size_bytes < base->size_bytes ? size_bytes : base->size_bytes;
  void *memory = NULL;
  DELTA_RETURN_IF_ERROR(delta_cuda_use(tier->device));
  if (size_bytes > 0)
    DELTA_RETURN_IF_ERROR(delta_status_annotate(
        DELTA_CUDA_CHECK(cudaMallocHost(&memory, size_bytes)),
        "%llu bytes of host memory asked for, to be pinned for swapped tensors; %llu are free; lower --host-budget or --batch",
        (unsigned long long)size_bytes, (unsigned long long)free_host_bytes()));
  if (kept_bytes > 0) memcpy(memory, tier->memory, kept_bytes);
  pinned_free(tier->memory);
  tier->memory = memory;
  return DELTA_OK;
}

static delta_status_t pinned_enqueue(delta_tier_t *base, delta_lane_t lane, bool writes, uint64_t offset_bytes, void *memory,
                                     size_t size_bytes) {
  const pinned_tier_t *tier = (const pinned_tier_t *)base;
  uint8_t *place = tier->memory + offset_bytes;
  return writes ? DELTA_CUDA_CHECK(cudaMemcpyAsync(place, memory, size_bytes, cudaMemcpyDeviceToHost, tier->device->streams[lane]))
                : DELTA_CUDA_CHECK(cudaMemcpyAsync(memory, place, size_bytes, cudaMemcpyHostToDevice, tier->device->streams[lane]));
}

// Between steps; `from` and `to` may be of the host or of the device.
static delta_status_t copy_now(const pinned_tier_t *tier, void *to, const void *from, size_t size_bytes) {
  const cudaStream_t stream = tier->device->streams[DELTA_LANE_COMPUTE];
  DELTA_RETURN_IF_ERROR(delta_cuda_use(tier->device));
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream)));
  return DELTA_CUDA_CHECK(cudaStreamSynchronize(stream));
}

static delta_status_t pinned_write(delta_tier_t *base, uint64_t offset_bytes, const void *data, size_t size_bytes) {
  const pinned_tier_t *tier = (const pinned_tier_t *)base;
  return copy_now(tier, tier->memory + offset_bytes, data, size_bytes);
}

static delta_status_t pinned_read(delta_tier_t *base, uint64_t offset_bytes, void *data, size_t size_bytes) {
  const pinned_tier_t *tier = (const pinned_tier_t *)base;
  return copy_now(tier, data, tier->memory + offset_bytes, size_bytes);
}

static const delta_tier_driver_t pinned_driver = {
    .destroy = pinned_destroy, .resize = pinned_resize, .write = pinned_write, .read = pinned_read, .enqueue = pinned_enqueue};

delta_status_t delta_cuda_tier_create(delta_device_t *device, const delta_tier_options_t *options, delta_allocator_t allocator,
                                      delta_tier_t **out_tier) {
  *out_tier = NULL;
  if (options->folder && strcmp(options->folder, DELTA_TIER_MEMORY) != 0)
    return delta_status_make(UNSUPPORTED,
                             "--tier %s: device '%s' swaps to pinned host memory; leave --tier out, or give '" DELTA_TIER_MEMORY "'",
                             options->folder, device->name);
  pinned_tier_t *tier = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &tier));
  tier->base = (delta_tier_t){.driver = &pinned_driver, .allocator = allocator};
  tier->device = delta_cuda_device(device);
  *out_tier = &tier->base;
  return DELTA_OK;
}
