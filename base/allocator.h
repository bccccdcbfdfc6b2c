// Allocation through the caller's allocator, with counts multiplied under overflow checks.
#ifndef DELTA_BASE_ALLOCATOR_H_
#define DELTA_BASE_ALLOCATOR_H_

#include <delta/allocator.h>

#include "base/status.h"

// Allocates count * element_bytes zeroed bytes. A product of zero gives a valid pointer that must still be released.
// OUT_OF_MEMORY names the size wanted.
DELTA_MUST_USE delta_status_t delta_allocate(delta_allocator_t allocator, size_t count, size_t element_bytes, void **out_pointer);

// Releases `pointer`; NULL is fine.
void delta_release(delta_allocator_t allocator, void *pointer);

// Typed shorthand: DELTA_ALLOCATE(allocator, n, &items) where items is a T *.
#define DELTA_ALLOCATE(allocator, count, out_items) delta_allocate((allocator), (count), sizeof **(out_items), (void **)(out_items))

// An allocator that refuses to pass `limit_bytes` of live bytes; `inner` supplies the memory. Used around parsers, whose
// memory a hostile file can multiply. The struct must outlive what was allocated through it.
typedef struct delta_capped_allocator {
  delta_allocator_t inner;
  size_t limit_bytes;
  size_t live_bytes;
} delta_capped_allocator_t;

void delta_capped_allocator_init(delta_capped_allocator_t *capped, delta_allocator_t inner, size_t limit_bytes);
delta_allocator_t delta_capped_allocator_interface(delta_capped_allocator_t *capped);

#endif // DELTA_BASE_ALLOCATOR_H_
