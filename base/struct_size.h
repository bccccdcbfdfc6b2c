// Struct size: the first field of structs that callers fill tells by which headers they were compiled.
#ifndef DELTA_BASE_STRUCT_SIZE_H_
#define DELTA_BASE_STRUCT_SIZE_H_

#include "base/status.h"

// Whether a caller's struct has the size of ours. INVALID_ARGUMENT names it ("run report") and says how the field is set ("call NAME").
DELTA_MUST_USE static inline delta_status_t delta_struct_size_check(const char *what, const char *how, size_t given_bytes,
                                                                    size_t wanted_bytes) {
  if (given_bytes == wanted_bytes) return DELTA_OK;
  return delta_status_make(INVALID_ARGUMENT, "%s: struct_size is %zu, not %zu: %s, and compile with this version's headers", what,
                           given_bytes, wanted_bytes, how);
}

#endif // DELTA_BASE_STRUCT_SIZE_H_
