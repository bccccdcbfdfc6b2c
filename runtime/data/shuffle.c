// Shuffle: position -> sample through a balanced Feistel network.
//
// The network permutes [0, 4^half_bits), the smallest such range that holds `count`. Following a position until it lands below `count`
// again (cycle walking) restricts it to a permutation of [0, count); because the range is less than four times too large, that takes fewer
// than four rounds on average.
#include "runtime/data/shuffle.h"

#include <assert.h>

#include "base/random.h"

enum { FEISTEL_ROUNDS = 8 };

void delta_shuffle_init(delta_shuffle_t *shuffle, int64_t count, bool enabled, uint64_t seed, int64_t epoch) {
  const uint64_t stream = 0x73687566666c65u; // "shuffle": apart from the streams of graph nodes
  *shuffle = (delta_shuffle_t){.count = count, .enabled = enabled, .key = delta_random_key(seed, (uint64_t)epoch, stream), .half_bits = 1};
  while (shuffle->half_bits < 31 && (int64_t)1 << 2 * shuffle->half_bits < count) ++shuffle->half_bits;
}

static uint64_t permute(const delta_shuffle_t *shuffle, uint64_t value) {
  const uint64_t mask = ((uint64_t)1 << shuffle->half_bits) - 1;
  uint64_t left = value >> shuffle->half_bits, right = value & mask;
  for (uint64_t round = 0; round < FEISTEL_ROUNDS; ++round) {
    uint32_t words[4];
    delta_philox4x32(shuffle->key, right, round, words);
    uint64_t mixed = left ^ (words[0] & mask);
    left = right;
    right = mixed;
  }
  return left << shuffle->half_bits | right;
}

int64_t delta_shuffle_at(const delta_shuffle_t *shuffle, int64_t position) {
  assert(position >= 0 && position < shuffle->count && shuffle->count <= (int64_t)1 << 62);
  if (!shuffle->enabled) return position;
  uint64_t value = (uint64_t)position;
  do {
    value = permute(shuffle, value);
  } while (value >= (uint64_t)shuffle->count);
  return (int64_t)value;
}
