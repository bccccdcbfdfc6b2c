// Growable typed arrays: struct { T *items; size_t count, capacity; }, released with delta_array_deinit.
//
//   DELTA_ARRAY(delta_node_t) nodes = {0};
//   DELTA_RETURN_IF_ERROR(delta_array_push(allocator, &nodes, &node));
#ifndef DELTA_BASE_ARRAY_H_
#define DELTA_BASE_ARRAY_H_

#include "base/allocator.h"

#define DELTA_ARRAY(type) \
  struct {                \
    type *items;          \
    size_t count;         \
    size_t capacity;      \
  }

// Makes room for `extra` more elements; new memory is zeroed. The typed macros below call it.
DELTA_MUST_USE delta_status_t delta_array_reserve_raw(delta_allocator_t allocator, void **items, size_t count, size_t *capacity,
                                                      size_t extra, size_t element_bytes);

#define delta_array_reserve(allocator, array, extra) \
  delta_array_reserve_raw((allocator), (void **)&(array)->items, (array)->count, &(array)->capacity, (extra), sizeof *(array)->items)

DELTA_MUST_USE delta_status_t delta_array_push_raw(delta_allocator_t allocator, void **items, size_t *count, size_t *capacity,
                                                   const void *element, size_t element_bytes);

// Appends a copy of *element (a pointer to the element type).
#define delta_array_push(allocator, array, element)                                                                                  \
  delta_array_push_raw((allocator), (void **)&(array)->items, &(array)->count, &(array)->capacity, (1 ? (element) : (array)->items), \
                       sizeof *(array)->items)

#define delta_array_deinit(allocator, array)    \
  do {                                          \
    delta_release((allocator), (array)->items); \
    (array)->items = NULL;                      \
    (array)->count = (array)->capacity = 0;     \
  } while (0)

#endif // DELTA_BASE_ARRAY_H_
