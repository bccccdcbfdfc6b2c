// Random: Philox4x32-10 and the keys of its streams.
#include "base/random.h"

void delta_philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high, uint32_t out_words[4]) {
  // Multipliers and Weyl increments of the paper's table 2.
  enum { ROUNDS = 10 };
  const uint64_t multiplier_0 = 0xD2511F53u, multiplier_1 = 0xCD9E8D57u;
  const uint32_t increment_0 = 0x9E3779B9u, increment_1 = 0xBB67AE85u;
  uint32_t key_0 = (uint32_t)key, key_1 = (uint32_t)(key >> 32);
  uint32_t word_0 = (uint32_t)counter_low, word_1 = (uint32_t)(counter_low >> 32);
  uint32_t word_2 = (uint32_t)counter_high, word_3 = (uint32_t)(counter_high >> 32);
  for (int round = 0; round < ROUNDS; ++round) {
    const uint64_t product_0 = multiplier_0 * word_0, product_1 = multiplier_1 * word_2;
    word_0 = (uint32_t)(product_1 >> 32) ^ word_1 ^ key_0;
    word_1 = (uint32_t)product_1;
    word_2 = (uint32_t)(product_0 >> 32) ^ word_3 ^ key_1;
    word_3 = (uint32_t)product_0;
    key_0 += increment_0;
    key_1 += increment_1;
  }
  out_words[0] = word_0;
  out_words[1] = word_1;
  out_words[2] = word_2;
  out_words[3] = word_3;
}

uint64_t delta_random_key(uint64_t seed, uint64_t step, uint64_t stream) {
  // Philox is itself the mixer: neighbouring seeds, steps and streams give unrelated keys.
  uint32_t words[4];
  delta_philox4x32(seed, step, stream, words);
  return (uint64_t)words[1] << 32 | words[0];
}

float delta_random_uniform(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

uint32_t delta_random_word(uint64_t key, uint64_t index) {
  uint32_t words[4];
  delta_philox4x32(key, index / 4, 0, words);
  return words[index % 4];
}

uint64_t delta_random_next(delta_random_sequence_t *sequence) {
  uint64_t z = (sequence->state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

uint32_t delta_random_below(delta_random_sequence_t *sequence, uint32_t limit) {
  return (uint32_t)(((delta_random_next(sequence) >> 32) * limit) >> 32);
}
