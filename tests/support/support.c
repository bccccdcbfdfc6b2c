// Support: see support.h.
#include "tests/support/support.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool delta_test_shared_path(const char *relative, char out_path[DELTA_TEST_PATH_BYTES]) {
  const char *folder = getenv("DELTA_SHARED");
  const int length = snprintf(out_path, DELTA_TEST_PATH_BYTES, "%s/%s", folder && *folder ? folder : DELTA_DEFAULT_SHARED, relative);
  return length > 0 && length < DELTA_TEST_PATH_BYTES && access(out_path, R_OK) == 0;
}

// Stands before every block.
typedef union block_header {
  size_t size_bytes;
  max_align_t alignment;
} block_header_t;

static bool shall_fail(delta_test_allocator_t *self) {
  const size_t call = atomic_fetch_add(&self->call_count, 1) + 1;
  return self->fail_at > 0 && (call == self->fail_at || (call > self->fail_at && self->failure == DELTA_TEST_FAIL_FROM_THEN_ON));
}

static void *allocate_block(delta_test_allocator_t *self, size_t size_bytes) {
  if (size_bytes > SIZE_MAX - sizeof(block_header_t)) return NULL;
  block_header_t *header = malloc(sizeof *header + size_bytes);
  if (!header) return NULL;
  header->size_bytes = size_bytes;
  memset(header + 1, 0xa5, size_bytes); // content is undefined by contract
  atomic_fetch_add(&self->live_blocks, 1);
  const size_t live_bytes = atomic_fetch_add(&self->live_bytes, size_bytes) + size_bytes;
  size_t peak_bytes = atomic_load(&self->peak_bytes);
  while (live_bytes > peak_bytes && !atomic_compare_exchange_weak(&self->peak_bytes, &peak_bytes, live_bytes)) {
  }
  return header + 1;
}

static void *test_allocate(void *self, size_t size_bytes) { return shall_fail(self) ? NULL : allocate_block(self, size_bytes); }

static void test_release(void *self, void *pointer) {
  if (!pointer) return;
  delta_test_allocator_t *allocator = self;
  block_header_t *header = (block_header_t *)pointer - 1;
  atomic_fetch_sub(&allocator->live_blocks, 1);
  atomic_fetch_sub(&allocator->live_bytes, header->size_bytes);
  free(header);
}

static void *test_reallocate(void *self, void *pointer, size_t size_bytes) {
  if (shall_fail(self)) return NULL;
  void *moved = allocate_block(self, size_bytes);
  if (!moved || !pointer) return moved;
  const size_t old_bytes = ((block_header_t *)pointer - 1)->size_bytes;
  memcpy(moved, pointer, old_bytes < size_bytes ? old_bytes : size_bytes);
  test_release(self, pointer);
  return moved;
}

void delta_test_allocator_init(delta_test_allocator_t *self, size_t fail_at, delta_test_failure_t failure) {
  self->fail_at = fail_at;
  self->failure = failure;
  atomic_init(&self->call_count, 0);
  atomic_init(&self->live_bytes, 0);
  atomic_init(&self->live_blocks, 0);
  atomic_init(&self->peak_bytes, 0);
}

delta_allocator_t delta_test_allocator_interface(delta_test_allocator_t *self) {
  return (delta_allocator_t){.self = self, .allocate = test_allocate, .reallocate = test_reallocate, .release = test_release};
}
