// npy: the header of numpy's array files (format versions 1.0, 2.0 and 3.0), and positioned reads of their elements.
//
// A header is untrusted text: nothing in it is evaluated, every size is checked against the bytes that are there. Object arrays are pickles
// and are never read.
#ifndef DELTA_RUNTIME_DATA_NPY_H_
#define DELTA_RUNTIME_DATA_NPY_H_

#include "base/file.h"
#include "base/shape.h"
#include "runtime/data/file_dtype.h"

typedef struct delta_npy_header {
  delta_file_dtype_t type;
  bool swapped; // stored in the other byte order than this machine's
  delta_shape_t shape;
  uint64_t data_offset; // of the first element, from the start of the array's bytes
} delta_npy_header_t;

// Headers longer than this (only structured types need it) are refused.
enum { DELTA_NPY_PREFIX_BYTES = 16384 };

// Parses the first `prefix_bytes` (the smaller of DELTA_NPY_PREFIX_BYTES and total_bytes) of an array of `total_bytes`.
// MALFORMED: no npy file, a bad header, more or fewer bytes than the shape needs. UNSUPPORTED: other element types, Fortran order (unless
// at most one dimension is above 1, where the orders agree), more than DELTA_MAX_RANK dimensions. The caller annotates with the name of
// file and array.
DELTA_MUST_USE delta_status_t delta_npy_parse(const void *prefix, size_t prefix_bytes, uint64_t total_bytes,
                                              delta_npy_header_t *out_header);

// Number of elements; exact for every parsed header.
uint64_t delta_npy_element_count(const delta_npy_header_t *header);

// Reads elements [first, first + count) of an array whose bytes start at `base_offset` of `file`, in this machine's byte order.
// INVALID_ARGUMENT when the range leaves the array.
DELTA_MUST_USE delta_status_t delta_npy_read_elements(const delta_file_t *file, uint64_t base_offset, const delta_npy_header_t *header,
                                                      uint64_t first, uint64_t count, void *out_elements);

// An open .npy file.
typedef struct delta_npy {
  delta_file_t file;
  delta_npy_header_t header;
} delta_npy_t;

// Opens and parses; errors name the path.
DELTA_MUST_USE delta_status_t delta_npy_open(const char *path, delta_allocator_t allocator, delta_npy_t *out_npy);
void delta_npy_close(delta_npy_t *npy); // Safe when closed or zeroed with npy->file.descriptor -1.

#endif // DELTA_RUNTIME_DATA_NPY_H_
