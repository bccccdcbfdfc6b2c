// Rounds of Philox4x32-10 side by side.
#include "runtime/cpu/words.h"

#include "base/random.h"
#include "runtime/cpu/clones.h"

enum { WORDS = 4, COUNTERS = DELTA_WORDS_TILE / WORDS };

uint64_t delta_words_key(const delta_kernel_launch_t *launch, uint32_t seed_input, uint64_t stream) {
  uint64_t numbers[2];
  for (uint32_t k = 0; k < 2; ++k) {
    const delta_tensor_t *input = delta_node_input(launch->kernel->graph, launch->kernel->node, seed_input + k);
    numbers[k] = (uint64_t)delta_element_load_int64(launch->buffers->inputs[seed_input + k], input->dtype, 0);
  }
  return delta_random_key(numbers[0], numbers[1], stream);
}

DELTA_CPU_CLONES void delta_words_draw(uint64_t key, uint64_t first, uint32_t *words) {
  uint32_t lanes[WORDS][COUNTERS];
  for (int i = 0; i < COUNTERS; ++i) {
    lanes[0][i] = (uint32_t)(first + (uint64_t)i);
    lanes[1][i] = (uint32_t)((first + (uint64_t)i) >> 32);
    lanes[2][i] = lanes[3][i] = 0;
  }
  uint32_t key_0 = (uint32_t)key, key_1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < COUNTERS; ++i) {
      uint64_t product_0 = (uint64_t)0xD2511F53u * lanes[0][i], product_1 = (uint64_t)0xCD9E8D57u * lanes[2][i];
      lanes[0][i] = (uint32_t)(product_1 >> 32) ^ lanes[1][i] ^ key_0;
      lanes[1][i] = (uint32_t)product_1;
      lanes[2][i] = (uint32_t)(product_0 >> 32) ^ lanes[3][i] ^ key_1;
      lanes[3][i] = (uint32_t)product_0;
    }
    key_0 += 0x9E3779B9u;
    key_1 += 0xBB67AE85u;
  }
  for (int i = 0; i < COUNTERS; ++i)
    for (int word = 0; word < WORDS; ++word) words[i * WORDS + word] = lanes[word][i];
}
