// Dtypes, shapes, random numbers, time limits and SHA-256: values from the standards, and properties over all bit patterns.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/shape.h"

Test(dtype, rows_are_consistent) {
  for (int i = 0; i < DELTA_DTYPE_COUNT; ++i) {
    delta_dtype_t back = DELTA_DTYPE_COUNT;
    cr_assert(delta_dtype_from_onnx(delta_dtype_to_onnx((delta_dtype_t)i), &back));
    cr_assert_eq((int)back, i);
    cr_assert_gt(delta_dtype_bytes((delta_dtype_t)i), 0);
  }
  delta_dtype_t unused;
  cr_assert_not(delta_dtype_from_onnx(8, &unused)); // strings
  cr_assert_str_eq(delta_dtype_name(DELTA_DTYPE_BFLOAT16), "bfloat16");
  cr_assert(delta_dtype_is_float(DELTA_DTYPE_FLOAT16));
  cr_assert_not(delta_dtype_is_float(DELTA_DTYPE_BOOL));
}

typedef uint16_t (*narrow_t)(double value);
typedef float (*widen_t)(uint16_t bits);

// Every 16-bit float comes back unchanged, and the middle between two neighbours goes to the even one.
static void check_all_values(narrow_t narrow, widen_t widen, uint16_t infinity) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = widen((uint16_t)bits);
    if (isnan(value)) {
      cr_assert(isnan(widen(narrow((double)value))));
      continue;
    }
    cr_assert_eq(narrow((double)value), bits, "%04x", bits);
    if (bits >= infinity - 1u) continue; // below: positive with a finite neighbour
    const double middle = ((double)value + (double)widen((uint16_t)(bits + 1))) / 2;
    const uint16_t even = (uint16_t)(bits + (bits & 1));
    cr_assert_eq(narrow(middle), even, "%04x", bits);
    cr_assert_eq(narrow(nextafter(middle, INFINITY)), bits + 1, "%04x", bits);
    cr_assert_eq(narrow(nextafter(middle, 0)), bits, "%04x", bits);
  }
}

Test(dtype, float16_rounds_to_nearest_even) {
  check_all_values(delta_float16_from_double, delta_float16_to_float, 0x7c00);
  cr_assert_eq(delta_float16_from_double(1.0), 0x3c00);
  cr_assert_eq(delta_float16_from_double(65519.0), 0x7bff);
  cr_assert_eq(delta_float16_from_double(65520.0), 0x7c00);
  cr_assert_eq(delta_float16_from_double(-1e30), 0xfc00);
  cr_assert_eq(delta_float16_from_double(-0.0), 0x8000);
}

Test(dtype, bfloat16_rounds_to_nearest_even) {
  check_all_values(delta_bfloat16_from_double, delta_bfloat16_to_float, 0x7f80);
  cr_assert_eq(delta_bfloat16_from_double((double)3.0e38f), 0x7f62);
  cr_assert_eq(delta_bfloat16_from_double(1e39), 0x7f80);
  cr_assert_eq(delta_bfloat16_from_double(4.9e-324), 0);
}

Test(dtype, one_rounding_from_double) {
  // Through float32 this would round twice and end one too low.
  cr_assert_eq(delta_float16_from_double(1.0 + 0x1p-11 - 0x1p-40), 0x3c00);
  cr_assert_eq(delta_float16_from_double(1.0 + 0x1p-11 + 0x1p-40), 0x3c01);
}

typedef struct element_case {
  delta_dtype_t dtype;
  double stored, loaded;
  int64_t integer;
} element_case_t;

static const element_case_t element_cases[] = {
    {DELTA_DTYPE_FLOAT32, 0.1, (double)0.1f, 0},
    {DELTA_DTYPE_FLOAT64, -2.75, -2.75, -2},
    {DELTA_DTYPE_FLOAT16, 1.5, 1.5, 1},
    {DELTA_DTYPE_BFLOAT16, -3, -3, -3},
    {DELTA_DTYPE_INT32, 1e12, 2147483647, 2147483647},
    {DELTA_DTYPE_INT32, NAN, 0, 0},
    {DELTA_DTYPE_INT64, -1e30, -0x1p63, INT64_MIN},
    {DELTA_DTYPE_INT64, 1e30, 0x1p63, INT64_MAX},
    {DELTA_DTYPE_BOOL, 0.25, 1, 1},
    {DELTA_DTYPE_UINT8, -5, 0, 0},
    {DELTA_DTYPE_UINT8, 254.9, 254, 254},
    {DELTA_DTYPE_FLOAT64, INFINITY, INFINITY, INT64_MAX},
};

Test(dtype, elements) {
  for (size_t i = 0; i < sizeof element_cases / sizeof *element_cases; ++i) {
    const element_case_t *test = &element_cases[i];
    char data[1 + 3 * 8] = {0}; // one byte off: element access needs no alignment
    delta_element_store_double(data + 1, test->dtype, 2, test->stored);
    cr_expect_eq(delta_element_load_double(data + 1, test->dtype, 2), test->loaded, "case %zu", i);
    cr_expect_eq(delta_element_load_int64(data + 1, test->dtype, 2), test->integer, "case %zu", i);
    cr_expect_eq(delta_element_load_double(data + 1, test->dtype, 1), 0, "case %zu", i);
  }
}

Test(dtype, integers_convert_as_in_c) {
  char data[8] = {0};
  delta_element_store_int64(data, DELTA_DTYPE_INT64, 0, INT64_MAX - 1);
  cr_assert_eq(delta_element_load_int64(data, DELTA_DTYPE_INT64, 0), INT64_MAX - 1);
  delta_element_store_int64(data, DELTA_DTYPE_UINT8, 0, 257);
  cr_assert_eq(delta_element_load_int64(data, DELTA_DTYPE_UINT8, 0), 1);
  delta_element_store_int64(data, DELTA_DTYPE_BOOL, 0, 256);
  cr_assert_eq(delta_element_load_int64(data, DELTA_DTYPE_BOOL, 0), 1);
  delta_element_store_int64(data, DELTA_DTYPE_FLOAT32, 0, 16777217);
  cr_assert_eq(delta_element_load_double(data, DELTA_DTYPE_FLOAT32, 0), 16777216);
}

Test(shape, broadcast_and_strides) {
  const delta_shape_t a = {3, {4, 1, 5}}, b = {2, {3, 1}}, wrong = {1, {4}};
  delta_shape_t both;
  cr_assert(delta_shape_broadcast(&a, &b, &both));
  cr_assert(delta_shape_equal(&both, &(delta_shape_t){3, {4, 3, 5}}));
  int64_t strides[DELTA_MAX_RANK];
  delta_shape_strides(&both, strides);
  cr_assert(strides[0] == 15 && strides[1] == 5 && strides[2] == 1 && strides[3] == 0);
  delta_shape_broadcast_strides(&b, &both, strides);
  cr_assert(strides[0] == 0 && strides[1] == 1 && strides[2] == 0);
  cr_assert_not(delta_shape_broadcast(&a, &wrong, &both));
  const delta_shape_t empty = {2, {0, 1}}, one = {2, {1, 1}};
  cr_assert(delta_shape_broadcast(&empty, &one, &both));
  cr_assert_eq(delta_shape_count(&both), 0);
  cr_assert_eq(delta_shape_count(&(delta_shape_t){0}), 1);
}

typedef struct shape_case {
  delta_shape_t shape;
  size_t element_bytes;
  delta_status_code_t code;
} shape_case_t;

static const shape_case_t shape_cases[] = {
    {{0}, 4, DELTA_STATUS_OK},
    {{4, {32, 3, 224, 224}}, 4, DELTA_STATUS_OK},
    {{2, {0, 5}}, 4, DELTA_STATUS_OK},
    {{2, {-1, 5}}, 4, DELTA_STATUS_MALFORMED},
    {{9, {1}}, 4, DELTA_STATUS_UNSUPPORTED},
    {{-1, {1}}, 4, DELTA_STATUS_UNSUPPORTED},
    {{2, {INT64_C(1) << 32, INT64_C(1) << 30}}, 1, DELTA_STATUS_UNSUPPORTED},
    {{2, {INT64_C(1) << 32, (INT64_C(1) << 30) - 1}}, 1, DELTA_STATUS_OK},
    {{2, {INT64_MAX, INT64_MAX}}, 8, DELTA_STATUS_UNSUPPORTED},
    {{3, {INT64_MAX, INT64_MAX, 0}}, 8, DELTA_STATUS_UNSUPPORTED},
};

Test(shape, validation) {
  for (size_t i = 0; i < sizeof shape_cases / sizeof *shape_cases; ++i) {
    delta_status_t status = delta_shape_validate(&shape_cases[i].shape, shape_cases[i].element_bytes, "x");
    cr_expect_eq(delta_status_code(status), shape_cases[i].code, "case %zu: %s", i, delta_status_message(status));
    delta_status_free(status);
  }
}

Test(shape, text) {
  char buffer[DELTA_SHAPE_TEXT_BYTES];
  cr_assert_str_eq(delta_shape_text(&(delta_shape_t){4, {32, 3, 224, 224}}, buffer), "[32, 3, 224, 224]");
  cr_assert_str_eq(delta_shape_text(&(delta_shape_t){0}, buffer), "[]");
  delta_shape_t widest = {.rank = DELTA_MAX_RANK};
  for (int i = 0; i < DELTA_MAX_RANK; ++i) widest.dims[i] = INT64_MIN;
  cr_assert_eq(strlen(delta_shape_text(&widest, buffer)), 8 * 20 + 7 * 2 + 2);
}

typedef struct philox_case {
  uint64_t key, low, high;
  uint32_t words[4];
} philox_case_t;

// The known answers published with the generator.
static const philox_case_t philox_cases[] = {
    {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

Test(random, philox_known_answers) {
  for (size_t i = 0; i < 3; ++i) {
    uint32_t words[4];
    delta_philox4x32(philox_cases[i].key, philox_cases[i].low, philox_cases[i].high, words);
    for (int k = 0; k < 4; ++k) cr_expect_eq(words[k], philox_cases[i].words[k], "case %zu word %d", i, k);
  }
}

// The first values of the reference implementation with state 1234567.
Test(random, sequence_known_answers) {
  delta_random_sequence_t sequence = {1234567};
  const uint64_t wanted[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423)};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) cr_assert_eq(delta_random_next(&sequence), wanted[i]);
  uint32_t seen[7] = {0};
  for (int i = 0; i < 7000; ++i) ++seen[delta_random_below(&sequence, 7)];
  for (int i = 0; i < 7; ++i) cr_assert(seen[i] > 850 && seen[i] < 1150, "%d was drawn %u times", i, seen[i]);
  cr_assert_eq(delta_random_below(&sequence, 0), 0);
}

Test(random, streams_differ_and_repeat) {
  const uint64_t key = delta_random_key(1, 2, 3);
  cr_assert_eq(key, delta_random_key(1, 2, 3));
  cr_assert_neq(key, delta_random_key(2, 2, 3));
  cr_assert_neq(key, delta_random_key(1, 3, 3));
  cr_assert_neq(key, delta_random_key(1, 2, 4));
  uint32_t words[4];
  delta_philox4x32(key, 5, 0, words);
  cr_assert_eq(delta_random_word(key, 22), words[2]);
  cr_assert_eq(delta_random_uniform(0), 0.0f);
  cr_assert_lt(delta_random_uniform(UINT32_MAX), 1.0f);
  double sum = 0;
  for (uint64_t i = 0; i < 100000; ++i) sum += (double)delta_random_uniform(delta_random_word(key, i));
  cr_assert_lt(fabs(sum / 100000 - 0.5), 0.005);
}

typedef struct sha256_case {
  const char *text;
  size_t repeats;
  const char *digest;
} sha256_case_t;

// The examples of FIPS 180.
static const sha256_case_t sha256_cases[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

Test(sha256, known_answers) {
  for (size_t i = 0; i < sizeof sha256_cases / sizeof *sha256_cases; ++i) {
    delta_sha256_t hash;
    delta_sha256_init(&hash);
    for (size_t k = 0; k < sha256_cases[i].repeats; ++k) delta_sha256_update(&hash, sha256_cases[i].text, strlen(sha256_cases[i].text));
    char digest[DELTA_SHA256_TEXT_BYTES];
    delta_sha256_final_text(&hash, digest);
    cr_expect_str_eq(digest, sha256_cases[i].digest);
  }
}

// With and without the processor's instructions: the same digests.
Test(sha256, instructions_do_not_matter) {
  char data[1000], digests[2][DELTA_SHA256_TEXT_BYTES];
  for (size_t i = 0; i < sizeof data; ++i) data[i] = (char)(i * 7);
  for (size_t length = 0; length <= sizeof data; length += 37) {
    for (int plain = 0; plain < 2; ++plain) {
      delta_sha256_t hash;
      delta_sha256_init(&hash);
      if (plain) hash.uses_instructions = false;
      delta_sha256_update(&hash, data, length);
      delta_sha256_final_text(&hash, digests[plain]);
    }
    cr_assert_str_eq(digests[0], digests[1]);
  }
}

Test(sha256, pieces_do_not_matter) {
  char data[300], whole[DELTA_SHA256_TEXT_BYTES], pieces[DELTA_SHA256_TEXT_BYTES];
  for (size_t i = 0; i < sizeof data; ++i) data[i] = (char)i;
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  delta_sha256_update(&hash, data, sizeof data);
  delta_sha256_final_text(&hash, whole);
  for (size_t piece = 1; piece < 130; ++piece) {
    delta_sha256_init(&hash);
    for (size_t at = 0; at < sizeof data; at += piece) {
      delta_sha256_update(&hash, data + at, at + piece < sizeof data ? piece : sizeof data - at);
    }
    delta_sha256_final_text(&hash, pieces);
    cr_assert_str_eq(pieces, whole);
  }
}

Test(clock, limits_are_spent_in_parts) {
  const delta_time_limit_t none = delta_time_limit_from_now(0), all = delta_time_limit_from_now(INFINITY);
  const delta_time_limit_t half = {delta_clock_seconds() - 500, 1000}, over = {delta_clock_seconds() - 20, 10};
  cr_assert_geq(delta_time_limit_spent(&none), 1);
  cr_assert_eq(delta_time_limit_spent(&all), 0);
  cr_assert(delta_time_limit_spent(&half) >= 0.5 && delta_time_limit_spent(&half) < 1);
  cr_assert_geq(delta_time_limit_spent(&over), 2);
}
