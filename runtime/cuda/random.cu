// DROPOUT and RANDOM: the words of one counter give four numbers, so a thread takes the four elements that share one.
#include "runtime/cuda/random.h"

#include "runtime/cuda/grid.h"
#include "runtime/cuda/philox.h"

// The word's number of 24 bits is kept when it is not below `threshold`: uniform >= ratio, with both sides times 2^24.
template <typename T>
static __global__ void dropout_kernel(delta_cuda_stream_t source, uint64_t counters, uint64_t count, uint64_t first, uint32_t threshold,
                                      double kept_share, const T *x, T *y, uint8_t *mask) {
  const uint64_t key = delta_stream_key(source);
  DELTA_EACH_ITEM(n, counters) {
    const delta_words_t words = delta_draw_words(key, first / 4 + n, 0);
    DELTA_UNROLL
    for (int j = 0; j < 4; ++j) {
      const uint64_t i = (first / 4 + n) * 4 + j - first; // wraps before the first element
      if (i >= count) continue;
      const bool kept = (words.word[j] >> 8) >= threshold;
      const double value = kept ? delta_read<double>(x[i]) / kept_share : 0.0;
      y[i] = delta_write<T>(value);
      if (mask) mask[i] = kept;
    }
  }
}

// Box-Muller: G. E. P. Box and M. E. Muller, "A note on the generation of random normal deviates", 1958.
static __device__ double normal_of(uint32_t a, uint32_t b) {
  const double radius = sqrt(-2 * log(1 - delta_uniform(a))); // of a number in (0, 1]
  return radius * cos(2 * 3.14159265358979323846 * delta_uniform(b));
}

template <typename T>
static __global__ void random_kernel(delta_cuda_stream_t source, uint64_t counters, delta_cuda_random_t self, T *y) {
  const uint64_t key = delta_stream_key(source);
  const int each = self.normal ? 2 : 4; // numbers of a counter
  DELTA_EACH_ITEM(n, counters) {
    const delta_words_t words = delta_draw_words(key, n, 0);
    DELTA_UNROLL
    for (int j = 0; j < 4; ++j) {
      const uint64_t i = n * each + j;
      if (j >= each || i >= self.count) continue;
      const double value = self.normal ? self.low + self.high * normal_of(words.word[j < 2 ? 2 * j : 0], words.word[j < 2 ? 2 * j + 1 : 0])
                                       : self.low + (self.high - self.low) * delta_uniform(words.word[j]);
      y[i] = delta_write<T>(value);
    }
  }
}

cudaError_t delta_cuda_dropout_launch(const delta_cuda_dropout_t *self, const delta_cuda_stream_t *source, const void *x, void *y,
                                      void *mask, cudaStream_t stream) {
  if (self->count == 0) return cudaSuccess;
  const uint64_t counters = (self->first + self->count - 1) / 4 - self->first / 4 + 1;
  const uint32_t threshold = (uint32_t)ceil(self->ratio * 16777216.0);
#define OF_TYPE(id, T)                                                                                                              \
  case id:                                                                                                                          \
    DELTA_CUDA_LAUNCH_FREE(dropout_kernel<T>, delta_blocks(counters, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *source, \
                           counters, self->count, self->first, threshold, 1 - self->ratio, (const T *)x, (T *)y, (uint8_t *)mask);  \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_FLOATS, OF_TYPE);
#undef OF_TYPE
}

cudaError_t delta_cuda_random_launch(const delta_cuda_random_t *self, const delta_cuda_stream_t *source, void *y, cudaStream_t stream) {
  if (self->count == 0) return cudaSuccess;
  const uint64_t each = self->normal ? 2 : 4, counters = (self->count + each - 1) / each;
#define OF_TYPE(id, T)                                                                                                             \
  case id:                                                                                                                         \
    DELTA_CUDA_LAUNCH_FREE(random_kernel<T>, delta_blocks(counters, DELTA_BLOCK_THREADS), DELTA_BLOCK_THREADS, 0, stream, *source, \
                           counters, *self, (T *)y);                                                                               \
    break;
  DELTA_CUDA_SWITCH(self->dtype, DELTA_CUDA_TYPES, OF_TYPE);
#undef OF_TYPE
}
