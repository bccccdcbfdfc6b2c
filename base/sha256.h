// SHA-256 (FIPS 180-4), for files and for the hashes that name graphs and numerics.
#ifndef DELTA_BASE_SHA256_H_
#define DELTA_BASE_SHA256_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct delta_sha256 {
  uint32_t state[8];
  uint64_t length_bytes;
  uint8_t block[64];
  bool uses_instructions; // of the processor; the result is the same without
} delta_sha256_t;

void delta_sha256_init(delta_sha256_t *hash);
void delta_sha256_update(delta_sha256_t *hash, const void *data, size_t size_bytes);
enum { DELTA_SHA256_BYTES = 32, DELTA_SHA256_TEXT_BYTES = 65 };
void delta_sha256_final(delta_sha256_t *hash, uint8_t out_digest[DELTA_SHA256_BYTES]);
// As final, in lower-case hexadecimal with a terminating zero.
void delta_sha256_final_text(delta_sha256_t *hash, char out_text[DELTA_SHA256_TEXT_BYTES]);

#endif // DELTA_BASE_SHA256_H_
