// Faults: every allocation of the containers, files and JSON fails once, and from then on; nothing may leak or crash.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

static delta_status_t use_map(delta_allocator_t allocator) {
  delta_map_t map;
  delta_map_init(&map, allocator);
  delta_status_t status = DELTA_OK;
  char key[16];
  for (uint32_t i = 0; i < 100 && !status; ++i) {
    snprintf(key, sizeof key, "key%u", i);
    status = delta_map_set(&map, key, i);
    if (!status) cr_assert_eq(delta_map_find(&map, key), i);
  }
  for (uint32_t i = 0; i < map.count; ++i) {
    snprintf(key, sizeof key, "key%u", i);
    cr_assert_eq(delta_map_find(&map, key), i, "a failure lost '%s'", key);
  }
  delta_map_deinit(&map);
  return status;
}

static delta_status_t use_region(delta_allocator_t allocator) {
  delta_region_t region;
  delta_region_init(&region, allocator);
  delta_status_t status = DELTA_OK;
  char *text = NULL;
  for (int i = 0; i < 100 && !status; ++i) status = delta_region_format(&region, &text, "%0*d", i * 50 + 1, i);
  delta_region_deinit(&region);
  return status;
}

static delta_status_t use_file(delta_allocator_t allocator) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/delta-fault-%ld", (long)getpid());
  delta_file_writer_t writer = {.descriptor = -1, .allocator = allocator};
  char *data = NULL;
  size_t size_bytes = 0;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_open(path, allocator, &writer), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_write(&writer, "content", 7), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_commit(&writer), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_read_all(path, 100, allocator, &data, &size_bytes), cleanup);
  cr_assert_str_eq(data, "content");
cleanup:
  delta_release(allocator, data);
  delta_file_writer_close(&writer);
  unlink(path);
  return status;
}

static delta_status_t use_json(delta_allocator_t allocator) {
  delta_text_t text;
  delta_json_writer_t writer;
  delta_json_document_t *document = NULL;
  delta_text_init(&text, allocator);
  delta_json_writer_init(&writer, &text, true);
  delta_json_begin_object(&writer, NULL);
  char key[16];
  for (int i = 0; i < 40; ++i) {
    snprintf(key, sizeof key, "key%d", i);
    delta_json_write_double(&writer, key, i / 7.0);
  }
  delta_json_end_object(&writer);
  delta_status_t status = delta_json_writer_finish(&writer);
  if (!status) status = delta_json_parse(text.items, text.count, "x", allocator, &document);
  delta_json_free(document);
  delta_text_deinit(&text);
  return status;
}

typedef struct fault_case {
  const char *name;
  delta_status_t (*use)(delta_allocator_t allocator);
} fault_case_t;

static const fault_case_t fault_cases[] = {{"map", use_map}, {"region", use_region}, {"file", use_file}, {"json", use_json}};

static void fail_each(const fault_case_t *test, delta_test_failure_t failure) {
  delta_test_trial_t trial = {.failure = failure};
  while (delta_test_trial_begin(&trial)) {
    cr_assert_lt(trial.number, 10000);
    delta_test_trial_end(&trial, test->use(delta_test_trial_allocator(&trial)), test->name);
  }
  cr_assert_gt(trial.number, 1, "%s allocates nothing", test->name);
}

Test(faults, each_allocation_fails) {
  for (size_t i = 0; i < sizeof fault_cases / sizeof *fault_cases; ++i) {
    fail_each(&fault_cases[i], DELTA_TEST_FAIL_ONCE);
    fail_each(&fault_cases[i], DELTA_TEST_FAIL_FROM_THEN_ON);
  }
}
