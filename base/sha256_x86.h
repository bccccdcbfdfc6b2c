// SHA-256 on x86 processors that have instructions for it (SHA-NI): about ten times the speed of plain C.
#ifndef DELTA_BASE_SHA256_X86_H_
#define DELTA_BASE_SHA256_X86_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether this processor has the instructions; false on other architectures.
bool delta_sha256_x86_is_available(void);

// Mixes `block_count` blocks of 64 bytes into `state`. Only where available.
void delta_sha256_x86_compress(uint32_t state[8], const uint8_t *blocks, size_t block_count, const uint32_t round_constants[64]);

#endif // DELTA_BASE_SHA256_X86_H_
