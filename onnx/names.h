// Names: a set of names in use, and new ones that are different from all of them.
#ifndef DELTA_ONNX_NAMES_H_
#define DELTA_ONNX_NAMES_H_

#include "base/map.h"

typedef struct delta_names {
  delta_map_t next_number_by_name;
} delta_names_t;

void delta_names_init(delta_names_t *names, delta_allocator_t allocator);
void delta_names_deinit(delta_names_t *names); // Safe on a zeroed struct.

// Marks `name` as used.
DELTA_MUST_USE delta_status_t delta_names_take(delta_names_t *names, const char *name);
// `wanted`, or "wanted#2" and so on where that is used; marks it as used. The text lives in `region`.
DELTA_MUST_USE delta_status_t delta_names_make(delta_names_t *names, delta_region_t *region, const char *wanted, const char **out_name);

#endif // DELTA_ONNX_NAMES_H_
