// Words: random words of a stream, many counters at once, with the bits of base/random.h.
#ifndef DELTA_RUNTIME_CPU_WORDS_H_
#define DELTA_RUNTIME_CPU_WORDS_H_

#include "runtime/cpu/team.h"

// Words of one call.
enum { DELTA_WORDS_TILE = 256 };

// The key of the launched node's stream: its inputs `seed_input` (the seed) and the next (the draw).
uint64_t delta_words_key(const delta_kernel_launch_t *launch, uint32_t seed_input, uint64_t stream);

// Words 0 .. DELTA_WORDS_TILE - 1 after the first of counter `first`: word i is delta_random_word(key, 4 * first + i).
void delta_words_draw(uint64_t key, uint64_t first, uint32_t *words);

#endif // DELTA_RUNTIME_CPU_WORDS_H_
