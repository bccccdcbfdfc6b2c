// Array: growth of the typed arrays, by doubling.
#include "base/array.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"

enum { FIRST_CAPACITY = 8 };

delta_status_t delta_array_reserve_raw(delta_allocator_t allocator, void **items, size_t count, size_t *capacity, size_t extra,
                                       size_t element_bytes) {
  size_t wanted, size_bytes;
  if (!delta_size_add(count, extra, &wanted)) return delta_status_make(OUT_OF_MEMORY, "an array cannot hold %zu more elements", extra);
  if (wanted <= *capacity) return DELTA_OK;
  size_t grown = *capacity < FIRST_CAPACITY / 2 ? FIRST_CAPACITY : *capacity;
  if (*capacity >= FIRST_CAPACITY / 2 && !delta_size_mul(grown, 2, &grown)) grown = wanted;
  if (grown < wanted) grown = wanted;
  if (!delta_size_mul(grown, element_bytes, &size_bytes)) {
    return delta_status_make(OUT_OF_MEMORY, "an array of %zu elements of %zu bytes is more than memory can address", grown, element_bytes);
  }
  char *moved = allocator.reallocate(allocator.self, *items, size_bytes);
  if (!moved) return delta_status_make(OUT_OF_MEMORY, "could not allocate %zu bytes of host memory for an array", size_bytes);
  memset(moved + *capacity * element_bytes, 0, (grown - *capacity) * element_bytes);
  *items = moved;
  *capacity = grown;
  return DELTA_OK;
}

delta_status_t delta_array_push_raw(delta_allocator_t allocator, void **items, size_t *count, size_t *capacity, const void *element,
                                    size_t element_bytes) {
  // The element may lie inside the array, which growing moves.
  const char *begin = *items;
  bool inside = begin && (const char *)element >= begin && (const char *)element < begin + *count * element_bytes;
  size_t offset_bytes = inside ? (size_t)((const char *)element - begin) : 0;
  DELTA_RETURN_IF_ERROR(delta_array_reserve_raw(allocator, items, *count, capacity, 1, element_bytes));
  assert(*items && "capacity without items");
  if (inside) element = (const char *)*items + offset_bytes;
  memcpy((char *)*items + *count * element_bytes, element, element_bytes);
  ++*count;
  return DELTA_OK;
}
