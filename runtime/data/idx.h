// IDX: the format of the MNIST files: two zero bytes, a type, a rank, big-endian dimensions, big-endian elements. Not compressed: a .gz
// file is refused with advice.
#ifndef DELTA_RUNTIME_DATA_IDX_H_
#define DELTA_RUNTIME_DATA_IDX_H_

#include "base/file.h"
#include "base/shape.h"
#include "runtime/data/file_dtype.h"

typedef struct delta_idx {
  delta_file_t file;
  delta_file_dtype_t type;
  delta_shape_t shape;
  uint64_t data_offset;
} delta_idx_t;

// Opens and parses the header; the file must have exactly the bytes its dimensions need. Errors name the path.
DELTA_MUST_USE delta_status_t delta_idx_open(const char *path, delta_allocator_t allocator, delta_idx_t *out_idx);
void delta_idx_close(delta_idx_t *idx); // Safe when closed or zeroed with idx->file.descriptor -1.

#endif // DELTA_RUNTIME_DATA_IDX_H_
