// SHA-256: FIPS 180-4, section 6.2, one block of 64 bytes at a time.
#include "base/sha256.h"

#include <string.h>

#include "base/sha256_x86.h"

// Section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t word, unsigned bits) { return word >> bits | word << (32 - bits); }

static void expand_block(const uint8_t block[64], uint32_t words[64]) {
  for (int i = 0; i < 16; ++i) {
    words[i] =
        (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | (uint32_t)block[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t early = words[i - 15], late = words[i - 2];
    const uint32_t sigma_0 = rotate_right(early, 7) ^ rotate_right(early, 18) ^ early >> 3;
    const uint32_t sigma_1 = rotate_right(late, 17) ^ rotate_right(late, 19) ^ late >> 10;
    words[i] = words[i - 16] + sigma_0 + words[i - 7] + sigma_1;
  }
}

static void compress(uint32_t state[8], const uint8_t block[64]) {
  uint32_t words[64], v[8]; // v: the standard's working variables a..h
  expand_block(block, words);
  memcpy(v, state, sizeof v);
  for (int i = 0; i < 64; ++i) {
    const uint32_t sum_1 = rotate_right(v[4], 6) ^ rotate_right(v[4], 11) ^ rotate_right(v[4], 25);
    const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    const uint32_t first = v[7] + sum_1 + choice + round_constants[i] + words[i];
    const uint32_t sum_0 = rotate_right(v[0], 2) ^ rotate_right(v[0], 13) ^ rotate_right(v[0], 22);
    const uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += first;
    v[0] = first + sum_0 + majority;
  }
  for (int i = 0; i < 8; ++i) state[i] += v[i];
}

static void compress_blocks(delta_sha256_t *hash, const uint8_t *blocks, size_t block_count) {
  if (hash->uses_instructions) {
    delta_sha256_x86_compress(hash->state, blocks, block_count, round_constants);
    return;
  }
  for (size_t i = 0; i < block_count; ++i) compress(hash->state, blocks + 64 * i);
}

void delta_sha256_init(delta_sha256_t *hash) {
  *hash = (delta_sha256_t){.uses_instructions = delta_sha256_x86_is_available(),
                           .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void delta_sha256_update(delta_sha256_t *hash, const void *data, size_t size_bytes) {
  const uint8_t *bytes = data;
  size_t filled = hash->length_bytes % sizeof hash->block;
  hash->length_bytes += size_bytes;
  while (size_bytes > 0) {
    if (filled == 0 && size_bytes >= sizeof hash->block) {
      const size_t block_count = size_bytes / sizeof hash->block;
      compress_blocks(hash, bytes, block_count);
      bytes += block_count * sizeof hash->block;
      size_bytes -= block_count * sizeof hash->block;
      continue;
    }
    size_t taken = sizeof hash->block - filled < size_bytes ? sizeof hash->block - filled : size_bytes;
    memcpy(hash->block + filled, bytes, taken);
    bytes += taken;
    size_bytes -= taken;
    filled += taken;
    if (filled < sizeof hash->block) return;
    compress_blocks(hash, hash->block, 1);
    filled = 0;
  }
}

void delta_sha256_final(delta_sha256_t *hash, uint8_t out_digest[DELTA_SHA256_BYTES]) {
  static const uint8_t padding[64] = {0x80};
  const uint64_t length_bits = hash->length_bytes * 8;
  const size_t filled = hash->length_bytes % 64;
  delta_sha256_update(hash, padding, (filled < 56 ? 56 : 120) - filled);
  uint8_t length_field[8];
  for (int i = 0; i < 8; ++i) length_field[i] = (uint8_t)(length_bits >> (56 - 8 * i));
  delta_sha256_update(hash, length_field, sizeof length_field);
  for (int i = 0; i < DELTA_SHA256_BYTES; ++i) out_digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void delta_sha256_final_text(delta_sha256_t *hash, char out_text[DELTA_SHA256_TEXT_BYTES]) {
  static const char digits[] = "0123456789abcdef";
  uint8_t digest[DELTA_SHA256_BYTES];
  delta_sha256_final(hash, digest);
  for (int i = 0; i < DELTA_SHA256_BYTES; ++i) {
    out_text[2 * i] = digits[digest[i] >> 4];
    out_text[2 * i + 1] = digits[digest[i] & 15];
  }
  out_text[2 * DELTA_SHA256_BYTES] = 0;
}
