// npz: named arrays in a zip archive of npy files, as numpy.savez and numpy.savez_compressed write it.
//
// Arrays are read by range, straight from the file. A deflated array has no random access, and a shuffled epoch needs it: so it is inflated
// once, in pieces of constant size, into a temporary file without a name ($TMPDIR, otherwise /var/tmp) that vanishes with the process,
// however it ends. Only arrays that are read cost that. The checksum of an array is verified before its first element is handed out; for a
// stored array that is one pass over it.
//
// Not thread-safe: the first read of an array changes the archive's state.
#ifndef DELTA_RUNTIME_DATA_NPZ_H_
#define DELTA_RUNTIME_DATA_NPZ_H_

#include "runtime/data/npy.h"

typedef struct delta_npz delta_npz_t;

#define DELTA_NPZ_NONE SIZE_MAX

// Opens an archive and reads its directory, nothing else. Errors name the path.
DELTA_MUST_USE delta_status_t delta_npz_open(const char *path, delta_allocator_t allocator, delta_npz_t **out_npz);
void delta_npz_close(delta_npz_t *npz); // NULL is fine.

// The arrays: entries whose name ends in ".npy", by their name without it, in the order of the directory.
size_t delta_npz_count(const delta_npz_t *npz);
const char *delta_npz_name(const delta_npz_t *npz, size_t index);
// The index of an array, or DELTA_NPZ_NONE. Names may contain '/' and '.'.
size_t delta_npz_find(const delta_npz_t *npz, const char *name);

// Type and shape of an array; the header is parsed on first use and lent until close. Errors name file and array.
DELTA_MUST_USE delta_status_t delta_npz_header(delta_npz_t *npz, size_t index, const delta_npy_header_t **out_header);

// Verifies the checksum of an array and makes it readable by range, if that was not done before. MALFORMED names file and array; IO when a
// deflated array does not fit into the temporary folder.
DELTA_MUST_USE delta_status_t delta_npz_prepare(delta_npz_t *npz, size_t index);

// Reads elements [first, first + count) in row-major order as header->type, in this machine's byte order; prepares the array first.
DELTA_MUST_USE delta_status_t delta_npz_read(delta_npz_t *npz, size_t index, uint64_t first, uint64_t count, void *out_elements);

#endif // DELTA_RUNTIME_DATA_NPZ_H_
