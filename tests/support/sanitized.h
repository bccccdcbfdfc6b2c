// Sanitized: whether the tests are built with a sanitizer, which has allocation functions of its own and takes much time and address space.
#ifndef DELTA_TESTS_SUPPORT_SANITIZED_H_
#define DELTA_TESTS_SUPPORT_SANITIZED_H_

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DELTA_TEST_SANITIZED
#endif
#if __has_feature(thread_sanitizer)
#define DELTA_TEST_FINDS_RACES
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DELTA_TEST_SANITIZED
#endif
#ifdef __SANITIZE_THREAD__
#define DELTA_TEST_FINDS_RACES
#endif

// How many of so many random cases are tried: fewer where each of them takes many times as long.
#ifdef DELTA_TEST_SANITIZED
#define DELTA_TEST_SEEDS(count) (((count) + 4) / 5)
#else
#define DELTA_TEST_SEEDS(count) (count)
#endif

#endif // DELTA_TESTS_SUPPORT_SANITIZED_H_
