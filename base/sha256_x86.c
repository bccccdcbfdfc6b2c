// The rounds of FIPS 180-4 section 6.2 in instructions that do two rounds, or four words of the message schedule, at a time.
#include "base/sha256_x86.h"

#include <assert.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

static bool has_instructions(void) {
  enum { EXTENDED_FEATURES = 7, SHA_BIT = 1 << 29, SSSE3_BIT = 1 << 9, SSE41_BIT = 1 << 19 };
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & SSSE3_BIT) || !(c & SSE41_BIT)) return false;
  return __get_cpuid_count(EXTENDED_FEATURES, 0, &a, &b, &c, &d) && (b & SHA_BIT);
}

// The processor is asked once: on a virtual machine the question takes longer than hashing a few lines.
bool delta_sha256_x86_is_available(void) {
  enum { UNKNOWN, NO, YES };
  static atomic_int answer = UNKNOWN;
  int known = atomic_load_explicit(&answer, memory_order_relaxed);
  if (known == UNKNOWN) {
    known = has_instructions() ? YES : NO;
    atomic_store_explicit(&answer, known, memory_order_relaxed);
  }
  return known == YES;
}

// The instructions want the eight words of the state as {a, b, e, f} and {c, d, g, h}, highest first.
typedef struct state_pair {
  __m128i abef, cdgh;
} state_pair_t;

__attribute__((target("sha,sse4.1"))) static state_pair_t load_state(const uint32_t state[8]) {
  __m128i dcba = _mm_loadu_si128((const __m128i *)state), hgfe = _mm_loadu_si128((const __m128i *)(state + 4));
  __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  return (state_pair_t){.abef = _mm_alignr_epi8(cdab, efgh, 8), .cdgh = _mm_blend_epi16(efgh, cdab, 0xf0)};
}

__attribute__((target("sha,sse4.1"))) static void store_state(state_pair_t pair, uint32_t state[8]) {
  __m128i feba = _mm_shuffle_epi32(pair.abef, 0x1b), dchg = _mm_shuffle_epi32(pair.cdgh, 0xb1);
  _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

// Rounds 4 * group to 4 * group + 3. `words` holds the last 16 words of the schedule, four in each, in a ring.
__attribute__((target("sha,sse4.1"))) static state_pair_t do_four_rounds(state_pair_t pair, const __m128i words[4], int group,
                                                                         const uint32_t round_constants[64]) {
  __m128i sums = _mm_add_epi32(words[group % 4], _mm_loadu_si128((const __m128i *)(round_constants + 4 * group)));
  pair.cdgh = _mm_sha256rnds2_epu32(pair.cdgh, pair.abef, sums);
  pair.abef = _mm_sha256rnds2_epu32(pair.abef, pair.cdgh, _mm_shuffle_epi32(sums, 0x0e));
  return pair;
}

// Replaces the oldest four words of the schedule by the next four.
__attribute__((target("sha,sse4.1"))) static void extend_schedule(__m128i words[4], int group) {
  __m128i *oldest = &words[group % 4];
  __m128i second = words[(group + 1) % 4], third = words[(group + 2) % 4], newest = words[(group + 3) % 4];
  __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(*oldest, second), _mm_alignr_epi8(newest, third, 4));
  *oldest = _mm_sha256msg2_epu32(partial, newest);
}

__attribute__((target("sha,sse4.1"))) void delta_sha256_x86_compress(uint32_t state[8], const uint8_t *blocks, size_t block_count,
                                                                     const uint32_t round_constants[64]) {
  const __m128i byte_order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  state_pair_t pair = load_state(state);
  for (; block_count > 0; --block_count, blocks += 64) {
    const state_pair_t before = pair;
    __m128i words[4];
    for (int i = 0; i < 4; ++i) words[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(blocks + 16 * i)), byte_order);
    for (int group = 0; group < 16; ++group) {
      pair = do_four_rounds(pair, words, group, round_constants);
      if (group < 12) extend_schedule(words, group);
    }
    pair.abef = _mm_add_epi32(pair.abef, before.abef);
    pair.cdgh = _mm_add_epi32(pair.cdgh, before.cdgh);
  }
  store_state(pair, state);
}

#else

bool delta_sha256_x86_is_available(void) { return false; }

void delta_sha256_x86_compress(uint32_t state[8], const uint8_t *blocks, size_t block_count, const uint32_t round_constants[64]) {
  (void)state, (void)blocks, (void)block_count, (void)round_constants;
  assert(false);
}

#endif
