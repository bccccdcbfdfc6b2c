// Metrics: the lines, and what happens when they cannot be written.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "runtime/metrics.h"
#include "tests/support/data_files.h"
#include "tests/support/support.h"

static const char *const events[] = {"budget lowered", "a \"quoted\" one"};
static const delta_train_step_t first_step = {.step = 1,
                                              .epoch = 1,
                                              .loss = 2.5,
                                              .learning_rate = 0.02,
                                              .seconds = 0.25,
                                              .samples_per_second = 256,
                                              .arena_peak_bytes = 4096,
                                              .events = events,
                                              .event_count = 2};
static const delta_train_evaluation_t evaluation = {
    .step = 44, .epoch = 1, .loss = 0.5, .has_accuracy = true, .accuracy = 0.975, .samples = 360, .seconds = 0.125};

static const char first_line[] =
    "{\"step\":1,\"epoch\":1,\"loss\":2.5,\"learning_rate\":0.02,\"seconds\":0.25,\"samples_per_second\":256,\"stall_seconds\":0,"
    "\"arena_peak_bytes\":4096,\"host_bytes\":0,\"events\":[\"budget lowered\",\"a \\\"quoted\\\" one\"]}\n";
static const char evaluation_line[] =
    "{\"evaluation\":true,\"step\":44,\"epoch\":1,\"loss\":0.5,\"accuracy\":0.975,\"samples\":360,\"seconds\":0.125}\n";

static void expect_content(const char *path, const char *first, const char *second) {
  char *content = NULL, expected[1024];
  size_t size;
  snprintf(expected, sizeof expected, "%s%s", first, second);
  cr_assert_null(delta_file_read_all(path, 1 << 20, delta_allocator_system(), &content, &size));
  cr_expect_str_eq(content, expected);
  delta_release(delta_allocator_system(), content);
}

Test(metrics, lines) {
  char path[DELTA_TEST_FILE_PATH_BYTES];
  delta_metrics_t metrics;
  cr_assert_null(delta_metrics_open(delta_test_file_path("m.jsonl", path), false, delta_allocator_system(), &metrics));
  cr_assert_null(delta_metrics_write_step(&metrics, &first_step));
  expect_content(path, first_line, ""); // before the file is closed
  cr_assert_null(delta_metrics_close(&metrics));
  cr_assert_null(delta_metrics_open(path, true, delta_allocator_system(), &metrics));
  cr_assert_null(delta_metrics_write_evaluation(&metrics, &evaluation));
  cr_assert_null(delta_metrics_close(&metrics));
  expect_content(path, first_line, evaluation_line);
  cr_assert_null(delta_metrics_open(path, false, delta_allocator_system(), &metrics));
  cr_assert_null(delta_metrics_write_evaluation(&metrics, &evaluation));
  cr_assert_null(delta_metrics_close(&metrics));
  cr_assert_null(delta_metrics_close(&metrics)); // twice is fine
  expect_content(path, evaluation_line, "");
  delta_test_remove_folder();
}

Test(metrics, gradient_norm_and_a_loss_that_is_none) {
  char path[DELTA_TEST_FILE_PATH_BYTES];
  delta_metrics_t metrics;
  delta_train_step_t step = {.step = 2, .epoch = 1, .loss = NAN, .has_gradient_norm = true, .gradient_norm = 3};
  cr_assert_null(delta_metrics_open(delta_test_file_path("m.jsonl", path), false, delta_allocator_system(), &metrics));
  cr_assert_null(delta_metrics_write_step(&metrics, &step));
  cr_assert_null(delta_metrics_close(&metrics));
  expect_content(path,
                 "{\"step\":2,\"epoch\":1,\"loss\":null,\"learning_rate\":0,\"gradient_norm\":3,\"seconds\":0,\"samples_per_second\":0,"
                 "\"stall_seconds\":0,\"arena_peak_bytes\":0,\"host_bytes\":0,\"events\":[]}\n",
                 "");
  delta_test_remove_folder();
}

Test(metrics, errors) {
  delta_metrics_t metrics;
  delta_status_t status = delta_metrics_open("/nowhere/m.jsonl", false, delta_allocator_system(), &metrics);
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_NOT_FOUND);
  cr_expect(strstr(delta_status_message(status), "'/nowhere/m.jsonl'"), "%s", delta_status_message(status));
  delta_status_free(status);
  cr_assert_null(delta_metrics_open("/dev/full", false, delta_allocator_system(), &metrics));
  status = delta_metrics_write_step(&metrics, &first_step);
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_IO);
  cr_expect(strstr(delta_status_message(status), "'/dev/full'") && strstr(delta_status_message(status), "space"), "%s",
            delta_status_message(status));
  delta_status_free(status);
  cr_assert_null(delta_metrics_close(&metrics));
}

Test(metrics, allocation_failures) {
  char path[DELTA_TEST_FILE_PATH_BYTES];
  bool failed = true;
  delta_test_file_path("m.jsonl", path);
  for (size_t n = 1; failed; ++n) {
    delta_metrics_t metrics;
    delta_test_allocator_t faults;
    delta_test_allocator_init(&faults, n, DELTA_TEST_FAIL_ONCE);
    delta_status_t status = delta_metrics_open(path, false, delta_test_allocator_interface(&faults), &metrics);
    if (!status) status = delta_metrics_write_step(&metrics, &first_step);
    cr_assert_null(delta_metrics_close(&metrics));
    failed = faults.call_count >= n;
    cr_expect_eq(delta_status_code(status), failed ? DELTA_STATUS_OUT_OF_MEMORY : DELTA_STATUS_OK, "allocation %zu", n);
    cr_expect_eq(faults.live_bytes, 0, "allocation %zu leaks", n);
    delta_status_free(status);
  }
  delta_test_remove_folder();
}
