// Counter-based random numbers in device code: the bits of base/random.h. C++.
#ifndef DELTA_RUNTIME_CUDA_PHILOX_H_
#define DELTA_RUNTIME_CUDA_PHILOX_H_

#include "runtime/cuda/element.h"
#include "runtime/cuda/random.h"

typedef struct delta_words {
  uint32_t word[4];
} delta_words_t;

DELTA_DEVICE delta_words_t delta_draw_words(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t key_0 = (uint32_t)key, key_1 = (uint32_t)(key >> 32);
  uint32_t word_0 = (uint32_t)counter_low, word_1 = (uint32_t)(counter_low >> 32);
  uint32_t word_2 = (uint32_t)counter_high, word_3 = (uint32_t)(counter_high >> 32);
  DELTA_UNROLL
  for (int round = 0; round < 10; ++round) {
    const uint64_t product_0 = (uint64_t)0xD2511F53u * word_0, product_1 = (uint64_t)0xCD9E8D57u * word_2;
    word_0 = (uint32_t)(product_1 >> 32) ^ word_1 ^ key_0;
    word_1 = (uint32_t)product_1;
    word_2 = (uint32_t)(product_0 >> 32) ^ word_3 ^ key_1;
    word_3 = (uint32_t)product_0;
    key_0 += 0x9E3779B9u;
    key_1 += 0xBB67AE85u;
  }
  const delta_words_t words = {{word_0, word_1, word_2, word_3}};
  return words;
}

DELTA_DEVICE uint64_t delta_load_number(const void *data, delta_dtype_t dtype) {
  return dtype == DELTA_DTYPE_INT64 ? (uint64_t) * (const int64_t *)data : (uint64_t)(int64_t) * (const int32_t *)data;
}

DELTA_DEVICE uint64_t delta_stream_key(const delta_cuda_stream_t &source) {
  const delta_words_t words =
      delta_draw_words(delta_load_number(source.seed, source.seed_dtype), delta_load_number(source.draw, source.draw_dtype), source.stream);
  return (uint64_t)words.word[1] << 32 | words.word[0];
}

// Uniform in [0, 1) with 24 bits.
DELTA_DEVICE double delta_uniform(uint32_t word) { return (double)(word >> 8) * 5.9604644775390625e-8; }

#endif // DELTA_RUNTIME_CUDA_PHILOX_H_
