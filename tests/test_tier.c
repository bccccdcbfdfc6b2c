// The tier below the arena: what is written comes back, whatever the size; room is taken before it is needed; what the file system refuses is a message that names
// the folder and what was wanted.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "plans/schedule.h"
#include "runtime/tier.h"
#include "tests/support/model_file.h"
#include "tests/support/support.h"
#include "tests/support/training.h"

static const delta_log_sink_t no_log = {0};

static delta_tier_t *open_tier(const delta_test_folder_t *folder) {
  char path[DELTA_TEST_PATH_BYTES];
  delta_tier_t *tier = NULL;
  delta_test_expect_ok(delta_tier_create_file(delta_test_folder_path(folder, "", path), no_log, delta_allocator_system(), &tier), "tier");
  return tier;
}

Test(tier, what_is_written_comes_back) {
  static const size_t sizes[] = {1, 64, 4095, 4096, 4097, 1 << 20, (1 << 20) + 64, (3 << 20) + 12345};
  enum { SIZE_COUNT = sizeof sizes / sizeof *sizes, SLOT_BYTES = 4 << 20 };
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  delta_tier_t *tier = open_tier(&folder);
  uint8_t *data = malloc(SLOT_BYTES), *back = malloc(SLOT_BYTES + 1);
  for (size_t i = 0; i < SLOT_BYTES; ++i) data[i] = (uint8_t)(i * 2654435761u >> 7);
  for (size_t i = 0; i < SIZE_COUNT; ++i) {
    delta_test_expect_ok(delta_tier_reserve(tier, (i + 1) * (uint64_t)SLOT_BYTES), "reserve");
    delta_test_expect_ok(delta_tier_write(tier, i * (uint64_t)SLOT_BYTES, data + i, sizes[i]), "write");
  }
  for (size_t i = 0; i < SIZE_COUNT; ++i) {
    memset(back, 0, SLOT_BYTES + 1);
    delta_test_expect_ok(delta_tier_read(tier, i * (uint64_t)SLOT_BYTES, back, sizes[i]), "read");
    cr_expect_eq(memcmp(back, data + i, sizes[i]), 0, "%zu bytes", sizes[i]);
    cr_expect_eq(back[sizes[i]], 0, "%zu bytes: more was read", sizes[i]);
  }
  cr_expect_eq(delta_tier_size_bytes(tier), SIZE_COUNT * (uint64_t)SLOT_BYTES);
  free(data);
  free(back);
  delta_tier_destroy(tier);
  delta_test_folder_remove(&folder);
}

// What is aligned as disks ask takes another way than what is not, or not whole blocks; both ways meet in one file.
Test(tier, aligned_and_other_memory_meet) {
  static const size_t offsets[] = {0, 512, 64, 4096}, sizes[] = {512, 4096, (1 << 20) + 512, (1 << 20) + 4096, 1000};
  enum { OFFSET_COUNT = sizeof offsets / sizeof *offsets, SIZE_COUNT = sizeof sizes / sizeof *sizes, SLOT_BYTES = 2 << 20 };
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  delta_tier_t *tier = open_tier(&folder);
  uint8_t *data = aligned_alloc(4096, SLOT_BYTES), *back = aligned_alloc(4096, SLOT_BYTES);
  for (size_t i = 0; i < SLOT_BYTES; ++i) data[i] = (uint8_t)(i * 2654435761u >> 7);
  delta_test_expect_ok(delta_tier_reserve(tier, SLOT_BYTES), "reserve");
  for (size_t i = 0; i < OFFSET_COUNT * OFFSET_COUNT * SIZE_COUNT; ++i) {
    const size_t from = offsets[i % OFFSET_COUNT], to = offsets[i / OFFSET_COUNT % OFFSET_COUNT],
                 size_bytes = sizes[i / OFFSET_COUNT / OFFSET_COUNT];
    memset(back, 0, SLOT_BYTES);
    delta_test_expect_ok(delta_tier_write(tier, 4096, data + from, size_bytes), "write");
    delta_test_expect_ok(delta_tier_read(tier, 4096, back + to, size_bytes), "read");
    cr_expect_eq(memcmp(back + to, data + from, size_bytes), 0, "%zu bytes from %zu to %zu", size_bytes, from, to);
    cr_expect_eq(back[to + size_bytes], 0, "%zu bytes: more was read", size_bytes);
  }
  free(data);
  free(back);
  delta_tier_destroy(tier);
  delta_test_folder_remove(&folder);
}

Test(tier, copies_stay_within_what_is_reserved) {
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  delta_tier_t *tier = open_tier(&folder);
  char data[64] = {0};
  delta_test_expect_ok(delta_tier_reserve(tier, 100), "reserve");
  cr_expect_eq(delta_tier_size_bytes(tier), DELTA_HOST_BLOCK_BYTES);
  delta_test_expect_status(delta_tier_write(tier, DELTA_HOST_BLOCK_BYTES, data, 64), DELTA_STATUS_INTERNAL, "64 bytes at 4096|4096 bytes");
  delta_test_expect_status(delta_tier_read(tier, 64, data, 64), DELTA_STATUS_INTERNAL, "64 bytes at 64");
  delta_tier_destroy(tier);
  delta_test_folder_remove(&folder);
}

Test(tier, folders_that_will_not_do_are_named) {
  delta_tier_t *tier = NULL;
  delta_test_expect_status(delta_tier_create_file("/no/such/folder", no_log, delta_allocator_system(), &tier), DELTA_STATUS_NOT_FOUND,
                           "/no/such/folder|--tier");
  delta_test_expect_status(delta_tier_create_file("/dev/null", no_log, delta_allocator_system(), &tier), DELTA_STATUS_NOT_FOUND,
                           "/dev/null|--tier");
  setenv("TMPDIR", "/no/such/place", 1);
  delta_test_expect_status(delta_tier_create_file(NULL, no_log, delta_allocator_system(), &tier), DELTA_STATUS_NOT_FOUND,
                           "/no/such/place|--tier");
  cr_expect_null(tier);
}

Test(tier, too_little_room_is_an_error_before_anything_is_written) {
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  delta_tier_t *tier = open_tier(&folder);
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 1 << 20, .rlim_max = 1 << 20});
  delta_test_expect_status(delta_tier_reserve(tier, 2 << 20), DELTA_STATUS_IO, "cannot reserve 2097152 bytes|--tier|--budget");
  delta_test_expect_ok(delta_tier_reserve(tier, 1 << 19), "what there is room for");
  delta_tier_destroy(tier);
  delta_test_folder_remove(&folder);
}
