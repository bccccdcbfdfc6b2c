// Counter-based random numbers (Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
// A number depends only on (key, counter), so a recomputed dropout draws the same mask, on every device.
#ifndef DELTA_BASE_RANDOM_H_
#define DELTA_BASE_RANDOM_H_

#include <stdint.h>

// The four words for a 64-bit key and a 128-bit counter.
void delta_philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high, uint32_t out_words[4]);

// The key of one stream: seed, training step and a stream name (a node's random_key), mixed.
uint64_t delta_random_key(uint64_t seed, uint64_t step, uint64_t stream);

// Uniform in [0, 1) with 24 bits from one word.
float delta_random_uniform(uint32_t word);

// The word for element `index` of a stream: word index % 4 of counter index / 4.
uint32_t delta_random_word(uint64_t key, uint64_t index);

// A sequence for searches, where what was drawn before decides what is drawn next (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", 2014). Any state is a good seed.
typedef struct delta_random_sequence {
  uint64_t state;
} delta_random_sequence_t;

uint64_t delta_random_next(delta_random_sequence_t *sequence);

// Uniform in [0, limit); 0 when the limit is 0. The bias, below limit / 2^32, does not matter to a search.
uint32_t delta_random_below(delta_random_sequence_t *sequence, uint32_t limit);

#endif // DELTA_BASE_RANDOM_H_
