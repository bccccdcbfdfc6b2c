// Shuffle: the order of samples of an epoch, from seed and epoch alone, without a table of all samples in memory.
#ifndef DELTA_RUNTIME_DATA_SHUFFLE_H_
#define DELTA_RUNTIME_DATA_SHUFFLE_H_

#include <stdbool.h>
#include <stdint.h>

// A keyed permutation of [0, count) (a Feistel network over the next power of four, cycle-walked), so position p of an epoch is computed,
// not stored.
typedef struct delta_shuffle {
  int64_t count;
  bool enabled;
  uint64_t key;
  uint32_t half_bits;
} delta_shuffle_t;

void delta_shuffle_init(delta_shuffle_t *shuffle, int64_t count, bool enabled, uint64_t seed, int64_t epoch);
// The sample at `position` of the epoch; the position itself when disabled.
int64_t delta_shuffle_at(const delta_shuffle_t *shuffle, int64_t position);

#endif // DELTA_RUNTIME_DATA_SHUFFLE_H_
