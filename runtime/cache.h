// Cache: where files lie that can be made again: $XDG_CACHE_HOME/delta, or ~/.cache/delta.
#ifndef DELTA_RUNTIME_CACHE_H_
#define DELTA_RUNTIME_CACHE_H_

#include "base/allocator.h"

// The path of a file of the cache, its folders made; `name` may lead through folders below. The caller releases *out_path. NOT_FOUND without a home, IO names the
// path whose folders cannot be made.
DELTA_MUST_USE delta_status_t delta_cache_path(const char *name, delta_allocator_t allocator, char **out_path);

#endif // DELTA_RUNTIME_CACHE_H_
