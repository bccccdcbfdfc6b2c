// Dataset: SPECs, matching of shapes and types, conversions, ranges, and what is said about data that do not fit.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "runtime/data/dataset.h"
#include "tests/support/data_files.h"
#include "tests/support/data_wants.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

// x [4, 4] float32 and a label of three classes.
static void three_class_wants(delta_feed_want_t wants[2]) {
  wants[0] = delta_test_want("x", DELTA_DTYPE_FLOAT32, 2, (const int64_t[]){4, 4});
  wants[1] = delta_test_want("label", DELTA_DTYPE_INT64, 1, (const int64_t[]){4});
  wants[1].minimum = 0;
  wants[1].maximum = 3;
  wants[1].has_ignore = true;
  wants[1].ignore_value = -100;
}

static char last_line[512];

static void keep_line(void *self, delta_log_level_t level, const char *line) {
  (void)self;
  (void)level;
  snprintf(last_line, sizeof last_line, "%s", line);
}

static const delta_log_sink_t keeping_sink = {.write = keep_line};

// Opens data and reads all of them in batches of at most 4.
static delta_status_t read_through(const char *spec, const delta_feed_want_t *wants, size_t want_count, delta_allocator_t allocator) {
  delta_dataset_t *dataset = NULL;
  delta_status_t status = DELTA_OK;
  void *buffers[4] = {NULL};
  DELTA_RETURN_IF_ERROR(delta_dataset_open(spec, wants, want_count, 1, keeping_sink, allocator, &dataset));
  for (size_t i = 0; i < want_count; ++i) {
    buffers[i] = malloc((size_t)delta_shape_count_range(&wants[i].shape, 1, wants[i].shape.rank) * 4 * delta_dtype_bytes(wants[i].dtype));
  }
  for (int64_t first = 0; first < delta_dataset_samples(dataset) && !status; first += 4) {
    const int64_t samples[] = {first, first + 1, first + 2, first + 3};
    int64_t left = delta_dataset_samples(dataset) - first;
    status = delta_dataset_read(dataset, samples, left < 4 ? left : 4, buffers);
  }
  for (size_t i = 0; i < want_count; ++i) free(buffers[i]);
  delta_dataset_close(dataset);
  return status;
}

// The bad files of the shared material, with the words that their messages must have.
typedef struct broken_case {
  const char *file;
  bool accepted;
  const char *message;
} broken_case_t;

static const broken_case_t broken_cases[] = {
    {"data_good", true, NULL},
    {"label_minus1", false, "label"},
    {"label_int64_max", false, "label"},
    {"label_int64_min", false, "label"},
    {"label_2_32", false, "label"},
    {"labels_int32", true, NULL},
    {"labels_2d", false, "label"},
    {"labels_short", false, "label"},
    {"x_missing", false, "'x'"},
    {"x_features", false, "'x'"},
    {"x_3d", false, "'x'"},
    {"x_double", true, NULL},
    {"x_fortran_order", false, "'x'"},
    {"x_inf", false, "finite"},
    {"rows_7", true, NULL},
    {"x_object", false, "'x'"},
    {"npz_cut_0010", false, "npz_cut_0010.npz"},
    {"npz_cut_0060", false, "npz_cut_0060.npz"},
    {"npz_cut_0200", false, "npz_cut_0200.npz"},
    {"npz_cut_0345", false, "npz_cut_0345.npz"},
    {"npz_cut_0660", false, "npz_cut_0660.npz"},
    {"npz_cut_0689", false, "npz_cut_0689.npz"},
    {"npz_not_zip", false, "npz_not_zip.npz"},
    {"npz_bad_crc", false, "'x'"},
};

Test(dataset, shared_broken_files) {
  char folder[DELTA_TEST_PATH_BYTES];
  DELTA_SKIP_WITHOUT_SHARED("broken/data", folder);
  delta_feed_want_t wants[2];
  three_class_wants(wants);
  for (size_t i = 0; i < sizeof broken_cases / sizeof broken_cases[0]; ++i) {
    const broken_case_t *the_case = &broken_cases[i];
    char spec[DELTA_TEST_PATH_BYTES + 64];
    snprintf(spec, sizeof spec, "%s/%s.npz", folder, the_case->file);
    delta_status_t status = read_through(spec, wants, 2, delta_allocator_system());
    cr_expect_eq(status == NULL, the_case->accepted, "%s: %s", the_case->file, delta_status_message(status));
    if (the_case->message)
      cr_expect(strstr(delta_status_message(status), the_case->message), "%s: %s", the_case->file, delta_status_message(status));
    delta_status_free(status);
  }
}

Test(dataset, shared_digits) {
  char folder[DELTA_TEST_PATH_BYTES];
  DELTA_SKIP_WITHOUT_SHARED("digits", folder);
  delta_feed_want_t wants[] = {delta_test_want("x", DELTA_DTYPE_FLOAT32, 4, (const int64_t[]){64, 1, 8, 8}),
                               delta_test_want("label", DELTA_DTYPE_INT64, 1, (const int64_t[]){64})};
  wants[1].maximum = 10;
  char spec[3 * DELTA_TEST_PATH_BYTES];
  static const char *const parts[] = {"train", "test"};
  for (int i = 0; i < 2; ++i) {
    snprintf(spec, sizeof spec, "x=%s/%s_x.npy,label=%s/%s_y.npy", folder, parts[i], folder, parts[i]);
    delta_test_expect_message(read_through(spec, wants, 2, delta_allocator_system()), DELTA_STATUS_OK, NULL, parts[i]);
  }
}

// One array `a` of two samples of two elements, and what it becomes.
typedef struct conversion_case {
  const char *descr;
  delta_dtype_t dtype;
  unsigned char bytes[32];
  size_t size_bytes;
  double expected[4]; // of the wanted dtype
  const char *error;  // instead of values
} conversion_case_t;

#define LE16(v) (unsigned char)((v)&0xff), (unsigned char)((v) >> 8 & 0xff)
#define LE32(v) LE16(v), LE16((v) >> 16)
#define LE64(v) LE32((uint64_t)(v)), LE32((uint64_t)(v) >> 32)

static const conversion_case_t conversion_cases[] = {
    {"|u1", DELTA_DTYPE_FLOAT32, {0, 1, 128, 255}, 4, {0, 1, 128, 255}, NULL},
    {"|u1", DELTA_DTYPE_UINT8, {0, 1, 128, 255}, 4, {0, 1, 128, 255}, NULL},
    {"|i1", DELTA_DTYPE_FLOAT16, {0, 1, 0x80, 0xff}, 4, {0, 1, -128, -1}, NULL},
    {"|b1", DELTA_DTYPE_FLOAT32, {0, 1, 1, 0}, 4, {0, 1, 1, 0}, NULL},
    {"|b1", DELTA_DTYPE_BOOL, {0, 1, 7, 0}, 4, {0, 1, 1, 0}, NULL},
    {"|u1", DELTA_DTYPE_BOOL, {0, 1, 1, 0}, 4, {0, 1, 1, 0}, NULL},
    {"|u1", DELTA_DTYPE_BOOL, {0, 1, 2, 0}, 4, {0}, "sample 1: value 2 does not fit bool"},
    {"<i4", DELTA_DTYPE_INT64, {LE32(-5), LE32(6), LE32(7), LE32(0x7fffffff)}, 16, {-5, 6, 7, 2147483647}, NULL},
    {">i4", DELTA_DTYPE_INT64, {0, 0, 0, 1, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 2}, 16, {1, 256, -1, 2}, NULL},
    {"<i8", DELTA_DTYPE_INT32, {LE64(1), LE64(-1), LE64(2147483647), LE64(3)}, 32, {1, -1, 2147483647, 3}, NULL},
    {"<i8", DELTA_DTYPE_INT32, {LE64(1), LE64(-1), LE64(2147483648), LE64(3)}, 32, {0}, "sample 1: value 2147483648 does not fit int32"},
    {"<i8", DELTA_DTYPE_FLOAT32, {LE64(1), LE64(-1), LE64(2), LE64(3)}, 32, {1, -1, 2, 3}, NULL},
    {"<u8", DELTA_DTYPE_INT64, {LE64(1), LE64(2), LE64(3), LE64(UINT64_MAX)}, 32, {0}, "value 18446744073709551615 does not fit int64"},
    {"<u2", DELTA_DTYPE_INT32, {LE16(1), LE16(65535), LE16(3), LE16(4)}, 8, {1, 65535, 3, 4}, NULL},
    {"<f8",
     DELTA_DTYPE_FLOAT32,
     {LE64(0x3ff8000000000000), LE64(0xc000000000000000), LE64(0), LE64(0x4008000000000000)},
     32,
     {1.5, -2, 0, 3},
     NULL},
    {"<f8", DELTA_DTYPE_FLOAT32, {LE64(0), LE64(0), LE64(0x7fe0000000000000), LE64(0)}, 32, {0}, "sample 1: the value as float32 is inf"},
    {"<f4", DELTA_DTYPE_FLOAT32, {LE32(0), LE32(0x7fc00000), LE32(0), LE32(0)}, 16, {0}, "sample 0: the value as float32 is NaN"},
    {"<f2", DELTA_DTYPE_FLOAT32, {LE16(0x3e00), LE16(0xc000), LE16(0), LE16(0x4200)}, 8, {1.5, -2, 0, 3}, NULL},
    {"<f4", DELTA_DTYPE_BFLOAT16, {LE32(0x3fc00000), LE32(0xc0000000), LE32(0), LE32(0x40400000)}, 16, {1.5, -2, 0, 3}, NULL},
    {"<f4", DELTA_DTYPE_INT64, {LE32(0), LE32(0), LE32(0), LE32(0)}, 16, {0}, "is float32, the model wants int64"},
    {"<f8", DELTA_DTYPE_BOOL, {LE64(0), LE64(0), LE64(0), LE64(0)}, 32, {0}, "is float64, the model wants bool"},
};

Test(dataset, conversions) {
  for (size_t i = 0; i < sizeof conversion_cases / sizeof conversion_cases[0]; ++i) {
    const conversion_case_t *the_case = &conversion_cases[i];
    char path[DELTA_TEST_FILE_PATH_BYTES], spec[DELTA_TEST_FILE_PATH_BYTES + 8], label[64];
    delta_test_bytes_t bytes = {0};
    delta_dataset_t *dataset = NULL;
    double storage[4];
    void *const buffers[] = {storage};
    delta_feed_want_t the_want = delta_test_want("a", the_case->dtype, 2, (const int64_t[]){1, 2});
    snprintf(label, sizeof label, "case %zu, %s to %s", i, the_case->descr, delta_dtype_name(the_case->dtype));
    delta_test_npy(&bytes, the_case->descr, "(2, 2)", the_case->bytes, the_case->size_bytes);
    snprintf(spec, sizeof spec, "a=%s", delta_test_write_file("a.npy", bytes.data, bytes.count, path));
    delta_status_t status = delta_dataset_open(spec, &the_want, 1, 0, (delta_log_sink_t){0}, delta_allocator_system(), &dataset);
    if (!status) status = delta_dataset_read(dataset, (const int64_t[]){0, 1}, 2, buffers);
    delta_test_expect_message(status, the_case->error ? DELTA_STATUS_MISMATCH : DELTA_STATUS_OK, the_case->error, label);
    for (size_t e = 0; e < 4 && !the_case->error; ++e) {
      cr_expect_eq(delta_element_load_double(storage, the_case->dtype, e), the_case->expected[e], "%s, element %zu", label, e);
    }
    delta_dataset_close(dataset);
    delta_test_bytes_free(&bytes);
  }
  delta_test_remove_folder();
}

// A dataset of 10 samples of 3 int32: sample s is {3 s, 3 s + 1, 3 s + 2}.
static void write_counting(const char *name, char path[DELTA_TEST_FILE_PATH_BYTES]) {
  int32_t values[30];
  delta_test_bytes_t bytes = {0};
  for (int32_t i = 0; i < 30; ++i) values[i] = i;
  delta_test_npy(&bytes, "<i4", "(10, 3)", values, sizeof values);
  delta_test_write_file(name, bytes.data, bytes.count, path);
  delta_test_bytes_free(&bytes);
}

Test(dataset, any_order_of_samples) {
  static const int64_t orders[][6] = {{0, 1, 2, 3, 4, 5}, {9, 8, 7, 6, 5, 4}, {3, 3, 3, 4, 5, 0}, {8, 9, 0, 1, 7, 7}};
  static const delta_dtype_t dtypes[] = {DELTA_DTYPE_INT32, DELTA_DTYPE_FLOAT64}; // read straight, and converted
  char path[DELTA_TEST_FILE_PATH_BYTES], spec[DELTA_TEST_FILE_PATH_BYTES + 8];
  write_counting("a.npy", path);
  snprintf(spec, sizeof spec, "a=%s", path);
  for (size_t d = 0; d < 2; ++d) {
    delta_dataset_t *dataset;
    delta_feed_want_t the_want = delta_test_want("a", dtypes[d], 2, (const int64_t[]){6, 3});
    cr_assert_null(delta_dataset_open(spec, &the_want, 1, 0, (delta_log_sink_t){0}, delta_allocator_system(), &dataset));
    cr_assert_eq(delta_dataset_samples(dataset), 10);
    for (size_t o = 0; o < 4; ++o) {
      double storage[18];
      void *const buffers[] = {storage};
      cr_assert_null(delta_dataset_read(dataset, orders[o], 6, buffers));
      for (size_t e = 0; e < 18; ++e) {
        cr_expect_eq(delta_element_load_int64(storage, dtypes[d], e), orders[o][e / 3] * 3 + (int64_t)(e % 3), "order %zu, element %zu", o,
                     e);
      }
    }
    delta_test_expect_message(delta_dataset_read(dataset, (const int64_t[]){10}, 1, (void *const[]){NULL}), DELTA_STATUS_INVALID_ARGUMENT,
                              "10", "beyond");
    delta_test_expect_message(delta_dataset_read(dataset, (const int64_t[]){-1}, 1, (void *const[]){NULL}), DELTA_STATUS_INVALID_ARGUMENT,
                              "-1", "before");
    delta_dataset_close(dataset);
  }
  delta_test_remove_folder();
}

// Converted data pass through a staging buffer of constant size: samples larger than it come out whole.
Test(dataset, samples_larger_than_the_staging_buffer) {
  enum { ELEMENTS = 50001, SAMPLES = 3 };
  char path[DELTA_TEST_FILE_PATH_BYTES], spec[DELTA_TEST_FILE_PATH_BYTES + 8];
  double *values = malloc(SAMPLES * ELEMENTS * sizeof *values);
  float *read = malloc(2 * ELEMENTS * sizeof *read);
  delta_test_bytes_t bytes = {0};
  delta_dataset_t *dataset;
  delta_test_allocator_t counting;
  delta_feed_want_t the_want = delta_test_want("a", DELTA_DTYPE_FLOAT32, 2, (const int64_t[]){2, ELEMENTS});
  for (size_t i = 0; i < SAMPLES * ELEMENTS; ++i) values[i] = (double)i;
  delta_test_npy(&bytes, "<f8", "(3, 50001)", values, SAMPLES * ELEMENTS * sizeof *values);
  snprintf(spec, sizeof spec, "a=%s", delta_test_write_file("a.npy", bytes.data, bytes.count, path));
  delta_test_allocator_init(&counting, 0, DELTA_TEST_FAIL_ONCE);
  cr_assert_null(delta_dataset_open(spec, &the_want, 1, 0, (delta_log_sink_t){0}, delta_test_allocator_interface(&counting), &dataset));
  cr_assert_null(delta_dataset_read(dataset, (const int64_t[]){2, 1}, 2, (void *const[]){read}));
  for (size_t i = 0; i < ELEMENTS; ++i) {
    cr_assert_eq(read[i], (float)(2 * ELEMENTS + i));
    cr_assert_eq(read[ELEMENTS + i], (float)(ELEMENTS + i));
  }
  cr_expect_lt(counting.peak_bytes, 128 * 1024, "%zu bytes for a dataset of 1.2 MB", (size_t)counting.peak_bytes);
  delta_dataset_close(dataset);
  delta_test_bytes_free(&bytes);
  free(values);
  free(read);
  delta_test_remove_folder();
}

Test(dataset, ranges_and_the_ignored_value) {
  const int64_t labels[] = {0, 2, -100, 1, 3, 2};
  char path[DELTA_TEST_FILE_PATH_BYTES], spec[DELTA_TEST_FILE_PATH_BYTES + 8];
  int64_t read[6];
  delta_test_bytes_t bytes = {0};
  delta_feed_want_t wants[2];
  delta_dataset_t *dataset;
  three_class_wants(wants);
  delta_test_npy(&bytes, "<i8", "(6,)", labels, sizeof labels);
  snprintf(spec, sizeof spec, "label=%s", delta_test_write_file("label.npy", bytes.data, bytes.count, path));
  cr_assert_null(delta_dataset_open(spec, &wants[1], 1, 0, (delta_log_sink_t){0}, delta_allocator_system(), &dataset));
  delta_test_expect_message(delta_dataset_read(dataset, (const int64_t[]){0, 1, 2, 3}, 4, (void *const[]){read}), DELTA_STATUS_OK, NULL,
                            "in range");
  delta_test_expect_message(delta_dataset_read(dataset, (const int64_t[]){5, 4}, 2, (void *const[]){read}), DELTA_STATUS_MISMATCH,
                            "array 'label', sample 4: value 3 is outside 0 to 2 or -100 (ignored)", "out of range");
  delta_dataset_close(dataset);
  wants[1].has_ignore = false;
  cr_assert_null(delta_dataset_open(spec, &wants[1], 1, 0, (delta_log_sink_t){0}, delta_allocator_system(), &dataset));
  delta_test_expect_message(delta_dataset_read(dataset, (const int64_t[]){2}, 1, (void *const[]){read}), DELTA_STATUS_MISMATCH,
                            "value -100", "not ignored");
  delta_dataset_close(dataset);
  wants[1].maximum = 0;
  cr_assert_null(delta_dataset_open(spec, &wants[1], 1, 0, (delta_log_sink_t){0}, delta_allocator_system(), &dataset));
  delta_test_expect_message(delta_dataset_read(dataset, (const int64_t[]){0, 1, 2, 3, 4, 5}, 6, (void *const[]){read}), DELTA_STATUS_OK,
                            NULL, "no range");
  cr_expect_arr_eq(read, labels, sizeof labels);
  delta_dataset_close(dataset);
  delta_test_bytes_free(&bytes);
  delta_test_remove_folder();
}

Test(dataset, scale_mean_and_deviation) {
  const unsigned char pixels[] = {0, 255, 51, 102, /* second channel */ 255, 0, 204, 51};
  const double mean[] = {0.5, 0.25}, deviation[] = {0.5, 2};
  char path[DELTA_TEST_FILE_PATH_BYTES], spec[DELTA_TEST_FILE_PATH_BYTES + 64];
  float read[8];
  delta_test_bytes_t bytes = {0};
  delta_dataset_t *dataset;
  delta_feed_want_t the_want = delta_test_want("x", DELTA_DTYPE_FLOAT32, 4, (const int64_t[]){1, 2, 2, 2});
  delta_test_npy(&bytes, "|u1", "(1, 2, 2, 2)", pixels, sizeof pixels);
  delta_test_write_file("x.npy", bytes.data, bytes.count, path);
  snprintf(spec, sizeof spec, "x=%s:scale=0.00392156862745098:mean=0.5/0.25:std=0.5/2", path);
  cr_assert_null(delta_dataset_open(spec, &the_want, 1, 0, (delta_log_sink_t){0}, delta_allocator_system(), &dataset));
  cr_assert_null(delta_dataset_read(dataset, (const int64_t[]){0}, 1, (void *const[]){read}));
  for (size_t i = 0; i < 8; ++i) {
    cr_expect_float_eq(read[i], (pixels[i] / 255.0 - mean[i / 4]) / deviation[i / 4], 1e-6, "pixel %zu: %g", i, read[i]);
  }
  delta_dataset_close(dataset);
  static const struct {
    const char *options, *message;
  } refused[] = {
      {":mean=1/2/3", "3 values of mean for 2 channels"},
      {":std=1/0", "above 0"},
      {":std=-1", "above 0"},
      {":scale=1/2", "one number"},
      {":scale=", "wanted numbers"},
      {":mean=a", "wanted numbers"},
      {":mean=1//2", "wanted numbers"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
    snprintf(spec, sizeof spec, "x=%s%s", path, refused[i].options);
    delta_test_expect_message(delta_dataset_open(spec, &the_want, 1, 0, (delta_log_sink_t){0}, delta_allocator_system(), &dataset),
                              DELTA_STATUS_INVALID_ARGUMENT, refused[i].message, refused[i].options);
  }
  the_want.dtype = DELTA_DTYPE_INT64;
  snprintf(spec, sizeof spec, "x=%s:scale=2", path);
  delta_test_expect_message(delta_dataset_open(spec, &the_want, 1, 0, (delta_log_sink_t){0}, delta_allocator_system(), &dataset),
                            DELTA_STATUS_INVALID_ARGUMENT, "need a float input", "scaled integers");
  delta_test_bytes_free(&bytes);
  delta_test_remove_folder();
}

// Which SPECs are refused, and with what words. %s is the path of an npy file of shape [10, 3].
typedef struct spec_case {
  const char *spec;
  delta_status_code_t code;
  const char *message;
} spec_case_t;

static const spec_case_t spec_cases[] = {
    {"a=%s", DELTA_STATUS_OK, NULL},
    {"a=%s,other=%s", DELTA_STATUS_OK, "does not use array 'other'"},
    {"", DELTA_STATUS_INVALID_ARGUMENT, "FILE.npz"},
    {"%s", DELTA_STATUS_INVALID_ARGUMENT, "NAME=FILE.npy"},
    {"a=", DELTA_STATUS_INVALID_ARGUMENT, "wanted NAME=FILE.npy"},
    {"a=%s,", DELTA_STATUS_INVALID_ARGUMENT, "wanted NAME=FILE.npy"},
    {"=%s", DELTA_STATUS_INVALID_ARGUMENT, "wanted NAME=FILE.npy"},
    {"a=%s,a=%s", DELTA_STATUS_INVALID_ARGUMENT, "twice"},
    {"b=%s", DELTA_STATUS_NOT_FOUND, "no array 'a' (the model wants it as int32 [batch, 3]); add a=FILE.npy"},
    {"a=/nowhere/x.npy", DELTA_STATUS_NOT_FOUND, "/nowhere/x.npy"},
    {"/nowhere/x.npz", DELTA_STATUS_NOT_FOUND, "/nowhere/x.npz"},
    {"x.npz:scale=2", DELTA_STATUS_INVALID_ARGUMENT, "an npz file takes no options, there is 'scale=2'"},
    {"a=x.npy:zoom=2", DELTA_STATUS_INVALID_ARGUMENT, "unknown option 'zoom=2'"},
    {"a=x.npy:zoom=2:scale=2", DELTA_STATUS_INVALID_ARGUMENT, "unknown option 'zoom=2'"},
    {"table.csv", DELTA_STATUS_INVALID_ARGUMENT, "give csv:FILE"},
    {"train-images.idx", DELTA_STATUS_INVALID_ARGUMENT, "give idx:IMAGES,LABELS"},
    {"train-images-idx3-ubyte", DELTA_STATUS_INVALID_ARGUMENT, "give idx:IMAGES,LABELS"},
    {"x.npy", DELTA_STATUS_INVALID_ARGUMENT, "x=FILE.npy,label=LABELS.npy"},
    {"a=/nowhere/x.npz", DELTA_STATUS_NOT_FOUND, "array 'a'"},
    {"idx:one", DELTA_STATUS_INVALID_ARGUMENT, "idx:IMAGES,LABELS"},
    {"idx:/nowhere/i,/nowhere/l", DELTA_STATUS_NOT_FOUND, "/nowhere/i"},
    {"csv:", DELTA_STATUS_INVALID_ARGUMENT, "csv:FILE"},
    {"csv:/nowhere/a.csv", DELTA_STATUS_NOT_FOUND, "/nowhere/a.csv"},
    {"synthetic", DELTA_STATUS_OK, NULL},
    {"synthetic:samples=5", DELTA_STATUS_OK, NULL},
    {"synthetic:samples=0", DELTA_STATUS_INVALID_ARGUMENT, "samples=N"},
    {"synthetic:samples=5x", DELTA_STATUS_INVALID_ARGUMENT, "samples=N"},
    {"synthetic:samples=9223372036854775807", DELTA_STATUS_INVALID_ARGUMENT, "samples=N"},
    {"synthetic:samples=4611686018427387904", DELTA_STATUS_MISMATCH, "too large"},
    {"synthetic.npz", DELTA_STATUS_INVALID_ARGUMENT, "synthetic"},
};

Test(dataset, specs) {
  char path[DELTA_TEST_FILE_PATH_BYTES];
  write_counting("a.npy", path);
  for (size_t i = 0; i < sizeof spec_cases / sizeof spec_cases[0]; ++i) {
    const spec_case_t *the_case = &spec_cases[i];
    char spec[3 * DELTA_TEST_FILE_PATH_BYTES] = "";
    const char *from = the_case->spec;
    for (const char *mark = strstr(from, "%s"); mark; mark = strstr(from, "%s")) {
      snprintf(spec + strlen(spec), sizeof spec - strlen(spec), "%.*s%s", (int)(mark - from), from, path);
      from = mark + 2;
    }
    snprintf(spec + strlen(spec), sizeof spec - strlen(spec), "%s", from);
    delta_dataset_t *dataset = NULL;
    delta_feed_want_t the_want = delta_test_want("a", DELTA_DTYPE_INT32, 2, (const int64_t[]){4, 3});
    last_line[0] = '\0';
    delta_status_t status = delta_dataset_open(spec, &the_want, 1, 0, keeping_sink, delta_allocator_system(), &dataset);
    if (!status && the_case->message) cr_expect(strstr(last_line, the_case->message), "%s: note '%s'", the_case->spec, last_line);
    delta_test_expect_message(status, the_case->code, status ? the_case->message : NULL, the_case->spec);
    delta_dataset_close(dataset);
  }
  delta_test_remove_folder();
}

Test(dataset, an_archive_with_too_much_or_too_little) {
  const float x[8] = {0};
  char path[DELTA_TEST_FILE_PATH_BYTES];
  delta_test_zip_t zip = {0};
  delta_feed_want_t wants[2];
  three_class_wants(wants);
  delta_test_zip_add_array(&zip, "x", "<f4", "(2, 4)", x, sizeof x, DELTA_TEST_ZIP_STORED);
  for (int i = 0; i < 12; ++i) {
    char name[24];
    snprintf(name, sizeof name, "extra%d", i);
    delta_test_zip_add_array(&zip, name, "<f4", "(2, 4)", x, sizeof x, DELTA_TEST_ZIP_STORED);
  }
  delta_test_zip_finish(&zip);
  delta_test_write_file("data.npz", zip.archive.data, zip.archive.count, path);
  delta_test_expect_message(read_through(path, wants, 2, delta_allocator_system()), DELTA_STATUS_NOT_FOUND,
                            "data.npz: no array 'label' (the model wants it as int64 [batch]); arrays in the file: 'x', 'extra0'",
                            "too little");
  delta_test_expect_message(read_through(path, wants, 1, delta_allocator_system()), DELTA_STATUS_OK, NULL, "too much");
  cr_expect(strstr(last_line, "does not use: 'extra0'") && strstr(last_line, "and 4 more"), "%s", last_line);
  delta_test_zip_free(&zip);
  delta_test_remove_folder();
}

Test(dataset, no_samples_and_no_batch_dimension) {
  char path[DELTA_TEST_FILE_PATH_BYTES], spec[DELTA_TEST_FILE_PATH_BYTES + 8];
  delta_test_bytes_t bytes = {0};
  delta_feed_want_t the_want = delta_test_want("a", DELTA_DTYPE_FLOAT32, 2, (const int64_t[]){4, 3});
  delta_test_npy(&bytes, "<f4", "(0, 3)", "", 0);
  snprintf(spec, sizeof spec, "a=%s", delta_test_write_file("a.npy", bytes.data, bytes.count, path));
  delta_test_expect_message(read_through(spec, &the_want, 1, delta_allocator_system()), DELTA_STATUS_MISMATCH, "no samples", "empty");
  the_want.shape = (delta_shape_t){0};
  delta_test_expect_message(read_through(spec, &the_want, 1, delta_allocator_system()), DELTA_STATUS_INVALID_ARGUMENT, "scalar", "scalar");
  delta_test_expect_message(read_through(spec, &the_want, 0, delta_allocator_system()), DELTA_STATUS_INVALID_ARGUMENT, "no inputs",
                            "no wants");
  delta_test_bytes_free(&bytes);
  delta_test_remove_folder();
}

Test(dataset, allocation_failures) {
  const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const int64_t label[] = {0, 2};
  char zip_path[DELTA_TEST_FILE_PATH_BYTES], csv_path[DELTA_TEST_FILE_PATH_BYTES], x_path[DELTA_TEST_FILE_PATH_BYTES],
      label_path[DELTA_TEST_FILE_PATH_BYTES];
  char specs[5][3 * DELTA_TEST_FILE_PATH_BYTES];
  delta_test_zip_t zip = {0};
  delta_test_bytes_t x_bytes = {0}, label_bytes = {0};
  delta_feed_want_t wants[2];
  three_class_wants(wants);
  delta_test_zip_add_array(&zip, "x", "<f4", "(2, 4)", x, sizeof x, DELTA_TEST_ZIP_DEFLATED);
  delta_test_zip_add_array(&zip, "label", "<i8", "(2,)", label, sizeof label, DELTA_TEST_ZIP_STORED);
  delta_test_zip_add_array(&zip, "more", "<i8", "(2,)", label, sizeof label, DELTA_TEST_ZIP_STORED);
  delta_test_zip_finish(&zip);
  delta_test_npy(&x_bytes, "<f4", "(2, 4)", x, sizeof x);
  delta_test_npy(&label_bytes, "<i8", "(2,)", label, sizeof label);
  static const char csv[] = "a,b,c,d,e\n1,2,3,4,0\n1,2,3,4,2\n";
  snprintf(specs[0], sizeof specs[0], "%s", delta_test_write_file("data.npz", zip.archive.data, zip.archive.count, zip_path));
  snprintf(specs[1], sizeof specs[1], "csv:%s", delta_test_write_file("data.csv", csv, strlen(csv), csv_path));
  snprintf(specs[2], sizeof specs[2], "x=%s:mean=1/2/3/4,label=%s", delta_test_write_file("x.npy", x_bytes.data, x_bytes.count, x_path),
           delta_test_write_file("label.npy", label_bytes.data, label_bytes.count, label_path));
  snprintf(specs[3], sizeof specs[3], "synthetic:samples=3");
  static const unsigned char images[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8},
                             classes[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 2};
  char images_path[DELTA_TEST_FILE_PATH_BYTES], classes_path[DELTA_TEST_FILE_PATH_BYTES];
  snprintf(specs[4], sizeof specs[4], "idx:%s,%s", delta_test_write_file("images", images, sizeof images, images_path),
           delta_test_write_file("classes", classes, sizeof classes, classes_path));
  for (size_t s = 0; s < 5; ++s) {
    for (delta_test_trial_t trial = {0}; delta_test_trial_begin(&trial);) {
      delta_test_trial_end(&trial, read_through(specs[s], wants, 2, delta_test_trial_allocator(&trial)), specs[s]);
    }
  }
  delta_test_zip_free(&zip);
  delta_test_bytes_free(&x_bytes);
  delta_test_bytes_free(&label_bytes);
  delta_test_remove_folder();
}
