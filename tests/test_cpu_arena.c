// The CPU arena: where it begins, and that the process never holds more of it than is committed, huge pages or not.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/cpu/arena.h"

enum { PAGE_BYTES = DELTA_CPU_GRANULE_BYTES, HUGE_BYTES = 2 << 20, MOST_PAGES = 8192 };

static void check(delta_status_t status) { cr_assert_null(status, "%s", delta_status_message(status)); }

// Pages of the first `size_bytes` that the process holds.
static size_t held_pages(void *start, size_t size_bytes) {
  static unsigned char held[MOST_PAGES];
  size_t count = 0;
  cr_assert_leq(size_bytes / PAGE_BYTES, (size_t)MOST_PAGES);
  cr_assert_eq(mincore(start, size_bytes, held), 0);
  for (size_t i = 0; i < size_bytes / PAGE_BYTES; ++i) count += held[i] & 1;
  return count;
}

typedef struct arena_case {
  size_t reserve_bytes, commit_bytes;
} arena_case_t;

ParameterizedTestParameters(cpu_arena, holds_what_is_committed) {
  static arena_case_t cases[] = {
      {PAGE_BYTES, PAGE_BYTES},
      {HUGE_BYTES - PAGE_BYTES, HUGE_BYTES - PAGE_BYTES},
      {HUGE_BYTES, HUGE_BYTES},
      {5 * HUGE_BYTES, 3 * HUGE_BYTES + 7 * PAGE_BYTES},
      {5 * HUGE_BYTES + PAGE_BYTES, 5 * HUGE_BYTES + PAGE_BYTES},
  };
  return cr_make_param_array(arena_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(arena_case_t *c, cpu_arena, holds_what_is_committed) {
  delta_device_t *device = NULL;
  delta_arena_t *arena = NULL;
  check(delta_device_open("cpu", &(delta_device_options_t){.threads = 1}, delta_allocator_system(), &device));
  check(delta_cpu_arena_reserve(device, c->reserve_bytes, &arena));
  char *start = delta_cpu_arena_address(arena, 0);
  if (c->reserve_bytes >= HUGE_BYTES) cr_expect_eq((uintptr_t)start % HUGE_BYTES, 0u);
  cr_expect_eq(held_pages(start, c->reserve_bytes), 0u);
  check(delta_cpu_arena_commit(arena, c->commit_bytes));
  memset(start, 1, c->commit_bytes);
  cr_expect_eq(held_pages(start, c->reserve_bytes), c->commit_bytes / PAGE_BYTES);
  // What was given back comes back as zeros.
  const size_t less_bytes = c->commit_bytes / 2 / PAGE_BYTES * PAGE_BYTES;
  check(delta_cpu_arena_commit(arena, less_bytes));
  cr_expect_eq(held_pages(start, c->reserve_bytes), less_bytes / PAGE_BYTES);
  check(delta_cpu_arena_commit(arena, c->commit_bytes));
  cr_expect_eq(start[less_bytes], 0);
  for (size_t at = 0; at < less_bytes; at += PAGE_BYTES) cr_expect_eq(start[at], 1);
  delta_cpu_arena_destroy(arena);
  delta_device_close(device);
}

// A size that leaves no room for guards and alignment is refused, not wrapped around.
Test(cpu_arena, sizes_that_no_address_space_has) {
  delta_device_t *device = NULL;
  check(delta_device_open("cpu", &(delta_device_options_t){.threads = 1}, delta_allocator_system(), &device));
  const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 3 * PAGE_BYTES, SIZE_MAX - HUGE_BYTES, SIZE_MAX / 2};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    delta_arena_t *arena = NULL;
    delta_status_t status = delta_cpu_arena_reserve(device, sizes[i], &arena);
    cr_expect_not_null(status, "%zu bytes", sizes[i]);
    cr_expect_null(arena);
    if (status) cr_expect_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY);
    delta_status_free(status);
  }
  delta_device_close(device);
}
