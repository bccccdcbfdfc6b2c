// What tests share: paths of the shared test material, skips that say why, an allocator that counts and fails on request.
#ifndef DELTA_TESTS_SUPPORT_SUPPORT_H_
#define DELTA_TESTS_SUPPORT_SUPPORT_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <delta/allocator.h>

// Skips the running Criterion test with a reason; scripts/test lists it by name. The arguments are a format and its values.
#define DELTA_SKIP(...) cr_skip_test(__VA_ARGS__)

// Writes the path of `relative` inside the shared test material (the folder named by DELTA_SHARED, by default the one beside the
// source tree) to `out_path`. False when it does not exist there.
enum { DELTA_TEST_PATH_BYTES = 1024 };
bool delta_test_shared_path(const char *relative, char out_path[DELTA_TEST_PATH_BYTES]);

// Fills `path` (char [DELTA_TEST_PATH_BYTES]) with the shared `relative`, or skips the running test, naming what is absent.
#define DELTA_SKIP_WITHOUT_SHARED(relative, path)                                                       \
  do {                                                                                                  \
    if (!delta_test_shared_path(relative, path)) DELTA_SKIP("the test material has no '%s'", relative); \
  } while (0)

// An allocator for fault tests (tests/support/trial.h has the loop over all of its failures). Thread-safe. Every reallocate moves its block, so that stale pointers are found.
typedef enum delta_test_failure { DELTA_TEST_FAIL_ONCE, DELTA_TEST_FAIL_FROM_THEN_ON } delta_test_failure_t;

typedef struct delta_test_allocator {
  size_t fail_at; // the call that fails, from 1; 0: none
  delta_test_failure_t failure;
  atomic_size_t call_count; // allocate and reallocate
  atomic_size_t live_bytes;
  atomic_size_t live_blocks;
  atomic_size_t peak_bytes;
} delta_test_allocator_t;

void delta_test_allocator_init(delta_test_allocator_t *self, size_t fail_at, delta_test_failure_t failure);
delta_allocator_t delta_test_allocator_interface(delta_test_allocator_t *self);

#endif // DELTA_TESTS_SUPPORT_SUPPORT_H_
