// Profiles as files: what is wrong is named, with the file, the member and what is wanted.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "runtime/absent.h"
#include "runtime/profile.h"
#include "tests/support/model_file.h"
#include "tests/support/planning.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

// A shipped profile with the first `from` replaced by `to`. The caller frees.
static char *edit(const char *from, const char *to) {
  char *text = NULL;
  size_t size_bytes;
  delta_test_must(delta_file_read_all(DELTA_SOURCE_FOLDER "/profiles/v100.json", 1 << 20, delta_allocator_system(), &text, &size_bytes));
  const char *place = strstr(text, from);
  cr_assert(place, "%s is not in the file", from);
  char *edited = malloc(size_bytes + strlen(to) + 1);
  sprintf(edited, "%.*s%s%s", (int)(place - text), text, to, place + strlen(from));
  delta_release(delta_allocator_system(), text);
  return edited;
}

typedef struct broken_case {
  const char *from, *to, *member, *wanted; // words of the message
} broken_case_t;

#define SPEED   "\"flops_per_second\": {\"value\": 15700000000000.0"
#define KERNELS "\"kernels\": {}"
#define MEMORY  "{\"value\": 17179869184, \"source\": \"data sheet\"}"

static const broken_case_t broken_cases[] = {
    // Missing.
    {"\"format\": \"delta profile\",", "", "format", "missing"},
    {"\"device\": \"v100\",", "", "device", "missing"},
    {"\"threads\": 1,", "", "threads", "missing"},
    {"\"memory_bytes\": " MEMORY ",", "", "numbers.memory_bytes", "missing"},
    {"\"numbers\"", "\"figures\"", "numbers", "missing"},
    {"\"kernels\"", "\"cores\"", "kernels", "missing"},
    {", \"source\": \"data sheet\"}", "}", "numbers.memory_bytes.source", "missing"},
    {"\"value\": 17179869184, ", "", "numbers.memory_bytes.value", "missing"},
    // Zero, negative, absurd, not numbers.
    {SPEED, "\"flops_per_second\": {\"value\": 0", "flops_per_second.value", "from 1e+06 to 1e+18"},
    {SPEED, "\"flops_per_second\": {\"value\": -1", "flops_per_second.value", "from 1e+06 to 1e+18"},
    {SPEED, "\"flops_per_second\": {\"value\": 1e300", "flops_per_second.value", "from 1e+06 to 1e+18"},
    {SPEED, "\"flops_per_second\": {\"value\": 1e999", "flops_per_second.value", "too large"},
    {SPEED, "\"flops_per_second\": {\"value\": \"NaN\"", "flops_per_second.value", "expected a number"},
    {SPEED, "\"flops_per_second\": {\"value\": null", "flops_per_second.value", "expected a number"},
    {SPEED, "\"flops_per_second\": {\"value\": NaN", "line", "not valid JSON"},
    {MEMORY, "16", "numbers.memory_bytes", "expected an object"},
    {"\"value\": 17179869184", "\"value\": 1e15", "reserve_bytes", NULL},
    {"\"value\": 1073741824", "\"value\": 17179869184", "reserve_bytes", "less than memory_bytes"},
    {"\"value\": 2097152", "\"value\": 2097151", "granule_bytes", "a power of two"},
    {"\"value\": 512", "\"value\": 48", "alignment_bytes", "a power of two"},
    {"\"value\": 0.75", "\"value\": 1.5", "conv_efficiency", "from 0.0001 to 1"},
    {"\"value\": 5e-06", "\"value\": 0", "launch_seconds", "from 1e-12 to 1"},
    // Other types, other words.
    {"\"threads\": 1", "\"threads\": 0", "threads", "1 to 1024"},
    {"\"threads\": 1", "\"threads\": 1.5", "threads", "an integer"},
    {"\"threads\": 1", "\"threads\": 1, \"math\": \"float16\"", "math", "'tf32'"},
    {"\"threads\": 1", "\"threads\": 1, \"math\": \"float32\"", "math", "'tf32'"},
    {"\"threads\": 1", "\"threads\": 1, \"math\": \"tf32\"", NULL, NULL},
    {"\"device\": \"v100\"", "\"device\": \"\"", "device", "1 to 47 characters"},
    {"\"device\": \"v100\"", "\"device\": 100", "device", "a string"},
    {"\"version\": 3", "\"version\": 2", "version", "--save-profile"},
    {"\"launch_seconds\"", "\"offload_drag\": {\"value\": 0.95, \"source\": \"s\"}, \"launch_seconds\"", "offload_drag", "from 0 to 0.9"},
    {"\"launch_seconds\"", "\"offload_start_seconds\": {\"value\": 1e-5, \"source\": \"s\"}, \"launch_seconds\"", NULL, NULL},
    {"delta profile", "delta plan", "format", "'delta profile'"},
    {"\"memory_efficiency\"", "\"memory_efficency\"", "memory_efficiency", "missing"},
    {"\"kernels\": {}", "\"kernels\": {}, \"more\": {}, \"kernels\": {}", "kernels", "twice"},
    {"\"launch_seconds\"", "\"lunch_seconds\": " MEMORY ", \"launch_seconds\"", "numbers.lunch_seconds", "no such number"},
    {"\"launch_seconds\"", "\"flops_per_second\": " MEMORY ", \"launch_seconds\"", "numbers.flops_per_second", "twice"},
    // Measured costs.
    {KERNELS, "\"kernels\": []", "kernels", "an object"},
    {KERNELS, "\"kernels\": {\"conv/1\": 0.5}", "kernels.conv/1", "an object"},
    {KERNELS, "\"kernels\": {\"conv/1\": {\"fast\": 1}}", "kernels.conv/1.fast", "an object"},
    {KERNELS, "\"kernels\": {\"conv/1\": {\"fast\": {}}}", "kernels.conv/1.fast.seconds", "missing"},
    {KERNELS, "\"kernels\": {\"conv/1\": {\"fast\": {\"seconds\": 0}}}", "conv/1.seconds", "to 1e+06, there is 0"},
    {KERNELS, "\"kernels\": {\"conv/1\": {\"fast\": {\"seconds\": 1e7}}}", "conv/1.seconds", "to 1e+06"},
    {KERNELS, "\"kernels\": {\"conv/1\": {\"fast\": {\"seconds\": 1, \"workspace_bytes\": -4}}}", "conv/1.workspace_bytes", "from 0"},
    {KERNELS, "\"kernels\": {\"conv/1\": {\"\": {\"seconds\": 1}}}", "kernels", "1 to 63 characters"},
    {KERNELS, "\"kernels\": {\"\": {\"fast\": {\"seconds\": 1}}}", "kernels", "1 to 95 characters"},
    {KERNELS, "\"kernels\": {\"conv/1\": {}, \"conv/1\": {}}", "kernels.conv/1", "twice"},
    {KERNELS, "\"kernels\": {\"conv/1\": {\"fast\": {\"seconds\": 1}, \"fast\": {\"seconds\": 2}}}", "conv/1.fast", "twice"},
    // Cut.
    {"\"numbers\": {", "\"numbers\": {\n", NULL, NULL},
};

static delta_status_t parse(const char *text, size_t size_bytes, delta_profile_t **out_profile) {
  return delta_profile_parse(text, size_bytes, "p.json", DELTA_PROFILE_STRICT, delta_allocator_system(), out_profile);
}

Test(profile_json, what_is_wrong_is_named) {
  for (size_t i = 0; i < sizeof broken_cases / sizeof *broken_cases; ++i) {
    const broken_case_t *row = &broken_cases[i];
    char *text = edit(row->from, row->to);
    delta_profile_t *profile = NULL;
    delta_status_t status = parse(text, strlen(text), &profile);
    if (!row->wanted) {
      cr_expect_null(status, "case %zu: %s", i, delta_status_message(status));
    } else {
      cr_expect_eq(delta_status_code(status), DELTA_STATUS_MALFORMED, "case %zu (%s): %s", i, row->to, delta_status_message(status));
      const char *const words[] = {"p.json", row->member, row->wanted};
      for (size_t w = 0; status && w < sizeof words / sizeof *words; ++w)
        cr_expect(strstr(delta_status_message(status), words[w]), "case %zu: no '%s' in: %s", i, words[w], delta_status_message(status));
    }
    delta_status_free(status);
    delta_profile_free(profile);
    free(text);
  }
}

// Wherever a file is cut, it is no profile.
Test(profile_json, truncated_files_are_refused) {
  char *text = edit(KERNELS, "\"kernels\": {\"conv/1\": {\"name\": {\"seconds\": 1, \"workspace_bytes\": 64}}}");
  const size_t size_bytes = strlen(text);
  for (size_t cut = 0; cut + 2 < size_bytes; ++cut) {
    delta_profile_t *profile = NULL;
    char *copy = calloc(cut + 1, 1);
    memcpy(copy, text, cut);
    delta_status_t status = parse(copy, cut, &profile);
    cr_expect_eq(delta_status_code(status), DELTA_STATUS_MALFORMED, "cut at %zu: %s", cut, delta_status_message(status));
    delta_status_free(status);
    delta_profile_free(profile);
    free(copy);
  }
  free(text);
}

// What is too large to be a profile is not read; a sparse file stands for it.
Test(profile_json, huge_files_are_refused) {
  delta_test_folder_t folder;
  char path[DELTA_TEST_PATH_BYTES];
  delta_device_t *device = NULL;
  delta_test_folder_make(&folder);
  FILE *file = fopen(delta_test_folder_path(&folder, "huge.json", path), "w");
  cr_assert(file && fseek(file, 1L << 30, SEEK_SET) == 0 && fputc(' ', file) == ' ' && fclose(file) == 0);
  delta_status_t status = delta_absent_device_open(path, &(delta_device_options_t){0}, delta_allocator_system(), &device);
  cr_expect(status && strstr(delta_status_message(status), "huge.json"), "%s", delta_status_message(status));
  delta_status_free(status);
  delta_test_folder_remove(&folder);
}

// Whatever allocation fails, the device is refused and nothing leaks.
Test(profile_json, failed_allocations) {
  static const delta_test_failure_t failures[] = {DELTA_TEST_FAIL_ONCE, DELTA_TEST_FAIL_FROM_THEN_ON};
  static const char path[] = DELTA_SOURCE_FOLDER "/tests/seeds/fuzz_profile/measured.json";
  for (size_t f = 0; f < sizeof failures / sizeof *failures; ++f) {
    for (delta_test_trial_t trial = {.failure = failures[f]}; delta_test_trial_begin(&trial);) {
      delta_device_t *device = NULL;
      delta_status_t status = delta_absent_device_open(path, &(delta_device_options_t){0}, delta_test_trial_allocator(&trial), &device);
      delta_device_close(device);
      delta_test_trial_end(&trial, status, "open");
    }
  }
}
