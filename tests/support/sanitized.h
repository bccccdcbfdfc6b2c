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

#endif // DELTA_TESTS_SUPPORT_SANITIZED_H_
