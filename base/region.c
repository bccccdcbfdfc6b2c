// Region: a list of blocks, each at least twice as large as the one before up to a limit; memory is handed out from the newest.
#include "base/region.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

enum { ALIGNMENT_BYTES = 16, FIRST_BLOCK_BYTES = 4 << 10, LARGEST_BLOCK_BYTES = 1 << 20 };

typedef struct delta_region_block {
  alignas(ALIGNMENT_BYTES) struct delta_region_block *next; // Owned; the block before.
  size_t size_bytes;                                        // usable bytes behind this header
} delta_region_block_t;

void delta_region_init(delta_region_t *region, delta_allocator_t allocator) { *region = (delta_region_t){.allocator = allocator}; }

void delta_region_deinit(delta_region_t *region) {
  for (delta_region_block_t *block = region->blocks, *next; block; block = next) {
    next = block->next;
    delta_release(region->allocator, block);
  }
  region->blocks = NULL;
  region->used_bytes = region->total_bytes = 0;
}

// Puts a block with room for at least `size_bytes` in front.
static delta_status_t region_grow(delta_region_t *region, size_t size_bytes) {
  size_t block_bytes = region->blocks ? region->blocks->size_bytes * 2 : FIRST_BLOCK_BYTES;
  if (block_bytes > LARGEST_BLOCK_BYTES) block_bytes = LARGEST_BLOCK_BYTES;
  if (block_bytes < size_bytes) block_bytes = size_bytes;
  size_t total_bytes;
  delta_region_block_t *block = NULL;
  if (delta_size_add(block_bytes, sizeof *block, &total_bytes)) {
    block = region->allocator.allocate(region->allocator.self, total_bytes);
  }
  if (!block) return delta_status_make(OUT_OF_MEMORY, "could not allocate %zu bytes of host memory", block_bytes);
  block->next = region->blocks;
  block->size_bytes = block_bytes;
  region->blocks = block;
  region->used_bytes = 0;
  region->total_bytes += total_bytes;
  return DELTA_OK;
}

delta_status_t delta_region_reset(delta_region_t *region) {
  region->used_bytes = 0;
  if (!region->blocks || !region->blocks->next) return DELTA_OK;
  const size_t total_bytes = region->total_bytes;
  delta_region_deinit(region);
  return region_grow(region, total_bytes);
}

delta_status_t delta_region_allocate(delta_region_t *region, size_t count, size_t element_bytes, void **out_pointer) {
  size_t size_bytes, aligned_bytes;
  if (!delta_size_mul(count, element_bytes, &size_bytes) ||
      !delta_size_align(size_bytes ? size_bytes : 1, ALIGNMENT_BYTES, &aligned_bytes)) {
    return delta_status_make(OUT_OF_MEMORY, "%zu elements of %zu bytes are more than memory can address", count, element_bytes);
  }
  if (!region->blocks || region->blocks->size_bytes - region->used_bytes < aligned_bytes) {
    DELTA_RETURN_IF_ERROR(region_grow(region, aligned_bytes));
  }
  char *pointer = (char *)(region->blocks + 1) + region->used_bytes;
  region->used_bytes += aligned_bytes;
  memset(pointer, 0, aligned_bytes);
  *out_pointer = pointer;
  return DELTA_OK;
}

delta_status_t delta_region_copy(delta_region_t *region, const void *items, size_t count, size_t element_bytes, void **out_pointer) {
  void *copy;
  DELTA_RETURN_IF_ERROR(delta_region_allocate(region, count, element_bytes, &copy));
  if (count * element_bytes > 0) memcpy(copy, items, count * element_bytes);
  *out_pointer = copy;
  return DELTA_OK;
}

delta_status_t delta_region_copy_string(delta_region_t *region, const char *text, size_t length, char **out_text) {
  size_t size_bytes;
  if (!delta_size_add(length, 1, &size_bytes)) return delta_status_make(OUT_OF_MEMORY, "a text of %zu bytes is too long", length);
  void *copy;
  DELTA_RETURN_IF_ERROR(delta_region_allocate(region, size_bytes, 1, &copy));
  if (length > 0) memcpy(copy, text, length);
  *out_text = copy;
  return DELTA_OK;
}

delta_status_t delta_region_format(delta_region_t *region, char **out_text, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  delta_status_t status = DELTA_OK;
  void *text = NULL;
  int length = vsnprintf(NULL, 0, format, arguments);
  if (length < 0) {
    status = delta_status_make(INTERNAL, "text could not be formatted by '%s'", format);
    goto cleanup;
  }
  DELTA_GOTO_IF_ERROR(status, delta_region_allocate(region, (size_t)length + 1, 1, &text), cleanup);
  vsnprintf(text, (size_t)length + 1, format, again);
  *out_text = text;
cleanup:
  va_end(again);
  va_end(arguments);
  return status;
}
