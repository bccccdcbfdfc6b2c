// Allocator: the system allocator, checked allocation, and the cap that parsers of untrusted files run under.
#include "base/allocator.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static void *system_allocate(void *self, size_t size_bytes) {
  (void)self;
  return malloc(size_bytes);
}

static void *system_reallocate(void *self, void *pointer, size_t size_bytes) {
  (void)self;
  return realloc(pointer, size_bytes);
}

static void system_release(void *self, void *pointer) {
  (void)self;
  free(pointer);
}

delta_allocator_t delta_allocator_system(void) {
  return (delta_allocator_t){.allocate = system_allocate, .reallocate = system_reallocate, .release = system_release};
}

delta_status_t delta_allocate(delta_allocator_t allocator, size_t count, size_t element_bytes, void **out_pointer) {
  size_t size_bytes;
  if (!delta_size_mul(count, element_bytes, &size_bytes)) {
    return delta_status_make(OUT_OF_MEMORY, "%zu elements of %zu bytes are more than memory can address", count, element_bytes);
  }
  if (size_bytes == 0) size_bytes = 1;
  void *pointer = allocator.allocate(allocator.self, size_bytes);
  if (!pointer) return delta_status_make(OUT_OF_MEMORY, "could not allocate %zu bytes of host memory", size_bytes);
  memset(pointer, 0, size_bytes);
  *out_pointer = pointer;
  return DELTA_OK;
}

void delta_release(delta_allocator_t allocator, void *pointer) {
  if (pointer) allocator.release(allocator.self, pointer);
}

// Every block of a capped allocator starts with its size, so that releasing it can be counted.
typedef union capped_header {
  size_t size_bytes;
  max_align_t alignment;
} capped_header_t;

// Whether a block of `size_bytes` may replace one of `old_bytes`; *out_total_bytes gets its size with the header.
static bool capped_admits(const delta_capped_allocator_t *capped, size_t old_bytes, size_t size_bytes, size_t *out_total_bytes) {
  size_t live_bytes;
  return delta_size_add(size_bytes, sizeof(capped_header_t), out_total_bytes) &&
         delta_size_add(capped->live_bytes - old_bytes, size_bytes, &live_bytes) && live_bytes <= capped->limit_bytes;
}

static void *capped_reallocate(void *self, void *pointer, size_t size_bytes) {
  delta_capped_allocator_t *capped = self;
  capped_header_t *old_header = pointer ? (capped_header_t *)pointer - 1 : NULL;
  size_t old_bytes = old_header ? old_header->size_bytes : 0, total_bytes;
  if (!capped_admits(capped, old_bytes, size_bytes, &total_bytes)) return NULL;
  capped_header_t *header = capped->inner.reallocate(capped->inner.self, old_header, total_bytes);
  if (!header) return NULL;
  header->size_bytes = size_bytes;
  capped->live_bytes += size_bytes - old_bytes;
  return header + 1;
}

static void *capped_allocate(void *self, size_t size_bytes) { return capped_reallocate(self, NULL, size_bytes); }

static void capped_release(void *self, void *pointer) {
  if (!pointer) return;
  delta_capped_allocator_t *capped = self;
  capped_header_t *header = (capped_header_t *)pointer - 1;
  capped->live_bytes -= header->size_bytes;
  capped->inner.release(capped->inner.self, header);
}

void delta_capped_allocator_init(delta_capped_allocator_t *capped, delta_allocator_t inner, size_t limit_bytes) {
  *capped = (delta_capped_allocator_t){.inner = inner, .limit_bytes = limit_bytes};
}

delta_allocator_t delta_capped_allocator_interface(delta_capped_allocator_t *capped) {
  return (delta_allocator_t){.self = capped, .allocate = capped_allocate, .reallocate = capped_reallocate, .release = capped_release};
}
