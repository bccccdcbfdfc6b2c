// File hash: the SHA-256 of a whole file, by which a model is known.
#ifndef DELTA_ONNX_FILE_HASH_H_
#define DELTA_ONNX_FILE_HASH_H_

#include "base/file.h"
#include "base/sha256.h"

DELTA_MUST_USE delta_status_t delta_file_hash(const delta_file_t *file, delta_allocator_t allocator,
                                              char out_text[DELTA_SHA256_TEXT_BYTES]);

#endif // DELTA_ONNX_FILE_HASH_H_
