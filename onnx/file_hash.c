// Hashes a file in pieces.
#include "onnx/file_hash.h"

delta_status_t delta_file_hash(const delta_file_t *file, delta_allocator_t allocator, char out_text[DELTA_SHA256_TEXT_BYTES]) {
  enum { CHUNK_BYTES = 1 << 20 };
  uint8_t *chunk = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, file->size_bytes < CHUNK_BYTES ? (size_t)file->size_bytes : CHUNK_BYTES, &chunk));
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  delta_status_t status = DELTA_OK;
  for (uint64_t offset = 0; offset < file->size_bytes && !status; offset += CHUNK_BYTES) {
    uint64_t left = file->size_bytes - offset;
    size_t bytes = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
    status = delta_file_read(file, offset, chunk, bytes);
    if (!status) delta_sha256_update(&hash, chunk, bytes);
  }
  delta_sha256_final_text(&hash, out_text);
  delta_release(allocator, chunk);
  return status;
}
