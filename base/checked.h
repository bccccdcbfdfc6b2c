// Checked arithmetic for sizes, counts and offsets: every size that a file or a user can influence goes through here.
// Each function returns false on overflow and leaves *out alone.
#ifndef DELTA_BASE_CHECKED_H_
#define DELTA_BASE_CHECKED_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool delta_size_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool delta_size_mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool delta_int64_add(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool delta_int64_sub(int64_t a, int64_t b, int64_t *out) { return !__builtin_sub_overflow(a, b, out); }
static inline bool delta_int64_mul(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }

// Rounds `size` up to a multiple of `alignment` (a power of two).
static inline bool delta_size_align(size_t size, size_t alignment, size_t *out) {
  size_t padded;
  if (!delta_size_add(size, alignment - 1, &padded)) return false;
  *out = padded & ~(alignment - 1);
  return true;
}

// The same for any granule, of sizes that are known to fit: those of plans that were checked.
static inline uint64_t delta_size_round_up(uint64_t size_bytes, uint64_t granule_bytes) {
  return (size_bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
}

#endif // DELTA_BASE_CHECKED_H_
