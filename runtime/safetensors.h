// Safetensors: a file of named tensors that many programs read. Eight bytes with the length of a header (little-endian), the header as a JSON object
// of each tensor's type, shape and place and of texts ("__metadata__"), then the values, row-major, without gaps.
#ifndef DELTA_RUNTIME_SAFETENSORS_H_
#define DELTA_RUNTIME_SAFETENSORS_H_

#include "base/dtype.h"
#include "base/file.h"
#include "base/map.h"
#include "base/shape.h"

typedef struct delta_safetensors_tensor {
  const char *name;
  delta_dtype_t dtype;
  delta_shape_t shape;
  uint64_t offset_bytes; // of its values, from the start of the file; set by the reader and the writer
  uint64_t size_bytes;   // likewise
} delta_safetensors_tensor_t;

typedef struct delta_safetensors_text {
  const char *key, *value;
} delta_safetensors_text_t;

// What a header says. Reader and writer use the same.
typedef struct delta_safetensors_header {
  delta_safetensors_tensor_t *tensors; // in the order of their places
  uint32_t tensor_count;
  delta_safetensors_text_t *texts; // metadata
  uint32_t text_count;
} delta_safetensors_header_t;

// --- reading

typedef struct delta_safetensors {
  delta_file_t file;
  delta_region_t region; // Owns the header's lists and names.
  delta_safetensors_header_t header;
  delta_map_t tensors_by_name, texts_by_key;
} delta_safetensors_t;

// Opens an untrusted file and checks its whole header: types, sizes, that the places follow each other without a gap and end with the file. MALFORMED
// names file and tensor; UNSUPPORTED a type that Delta does not store.
DELTA_MUST_USE delta_status_t delta_safetensors_open(const char *path, delta_allocator_t allocator, delta_safetensors_t *out_file);
void delta_safetensors_close(delta_safetensors_t *file); // Safe on a zeroed struct whose file.descriptor is -1, and after a failed open.
// NULL when there is none.
const delta_safetensors_tensor_t *delta_safetensors_find(const delta_safetensors_t *file, const char *name);
const char *delta_safetensors_text(const delta_safetensors_t *file, const char *key);

// --- writing

typedef struct delta_safetensors_writer {
  delta_file_writer_t file;
  uint64_t header_bytes; // with the eight of its length
  uint64_t written_bytes, data_bytes;
} delta_safetensors_writer_t;

// Sets every tensor's place and begins a file beside `path`, which is put in its place by commit.
DELTA_MUST_USE delta_status_t delta_safetensors_writer_open(const char *path, delta_safetensors_header_t *header,
                                                            delta_allocator_t allocator, delta_safetensors_writer_t *out_writer);
// The values of all tensors, one after the other, in pieces of any size.
DELTA_MUST_USE delta_status_t delta_safetensors_writer_append(delta_safetensors_writer_t *writer, const void *data, size_t size_bytes);
// Writes the header again, whose texts may have changed but not in length, makes the file durable and puts it in its place.
DELTA_MUST_USE delta_status_t delta_safetensors_writer_commit(delta_safetensors_writer_t *writer, const delta_safetensors_header_t *header);
// Removes what was not committed. Safe on a zeroed struct whose file.descriptor is -1.
void delta_safetensors_writer_close(delta_safetensors_writer_t *writer);

#endif // DELTA_RUNTIME_SAFETENSORS_H_
