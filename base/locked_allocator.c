// A mutex around every call.
#include "base/locked_allocator.h"

static void *locked_allocate(void *self, size_t size_bytes) {
  delta_locked_allocator_t *locked = self;
  pthread_mutex_lock(&locked->mutex);
  void *pointer = locked->inner.allocate(locked->inner.self, size_bytes);
  pthread_mutex_unlock(&locked->mutex);
  return pointer;
}

static void *locked_reallocate(void *self, void *pointer, size_t size_bytes) {
  delta_locked_allocator_t *locked = self;
  pthread_mutex_lock(&locked->mutex);
  void *moved = locked->inner.reallocate(locked->inner.self, pointer, size_bytes);
  pthread_mutex_unlock(&locked->mutex);
  return moved;
}

static void locked_release(void *self, void *pointer) {
  delta_locked_allocator_t *locked = self;
  pthread_mutex_lock(&locked->mutex);
  locked->inner.release(locked->inner.self, pointer);
  pthread_mutex_unlock(&locked->mutex);
}

void delta_locked_allocator_init(delta_locked_allocator_t *locked, delta_allocator_t inner) {
  locked->inner = inner;
  pthread_mutex_init(&locked->mutex, NULL);
}

void delta_locked_allocator_deinit(delta_locked_allocator_t *locked) { pthread_mutex_destroy(&locked->mutex); }

delta_allocator_t delta_locked_allocator_interface(delta_locked_allocator_t *locked) {
  return (delta_allocator_t){.self = locked, .allocate = locked_allocate, .reallocate = locked_reallocate, .release = locked_release};
}
