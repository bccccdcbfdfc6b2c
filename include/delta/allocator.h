// Allocator: where the library takes its host memory from.
//
// Passed by value into every create function and kept by the object for its lifetime. Everything that grows with a
// model or a batch during training lives in the arena instead, which a device reserves once.
#ifndef DELTA_ALLOCATOR_H_
#define DELTA_ALLOCATOR_H_

#include <stddef.h>

#include <delta/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct delta_allocator {
  void *self; // Borrowed; outlives every object made with this allocator.
  // Returns size_bytes (> 0) bytes aligned for any type, or NULL. Content undefined.
  void *(*allocate)(void *self, size_t size_bytes);
  // As realloc: `pointer` may be NULL; on failure returns NULL and leaves `pointer` as it was. size_bytes > 0.
  void *(*reallocate)(void *self, void *pointer, size_t size_bytes);
  // Releases what allocate or reallocate returned; NULL is fine.
  void (*release)(void *self, void *pointer);
} delta_allocator_t;

// The C library's malloc family. Thread-safe.
DELTA_API delta_allocator_t delta_allocator_system(void);

#ifdef __cplusplus
}
#endif

#endif // DELTA_ALLOCATOR_H_
