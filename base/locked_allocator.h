// Locked allocator: passes calls of any number of threads on to an allocator one at a time, which need not know of threads.
#ifndef DELTA_BASE_LOCKED_ALLOCATOR_H_
#define DELTA_BASE_LOCKED_ALLOCATOR_H_

#include <pthread.h>

#include "base/allocator.h"

// Stays where it is, and outlives what was allocated through it.
typedef struct delta_locked_allocator {
  delta_allocator_t inner;
  pthread_mutex_t mutex;
} delta_locked_allocator_t;

void delta_locked_allocator_init(delta_locked_allocator_t *locked, delta_allocator_t inner);
void delta_locked_allocator_deinit(delta_locked_allocator_t *locked);
delta_allocator_t delta_locked_allocator_interface(delta_locked_allocator_t *locked);

#endif // DELTA_BASE_LOCKED_ALLOCATOR_H_
