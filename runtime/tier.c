// Tier: what all kinds share: sizes in whole blocks, and ranges that are checked before a driver sees them.
#include "runtime/tier.h"

void delta_tier_destroy(delta_tier_t *tier) {
  if (tier) tier->driver->destroy(tier);
}

static delta_status_t resize(delta_tier_t *tier, uint64_t size_bytes) {
  size_bytes = (size_bytes + DELTA_HOST_BLOCK_BYTES - 1) / DELTA_HOST_BLOCK_BYTES * DELTA_HOST_BLOCK_BYTES;
  DELTA_RETURN_IF_ERROR(tier->driver->resize(tier, size_bytes));
  tier->size_bytes = size_bytes;
  ++tier->resizes;
  return DELTA_OK;
}

delta_status_t delta_tier_reserve(delta_tier_t *tier, uint64_t size_bytes) {
  if (size_bytes <= tier->size_bytes) return DELTA_OK;
  if (size_bytes > (uint64_t)INT64_MAX - DELTA_HOST_BLOCK_BYTES) {
    return delta_status_make(UNSUPPORTED, "%llu bytes below the arena", (unsigned long long)size_bytes);
  }
  return resize(tier, size_bytes);
}

delta_status_t delta_tier_trim(delta_tier_t *tier, uint64_t size_bytes) {
  return size_bytes + DELTA_HOST_BLOCK_BYTES > tier->size_bytes ? DELTA_OK : resize(tier, size_bytes);
}

uint64_t delta_tier_size_bytes(const delta_tier_t *tier) { return tier->size_bytes; }

static delta_status_t check_range(const delta_tier_t *tier, uint64_t offset_bytes, size_t size_bytes) {
  const bool is_inside = offset_bytes <= tier->size_bytes && size_bytes <= tier->size_bytes - offset_bytes;
  if (is_inside && offset_bytes % DELTA_HOST_BLOCK_BYTES == 0) return DELTA_OK;
  return delta_status_make(INTERNAL, "a copy of %zu bytes at %llu of a tier below of %llu bytes", size_bytes,
                           (unsigned long long)offset_bytes, (unsigned long long)tier->size_bytes);
}

delta_status_t delta_tier_write(delta_tier_t *tier, uint64_t offset_bytes, const void *data, size_t size_bytes) {
  DELTA_RETURN_IF_ERROR(check_range(tier, offset_bytes, size_bytes));
  return tier->driver->write(tier, offset_bytes, data, size_bytes);
}

delta_status_t delta_tier_read(delta_tier_t *tier, uint64_t offset_bytes, void *data, size_t size_bytes) {
  DELTA_RETURN_IF_ERROR(check_range(tier, offset_bytes, size_bytes));
  return tier->driver->read(tier, offset_bytes, data, size_bytes);
}

delta_status_t delta_tier_enqueue(delta_tier_t *tier, delta_lane_t lane, bool writes, uint64_t offset_bytes, void *memory,
                                  size_t size_bytes) {
  DELTA_RETURN_IF_ERROR(check_range(tier, offset_bytes, size_bytes));
  return tier->driver->enqueue(tier, lane, writes, offset_bytes, memory, size_bytes);
}
